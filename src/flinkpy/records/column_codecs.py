"""Column codecs: convert lists of Python values of one type to Arrow arrays and back."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import BasicType, EitherTypeInfo, EnumTypeInfo, SetTypeInfo, TypeInformation
from flinkpy.records.nested_codecs import EitherCodec, ListCodec, MapCodec, PickledCodec, SetCodec, StructCodec
from flinkpy.records.scalar_codecs import (
    BASIC_CODECS,
    TEMPORAL_CODECS,
    CheckedCodec,
    ColumnCodec,
    big_decimal_codec,
    check_bytes,
    decimal_codec,
    enum_codec,
)


@lru_cache(maxsize=1024)
def codec_of(type_info: TypeInformation, is_exact: bool = False) -> ColumnCodec:
    """Returns the codec of a type. For PICKLED_BYTE_ARRAY, it is the codec of a field inside a record.

    Args:
        is_exact: True to encode BIG_DEC as text, which keeps every digit; False for decimals of 38 digits.
    """
    if isinstance(type_info, ti.ExternalTypeInfo):
        return codec_of(type_info.wrapped_type, is_exact)
    if isinstance(type_info, ti.DecimalTypeInfo):
        return decimal_codec(type_info)
    if isinstance(type_info, ti.BasicTypeInfo):
        if is_exact and type_info.basic_type is BasicType.BIG_DEC:
            return big_decimal_codec(type_info)
        return BASIC_CODECS[type_info.basic_type](type_info)
    if isinstance(type_info, ti.RowTypeInfo):
        fields = [codec_of(field, is_exact) for field in type_info.get_field_types()]
        return StructCodec(type_info, type_info.get_field_names(), fields, True)
    if isinstance(type_info, ti.TupleTypeInfo):
        fields = [codec_of(field, is_exact) for field in type_info.get_field_types()]
        return StructCodec(type_info, [f"f{i}" for i in range(len(fields))], fields, False)
    if isinstance(type_info, ti.PrimitiveArrayTypeInfo) and _is_byte(type_info.element_type):
        return CheckedCodec(type_info, pa.binary(), check_bytes)
    if isinstance(
        type_info, (ti.ListTypeInfo, ti.PrimitiveArrayTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
    ):
        return ListCodec(type_info, codec_of(type_info.element_type, is_exact))
    if isinstance(type_info, SetTypeInfo):
        return SetCodec(type_info, codec_of(type_info.element_type, is_exact))
    if isinstance(type_info, EitherTypeInfo):
        return EitherCodec(type_info, codec_of(type_info.left_type, is_exact), codec_of(type_info.right_type, is_exact))
    if isinstance(type_info, EnumTypeInfo):
        return enum_codec(type_info)
    if isinstance(type_info, ti.MapTypeInfo):
        return MapCodec(type_info, codec_of(type_info.key_type, is_exact), codec_of(type_info.value_type, is_exact))
    if isinstance(type_info, ti.PickledBytesTypeInfo):
        return PickledCodec(type_info)
    temporal = _temporal_kind(type_info)
    if temporal is not None:
        return TEMPORAL_CODECS[temporal](type_info)
    raise UnsupportedOperationError(f"{type_info!r} has no column form")


def _temporal_kind(type_info: TypeInformation) -> str | None:
    if isinstance(type_info, ti.LocalTimeTypeInfo):
        return type_info.time_type.name
    if isinstance(type_info, ti.DateTypeInfo):
        return "LOCAL_DATE"
    if isinstance(type_info, ti.TimeTypeInfo):
        return "LOCAL_TIME"
    if isinstance(type_info, ti.TimestampTypeInfo):
        return "LOCAL_DATE_TIME"
    return None


def _is_byte(type_info: TypeInformation) -> bool:
    return isinstance(type_info, ti.BasicTypeInfo) and type_info.basic_type is BasicType.BYTE
