"""Rows of a table as actions of Elasticsearch and OpenSearch: the index, the document's id, and the document.

Source: org.apache.flink.connector.elasticsearch.table.{IndexGeneratorFactory, KeyExtractor, RowElasticsearchEmitter}.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, ValidationError
from flinkpy.connectors.elasticsearch.bulk_client import Action
from flinkpy.records.last_changes import is_deletion
from flinkpy.sql.functions.date_formats import date_format
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.sql.types.time_zones import zone_of
from flinkpy.table.connectors.key_texts import plain_times, text_of_key

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.records.batch import Batch
    from flinkpy.table.formats.message_schemas import TableSerializationSchema

_REFERENCE = re.compile(r"\{([^{}|]+)(?:\|([^{}]*))?\}")
_NOW = ("now()", "current_timestamp")
_EPOCH = datetime.datetime(1970, 1, 1)
_TIMES = (types.DateType, types.TimeType, types.TimestampType, types.LocalZonedTimestampType)
#: Types without a good text, which cannot be in a document's id.
_ILLEGAL_KEYS = (
    types.BinaryType,
    types.VarBinaryType,
    types.ArrayType,
    types.MapType,
    types.MultisetType,
    RowType,
    types.RawType,
)


@dataclass(frozen=True)
class IndexNames:
    """The index of each row: a fixed name, or one with the value of a column or the present time in it.

    Attributes:
        prefix, suffix: the text around the reference; the whole name is `prefix` if there is none.
        column: the position of the column; None for a fixed name or the present time.
        pattern: how the time is shown; None to show the value itself.
        is_now: True for the present time.
        zone: the session's time zone.
    """

    prefix: str
    suffix: str = ""
    column: int | None = None
    pattern: str | None = None
    is_now: bool = False
    zone: str = "UTC"

    @staticmethod
    def of(text: str, row_type: RowType, zone: str) -> IndexNames:
        """Returns the indices of the option `index`, such as `logs-{ts|yyyy-MM-dd}`. Raises: ValidationError."""
        references = list(_REFERENCE.finditer(text))
        if len(references) > 1:
            raise ValidationError(
                f"Chaining dynamic index pattern {text} is not supported, only support single dynamic index pattern.",
                details={"option": "index", "value": text},
            )
        if not references:
            return IndexNames(text)
        [found] = references
        name, pattern = found[1].strip(), found[2]
        prefix, suffix = text[: found.start()], text[found.end() :]
        is_now = name.lower() in _NOW and name not in row_type.names
        if pattern is not None:
            try:
                date_format(pattern)
            except FlinkError as error:
                raise ValidationError(f"index: {error.message}", details={"option": "index", "value": text}) from error
        if is_now:
            return IndexNames(prefix, suffix, None, pattern or "yyyy_MM_dd_HH_mm_ss", True, zone)
        if name not in row_type.names:
            raise ValidationError(
                f"Unknown field '{name}' in index pattern '{text}', please check the field name. The columns are "
                f"{', '.join(row_type.names)}.",
                details={"option": "index", "value": text},
            )
        column = row_type.names.index(name)
        kind = row_type.fields[column].type
        if pattern is not None and not isinstance(kind, _TIMES):
            raise ValidationError(
                f"Unsupported type '{kind}' found in Elasticsearch dynamic index field, time-related pattern only "
                "support types are: DATE,TIME,TIMESTAMP.",
                details={"option": "index", "value": text},
            )
        return IndexNames(prefix, suffix, column, pattern, False, zone)

    def names(self, rows: pa.RecordBatch, row_type: RowType, now_ms: int) -> list[str]:
        """Returns the index of each row."""
        if self.is_now:
            moment = _EPOCH + datetime.timedelta(milliseconds=now_ms)
            return [self._around(self._shown(moment.replace(tzinfo=datetime.UTC)))] * rows.num_rows
        if self.column is None:
            return [self.prefix] * rows.num_rows
        encoded = plain_times(rows.column(self.column)).dictionary_encode()
        kind = row_type.fields[self.column].type
        known = [self._around(self._text(value, kind)) for value in encoded.dictionary.to_pylist()]
        null = self._around("null")
        return [null if place is None else known[place] for place in encoded.indices.to_pylist()]

    def _around(self, text: str) -> str:
        return f"{self.prefix}{text}{self.suffix}"

    def _text(self, value: Any, kind: LogicalType) -> str:
        return text_of_key(value, kind) if self.pattern is None else self._shown(value)

    def _shown(self, value: Any) -> str:
        assert self.pattern is not None
        return date_format(self.pattern).show(_nanos(value, self.zone))


def _nanos(value: Any, zone: str) -> int:
    """Returns a date, time or timestamp in nanoseconds since the epoch, in the zone's local time for a moment."""
    if isinstance(value, datetime.datetime):
        local = value if value.tzinfo is None else value.astimezone(zone_of(zone)).replace(tzinfo=None)
    elif isinstance(value, datetime.date):
        local = datetime.datetime.combine(value, datetime.time())
    else:
        local = datetime.datetime.combine(_EPOCH.date(), value)
    return (local - _EPOCH) // datetime.timedelta(microseconds=1) * 1_000


def check_keys(row_type: RowType, keys: tuple[int, ...]) -> None:
    """Raises: ValidationError if a key column has no good text."""
    illegal = [row_type.fields[place] for place in keys if isinstance(row_type.fields[place].type, _ILLEGAL_KEYS)]
    if illegal:
        raise ValidationError(
            "The table has a primary key on columns of illegal types: "
            + ", ".join(f"{field.name} {field.type}" for field in illegal),
            details={"column": illegal[0].name},
        )


@dataclass(frozen=True)
class DocumentEmitter:
    """Turns changes into actions: rows with a key are updated or deleted, others are added.

    Attributes:
        keys: the positions of the key columns; the texts of their values are the document's id.
        delimiter: separates them.
        document_type: the type of documents, which only Elasticsearch 6 has.
        documents: writes rows as JSON.
    """

    row_type: RowType
    index: IndexNames
    keys: tuple[int, ...]
    delimiter: str
    document_type: str | None
    documents: TableSerializationSchema

    def actions(self, batch: Batch, input_type: Any, now_ms: int) -> list[Action]:
        """Returns one action per change. A row before an update is a deletion: the row after it need not follow."""
        rows: Any = batch.values
        kinds = batch.kinds
        indices = self.index.names(rows, self.row_type, now_ms)
        ids = self._ids(rows)
        documents = self.documents.encode(rows, None)
        is_deleted = [False] * rows.num_rows if kinds is None else is_deletion(kinds).tolist()
        return [self._action(*each) for each in zip(indices, ids, documents, is_deleted)]

    def _ids(self, rows: pa.RecordBatch) -> list[str | None]:
        if not self.keys:
            return [None] * rows.num_rows
        columns = [
            [
                text_of_key(value, self.row_type.fields[place].type)
                for value in plain_times(rows.column(place)).to_pylist()
            ]
            for place in self.keys
        ]
        return [self.delimiter.join(values) for values in zip(*columns)]

    def _action(self, index: str, document_id: str | None, document: bytes | None, is_deleted: bool) -> Action:
        meta = {"_index": index}
        if self.document_type is not None:
            meta["_type"] = self.document_type
        if document_id is None:
            return Action(_line({"index": meta}) + (document or b"{}") + b"\n", index, None)
        meta["_id"] = document_id
        if is_deleted:
            return Action(_line({"delete": meta}), index, document_id)
        body = b'{"doc":' + (document or b"{}") + b',"doc_as_upsert":true}\n'
        return Action(_line({"update": meta}) + body, index, document_id)


def _line(head: dict[str, Any]) -> bytes:
    return json.dumps(head, ensure_ascii=False).encode() + b"\n"
