"""Values as text and back: numbers as Java writes them, dates, times and timestamps as Flink parses them.

Source: org.apache.flink.table.data.binary.BinaryStringDataUtil, org.apache.flink.table.utils.DateTimeUtils.
"""

from __future__ import annotations

import datetime as _dt
import decimal
import math
import re
import struct
from typing import Any

import numpy as np

from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot as R

_CONTEXT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
_INTEGER = re.compile(r"([+-]?)(\d+)(?:\.\d*)?")
_FLOAT = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?)")
_DATE = re.compile(r"(\d{1,4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?")
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_EPOCH = _dt.date(1970, 1, 1).toordinal()


class Unparsable(Exception):
    """A text is no value of the type. CAST fails with its message, TRY_CAST returns null."""


def parse_integer(text: str, bits: int) -> int:
    """Returns an integer. Digits after a decimal point are cut off."""
    stripped = text.strip(" ")
    if not stripped:
        raise Unparsable(f"For input string: '{text}'. Input is empty.")
    found = _INTEGER.fullmatch(stripped)
    if found is None:
        raise Unparsable(f"For input string: '{text}'. Invalid character found.")
    number = int(found[1] + found[2])
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Unparsable(f"For input string: '{text}'. Overflow.")
    return number


def parse_float(text: str) -> float:
    stripped = text.strip()
    if _FLOAT.fullmatch(stripped) is None:
        raise Unparsable(f'For input string: "{text}"' if stripped else "empty String")
    return float(stripped.rstrip("dDfF") if stripped[-1] in "dDfF" else stripped)


def parse_decimal(text: str, precision: int, scale: int) -> decimal.Decimal:
    try:
        number = decimal.Decimal(text.strip(" "))
    except decimal.InvalidOperation:
        raise Unparsable(f"For input string: '{text}'. Invalid character found.") from None
    fitted = fit_decimal(number, precision, scale) if number.is_finite() and "_" not in text else None
    if fitted is None:
        raise Unparsable(f"For input string: '{text}'. Overflow.")
    return fitted


def fit_decimal(number: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal | None:
    """Returns the number rounded half up to a scale; None if it has too many digits."""
    if number and number.adjusted() > precision:
        return None
    rounded = number.quantize(decimal.Decimal(1).scaleb(-scale), context=_CONTEXT)
    return rounded if abs(rounded) < decimal.Decimal(10) ** (precision - scale) else None


def parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise Unparsable(f"Cannot parse '{text}' as BOOLEAN.")


def parse_date(text: str) -> int:
    """Returns days since the epoch. Month and day may be missing, and a time may follow after a blank or T."""
    stripped = text.strip()
    day = re.split(r"[ T]", stripped, maxsplit=1)[0]
    found = _DATE.fullmatch(day)
    if found is None:
        raise Unparsable(f"For input string: '{text}'.")
    try:
        return _dt.date(int(found[1]), int(found[2] or 1), int(found[3] or 1)).toordinal() - _EPOCH
    except ValueError:
        raise Unparsable(f"For input string: '{text}'.") from None


def parse_time(text: str) -> int:
    """Returns nanoseconds since midnight."""
    found = _TIME.fullmatch(text.strip())
    if found is not None:
        hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
        if hour < 24 and minute < 60 and second < 60:
            fraction = int((found[4] or "").ljust(9, "0"))
            return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction
    raise Unparsable(
        f"Invalid time format: '{text}'. Expected format: HH:mm:ss[.fff] where HH is 00-23, mm is 00-59, ss is 00-59"
    )


def parse_timestamp(text: str) -> int:
    """Returns nanoseconds since the epoch without a time zone."""
    day, _, clock = text.strip().partition(" ")
    found = _DATE.fullmatch(day)
    if found is None or found[3] is None:
        raise Unparsable(f"Text '{text}' could not be parsed")
    try:
        days = _dt.date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH
    except ValueError as error:
        raise Unparsable(f"Text '{text}' could not be parsed: {error}") from None
    try:
        return days * 86_400_000_000_000 + (parse_time(clock) if clock else 0)
    except Unparsable:
        raise Unparsable(f"Text '{text}' could not be parsed") from None


def float_text(number: float, is_double: bool) -> str:
    """Returns a number as Java's Double.toString or Float.toString does: 1.0, 1.0E10."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    shortest = repr(number) if is_double else str(np.float32(number))
    sign, digits, exponent = decimal.Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # the position of the decimal point relative to the first digit
    prefix = "-" if sign else ""
    if 1e-3 <= abs(number) < 1e7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{text}"
        return f"{prefix}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"


def year_month_text(months: int) -> str:
    sign, months = ("-", -months) if months < 0 else ("+", months)
    return f"{sign}{months // 12}-{months % 12:02d}"


def day_time_text(millis: int) -> str:
    sign, millis = ("-", -millis) if millis < 0 else ("+", millis)
    seconds, millis = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}.{millis:03d}"


def value_text(value: Any, kind: lt.LogicalType, show: Any) -> str:
    """Returns an element of an array, map or row as CAST to STRING shows it.

    Args:
        show: returns the text of a value without parts.
    """
    if value is None:
        return "NULL"
    if isinstance(kind, lt.ArrayType):
        return f"[{', '.join(value_text(each, kind.element, show) for each in value)}]"
    if isinstance(kind, lt.MapType):
        pairs = [f"{value_text(k, kind.key, show)}={value_text(v, kind.value, show)}" for k, v in value]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(kind, lt.MultisetType):
        pairs = [f"{value_text(k, kind.element, show)}={v}" for k, v in value]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(kind, lt.RowType):
        values = value.values() if isinstance(value, dict) else value
        if isinstance(kind, lt.StructuredType):
            pairs = [f"{f.name}={value_text(each, f.type, show)}" for f, each in zip(kind.fields, values)]
            return f"({', '.join(pairs)})"
        return f"({', '.join(value_text(each, child, show) for each, child in zip(values, kind.children))})"
    return show(value, kind)


def float_bits(number: float) -> float:
    """Returns the nearest FLOAT of a number."""
    return struct.unpack("f", struct.pack("f", number))[0] if math.isfinite(number) else number


NUMBER_BITS = {R.TINYINT: 8, R.SMALLINT: 16, R.INTEGER: 32, R.BIGINT: 64}
