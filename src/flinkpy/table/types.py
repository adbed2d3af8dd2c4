"""DataTypes: PyFlink's types of columns, for descriptions of rows in formats.

Source: pyflink.table.types. Differs: a type can be converted to a TypeInformation. Intervals, views and user-defined
types belong to the Table API and do not exist yet.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, ClassVar, NoReturn, TypeVar, overload

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types

__all__ = [
    "ArrayType",
    "AtomicType",
    "BigIntType",
    "BinaryType",
    "BooleanType",
    "CharType",
    "DataType",
    "DataTypes",
    "DateType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "ListViewType",
    "LocalZonedTimestampType",
    "MapType",
    "MapViewType",
    "MultisetType",
    "NullType",
    "NumericType",
    "RowField",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
]

#: Largest length of texts and bytes: the largest `int` of Java.
_MAX_LENGTH = 0x7FFFFFFF
_MAX_DECIMAL_PRECISION = 38
_MAX_TIME_PRECISION = 9

D = TypeVar("D", bound="DataType")


class DataType:
    """The type of the values of a column.

    Args:
        nullable: True if a value may be None.
    """

    def __init__(self, nullable: bool = True) -> None:
        self._nullable = nullable
        self._conversion_cls = ""

    @classmethod
    def type_name(cls) -> str:
        """Returns the name of the type in SQL, e.g. `BIGINT`."""
        return cls.__name__.removesuffix("Type").upper()

    def not_null(self: D) -> D:
        """Returns this type without None."""
        return self._with_nullable(False)

    def nullable(self: D) -> D:
        """Returns this type with None."""
        return self._with_nullable(True)

    def bridged_to(self: D, conversion_cls: str) -> D:
        """Stores the name of a Java class. It has no effect, because flinkpy has no JVM."""
        self._conversion_cls = conversion_cls
        return self

    def to_type_info(self) -> TypeInformation:
        """Returns the TypeInformation of the type.

        Raises:
            UnsupportedOperationError: columns of records cannot have this type.
        """
        raise UnsupportedOperationError(f"{self!r}: columns of files and messages cannot have this type")

    def _with_nullable(self: D, nullable: bool) -> D:
        copied = copy.copy(self)
        copied._nullable = nullable
        return copied

    def _arguments(self) -> tuple[str, ...]:
        """Returns the arguments of the type for its representation. The last one is `nullable`."""
        return (str(self._nullable).lower(),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def __str__(self) -> str:
        return self.type_name()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(str(self))


class AtomicType(DataType):
    """A type of values without parts."""

    #: The TypeInformation of the values.
    _type_info: ClassVar[TypeInformation | None] = None

    def to_type_info(self) -> TypeInformation:
        return super().to_type_info() if self._type_info is None else self._type_info


class NullType(AtomicType):
    """The type of None."""

    def __init__(self) -> None:
        super().__init__(True)


class NumericType(AtomicType):
    """The type of numbers."""


class IntegralType(NumericType):
    """The type of whole numbers."""


class FractionalType(NumericType):
    """The type of numbers with a fraction."""


class BooleanType(AtomicType):
    """`bool`."""

    _type_info = Types.BOOLEAN()


class TinyIntType(IntegralType):
    """`int` of 8 bits."""

    _type_info = Types.BYTE()


class SmallIntType(IntegralType):
    """`int` of 16 bits."""

    _type_info = Types.SHORT()


class IntType(IntegralType):
    """`int` of 32 bits."""

    _type_info = Types.INT()


class BigIntType(IntegralType):
    """`int` of 64 bits."""

    _type_info = Types.LONG()


class FloatType(FractionalType):
    """`float` with 32 bits."""

    _type_info = Types.FLOAT()


class DoubleType(FractionalType):
    """`float`."""

    _type_info = Types.DOUBLE()


class DecimalType(FractionalType):
    """`decimal.Decimal` with `precision` digits, `scale` of them after the point."""

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = _between("the precision of a decimal", precision, 1, _MAX_DECIMAL_PRECISION)
        self.scale = _between("the scale of a decimal", scale, 0, precision)
        self.has_precision_info = True

    def to_type_info(self) -> TypeInformation:
        return Types.DECIMAL(self.precision, self.scale)

    def _arguments(self) -> tuple[str, ...]:
        return (str(self.precision), str(self.scale), *super()._arguments())


class _WithLength(AtomicType):
    """A type of values with a limited length."""

    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.length = _between(f"the length of {self.type_name()}", length, 1, _MAX_LENGTH)

    def _arguments(self) -> tuple[str, ...]:
        return (str(self.length), *super()._arguments())


class CharType(_WithLength):
    """`str` of exactly `length` characters. Differs: the length is not enforced."""

    _type_info = Types.STRING()


class VarCharType(_WithLength):
    """`str` of up to `length` characters. Differs: the length is not enforced."""

    _type_info = Types.STRING()


class BinaryType(_WithLength):
    """`bytes`, exactly `length` of them. Differs: the length is not enforced."""

    _type_info = Types.PRIMITIVE_ARRAY(Types.BYTE())


class VarBinaryType(_WithLength):
    """`bytes`, up to `length` of them. Differs: the length is not enforced."""

    _type_info = Types.PRIMITIVE_ARRAY(Types.BYTE())


class DateType(AtomicType):
    """`datetime.date`."""

    _type_info = Types.SQL_DATE()


class _WithPrecision(AtomicType):
    """A time with `precision` digits of fractional seconds. Differs: microseconds are always kept."""

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = _between(f"the precision of {self.type_name()}", precision, 0, _MAX_TIME_PRECISION)

    def _arguments(self) -> tuple[str, ...]:
        return (str(self.precision), *super()._arguments())


class TimeType(_WithPrecision):
    """`datetime.time`."""

    _type_info = Types.SQL_TIME()

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(precision, nullable)


class TimestampType(_WithPrecision):
    """`datetime.datetime` without a time zone."""

    _type_info = Types.SQL_TIMESTAMP()


class LocalZonedTimestampType(_WithPrecision):
    """A point in time: `Instant`."""

    _type_info = Types.INSTANT()


class ArrayType(DataType):
    """`list`."""

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = _checked("element_type", element_type)

    def to_type_info(self) -> TypeInformation:
        return Types.LIST(self.element_type.to_type_info())

    def _arguments(self) -> tuple[str, ...]:
        return (repr(self.element_type), *super()._arguments())


class MultisetType(DataType):
    """A multiset: `dict` from value to count."""

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = _checked("element_type", element_type)

    def to_type_info(self) -> TypeInformation:
        return Types.MAP(self.element_type.to_type_info(), Types.INT())

    def _arguments(self) -> tuple[str, ...]:
        return (repr(self.element_type), *super()._arguments())


class MapType(DataType):
    """`dict`. Its keys are never None."""

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = _checked("key_type", key_type)
        self.value_type = _checked("value_type", value_type)

    def to_type_info(self) -> TypeInformation:
        return Types.MAP(self.key_type.to_type_info(), self.value_type.to_type_info())

    def _arguments(self) -> tuple[str, ...]:
        return (repr(self.key_type), repr(self.value_type), *super()._arguments())


class ListViewType(ArrayType):
    """A `ListView` in the accumulator of an aggregate function."""

    def __init__(self, element_type: DataType) -> None:
        super().__init__(element_type)


class MapViewType(MapType):
    """A `MapView` in the accumulator of an aggregate function."""

    def __init__(self, key_type: DataType, value_type: DataType) -> None:
        super().__init__(key_type, value_type)


class RowField:
    """A field of a RowType."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"field name {name!r} should be a string")
        if description is not None and not isinstance(description, str):
            raise TypeError(f"description {description!r} should be a string")
        self.name = name
        self.data_type = _checked("data_type", data_type)
        self.description = "..." if description is None else description

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type!r}, {self.description})"

    def __str__(self) -> str:
        return f"RowField({self.name}, {self.data_type})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((self.name, self.data_type))


class RowType(DataType):
    """Rows with named fields, which are accessed by name or position."""

    def __init__(self, fields: list[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields: list[RowField] = []
        self.names: list[str] = []
        for field in fields or ():
            self.add(field)

    def add(self, field: str | RowField, data_type: DataType | None = None) -> RowType:
        """Adds a field and returns this type.

        Args:
            field: the field, or its name.
            data_type: the type of the field, if `field` is a name.

        Raises:
            ValueError: `field` is a name and there is no type.
        """
        if not isinstance(field, RowField):
            if data_type is None:
                raise ValueError("Must specify DataType if passing name of row_field to create.")
            field = RowField(field, data_type)
        self.fields.append(field)
        self.names.append(field.name)
        return self

    def field_names(self) -> list[str]:
        return list(self.names)

    def field_types(self) -> list[DataType]:
        return [field.data_type for field in self.fields]

    def to_type_info(self) -> RowTypeInfo:
        return RowTypeInfo([field.data_type.to_type_info() for field in self.fields], self.field_names())

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @overload
    def __getitem__(self, key: str | int) -> RowField: ...
    @overload
    def __getitem__(self, key: slice) -> RowType: ...
    def __getitem__(self, key: str | int | slice) -> RowField | RowType:
        if isinstance(key, str):
            for field in self.fields:
                if field.name == key:
                    return field
            raise KeyError(f"No RowField named {key}")
        if isinstance(key, slice):
            return RowType(self.fields[key])
        if isinstance(key, int):
            return self.fields[key]
        raise TypeError("RowType keys should be strings, integers or slices")

    def __repr__(self) -> str:
        return f"RowType({','.join(map(repr, self.fields))})"


class DataTypes:
    """Creates types by their names in SQL.

    Example:
        >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())])
    """

    @staticmethod
    def NULL() -> NullType:
        return NullType()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> CharType:
        return CharType(length, nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> VarCharType:
        return VarCharType(length, nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> VarCharType:
        return VarCharType(_MAX_LENGTH, nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> BooleanType:
        return BooleanType(nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> BinaryType:
        return BinaryType(length, nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> VarBinaryType:
        return VarBinaryType(length, nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> VarBinaryType:
        return VarBinaryType(_MAX_LENGTH, nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DecimalType:
        return DecimalType(precision, scale, nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> TinyIntType:
        return TinyIntType(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> SmallIntType:
        return SmallIntType(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> IntType:
        return IntType(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> BigIntType:
        return BigIntType(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> FloatType:
        return FloatType(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DoubleType:
        return DoubleType(nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DateType:
        return DateType(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TimeType:
        return TimeType(precision, nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TimestampType:
        return TimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> LocalZonedTimestampType:
        return LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LocalZonedTimestampType:
        return LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> ArrayType:
        return ArrayType(element_type, nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> MapType:
        return MapType(key_type, value_type, nullable)

    @staticmethod
    def MULTISET(element_type: DataType, nullable: bool = True) -> MultisetType:
        return MultisetType(element_type, nullable)

    @staticmethod
    def ROW(row_fields: list[RowField] | None = None, nullable: bool = True) -> RowType:
        return RowType(row_fields, nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:
        return RowField(name, data_type, description)

    @staticmethod
    def LIST_VIEW(element_type: DataType) -> ListViewType:
        return ListViewType(element_type)

    @staticmethod
    def MAP_VIEW(key_type: DataType, value_type: DataType) -> MapViewType:
        return MapViewType(key_type, value_type)

    @staticmethod
    def INTERVAL(upper_resolution: Any, lower_resolution: Any = None) -> NoReturn:
        raise _table_api_error("INTERVAL")

    @staticmethod
    def SECOND(precision: int = 6) -> NoReturn:
        raise _table_api_error("SECOND")

    @staticmethod
    def MINUTE() -> NoReturn:
        raise _table_api_error("MINUTE")

    @staticmethod
    def HOUR() -> NoReturn:
        raise _table_api_error("HOUR")

    @staticmethod
    def DAY(precision: int = 2) -> NoReturn:
        raise _table_api_error("DAY")

    @staticmethod
    def MONTH() -> NoReturn:
        raise _table_api_error("MONTH")

    @staticmethod
    def YEAR(precision: int = 2) -> NoReturn:
        raise _table_api_error("YEAR")


def _table_api_error(name: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"DataTypes.{name} belongs to the Table API, which flinkpy does not have yet; formats have no such columns"
    )


def _checked(name: str, data_type: Any) -> DataType:
    if not isinstance(data_type, DataType):
        raise TypeError(f"{name} {data_type!r} should be an instance of {DataType!r}")
    return data_type


def _between(what: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {value!r}")
    return value
