"""TypeInformation and Types: the types of a stream's records. `records.lanes` maps them to Arrow types.

Source: pyflink.common.typeinfo. Differs: there are no Java types, so `get_java_type_info` raises.
"""

from __future__ import annotations

import calendar
import datetime
import decimal
import time
from enum import Enum
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.types import Row

__all__ = ["TypeInformation", "Types"]


_MICROS_PER_SECOND = 1_000_000


class TypeInformation:
    """The type of a stream's records or of a part of them. Immutable; equal if it describes the same type."""

    def __init__(self) -> None:
        return

    def get_java_type_info(self) -> Any:
        raise UnsupportedOperationError(f"{type(self).__name__}.get_java_type_info: flinkpy has no JVM")

    def need_conversion(self) -> bool:
        """True if `to_internal_type` returns anything but the object itself."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        return obj

    def _key(self) -> tuple[Any, ...]:
        """Returns the values that equal types have in common."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __repr__(self) -> str:
        return type(self).__name__


class BasicType(Enum):
    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class BasicTypeInfo(TypeInformation):
    """The type of a single value."""

    def __init__(self, basic_type: BasicType) -> None:
        super().__init__()
        self._basic_type = basic_type

    @property
    def basic_type(self) -> BasicType:
        return self._basic_type

    def _key(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """The type of `Instant`; internally microseconds since the epoch."""

    def __init__(self, basic_type: BasicType) -> None:
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        return obj.seconds * _MICROS_PER_SECOND + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        seconds, micros = divmod(obj, _MICROS_PER_SECOND)
        return Instant(seconds, micros * 1000)


class DecimalTypeInfo(BasicTypeInfo):
    """The type of `decimal.Decimal` with `precision` digits, `scale` of them after the decimal point.

    Source: org.apache.flink.table.runtime.typeutils.BigDecimalTypeInfo.
    """

    MAX_PRECISION = 38

    def __init__(self, precision: int, scale: int) -> None:
        if not (1 <= precision <= self.MAX_PRECISION and 0 <= scale <= precision):
            raise ValueError(
                f"a DECIMAL needs a precision from 1 to {self.MAX_PRECISION} and a scale from 0 to its precision, not "
                f"({precision}, {scale})"
            )
        super().__init__(BasicType.BIG_DEC)
        self.precision = precision
        self.scale = scale

    def rounded(self, value: decimal.Decimal | int) -> decimal.Decimal:
        """Returns `value` with `scale` digits after the decimal point, rounded half up.

        Raises:
            OverflowError: the value has more digits before the decimal point than the type allows.
        """
        context = decimal.Context(prec=self.precision, rounding=decimal.ROUND_HALF_UP)
        try:
            return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-self.scale), context=context)
        except decimal.InvalidOperation as error:
            raise OverflowError(f"more than {self.precision - self.scale} digits before the decimal point") from error

    def _key(self) -> tuple[Any, ...]:
        return (self.precision, self.scale)

    def __repr__(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"


class SqlTimeTypeInfo(TypeInformation):
    """Factory of the SQL date and time types."""

    @staticmethod
    def DATE() -> TypeInformation:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TypeInformation:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TypeInformation:
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """The type of `datetime.date`; internally days since the epoch."""

    EPOCH_ORDINAL = datetime.datetime(1970, 1, 1).toordinal()

    def __init__(self) -> None:
        super().__init__()

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, d: Any) -> Any:
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: Any) -> Any:
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation):
    """The type of `datetime.time`; internally microseconds since midnight."""

    EPOCH_ORDINAL = calendar.timegm(time.localtime(0)) * 10**6

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, t: Any) -> Any:
        if t is None:
            return None
        seconds = t.hour * 3600 + t.minute * 60 + t.second
        offset = t.utcoffset() or datetime.timedelta()
        return (seconds - int(offset.total_seconds())) * _MICROS_PER_SECOND + t.microsecond

    def from_internal_type(self, t: Any) -> Any:
        if t is None:
            return None
        seconds, micros = divmod(t, _MICROS_PER_SECOND)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour % 24, minute, second, micros)


class TimestampTypeInfo(TypeInformation):
    """The type of `datetime.datetime`; internally microseconds since the epoch. Naive values are in local time."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, dt: Any) -> Any:
        if dt is None:
            return None
        seconds = calendar.timegm(dt.utctimetuple()) if dt.tzinfo else time.mktime(dt.timetuple())
        return int(seconds) * _MICROS_PER_SECOND + dt.microsecond

    def from_internal_type(self, ts: Any) -> Any:
        if ts is None:
            return None
        seconds, micros = divmod(ts, _MICROS_PER_SECOND)
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=micros)


class LocalTimeTypeInfo(TypeInformation):
    """The Table API's type of a local date, a local time, or both."""

    class TimeType(Enum):
        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        super().__init__()
        self._time_type = time_type

    @property
    def time_type(self) -> LocalTimeTypeInfo.TimeType:
        return self._time_type

    def _key(self) -> tuple[Any, ...]:
        return (self._time_type,)


class _ElementTypeInfo(TypeInformation):
    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__()
        self._element_type = element_type

    @property
    def element_type(self) -> TypeInformation:
        return self._element_type

    def _key(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type}>"


class PrimitiveArrayTypeInfo(_ElementTypeInfo):
    """An array of numbers or booleans; an array of BYTE is `bytes`."""


class BasicArrayTypeInfo(_ElementTypeInfo):
    """An array of a basic type."""


class ObjectArrayTypeInfo(_ElementTypeInfo):
    """An array of any type."""


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; it is pickled when it leaves the process."""

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class RowTypeInfo(TypeInformation):
    """A `Row` of named fields; the default names are f0, f1, ...."""

    def __init__(self, field_types: list[TypeInformation], field_names: list[str] | None = None) -> None:
        super().__init__()
        _check_types(field_types)
        self._has_default_names = field_names is None
        if field_names is None:
            field_names = [f"f{position}" for position in range(len(field_types))]
        if len(field_names) != len(field_types):
            raise ValueError(f"{len(field_types)} field types but {len(field_names)} field names")
        if len(set(field_names)) != len(field_names):
            raise ValueError(f"field names must be distinct: {field_names}")
        self._field_types = list(field_types)
        self._field_names = list(field_names)

    def get_field_names(self) -> list[str]:
        return self._field_names

    def get_field_index(self, field_name: str) -> int:
        """Returns the position of the field.

        Raises:
            ValueError: there is no field of this name.
        """
        if field_name not in self._field_names:
            raise ValueError(f"there is no field {field_name!r} in {self!r}")
        return self._field_names.index(field_name)

    def get_field_types(self) -> list[TypeInformation]:
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Returns a tuple of the fields' internal values."""
        if obj is None:
            return None
        if isinstance(obj, dict):
            values: Any = [obj.get(name) for name in self._field_names]
        elif isinstance(obj, Row):
            values = obj.get_fields_by_names(self._field_names)
        else:
            values = obj
        return tuple(
            field.to_internal_type(value) if value is not None and field.need_conversion() else value
            for field, value in zip(self._field_types, values, strict=True)
        )

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        row = Row(
            *(
                field.from_internal_type(value) if value is not None and field.need_conversion() else value
                for field, value in zip(self._field_types, obj, strict=True)
            )
        )
        row.set_field_names(self._field_names)
        return row

    def _key(self) -> tuple[Any, ...]:
        return (tuple(self._field_names), tuple(self._field_types))

    def __repr__(self) -> str:
        if self._has_default_names:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        fields = ", ".join(f"{name}: {field}" for name, field in zip(self._field_names, self._field_types))
        return f"RowTypeInfo({fields})"


class TupleTypeInfo(TypeInformation):
    """A Python tuple with one type per position."""

    def __init__(self, field_types: list[TypeInformation]) -> None:
        super().__init__()
        _check_types(field_types)
        self._field_types = list(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(
            field.to_internal_type(value) if value is not None and field.need_conversion() else value
            for field, value in zip(self._field_types, obj, strict=True)
        )

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(
            field.from_internal_type(value) if value is not None and field.need_conversion() else value
            for field, value in zip(self._field_types, obj, strict=True)
        )

    def _key(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"


class ListTypeInfo(_ElementTypeInfo):
    """A Python list whose elements have one type."""


class SetTypeInfo(_ElementTypeInfo):
    """A Python set whose elements have one type. Beyond PyFlink (Java's `Types.SET`)."""


class EnumTypeInfo(TypeInformation):
    """Members of an `enum.Enum`, stored by name. Beyond PyFlink (Java's `Types.ENUM`)."""

    def __init__(self, enum_class: type[Enum]) -> None:
        super().__init__()
        if not isinstance(enum_class, type) or not issubclass(enum_class, Enum):
            raise TypeError(f"an enum.Enum class is needed, not {enum_class!r}")
        self._enum_class = enum_class

    @property
    def enum_class(self) -> type[Enum]:
        return self._enum_class

    def _key(self) -> tuple[Any, ...]:
        return (self._enum_class,)

    def __repr__(self) -> str:
        return f"EnumTypeInfo<{self._enum_class.__qualname__}>"


class EitherTypeInfo(TypeInformation):
    """An `Either` of two types. Beyond PyFlink (Java's `Types.EITHER`)."""

    def __init__(self, left_type: TypeInformation, right_type: TypeInformation) -> None:
        super().__init__()
        _check_types((left_type, right_type))
        self._left_type = left_type
        self._right_type = right_type

    @property
    def left_type(self) -> TypeInformation:
        return self._left_type

    @property
    def right_type(self) -> TypeInformation:
        return self._right_type

    def _key(self) -> tuple[Any, ...]:
        return (self._left_type, self._right_type)

    def __repr__(self) -> str:
        return f"EitherTypeInfo<{self._left_type}, {self._right_type}>"


class MapTypeInfo(TypeInformation):
    """A Python dict whose keys have one type and whose values have one type."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        super().__init__()
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info

    @property
    def key_type(self) -> TypeInformation:
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation:
        return self._value_type_info

    def _key(self) -> tuple[Any, ...]:
        return (self._key_type_info, self._value_type_info)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class ExternalTypeInfo(TypeInformation):
    """Wraps the type of a record of the Table API."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__()
        self._type_info = type_info

    @property
    def wrapped_type(self) -> TypeInformation:
        return self._type_info

    def _key(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"


def _check_types(field_types: Any) -> None:
    for position, field in enumerate(field_types):
        if not isinstance(field, TypeInformation):
            raise TypeError(f"field {position}: {field!r} is not a TypeInformation (use Types.STRING(), ...)")


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
