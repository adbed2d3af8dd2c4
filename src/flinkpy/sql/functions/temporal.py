"""Temporal functions: parts of dates and times, formats, time zones, differences, and the current time.

Source: org.apache.flink.table.utils.DateTimeUtils, org.apache.flink.table.runtime.functions.SqlFunctionUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import TableRuntimeError, ValidationError
from flinkpy.sql.functions import instants
from flinkpy.sql.functions.date_formats import DateFormat, date_format
from flinkpy.sql.functions.definition import Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.plain_texts import plain_dates, plain_timestamps
from flinkpy.sql.functions.registry import scalar
from flinkpy.sql.functions.results import BIGINT, BOOLEAN, INT, STRING, exactly, nullable
from flinkpy.sql.functions.text_values import Unparsable, parse_date, parse_timestamp
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot as R

_TEXT = "CHARACTER_STRING"
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
#: Texts of a format are looked up in a table if the timestamps of a batch span at most this many grains per row.
_TABLE_SPAN = 4
_CLOCK = SystemClock()
_DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"


# -- parts ----------------------------------------------------------------------------------------------------------


def _days_part(unit: str, days: np.ndarray) -> np.ndarray:
    dates = days.astype("M8[D]")
    years = dates.astype("M8[Y]").astype(np.int64) + 1970
    months = dates.astype("M8[M]").astype(np.int64)
    if unit == "YEAR":
        return years
    if unit == "QUARTER":
        return months % 12 // 3 + 1
    if unit == "MONTH":
        return months % 12 + 1
    if unit == "DAY":
        return (dates - dates.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1
    if unit == "DOY":
        return (dates - dates.astype("M8[Y]").astype("M8[D]")).astype(np.int64) + 1
    if unit == "DOW":
        return (days + 4) % 7 + 1
    if unit == "ISODOW":
        return (days + 3) % 7 + 1
    if unit in ("WEEK", "ISOYEAR"):
        thursday = days - (days + 3) % 7 + 3  # of the same ISO week, which has the ISO year
        year = thursday.astype("M8[D]").astype("M8[Y]")
        if unit == "ISOYEAR":
            return year.astype(np.int64) + 1970
        return (thursday - year.astype("M8[D]").astype(np.int64)) // 7 + 1
    if unit == "DECADE":
        return years // 10
    if unit == "CENTURY":
        return np.where(years > 0, (years + 99) // 100, -((99 - years) // 100))
    if unit == "MILLENNIUM":
        return np.where(years > 0, (years + 999) // 1000, -((999 - years) // 1000))
    raise ValidationError(f"{unit} is no part of a date")


def _clock_part(unit: str, ticks: np.ndarray, per_second: int) -> np.ndarray | None:
    """Returns a part of the time of day; None if the unit is none. `ticks` count from midnight."""
    if unit == "HOUR":
        return ticks // (3600 * per_second)
    if unit == "MINUTE":
        return ticks // (60 * per_second) % 60
    if unit == "SECOND":
        return ticks // per_second % 60
    if unit == "MILLISECOND":
        return ticks % per_second * 1000 // per_second
    if unit == "MICROSECOND":
        return ticks % per_second * 1_000_000 // per_second
    if unit == "NANOSECOND":
        return ticks % per_second * (1_000_000_000 // per_second)
    return None


def _interval_part(unit: str, numbers: np.ndarray, kind: lt.LogicalType) -> np.ndarray:
    sign, size = np.sign(numbers), np.abs(numbers)
    if kind.root is R.INTERVAL_YEAR_MONTH:
        parts = {"YEAR": size // 12, "MONTH": size % 12, "QUARTER": size % 12 // 3 + 1}
    else:
        parts = {"DAY": size // 86_400_000, "EPOCH": size // 1000}
        clock = _clock_part(unit, size % 86_400_000, 1000)
        if clock is not None:
            parts[unit] = clock
    if unit not in parts:
        raise ValidationError(f"{unit} is no part of {kind}")
    return sign * parts[unit]


def _extract(call: KernelCall, unit: str, value: Any, kind: lt.LogicalType) -> Any:
    array = as_array(instants.local(call, value, kind), call.num_rows)
    if kind.root in of.INTERVAL:
        numbers, valid = instants.ticks(array)
        return _bigints(_interval_part(unit, numbers, kind), valid)
    if unit == "EPOCH":
        numbers, valid = instants.ticks(as_array(value, call.num_rows))
        seconds = numbers * 86_400 if kind.root is R.DATE else numbers // _PER_SECOND[array.type.unit]
        return _bigints(seconds, valid)
    numbers, valid = instants.ticks(array)
    if kind.root is R.DATE:
        clock = _clock_part(unit, np.zeros_like(numbers), 1)
        return _bigints(_days_part(unit, numbers) if clock is None else clock, valid)
    day = instants.PER_DAY[array.type.unit]
    clock = _clock_part(unit, numbers % day, _PER_SECOND[array.type.unit])
    return _bigints(_days_part(unit, numbers // day) if clock is None else clock, valid)


def _bigints(numbers: np.ndarray, valid: np.ndarray | None) -> pa.Array:
    return pa.array(numbers, pa.int64(), mask=None if valid is None else ~valid)


@scalar("EXTRACT", "SYMBOL, TEMPORAL", returns=BIGINT)
def extract(call: KernelCall, unit: Any, value: Any) -> Any:
    return _extract(call, unit.as_py(), value, call.argument_types[1])


def _part(name: str, unit: str, accepted: str) -> None:
    @scalar(name, accepted, returns=BIGINT)
    def kernel(call: KernelCall, value: Any) -> Any:
        return _extract(call, unit, value, call.argument_types[0])


for _name, _unit in {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}.items():
    _part(_name, _unit, "TEMPORAL")


# -- formats --------------------------------------------------------------------------------------------------------


def formatted(array: pa.Array, given: DateFormat) -> pa.Array:
    """Returns timestamps without a zone as text. Computed once per distinct minute, day, ... that the format shows."""
    numbers, valid = instants.ticks(array)
    if not len(numbers):
        return pa.array([], pa.string())
    nanos = _NANOS[array.type.unit]
    grain = max(given.grain // nanos, 1)
    keys = numbers // grain if grain > 1 else numbers
    if valid is not None:
        keys = np.where(valid, keys, keys[valid][0] if valid.any() else 0)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= _TABLE_SPAN * len(keys):
        present = np.zeros(high - low + 1, bool)
        present[keys - low] = True
        distinct = np.flatnonzero(present)
        place = np.zeros(len(present), np.int32)
        place[distinct] = np.arange(len(distinct), dtype=np.int32)
        positions, distinct = place[keys - low], distinct + low
    else:
        distinct, positions = np.unique(keys, return_inverse=True)
    texts = pa.array([given.show(key * grain * nanos) for key in distinct.tolist()], pa.string())
    mask = None if valid is None else ~valid
    return texts.take(pa.array(positions, mask=mask))


@scalar(
    "DATE_FORMAT",
    f"TIMESTAMP, {_TEXT}",
    f"{_TEXT}, {_TEXT}",
    f"DATETIME, {_TEXT}",
    returns=nullable(STRING),
    is_costly=True,
)
def date_format_(call: KernelCall, value: Any, pattern: Any) -> Any:
    kind = call.argument_types[0]
    if kind.root in of.CHARACTER_STRING:

        def parsed(text: str, given: str) -> str | None:
            try:
                return date_format(given).show(parse_timestamp(text))
            except Unparsable:
                return None

        return call.per_value(parsed, value, pattern)
    array = as_array(instants.local(call, value, kind), call.num_rows)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    if isinstance(pattern, pa.Scalar):
        return formatted(array, date_format(pattern.as_py()))
    numbers, valid = instants.ticks(array)
    nanos = _NANOS[array.type.unit]
    rows = zip(numbers.tolist(), [True] * len(numbers) if valid is None else valid.tolist(), pattern.to_pylist())
    texts = [
        date_format(given).show(number * nanos) if is_valid and given is not None else None
        for number, is_valid, given in rows
    ]
    return pa.array(texts, pa.string())


@scalar("FROM_UNIXTIME", "NUMERIC", f"NUMERIC, {_TEXT}", returns=nullable(STRING), is_costly=True)
def from_unixtime(call: KernelCall, seconds: Any, pattern: Any = None) -> Any:
    millis = pc.multiply(as_array(seconds, call.num_rows).cast(pa.int64(), safe=False), 1000)
    local = instants.to_local(millis.cast(pa.timestamp("ms", "UTC")), call.settings.time_zone)
    if pattern is None or isinstance(pattern, pa.Scalar):
        return formatted(local, date_format(_DEFAULT_FORMAT if pattern is None else pattern.as_py()))
    numbers = local.cast(pa.int64())
    return call.per_value(lambda number, given: date_format(given).show(number * 1_000_000), numbers, pattern)


def _parsed(text: str, pattern: str | None) -> tuple[int, int | None] | None:
    """Returns nanoseconds since the epoch, and the offset in seconds if the text has one; None if it does not fit."""
    if pattern is None or pattern == _DEFAULT_FORMAT:
        try:
            return parse_timestamp(text), None
        except Unparsable:
            return None
    return date_format(pattern).parse(text)


def _from_texts(
    call: KernelCall,
    operands: list[Any],
    compute: Callable[..., int | None],
    kind: pa.DataType,
    plain: Callable[[pa.Array], pa.Array | None] | None = None,
) -> pa.Array:
    """Returns the numbers that `compute` makes of texts, as an array of a temporal type.

    Args:
        plain: returns the numbers of all texts at once, or None if it cannot.
    """
    narrow = pa.int32() if kind.bit_width == 32 else pa.int64()
    columns = [as_array(each, call.num_rows) for each in operands]

    def numbers(values: pa.Array, *rest: list[Any]) -> pa.Array:
        known = None if plain is None else plain(values)
        if known is not None:
            return known.cast(narrow)
        rows = zip(values.to_pylist(), *rest)
        return pa.array([None if None in row else compute(*row) for row in rows], narrow)

    fixed = [each.as_py() if isinstance(each, pa.Scalar) else None for each in operands[1:]]
    if None not in fixed:
        found = call.once_per_distinct(
            columns[0], lambda values: numbers(values, *([each] * len(values) for each in fixed))
        )
    else:
        found = numbers(columns[0], *(column.to_pylist() for column in columns[1:]))
    return found.cast(kind)


@scalar("TO_DATE", _TEXT, f"{_TEXT}, {_TEXT}", returns=nullable(lt.DateType()), is_costly=True)
def to_date(call: KernelCall, *operands: Any) -> Any:
    def compute(text: str, pattern: str | None = None) -> int | None:
        if pattern is None:
            try:
                return parse_date(text)
            except Unparsable:
                return None
        found = date_format(pattern).parse(text)
        return None if found is None else found[0] // 86_400_000_000_000

    return _from_texts(call, list(operands), compute, pa.date32(), None if operands[1:] else plain_dates)


@scalar("TO_TIMESTAMP", _TEXT, f"{_TEXT}, {_TEXT}", returns=nullable(lt.TimestampType(3)), is_costly=True)
def to_timestamp(call: KernelCall, *operands: Any) -> Any:
    def compute(text: str, pattern: str | None = None) -> int | None:
        found = _parsed(text, pattern)
        return None if found is None else found[0] // 1_000_000

    return _from_texts(call, list(operands), compute, pa.timestamp("ms"), _plain_millis(operands))


def _plain_millis(operands: Sequence[Any]) -> Callable[[pa.Array], pa.Array | None] | None:
    """Returns a function that parses texts in the default format at once; None if there is another format."""
    if operands[1:] and not (isinstance(operands[1], pa.Scalar) and operands[1].as_py() == _DEFAULT_FORMAT):
        return None

    def millis(values: pa.Array) -> pa.Array | None:
        nanos = plain_timestamps(values)
        if nanos is None:
            return None
        numbers, valid = instants.ticks(nanos)
        return instants.from_ticks(numbers // 1_000_000, valid, pa.int64())

    return millis


def _ltz_type(call: Inference) -> lt.LogicalType:
    return lt.LocalZonedTimestampType(3)


@scalar(
    "TO_TIMESTAMP_LTZ",
    "NUMERIC",
    "NUMERIC, INTEGER_NUMERIC",
    _TEXT,
    f"{_TEXT}, {_TEXT}",
    f"{_TEXT}, {_TEXT}, {_TEXT}",
    returns=_ltz_type,
    is_costly=True,
    may_fail=True,
)
def to_timestamp_ltz(call: KernelCall, value: Any, second: Any = None, zone: Any = None) -> Any:
    wanted = call.arrow_type
    if call.argument_types[0].root in of.NUMERIC:
        digits = 3 if second is None else second.as_py()
        if digits not in (0, 3):
            raise TableRuntimeError(
                f"The precision value '{digits}' for function TO_TIMESTAMP_LTZ(numeric, precision) is unsupported, "
                "the supported value is '0' for second or '3' for millisecond."
            )
        array = as_array(value, call.num_rows)
        if digits == 0:
            array = pc.multiply(
                array.cast(pa.float64()) if not pa.types.is_integer(array.type) else array.cast(pa.int64()), 1000
            )
        elif not pa.types.is_integer(array.type):
            array = pc.floor(array.cast(pa.float64()))
        return array.cast(pa.int64(), safe=False).cast(wanted)
    operands = [each for each in (value, second) if each is not None]

    def compute(text: str, pattern: str | None = None) -> int | None:
        found = _parsed(text, pattern)
        return None if found is None else found[0] // 1_000_000

    local = _from_texts(call, operands, compute, pa.timestamp("ms"))
    # Without a zone of its own, a text is in UTC.
    return instants.to_instants(local, "UTC" if zone is None else zone.as_py())


@scalar("UNIX_TIMESTAMP", "", _TEXT, f"{_TEXT}, {_TEXT}", returns=exactly(BIGINT.not_null()), is_dynamic=True)
def unix_timestamp(call: KernelCall, *operands: Any) -> Any:
    if not operands:
        return pa.scalar(_CLOCK.now_ms() // 1000, pa.int64())

    plain = _plain_millis(operands)
    if plain is not None:
        return _unix_times(call, operands[0], plain)

    def compute(text: str, pattern: str | None = None) -> int:
        found = _parsed(text, pattern)
        if found is None:
            return _UNPARSABLE
        nanos, offset = found
        local = nanos // 1_000_000
        if offset is not None:
            return local // 1000 - offset
        zoned = instants.to_instants(pa.array([local], pa.timestamp("ms")), call.settings.time_zone)
        return int(zoned.cast(pa.int64())[0].as_py()) // 1000

    return _from_texts(call, list(operands), compute, pa.int64())


#: The result of UNIX_TIMESTAMP for a text that is no timestamp.
_UNPARSABLE = -(1 << 63)


def _unix_times(call: KernelCall, texts: Any, plain: Callable[[pa.Array], pa.Array | None]) -> pa.Array:
    """UNIX_TIMESTAMP of texts in the default format, which are local times of the session."""

    def compute(text: str, *_: Any) -> int | None:
        found = _parsed(text, None)
        return None if found is None else found[0] // 1_000_000

    local = _from_texts(call, [texts], compute, pa.timestamp("ms"), plain)
    millis, valid = instants.ticks(instants.to_instants(local, call.settings.time_zone))
    seconds = instants.from_ticks(millis // 1000, valid, pa.int64())
    if seconds.null_count:
        seconds = pc.if_else(as_array(texts, call.num_rows).is_valid(), pc.fill_null(seconds, _UNPARSABLE), None)
    return seconds


@scalar("CONVERT_TZ", f"{_TEXT}, {_TEXT}, {_TEXT}", returns=nullable(STRING), is_costly=True)
def convert_tz(call: KernelCall, text: Any, source: Any, target: Any) -> Any:
    if isinstance(source, pa.Scalar) and isinstance(target, pa.Scalar) and isinstance(text, pa.Array):
        return call.once_per_distinct(text, lambda values: _moved_texts(values, source.as_py(), target.as_py()))

    def one(value: str, from_zone: str, to_zone: str) -> str | None:
        try:
            local = pa.array([parse_timestamp(value) // 1_000_000_000], pa.timestamp("s"))
        except Unparsable:
            return None
        moved = instants.to_local(instants.to_instants(local, from_zone), to_zone)
        return str(moved[0].as_py())

    return call.per_value(one, text, source, target)


def _moved_texts(texts: pa.Array, source: str, target: str) -> pa.Array:
    """Returns local times of one time zone as those of another one, without fractions; null for other texts."""
    nanos = plain_timestamps(texts)
    if nanos is not None:
        numbers, valid = instants.ticks(nanos)
        local = instants.from_ticks(numbers // 1_000_000_000, valid, pa.timestamp("s"))
    else:
        parsed = [None if each is None else _parsed(each, None) for each in texts.to_pylist()]
        seconds = [None if each is None else each[0] // 1_000_000_000 for each in parsed]
        local = pa.array(seconds, pa.int64()).cast(pa.timestamp("s"))
    moved = instants.to_local(instants.to_instants(local, source), target)
    return pc.strftime(moved, "%Y-%m-%d %H:%M:%S")


# -- differences ----------------------------------------------------------------------------------------------------

_MILLIS = {
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
    "MILLISECOND": 1,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _millis(call: KernelCall, value: Any, kind: lt.LogicalType) -> tuple[np.ndarray, np.ndarray | None]:
    array = as_array(instants.local(call, value, kind), call.num_rows)
    numbers, valid = instants.ticks(array)
    if kind.root is R.DATE:
        return numbers * 86_400_000, valid
    return numbers // (_PER_SECOND[array.type.unit] // 1000), valid


@scalar("TIMESTAMPDIFF", "SYMBOL, DATETIME, DATETIME", returns=INT)
def timestamp_diff(call: KernelCall, unit: Any, start: Any, end: Any) -> Any:
    first, valid = _millis(call, start, call.argument_types[1])
    second, is_valid = _millis(call, end, call.argument_types[2])
    valid = instants.both_valid(valid, is_valid)
    name = unit.as_py()
    difference = second - first
    if name in _MILLIS:
        result = np.sign(difference) * (np.abs(difference) // _MILLIS[name])
    elif name in _MONTHS:
        result = _whole_months(first, second)
        result = np.sign(result) * (np.abs(result) // _MONTHS[name])
    else:
        raise ValidationError(f"TIMESTAMPDIFF does not know the unit {name}")
    return pa.array(result.astype(np.int32), pa.int32(), mask=None if valid is None else ~valid)


def _difference_type(call: Inference) -> lt.LogicalType:
    if call.literal(0) == "MONTH":
        return lt.YearMonthIntervalType("MONTH", nullable=call.any_nullable)
    return lt.DayTimeIntervalType("SECOND", 2, 3, nullable=call.any_nullable)


@scalar("MINUS_DATE", "SYMBOL, DATETIME, DATETIME", returns=_difference_type)
def minus_date(call: KernelCall, unit: Any, left: Any, right: Any) -> Any:
    """The interval between two points in time, in whole months or milliseconds: (left - right) MONTH or SECOND."""
    first, valid = _millis(call, right, call.argument_types[2])
    second, is_valid = _millis(call, left, call.argument_types[1])
    valid = instants.both_valid(valid, is_valid)
    mask = None if valid is None else ~valid
    if unit.as_py() == "MONTH":
        return pa.array(_whole_months(first, second).astype(np.int32), pa.int32(), mask=mask)
    return pa.array(second - first, pa.int64(), mask=mask).cast(pa.duration("ms"))


def _whole_months(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns how many whole months lie between two timestamps in milliseconds."""
    start, end = np.minimum(first, second), np.maximum(first, second)
    day = 86_400_000
    start_days, end_days = start // day, end // day
    months = end_days.astype("M8[D]").astype("M8[M]").astype(np.int64) - start_days.astype("M8[D]").astype(
        "M8[M]"
    ).astype(np.int64)
    reached = instants.add_months(start_days, months) * day + start % day
    months = np.where(reached > end, months - 1, months)
    return np.where(first <= second, months, -months)


def _added_type(call: Inference) -> lt.LogicalType:
    return instants.moved_type(call.types[2], call)


@scalar("TIMESTAMPADD", "SYMBOL, INTEGER_NUMERIC, DATETIME", returns=_added_type)
def timestamp_add(call: KernelCall, unit: Any, count: Any, point: Any) -> Any:
    name = unit.as_py()
    is_months = name in _MONTHS
    size = _MONTHS[name] if is_months else _MILLIS.get(name)
    if size is None:
        raise ValidationError(f"TIMESTAMPADD does not know the unit {name}")
    steps = pc.multiply(as_array(count, call.num_rows).cast(pa.int64()), size)
    kind: lt.LogicalType = lt.YearMonthIntervalType() if is_months else lt.DayTimeIntervalType()
    interval = steps.cast(pa.int32() if is_months else pa.duration("ms"))
    return instants.moved(call, point, interval, kind, 1)


@scalar("OVERLAPS", "DATETIME, TEMPORAL, DATETIME, TEMPORAL", returns=BOOLEAN, aliases=("TEMPORALOVERLAPS",))
def overlaps(call: KernelCall, left: Any, left_end: Any, right: Any, right_end: Any) -> Any:
    """True if the periods (start, end or length) have a time in common."""
    periods = []
    valid: np.ndarray | None = None
    for start, end, index in ((left, left_end, 0), (right, right_end, 2)):
        first, is_valid = _millis(call, start, call.argument_types[index])
        valid = instants.both_valid(valid, is_valid)
        end_type = call.argument_types[index + 1]
        if end_type.root in of.INTERVAL:
            numbers, is_valid = instants.ticks(as_array(end, call.num_rows))
            second = first + numbers
        else:
            second, is_valid = _millis(call, end, end_type)
        valid = instants.both_valid(valid, is_valid)
        periods.append((np.minimum(first, second), np.maximum(first, second)))
    (a, b), (c, d) = periods
    return pa.array((b >= c) & (d >= a), pa.bool_(), mask=None if valid is None else ~valid)


# -- the current time -----------------------------------------------------------------------------------------------


def _now_ms(call: KernelCall) -> int:
    """Returns the time of the query in batch mode, and the current time in streaming mode."""
    return call.settings.now_ms if call.settings.now_ms is not None else _CLOCK.now_ms()


def _now(call: KernelCall) -> pa.Scalar:
    return pa.scalar(_now_ms(call), pa.timestamp("ms", "UTC"))


def _local_now(call: KernelCall) -> pa.Scalar:
    return instants.to_local(as_array(_now(call), 1), call.settings.time_zone)[0]


_INSTANT = exactly(lt.LocalZonedTimestampType(3, nullable=False))


@scalar("CURRENT_TIMESTAMP", "", returns=_INSTANT, is_dynamic=True)
def current_timestamp(call: KernelCall) -> Any:
    return _now(call)


@scalar("NOW", "", returns=_INSTANT, is_dynamic=True)
def now(call: KernelCall) -> Any:
    return _now(call)


def _watermark_type(call: Inference) -> lt.LogicalType:
    is_zoned = isinstance(call.types[0], lt.LocalZonedTimestampType)
    return lt.LocalZonedTimestampType(3) if is_zoned else lt.TimestampType(3)


@scalar("CURRENT_WATERMARK", "TIMESTAMP", returns=_watermark_type, is_deterministic=False, null_if_null=False)
def current_watermark(call: KernelCall, rowtime: Any) -> Any:
    return pa.scalar(call.watermark_ms, pa.int64()).cast(call.arrow_type)


@scalar("CURRENT_ROW_TIMESTAMP", "", returns=_INSTANT, is_deterministic=False)
def current_row_timestamp(call: KernelCall) -> Any:
    return pa.scalar(_CLOCK.now_ms(), pa.timestamp("ms", "UTC"))


@scalar(
    "PROCTIME",
    "",
    returns=exactly(lt.LocalZonedTimestampType(3, lt.TimeAttribute.PROCTIME, nullable=False)),
    is_deterministic=False,
)
def proctime(call: KernelCall) -> Any:
    return pa.scalar(_CLOCK.now_ms(), pa.timestamp("ms", "UTC"))


@scalar("PROCTIME_MATERIALIZE", "TIMESTAMP", returns=_INSTANT, is_deterministic=False, null_if_null=False)
def proctime_materialize(call: KernelCall, value: Any) -> Any:
    return as_array(proctime(call), call.num_rows)


@scalar("LOCALTIMESTAMP", "", returns=exactly(lt.TimestampType(3, nullable=False)), is_dynamic=True)
def local_timestamp(call: KernelCall) -> Any:
    return _local_now(call)


@scalar("CURRENT_DATE", "", returns=exactly(lt.DateType(nullable=False)), is_dynamic=True)
def current_date(call: KernelCall) -> Any:
    return _local_now(call).cast(pa.date32())


@scalar("LOCALTIME", "", returns=exactly(lt.TimeType(0, nullable=False)), is_dynamic=True, aliases=("CURRENT_TIME",))
def local_time(call: KernelCall) -> Any:
    millis = _local_now(call).cast(pa.int64()).as_py() % 86_400_000 // 1000 * 1000
    return pa.scalar(millis, pa.int32()).cast(pa.time32("ms"))
