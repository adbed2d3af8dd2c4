"""Merging rules: the common type of several types, and the types of decimal arithmetic and of SUM and AVG.

Source: org.apache.flink.table.types.logical.utils.LogicalTypeMerging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.sql.types.families import precision_of, scale_of
from flinkpy.sql.types.logical_types import TypeRoot as R

_MAX = lt.MAX_DECIMAL_PRECISION
#: The digits after the decimal point that are kept if a result needs more than 38 digits.
_MIN_ADJUSTED_SCALE = 6
_UNITS = ("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND")


def find_common_type(types: Sequence[lt.LogicalType]) -> lt.LogicalType | None:
    """Returns the type that values of all types can be cast to without loss; None if there is none, or all are NULL.

    It is nullable if one of the types is.
    """
    plain = [kind.as_nullable() for kind in types]
    found = _common(plain) or _castable(plain)
    if found is None or found.root is R.NULL:
        return None
    return found.as_nullable(any(kind.nullable for kind in types))


def find_addition_decimal_type(left: lt.LogicalType, right: lt.LogicalType) -> lt.DecimalType:
    """Returns the type of the sum or difference of exact numbers. It is NOT NULL, as of all functions here."""
    p1, s1, p2, s2 = *_digits(left), *_digits(right)
    scale = max(s1, s2)
    return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def find_multiplication_decimal_type(left: lt.LogicalType, right: lt.LogicalType) -> lt.DecimalType:
    p1, s1, p2, s2 = *_digits(left), *_digits(right)
    return _adjusted(p1 + p2 + 1, s1 + s2)


def find_division_decimal_type(left: lt.LogicalType, right: lt.LogicalType) -> lt.DecimalType:
    p1, s1, p2, s2 = *_digits(left), *_digits(right)
    scale = max(_MIN_ADJUSTED_SCALE, s1 + p2 + 1)
    return _adjusted(p1 - s1 + s2 + scale, scale)


def find_modulo_decimal_type(left: lt.LogicalType, right: lt.LogicalType) -> lt.DecimalType:
    p1, s1, p2, s2 = *_digits(left), *_digits(right)
    scale = max(s1, s2)
    return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def find_round_decimal_type(precision: int, scale: int, digits: int) -> lt.DecimalType:
    """Returns the type of a decimal that is rounded to `digits` digits after the decimal point."""
    if digits >= scale:
        return lt.DecimalType(precision, scale, nullable=False)
    if digits < 0:
        return lt.DecimalType(min(_MAX, 1 + precision - scale), 0, nullable=False)
    return lt.DecimalType(1 + precision - scale + digits, digits, nullable=False)


def find_sum_agg_type(argument: lt.LogicalType) -> lt.LogicalType:
    """Returns the type of SUM over values of this type, with the argument's nullability."""
    if isinstance(argument, lt.DecimalType):
        return lt.DecimalType(_MAX, argument.scale, nullable=argument.nullable)
    return argument


def find_avg_agg_type(argument: lt.LogicalType) -> lt.LogicalType:
    """Returns the type of AVG over values of this type, with the argument's nullability."""
    if isinstance(argument, lt.DecimalType):
        total, count = lt.DecimalType(_MAX, argument.scale), lt.DecimalType(20, 0)
        return find_division_decimal_type(total, count).as_nullable(argument.nullable)
    return argument


def _digits(kind: lt.LogicalType) -> tuple[int, int]:
    return precision_of(kind), scale_of(kind)


def _adjusted(precision: int, scale: int) -> lt.DecimalType:
    """Gives up digits after the decimal point, so that those before it are kept in 38 digits."""
    if precision > _MAX:
        scale = max(_MAX - (precision - scale), min(scale, _MIN_ADJUSTED_SCALE))
        precision = _MAX
    return lt.DecimalType(precision, scale, nullable=False)


def _castable(types: Sequence[lt.LogicalType]) -> lt.LogicalType | None:
    result = types[0]
    for kind in types:
        if kind.root is R.NULL:
            continue
        if supports_implicit_cast(result, kind):
            result = kind
        elif not supports_implicit_cast(kind, result):
            return None
    return result


def _common(types: Sequence[lt.LogicalType]) -> lt.LogicalType | None:
    if any(kind.root is R.RAW for kind in types):
        return types[0] if all(kind == types[0] for kind in types) else None
    result: lt.LogicalType | None = None
    for kind in types:
        if kind.root is R.NULL:
            continue
        if result is None:
            result = kind
        pattern = _pattern(result, kind)
        if pattern is not None:
            result = pattern
            continue
        if kind.root in of.CONSTRUCTED:
            return _constructed(types)
        result = _pair(result, kind)
        if result is None:
            return None
    return lt.NullType() if result is None else result


def _pattern(left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType | None:
    """Returns the type of a point in time to which an interval, or a number of days, is added."""
    for one, other in ((left, right), (right, left)):
        if one.root in of.DATETIME and other.root in of.INTERVAL:
            return one
        if (one.root in of.TIMESTAMP or one.root is R.DATE) and other.root in of.EXACT_NUMERIC:
            return one
    return None


def _pair(left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType | None:
    for family in (of.CHARACTER_STRING, of.BINARY_STRING):
        if left.root in family and right.root in family:
            return _strings(left, right)
    if left.root in of.NUMERIC and right.root in of.NUMERIC:
        return _numbers(left, right)
    if left.root in of.TIMESTAMP and right.root in of.TIMESTAMP:
        return _timestamps(left, right)
    if left.root is not right.root:
        return None
    if isinstance(left, lt.TimeType):
        return lt.TimeType(max(precision_of(left), precision_of(right)))
    if isinstance(left, lt.DayTimeIntervalType) and isinstance(right, lt.DayTimeIntervalType):
        return lt.DayTimeIntervalType(
            _resolution(left.resolution, right.resolution, _UNITS[1]),
            max(left.day_precision, right.day_precision),
            max(left.fractional_precision, right.fractional_precision),
        )
    if isinstance(left, lt.YearMonthIntervalType) and isinstance(right, lt.YearMonthIntervalType):
        resolution = _resolution(left.resolution, right.resolution, _UNITS[0])
        return lt.YearMonthIntervalType(resolution, max(left.year_precision, right.year_precision))
    return left if left.root is R.DATE else None


def _strings(left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType:
    length = max(left.length, right.length)  # type: ignore[attr-defined]
    is_text = left.root in of.CHARACTER_STRING
    varying = {R.VARCHAR, R.VARBINARY}
    # Strings of different fixed lengths become a varying one, so that none is padded.
    fixed = left.root not in varying and left.length == right.length and right.root not in varying  # type: ignore[attr-defined]
    if is_text:
        return lt.CharType(length) if fixed else lt.VarCharType(length)
    return lt.BinaryType(length) if fixed else lt.VarBinaryType(length)


def _numbers(left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType:
    approximate = [kind for kind in (left, right) if kind.root in of.APPROXIMATE_NUMERIC]
    if len(approximate) == 2:
        return left if R.DOUBLE not in (left.root, right.root) else lt.DoubleType()
    if right.root is R.DECIMAL and approximate:
        return lt.DoubleType()
    if approximate:
        return approximate[0]
    if R.DECIMAL not in (left.root, right.root):
        return right if precision_of(right) > precision_of(left) else left
    if left == right:
        return left
    p1, s1, p2, s2 = *_digits(left), *_digits(right)
    whole = min(max(p1 - s1, p2 - s2), _MAX)
    scale = min(max(s1, s2), _MAX - whole)
    return lt.DecimalType(whole + scale, scale)


def _timestamps(left: lt.LogicalType, right: lt.LogicalType) -> lt.LogicalType:
    if left == right:
        return left
    precision = max(precision_of(left), precision_of(right))
    zoned = R.TIMESTAMP_WITH_LOCAL_TIME_ZONE in (left.root, right.root)
    return lt.LocalZonedTimestampType(precision) if zoned else lt.TimestampType(precision)


def _resolution(left: str, right: str, units: tuple[str, ...]) -> str:
    positions = [units.index(unit) for resolution in (left, right) for unit in resolution.split("_TO_")]
    first, last = units[min(positions)], units[max(positions)]
    return first if first == last else f"{first}_TO_{last}"


def _constructed(types: Sequence[lt.LogicalType]) -> lt.LogicalType | None:
    first = types[0]
    if any(kind.root is not first.root or len(kind.children) != len(first.children) for kind in types):
        return None
    children = [find_common_type([kind.children[i] for kind in types]) for i in range(len(first.children))]
    found = [child for child in children if child is not None]
    if len(found) < len(children):
        return None
    if isinstance(first, lt.ArrayType):
        return lt.ArrayType(found[0])
    if isinstance(first, lt.MultisetType):
        return lt.MultisetType(found[0])
    if isinstance(first, lt.MapType):
        return lt.MapType(*found)
    assert isinstance(first, lt.RowType)
    if isinstance(first, lt.StructuredType):
        if any(getattr(kind, "class_name", None) != first.class_name for kind in types):
            return None
        fields = tuple(replace(each, type=child) for each, child in zip(first.fields, found))
        return replace(first, fields=fields, nullable=True)
    return lt.RowType(tuple(replace(each, type=child) for each, child in zip(first.fields, found)))
