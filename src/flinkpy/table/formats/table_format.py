"""TableFormat: reads and writes records for the connectors of tables; found by the option `format`.

Source: org.apache.flink.table.factories.{DeserializationFormatFactory, SerializationFormatFactory,
BulkReaderFormatFactory, BulkWriterFormatFactory}.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.table_options import did_you_mean

if TYPE_CHECKING:
    from flinkpy.configuration.options import ConfigOption
    from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory
    from flinkpy.formats.file_format import FileFormat
    from flinkpy.sql.types.logical_types import LogicalType, RowType
    from flinkpy.table.connectors.table_options import TableOptions
    from flinkpy.table.formats.message_schemas import TableDeserializationSchema, TableSerializationSchema

#: The group of entry points: name = identifier, value = `module:class`.
ENTRY_POINT_GROUP = "flinkpy.table.formats"

#: flinkpy's own formats below `flinkpy.table.formats`. Each module is imported on first use.
_BUILT_IN = {
    "avro": "avro:AvroTableFormat",
    "avro-confluent": "avro_confluent:AvroConfluentTableFormat",
    "canal-json": "json_changelogs:CanalJsonTableFormat",
    "csv": "csv:CsvTableFormat",
    "debezium-avro-confluent": "avro_confluent:DebeziumAvroConfluentTableFormat",
    "debezium-json": "json_changelogs:DebeziumJsonTableFormat",
    "json": "json:JsonTableFormat",
    "maxwell-json": "json_changelogs:MaxwellJsonTableFormat",
    "ogg-json": "json_changelogs:OggJsonTableFormat",
    "orc": "orc:OrcTableFormat",
    "parquet": "parquet:ParquetTableFormat",
    "protobuf": "protobuf:ProtobufTableFormat",
    "raw": "raw:RawTableFormat",
}


class TableFormat(ABC):
    """A format. Subclasses set the attributes and implement what they can.

    Attributes:
        identifier: the value of the option `format`.
        required_options, optional_options: its options, without the prefix of the format.
        option_prefixes: options that begin so are passed on without a check, such as `properties.` of a registry.
    """

    identifier: str
    required_options: Sequence[ConfigOption[Any]] = ()
    optional_options: Sequence[ConfigOption[Any]] = ()
    option_prefixes: Sequence[str] = ()

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of changes that records of the format describe."""
        return INSERT_ONLY

    def file_format(self, row_type: RowType, options: TableOptions) -> FileFormat:
        """Returns the reader of files with these columns. It emits rows of `record_type_of(row_type)`, or columns."""
        raise self._missing("read files")

    def file_writer(self, row_type: RowType, options: TableOptions) -> ColumnBulkWriterFactory:
        """Returns the writer of files with these columns."""
        raise self._missing("write files")

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        """Returns the reader of messages with these rows."""
        raise self._missing("read messages")

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        """Returns the writer of messages with these rows."""
        raise self._missing("write messages")

    @property
    def metadata(self) -> dict[str, LogicalType]:
        """The facts about messages that tables can declare as columns, by key."""
        return {}

    def with_topic(self, options: TableOptions, topic: str, part: str) -> TableOptions:
        """Returns the options completed for messages of a topic.

        Args:
            part: "key" or "value", the part of messages that the format writes.
        """
        return options

    def _missing(self, action: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"the format {self.identifier!r} cannot {action}")


def identifiers() -> list[str]:
    """Returns the known values of the option `format` in order."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def format_of(identifier: str, options: TableOptions, owner: str) -> tuple[TableFormat, TableOptions]:
    """Returns a format and its options, which are checked.

    Args:
        identifier: the value of `format`.
        options: those of the table; the format's begin with its identifier.
        owner: describes the table in errors.

    Raises: ValidationError, which lists the formats or options that there are.
    """
    if identifier in _BUILT_IN:
        module, _, name = _BUILT_IN[identifier].partition(":")
        kind: Any = getattr(import_module(f"flinkpy.table.formats.{module}"), name)
    else:
        found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
        if identifier not in found:
            raise ValidationError(
                f"Could not find any format factory for identifier '{identifier}' of {owner}.\n\n"
                "Available format identifiers are:\n\n"
                + "\n".join(identifiers())
                + did_you_mean(identifier, identifiers()),
                details={"option": "format", "value": identifier},
            )
        kind = found[identifier].load()
    made: TableFormat = kind()
    own = options.below(f"{identifier}.")
    own.check(identifier, made.required_options, made.optional_options, tuple(made.option_prefixes))
    return made, own
