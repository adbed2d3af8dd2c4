"""The metadata in the envelopes of changelogs in JSON, which tables can declare as columns.

Connectors with keys and values, such as Kafka, offer them with the prefix `value.`.

Source: the enums ReadableMetadata of org.apache.flink.formats.json.{debezium.DebeziumJsonDecodingFormat,
canal.CanalJsonDecodingFormat, maxwell.MaxwellJsonDecodingFormat, ogg.OggJsonDecodingFormat}.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TEXT = types.VarCharType()
_TEXTS = types.ArrayType(_TEXT)


class Metadata(NamedTuple):
    """A fact about a change.

    Attributes:
        type: its column.
        read: returns the value from the message; None if it is not there, or has another form.
    """

    type: LogicalType
    read: Callable[[dict[str, Any]], Any]


def _at(*path: str) -> Callable[[dict[str, Any]], Any]:
    def read(message: dict[str, Any]) -> Any:
        found: Any = message
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    return read


def _text(*path: str) -> Metadata:
    read = _at(*path)
    return Metadata(_TEXT, lambda message: _as_text(read(message)))


def _texts(*path: str) -> Metadata:
    def read(message: dict[str, Any]) -> Any:
        found = _at(*path)(message)
        return [_as_text(each) for each in found] if isinstance(found, list) else None

    return Metadata(_TEXTS, read)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _moment(*path: str, to_units: Callable[[Any], int | None], precision: int = 3) -> Metadata:
    read = _at(*path)
    return Metadata(types.LocalZonedTimestampType(precision), lambda message: to_units(read(message)))


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _seconds(value: Any) -> int | None:
    return value * 1_000 if isinstance(value, int) else None


def _sql_time(value: Any) -> int | None:
    """Returns the microseconds of a text such as `2020-05-13 15:40:06.000000`, which is in UTC."""
    try:
        found = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    moment = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def _entries(*path: str, to_value: Callable[[Any], Any], value_type: LogicalType) -> Metadata:
    def read(message: dict[str, Any]) -> Any:
        found = _at(*path)(message)
        return [(key, to_value(value)) for key, value in found.items()] if isinstance(found, dict) else None

    return Metadata(types.MapType(_TEXT, value_type), read)


DEBEZIUM: dict[str, Metadata] = {
    "schema": _text("schema"),
    "ingestion-timestamp": _moment("ts_ms", to_units=_number),
    "source.timestamp": _moment("source", "ts_ms", to_units=_number),
    "source.database": _text("source", "db"),
    "source.schema": _text("source", "schema"),
    "source.table": _text("source", "table"),
    "source.properties": _entries("source", to_value=_as_text, value_type=_TEXT),
}
CANAL: dict[str, Metadata] = {
    "database": _text("database"),
    "table": _text("table"),
    "sql-type": _entries("sqlType", to_value=_number, value_type=types.IntType()),
    "pk-names": _texts("pkNames"),
    "ingestion-timestamp": _moment("ts", to_units=_number),
    "event-timestamp": _moment("es", to_units=_number),
}
MAXWELL: dict[str, Metadata] = {
    "database": _text("database"),
    "table": _text("table"),
    "primary-key-columns": _texts("primary_key_columns"),
    # In seconds.
    "ingestion-timestamp": _moment("ts", to_units=_seconds),
}
OGG: dict[str, Metadata] = {
    "table": _text("table"),
    "primary-keys": _texts("primary_keys"),
    "event-timestamp": _moment("op_ts", to_units=_sql_time, precision=6),
    "ingestion-timestamp": _moment("current_ts", to_units=_sql_time, precision=6),
}


_OF_FORMATS = {"debezium-json": DEBEZIUM, "canal-json": CANAL, "maxwell-json": MAXWELL, "ogg-json": OGG}


def metadata_of(identifier: str, is_in_payload: bool = False) -> dict[str, Metadata]:
    """Returns the metadata of a format by key.

    Args:
        is_in_payload: True if the change is in the payload of messages, beside its schema.
    """
    found = _OF_FORMATS[identifier]
    if not is_in_payload:
        return found
    return {key: each if key == "schema" else Metadata(each.type, _inner(each.read)) for key, each in found.items()}


def _inner(read: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda message: read(found) if isinstance(found := message.get("payload"), dict) else None
