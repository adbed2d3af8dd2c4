"""Writers and committer of KafkaSink on a real broker: visibility of records, and errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kafka_broker.broker import KafkaBroker
from kafka_running import CommitRequests, WriterContext
from ports import own_port

from flinkpy.common import Row, SimpleStringSchema, Types
from flinkpy.common.errors import (
    CommitError,
    CommittablesLostError,
    ConfigurationError,
    KafkaError,
    ProducerFencedError,
)
from flinkpy.connectors.kafka.transaction_client import KafkaCommittable, TransactionClient
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.kafka import (
    FlinkFixedPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
    ProducerRecord,
)
from flinkpy.records.batch import Batch


def sink_to(kafka: KafkaBroker | str, schema: Any, guarantee: DeliveryGuarantee, **properties: str) -> KafkaSink:
    if isinstance(schema, str):
        schema = text_schema(schema).build()
    address = kafka if isinstance(kafka, str) else kafka.bootstrap_servers
    made = KafkaSink.builder().set_bootstrap_servers(address).set_record_serializer(schema)
    made.set_delivery_guarantee(guarantee).set_property("transaction.timeout.ms", "60000")
    made.set_property("linger.ms", "0").set_property("reconnect.backoff.max.ms", "200")
    for key, value in properties.items():
        if key == "prefix":
            made.set_transactional_id_prefix(value)
        else:
            made.set_property(key.replace("_", "."), value)
    return made.build()


def text_schema(topic: str) -> Any:
    builder = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema())
    return builder.set_topic(topic)


def at_least_once(kafka: KafkaBroker | str, schema: Any, **properties: str) -> KafkaSink:
    return sink_to(kafka, schema, DeliveryGuarantee.AT_LEAST_ONCE, **properties)


def exactly_once(kafka: KafkaBroker | str, topic: str, prefix: str, **properties: str) -> KafkaSink:
    return sink_to(kafka, topic, DeliveryGuarantee.EXACTLY_ONCE, prefix=prefix, **properties)


@contextmanager
def writer_of(sink: KafkaSink, **place: Any) -> Iterator[Any]:
    writer = sink.restore_writer(WriterContext(**place), place.pop("states", []))
    try:
        yield writer
    finally:
        writer.close()


def write(writer: Any, *values: Any, timestamps: list[int] | None = None) -> None:
    writer.write(Batch(list(values), None if timestamps is None else np.array(timestamps, np.int64)))


def prepare(writer: Any, checkpoint_id: int) -> list[KafkaCommittable]:
    writer.flush(False)
    committables = writer.prepare_commit()
    writer.snapshot_state(checkpoint_id)
    return committables


@contextmanager
def committing(sink: KafkaSink) -> Iterator[Any]:
    """Yields a function that commits, and returns the committer's signal for each committable."""
    committer = sink.create_committer()

    def commit(committables: list[Any]) -> CommitRequests:
        requests = CommitRequests(committables)
        committer.commit(requests.requests)
        return requests

    try:
        yield commit
    finally:
        committer.close()


@pytest.fixture
def transactions(kafka: KafkaBroker) -> Iterator[TransactionClient]:
    client = TransactionClient({"bootstrap.servers": kafka.bootstrap_servers}, 30)
    yield client
    client.close()


# -- at least once ---------------------------------------------------------------------------------------------------


def test_a_flush_returns_when_all_records_are_stored(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    with writer_of(at_least_once(kafka, topic)) as writer:
        write(writer, *map(str, range(1000)))
        writer.flush(False)
        assert kafka.read_values(topic) == list(map(str, range(1000))), "in their order"


def test_the_writer_waits_while_the_queue_of_the_producer_is_full(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    with writer_of(at_least_once(kafka, topic, queue_buffering_max_messages="10")) as writer:
        write(writer, *map(str, range(500)))
        writer.flush(False)
        assert kafka.read_values(topic) == list(map(str, range(500)))


def test_records_are_written_with_key_timestamp_topic_and_partition(kafka: KafkaBroker) -> None:
    first, second = kafka.create_topic(partitions=3), kafka.create_topic(partitions=3)
    topics = {"a": first, "b": second}
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda text: topics[text[0]])
        .set_key_serialization_schema(SimpleStringSchema("UTF-16-LE"))
        .set_value_serialization_schema(SimpleStringSchema())
        .set_partitioner(FlinkFixedPartitioner())
        .build()
    )
    with writer_of(at_least_once(kafka, schema), subtask_index=4, parallelism=5) as writer:
        write(writer, "a1", "b1", "a2", timestamps=[1000, 2000, 3000])
        writer.flush(True)
    found = kafka.read(first)
    assert [(m.key().decode("UTF-16-LE"), m.value(), m.timestamp()[1], m.partition()) for m in found] == [
        ("a1", b"a1", 1000, 1),
        ("a2", b"a2", 3000, 1),
    ]
    assert kafka.read_values(second) == ["b1"]


class Everything(KafkaRecordSerializationSchema):
    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic

    def serialize(self, element: Any) -> ProducerRecord | None:
        if element[0] == "ignored":
            return None
        headers = (("origin", b"test"), ("none", None))
        return ProducerRecord(self.topic, element[1], element[0].encode(), 1, 1234, headers)


def test_a_user_schema_can_write_headers_and_tombstones(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=2)
    with writer_of(at_least_once(kafka, Everything(topic))) as writer:
        write(writer, Row("k1", b"v"), Row("ignored", b"v"), Row("k2", None))
        writer.flush(True)
    found = kafka.read(topic)
    assert [(m.key(), m.value(), m.partition(), m.timestamp()[1]) for m in found] == [
        (b"k1", b"v", 1, 1234),
        (b"k2", None, 1, 1234),
    ]
    assert found[0].headers() == [("origin", b"test"), ("none", None)]


def test_keys_go_to_the_same_partitions_as_with_the_java_client(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=7)
    schema = text_schema(topic).set_key_serialization_schema(SimpleStringSchema()).build()
    with writer_of(at_least_once(kafka, schema)) as writer:
        write(writer, "a", "foobar", "Lorem ipsum", "kafka")
        writer.flush(True)
    # The results of org.apache.kafka.clients.producer.internals.BuiltInPartitioner for seven partitions.
    expected = {key: murmur2(key.encode()) % 7 for key in ("a", "foobar", "Lorem ipsum", "kafka")}
    assert {m.value().decode(): m.partition() for m in kafka.read(topic)} == expected


def murmur2(data: bytes) -> int:
    """Returns Kafka's murmur2 hash without its sign: the reference for the test above."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m ^ ((k ^ k >> 24) * m)) & mask
    if len(data) > whole:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * m) & mask
    h = ((h ^ h >> 13) * m) & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_a_missing_topic_fails_the_flush(kafka: KafkaBroker) -> None:
    sink = at_least_once(kafka, "nowhere", topic_metadata_propagation_max_ms="100")
    with writer_of(sink) as writer, pytest.raises(KafkaError, match=r"Kafka topic nowhere, .*UNKNOWN_TOPIC"):
        write(writer, "lost")
        writer.flush(False)


def test_missing_brokers_fail_the_flush_after_the_delivery_timeout() -> None:
    address = f"127.0.0.1:{own_port()}"
    with (
        writer_of(at_least_once(address, "topic", delivery_timeout_ms="300")) as writer,
        pytest.raises(KafkaError, match=f"Kafka topic topic, brokers {address}: a record was not stored: _MSG_TIMED"),
    ):
        write(writer, "lost")
        writer.flush(False)


def test_failures_can_be_logged_only(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    sink = at_least_once(kafka, topic, log_failures_only="true", topic_metadata_propagation_max_ms="100")
    lost = at_least_once(kafka, "nowhere", log_failures_only="true", topic_metadata_propagation_max_ms="100")
    for made in (sink, lost):
        with writer_of(made) as writer:
            write(writer, "perhaps")
            writer.flush(True)
    assert kafka.read_values(topic) == ["perhaps"]


# -- exactly once ----------------------------------------------------------------------------------------------------


def test_records_become_visible_when_their_checkpoint_is_committed(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "visible")
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, "one", "two")
        committables = prepare(writer, 1)
        write(writer, "three")
        assert kafka.read_values(topic, committed=False)[:2] == ["one", "two"], "the records are stored"
        assert kafka.read_values(topic) == []
        assert commit(committables).signals == ["committed"]
        assert kafka.read_values(topic) == ["one", "two"]
        assert prepare(writer, 2) and kafka.read_values(topic) == ["one", "two"]


def test_a_checkpoint_without_records_has_no_transaction(kafka: KafkaBroker, transactions: TransactionClient) -> None:
    sink = exactly_once(kafka, kafka.create_topic(), "empty")
    with writer_of(sink) as writer:
        assert prepare(writer, 1) == []
        write(writer, "something")
        assert len(prepare(writer, 2)) == 1
        assert prepare(writer, 3) == [], "one that was made ahead"
        write(writer, "something")
        [committable] = prepare(writer, 4)
        assert committable.transactional_id == "empty-0-4", "its name says the first checkpoint that may have it"


def test_a_transaction_of_a_declined_checkpoint_is_left_alone(
    kafka: KafkaBroker, transactions: TransactionClient
) -> None:
    """Another operator may fail its snapshot after this one has handed over its committable."""
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "declined")
    with writer_of(sink, restored_checkpoint_id=4) as writer, committing(sink) as commit:
        committables = []
        for value in ("one", "two"):
            write(writer, value)
            writer.flush(False)
            committables += writer.prepare_commit()  # without snapshot_state
        write(writer, "three")
        committables += prepare(writer, 7)
        ids = [committable.transactional_id for committable in committables]
        assert ids == ["declined-0-5", "declined-0-6", "declined-0-7"], "none is newer than the checkpoint that has it"
        assert commit(committables).signals == ["committed"] * 3
    assert kafka.read_values(topic) == ["one", "two", "three"]


def test_records_that_a_schema_drops_open_no_transaction(kafka: KafkaBroker, transactions: TransactionClient) -> None:
    topic = kafka.create_topic(partitions=2)
    sink = sink_to(kafka, Everything(topic), DeliveryGuarantee.EXACTLY_ONCE, prefix="left-out")
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, Row("ignored", b"v"))
        assert prepare(writer, 1) == []
        write(writer, Row("k", b"v"))
        commit(prepare(writer, 2))
    assert kafka.read_values(topic) == ["v"]
    assert transactions.list_open("left-out-") == []


def test_committing_twice_has_the_effect_of_once(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "twice")
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, "once")
        committables = prepare(writer, 1)
        for _ in range(3):
            assert commit(committables).signals == ["committed"]
    assert kafka.read_values(topic) == ["once"]


def test_a_transaction_outlives_its_writer_and_another_process_commits_it(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "outlives")
    serializer = sink.committable_serializer
    with writer_of(sink) as writer:
        write(writer, "kept")
        stored = [serializer.serialize(committable) for committable in prepare(writer, 1)]
        write(writer, "not in the checkpoint")
        writer.flush(False)
    restored = [serializer.deserialize(serializer.version, data) for data in stored]
    # The committer runs before the writer of its subtask is created. Writers of other subtasks may exist before.
    with writer_of(sink, restored_checkpoint_id=1), committing(sink) as commit:
        assert commit(restored).signals == ["committed"]
        assert kafka.read_values(topic) == ["kept"]


def test_a_restored_writer_aborts_transactions_of_no_checkpoint(
    kafka: KafkaBroker, transactions: TransactionClient
) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "left")
    killed = [sink.create_writer(WriterContext(index, 3)) for index in range(3)]
    for writer in killed:
        write(writer, "in checkpoint 1")
        prepare(writer, 1)
        write(writer, "after it")
        writer.flush(False)
    in_checkpoint = [f"left-{index}-1" for index in range(3)]
    after = [f"left-{index}-2" for index in range(3)]
    assert sorted(transactions.list_open("left-")) == sorted(in_checkpoint + after)
    # Restored with a lower parallelism: subtask 0 also handles the transactions of the former third subtask.
    with writer_of(sink, subtask_index=0, parallelism=2, restored_checkpoint_id=1):
        assert sorted(transactions.list_open("left-")) == sorted([*in_checkpoint, "left-1-2"])
    with writer_of(sink, subtask_index=1, parallelism=2, restored_checkpoint_id=1):
        assert sorted(transactions.list_open("left-")) == in_checkpoint
    # Started without a checkpoint: no former transaction counts.
    with writer_of(sink):
        assert transactions.list_open("left-") == []
    for writer in killed:
        writer.close()


def test_a_writer_restored_from_an_old_checkpoint_aborts_transactions_beyond_its_numbers(
    kafka: KafkaBroker, transactions: TransactionClient
) -> None:
    """The job took 600 further checkpoints after the savepoint and died, so its names are half a cycle ahead."""
    sink = exactly_once(kafka, topic := kafka.create_topic(), "long-ago")
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, "in the savepoint")
        savepoint = prepare(writer, 1)
        commit(savepoint)
        with writer_of(sink, restored_checkpoint_id=601) as gone_on:
            write(gone_on, "lost with the job")
            gone_on.flush(False)
            assert "long-ago-0-602" in transactions.list_open("long-ago-")
            with writer_of(sink, restored_checkpoint_id=1) as restored:
                commit(savepoint)
                write(restored, "after the restore")
                committables = prepare(restored, 2)
                assert commit(committables).signals == ["committed"]
                restored.notify_checkpoint_complete(2)
                assert transactions.list_open("long-ago-") == []
                assert kafka.read_values(topic) == ["in the savepoint", "after the restore"]


def test_a_closed_writer_leaves_only_transactions_of_checkpoints_open(
    kafka: KafkaBroker, transactions: TransactionClient
) -> None:
    sink = exactly_once(kafka, kafka.create_topic(), "closed")
    with writer_of(sink) as writer:
        write(writer, "x")
        prepare(writer, 1)
        write(writer, "y")
        writer.flush(False)
        assert len(transactions.list_open("closed-")) == 2
    assert transactions.list_open("closed-") == ["closed-0-1"]
    transactions.fence("closed-0-1", 60_000)


def test_transactions_of_a_former_prefix_are_aborted_too(kafka: KafkaBroker, transactions: TransactionClient) -> None:
    topic = kafka.create_topic()
    before = exactly_once(kafka, topic, "old-name").create_writer(WriterContext())
    write(before, "lost")
    before.flush(False)
    states = before.snapshot_state(1)
    writer = exactly_once(kafka, topic, "new-name").restore_writer(WriterContext(restored_checkpoint_id=0), states)
    assert transactions.list_open("old-name-") == []
    for made in (before, writer):
        made.close()


def test_the_error_of_a_fenced_writer_says_that_its_id_was_taken_over(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "taken")
    with writer_of(sink) as zombie, writer_of(sink) as successor:
        write(zombie, "zombie")
        write(successor, "successor")
        with pytest.raises(ProducerFencedError, match=r"_FENCED|taken over by another producer"):
            zombie.flush(False)
            zombie.prepare_commit()
        with committing(sink) as commit:
            commit(prepare(successor, 1))
    assert kafka.read_values(topic) == ["successor"]


def test_the_error_of_a_producer_fenced_during_a_write_says_so(
    kafka: KafkaBroker, transactions: TransactionClient
) -> None:
    with writer_of(exactly_once(kafka, kafka.create_topic(), "fenced")) as writer:
        write(writer, "stored")
        writer.flush(False)
        transactions.fence("fenced-0-1", 60_000)
        with pytest.raises(ProducerFencedError):
            write(writer, "refused")
            writer.flush(False)


def test_a_transaction_timeout_that_the_brokers_refuse_is_explained(kafka: KafkaBroker) -> None:
    sink = exactly_once(kafka, kafka.create_topic(), "long", transaction_timeout_ms="3600000")
    with (
        writer_of(sink) as writer,
        pytest.raises(
            ConfigurationError,
            match=r"transaction.timeout.ms is 3600000, more than brokers .* allow: set it with set_property to at most",
        ),
    ):
        write(writer, "x")


@pytest.mark.parametrize("ignores", [False, True])
def test_a_transaction_that_timed_out_fails_the_commit_unless_told_otherwise(
    kafka: KafkaBroker, transactions: TransactionClient, ignores: bool
) -> None:
    topic = kafka.create_topic()
    prefix = f"timed-out-{ignores}"
    settings = {"transaction_timeout_ms": "1000"}
    if ignores:
        settings["ignore_failures_after_transaction_timeout"] = "true"
    sink = exactly_once(kafka, topic, prefix, **settings)
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, "lost")
        committables = prepare(writer, 1)
        wait_for_rollback(transactions, f"{prefix}-0-1")
        said = commit(committables)
        assert said.signals == ["failed with known reason" if ignores else "failed with unknown reason"]
        [error] = said.errors
        assert isinstance(error, CommittablesLostError)
        assert "the brokers have aborted it" in str(error) and "transaction.timeout.ms (1000)" in str(error)


def wait_for_rollback(transactions: TransactionClient, transactional_id: str) -> None:
    deadline = time.monotonic() + 30
    while transactions.describe(transactional_id).state != "CompleteAbort":
        assert time.monotonic() < deadline, f"{transactional_id} does not time out"
        time.sleep(0.05)


def test_the_error_of_a_transaction_that_timed_out_before_its_checkpoint_says_so(
    kafka: KafkaBroker, transactions: TransactionClient
) -> None:
    sink = exactly_once(kafka, kafka.create_topic(), "slow", transaction_timeout_ms="1000")
    with writer_of(sink) as writer:
        write(writer, "lost")
        writer.flush(False)
        wait_for_rollback(transactions, "slow-0-1")
        with pytest.raises(ProducerFencedError, match=r"slow-0-1 was aborted by the brokers: transaction.timeout.ms"):
            writer.prepare_commit()


def use_id_again(sink: KafkaSink, transactions: TransactionClient, use: str) -> str:
    """Starts another job with the prefix of the sink, ends its transaction as `use` says, and returns the id."""
    with writer_of(sink) as writer:
        if use == "nothing is written":
            return ""
        write(writer, "of the other job")
        [other] = prepare(writer, 1)
    if use == "fenced":
        transactions.fence(other.transactional_id, 60_000)
    elif use != "left open":
        transactions.end(other.transactional_id, other.producer_id, other.producer_epoch, commit=use == "committed")
    return other.transactional_id


@pytest.mark.parametrize("use", ["left open", "committed", "rolled back", "fenced"])
def test_a_committed_transaction_counts_as_committed_when_its_id_was_used_again(
    kafka: KafkaBroker, transactions: TransactionClient, use: str
) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, prefix := f"again-{use}")
    with committing(sink) as commit:
        with writer_of(sink) as writer:
            write(writer, "first")
            committables = prepare(writer, 1)
        assert commit(committables).signals == ["committed"]
        assert use_id_again(sink, transactions, use) == committables[0].transactional_id == f"{prefix}-0-1"
        assert commit(committables).signals == ["already committed"]
    seen = kafka.read_values(topic, committed=use != "left open")
    assert seen == (["first"] if use in ("rolled back", "fenced") else ["first", "of the other job"])


@pytest.mark.parametrize("use", ["nothing is written", "left open", "committed", "rolled back"])
def test_a_transaction_that_another_job_has_taken_over_is_lost(
    kafka: KafkaBroker, transactions: TransactionClient, use: str
) -> None:
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, f"clash-{use}")
    with committing(sink) as commit:
        with writer_of(sink) as writer:
            write(writer, "lost")
            committables = prepare(writer, 1)
        use_id_again(sink, transactions, use)
        said = commit(committables)
    assert said.signals == ["failed with unknown reason"]
    [error] = said.errors
    assert isinstance(error, CommittablesLostError)
    assert "has taken over its transactional id, so its records are lost" in str(error)
    assert "has the same transactional id prefix" in str(error)
    assert "lost" not in kafka.read_values(topic)


def test_a_transaction_whose_records_the_topic_has_deleted_counts_as_committed_and_is_logged(
    kafka: KafkaBroker, transactions: TransactionClient, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import TopicPartition

    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "deleted")
    with committing(sink) as commit:
        with writer_of(sink) as writer:
            write(writer, "first")
            committables = prepare(writer, 1)
        commit(committables)
        use_id_again(sink, transactions, "committed")
        admin = kafka.admin()
        for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
            deleted.result(30)
        assert commit(committables).signals == ["already committed"]
    assert f"cannot be known: its first record, at {topic}-0 offset 0, is no longer in the topic" in caplog.text


def test_a_transaction_of_unknown_offsets_whose_id_was_used_again_fails_the_job(
    kafka: KafkaBroker, transactions: TransactionClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint of an older release does not contain the offsets."""
    sink = exactly_once(kafka, kafka.create_topic(), "placeless")
    with committing(sink) as commit:
        with writer_of(sink) as writer:
            write(writer, "first")
            [committable] = prepare(writer, 1)
        placeless = replace(committable, first_record=None)
        assert commit([placeless]).signals == ["committed"]
        use_id_again(sink, transactions, "committed")
        said = commit([placeless])
        assert said.signals == ["failed with unknown reason"]
        assert "was committed before: its checkpoint does not say where its records are" in str(said.errors[0])
        assert commit([KafkaCommittable("never-seen", 7, 0)]).signals == ["already committed"]
    assert "the brokers have forgotten its id" in caplog.text


def test_the_commit_waits_for_a_coordinator_that_restarts(own_kafka: KafkaBroker) -> None:
    topic = own_kafka.create_topic()
    sink = exactly_once(own_kafka, topic, "patient")
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, "one")
        committables = prepare(writer, 1)
        own_kafka.kill()
        own_kafka.resume()
        assert commit(committables).signals == ["committed"]
        write(writer, "two")
        commit(prepare(writer, 2))
    assert own_kafka.read_values(topic) == ["one", "two"]


def test_unreachable_brokers_fail_the_commit_after_a_bounded_time() -> None:
    sink = exactly_once(f"127.0.0.1:{own_port()}", "t", "away", default_api_timeout_ms="200")
    with committing(sink) as commit:
        said = commit([KafkaCommittable("away-0-1", 1, 0)])
    assert said.signals == ["failed with unknown reason"]
    assert "cannot be reached" in str(said.errors[0])


def test_columns_are_written_without_conversion_to_rows(kafka: KafkaBroker) -> None:
    import pyarrow as pa

    topic = kafka.create_topic()
    sink = at_least_once(kafka, topic)
    with writer_of(sink, input_type=Types.STRING()) as writer:
        writer.write(Batch(pa.RecordBatch.from_arrays([pa.array(["x", "y"])], names=["f0"])))
        writer.flush(True)
    assert kafka.read_values(topic) == ["x", "y"]


# -- with TLS and a password -------------------------------------------------------------------------------------------


def secure_sink(properties: dict[str, str], topic: str, prefix: str) -> KafkaSink:
    made = KafkaSink.builder().set_record_serializer(text_schema(topic).build())
    for key, value in properties.items():
        made.set_property(key, value)
    made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(prefix)
    return made.set_property("transaction.timeout.ms", "60000").build()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_exactly_once_writing_works_with_tls_and_a_password(kafka: KafkaBroker, mechanism: str) -> None:
    topic = kafka.create_topic()
    sink = secure_sink(kafka.secure_properties(mechanism), topic, f"secure-{mechanism}")
    with writer_of(sink) as writer, committing(sink) as commit:
        write(writer, "secret")
        assert commit(prepare(writer, 1)).signals == ["committed"]
    assert kafka.read_values(topic) == ["secret"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_error_says_that_the_password_is_wrong(kafka: KafkaBroker, mechanism: str) -> None:
    properties = {**kafka.secure_properties(mechanism), "sasl.password": "wrong"}
    sink = secure_sink(properties, kafka.create_topic(), "locked-out")
    with pytest.raises(KafkaError, match=r"refuses the login: SASL_AUTHENTICATION_FAILED"):
        sink.create_writer(WriterContext())


def test_a_broker_with_an_unknown_certificate_is_not_trusted(kafka: KafkaBroker) -> None:
    properties = kafka.secure_properties("PLAIN")
    del properties["ssl.ca.location"]
    with pytest.raises(KafkaError, match=r"cannot be reached: .*certificate verify failed"):
        secure_sink(properties, kafka.create_topic(), "trusting").create_writer(WriterContext())


def test_a_transaction_that_a_later_attempt_has_aborted_has_to_be_written_again(kafka: KafkaBroker) -> None:
    """Spark repeats a stage while tasks of its first attempt run, and the first of them to end may count."""
    topic = kafka.create_topic()
    sink = exactly_once(kafka, topic, "repeated")
    with writer_of(sink) as first:
        write(first, "a")
        counted = prepare(first, 1)
        sink.remove_uncommitted("job", counted)
        with writer_of(sink), pytest.raises(CommitError, match="Its records have to be written again"):
            sink.remove_uncommitted("job", counted)
    assert kafka.read_values(topic) == []
