"""TableDescriptor and FormatDescriptor: what CREATE TABLE says, as objects. Source: pyflink.table.table_descriptor.

Example:
    >>> descriptor = TableDescriptor.for_connector("datagen").schema(schema).option("number-of-rows", "10").build()
    >>> environment.create_temporary_table("numbers", descriptor)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.table.catalog.catalog_tables import CatalogTable
from flinkpy.table.schema import Schema

__all__ = ["FormatDescriptor", "TableDescriptor"]

#: The suffix of options that name a format, such as `value.format`.
_FORMAT = "format"


@dataclass(frozen=True)
class _Described:
    """The parts of a TableDescriptor."""

    options: tuple[tuple[str, str], ...]
    schema: Schema | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None


class TableDescriptor:
    """A table of a connector. Made by `for_connector`."""

    def __init__(self, described: _Described) -> None:
        self._described = described

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Returns the builder of a table of this connector."""
        return TableDescriptor.Builder(_Described((("connector", connector),)))

    def get_schema(self) -> Schema | None:
        return self._described.schema

    def get_options(self) -> dict[str, str]:
        return dict(self._described.options)

    def get_partition_keys(self) -> list[str]:
        return list(self._described.partition_keys)

    def get_comment(self) -> str | None:
        return self._described.comment

    def to_catalog_table(self, schema: Schema | None = None) -> CatalogTable:
        """Returns what a catalog stores. Not part of PyFlink's API.

        Args:
            schema: the columns where the descriptor has none, such as those of the rows that are written.

        Raises: ValidationError if there is no schema.
        """
        declared = self._described.schema or schema
        if declared is None:
            raise ValidationError("Schema missing in TableDescriptor. Please specify a schema.")
        keys = self._described.partition_keys
        return CatalogTable(declared, self.get_options(), self._described.comment or "", keys)

    def __str__(self) -> str:
        described = self._described
        lines = [str(described.schema)] if described.schema is not None else []
        if described.comment is not None:
            lines.append(f"COMMENT '{described.comment}'")
        if described.partition_keys:
            lines.append(f"PARTITIONED BY ({', '.join(f'`{each}`' for each in described.partition_keys)})")
        options = ",\n".join(f"  '{key}' = '{value}'" for key, value in described.options)
        return "\n".join([*lines, f"WITH (\n{options}\n)"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDescriptor) and self._described == other._described

    def __hash__(self) -> int:
        return hash(self._described.options)

    class Builder:
        """Collects the parts of a table."""

        def __init__(self, described: _Described) -> None:
            self._described = described

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Sets the columns, watermark and primary key."""
            return self._changed(schema=schema)

        def option(self, key: Any, value: Any) -> TableDescriptor.Builder:
            """Sets an option of the connector, by its key or its ConfigOption."""
            return self._with_option(_key(key), _text(value))

        def format(self, format: str | FormatDescriptor, format_option: Any = None) -> TableDescriptor.Builder:
            """Sets the format and its options.

            Args:
                format: the format.
                format_option: the option that names it, such as `value.format`; by default `format`.
            """
            key = _FORMAT if format_option is None else _key(format_option)
            if key != _FORMAT and not key.endswith(f".{_FORMAT}"):
                raise ValidationError("Format identifier key should be equal to 'format' or suffixed with '.format'.")
            if isinstance(format, str):
                return self._with_option(key, format)
            name = format.get_format()
            prefix = f"{key.removesuffix(_FORMAT)}{name}."
            self._with_option(key, name)
            for each, value in format.get_options().items():
                self._with_option(f"{prefix}{each}", value)
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Sets the columns by which the table is partitioned."""
            return self._changed(partition_keys=(*self._described.partition_keys, *partition_keys))

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Sets the comment of the table."""
            return self._changed(comment=comment)

        def build(self) -> TableDescriptor:
            """Returns the descriptor."""
            return TableDescriptor(self._described)

        def _with_option(self, key: str, value: str) -> TableDescriptor.Builder:
            return self._changed(options=tuple({**dict(self._described.options), key: value}.items()))

        def _changed(self, **changes: Any) -> TableDescriptor.Builder:
            self._described = replace(self._described, **changes)
            return self


class FormatDescriptor:
    """A format with its options. Made by `for_format`."""

    def __init__(self, format: str, options: dict[str, str]) -> None:
        self._format = format
        self._options = dict(options)

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Returns the builder of a format, such as `json`."""
        return FormatDescriptor.Builder(format)

    def get_format(self) -> str:
        return self._format

    def get_options(self) -> dict[str, str]:
        return dict(self._options)

    def __str__(self) -> str:
        return f"{self._format}[{self._options}]"

    def __eq__(self, other: object) -> bool:
        is_same = isinstance(other, FormatDescriptor)
        return is_same and (self._format, self._options) == (other._format, other._options)  # type: ignore[union-attr, attr-defined]

    def __hash__(self) -> int:
        return hash((self._format, tuple(sorted(self._options.items()))))

    class Builder:
        """Collects the options of a format."""

        def __init__(self, format: str) -> None:
            self._format = format
            self._options: dict[str, str] = {}

        def option(self, key: Any, value: Any) -> FormatDescriptor.Builder:
            """Sets an option, whose key does not begin with the name of the format."""
            self._options[_key(key)] = _text(value)
            return self

        def build(self) -> FormatDescriptor:
            """Returns the descriptor."""
            return FormatDescriptor(self._format, self._options)


def _key(key: Any) -> str:
    """Returns the key of an option."""
    return key if isinstance(key, str) else str(key.key)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
