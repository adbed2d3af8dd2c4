"""Nodes of data types, as written in CAST and in column definitions. The planner makes logical types from them."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.sql.parser.nodes.base import DataType, Identifier, Node


@dataclass(frozen=True, slots=True)
class SimpleType(DataType):
    """A built-in type without elements.

    `name` is Flink's name whichever synonym was written: INT for INTEGER, DECIMAL for NUMERIC and DEC, CHAR for
    CHARACTER, VARCHAR for CHARACTER VARYING, DOUBLE for DOUBLE PRECISION, TIMESTAMP WITH LOCAL TIME ZONE for
    TIMESTAMP_LTZ. STRING and BYTES stay as they are.
    """

    name: str
    #: Length, precision, or precision and scale, as far as written.
    parameters: tuple[int, ...] = ()
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class CollectionType(DataType):
    """ARRAY or MULTISET."""

    name: str
    element: DataType
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    """MAP<key, value>."""

    key: DataType
    value: DataType
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class RowField(Node):
    """A field of ROW or STRUCTURED."""

    name: Identifier
    type: DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class RowType(DataType):
    """ROW<name type, ...>."""

    fields: tuple[RowField, ...]
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class StructuredType(DataType):
    """STRUCTURED<'class', name type, ...>."""

    class_name: str
    fields: tuple[RowField, ...]
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class RawType(DataType):
    """RAW('class', 'serializer')."""

    class_name: str
    serializer: str
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class IntervalQualifier(Node):
    """The units of an interval, such as DAY(3) TO SECOND(6). Units are in capitals and in the singular."""

    start: str
    start_precision: int | None = None
    end: str | None = None
    fraction_precision: int | None = None


@dataclass(frozen=True, slots=True)
class IntervalType(DataType):
    """INTERVAL with its units."""

    qualifier: IntervalQualifier
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class NamedType(DataType):
    """A type that is no built-in one, by its name."""

    name: Identifier
    nullable: bool | None = None
