"""Casts with Arrow. What cannot be read as the wanted type is null; integers that are too large wrap around."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import DecimalTypeInfo
from flinkpy.expressions.arrow_decimals import Value, fitted

_INTEGER = r"^[+-]?\d{1,18}$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"
_DECIMAL = r"^[+-]?(\d{1,38}\.?\d{0,30}|\.\d{1,30})$"
_DAY = r"^\d+-\d+-(?P<day>\d{1,2})"
_BOOLEANS = {"true": True, "t": True, "1": True, "yes": True, "y": True}
_NO_BOOLEANS = {"false": False, "f": False, "0": False, "no": False, "n": False}


def cast(value: Value, wanted: pa.DataType) -> Value:
    """The values as Arrow's `wanted`. Raises: UserError: no value of the one type is one of the other."""
    kind = value.type
    if kind == wanted:
        return value
    types = pa.types
    try:
        if types.is_string(kind):
            return _read(value, wanted)
        if types.is_decimal(wanted):
            return to_decimal(value, wanted)
        if types.is_integer(wanted):
            return _to_integer(value, wanted)
        if types.is_boolean(wanted) and types.is_decimal(kind):
            return pc.not_equal(value, pa.scalar(0, kind))
        return value.cast(wanted, safe=False)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UserError(f"a {kind} cannot be cast to a {wanted}: {error}") from error


def to_decimal(value: Value, wanted: pa.DataType) -> Value:
    """Numbers as decimals, rounded half up."""
    kind = value.type
    types = pa.types
    result = DecimalTypeInfo(wanted.precision, wanted.scale)
    if types.is_boolean(kind):
        value = value.cast(pa.int8())
    if types.is_integer(value.type):
        return fitted(value.cast(pa.decimal128(19, 0)), result)
    if types.is_floating(kind):
        limit = 10.0 ** (wanted.precision - wanted.scale)
        fits = pc.and_(pc.is_finite(value), pc.less(pc.abs(value), limit))
        value = pc.if_else(fits, value, pa.scalar(None, kind)).cast(pa.float64())
        rounded = pc.round(value, min(wanted.scale, 300), "half_towards_infinity")
        return fitted(rounded.cast(pa.decimal256(76, wanted.scale)), result)
    return fitted(value, result)


def _to_integer(value: Value, wanted: pa.DataType) -> Value:
    kind = value.type
    if pa.types.is_floating(kind):
        # As Java's: a number that is too large becomes the largest there is, NaN 0.
        largest = 2 ** (wanted.bit_width - 1) - 1
        value = pc.if_else(pc.is_nan(value), pa.scalar(0.0, kind), pc.trunc(value))
        too_large = pc.greater_equal(value, pa.scalar(float(largest) + 1, kind) if wanted.bit_width > 53 else largest)
        too_small = pc.less_equal(value, float(-largest - 1))
        inside = pc.if_else(pc.or_(too_large, too_small), pa.scalar(0.0, kind), value).cast(wanted, safe=False)
        inside = pc.if_else(too_large, pa.scalar(largest, wanted), inside)
        return pc.if_else(too_small, pa.scalar(-largest - 1, wanted), inside)
    if pa.types.is_decimal(kind):
        whole = pc.trunc(value)
        limit = pa.scalar(2**63, pa.decimal128(38, 0))
        fits = pc.less(pc.abs(whole).cast(pa.decimal256(76, kind.scale)), limit.cast(pa.decimal256(76, kind.scale)))
        whole = pc.if_else(fits, whole, pa.scalar(None, kind))
        return whole.cast(pa.int64()).cast(wanted, safe=False)
    return value.cast(wanted, safe=False)


def _read(value: Value, wanted: pa.DataType) -> Value:
    types = pa.types
    text = pc.utf8_trim_whitespace(value)
    if types.is_boolean(wanted):
        lower = pc.utf8_lower(text)
        yes = pc.is_in(lower, value_set=pa.array(list(_BOOLEANS)))
        no = pc.is_in(lower, value_set=pa.array(list(_NO_BOOLEANS)))
        return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))
    if types.is_integer(wanted):
        number = _matching(text, _INTEGER).cast(pa.int64())
        small = number.cast(wanted, safe=False)
        return pc.if_else(pc.equal(small.cast(pa.int64()), number), small, pa.scalar(None, wanted))
    if types.is_floating(wanted):
        return _matching(text, _NUMBER).cast(wanted)
    if types.is_decimal(wanted):
        exact = _matching(text, _DECIMAL).cast(pa.decimal256(76, 30))
        return fitted(exact, DecimalTypeInfo(wanted.precision, wanted.scale))
    if types.is_date(wanted):
        return _time(text, "%Y-%m-%d").cast(wanted)
    if types.is_timestamp(wanted):
        with_space = pc.replace_substring(text, "T", " ")
        whole = pc.utf8_slice_codeunits(with_space, 0, 19)
        return pc.coalesce(_time(whole, "%Y-%m-%d %H:%M:%S"), _time(whole, "%Y-%m-%d")).cast(wanted)
    return value.cast(wanted, safe=False)


def _time(text: Value, form: str) -> Any:
    """Null where it is none; a 30th of February, which Arrow takes for a day in March, is none."""
    time = pc.strptime(text, format=form, unit="us", error_is_null=True)
    written = pc.struct_field(pc.extract_regex(text, _DAY), "day").cast(pa.int64())
    return pc.if_else(pc.equal(pc.day(time), written), time, pa.scalar(None, time.type))


def _matching(text: Value, pattern: str) -> Value:
    """Null where it does not match."""
    return pc.if_else(pc.match_substring_regex(text, pattern), text, pa.scalar(None, pa.string()))
