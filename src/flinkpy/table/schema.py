"""Schema: the columns, watermarks and primary key that a program declares for a table.

Source: pyflink.table.schema.Schema, org.apache.flink.table.api.Schema.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types.logical_types import LogicalType

__all__ = ["Schema"]


@dataclass(frozen=True, slots=True)
class UnresolvedColumn:
    """The base class of declared columns."""

    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class UnresolvedPhysicalColumn(UnresolvedColumn):
    """`type`: a DataType, a LogicalType or the SQL text of a type."""

    type: Any = None


@dataclass(frozen=True, slots=True)
class UnresolvedComputedColumn(UnresolvedColumn):
    """`expression`: SQL text or an Expression of the Table API."""

    expression: Any = None


@dataclass(frozen=True, slots=True)
class UnresolvedMetadataColumn(UnresolvedColumn):
    type: Any = None
    metadata_key: str | None = None
    is_virtual: bool = False


@dataclass(frozen=True, slots=True)
class UnresolvedWatermark:
    column: str
    expression: Any


class Schema:
    """A schema whose expressions and types are not resolved yet. Made by `Schema.new_builder()`.

    Attributes:
        columns: the declared columns.
        watermarks: the declared watermarks; a table may have one.
        primary_key: (name of the constraint, columns), or None.
    """

    def __init__(
        self,
        columns: tuple[UnresolvedColumn, ...] = (),
        watermarks: tuple[UnresolvedWatermark, ...] = (),
        primary_key: tuple[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.columns = columns
        self.watermarks = watermarks
        self.primary_key = primary_key

    @staticmethod
    def new_builder() -> Schema.Builder:
        return Schema.Builder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(str(self._parts()))

    def __str__(self) -> str:
        lines = [_line(column) for column in self.columns]
        lines += [f"  WATERMARK FOR `{each.column}` AS [{each.expression}]" for each in self.watermarks]
        if self.primary_key is not None:
            name, columns = self.primary_key
            lines.append(
                f"  CONSTRAINT `{name}` PRIMARY KEY ({', '.join(f'`{each}`' for each in columns)}) NOT ENFORCED"
            )
        return "(\n" + ",\n".join(lines) + "\n)"

    __repr__ = __str__

    def _parts(self) -> tuple[Any, ...]:
        return self.columns, self.watermarks, self.primary_key

    class Builder:
        """Collects the parts of a schema. Each method returns the builder."""

        def __init__(self) -> None:
            self._columns: list[UnresolvedColumn] = []
            self._watermarks: list[UnresolvedWatermark] = []
            self._primary_key: tuple[str, tuple[str, ...]] | None = None

        def from_schema(self, unresolved_schema: Schema) -> Schema.Builder:
            """Adopts all parts of another schema."""
            self._columns += unresolved_schema.columns
            self._watermarks += unresolved_schema.watermarks
            if unresolved_schema.primary_key is not None:
                self._set_primary_key(*unresolved_schema.primary_key)
            return self

        def from_row_data_type(self, data_type: Any) -> Schema.Builder:
            """Adds a physical column per field of a DataTypes.ROW."""
            return self.from_fields(data_type.field_names(), data_type.field_types())

        def from_fields(self, field_names: list[str], field_data_types: list[Any]) -> Schema.Builder:
            if len(field_names) != len(field_data_types):
                raise ValueError(f"there are {len(field_names)} field names for {len(field_data_types)} data types")
            for name, data_type in zip(field_names, field_data_types):
                self.column(name, data_type)
            return self

        def column(self, column_name: str, data_type: Any) -> Schema.Builder:
            """Adds a physical column.

            Args:
                column_name: its name.
                data_type: a type of DataTypes, or its SQL text.
            """
            _check_type(data_type)
            self._columns.append(UnresolvedPhysicalColumn(_name(column_name), None, data_type))
            return self

        def column_by_expression(self, column_name: str, expr: Any) -> Schema.Builder:
            """Adds a computed column, from SQL text or an Expression."""
            self._columns.append(UnresolvedComputedColumn(_name(column_name), None, expr))
            return self

        def column_by_metadata(
            self, column_name: str, data_type: Any, metadata_key: str | None = None, is_virtual: bool = False
        ) -> Schema.Builder:
            """Adds a metadata column. `metadata_key` is the connector's name for it, if that is another one."""
            _check_type(data_type)
            column = UnresolvedMetadataColumn(_name(column_name), None, data_type, metadata_key, is_virtual)
            self._columns.append(column)
            return self

        def with_comment(self, comment: str) -> Schema.Builder:
            """Sets the comment of the last column. Beyond PyFlink."""
            if not self._columns:
                raise ValidationError("Method 'with_comment' must be called after a column definition.")
            self._columns[-1] = replace(self._columns[-1], comment=comment)
            return self

        def watermark(self, column_name: str, watermark_expr: Any) -> Schema.Builder:
            """Declares the column as event time. The expression, SQL text or an Expression, gives the watermark."""
            self._watermarks.append(UnresolvedWatermark(_name(column_name), watermark_expr))
            return self

        def primary_key(self, *column_names: str) -> Schema.Builder:
            return self.primary_key_named("PK_" + "_".join(column_names), *column_names)

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Schema.Builder:
            if not column_names:
                raise ValidationError("Primary key constraint must be defined for at least a single column.")
            self._set_primary_key(constraint_name, column_names)
            return self

        def build(self) -> Schema:
            return Schema(tuple(self._columns), tuple(self._watermarks), self._primary_key)

        def _set_primary_key(self, name: str, columns: tuple[str, ...]) -> None:
            if self._primary_key is not None:
                raise ValidationError("Multiple primary keys are not supported.")
            self._primary_key = (name, tuple(columns))


def _name(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValidationError(f"Column names must be non-empty texts, not {name!r}.")
    return name


def _check_type(data_type: Any) -> None:
    from flinkpy.table.types import DataType

    if not isinstance(data_type, (str, DataType, LogicalType)):
        raise TypeError(f"a column needs a type of DataTypes or its SQL text, not {data_type!r}")


def _line(column: UnresolvedColumn) -> str:
    comment = "" if column.comment is None else f" COMMENT '{column.comment}'"
    if isinstance(column, UnresolvedComputedColumn):
        return f"  `{column.name}` AS [{column.expression}]{comment}"
    if isinstance(column, UnresolvedMetadataColumn):
        source = "" if column.metadata_key is None else f" FROM '{column.metadata_key}'"
        virtual = " VIRTUAL" if column.is_virtual else ""
        return f"  `{column.name}` {column.type} METADATA{source}{virtual}{comment}"
    kind = getattr(column, "type", None)
    return f"  `{column.name}` {kind}{comment}"
