"""Avro in messages and files of tables, with and without a schema registry."""

from __future__ import annotations

import base64
import datetime
import io
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from registry_server import RegistryServer, running_registry

from flinkpy.common.errors import SchemaRegistryError, TypeMismatchError, UnsupportedOperationError, ValidationError
from flinkpy.connectors.file_source import FileSource
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.formats.avro import CODECS
from flinkpy.table.formats.avro_schemas import avro_schema_of
from flinkpy.table.formats.table_format import format_of
from tests.unit.connectors.connector_fakes import read_splits

fastavro = pytest.importorskip("fastavro")

TEXT = types.VarCharType()
EVERY_TYPE = types.RowType.of(
    ("b", types.BooleanType()),
    ("t", types.TinyIntType()),
    ("s", types.SmallIntType()),
    ("i", types.IntType(nullable=False)),
    ("l", types.BigIntType()),
    ("f", types.FloatType()),
    ("d", types.DoubleType()),
    ("text", TEXT),
    ("raw", types.VarBinaryType()),
    ("price", types.DecimalType(38, 2)),
    ("at", types.TimestampType(3)),
    ("day", types.DateType()),
    ("time", types.TimeType(3)),
    ("row", types.RowType.of(("p", types.DecimalType(5, 1)), ("at", types.TimestampType(3)))),
    ("list", types.ArrayType(types.DecimalType(4, 1))),
    ("map", types.MapType(TEXT.not_null(), types.TimestampType(3))),
    ("bag", types.MultisetType(TEXT)),
)
AT = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)
VALUES = {
    "b": True,
    "t": -1,
    "s": 300,
    "i": 7,
    "l": 1 << 60,
    "f": 0.5,
    "d": 2.25,
    "text": "é",
    "raw": b"\x00\xff",
    "price": Decimal("-123456789012345678901234567890123456.78"),
    "at": AT,
    "day": AT.date(),
    "time": datetime.time(3, 4, 5, 678000),
    "row": {"p": Decimal("-12.8"), "at": AT},
    "list": [Decimal("1.5"), None],
    "map": [("k", AT), ("n", None)],
    "bag": [("x", 2)],
}
ROWS = pa.RecordBatch.from_pylist([VALUES, {**dict.fromkeys(VALUES), "i": 8}], schema=schema_of(EVERY_TYPE))


def schemas_of(identifier: str, row_type: types.RowType, **options: str) -> tuple[Any, Any]:
    given = {f"{identifier}.{key}": text for key, text in options.items()}
    found, own = format_of(identifier, TableOptions(given, "table 't'"), "table 't'")
    made = found.deserialization_schema(row_type, own), found.serialization_schema(row_type, own)
    return pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize("encoding", ["binary", "json"])
def test_rows_of_every_type_survive_a_message(encoding: str) -> None:
    reader, writer = schemas_of("avro", EVERY_TYPE, encoding=encoding)
    decoded = reader.decode([*writer.encode(ROWS, None), None])
    assert not decoded.errors
    assert decoded.rows.equals(ROWS)
    assert decoded.positions.tolist() == [0, 1]


def test_messages_are_those_of_the_schema_that_flink_derives() -> None:
    _, writer = schemas_of("avro", EVERY_TYPE)
    schema = fastavro.parse_schema(avro_schema_of(EVERY_TYPE.not_null()))
    found = fastavro.schemaless_reader(io.BytesIO(writer.encode(ROWS, None)[0]), schema, None)
    assert found["price"] == VALUES["price"]
    assert found["at"].replace(tzinfo=None) == AT
    assert found["row"]["p"] == Decimal("-12.8")
    assert found["map"].keys() == {"k", "n"}


def test_a_derived_schema_names_nested_records_by_their_fields() -> None:
    kind = types.RowType.of(("a", types.RowType.of(("n", types.IntType()))), ("k", types.BigIntType(nullable=False)))
    assert avro_schema_of(kind.not_null()) == {
        "type": "record",
        "name": "org.apache.flink.avro.generated.record",
        "fields": [
            {
                "name": "a",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "org.apache.flink.avro.generated.record_a",
                        "fields": [{"name": "n", "type": ["null", "int"], "default": None}],
                    },
                ],
                "default": None,
            },
            {"name": "k", "type": "long"},
        ],
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (types.TimestampType(3), "local-timestamp-millis"),
        (types.TimestampType(6), "local-timestamp-micros"),
        (types.LocalZonedTimestampType(3), "timestamp-millis"),
        (types.LocalZonedTimestampType(6), "timestamp-micros"),
    ],
)
def test_without_the_legacy_mapping_local_times_differ_from_moments(kind: Any, expected: str) -> None:
    assert avro_schema_of(kind.not_null(), False) == {"type": "long", "logicalType": expected}
    row_type = types.RowType.of(("at", kind))
    rows = pa.RecordBatch.from_arrays([pa.array([5, None], pa.int64()).cast(schema_of(row_type).field(0).type)], ["at"])
    reader, writer = schemas_of("avro", row_type, **{"timestamp_mapping.legacy": "false"})
    assert reader.decode(writer.encode(rows, None)).rows.column(0).equals(rows.column(0))


@pytest.mark.parametrize(
    ("kind", "error", "expected"),
    [
        (types.TimestampType(6), ValidationError, "does not support TIMESTAMP type with precision: 6"),
        (types.LocalZonedTimestampType(3), UnsupportedOperationError, "timestamp_mapping.legacy"),
        (types.TimeType(6), ValidationError, "TIME type with precision: 6"),
        (types.MapType(types.IntType(), TEXT), UnsupportedOperationError, "non-string as key type of map"),
    ],
)
def test_types_that_avro_does_not_have_are_refused(kind: Any, error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        schemas_of("avro", types.RowType.of(("v", kind)))


def test_malformed_messages_are_errors_with_their_positions_and_null_is_refused_where_it_is_not_allowed() -> None:
    row_type = types.RowType.of(("i", types.IntType(nullable=False)), ("t", TEXT))
    reader, writer = schemas_of("avro", row_type)
    good = writer.encode(pa.RecordBatch.from_pylist([{"i": 1, "t": "a"}], schema=schema_of(row_type)), None)
    decoded = reader.decode([*good, b"", b"\x02\x09", *good])
    assert [error.position for error in decoded.errors] == [1, 2]
    assert decoded.positions.tolist() == [0, 3]
    with pytest.raises(TypeMismatchError, match="does not match the Avro schema"):
        writer.encode(pa.RecordBatch.from_pylist([{"i": None, "t": "a"}], schema=schema_of(row_type)), None)


@pytest.mark.parametrize("codec", CODECS)
def test_files_are_written_with_every_codec_and_only_the_asked_columns_are_made(codec: str, tmp_path: Path) -> None:
    options = TableOptions({"avro.codec": codec}, "table 't'")
    found, own = format_of("avro", options, "table 't'")
    many = pa.Table.from_batches([ROWS] * 500).combine_chunks().to_batches()[0]
    with (tmp_path / "part.avro").open("wb") as file:
        writer = found.file_writer(EVERY_TYPE, own).create(file, InternalTypeInfo(EVERY_TYPE))
        writer.add(Batch(many))
        writer.finish()
    if codec in ("null", "deflate"):
        with (tmp_path / "part.avro").open("rb") as file:
            assert len(list(fastavro.reader(file))) == 1_000
    source = FileSource.for_bulk_file_format(found.file_format(EVERY_TYPE, own), str(tmp_path)).build()
    batches = [batch.values for batch in read_splits(source, source.list_splits(3))]
    assert pa.Table.from_batches(batches).to_pylist() == many.to_pylist()
    narrow = FileSource.for_bulk_file_format(
        found.file_format(EVERY_TYPE, own).projected_to(["text", "i"]), str(tmp_path)
    ).build()
    (first, *_) = read_splits(narrow, narrow.list_splits(1))
    assert first.values.schema.names == ["text", "i"]


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running_registry() as server:
        yield server


PRODUCTS = types.RowType.of(("id", types.IntType()), ("name", TEXT), ("price", types.DecimalType(6, 2)))
PRODUCT = {"id": 7, "name": "a", "price": Decimal("2.50")}
PRODUCT_ROWS = pa.RecordBatch.from_pylist([{**PRODUCT, "id": each} for each in range(4)], schema=schema_of(PRODUCTS))


def test_messages_begin_with_the_id_under_which_their_schema_is_registered(registry: RegistryServer) -> None:
    reader, writer = schemas_of("avro-confluent", PRODUCTS, url=f"http://127.0.0.1:1,{registry.url}", subject="s-value")
    registry.add('"int"')
    messages = writer.encode(PRODUCT_ROWS, None)
    assert {message[:5] for message in messages} == {b"\x00\x00\x00\x00\x02"}
    assert json.loads(registry.schemas[1])["name"] == "org.apache.flink.avro.generated.record"
    assert reader.decode(messages).rows.equals(PRODUCT_ROWS)
    writer.encode(PRODUCT_ROWS, None)
    assert [request[:2] for request in registry.requests] == [
        ("POST", "/subjects/s-value/versions"),
        ("GET", "/schemas/ids/2"),
    ]


def test_records_of_other_schemas_are_matched_by_name(registry: RegistryServer) -> None:
    older = {
        "type": "record",
        "name": "Older",
        "fields": [{"name": "name", "type": "bytes"}, {"name": "x", "type": "int"}],
    }
    newer = {
        "type": "record",
        "name": "Newer",
        "fields": [
            {"name": "name", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "id", "type": "int"},
        ],
    }

    def message(schema: Any, record: Any) -> bytes:
        output = io.BytesIO()
        fastavro.schemaless_writer(output, fastavro.parse_schema(schema), record)
        return b"\x00" + registry.add(schema).to_bytes(4, "big") + output.getvalue()

    reader, _ = schemas_of("avro-confluent", PRODUCTS, url=registry.url, subject="s")
    decoded = reader.decode([message(older, {"name": b"a", "x": 1}), message(newer, {"name": "B", "id": 3}), b"{}"])
    assert decoded.rows.to_pylist() == [
        {"id": None, "name": "a", "price": None},
        {"id": 3, "name": "B", "price": None},
    ]
    assert [(error.position, "Magic number does not match" in error.reason) for error in decoded.errors] == [(2, True)]


def test_a_schema_that_must_be_there_is_only_looked_up(registry: RegistryServer) -> None:
    options = {"url": registry.url, "subject": "s", "auto.register.schemas": "false"}
    _, writer = schemas_of("avro-confluent", PRODUCTS, **options)
    with pytest.raises(SchemaRegistryError, match=r"answered 404 to POST /subjects/s: .*Subject 's' not found"):
        writer.encode(PRODUCT_ROWS, None)
    assert registry.schemas == []


def test_a_failing_registry_is_asked_at_its_next_address_and_is_named(registry: RegistryServer) -> None:
    registry.failures = [503]
    _, writer = schemas_of("avro-confluent", PRODUCTS, url=f"{registry.url},{registry.url}", subject="s")
    assert len(writer.encode(PRODUCT_ROWS, None)) == 4
    reader, _ = schemas_of("avro-confluent", PRODUCTS, url="http://127.0.0.1:1", subject="s")
    with pytest.raises(SchemaRegistryError, match=r"no schema registry answers GET /schemas/ids/9: http://127.0.0.1:1"):
        reader.decode([b"\x00\x00\x00\x00\x09"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"basic-auth.user-info": "u:p"}, f"Basic {base64.b64encode(b'u:p').decode()}"),
        ({"properties.basic.auth.user.info": "u:p"}, f"Basic {base64.b64encode(b'u:p').decode()}"),
        ({"bearer-auth.token": "t"}, "Bearer t"),
    ],
)
def test_the_registry_gets_credentials(registry: RegistryServer, options: dict[str, str], expected: str) -> None:
    _, writer = schemas_of("avro-confluent", PRODUCTS, url=registry.url, subject="s", **options)
    writer.encode(PRODUCT_ROWS, None)
    assert registry.requests[0][2] == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "Option 'avro-confluent.subject' is required for serialization"),
        ({"subject": "s", "properties.x": "1"}, "The property 'x' of the schema registry is not supported"),
        ({"subject": "s", "schema": "{"}, "Could not parse Avro schema string"),
        ({"subject": "s", "schema": '{"type":"record","name":"r","fields":[]}'}, "but the columns are id, name, price"),
        ({"subject": "s", "basic-auth.credentials-source": "SASL"}, "must be one of USER_INFO, URL"),
    ],
)
def test_wrong_options_of_a_registry_are_reported(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        schemas_of("avro-confluent", PRODUCTS, url="http://x", **options)


def test_changes_of_debezium_are_read_and_written(registry: RegistryServer) -> None:
    reader, writer = schemas_of("debezium-avro-confluent", PRODUCTS, url=registry.url, subject="s")
    decoded = reader.decode(writer.encode(PRODUCT_ROWS, np.array([0, 1, 2, 3], np.int8)))
    assert decoded.kinds.tolist() == [0, 3, 0, 3]
    assert decoded.rows.equals(PRODUCT_ROWS)


def test_an_update_of_debezium_is_two_changes_and_needs_the_row_before(registry: RegistryServer) -> None:
    value = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": "long"},
        ],
    }
    head = b"\x00" + registry.add(schema).to_bytes(4, "big")
    parsed = fastavro.parse_schema(schema)

    def message(before: int | None, after: int | None, operation: str) -> bytes:
        output = io.BytesIO()
        rows = [None if each is None else {"id": each} for each in (before, after)]
        fastavro.schemaless_writer(output, parsed, {"before": rows[0], "after": rows[1], "op": operation, "ts_ms": 0})
        return head + output.getvalue()

    reader, _ = schemas_of("debezium-avro-confluent", PRODUCTS, url=registry.url, subject="s")
    decoded = reader.decode(
        [message(None, 1, "r"), message(1, 2, "u"), None, message(None, 2, "u"), message(2, None, "d")]
    )
    assert list(zip(decoded.kinds.tolist(), decoded.rows.column("id").to_pylist())) == [(0, 1), (1, 1), (2, 2), (3, 2)]
    assert decoded.positions.tolist() == [0, 1, 1, 4]
    ((position, reason),) = decoded.errors
    assert position == 3
    assert "REPLICA IDENTITY FULL" in reason
