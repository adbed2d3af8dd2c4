"""Functions that make expressions for the Table API. Source: pyflink.table.expressions.

Example:
    >>> from flinkpy.table.expressions import col, lit
    >>> table.select(col("name"), (col("price") * lit(2)).alias("double"))
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.expression import Expression, JsonOnNull, TimePointUnit, constant, node_of
from flinkpy.table.expression_nodes import SqlCall, TableSymbol, UnresolvedCall, UnresolvedReference, ValueLiteral
from flinkpy.table.type_conversion import logical_type_of
from flinkpy.table.types import DataType
from flinkpy.table.udf import UserDefinedFunctionWrapper

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "descriptor",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "negative",
    "not_",
    "null_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_columns",
    "without_columns",
]

#: The bounds of OVER windows: all rows before, by number or by order; the current row, or all that are equal to it.
UNBOUNDED_ROW: Expression[Any] = Expression(TableSymbol("UNBOUNDED_ROW"))
UNBOUNDED_RANGE: Expression[Any] = Expression(TableSymbol("UNBOUNDED_RANGE"))
CURRENT_ROW: Expression[Any] = Expression(TableSymbol("CURRENT_ROW"))
CURRENT_RANGE: Expression[Any] = Expression(TableSymbol("CURRENT_RANGE"))


def _call(function: Any, *arguments: Any) -> Expression[Any]:
    return Expression(UnresolvedCall(function, tuple(map(node_of, arguments))))


def _given(*arguments: Any) -> tuple[Any, ...]:
    """Returns the arguments up to the first that is None, which is one that the caller left out."""
    count = next((place for place, each in enumerate(arguments) if each is None), len(arguments))
    return arguments[:count]


def col(name: str) -> Expression[Any]:
    """Returns the column of this name."""
    return Expression(UnresolvedReference(name))


def lit(v: Any, data_type: DataType | None = None) -> Expression[Any]:
    """Returns a constant.

    Args:
        v: the value. `12` is an INT, `"abc"` a CHAR(3), `1.5` a DOUBLE, a Decimal a DECIMAL of its digits.
        data_type: another type for the value.
    """
    if data_type is None:
        return constant(v)
    return Expression(ValueLiteral(v, logical_type_of(data_type)))


def range_(start: str | int, end: str | int) -> Expression[Any]:
    """Returns the columns from one to another, by names or by places from 1, for `with_columns`."""
    return _call("rangeTo", *(UnresolvedReference(each) if isinstance(each, str) else each for each in (start, end)))


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """True if all conditions are true."""
    return _call("and", predicate0, predicate1, *predicates)


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """True if one of the conditions is true."""
    return _call("or", predicate0, predicate1, *predicates)


def not_(expression: Expression[bool]) -> Expression[bool]:
    """True for false, and null for null."""
    return _call("not", expression)


def current_database() -> Expression[Any]:
    """Returns the name of the current database."""
    return _call("currentDatabase")


def current_date() -> Expression[Any]:
    """Returns the date in the session's time zone."""
    return _call("currentDate")


def current_time() -> Expression[Any]:
    """Returns the time of day in the session's time zone."""
    return _call("currentTime")


def current_timestamp() -> Expression[Any]:
    """Returns the time as TIMESTAMP_LTZ(3)."""
    return _call("currentTimestamp")


def current_watermark(rowtimeAttribute: Any) -> Expression[Any]:
    """Returns the watermark of an event time attribute; null before the first one."""
    return _call("CURRENT_WATERMARK", rowtimeAttribute)


def local_time() -> Expression[Any]:
    """Returns the time of day in the session's time zone."""
    return _call("localTime")


def local_timestamp() -> Expression[Any]:
    """Returns the time in the session's time zone as TIMESTAMP(3)."""
    return _call("localTimestamp")


def to_date(date_str: Any, format: Any = None) -> Expression[Any]:
    """Returns the date of a text, by default of the form yyyy-MM-dd."""
    return _call("toDate", *_given(date_str, format))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression[Any]:
    """Returns the timestamp of a text, by default of the form yyyy-MM-dd HH:mm:ss."""
    return _call("toTimestamp", *_given(timestamp_str, format))


def to_timestamp_ltz(*args: Any) -> Expression[Any]:
    """Returns the time of a number and its precision, or of a text, its format and its time zone."""
    return _call("TO_TIMESTAMP_LTZ", *args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression[Any]:
    """True if two periods have a time in common. Each has a beginning, and an end or a length."""
    return _call("temporalOverlaps", left_time_point, left_temporal, right_time_point, right_temporal)


def date_format(timestamp: Any, format: Any) -> Expression[Any]:
    """Returns the text of a point in time in a format of Java's DateTimeFormatter."""
    return _call("dateFormat", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: Any, time_point2: Any) -> Expression[Any]:
    """Returns the number of units from one point in time to another."""
    return _call("timestampDiff", TableSymbol(time_point_unit.name), time_point1, time_point2)


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression[Any]:
    """Returns the text of a local time in another time zone."""
    return _call("convertTz", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression[Any]:
    """Returns the text of a number of seconds since 1970, by default of the form yyyy-MM-dd HH:mm:ss."""
    return _call("fromUnixtime", *_given(unixtime, format))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression[Any]:
    """Returns the seconds since 1970 of a text; without a text those of the current time."""
    return _call("unixTimestamp", *_given(date_str, format))


def array(head: Any, *tail: Any) -> Expression[Any]:
    """Returns an array of values."""
    return _call("array", head, *tail)


def row(head: Any, *tail: Any) -> Expression[Any]:
    """Returns a row of values."""
    return _call("row", head, *tail)


def map_(key: Any, value: Any, *tail: Any) -> Expression[Any]:
    """Returns a map of keys and values, which take turns."""
    return _call("map", key, value, *tail)


def map_from_arrays(key: Any, value: Any) -> Expression[Any]:
    """Returns the map of an array of keys and an array of values."""
    return _call("mapFromArrays", key, value)


def descriptor(*column_names: str) -> Expression[Any]:
    """Returns names of columns as an argument of a function."""
    return _call("DESCRIPTOR", *map(UnresolvedReference, column_names))


def object_of(class_name: str, *args: Any) -> Expression[Any]:
    """Returns a structured value.

    Args:
        class_name: the name of its type.
        args: names and values of its fields in turn.
    """
    return _call("OBJECT_OF", class_name, *args)


def row_interval(rows: int) -> Expression[Any]:
    """Returns a number of rows, as the size of a window."""
    return Expression(ValueLiteral(rows, lt.BigIntType(nullable=False)))


def pi() -> Expression[float]:
    """Returns 3.141592653589793."""
    return _call("pi")


def e() -> Expression[float]:
    """Returns 2.718281828459045."""
    return _call("e")


def rand(seed: Any = None) -> Expression[float]:
    """Returns a random number from 0 to 1."""
    return _call("rand", *_given(seed))


def rand_integer(bound: Any, seed: Any = None) -> Expression[Any]:
    """Returns a random integer from 0 to below a bound."""
    if seed is None:
        return _call("randInteger", bound)
    return _call("randInteger", seed, bound)


def atan2(y: Any, x: Any) -> Expression[float]:
    """Returns the arc tangent of a coordinate."""
    return _call("atan2", y, x)


def negative(v: Any) -> Expression[Any]:
    """Returns the number with the other sign."""
    return _call("minusPrefix", v)


def concat(first: Any, *others: Any) -> Expression[str]:
    """Returns texts, one after the other; null if one is null."""
    return _call("concat", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression[str]:
    """Returns the texts that are not null with a separator between them."""
    return _call("concat_ws", separator, first, *others)


def uuid() -> Expression[str]:
    """Returns a random UUID."""
    return _call("uuid")


def null_of(data_type: DataType) -> Expression[Any]:
    """Returns null of a type."""
    return Expression(ValueLiteral(None, logical_type_of(data_type)))


def log(v: Any, base: Any = None) -> Expression[float]:
    """Returns the logarithm to a base; the natural one without a base."""
    return _call("log", v) if base is None else _call("log", base, v)


def source_watermark() -> Expression[Any]:
    """Returns the watermark strategy of the source, for a schema."""
    return _call("SOURCE_WATERMARK")


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression[Any]:
    """Returns one of two values for a condition."""
    return _call("ifThenElse", condition, if_true, if_false)


def coalesce(*args: Any) -> Expression[Any]:
    """Returns the first value that is not null."""
    return _call("COALESCE", *args)


def with_all_columns() -> Expression[Any]:
    """Returns all columns."""
    return col("*")


def with_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Returns columns: by names, by places from 1, or `range_` of them."""
    return _call("withColumns", *map(_column, (head, *tails)))


def without_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Returns all columns but some, which are given as for `with_columns`."""
    return _call("withoutColumns", *map(_column, (head, *tails)))


def _column(value: Any) -> Any:
    return UnresolvedReference(value) if isinstance(value, str) else value


def json(value: Any) -> Expression[Any]:
    """Returns a text as JSON, inside `json_object` and `json_array`."""
    return _call("JSON", value)


def json_string(value: Any) -> Expression[Any]:
    """Returns a value as JSON."""
    return _call("JSON_STRING", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression[Any]:
    """Returns a JSON object of keys and values, which take turns."""
    return _call("JSON_OBJECT", TableSymbol(on_null.name), *args)


def json_object_agg(on_null: JsonOnNull, key_expr: Any, value_expr: Any) -> Expression[Any]:
    """Returns the JSON object of the keys and values of all rows."""
    return _call(f"JSON_OBJECTAGG_{on_null.name}_ON_NULL", key_expr, value_expr)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression[Any]:
    """Returns a JSON array of values."""
    return _call("JSON_ARRAY", TableSymbol(on_null.name), *args)


def json_array_agg(on_null: JsonOnNull, item_expr: Any) -> Expression[Any]:
    """Returns the JSON array of the values of all rows."""
    return _call(f"JSON_ARRAYAGG_{on_null.name}_ON_NULL", item_expr)


def lag(expr: Any, offset: int = 1, default: Any = None) -> Expression[Any]:
    """Returns the value of a row some places before, in an OVER window; the default if there is none."""
    return _call("lag", expr, *_given(offset, default))


def lead(expr: Any, offset: int = 1, default: Any = None) -> Expression[Any]:
    """Returns the value of a row some places after, in an OVER window; the default if there is none."""
    return _call("lead", expr, *_given(offset, default))


def call(f: str | UserDefinedFunctionWrapper, *args: Any) -> Expression[Any]:
    """Returns a call of a function.

    Args:
        f: the path of a registered function, the name of a built-in one, or what `udf` and its like return.
        args: the arguments.
    """
    if isinstance(f, str):
        return Expression(UnresolvedCall(f, tuple(map(node_of, args)), is_lookup=True))
    if not isinstance(f, UserDefinedFunctionWrapper):
        raise ValidationError(f"call needs the name of a function or a user-defined function, not {type(f).__name__}.")
    return f(*args)


def call_sql(sql_expression: str) -> Expression[Any]:
    """Returns an expression that is written in SQL, such as `UPPER(name) || '!'`."""
    return Expression(SqlCall(sql_expression))
