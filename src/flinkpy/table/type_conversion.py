"""Converts DataTypes of programs, and SQL texts of types, to logical types and back."""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import SqlParseError, UnsupportedOperationError, ValidationError
from flinkpy.sql.types import logical_types as lt
from flinkpy.table import types as dt

_SIMPLE: dict[type[dt.DataType], type[lt.LogicalType]] = {
    dt.BooleanType: lt.BooleanType,
    dt.TinyIntType: lt.TinyIntType,
    dt.SmallIntType: lt.SmallIntType,
    dt.IntType: lt.IntType,
    dt.BigIntType: lt.BigIntType,
    dt.FloatType: lt.FloatType,
    dt.DoubleType: lt.DoubleType,
    dt.DateType: lt.DateType,
    dt.NullType: lt.NullType,
}
_LENGTHS: dict[type[dt.DataType], type[Any]] = {
    dt.CharType: lt.CharType,
    dt.VarCharType: lt.VarCharType,
    dt.BinaryType: lt.BinaryType,
    dt.VarBinaryType: lt.VarBinaryType,
}
_PRECISIONS: dict[type[dt.DataType], type[Any]] = {
    dt.TimeType: lt.TimeType,
    dt.TimestampType: lt.TimestampType,
    dt.LocalZonedTimestampType: lt.LocalZonedTimestampType,
}


def logical_type_of(description: Any) -> lt.LogicalType:
    """Returns the logical type of a DataType, a SQL text such as `ROW<a INT NOT NULL>`, or a logical type.

    Raises:
        ValidationError: the text is no type.
        UnsupportedOperationError: SQL has no such type.
        TypeError: it is none of these.
    """
    if isinstance(description, lt.LogicalType):
        return description
    if isinstance(description, str):
        return _parsed(description)
    if not isinstance(description, dt.DataType):
        raise TypeError(f"a type must be a DataType or its SQL text, not {description!r}")
    nullable = description._nullable
    kind = type(description)
    if kind in _SIMPLE:
        return _SIMPLE[kind](nullable=nullable)
    if kind in _LENGTHS:
        return _LENGTHS[kind](description.length, nullable=nullable)  # type: ignore[attr-defined, no-any-return]
    if kind in _PRECISIONS:
        return _PRECISIONS[kind](description.precision, nullable=nullable)  # type: ignore[attr-defined, no-any-return]
    if isinstance(description, dt.DecimalType):
        return lt.DecimalType(description.precision, description.scale, nullable=nullable)
    if isinstance(description, dt.ArrayType):
        return lt.ArrayType(logical_type_of(description.element_type), nullable=nullable)
    if isinstance(description, dt.MultisetType):
        return lt.MultisetType(logical_type_of(description.element_type), nullable=nullable)
    if isinstance(description, dt.MapType):
        key, value = logical_type_of(description.key_type), logical_type_of(description.value_type)
        return lt.MapType(key, value, nullable=nullable)
    if isinstance(description, dt.RowType):
        fields = tuple(
            lt.RowField(each.name, logical_type_of(each.data_type), each.description) for each in description
        )
        return lt.RowType(fields, nullable=nullable)
    raise UnsupportedOperationError(f"{description!r} has no type in SQL")


def _parsed(text: str) -> lt.LogicalType:
    from flinkpy.sql.parser import nodes as ast
    from flinkpy.sql.parser import parse_statement
    from flinkpy.table.planner.binder.data_types import logical_type

    try:
        # CAST takes no NOT NULL, but a column definition does.
        found = parse_statement(f"CREATE TABLE t (c {text})")
    except SqlParseError as error:
        raise ValidationError(f"Could not parse type '{text}': {error.message}") from error
    if not isinstance(found, ast.CreateTable) or len(found.columns) != 1:
        raise ValidationError(f"Could not parse type '{text}'.")
    column = found.columns[0]
    if not isinstance(column, ast.PhysicalColumn) or column.constraint is not None or column.comment is not None:
        raise ValidationError(f"Could not parse type '{text}'.")
    return logical_type(column.type)
