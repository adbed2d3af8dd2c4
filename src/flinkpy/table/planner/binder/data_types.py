"""Turns the types of a statement into logical types."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.program_nodes import ResolvedType
from flinkpy.table.planner.errors import invalid

_SIMPLE: dict[str, Callable[..., lt.LogicalType]] = {
    "STRING": lt.VarCharType,
    "BYTES": lt.VarBinaryType,
    "BOOLEAN": lt.BooleanType,
    "TINYINT": lt.TinyIntType,
    "SMALLINT": lt.SmallIntType,
    "INT": lt.IntType,
    "BIGINT": lt.BigIntType,
    "FLOAT": lt.FloatType,
    "DOUBLE": lt.DoubleType,
    "DATE": lt.DateType,
    "CHAR": lt.CharType,
    "BINARY": lt.BinaryType,
    "VARBINARY": lambda length=1, **options: lt.VarBinaryType(length, **options),
    "DECIMAL": lt.DecimalType,
    "TIME": lt.TimeType,
    "TIMESTAMP": lt.TimestampType,
    "TIMESTAMP_LTZ": lt.LocalZonedTimestampType,
    "NULL": lt.NullType,
    "VARIANT": lt.VariantType,
    "BITMAP": lt.BitmapType,
}
#: Longest parameters: precision of times, digits of decimals.
_LIMITS = {"TIME": 9, "TIMESTAMP": 9, "TIMESTAMP_LTZ": 9}


def logical_type(node: ast.DataType) -> lt.LogicalType:
    """Returns the type that the text names. Raises: ValidationError for unknown types and wrong parameters."""
    if isinstance(node, ResolvedType):
        return node.type
    nullable = getattr(node, "nullable", None) is not False
    if isinstance(node, ast.SimpleType):
        return _simple(node, nullable)
    if isinstance(node, ast.CollectionType):
        element = logical_type(node.element)
        if node.name == "ARRAY":
            return lt.ArrayType(element, nullable=nullable)
        return lt.MultisetType(element, nullable=nullable)
    if isinstance(node, ast.MapType):
        return lt.MapType(logical_type(node.key), logical_type(node.value), nullable=nullable)
    if isinstance(node, ast.StructuredType):
        attributes = tuple(lt.RowField(each.name.last, logical_type(each.type), each.comment) for each in node.fields)
        return lt.StructuredType(attributes, node.class_name, nullable=nullable)
    if isinstance(node, ast.RowType):
        fields = tuple(lt.RowField(each.name.last, logical_type(each.type), each.comment) for each in node.fields)
        return lt.RowType(fields, nullable=nullable)
    if isinstance(node, ast.RawType):
        return lt.RawType(node.class_name, nullable=nullable)
    if isinstance(node, ast.IntervalType):
        return interval_type(node.qualifier, nullable)
    if isinstance(node, ast.NamedType):
        raise invalid(node, f"Unknown identifier '{'.'.join(node.name.parts)}'")
    raise invalid(node, f"the type {type(node).__name__} is not supported")


def _simple(node: ast.SimpleType, nullable: bool) -> lt.LogicalType:
    name, parameters = node.name, node.parameters
    if name == "VARCHAR":
        # As in Flink's parser, VARCHAR without a length is STRING.
        return lt.VarCharType(parameters[0] if parameters else lt.MAX_LENGTH, nullable=nullable)
    if name == "TIMESTAMP WITH LOCAL TIME ZONE":
        name = "TIMESTAMP_LTZ"
    make = _SIMPLE.get(name)
    if make is None:
        raise invalid(node, f"Unsupported type: {name}")
    if name == "DECIMAL" and parameters:
        precision, scale = parameters[0], parameters[1] if len(parameters) > 1 else 0
        if not 1 <= precision <= lt.MAX_DECIMAL_PRECISION:
            raise invalid(node, "Decimal precision must be between 1 and 38 (both inclusive).")
        if not 0 <= scale <= precision:
            raise invalid(node, f"Decimal scale must be between 0 and the precision {precision} (both inclusive).")
    limit = _LIMITS.get(name)
    if limit is not None and parameters and parameters[0] > limit:
        raise invalid(node, f"{name} precision must be between 0 and 9 (both inclusive).")
    return make(*parameters, nullable=nullable)


def interval_type(qualifier: ast.IntervalQualifier, nullable: bool = True) -> lt.LogicalType:
    """Returns the type of intervals with these units."""
    start, end = qualifier.start, qualifier.end
    resolution = start if end is None or end == start else f"{start}_TO_{end}"
    if start in ("YEAR", "MONTH", "QUARTER"):
        return lt.YearMonthIntervalType(
            "MONTH" if start == "QUARTER" else resolution, qualifier.start_precision or 2, nullable=nullable
        )
    if start == "WEEK":
        resolution = "DAY"
    fraction = 6 if qualifier.fraction_precision is None else qualifier.fraction_precision
    return lt.DayTimeIntervalType(resolution, qualifier.start_precision or 2, fraction, nullable=nullable)
