"""Tables in Kafka: keys, values and metadata of records are columns, and options say where to read and write."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InputFormatError, UnsupportedOperationError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.connector_api.sink import DeliveryGuarantee, SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.kafka.serialization import KafkaPartitioner, KafkaSinkContext
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema, UniqueConstraint
from flinkpy.table.connectors.registry import create_sink, create_source
from flinkpy.table.connectors.upsert_buffer import BufferLimits, ReducingUpsertSink
from flinkpy.table.schema import Schema
from tests.unit.connectors.connector_fakes import TestingWriterContext

COLUMNS = (("id", types.IntType(nullable=False)), ("name", types.VarCharType()), ("n", types.BigIntType()))
KAFKA = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "nowhere:1", "properties.group.id": "g"}
UPSERT = {
    **KAFKA,
    "connector": "upsert-kafka",
    "key.format": "json",
    "value.format": "json",
}


def table(options: dict[str, str], keys: tuple[str, ...] = (), columns: Any = COLUMNS) -> ContextResolvedTable:
    physical = ResolvedSchema.physical(*columns)
    schema = ResolvedSchema(physical.columns, primary_key=UniqueConstraint("PK", keys) if keys else None)
    return ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), options), schema)


class Message:
    """A message as confluent-kafka returns it."""

    def __init__(self, key: Any, value: Any, offset: int = 0) -> None:
        self._key = None if key is None else json.dumps(key).encode()
        self._value = None if value is None else json.dumps(value).encode()
        self._offset = offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def headers(self) -> list[tuple[str, bytes]]:
        return [("h", b"1"), ("h", b"2")]

    def leader_epoch(self) -> int:
        return 5


def read(
    options: dict[str, str], *messages: Message, keys: tuple[str, ...] = (), metadata: tuple[str, ...] = ()
) -> Any:
    source: Any = create_source(table(options, keys), Configuration())
    source = pickle.loads(pickle.dumps(source.with_metadata(metadata).source()))
    decoded = source.deserializer.decode(list(messages))
    kinds = None if decoded.batch.kinds is None else decoded.batch.kinds.tolist()
    return decoded.batch.values.to_pylist(), kinds, decoded.positions.tolist()


def written(options: dict[str, str], kinds: list[int] | None, *rows: dict[str, Any], keys: tuple[str, ...] = ()) -> Any:
    sink: Any = create_sink(table(options, keys), Configuration()).sink()
    writer = pickle.loads(pickle.dumps(sink.record_serializer))
    writer.open(KafkaSinkContext(4, 8, lambda topic: [0, 1, 2]))
    values = pa.RecordBatch.from_pylist(list(rows), schema=schema_of(types.RowType.of(*COLUMNS)))
    encoded = writer.encode(Batch(values, None, None if kinds is None else np.array(kinds, np.int8)), None)
    found = [None if value is None else json.loads(value) for value in encoded.values]
    return [(None if key is None else json.loads(key), value) for key, value in zip(encoded.keys, found)], encoded


ROW = {"id": 1, "name": "a", "n": 2}


def test_values_are_rows_and_tombstones_are_left_out() -> None:
    rows, kinds, positions = read({**KAFKA, "format": "json"}, Message(None, ROW), Message(None, None), Message(7, ROW))
    assert (rows, kinds, positions) == ([ROW, ROW], None, [0, 2])


def test_keys_are_columns_of_their_own_format_without_their_prefix() -> None:
    columns = {"key.format": "json", "key.fields": "name", "value.format": "json", "key.fields-prefix": "na"}
    options = {**KAFKA, **columns, "value.fields-include": "EXCEPT_KEY"}
    rows, _, _ = read(options, Message({"me": "k"}, {"id": 1, "n": 2}), Message(None, {"id": 3}))
    assert rows == [{"id": 1, "name": "k", "n": 2}, {"id": 3, "name": None, "n": None}]
    assert written(options, None, ROW)[0] == [({"me": "a"}, {"id": 1, "n": 2})]


def test_metadata_of_records_are_columns() -> None:
    metadata = ("topic", "partition", "offset", "timestamp", "timestamp-type", "headers", "leader-epoch")
    ((*_, row),) = read({**KAFKA, "format": "json"}, Message(None, ROW, 9), metadata=metadata)[:1]
    found = {key: row[f"$metadata${key}"] for key in metadata}
    assert found.pop("timestamp").timestamp() == 1_700_000_000
    assert found == {
        "topic": "t",
        "partition": 3,
        "offset": 9,
        "timestamp-type": "CreateTime",
        "headers": [("h", b"2")],
        "leader-epoch": 5,
    }


def test_changes_of_a_changelog_format_keep_their_kinds_and_messages() -> None:
    message = Message(None, {"before": ROW, "after": {**ROW, "n": 3}, "op": "u"})
    rows, kinds, positions = read({**KAFKA, "format": "debezium-json"}, Message(None, None), message)
    assert (rows, kinds, positions) == ([ROW, {**ROW, "n": 3}], [1, 2], [1, 1])


FACTS = {"ts_ms": 1_000, "source": {"db": "shop", "table": "t", "ts_ms": 2_000, "n": 5}}


def test_facts_of_a_changelog_format_are_columns_beside_those_of_records() -> None:
    message = Message(None, {"before": ROW, "after": ROW, "op": "u", **FACTS}, 9)
    names = ("value.ingestion-timestamp", "value.source.database", "value.source.properties", "value.schema")
    metadata = (names[1], "offset", names[0], *names[2:])
    rows, _, _ = read({**KAFKA, "format": "debezium-json"}, message, metadata=metadata)
    assert len(rows) == 2
    found = {key: rows[1][f"$metadata${key}"] for key in metadata}
    assert found.pop("value.ingestion-timestamp").timestamp() == 1
    assert found == {
        "value.source.database": "shop",
        "offset": 9,
        "value.source.properties": [("db", "shop"), ("table", "t"), ("ts_ms", "2000"), ("n", "5")],
        "value.schema": None,
    }


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_upserts_replace_rows_and_tombstones_delete_them(include: str) -> None:
    options = {**UPSERT, "value.fields-include": include}
    value = ROW if include == "ALL" else {"name": "a", "n": 2}
    messages = [Message({"id": 1}, value), Message({"id": 1}, None), Message({"id": 1}, value)]
    rows, kinds, _ = read(options, *messages, keys=("id",))
    assert rows == [ROW, {"id": 1, "name": None, "n": None}, ROW]
    assert kinds == [2, 3, 2]
    records, _ = written(options, [0, 1, 2, 3], ROW, ROW, {**ROW, "n": 9}, {**ROW, "n": 9}, keys=("id",))
    # The row after an update need not follow: a condition may not be true for it.
    assert records == [({"id": 1}, value), ({"id": 1}, None), ({"id": 1}, {**value, "n": 9}), ({"id": 1}, None)]


def test_the_changes_that_tables_send_and_take_depend_on_their_formats() -> None:
    plain: Any = create_sink(table({**KAFKA, "format": "json"}), Configuration())
    changes: Any = create_sink(table({**KAFKA, "format": "canal-json"}), Configuration())
    upserts: Any = create_sink(table(UPSERT, ("id",)), Configuration())
    all_kinds = changes.changelog_mode(plain.changelog_mode(None))
    assert str(plain.changelog_mode(all_kinds)) == "I"
    assert str(all_kinds) == "I,UB,UA,D"
    assert RowKind.UPDATE_BEFORE not in upserts.changelog_mode(all_kinds).kinds
    source: Any = create_source(table(UPSERT, ("id",)), Configuration())
    assert str(source.changelog_mode) == "UA,D"


def test_all_rows_of_a_subtask_go_to_one_partition_if_it_is_fixed() -> None:
    _, encoded = written({**KAFKA, "format": "json", "sink.partitioner": "fixed"}, None, ROW)
    assert next(iter(encoded.partitions)) == 1


class ByNumber(KafkaPartitioner):
    """Puts rows into partitions by their column n, and the subtask's index."""

    def open(self, subtask_index: int, parallelism: int) -> None:
        self.subtask_index = subtask_index

    def partition(self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: list[int]) -> int:
        assert (topic, key) == ("t", None) and value is not None
        return partitions[(record.n + self.subtask_index) % len(partitions)]


def test_class_of_the_user_chooses_the_partitions() -> None:
    options = {**KAFKA, "format": "json", "sink.partitioner": f"{__name__}.ByNumber"}
    _, encoded = written(options, None, ROW, {**ROW, "n": 4})
    assert list(encoded.partitions) == [0, 2]


def test_malformed_values_are_reported_with_topic_partition_and_offset() -> None:
    with pytest.raises(InputFormatError, match="Kafka topic t, partition 3, offset 8: the value cannot be read"):
        read({**KAFKA, "format": "json"}, Message(None, ROW), Message(None, {"id": "x"}, 8))


def test_options_choose_the_offsets_and_the_guarantee() -> None:
    bounded: Any = create_source(
        table(
            {**KAFKA, "format": "json", "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
        ),
        Configuration(),
    )
    assert bounded.source().boundedness is Boundedness.BOUNDED
    assert bounded.source().properties["group.id"] == "g"
    exact = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}
    sink: Any = create_sink(table({**KAFKA, "format": "json", **exact}), Configuration()).sink()
    assert sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert sink.transactional_id_prefix == "p"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "required format 'format' or 'value.format'"),
        ({"format": "json", "topic-pattern": "t.*"}, "shouldn't be set together"),
        ({"format": "json", "key.fields": "id"}, "only be declared if a key format"),
        ({"format": "json", "key.format": "json"}, "requires the declaration of one or more"),
        ({"format": "json", "key.format": "json", "key.fields": "x"}, "Could not find the field 'x'"),
        ({"format": "json", "scan.startup.mode": "timestamp"}, "'scan.startup.timestamp-millis' is required"),
        ({"format": "json", "scan.startup.mode": "specific-offsets"}, "specific-offsets' is required"),
        (
            {"format": "json", "scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "0:1"},
            "partition:0,offset:42",
        ),
        ({"format": "json", "json.fail-on-missing": "true"}, "did you mean 'fail-on-missing-field'"),
        ({"format": "json", "scan.startup.mod": "x"}, "did you mean 'scan.startup.mode'"),
    ],
)
def test_wrong_options_of_sources_are_reported(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        create_source(table({**KAFKA, **options}), Configuration())


@pytest.mark.parametrize(
    ("options", "keys", "expected"),
    [
        ({**KAFKA, "format": "json"}, ("id",), "doesn't support defining PRIMARY KEY"),
        ({**KAFKA, "format": "json", "topic": "a;b"}, (), "exactly one topic"),
        ({**KAFKA, "format": "json", "sink.delivery-guarantee": "exactly-once"}, (), "sink.transactional-id-prefix"),
        (
            {**KAFKA, "format": "json", "sink.partitioner": "org.example.P"},
            (),
            "partitioner class 'org.example.P'",
        ),
        (
            {
                **KAFKA,
                "key.format": "json",
                "key.fields": "id",
                "value.format": "json",
                "sink.partitioner": "round-robin",
            },
            (),
            "only works when option 'key.fields' is not specified",
        ),
        (UPSERT, (), "require to define a PRIMARY KEY"),
        ({**UPSERT, "value.format": "debezium-json"}, ("id",), "not in insert-only mode"),
        ({key: text for key, text in UPSERT.items() if key != "key.format"}, ("id",), "key.format"),
    ],
)
def test_wrong_options_of_sinks_are_reported(options: dict[str, str], keys: tuple[str, ...], expected: str) -> None:
    with pytest.raises((ValidationError, UnsupportedOperationError), match=expected):
        create_sink(table(options, keys), Configuration())


class InnerWriter(SinkWriter):
    """Notes what it is asked to do."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def write(self, batch: Batch) -> None:
        rows: Any = batch.values
        assert batch.kinds is not None
        self.calls.append(list(zip(batch.kinds.tolist(), rows.column("id").to_pylist(), rows.column("n").to_pylist())))

    def flush(self, end_of_input: bool) -> None:
        self.calls.append("flush")


class InnerSink(SinkBase):
    def create_writer(self, context: Any) -> InnerWriter:
        return InnerWriter()


def changes(*rows: tuple[int, int, int]) -> Batch:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    return Batch(pa.RecordBatch.from_pylist([{"id": key, "n": n} for _, key, n in rows]), None, kinds)


def test_held_back_upserts_are_written_as_the_last_change_of_each_key() -> None:
    context = TestingWriterContext()
    writer: Any = ReducingUpsertSink(InnerSink(), (0,), BufferLimits(5, 700)).create_writer(context)
    writer.write(changes((0, 1, 10), (0, 2, 20), (2, 1, 11), (3, 2, 20)))
    assert writer._inner.calls == []
    writer.write(changes((0, 3, 30)))
    assert writer._inner.calls == [[(2, 1, 11), (3, 2, 20), (2, 3, 30)]]
    writer.write(changes((0, 4, 40)))
    ((delay_ms, action),) = context.timers
    action(0)
    assert (delay_ms, len(context.timers)) == (700, 2)
    assert writer._inner.calls[1:] == [[(2, 4, 40)]]
    writer.write(changes((3, 4, 40)))
    writer.flush(False)
    assert writer._inner.calls[2:] == [[(3, 4, 40)], "flush"]


def test_upserts_are_held_back_if_both_limits_are_given() -> None:
    limits = {"sink.buffer-flush.max-rows": "100", "sink.buffer-flush.interval": "1 s"}
    sink: Any = create_sink(table({**UPSERT, **limits}, ("id",)), Configuration()).sink()
    assert sink.limits == BufferLimits(100, 1_000)
    plain = create_sink(table({**UPSERT, "sink.buffer-flush.max-rows": "100"}, ("id",)), Configuration()).sink()
    assert not isinstance(plain, ReducingUpsertSink)
    exact = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}
    safe = create_sink(table({**UPSERT, **limits, **exact}, ("id",)), Configuration()).sink()
    assert safe.commits_at_checkpoints


@pytest.mark.parametrize(("part", "subject"), [("value", "t-value"), ("key", "t-key")])
def test_schemas_are_registered_under_the_topic(part: str, subject: str) -> None:
    pytest.importorskip("fastavro")
    options = {**UPSERT, f"{part}.format": "avro-confluent", f"{part}.avro-confluent.url": "http://registry"}
    sink: Any = create_sink(table(options, ("id",)), Configuration())
    found = sink.value if part == "value" else sink.key
    assert found.options.raw["subject"] == subject
