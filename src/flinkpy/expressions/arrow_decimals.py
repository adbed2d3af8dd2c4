"""Decimal arithmetic with Arrow: exact, and rounded half up to the scale of the result. Too many digits give null.

Arrow's own rules are similar to those of SQL, but it refuses results that might have more than 38 digits, and it
truncates quotients. So this module looks at the values of the operands: they mostly have far fewer digits than their
types allow, and then 128 bits are enough. Otherwise it uses 256 bits.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.typeinfo import DecimalTypeInfo

#: An array, or a scalar with the same value for each row.
Value = Any

_MAX_128, _MAX_256 = 38, 76
_HALF_UP = "half_towards_infinity"
#: Arrow's 256-bit division sometimes has a wrong last digit if both numbers are longer than this. It was seen in Arrow
#: 26 with dividends of 55 or more digits and divisors of 20 or more.
_SURE_DIVIDEND, _SURE_DIVISOR = 50, 19
#: More digits than any number here, so that nothing is rounded by accident.
_CONTEXT = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)


def arrow_decimal(type_info: DecimalTypeInfo) -> pa.DataType:
    return pa.decimal128(type_info.precision, type_info.scale)


def add(one: Value, other: Value, result: DecimalTypeInfo) -> Value:
    return _binary(pc.add, one, other, result, _sum_digits, _CONTEXT.add)


def subtract(one: Value, other: Value, result: DecimalTypeInfo) -> Value:
    return _binary(pc.subtract, one, other, result, _sum_digits, _CONTEXT.subtract)


def multiply(one: Value, other: Value, result: DecimalTypeInfo) -> Value:
    return _binary(pc.multiply, one, other, result, _product_digits, _CONTEXT.multiply)


def divide(one: Value, other: Value, result: DecimalTypeInfo) -> Value:
    """Divides. The result is null where `other` is 0."""
    other = _without_zeros(other)
    divisor = _as_256(other, _digits(other))
    # Arrow truncates the quotient. One digit more than wanted is enough for exact rounding, because the digits after it
    # never decide between less than a half and a half.
    wanted = result.scale + 1
    shift = max(0, wanted - (one.type.scale + divisor.type.precision - divisor.type.scale + 1))
    digits = _digits(one)
    dividend = _rescaled(_as_256(one, digits), digits + shift, one.type.scale + shift)
    quotient_scale = max(4, dividend.type.scale + divisor.type.precision - divisor.type.scale + 1)
    is_too_long = dividend.type.precision - dividend.type.scale + divisor.type.scale + quotient_scale > _MAX_256
    if is_too_long or not _is_sure(dividend.type.precision, divisor.type.precision):
        return _each(_CONTEXT.divide, one, other, result)
    return fitted(pc.divide(dividend, divisor), result)


def remainder(one: Value, other: Value, result: DecimalTypeInfo) -> Value:
    """Returns the remainder with the sign of the dividend, like Java. It is null where `other` is 0."""
    other = _without_zeros(other)
    scale = max(one.type.scale, other.type.scale)
    dividend, divisor = (
        _relabelled(_rescaled(_as_256(each, _digits(each)), _MAX_256, scale), _MAX_256, 0) for each in (one, other)
    )
    dividend, divisor = (_relabelled(each, _digits(each), 0) for each in (dividend, divisor))
    behind_point = max(4, divisor.type.precision + 1)
    digits = dividend.type.precision + behind_point
    if digits > _MAX_256 or not _is_sure(digits, behind_point):
        return _each(_CONTEXT.remainder, one, other, result)
    quotient = pc.trunc(pc.divide(dividend, divisor)).cast(pa.decimal256(dividend.type.precision, 0))
    whole = _relabelled(pc.multiply(quotient, divisor), _MAX_256 - 1, 0)
    return fitted(_relabelled(pc.subtract(dividend, whole), _MAX_256, scale), result)


def fitted(value: Value, result: DecimalTypeInfo) -> Value:
    """Rounds half up to the scale of `result`. A value with too many digits becomes null."""
    wanted = arrow_decimal(result)
    kind = value.type
    if kind == wanted:
        return value
    if kind.scale > wanted.scale:
        # One more digit, because 9.99 becomes 10.0. Arrow cannot round away more digits than the type has.
        room = max(kind.precision + 1, kind.scale - wanted.scale + 1)
        if room > _MAX_128:
            value = _as_256(value, kind.precision)
        room = min(room, _MAX_256)
        if not _is_sure(_digits(value), kind.scale - wanted.scale):
            return _each(lambda number, _: number, value, value, result)
        value = pc.round(_relabelled(value, room, kind.scale), wanted.scale, _HALF_UP)
    if value.type.precision - value.type.scale > wanted.precision - wanted.scale:
        limit = decimal.Decimal(1).scaleb(wanted.precision - wanted.scale)
        if _largest(value) >= limit:
            value = value.cast(pa.decimal256(_MAX_256, wanted.scale))
            too_large = pc.greater_equal(pc.abs(value), pa.scalar(limit, value.type))
            value = pc.if_else(too_large, pa.scalar(None, value.type), value)
    if value.type.scale == wanted.scale and not pa.types.is_decimal256(value.type):
        return _relabelled(value, wanted.precision, wanted.scale)
    return value.cast(wanted)


def _is_sure(dividend_digits: int, divisor_digits: int) -> bool:
    """True if Arrow divides numbers with this number of digits exactly. Rounding is a division, too."""
    return dividend_digits <= _SURE_DIVIDEND or divisor_digits <= _SURE_DIVISOR


def _binary(
    function: Callable[[Value, Value], Value],
    one: Value,
    other: Value,
    result: DecimalTypeInfo,
    digits_of: Callable[[pa.DataType, pa.DataType], int],
    exact: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
) -> Value:
    if digits_of(one.type, other.type) > _MAX_128:
        one, other = (_relabelled(each, max(_digits(each), 1), each.type.scale) for each in (one, other))
        digits = digits_of(one.type, other.type)
        if digits > _MAX_256:
            return _each(exact, one, other, result)
        if digits > _MAX_128:
            one, other = (_as_256(each, each.type.precision) for each in (one, other))
    return fitted(function(one, other), result)


def _sum_digits(one: pa.DataType, other: pa.DataType) -> int:
    return int(max(one.precision - one.scale, other.precision - other.scale) + max(one.scale, other.scale) + 1)


def _product_digits(one: pa.DataType, other: pa.DataType) -> int:
    return int(one.precision + other.precision + 1)


def _largest(value: Value) -> decimal.Decimal:
    """Returns the largest absolute value, or 0 if there is none."""
    if isinstance(value, pa.Scalar):
        return _CONTEXT.abs(value.as_py() or decimal.Decimal(0))
    # As whole numbers, because Python cannot parse Arrow's text of 0 with many decimals.
    extremes = pc.min_max(_relabelled(value, value.type.precision, 0)).as_py()
    largest = max((_CONTEXT.abs(each) for each in extremes.values() if each is not None), default=decimal.Decimal(0))
    return largest.scaleb(-value.type.scale, _CONTEXT)


def _digits(value: Value) -> int:
    """Returns the largest number of digits of the values, with all decimals."""
    largest = _largest(value)
    whole = largest.adjusted() + 1 if largest else 0
    return int(min(max(1, whole + value.type.scale), value.type.precision))


def _without_zeros(value: Value) -> Value:
    zero = pa.scalar(decimal.Decimal(0), value.type)
    return pc.if_else(pc.equal(value, zero), pa.scalar(None, value.type), value)


def _relabelled(value: Value, precision: int, scale: int) -> Value:
    """Returns the same digits as another type of the same width, without a copy."""
    kind = value.type
    if (kind.precision, kind.scale) == (precision, scale):
        return value
    make = pa.decimal256 if pa.types.is_decimal256(kind) else pa.decimal128
    wanted = make(precision, scale)
    if isinstance(value, pa.Scalar):
        number = value.as_py()
        return pa.scalar(None if number is None else number.scaleb(kind.scale - scale, _CONTEXT), wanted)
    return pa.Array.from_buffers(wanted, len(value), value.buffers(), value.null_count, value.offset)


def _as_256(value: Value, precision: int) -> Value:
    """Converts to 256 bits, with a type of `precision` digits, which must be enough for the values."""
    if not pa.types.is_decimal256(value.type):
        value = value.cast(pa.decimal256(value.type.precision, value.type.scale))
    return _relabelled(value, max(1, precision), value.type.scale)


def _rescaled(value: Value, precision: int, scale: int) -> Value:
    return value.cast(pa.decimal256(min(precision, _MAX_256), scale))


def _each(
    function: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
    one: Value,
    other: Value,
    result: DecimalTypeInfo,
) -> Value:
    """Computes row by row. It is for intermediate results of more than 76 digits, which hardly occur."""
    rows = max((len(each) for each in (one, other) if isinstance(each, pa.Array)), default=1)
    step, limit = decimal.Decimal(1).scaleb(-result.scale), decimal.Decimal(1).scaleb(result.precision - result.scale)
    results: list[decimal.Decimal | None] = []
    for left, right in zip(_listed(one, rows), _listed(other, rows)):
        number = None if left is None or right is None else _CONTEXT.quantize(function(left, right), step)
        results.append(number if number is not None and _CONTEXT.abs(number) < limit else None)
    array = pa.array(results, arrow_decimal(result))
    return array if isinstance(one, pa.Array) or isinstance(other, pa.Array) else array[0]


def _listed(value: Value, rows: int) -> list[Any]:
    return [value.as_py()] * rows if isinstance(value, pa.Scalar) else value.to_pylist()
