"""ResolvedSchema: the columns of a table with their types, its watermark and its primary key.

Source: org.apache.flink.table.catalog.{ResolvedSchema, Column, WatermarkSpec, UniqueConstraint}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkpy.sql.rex import RexNode
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType


@dataclass(frozen=True, slots=True)
class Column:
    """The base class of columns."""

    name: str
    type: LogicalType
    comment: str | None = None

    @property
    def is_physical(self) -> bool:
        """True if the connector reads and writes the column as a field of its records."""
        return isinstance(self, PhysicalColumn)

    @property
    def is_persisted(self) -> bool:
        """True if a sink writes the column."""
        return self.is_physical or (isinstance(self, MetadataColumn) and not self.is_virtual)

    def with_type(self, kind: LogicalType) -> Column:
        return replace(self, type=kind)


@dataclass(frozen=True, slots=True)
class PhysicalColumn(Column):
    """A field of the records."""


@dataclass(frozen=True, slots=True)
class ComputedColumn(Column):
    """A column that is computed when the table is read.

    Attributes:
        expression: over the columns of the schema by position. It refers to columns that are not computed.
        sql: its SQL text, with names in full.
    """

    expression: RexNode | None = None
    sql: str = ""


@dataclass(frozen=True, slots=True)
class MetadataColumn(Column):
    """A column that the connector fills with something beside the record, such as a Kafka timestamp.

    Attributes:
        metadata_key: the connector's name for it; None for the name of the column.
        is_virtual: True if sinks do not write it.
    """

    metadata_key: str | None = None
    is_virtual: bool = False

    @property
    def key(self) -> str:
        return self.metadata_key or self.name


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """The WATERMARK clause.

    Attributes:
        rowtime_column: a top-level column.
        expression: over the columns of the schema by position, computed ones included.
        sql: its SQL text.
    """

    rowtime_column: str
    expression: RexNode
    sql: str = ""


@dataclass(frozen=True, slots=True)
class UniqueConstraint:
    """The PRIMARY KEY, which is never enforced."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """The schema of a table, view or query result. Column names are unique."""

    columns: tuple[Column, ...]
    watermark: WatermarkSpec | None = None
    primary_key: UniqueConstraint | None = None

    @staticmethod
    def physical(*columns: tuple[str, LogicalType]) -> ResolvedSchema:
        """Returns a schema of physical (name, type) columns."""
        return ResolvedSchema(tuple(PhysicalColumn(name, kind) for name, kind in columns))

    @staticmethod
    def of_row(row_type: RowType) -> ResolvedSchema:
        return ResolvedSchema.physical(*((each.name, each.type) for each in row_type.fields))

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def primary_key_indexes(self) -> tuple[int, ...]:
        """The positions of the primary key in the columns; empty if there is none."""
        if self.primary_key is None:
            return ()
        return tuple(self.column_names.index(name) for name in self.primary_key.columns)

    def to_row_type(self) -> RowType:
        """Returns the type of the rows that a query reads: all columns."""
        return _row(self.columns)

    def to_physical_row_type(self) -> RowType:
        """Returns the type of the records without metadata and computed columns."""
        return _row(tuple(column for column in self.columns if column.is_physical))

    def to_sink_row_type(self) -> RowType:
        """Returns the type of the rows that a query writes: physical columns, then persisted metadata columns."""
        metadata = tuple(each for each in self.columns if each.is_persisted and not each.is_physical)
        return _row((*(each for each in self.columns if each.is_physical), *metadata))


def _row(columns: tuple[Column, ...]) -> RowType:
    return RowType(tuple(RowField(column.name, column.type, column.comment) for column in columns), nullable=False)
