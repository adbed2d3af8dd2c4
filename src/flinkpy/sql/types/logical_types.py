"""LogicalType: the types of SQL values, with nullability, length, precision and scale.

They are plain immutable data without Arrow. `flinkpy.sql.types.arrow` maps them to Arrow types. Two types are equal if
all their parameters are, nullability included.

Source: org.apache.flink.table.types.logical.LogicalType and its subclasses.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

#: The length of STRING and BYTES: the largest `int` of Java.
MAX_LENGTH = 0x7FFFFFFF
MAX_DECIMAL_PRECISION = 38


class TimeAttribute(enum.Enum):
    """The role of a timestamp column. Source: org.apache.flink.table.types.logical.TimestampKind."""

    #: A timestamp without a role.
    REGULAR = "REGULAR"
    #: The event time of a table. A watermark exists for the column.
    ROWTIME = "ROWTIME"
    #: The processing time. The value is computed when it is used.
    PROCTIME = "PROCTIME"


class TypeRoot(enum.Enum):
    """The kind of a type without its parameters. Source: org.apache.flink.table.types.logical.LogicalTypeRoot."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME_WITHOUT_TIME_ZONE = "TIME_WITHOUT_TIME_ZONE"
    TIMESTAMP_WITHOUT_TIME_ZONE = "TIMESTAMP_WITHOUT_TIME_ZONE"
    TIMESTAMP_WITH_LOCAL_TIME_ZONE = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    INTERVAL_YEAR_MONTH = "INTERVAL_YEAR_MONTH"
    INTERVAL_DAY_TIME = "INTERVAL_DAY_TIME"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    STRUCTURED_TYPE = "STRUCTURED_TYPE"
    RAW = "RAW"
    NULL = "NULL"
    SYMBOL = "SYMBOL"
    VARIANT = "VARIANT"
    BITMAP = "BITMAP"
    DESCRIPTOR = "DESCRIPTOR"


@dataclass(frozen=True, slots=True)
class LogicalType:
    """The base class.

    Attributes:
        nullable: True if values may be null.
    """

    root: ClassVar[TypeRoot]
    nullable: bool = field(default=True, kw_only=True)

    @property
    def children(self) -> tuple[LogicalType, ...]:
        """The types of elements, keys and values, or fields."""
        return ()

    def as_nullable(self, nullable: bool = True) -> Self:
        """Returns this type with the given nullability."""
        return self if nullable == self.nullable else replace(self, nullable=nullable)

    def not_null(self) -> Self:
        return self.as_nullable(False)

    def as_sql(self) -> str:
        """Returns the type in SQL without its nullability, such as `DECIMAL(10, 2)`."""
        return self.root.value

    def __str__(self) -> str:
        return self.as_sql() if self.nullable else f"{self.as_sql()} NOT NULL"


@dataclass(frozen=True, slots=True)
class _LengthType(LogicalType):
    length: int = 1

    def as_sql(self) -> str:
        return f"{self.root.value}({self.length})"

    __str__ = LogicalType.__str__


@dataclass(frozen=True, slots=True)
class CharType(_LengthType):
    """Text of exactly `length` characters."""

    root = TypeRoot.CHAR


@dataclass(frozen=True, slots=True)
class VarCharType(_LengthType):
    """Text of at most `length` characters. `STRING` is VARCHAR(2147483647)."""

    root = TypeRoot.VARCHAR
    length: int = MAX_LENGTH

    def as_sql(self) -> str:
        return "STRING" if self.length == MAX_LENGTH else f"VARCHAR({self.length})"


@dataclass(frozen=True, slots=True)
class BinaryType(_LengthType):
    root = TypeRoot.BINARY


@dataclass(frozen=True, slots=True)
class VarBinaryType(_LengthType):
    """At most `length` bytes. `BYTES` is VARBINARY(2147483647)."""

    root = TypeRoot.VARBINARY
    length: int = MAX_LENGTH

    def as_sql(self) -> str:
        return "BYTES" if self.length == MAX_LENGTH else f"VARBINARY({self.length})"


@dataclass(frozen=True, slots=True)
class BooleanType(LogicalType):
    root = TypeRoot.BOOLEAN


@dataclass(frozen=True, slots=True)
class DecimalType(LogicalType):
    root = TypeRoot.DECIMAL
    precision: int = 10
    scale: int = 0

    def as_sql(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class TinyIntType(LogicalType):
    root = TypeRoot.TINYINT


@dataclass(frozen=True, slots=True)
class SmallIntType(LogicalType):
    root = TypeRoot.SMALLINT


@dataclass(frozen=True, slots=True)
class IntType(LogicalType):
    root = TypeRoot.INTEGER

    def as_sql(self) -> str:
        return "INT"


@dataclass(frozen=True, slots=True)
class BigIntType(LogicalType):
    root = TypeRoot.BIGINT


@dataclass(frozen=True, slots=True)
class FloatType(LogicalType):
    root = TypeRoot.FLOAT


@dataclass(frozen=True, slots=True)
class DoubleType(LogicalType):
    root = TypeRoot.DOUBLE


@dataclass(frozen=True, slots=True)
class DateType(LogicalType):
    root = TypeRoot.DATE


@dataclass(frozen=True, slots=True)
class TimeType(LogicalType):
    root = TypeRoot.TIME_WITHOUT_TIME_ZONE
    precision: int = 0

    def as_sql(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True, slots=True)
class TimestampType(LogicalType):
    root = TypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE
    precision: int = 6
    time_attribute: TimeAttribute = TimeAttribute.REGULAR

    def as_sql(self) -> str:
        return f"TIMESTAMP({self.precision}){_role(self.time_attribute)}"


@dataclass(frozen=True, slots=True)
class LocalZonedTimestampType(LogicalType):
    """An instant. Functions show it in the session's time zone."""

    root = TypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE
    precision: int = 6
    time_attribute: TimeAttribute = TimeAttribute.REGULAR

    def as_sql(self) -> str:
        return f"TIMESTAMP_LTZ({self.precision}){_role(self.time_attribute)}"


def _role(attribute: TimeAttribute) -> str:
    return "" if attribute is TimeAttribute.REGULAR else f" *{attribute.value}*"


@dataclass(frozen=True, slots=True)
class YearMonthIntervalType(LogicalType):
    """A number of months. `resolution` is YEAR, YEAR_TO_MONTH or MONTH."""

    root = TypeRoot.INTERVAL_YEAR_MONTH
    resolution: str = "YEAR_TO_MONTH"
    year_precision: int = 2

    def as_sql(self) -> str:
        if self.resolution == "MONTH":
            return "INTERVAL MONTH"
        suffix = " TO MONTH" if self.resolution == "YEAR_TO_MONTH" else ""
        return f"INTERVAL YEAR({self.year_precision}){suffix}"


@dataclass(frozen=True, slots=True)
class DayTimeIntervalType(LogicalType):
    """A number of milliseconds. `resolution` names the first and the last unit, such as DAY_TO_SECOND or HOUR."""

    root = TypeRoot.INTERVAL_DAY_TIME
    resolution: str = "DAY_TO_SECOND"
    day_precision: int = 2
    fractional_precision: int = 6

    def as_sql(self) -> str:
        units = self.resolution.split("_TO_")
        shown = [
            f"DAY({self.day_precision})"
            if unit == "DAY"
            else f"SECOND({self.fractional_precision})"
            if unit == "SECOND"
            else unit
            for unit in units
        ]
        return f"INTERVAL {' TO '.join(shown)}"


@dataclass(frozen=True, slots=True)
class ArrayType(LogicalType):
    root = TypeRoot.ARRAY
    element: LogicalType

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return (self.element,)

    def as_sql(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class MultisetType(LogicalType):
    root = TypeRoot.MULTISET
    element: LogicalType

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return (self.element,)

    def as_sql(self) -> str:
        return f"MULTISET<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(LogicalType):
    root = TypeRoot.MAP
    key: LogicalType
    value: LogicalType

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return (self.key, self.value)

    def as_sql(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class RowField:
    name: str
    type: LogicalType
    description: str | None = None


@dataclass(frozen=True, slots=True)
class RowType(LogicalType):
    """Named fields. Also the type of the rows of a table."""

    root = TypeRoot.ROW
    fields: tuple[RowField, ...]

    @staticmethod
    def of(*fields: tuple[str, LogicalType], nullable: bool = True) -> RowType:
        """Returns the row type with these (name, type) fields."""
        return RowType(tuple(RowField(name, kind) for name, kind in fields), nullable=nullable)

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return tuple(each.type for each in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.fields)

    def as_sql(self) -> str:
        shown = [f"`{each.name.replace('`', '``')}` {each.type}" for each in self.fields]
        return f"ROW<{', '.join(shown)}>"


@dataclass(frozen=True, slots=True)
class StructuredType(RowType):
    """A row that has the name of a class. Its values are those of a row, because no class of Java can be loaded.

    Source: org.apache.flink.table.types.logical.StructuredType.
    """

    class_name: str = ""

    def as_sql(self) -> str:
        shown = [f"`{each.name.replace('`', '``')}` {each.type}" for each in self.fields]
        return f"STRUCTURED<{', '.join([quoted_text(self.class_name), *shown])}>"


def quoted_text(text: str) -> str:
    """Returns a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class RawType(LogicalType):
    """Pickled Python objects, which SQL passes on and does not look into."""

    root = TypeRoot.RAW
    class_name: str = "object"

    def as_sql(self) -> str:
        return f"RAW('{self.class_name}')"


@dataclass(frozen=True, slots=True)
class NullType(LogicalType):
    """The type of the literal NULL before it gets another one."""

    root = TypeRoot.NULL


@dataclass(frozen=True, slots=True)
class SymbolType(LogicalType):
    """The type of a keyword argument, such as the unit of EXTRACT. It exists in expressions only."""

    root = TypeRoot.SYMBOL


@dataclass(frozen=True, slots=True)
class DescriptorType(LogicalType):
    """The type of DESCRIPTOR(column, ...). It exists in expressions only."""

    root = TypeRoot.DESCRIPTOR


@dataclass(frozen=True, slots=True)
class VariantType(LogicalType):
    """Semi-structured data, such as a JSON document."""

    root = TypeRoot.VARIANT


@dataclass(frozen=True, slots=True)
class BitmapType(LogicalType):
    """A set of 32-bit integers as a serialised roaring bitmap."""

    root = TypeRoot.BITMAP


def is_rowtime(kind: LogicalType) -> bool:
    """True for the type of an event time attribute."""
    return _attribute(kind) is TimeAttribute.ROWTIME


def is_proctime(kind: LogicalType) -> bool:
    """True for the type of a processing time attribute."""
    return _attribute(kind) is TimeAttribute.PROCTIME


def is_time_attribute(kind: LogicalType) -> bool:
    return _attribute(kind) is not TimeAttribute.REGULAR


def _attribute(kind: LogicalType) -> Any:
    if isinstance(kind, (TimestampType, LocalZonedTimestampType)):
        return kind.time_attribute
    return TimeAttribute.REGULAR
