"""TypeInformation and Types: the types of a stream's records. `records.lanes` maps them to Arrow types.

Source: pyflink.common.typeinfo. Differs: there are no Java types, so `get_java_type_info` raises.
"""

from __future__ import annotations

from enum import Enum

from flinkpy.common.basic_typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from flinkpy.common.composite_typeinfo import (
    BasicArrayTypeInfo,
    EitherTypeInfo,
    EnumTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SetTypeInfo,
    TupleTypeInfo,
)

__all__ = ["TypeInformation", "Types"]
_ALSO_EXPORTED = (
    DateTypeInfo,
    DecimalTypeInfo,
    EitherTypeInfo,
    EnumTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    SetTypeInfo,
    TimeTypeInfo,
    TimestampTypeInfo,
)


class Types:
    """Factory of TypeInformation.

    Example:
        stream.map(parse, output_type=Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()]))
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """`str`."""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> TypeInformation:
        """`int` of 8 bits; larger values wrap around."""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """`bool`."""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> TypeInformation:
        """`int` of 16 bits; larger values wrap around."""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> TypeInformation:
        """`int` of 32 bits; larger values wrap around."""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> TypeInformation:
        """`int` of 64 bits."""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> TypeInformation:
        """`float`, stored with 32 bits."""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """`float`."""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> TypeInformation:
        """`str` of one character."""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """`int` with up to 76 decimal digits."""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """`decimal.Decimal` with all its digits. As a column it has 38 digits, 18 of them after the decimal point."""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def DECIMAL(precision: int, scale: int) -> TypeInformation:
        """`decimal.Decimal` with `precision` digits (at most 38), `scale` of them after the point. Beyond PyFlink."""
        return DecimalTypeInfo(precision, scale)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """`Instant` with microsecond precision."""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """`datetime.date`."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """`datetime.time`."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """`datetime.datetime` without time zone."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object that can be pickled; the type of a stream without a declared type."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:
        """`Row` with fields f0, f1, ..."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> RowTypeInfo:
        """`Row` with these field names."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:
        """`tuple`."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """A list of numbers or booleans; for BYTE it is `bytes`."""
        if not isinstance(element_type, BasicTypeInfo) or element_type.basic_type not in _PRIMITIVE:
            raise TypeError(f"Invalid element type for a primitive array: {element_type!r}")
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of a basic type."""
        if not isinstance(element_type, BasicTypeInfo):
            raise TypeError(f"Invalid element type for a basic array: {element_type!r}")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of any type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """`dict`."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """`list`."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def SET(element_type: TypeInformation) -> TypeInformation:
        """`set`. Beyond PyFlink."""
        return SetTypeInfo(element_type)

    @staticmethod
    def ENUM(enum_type: type[Enum]) -> TypeInformation:
        """Members of an `enum.Enum`. Beyond PyFlink."""
        return EnumTypeInfo(enum_type)

    @staticmethod
    def EITHER(left_type: TypeInformation, right_type: TypeInformation) -> TypeInformation:
        """`flinkpy.common.Either`: a value of one of two types. Beyond PyFlink."""
        return EitherTypeInfo(left_type, right_type)

    @staticmethod
    def GENERIC(generic_class: type | None = None) -> TypeInformation:
        """Any Python object that can be pickled, like PICKLED_BYTE_ARRAY. The class is not checked. Beyond PyFlink."""
        return PickledBytesTypeInfo()


_PRIMITIVE = frozenset(
    {
        BasicType.BOOLEAN,
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.FLOAT,
        BasicType.DOUBLE,
        BasicType.CHAR,
    }
)
