"""The formats of changelogs in JSON: debezium-json, canal-json, maxwell-json and ogg-json.

A message is an envelope around one row, or around a row before and after a change. The formats differ in the names in
the envelope. An update is read as the row before and the row after, and is written as a deletion and an insertion.

Source: org.apache.flink.formats.json.{debezium, canal, maxwell, ogg}.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.types import RowKind
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.formats.json_values import JsonReadOptions, JsonValueError, parse_json, row_converter
from flinkpy.formats.schema import MessageError
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.table.connectors.changelog_mode import ALL, ChangelogMode
from flinkpy.table.formats.changelog_metadata import metadata_of
from flinkpy.table.formats.json import IGNORE_PARSE_ERRORS, WRITE_OPTIONS, JsonTexts
from flinkpy.table.formats.message_schemas import (
    DecodedChanges,
    TableDeserializationSchema,
    TableSerializationSchema,
    columns_of_rows,
    record_type_of,
)
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkpy.sql.types.logical_types import LogicalType, RowType
    from flinkpy.table.connectors.table_options import TableOptions

#: (kind, the JSON object of the row).
Change = tuple[RowKind, Any]

SCHEMA_INCLUDE = ConfigOption(
    "schema-include", OptionType.BOOL, False, "True if messages have a schema, with the change in their payload."
)
DATABASE_INCLUDE: ConfigOption[str | None] = ConfigOption(
    "database.include", OptionType.STRING, None, "A pattern: only changes of databases that match it are read."
)
TABLE_INCLUDE: ConfigOption[str | None] = ConfigOption(
    "table.include", OptionType.STRING, None, "A pattern: only changes of tables that match it are read."
)

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = (
    RowKind.INSERT,
    RowKind.UPDATE_BEFORE,
    RowKind.UPDATE_AFTER,
    RowKind.DELETE,
)


class Envelope:
    """The form of one format's messages. Picklable."""

    def changes(self, message: dict[str, Any]) -> Iterator[Change]:
        """Returns the changes of a message. Raises: JsonValueError."""
        raise NotImplementedError

    def wrapped(self, row: str, is_insert: bool) -> str:
        """Returns the message that inserts or deletes a row, which is JSON text."""
        raise NotImplementedError


class _BeforeAndAfter(Envelope):
    """Messages with the whole row before and after the change: those of Debezium and Oracle GoldenGate."""

    def __init__(self, name: str, operation: str, inserts: Sequence[str], update: str, delete: str) -> None:
        self._name = name
        self._operation = operation
        self._inserts = tuple(inserts)
        self._update = update
        self._delete = delete

    def changes(self, message: dict[str, Any]) -> Iterator[Change]:
        operation = message.get(self._operation)
        if operation in self._inserts:
            yield INSERT, self._row(message, "after", operation)
        elif operation == self._update:
            yield UPDATE_BEFORE, self._row(message, "before", operation)
            yield UPDATE_AFTER, self._row(message, "after", operation)
        elif operation == self._delete:
            yield DELETE, self._row(message, "before", operation)
        else:
            raise JsonValueError(f"Unknown {self._operation!r} value {operation!r}: this is no message of {self._name}")

    def _row(self, message: dict[str, Any], field: str, operation: Any) -> Any:
        if message.get(field) is None:
            hint = ""
            if field == "before" and self._name == "Debezium":
                hint = "; a table of Postgres needs REPLICA IDENTITY FULL"
            raise JsonValueError(
                f"The {field!r} field of a message with {self._operation!r} {operation!r} is null{hint}"
            )
        return message[field]

    def wrapped(self, row: str, is_insert: bool) -> str:
        before, after = ("null", row) if is_insert else (row, "null")
        operation = self._inserts[0] if is_insert else self._delete
        return f'{{"before":{before},"after":{after},"{self._operation}":"{operation}"}}'


#: The messages of Debezium, in JSON and Avro.
DEBEZIUM = _BeforeAndAfter("Debezium", "op", ("c", "r"), "u", "d")


class _DebeziumWithSchema(_BeforeAndAfter):
    def changes(self, message: dict[str, Any]) -> Iterator[Change]:
        payload = message.get("payload")
        if not isinstance(payload, dict):
            raise JsonValueError("the message has no payload: set debezium-json.schema-include to false")
        return super().changes(payload)


class _DataAndOld(Envelope):
    """Messages with the row after the change, and the former values of changed fields: those of Canal and Maxwell.

    Args:
        has_many: True if a message has several rows.
        database, table: patterns of the databases and tables that are read; None for all.
    """

    def __init__(
        self, name: str, operations: dict[str, RowKind], ignored: Sequence[str], has_many: bool, **patterns: str | None
    ) -> None:
        self._name = name
        self._operations = operations
        self._ignored = tuple(ignored)
        self._has_many = has_many
        self._patterns = {key: re.compile(pattern) for key, pattern in patterns.items() if pattern is not None}

    def changes(self, message: dict[str, Any]) -> Iterator[Change]:
        for key, pattern in self._patterns.items():
            if pattern.fullmatch(str(message.get(key))) is None:
                return
        operation = message.get("type")
        if operation in self._ignored:
            return
        kind = self._operations.get(operation) if isinstance(operation, str) else None
        if kind is None:
            raise JsonValueError(f"Unknown 'type' value {operation!r}: this is no message of {self._name}")
        rows = self._rows(message, "data")
        if kind is not UPDATE_AFTER:
            for row in rows:
                yield kind, row
            return
        former = self._rows(message, "old")
        if len(former) != len(rows):
            raise JsonValueError("'data' and 'old' have different numbers of rows")
        for row, old in zip(rows, former, strict=True):
            # A field that is not there has not changed; a null there was the former value.
            yield UPDATE_BEFORE, {**row, **old}
            yield UPDATE_AFTER, row

    def _rows(self, message: dict[str, Any], field: str) -> list[dict[str, Any]]:
        found = message.get(field)
        rows = found if self._has_many else [found]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise JsonValueError(f"the field {field!r} has no rows")
        return rows

    def wrapped(self, row: str, is_insert: bool) -> str:
        kind = INSERT if is_insert else DELETE
        operation = next(name for name, found in self._operations.items() if found is kind)
        data = f"[{row}]" if self._has_many else row
        return f'{{"data":{data},"type":"{operation}"}}'


class ChangelogJsonFormat(TableFormat):
    """A format of changelogs in JSON. Subclasses define the envelope."""

    optional_options: tuple[ConfigOption[Any], ...] = (IGNORE_PARSE_ERRORS, *WRITE_OPTIONS)

    @property
    def changelog_mode(self) -> ChangelogMode:
        return ALL

    def envelope(self, options: TableOptions) -> Envelope:
        raise NotImplementedError

    @property
    def metadata(self) -> dict[str, LogicalType]:
        return {key: each.type for key, each in metadata_of(self.identifier).items()}

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        envelope = self.envelope(options)
        return _ChangelogReader(row_type, self.identifier, envelope, options.get(IGNORE_PARSE_ERRORS))

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _ChangelogWriter(row_type, self.envelope(options), JsonTexts(row_type, options))


class DebeziumJsonTableFormat(ChangelogJsonFormat):
    identifier = "debezium-json"
    optional_options = (SCHEMA_INCLUDE, IGNORE_PARSE_ERRORS, *WRITE_OPTIONS)

    def envelope(self, options: TableOptions) -> Envelope:
        if options.get(SCHEMA_INCLUDE):
            return _DebeziumWithSchema("Debezium", "op", ("c", "r"), "u", "d")
        return DEBEZIUM


class OggJsonTableFormat(ChangelogJsonFormat):
    identifier = "ogg-json"

    def envelope(self, options: TableOptions) -> Envelope:
        return _BeforeAndAfter("Oracle GoldenGate", "op_type", ("I",), "U", "D")


class CanalJsonTableFormat(ChangelogJsonFormat):
    identifier = "canal-json"
    optional_options = (DATABASE_INCLUDE, TABLE_INCLUDE, IGNORE_PARSE_ERRORS, *WRITE_OPTIONS)

    def envelope(self, options: TableOptions) -> Envelope:
        operations = {"INSERT": INSERT, "UPDATE": UPDATE_AFTER, "DELETE": DELETE}
        patterns = {"database": options.get(DATABASE_INCLUDE), "table": options.get(TABLE_INCLUDE)}
        return _DataAndOld("Canal", operations, ("CREATE",), True, **patterns)


class MaxwellJsonTableFormat(ChangelogJsonFormat):
    identifier = "maxwell-json"

    def envelope(self, options: TableOptions) -> Envelope:
        operations = {"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE_AFTER, "delete": DELETE}
        return _DataAndOld("Maxwell", operations, ("bootstrap-start", "bootstrap-complete"), False)


class _ChangelogReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, identifier: str, envelope: Envelope, ignores_errors: bool) -> None:
        super().__init__(row_type)
        self._identifier = identifier
        self._envelope = envelope
        self._ignores_errors = ignores_errors
        self._metadata: tuple[str, ...] = ()

    def with_metadata(self, keys: tuple[str, ...]) -> TableDeserializationSchema:
        changed = copy.copy(self)
        changed._metadata = keys
        return changed

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        import numpy as np

        convert = row_converter(record_type_of(self.row_type), JsonReadOptions(False, self._ignores_errors))
        rows: list[list[Any]] = []
        objects: list[dict[str, Any]] = []
        kinds, positions, errors = [], [], []
        for index, message in enumerate(messages):
            if not message:
                continue  # Debezium and Kafka mark the end of a key by a tombstone after its deletion
            try:
                found = parse_json(message)
                if not isinstance(found, dict):
                    raise JsonValueError("the message is not an object")
                changes = [(kind, convert(row)) for kind, row in self._envelope.changes(found)]
            except (JsonValueError, ValueError) as error:
                if not self._ignores_errors:
                    errors.append(MessageError(index, str(error)))
                continue
            for kind, row in changes:
                rows.append(row)
                kinds.append(kind.value)
                positions.append(index)
                objects.append(found)
        columns = self._with_facts(columns_of_rows(rows, self.row_type), objects)
        return DecodedChanges(columns, np.array(kinds, np.int8), np.array(positions, np.int64), errors)

    def _with_facts(self, columns: pa.RecordBatch, objects: list[dict[str, Any]]) -> pa.RecordBatch:
        """Returns the rows with their metadata. `objects` has the message of each row."""
        import pyarrow as pa

        known = metadata_of(self._identifier, isinstance(self._envelope, _DebeziumWithSchema))
        for key in self._metadata:
            values = [known[key].read(each) for each in objects]
            columns = columns.append_column(key, pa.array(values, arrow_type_of(known[key].type)))
        return columns


class _ChangelogWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, envelope: Envelope, texts: JsonTexts) -> None:
        super().__init__(row_type)
        self._envelope = envelope
        self._texts = texts

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        texts = self._texts(rows)
        inserts = (INSERT.value, UPDATE_AFTER.value)
        is_insert = [True] * len(texts) if kinds is None else [kind in inserts for kind in kinds.tolist()]
        return [self._envelope.wrapped(text, found).encode() for text, found in zip(texts, is_insert)]
