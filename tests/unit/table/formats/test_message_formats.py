"""Formats of messages: rows and their kinds of change are read from bytes, and written to bytes."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.formats.message_schemas import TableDeserializationSchema, TableSerializationSchema
from flinkpy.table.formats.table_format import format_of

PRICES = types.RowType.of(
    ("id", types.BigIntType()),
    ("price", types.DecimalType(6, 2)),
    ("at", types.TimestampType(3)),
    ("name", types.VarCharType()),
)
PRODUCTS = types.RowType.of(("id", types.IntType()), ("name", types.VarCharType()), ("weight", types.DoubleType()))
CHANGED = {"id": 7, "name": "a", "weight": 2.5}


def options_of(identifier: str, **options: str) -> TableOptions:
    return TableOptions({f"{identifier}.{key.replace('_', '-')}": text for key, text in options.items()}, "table 't'")


def reader_of(identifier: str, row_type: types.RowType, **options: str) -> TableDeserializationSchema:
    found, own = format_of(identifier, options_of(identifier, **options), "table 't'")
    return pickle.loads(pickle.dumps(found.deserialization_schema(row_type, own)))


def writer_of(identifier: str, row_type: types.RowType, **options: str) -> TableSerializationSchema:
    found, own = format_of(identifier, options_of(identifier, **options), "table 't'")
    return pickle.loads(pickle.dumps(found.serialization_schema(row_type, own)))


def changes(reader: TableDeserializationSchema, *messages: Any) -> list[tuple[str, dict[str, Any]]]:
    decoded = reader.decode([json.dumps(each).encode() for each in messages])
    assert not decoded.errors
    assert decoded.kinds is not None
    return [(str(RowKind(kind)), row) for kind, row in zip(decoded.kinds.tolist(), decoded.rows.to_pylist())]


ROW = {"id": 1, "price": Decimal("2.50"), "at": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000), "name": "y,z"}


@pytest.mark.parametrize("identifier", ["csv", "json"])
def test_rows_survive_a_message_with_the_types_of_the_table(identifier: str) -> None:
    rows = pa.RecordBatch.from_pylist([ROW, {**dict.fromkeys(ROW), "id": 2}], schema=schema_of(PRICES))
    messages = writer_of(identifier, PRICES).encode(rows, None)
    assert all(message is not None and not message.endswith(b"\n") for message in messages)
    decoded = reader_of(identifier, PRICES, **({"null_literal": ""} if identifier == "csv" else {})).decode(messages)
    assert decoded.rows.equals(rows)
    assert decoded.kinds is None


def test_csv_writes_timestamps_without_an_empty_fraction() -> None:
    whole = datetime.datetime(2024, 1, 2, 3, 4, 10)
    times = types.RowType.of(("at", types.TimestampType(3)))
    rows = pa.RecordBatch.from_pydict({"at": [whole, ROW["at"]]}, schema=schema_of(times))
    assert writer_of("csv", times).encode(rows, None) == [b'"2024-01-02 03:04:10"', b'"2024-01-02 03:04:05.678"']


def test_csv_writes_moments_with_their_zone_and_reads_them_with_or_without_it() -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 10, tzinfo=datetime.UTC)
    kind = types.RowType.of(("at", types.LocalZonedTimestampType(3)), ("n", types.IntType()))
    rows = pa.RecordBatch.from_pydict({"at": [moment, None], "n": [1, 2]}, schema=schema_of(kind))
    messages = writer_of("csv", kind).encode(rows, None)
    assert messages == [b'"2024-01-02 03:04:10Z",1', b",2"]
    read = reader_of("csv", kind).decode([messages[0], b"2024-01-02 03:04:10,1"])
    assert read.rows.column(0).to_pylist() == [moment, moment]


@pytest.mark.parametrize(("identifier", "bad"), [("csv", b"x,1"), ("json", b'{"id": "x"')])
def test_malformed_messages_are_errors_with_their_positions_or_are_skipped(identifier: str, bad: bytes) -> None:
    narrow = types.RowType.of(("id", types.IntType()), ("n", types.IntType()))
    good = b"1,2" if identifier == "csv" else b'{"id":1,"n":2}'
    decoded = reader_of(identifier, narrow).decode([good, bad, None, good])
    assert [error.position for error in decoded.errors] == [1]
    assert decoded.positions.tolist() == [0, 3]
    if identifier == "json":
        skipped = reader_of(identifier, narrow, ignore_parse_errors="true").decode([bad, good])
        assert (skipped.rows.num_rows, list(skipped.errors)) == (1, [])


@pytest.mark.parametrize(
    ("kind", "options", "value", "message"),
    [
        (types.VarCharType(), {}, "é", b"\xc3\xa9"),
        (types.VarCharType(), {"charset": "latin-1"}, "é", b"\xe9"),
        (types.IntType(), {}, 258, b"\x00\x00\x01\x02"),
        (types.IntType(), {"endianness": "little-endian"}, 258, b"\x02\x01\x00\x00"),
        (types.BooleanType(), {}, True, b"\x01"),
        (types.DoubleType(), {}, 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (types.VarBinaryType(), {}, b"\x00", b"\x00"),
        (types.VarCharType(), {}, None, None),
    ],
)
def test_raw_messages_are_the_values_themselves(kind: Any, options: dict[str, str], value: Any, message: Any) -> None:
    row_type = types.RowType.of(("v", kind))
    rows = pa.RecordBatch.from_pylist([{"v": value}], schema=schema_of(row_type))
    assert writer_of("raw", row_type, **options).encode(rows, None) == [message]
    assert reader_of("raw", row_type, **options).decode([message]).rows.equals(rows)


def test_raw_takes_one_column_of_a_plain_type() -> None:
    with pytest.raises(ValidationError, match="only supports single physical column"):
        reader_of("raw", PRODUCTS)
    with pytest.raises(UnsupportedOperationError, match="DATE"):
        reader_of("raw", types.RowType.of(("v", types.DateType())))
    decoded = reader_of("raw", types.RowType.of(("v", types.IntType()))).decode([b"abc"])
    assert [error.position for error in decoded.errors] == [0]


BEFORE_AND_AFTER = [("debezium-json", "op", ("c", "u", "d")), ("ogg-json", "op_type", ("I", "U", "D"))]


@pytest.mark.parametrize(("identifier", "field", "operations"), BEFORE_AND_AFTER)
def test_messages_with_the_row_before_and_after_are_changes(identifier: str, field: str, operations: Any) -> None:
    insert, update, delete = operations
    old = {**CHANGED, "weight": None}
    found = changes(
        reader_of(identifier, PRODUCTS),
        {"before": None, "after": old, field: insert, "source": {"db": "x"}},
        {"before": old, "after": CHANGED, field: update},
        {"before": CHANGED, "after": None, field: delete},
    )
    assert found == [("+I", old), ("-U", old), ("+U", CHANGED), ("-D", CHANGED)]


def test_debezium_reads_snapshots_and_payloads_with_schemas_and_skips_tombstones() -> None:
    reader = reader_of("debezium-json", PRODUCTS, schema_include="true")
    message = {"schema": {}, "payload": {"before": None, "after": CHANGED, "op": "r"}}
    decoded = reader.decode([json.dumps(message).encode(), None])
    assert decoded.rows.to_pylist() == [CHANGED]
    assert not decoded.errors


@pytest.mark.parametrize(
    ("identifier", "operations"),
    [("canal-json", ("INSERT", "UPDATE", "DELETE")), ("maxwell-json", ("insert", "update", "delete"))],
)
def test_former_values_that_a_message_leaves_out_are_those_of_the_new_row(identifier: str, operations: Any) -> None:
    insert, update, delete = operations

    def rows(row: Any) -> Any:
        return [row] if identifier == "canal-json" else row

    found = changes(
        reader_of(identifier, PRODUCTS),
        {"data": rows(CHANGED), "type": insert},
        {"data": rows(CHANGED), "old": rows({"weight": None}), "type": update},
        {"data": rows(CHANGED), "old": rows({"name": "b"}), "type": update},
        {"data": rows(CHANGED), "type": delete},
    )
    assert found == [
        ("+I", CHANGED),
        ("-U", {**CHANGED, "weight": None}),
        ("+U", CHANGED),
        ("-U", {**CHANGED, "name": "b"}),
        ("+U", CHANGED),
        ("-D", CHANGED),
    ]


def test_canal_reads_several_rows_of_the_tables_that_are_asked_for() -> None:
    reader = reader_of("canal-json", PRODUCTS, **{"database.include": "shop.*", "table.include": "products"})
    wanted = {"data": [CHANGED, {**CHANGED, "id": 8}], "type": "INSERT", "database": "shop1", "table": "products"}
    found = changes(reader, wanted, {**wanted, "database": "hr"}, {**wanted, "type": "CREATE"})
    assert [row["id"] for _, row in found] == [7, 8]


@pytest.mark.parametrize("identifier", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_changelog_formats_read_what_they_write_as_insertions_and_deletions(identifier: str) -> None:
    rows = pa.RecordBatch.from_pylist([{**CHANGED, "id": number} for number in range(4)], schema=schema_of(PRODUCTS))
    messages = writer_of(identifier, PRODUCTS).encode(rows, np.array([0, 1, 2, 3], np.int8))
    decoded = reader_of(identifier, PRODUCTS).decode(messages)
    assert decoded.rows.equals(rows)
    assert decoded.kinds is not None
    assert decoded.kinds.tolist() == [0, 3, 0, 3]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"before": None, "after": CHANGED, "op": "d"}, "REPLICA IDENTITY FULL"),
        ({"before": None, "after": CHANGED, "op": "x"}, "no message of Debezium"),
        ([1], "not an object"),
    ],
)
def test_messages_that_are_no_changes_are_errors_or_are_skipped(message: Any, expected: str) -> None:
    text = json.dumps(message).encode()
    (error,) = reader_of("debezium-json", PRODUCTS).decode([text]).errors
    assert expected in error.reason
    ignored = reader_of("debezium-json", PRODUCTS, ignore_parse_errors="true").decode([text])
    assert not ignored.errors
    assert not ignored.rows.num_rows


def test_formats_of_files_say_that_they_have_no_messages() -> None:
    with pytest.raises(UnsupportedOperationError, match="'orc' cannot read messages"):
        reader_of("orc", PRODUCTS)


NESTED = types.RowType.of(
    ("a", types.IntType()), ("r", types.RowType.of(("x", types.IntType()), ("y", types.IntType())))
)


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("json", [b'{"a":1,"r":{"y":2}}', b'{"r":{}}', b"{}"]),
        (
            "debezium-json",
            [
                b'{"before":null,"after":{"a":1,"r":{"y":2}},"op":"c"}',
                b'{"before":null,"after":{"r":{}},"op":"c"}',
                b'{"before":null,"after":{},"op":"c"}',
            ],
        ),
    ],
)
def test_null_fields_are_left_out_if_asked(identifier: str, expected: list[bytes]) -> None:
    values = [{"a": 1, "r": {"x": None, "y": 2}}, {"a": None, "r": {"x": None, "y": None}}, {"a": None, "r": None}]
    rows = pa.RecordBatch.from_pylist(values, schema=schema_of(NESTED))
    writer = writer_of(identifier, NESTED, **{"encode.ignore-null-fields": "true"})
    assert writer.encode(rows, None) == expected


@pytest.mark.parametrize("identifier", ["json", "canal-json"])
def test_timestamps_are_written_in_the_asked_form(identifier: str) -> None:
    row_type = types.RowType.of(("at", types.TimestampType(3)))
    rows = pa.RecordBatch.from_pylist([{"at": datetime.datetime(2024, 1, 2, 3, 4, 5)}], schema=schema_of(row_type))
    (message,) = writer_of(identifier, row_type, **{"timestamp-format.standard": "ISO-8601"}).encode(rows, None)
    assert message is not None
    assert b'"2024-01-02T03:04:05"' in message


def test_an_update_of_canal_without_the_former_values_of_a_row_is_named() -> None:
    message = {"data": [CHANGED, CHANGED], "old": [{"name": "b"}], "type": "UPDATE"}
    (error,) = reader_of("canal-json", PRODUCTS).decode([json.dumps(message).encode()]).errors
    assert error.reason == "'data' and 'old' have different numbers of rows"


MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("identifier", "message", "expected"),
    [
        (
            "canal-json",
            {"data": [CHANGED], "type": "INSERT", "database": "d", "sqlType": {"id": 4}, "pkNames": ["id"]},
            {"database": "d", "sql-type": [("id", 4)], "pk-names": ["id"], "ingestion-timestamp": None},
        ),
        (
            "maxwell-json",
            {"data": CHANGED, "type": "insert", "table": "t", "ts": int(MOMENT.timestamp())},
            {"table": "t", "ingestion-timestamp": MOMENT, "primary-key-columns": None},
        ),
        (
            "ogg-json",
            {"after": CHANGED, "op_type": "I", "primary_keys": ["id"], "op_ts": "2024-01-02 03:04:05.000000"},
            {"primary-keys": ["id"], "event-timestamp": MOMENT, "table": None},
        ),
    ],
)
def test_facts_in_envelopes_can_be_columns(identifier: str, message: Any, expected: dict[str, Any]) -> None:
    reader = reader_of(identifier, PRODUCTS).with_metadata(tuple(expected))
    (found,) = pickle.loads(pickle.dumps(reader)).decode([json.dumps(message).encode()]).rows.to_pylist()
    assert found == {**CHANGED, **expected}


def test_facts_are_found_in_payloads_beside_their_schema() -> None:
    reader = reader_of("debezium-json", PRODUCTS, schema_include="true").with_metadata(("schema", "source.table"))
    message = {"schema": {"a": 1}, "payload": {"after": CHANGED, "op": "c", "source": {"table": "t"}}}
    (found,) = reader.decode([json.dumps(message).encode()]).rows.to_pylist()
    assert (found["schema"], found["source.table"]) == ('{"a":1}', "t")
