"""Maps logical types to the TypeInformation of DataStreams and back, for the bridge between tables and DataStreams.

Source: org.apache.flink.table.types.utils.TypeInfoDataTypeConverter.
"""

from __future__ import annotations

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, TypeInformation, Types
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.internal_type_info import InternalTypeInfo, LogicalTypeInfo
from flinkpy.sql.types.logical_types import TypeRoot as R

_TYPE_INFOS: dict[R, TypeInformation] = {
    R.CHAR: Types.STRING(),
    R.VARCHAR: Types.STRING(),
    R.BOOLEAN: Types.BOOLEAN(),
    R.BINARY: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    R.VARBINARY: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    R.BITMAP: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    R.TINYINT: Types.BYTE(),
    R.SMALLINT: Types.SHORT(),
    R.INTEGER: Types.INT(),
    R.BIGINT: Types.LONG(),
    R.FLOAT: Types.FLOAT(),
    R.DOUBLE: Types.DOUBLE(),
    R.DATE: Types.SQL_DATE(),
    R.TIME_WITHOUT_TIME_ZONE: Types.SQL_TIME(),
    R.TIMESTAMP_WITHOUT_TIME_ZONE: Types.SQL_TIMESTAMP(),
    R.TIMESTAMP_WITH_LOCAL_TIME_ZONE: Types.INSTANT(),
    R.INTERVAL_YEAR_MONTH: Types.INT(),
}

_LOGICAL_TYPES: dict[BasicType, lt.LogicalType] = {
    BasicType.STRING: lt.VarCharType(),
    BasicType.CHAR: lt.CharType(1),
    BasicType.BOOLEAN: lt.BooleanType(),
    BasicType.BYTE: lt.TinyIntType(),
    BasicType.SHORT: lt.SmallIntType(),
    BasicType.INT: lt.IntType(),
    BasicType.LONG: lt.BigIntType(),
    BasicType.FLOAT: lt.FloatType(),
    BasicType.DOUBLE: lt.DoubleType(),
    BasicType.BIG_INT: lt.DecimalType(38, 0),
    BasicType.BIG_DEC: lt.DecimalType(38, 18),
    BasicType.INSTANT: lt.LocalZonedTimestampType(9),
}


def type_info_of(kind: lt.LogicalType) -> TypeInformation:
    """Returns the type of a DataStream whose records are values of `kind`.

    A type without a counterpart, such as an interval, keeps its logical type.
    """
    known = _TYPE_INFOS.get(kind.root)
    if known is not None:
        return known
    if isinstance(kind, lt.DecimalType):
        return Types.DECIMAL(kind.precision, kind.scale)
    if isinstance(kind, lt.RowType):
        return Types.ROW_NAMED(list(kind.names), [type_info_of(child) for child in kind.children])
    if isinstance(kind, lt.ArrayType):
        return Types.LIST(type_info_of(kind.element))
    if isinstance(kind, lt.MapType):
        return Types.MAP(type_info_of(kind.key), type_info_of(kind.value))
    if isinstance(kind, lt.MultisetType):
        return Types.MAP(type_info_of(kind.element), Types.INT())
    return LogicalTypeInfo(kind)


def logical_type_of_type_info(type_info: TypeInformation) -> lt.LogicalType:
    """Returns the nullable logical type for records of a DataStream. Pickled objects are RAW.

    Raises:
        UnsupportedOperationError: if there is none.
    """
    if isinstance(type_info, ti.ExternalTypeInfo):
        return logical_type_of_type_info(type_info.wrapped_type)
    if isinstance(type_info, InternalTypeInfo):
        return type_info.row_type
    if isinstance(type_info, LogicalTypeInfo):
        return type_info.logical_type
    if isinstance(type_info, ti.DecimalTypeInfo):
        return lt.DecimalType(type_info.precision, type_info.scale)
    if isinstance(type_info, ti.BasicTypeInfo):
        return _LOGICAL_TYPES[type_info.basic_type]
    if isinstance(type_info, ti.RowTypeInfo):
        types = map(logical_type_of_type_info, type_info.get_field_types())
        return lt.RowType.of(*zip(type_info.get_field_names(), types))
    if isinstance(type_info, ti.TupleTypeInfo):
        types = map(logical_type_of_type_info, type_info.get_field_types())
        return lt.RowType.of(*((f"f{index}", kind) for index, kind in enumerate(types)))
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo) and type_info.element_type == Types.BYTE():
        return lt.VarBinaryType()
    if isinstance(
        type_info, (ti.ListTypeInfo, ti.PrimitiveArrayTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
    ):
        return lt.ArrayType(logical_type_of_type_info(type_info.element_type))
    if isinstance(type_info, ti.MapTypeInfo):
        key = logical_type_of_type_info(type_info.key_type).not_null()
        return lt.MapType(key, logical_type_of_type_info(type_info.value_type))
    if isinstance(type_info, ti.PickledBytesTypeInfo):
        return lt.RawType()
    for match, kind in _TEMPORAL:
        if type_info == match:
            return kind
    raise UnsupportedOperationError(f"{type_info!r} has no SQL type")


_TEMPORAL: list[tuple[TypeInformation, lt.LogicalType]] = [
    (Types.SQL_DATE(), lt.DateType()),
    (Types.SQL_TIME(), lt.TimeType(0)),
    (Types.SQL_TIMESTAMP(), lt.TimestampType(9)),
]
