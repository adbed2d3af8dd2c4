"""Maps logical types to Arrow types and back.

| logical type | Arrow type |
|---|---|
| CHAR, VARCHAR | string |
| BINARY, VARBINARY, VARIANT, BITMAP, RAW | binary |
| BOOLEAN | bool |
| TINYINT, SMALLINT, INT, BIGINT | int8, int16, int32, int64 |
| FLOAT, DOUBLE | float, double |
| DECIMAL(p, s) | decimal128(p, s) |
| DATE | date32 |
| TIME(p) | time32[ms] for p <= 3, time64[us] for p <= 6, else time64[ns] |
| TIMESTAMP(p) | timestamp[ms] for p <= 3, timestamp[us] for p <= 6, else timestamp[ns] |
| TIMESTAMP_LTZ(p) | the same with the zone UTC |
| INTERVAL year to month | int32: months |
| INTERVAL day to second | duration[ms] |
| ARRAY<e> | list<e> |
| MULTISET<e> | map<e, int32>: an element and how often it occurs |
| MAP<k, v> | map<k, v> |
| ROW<...> | struct |
| NULL | null |

A VARIANT holds JSON text, a RAW a pickled object, a BITMAP a serialised roaring bitmap. All Arrow fields are nullable,
so that streams whose types differ in NOT NULL only have the same schema.

Source: org.apache.flink.table.runtime.arrow.ArrowUtils.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.sql.types import logical_types as lt

UTC = "UTC"


@lru_cache(maxsize=1024)
def schema_of(row_type: lt.RowType) -> pa.Schema:
    """Returns the columns of a stream of rows of this type: one per field, with its name."""
    return pa.schema([pa.field(each.name, arrow_type_of(each.type)) for each in row_type.fields])


@lru_cache(maxsize=4096)
def arrow_type_of(kind: lt.LogicalType) -> pa.DataType:
    """Returns the Arrow type of values of a logical type.

    Raises:
        UnsupportedOperationError: if the type exists in expressions only, such as SYMBOL.
    """
    make = _ARROW.get(kind.root)
    if make is None:
        raise UnsupportedOperationError(f"values of type {kind} cannot be columns")
    return make(kind)


def time_unit(precision: int) -> str:
    """Returns the Arrow unit of timestamps and times with this number of fractional digits."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _time(kind: Any) -> pa.DataType:
    unit = time_unit(kind.precision)
    return pa.time32("ms") if unit == "ms" else pa.time64(unit)


_ARROW: dict[lt.TypeRoot, Callable[[Any], pa.DataType]] = {
    lt.TypeRoot.CHAR: lambda kind: pa.string(),
    lt.TypeRoot.VARCHAR: lambda kind: pa.string(),
    lt.TypeRoot.BINARY: lambda kind: pa.binary(),
    lt.TypeRoot.VARBINARY: lambda kind: pa.binary(),
    lt.TypeRoot.VARIANT: lambda kind: pa.binary(),
    lt.TypeRoot.BITMAP: lambda kind: pa.binary(),
    lt.TypeRoot.RAW: lambda kind: pa.binary(),
    lt.TypeRoot.BOOLEAN: lambda kind: pa.bool_(),
    lt.TypeRoot.TINYINT: lambda kind: pa.int8(),
    lt.TypeRoot.SMALLINT: lambda kind: pa.int16(),
    lt.TypeRoot.INTEGER: lambda kind: pa.int32(),
    lt.TypeRoot.BIGINT: lambda kind: pa.int64(),
    lt.TypeRoot.FLOAT: lambda kind: pa.float32(),
    lt.TypeRoot.DOUBLE: lambda kind: pa.float64(),
    lt.TypeRoot.DECIMAL: lambda kind: pa.decimal128(kind.precision, kind.scale),
    lt.TypeRoot.DATE: lambda kind: pa.date32(),
    lt.TypeRoot.TIME_WITHOUT_TIME_ZONE: _time,
    lt.TypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE: lambda kind: pa.timestamp(time_unit(kind.precision)),
    lt.TypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE: lambda kind: pa.timestamp(time_unit(kind.precision), UTC),
    lt.TypeRoot.INTERVAL_YEAR_MONTH: lambda kind: pa.int32(),
    lt.TypeRoot.INTERVAL_DAY_TIME: lambda kind: pa.duration("ms"),
    lt.TypeRoot.ARRAY: lambda kind: pa.list_(arrow_type_of(kind.element)),
    lt.TypeRoot.MULTISET: lambda kind: pa.map_(arrow_type_of(kind.element), pa.int32()),
    lt.TypeRoot.MAP: lambda kind: pa.map_(arrow_type_of(kind.key), arrow_type_of(kind.value)),
    lt.TypeRoot.ROW: lambda kind: pa.struct(list(schema_of(kind))),
    lt.TypeRoot.NULL: lambda kind: pa.null(),
}


def logical_type_of(arrow_type: pa.DataType, field_name: str = "") -> lt.LogicalType:
    """Returns the nullable logical type for values of an Arrow type.

    An unsigned integer gets the next wider type, uint64 DECIMAL(20, 0), and text without a length is STRING.

    Raises:
        UnsupportedOperationError: if there is no such type. Names the field.
    """
    t = pa.types
    simple = _LOGICAL.get(arrow_type)
    if simple is not None:
        return simple
    if t.is_decimal(arrow_type) and arrow_type.precision <= lt.MAX_DECIMAL_PRECISION and arrow_type.scale >= 0:
        return lt.DecimalType(max(arrow_type.precision, arrow_type.scale), arrow_type.scale)
    if t.is_timestamp(arrow_type):
        precision = _DIGITS[arrow_type.unit]
        return lt.TimestampType(precision) if arrow_type.tz is None else lt.LocalZonedTimestampType(precision)
    if t.is_time(arrow_type):
        return lt.TimeType(_DIGITS[arrow_type.unit])
    if t.is_duration(arrow_type):
        return lt.DayTimeIntervalType()
    if t.is_dictionary(arrow_type):
        return logical_type_of(arrow_type.value_type, field_name)
    if t.is_list(arrow_type) or t.is_large_list(arrow_type) or t.is_fixed_size_list(arrow_type):
        return lt.ArrayType(logical_type_of(arrow_type.value_type, field_name))
    if t.is_fixed_size_binary(arrow_type):
        return lt.BinaryType(arrow_type.byte_width)
    if t.is_map(arrow_type):
        key = logical_type_of(arrow_type.key_type, field_name).not_null()
        return lt.MapType(key, logical_type_of(arrow_type.item_type, field_name))
    if t.is_struct(arrow_type):
        return row_type_of(pa.schema(list(arrow_type)))
    raise UnsupportedOperationError(f"column {field_name!r}: no SQL type holds Arrow's {arrow_type}")


def row_type_of(schema: pa.Schema) -> lt.RowType:
    """Returns the type of rows with these columns. Raises: as `logical_type_of`."""
    fields = [
        lt.RowField(field.name, logical_type_of(field.type, field.name).as_nullable(field.nullable)) for field in schema
    ]
    return lt.RowType(tuple(fields))


_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LOGICAL: dict[pa.DataType, lt.LogicalType] = {
    pa.null(): lt.NullType(),
    pa.bool_(): lt.BooleanType(),
    pa.int8(): lt.TinyIntType(),
    pa.int16(): lt.SmallIntType(),
    pa.int32(): lt.IntType(),
    pa.int64(): lt.BigIntType(),
    pa.uint8(): lt.SmallIntType(),
    pa.uint16(): lt.IntType(),
    pa.uint32(): lt.BigIntType(),
    pa.uint64(): lt.DecimalType(20, 0),
    pa.float16(): lt.FloatType(),
    pa.float32(): lt.FloatType(),
    pa.float64(): lt.DoubleType(),
    pa.string(): lt.VarCharType(),
    pa.large_string(): lt.VarCharType(),
    pa.string_view(): lt.VarCharType(),
    pa.binary(): lt.VarBinaryType(),
    pa.large_binary(): lt.VarBinaryType(),
    pa.date32(): lt.DateType(),
    pa.date64(): lt.DateType(),
}
