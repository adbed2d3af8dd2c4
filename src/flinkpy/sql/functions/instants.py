"""Calendar arithmetic on columns: dates, times and timestamps as numbers of days, milliseconds and the like.

A TIMESTAMP_LTZ is computed in the session's time zone: it is converted to a timestamp without a zone and back.

Source: org.apache.flink.table.utils.DateTimeUtils.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError, ValidationError
from flinkpy.sql.functions.definition import Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot as R

PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_OFFSET = re.compile(r"(?:GMT|UTC|Z)?([+-]\d{1,2})(?::?(\d{2}))?$")


def zone_name(zone: str) -> str:
    """Returns a session time zone in a form that Arrow knows: an IANA name or an offset such as +08:00."""
    found = _OFFSET.match(zone)
    if found:
        hours, minutes = int(found[1]), int(found[2] or 0)
        return f"{'-' if found[1][0] == '-' else '+'}{abs(hours):02d}:{minutes:02d}"
    return "UTC" if zone in ("Z", "GMT") else zone


def to_local(array: Any, zone: str) -> Any:
    """Returns instants as timestamps without a zone, as clocks of the zone show them."""
    kind = array.type
    name = zone_name(zone)
    if name == "UTC":
        return array.cast(pa.timestamp(kind.unit))
    return pc.local_timestamp(array.cast(pa.timestamp(kind.unit, name)))


def to_instants(array: Any, zone: str) -> Any:
    """Returns the instants at which clocks of the zone show these timestamps.

    The earlier instant counts if clocks show a timestamp twice. One that they skip moves on to the end of the gap.
    """
    kind = array.type
    name = zone_name(zone)
    if name != "UTC":
        array = pc.assume_timezone(array, name, ambiguous="earliest", nonexistent="latest")
    return array.cast(pa.timestamp(kind.unit, "UTC"))


def local(call: KernelCall, value: Any, kind: lt.LogicalType) -> Any:
    """Returns a date, time or timestamp without a zone: an instant is converted to the session's zone."""
    return to_local(value, call.settings.time_zone) if isinstance(kind, lt.LocalZonedTimestampType) else value


def ticks(value: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns a temporal array as int64 numbers, and which of them are valid; None if all are."""
    narrow = pa.int32() if value.type.bit_width == 32 else pa.int64()
    numbers = value.cast(narrow)
    valid = None
    if value.null_count:
        valid = value.is_valid().to_numpy(zero_copy_only=False)
        numbers = numbers.fill_null(0)
    return numbers.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), valid


def from_ticks(numbers: np.ndarray, valid: np.ndarray | None, kind: pa.DataType) -> pa.Array:
    """Returns int64 numbers as an array of a temporal type."""
    mask = None if valid is None else ~valid
    if kind.bit_width == 32:
        return pa.array(numbers.astype(np.int32), pa.int32(), mask=mask).cast(kind)
    return pa.array(numbers, pa.int64(), mask=mask).cast(kind)


def both_valid(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def moved_type(point: lt.LogicalType, call: Inference) -> lt.LogicalType:
    """Returns the type of a point in time to which an interval is added: that of the point."""
    if isinstance(point, lt.TimestampType | lt.LocalZonedTimestampType):
        regular = type(point)(point.precision)
        return regular.as_nullable(call.any_nullable)
    return point.as_nullable(call.any_nullable)


def moved(call: KernelCall, point: Any, interval: Any, interval_type: lt.LogicalType, sign: int) -> Any:
    """Returns points in time plus or minus intervals.

    A month's day is limited to the last one of the month. A DATE ignores parts of days, and a TIME wraps around.
    """
    is_months = interval_type.root is R.INTERVAL_YEAR_MONTH
    kind = call.type
    point_type = next(each for each in call.argument_types if each.root in of.DATETIME)
    if (
        not is_months
        and isinstance(interval, pa.Scalar)
        and isinstance(kind, lt.TimestampType | lt.LocalZonedTimestampType)
    ):
        # Days of a zoned timestamp have 24 hours, too.
        factor = PER_DAY[point.type.unit] // PER_DAY["ms"]
        step = sign * interval.cast(pa.int64()).as_py() * factor
        return pc.add(point.cast(pa.int64()), step).cast(call.arrow_type)
    points = as_array(local(call, point, point_type) if is_months else point, call.num_rows)
    numbers, valid = ticks(points)
    steps, are_steps_valid = ticks(as_array(interval, call.num_rows))
    valid = both_valid(valid, are_steps_valid)
    if isinstance(kind, lt.DateType):
        result = add_months(numbers, sign * steps) if is_months else numbers + sign * _toward_zero(steps)
    elif isinstance(kind, lt.TimeType):
        unit = points.type.unit
        step = np.zeros_like(numbers) if is_months else steps * (PER_DAY[unit] // PER_DAY["ms"])
        result = (numbers + sign * step) % PER_DAY[unit]
    elif is_months:
        day = PER_DAY[points.type.unit]
        days = numbers // day
        result = add_months(days, sign * steps) * day + (numbers - days * day)
    else:
        result = numbers + sign * steps * (PER_DAY[points.type.unit] // PER_DAY["ms"])
    array = from_ticks(result, valid, points.type)
    if is_months and isinstance(point_type, lt.LocalZonedTimestampType):
        array = to_instants(array, call.settings.time_zone)
    return array if array.type == call.arrow_type else array.cast(call.arrow_type)


def _toward_zero(millis: np.ndarray) -> np.ndarray:
    return np.sign(millis) * (np.abs(millis) // PER_DAY["ms"])


def add_months(days: np.ndarray, months: np.ndarray) -> np.ndarray:
    """Returns days since the epoch moved by months, at most to the last day of the month."""
    dates = days.astype("M8[D]")
    month = dates.astype("M8[M]")
    day_of_month = (dates - month.astype("M8[D]")).astype(np.int64)
    target = month + months.astype("m8[M]")
    first = target.astype("M8[D]").astype(np.int64)
    length = (target + np.timedelta64(1, "M")).astype("M8[D]").astype(np.int64) - first
    result: np.ndarray = first + np.minimum(day_of_month, length - 1)
    return result


_SIZES = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_YEARS = {"YEAR": 1, "DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}


def rounded(call: KernelCall, value: Any, unit: str, is_ceil: bool) -> Any:
    """Returns points in time rounded down or up to a unit, such as HOUR. A week begins on Sunday."""
    kind = call.argument_types[0]
    points = as_array(local(call, value, kind), call.num_rows)
    numbers, valid = ticks(points)
    if isinstance(kind, lt.DateType):
        day = 1
    else:
        day = PER_DAY[points.type.unit]
    if unit in _SIZES and (day > 1 or unit != "DAY"):
        if day == 1:
            result = numbers
        else:
            size = _SIZES[unit] * (day // PER_DAY["ms"])
            result = -(-numbers // size) * size if is_ceil else numbers // size * size
    elif isinstance(kind, lt.TimeType):
        raise TableRuntimeError(f"a TIME cannot be rounded to {unit}")
    else:
        days = numbers // day
        start = _unit_start(days, unit) * day
        if is_ceil:
            # As in Flink, a time of day does not count on the first day of a unit.
            following = _next_unit(_unit_start(days, unit), unit) * day
            start = np.where(start == (numbers if unit == "DAY" else days * day), start, following)
        result = start
    array = from_ticks(result, valid, points.type)
    if isinstance(kind, lt.LocalZonedTimestampType):
        array = to_instants(array, call.settings.time_zone)
    return array.cast(call.arrow_type)


def _unit_start(days: np.ndarray, unit: str) -> np.ndarray:
    dates = days.astype("M8[D]")
    if unit == "DAY":
        return days
    if unit == "WEEK":
        return days - (days + 4) % 7  # the epoch was a Thursday
    if unit == "MONTH":
        return dates.astype("M8[M]").astype("M8[D]").astype(np.int64)
    if unit == "QUARTER":
        months = dates.astype("M8[M]").astype(np.int64)
        return (months // 3 * 3).astype("M8[M]").astype("M8[D]").astype(np.int64)
    if unit in _YEARS:
        years = dates.astype("M8[Y]").astype(np.int64) + 1970
        size = _YEARS[unit]
        first = years // size * size if unit in ("YEAR", "DECADE") else (years - 1) // size * size + 1
        return (first - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)
    raise ValidationError(f"{unit} is no unit to round to")


def _next_unit(starts: np.ndarray, unit: str) -> np.ndarray:
    if unit == "DAY":
        return starts + 1
    if unit == "WEEK":
        return starts + 7
    months = {"MONTH": 1, "QUARTER": 3}.get(unit) or 12 * _YEARS[unit]
    return add_months(starts, np.full(len(starts), months))
