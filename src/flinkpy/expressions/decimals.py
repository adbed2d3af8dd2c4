"""Precision and scale of the results of decimal arithmetic.

The rules are those of SQL Server, Hive and Spark: a result has room for all digits. If that takes more than 38 digits,
it loses digits after the point, but keeps at least six of them.

Source: org.apache.spark.sql.types.DecimalType, org.apache.flink.table.types.logical.utils.LogicalTypeMerging.
"""

from __future__ import annotations

from flinkpy.common.typeinfo import BasicType, BasicTypeInfo, DecimalTypeInfo, TypeInformation

MAX_PRECISION = DecimalTypeInfo.MAX_PRECISION
_MIN_KEPT_SCALE = 6
_SUM_DIGITS = 10
_AVG_DIGITS = 4

#: Number of digits that hold all values of an integer type.
_INTEGER_DIGITS = {BasicType.BYTE: 3, BasicType.SHORT: 5, BasicType.INT: 10, BasicType.LONG: 20}
_BIG_DEC = (38, 18)


def digits_of(type_info: TypeInformation) -> tuple[int, int] | None:
    """Returns precision and scale of a decimal, or of one that holds an integer type; None for other types."""
    if isinstance(type_info, DecimalTypeInfo):
        return type_info.precision, type_info.scale
    if not isinstance(type_info, BasicTypeInfo):
        return None
    if type_info.basic_type is BasicType.BIG_DEC:
        return _BIG_DEC
    integer = _INTEGER_DIGITS.get(type_info.basic_type)
    return None if integer is None else (integer, 0)


def plus(one: tuple[int, int], other: tuple[int, int]) -> DecimalTypeInfo:
    """Returns the type of a sum or difference."""
    scale = max(one[1], other[1])
    return _fitted(max(one[0] - one[1], other[0] - other[1]) + scale + 1, scale)


def times(one: tuple[int, int], other: tuple[int, int]) -> DecimalTypeInfo:
    return _fitted(one[0] + other[0] + 1, one[1] + other[1])


def divide(one: tuple[int, int], other: tuple[int, int]) -> DecimalTypeInfo:
    scale = max(_MIN_KEPT_SCALE, one[1] + other[0] + 1)
    return _fitted(one[0] - one[1] + other[1] + scale, scale)


def remainder(one: tuple[int, int], other: tuple[int, int]) -> DecimalTypeInfo:
    scale = max(one[1], other[1])
    return _fitted(max(1, min(one[0] - one[1], other[0] - other[1]) + scale), scale)


def common(one: tuple[int, int], other: tuple[int, int]) -> DecimalTypeInfo:
    """Returns a type that holds the values of both, within 38 digits."""
    scale = max(one[1], other[1])
    return _bounded(max(one[0] - one[1], other[0] - other[1]) + scale, scale)


def whole(digits: tuple[int, int]) -> DecimalTypeInfo:
    """Returns the type of `floor` and `ceil`."""
    return _bounded(digits[0] - digits[1] + 1, 0)


def rounded(digits: tuple[int, int], places: int) -> DecimalTypeInfo:
    """Returns the type of a number rounded to `places` digits after the point."""
    precision, scale = digits
    if places >= scale:
        return DecimalTypeInfo(precision, scale)
    return _bounded(max(1, precision - scale + max(0, places) + 1), max(0, places))


def sum_of(digits: tuple[int, int]) -> DecimalTypeInfo:
    """Returns the type of the sum of a column."""
    return _bounded(digits[0] + _SUM_DIGITS, digits[1])


def average_of(digits: tuple[int, int]) -> DecimalTypeInfo:
    """Returns the type of the average of a column."""
    return _bounded(digits[0] + _AVG_DIGITS, digits[1] + _AVG_DIGITS)


def _fitted(precision: int, scale: int) -> DecimalTypeInfo:
    if precision <= MAX_PRECISION:
        return DecimalTypeInfo(precision, scale)
    whole_digits = precision - scale
    return DecimalTypeInfo(MAX_PRECISION, max(MAX_PRECISION - whole_digits, min(scale, _MIN_KEPT_SCALE)))


def _bounded(precision: int, scale: int) -> DecimalTypeInfo:
    return DecimalTypeInfo(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))
