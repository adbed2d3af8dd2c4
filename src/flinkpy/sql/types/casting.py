"""Casting rules: the types that a value can be cast to.

Implicit casts lose nothing, and the planner inserts them. Explicit casts are those that CAST accepts.

Source: org.apache.flink.table.types.logical.utils.LogicalTypeCasts.
"""

from __future__ import annotations

from collections.abc import Set

from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot as R

_TIMESTAMPS = of.TIMESTAMP
_TEXT = of.CHARACTER_STRING
_TO_NUMBER = of.NUMERIC | _TEXT | _TIMESTAMPS | {R.BOOLEAN}

#: The roots from which values are cast to a root without loss, besides the root itself.
_IMPLICIT: dict[R, Set[R]] = {
    R.VARCHAR: _TEXT,
    R.VARBINARY: of.BINARY_STRING,
    R.DECIMAL: of.NUMERIC,
    R.SMALLINT: {R.TINYINT},
    R.INTEGER: {R.TINYINT, R.SMALLINT},
    R.BIGINT: {R.TINYINT, R.SMALLINT, R.INTEGER},
    R.FLOAT: of.INTEGER_NUMERIC | {R.DECIMAL},
    R.DOUBLE: of.NUMERIC,
    R.DATE: {R.TIMESTAMP_WITHOUT_TIME_ZONE},
    R.TIME_WITHOUT_TIME_ZONE: {R.TIMESTAMP_WITHOUT_TIME_ZONE},
    R.TIMESTAMP_WITHOUT_TIME_ZONE: _TIMESTAMPS,
    R.TIMESTAMP_WITH_LOCAL_TIME_ZONE: _TIMESTAMPS,
}
#: The roots from which CAST converts values to a root, besides the implicit ones.
_EXPLICIT: dict[R, Set[R]] = {
    R.CHAR: of.PREDEFINED | of.CONSTRUCTED | {R.RAW, R.BITMAP},
    R.VARCHAR: of.PREDEFINED | of.CONSTRUCTED | {R.RAW, R.BITMAP},
    R.BOOLEAN: _TEXT | of.INTEGER_NUMERIC,
    R.BINARY: _TEXT | {R.VARBINARY, R.RAW},
    R.VARBINARY: _TEXT | {R.BINARY, R.RAW},
    R.DECIMAL: _TO_NUMBER | of.INTERVAL,
    R.TINYINT: _TO_NUMBER | of.INTERVAL,
    R.SMALLINT: _TO_NUMBER | of.INTERVAL,
    R.INTEGER: _TO_NUMBER | of.INTERVAL,
    R.BIGINT: _TO_NUMBER | of.INTERVAL,
    R.FLOAT: _TO_NUMBER,
    R.DOUBLE: _TO_NUMBER,
    R.DATE: _TIMESTAMPS | _TEXT,
    R.TIME_WITHOUT_TIME_ZONE: of.TIME | _TIMESTAMPS | _TEXT,
    R.TIMESTAMP_WITHOUT_TIME_ZONE: of.DATETIME | _TEXT | of.NUMERIC,
    R.TIMESTAMP_WITH_LOCAL_TIME_ZONE: of.DATETIME | _TEXT | of.NUMERIC,
    R.INTERVAL_YEAR_MONTH: of.EXACT_NUMERIC | _TEXT,
    R.INTERVAL_DAY_TIME: of.EXACT_NUMERIC | _TEXT,
}


def supports_implicit_cast(source: lt.LogicalType, target: lt.LogicalType) -> bool:
    """True if each value of `source` is a value of `target` without loss, nulls included."""
    return _supports(source, target, False)


def supports_explicit_cast(source: lt.LogicalType, target: lt.LogicalType) -> bool:
    """True if `CAST(source AS target)` is valid. A value may still make it fail."""
    return _supports(source, target, True)


def supports_avoiding_cast(source: lt.LogicalType, target: lt.LogicalType) -> bool:
    """True if values of `source` are values of `target` as they are: only names, lengths or nullability differ."""
    if source.nullable and not target.nullable:
        return False
    if source.as_nullable() == target.as_nullable():
        return True
    if target.root in (R.VARCHAR, R.VARBINARY):
        family = _TEXT if target.root is R.VARCHAR else of.BINARY_STRING
        return source.root in family and source.length <= target.length  # type: ignore[attr-defined]
    if source.root is not target.root or class_of(source) != class_of(target):
        return False
    if isinstance(target, lt.LocalZonedTimestampType | lt.TimestampType):
        return source.precision == target.precision  # type: ignore[attr-defined]
    if target.root in of.INTERVAL:
        return True
    return bool(target.children) and _fit(source, target, supports_avoiding_cast)


def class_of(kind: lt.LogicalType) -> str | None:
    """Returns the class of a structured type; None for other types."""
    return kind.class_name if isinstance(kind, lt.StructuredType) else None


def _supports(source: lt.LogicalType, target: lt.LogicalType, explicit: bool) -> bool:
    if source.nullable and not target.nullable and not explicit:
        return False
    if source.as_nullable() == target.as_nullable() or source.root is R.NULL:
        return True
    if source.root in of.INTERVAL and target.root in of.EXACT_NUMERIC:
        return of.is_single_field_interval(source)
    if source.root in of.EXACT_NUMERIC and target.root in of.INTERVAL:
        return of.is_single_field_interval(target)
    if target.root in of.CONSTRUCTED:
        if not explicit and class_of(source) != class_of(target):
            # A row becomes a value of a class, or the other way round, only if the query says so.
            return False
        return source.root is target.root and _fit(source, target, lambda one, other: _supports(one, other, explicit))
    if source.root in of.CONSTRUCTED and target.root not in _TEXT:
        return False
    if source.root is target.root:
        return source.root not in (R.RAW, R.SYMBOL, R.STRUCTURED_TYPE)
    if source.root in _IMPLICIT.get(target.root, frozenset()):
        return True
    return explicit and source.root in _EXPLICIT.get(target.root, frozenset())


def _fit(source: lt.LogicalType, target: lt.LogicalType, fits: object) -> bool:
    children = list(zip(source.children, target.children))
    same_number = len(source.children) == len(target.children)
    return same_number and all(fits(one, other) for one, other in children)  # type: ignore[operator]
