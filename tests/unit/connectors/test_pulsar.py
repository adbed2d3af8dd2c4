"""The Pulsar source and sink with a fake cluster behind the interface to the client."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from connector_fakes import TestingWriterContext
from reading import Reading

from flinkpy.common import ConfigOptions, Duration, SimpleStringSchema
from flinkpy.common.errors import ConfigurationError, PulsarError, TypeMismatchError, UnsupportedOperationError
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.pulsar.client import PulsarConnection, PulsarMessage, Subscription, TopicProducer
from flinkpy.connectors.pulsar.cursors import StartPosition, murmur3_32
from flinkpy.connectors.pulsar.enumerator import PulsarSplit
from flinkpy.connectors.pulsar.message_id import PulsarMessageId
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.pulsar import (
    MessageDelayer,
    PulsarSink,
    PulsarSource,
    RangeGenerator,
    StartCursor,
    StopCursor,
    TopicRoutingMode,
)
from flinkpy.records.batch import Batch


def message_id(number: int) -> PulsarMessageId:
    return PulsarMessageId(7, number)


class FakeCluster:
    """Attributes:
    messages: by partition. subscriptions: where each begins, by partition. acknowledged: (partition, ids, cumulative).
    sought: (partition, id) of subscriptions that were opened. sent: (partition, data, event time, delay).
    """

    def __init__(self, **topics: list[str]) -> None:
        self.by_topic = topics
        self.messages: dict[str, list[PulsarMessage]] = {name: [] for names in topics.values() for name in names}
        self.subscriptions: dict[str, tuple[StartPosition, bool]] = {}
        self.acknowledged: list[tuple[str, list[int], bool]] = []
        self.sought: list[tuple[str, PulsarMessageId | None]] = []
        self.sent: list[tuple[str, bytes, int | None, int | None]] = []
        self.errors: list[str] = []
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.is_down = False
        self.begins_there = True
        self.lock = threading.Condition()

    def put(self, partition: str, *texts: str, event_time: int = 0, publish_time: int = 1000) -> None:
        with self.lock:
            messages = self.messages[partition]
            for text in texts:
                number = len(messages)
                messages.append(PulsarMessage(message_id(number), text.encode(), event_time, publish_time))
            self.lock.notify_all()

    def connect(self, properties: Any) -> FakeConnection:
        return FakeConnection(self)


class FakeConnection(PulsarConnection):
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster

    def partitions(self, topic: str) -> list[str]:
        if self.cluster.is_down:
            raise PulsarError("down")
        return self.cluster.by_topic[topic.rpartition("/")[2]]

    def topics(self, namespace: str) -> list[str]:
        return [f"persistent://{namespace}/{topic}" for topic in self.cluster.by_topic]

    def subscribe_at(self, partition: str, start: StartPosition, resets: bool) -> bool:
        self.cluster.subscriptions[partition] = (start, resets)
        return self.cluster.begins_there

    def last_message_id(self, partition: str) -> PulsarMessageId | None:
        messages = self.cluster.messages[partition]
        return messages[-1].message_id if messages else None

    def subscribe(self, partition: str, ranges: Any, seek_to: PulsarMessageId | None) -> Subscription:
        self.cluster.sought.append((partition, seek_to))
        return FakeSubscription(self.cluster, partition, 0 if seek_to is None else seek_to.entry_id)

    def produce(self, partition: str) -> TopicProducer:
        return FakeProducer(self.cluster, partition)

    def close(self) -> None:
        return


class FakeSubscription(Subscription):
    def __init__(self, cluster: FakeCluster, partition: str, begin: int) -> None:
        self.cluster = cluster
        self.partition = partition
        self.at = begin

    def receive(self) -> list[PulsarMessage]:
        with self.cluster.lock:
            if self.cluster.is_down:
                raise PulsarError(f"{self.partition}: down")
            messages = self.cluster.messages[self.partition]
            if self.at == len(messages):
                self.cluster.lock.wait(0.005)
            found = messages[self.at :]
            self.at += len(found)
            return found

    def acknowledge(self, message_ids: list[PulsarMessageId], is_cumulative: bool) -> None:
        with self.cluster.lock:
            numbers = [acknowledged.entry_id for acknowledged in message_ids]
            self.cluster.acknowledged.append((self.partition, numbers, is_cumulative))
            self.cluster.lock.notify_all()

    def close(self) -> None:
        return


class FakeProducer(TopicProducer):
    def __init__(self, cluster: FakeCluster, partition: str) -> None:
        self.cluster = cluster
        self.partition = partition

    def send_async(self, data: bytes, event_time: Any, delay_ms: Any, on_done: Callable[[str | None], None]) -> None:
        error = self.cluster.errors.pop(0) if self.cluster.errors else None

        def answer() -> None:
            if error is None:
                self.cluster.sent.append((self.partition, data, event_time, delay_ms))
            on_done(error)

        if self.cluster.holds:
            with self.cluster.lock:
                self.cluster.held.append(answer)
                self.cluster.lock.notify_all()
        else:
            answer()

    def close(self) -> None:
        return


# -- reading -----------------------------------------------------------------------------------------------------


def source_builder() -> Any:
    builder = PulsarSource.builder().set_service_url("pulsar://localhost:6650").set_admin_url("http://localhost:8080")
    return builder.set_subscription_name("mine").set_deserialization_schema(SimpleStringSchema())


def source_of(cluster: FakeCluster, change: Callable[[Any], Any] = lambda builder: builder) -> PulsarSource:
    source: PulsarSource = change(source_builder().set_topics("t")).build()
    source.make_connection = cluster.connect
    return source


class PulsarReading(Reading):
    """Reads a source with one reader. Unless restored, it gets the splits that an enumerator finds."""

    def __init__(self, source: PulsarSource, splits: list[PulsarSplit] | None = None, **values: Any) -> None:
        if splits is None:
            context = EnumeratorContext()
            source.create_enumerator(context).start()
            splits = list(context.splits.values())
        super().__init__(source, splits, **values)


def test_timestamp_is_the_event_time_or_the_publish_time() -> None:
    cluster = FakeCluster(t=["t-0", "t-1"])
    cluster.put("t-0", "a", event_time=500)
    cluster.put("t-1", "b", publish_time=1234)
    with PulsarReading(source_of(cluster)) as reading:
        reading.until(lambda: len(reading.read) == 2)
        cluster.put("t-0", "c", event_time=700)
        reading.until(lambda: len(reading.read) == 3)
    assert sorted(reading.read) == [("t-0", "a", 500), ("t-0", "c", 700), ("t-1", "b", 1234)]


def test_restored_reader_continues_after_the_last_message_of_the_checkpoint() -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.put("t-0", *"abcde")
    source = source_of(cluster)
    with PulsarReading(source, max_batch_rows=2) as reading:
        reading.until(lambda: len(reading.read) == 2)
        state = pickle.loads(pickle.dumps(reading.reader.snapshot_state(1)))
    with PulsarReading(source, state) as restored:
        restored.until(lambda: len(restored.read) == 3)
    assert reading.records + restored.records == list("abcde")
    assert cluster.sought[-1] == ("t-0", message_id(1))


def test_messages_are_acknowledged_when_their_checkpoint_is_complete() -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.put("t-0", *"abc")
    with PulsarReading(source_of(cluster), max_batch_rows=2) as reading:
        reading.until(lambda: len(reading.read) == 2)
        reading.reader.snapshot_state(1)
        reading.until(lambda: len(reading.read) == 3)
        reading.reader.snapshot_state(2)
        assert cluster.acknowledged == []
        reading.reader.notify_checkpoint_complete(1)
        with cluster.lock:
            assert cluster.lock.wait_for(lambda: cluster.acknowledged, 10)
        assert cluster.acknowledged == [("t-0", [1], True)]
        reading.reader.notify_checkpoint_complete(2)
    assert cluster.acknowledged == [("t-0", [1], True), ("t-0", [2], True)]


def test_messages_of_selected_keys_are_acknowledged_one_by_one() -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.put("t-0", *"abc")
    change = lambda builder: builder.set_range_generator(RangeGenerator.fixed_key(keys="k"))  # noqa: E731
    with PulsarReading(source_of(cluster, change)) as reading:
        reading.until(lambda: len(reading.read) == 3)
        reading.reader.snapshot_state(1)
        reading.reader.notify_checkpoint_complete(1)
    assert cluster.acknowledged == [("t-0", [0, 1, 2], False)]


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        (StopCursor.latest(), "abcd"),
        (StopCursor.at_event_time(30), "ab"),
        (StopCursor.after_event_time(30), "abc"),
        (StopCursor.at_publish_time(300), "ab"),
        (StopCursor.after_publish_time(300), "abc"),
        (StopCursor.at_message_id(message_id(2).to_bytes()), "ab"),
        (StopCursor.after_message_id(message_id(2).to_bytes()), "abc"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 100])
def test_reading_ends_at_the_stop_cursor(cursor: StopCursor, expected: str, batch_rows: int) -> None:
    cluster = FakeCluster(t=["t-0"])
    for number, text in enumerate("abcd", 1):
        cluster.put("t-0", text, event_time=10 * number, publish_time=100 * number)
    source = source_of(cluster, lambda builder: builder.set_bounded_stop_cursor(cursor))
    with PulsarReading(source, max_batch_rows=batch_rows) as reading:
        assert reading.to_the_end() == list(expected)
        assert reading.context.finished_splits == ["t-0"]
        assert reading.reader.snapshot_state(1) == []


def test_a_partition_that_is_empty_ends_at_once_at_its_latest_message() -> None:
    source = source_of(FakeCluster(t=["t-0"]), lambda b: b.set_bounded_stop_cursor(StopCursor.latest()))
    with PulsarReading(source) as reading:
        assert reading.to_the_end() == []


@pytest.mark.parametrize(("inclusive", "expected"), [(True, "bc"), (False, "c")])
def test_reading_begins_at_the_message_of_the_start_cursor(inclusive: bool, expected: str) -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.put("t-0", *"abc")
    start = StartCursor.from_message_id(message_id(1).to_bytes(), inclusive)
    source = source_of(cluster, lambda b: b.set_start_cursor(start).set_bounded_stop_cursor(StopCursor.latest()))
    with PulsarReading(source) as reading:
        assert reading.to_the_end() == list(expected)
    assert cluster.subscriptions["t-0"] == (start.position, False)
    # An existing subscription continues at its position.
    cluster.begins_there = False
    with PulsarReading(source) as reading:
        assert reading.to_the_end() == list("abc")


def test_paused_partitions_emit_nothing_until_they_are_resumed() -> None:
    cluster = FakeCluster(t=["t-0", "t-1"])
    cluster.put("t-0", *"abc")
    with PulsarReading(source_of(cluster), max_batch_rows=1) as reading:
        reading.until(lambda: reading.records == ["a"])
        reading.reader.pause_or_resume_splits(["t-0"], [])
        cluster.put("t-1", "x")
        reading.until(lambda: "x" in reading.records)
        assert reading.records == ["a", "x"]
        reading.reader.pause_or_resume_splits([], ["t-0"])
        reading.until(lambda: len(reading.read) == 4)
    assert reading.records == ["a", "x", "b", "c"]


def test_a_partition_that_cannot_be_read_fails_the_job() -> None:
    cluster = FakeCluster(t=["t-0"])
    with PulsarReading(source_of(cluster)) as reading, pytest.raises(PulsarError, match="t-0: down"):
        cluster.is_down = True
        reading.until(lambda: False)


# -- partitions --------------------------------------------------------------------------------------------------


class EnumeratorContext:
    def __init__(self, parallelism: int = 1) -> None:
        self.parallelism = parallelism
        self.registered_readers = set(range(parallelism))
        self.splits: dict[str, PulsarSplit] = {}
        self.ended: list[int] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def assign_splits(self, assignment: dict[int, list[PulsarSplit]]) -> None:
        for splits in assignment.values():
            self.splits.update((split.partition, split) for split in splits)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self.ended.append(subtask_index)

    def call_async(self, call: Callable[[], Any], on_done: Callable[[Any, Any], None]) -> None:
        try:
            result = call()
        except PulsarError as error:
            on_done(None, error)
        else:
            on_done(result, None)

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timers.append((delay_ms, action))


def test_partitions_discovered_later_are_read_from_their_beginning() -> None:
    cluster, context = FakeCluster(t=["t-0"]), EnumeratorContext()
    source = source_of(
        cluster,
        lambda b: b.set_start_cursor(StartCursor.latest()).set_config("pulsar.source.partitionDiscoveryIntervalMs", 70),
    )
    enumerator = source.create_enumerator(context)
    enumerator.start()
    cluster.by_topic["t"] = ["t-0", "t-1"]
    cluster.is_down = True
    context.timers.pop()[1]()
    cluster.is_down = False
    delay_ms, look = context.timers.pop()
    look()
    assert delay_ms == 70
    assert {name: start.kind for name, (start, _) in cluster.subscriptions.items()} == {
        "t-0": "latest",
        "t-1": "earliest",
    }
    assert context.ended == []
    restored_context = EnumeratorContext()
    source.restore_enumerator(restored_context, enumerator.snapshot_state(1)).start()
    assert restored_context.splits == {}


def test_bounded_source_discovers_partitions_once() -> None:
    cluster, context = FakeCluster(t=["t-0"]), EnumeratorContext(2)
    source = source_of(cluster, lambda b: b.set_bounded_stop_cursor(StopCursor.latest()))
    enumerator = source.create_enumerator(context)
    enumerator.start()
    assert (context.timers, context.ended) == ([], [0, 1])
    enumerator.add_reader(1)
    assert context.ended == [0, 1, 1]


@pytest.mark.parametrize("pattern", ["flink-[ab]", "persistent://public/default/flink-.", "public/default/flink-."])
def test_pattern_matches_whole_topic_names(pattern: str) -> None:
    cluster = FakeCluster(**{"flink-a": ["a"], "flink-b": ["b"], "flink-ab": ["ab"], "other": ["o"]})
    source = source_builder().set_topic_pattern(pattern).build()
    source.make_connection = cluster.connect
    context = EnumeratorContext()
    source.create_enumerator(context).start()
    assert set(context.splits) == {"a", "b"}


def test_a_cluster_that_does_not_answer_at_the_start_fails_the_job() -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.is_down = True
    with pytest.raises(PulsarError, match="down"):
        source_of(cluster).create_enumerator(EnumeratorContext()).start()


# -- message ids and keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parsed", "serialized"),
    [
        (PulsarMessageId(1, 2, 3, 0), b"\x08\x01\x10\x02\x18\x00 \x03"),
        (PulsarMessageId(300, 2), b"\x08\xac\x02\x10\x02\x18" + b"\xff" * 9 + b"\x01"),
    ],
)
def test_message_ids_have_the_form_of_pulsars_clients(parsed: PulsarMessageId, serialized: bytes) -> None:
    assert PulsarMessageId.from_bytes(serialized) == parsed
    assert parsed.to_bytes() == serialized


def test_error_names_an_invalid_message_id() -> None:
    with pytest.raises(ConfigurationError, match="not a serialized message id"):
        StartCursor.from_message_id(b"\xff")
    assert StartCursor.from_message_id(PulsarMessageId(-1, -1).to_bytes()).position.kind == "earliest"
    latest = PulsarMessageId((1 << 63) - 1, (1 << 63) - 1).to_bytes()
    assert StartCursor.from_message_id(latest).position.kind == "latest"
    assert StopCursor.after_message_id(latest).position.kind == "latest"


def test_keys_are_hashed_as_pulsar_hashes_them() -> None:
    """Known values of MurmurHash3 (32 bits, seed 0), without the sign."""
    expected = {b"": 0, b"test": 0xBA6BD213, b"hello": 0x248BFA47, b"Hello, world!": 0xC0363E43}
    assert {key: murmur3_32(key) for key in expected} == {k: v & 0x7FFFFFFF for k, v in expected.items()}


# -- what PyFlink's own tests name -------------------------------------------------------------------------------


def test_pulsar_source() -> None:
    source = (
        source_builder()
        .set_topics("ada")
        .set_start_cursor(StartCursor.earliest())
        .set_unbounded_stop_cursor(StopCursor.never())
        .set_bounded_stop_cursor(StopCursor.at_publish_time(22))
        .set_consumer_name("consumer")
        .set_config("pulsar.source.enableAutoAcknowledgeMessage", True)
        .set_properties({"pulsar.source.autoCommitCursorInterval": 1000})
        .build()
    )
    assert source.topics == ("ada",)
    assert source.boundedness is Boundedness.BOUNDED
    assert source.start_cursor.position.kind == "earliest"
    assert source.stop_cursor.position.timestamp == 22
    assert source.properties == {
        "pulsar.client.serviceUrl": "pulsar://localhost:6650",
        "pulsar.admin.adminUrl": "http://localhost:8080",
        "pulsar.consumer.subscriptionName": "mine",
        "pulsar.consumer.consumerName": "consumer",
        "pulsar.source.enableAutoAcknowledgeMessage": "true",
        "pulsar.source.autoCommitCursorInterval": "1000",
    }
    assert source.produced_type == SimpleStringSchema().get_produced_type()
    assert pickle.loads(pickle.dumps(source)).topics == ("ada",)


def test_source_set_topics_with_list() -> None:
    assert source_builder().set_topics(["ada", "beta"]).build().topics == ("ada", "beta")


def test_source_set_topics_pattern() -> None:
    assert source_builder().set_topic_pattern("ada.*").build().topics.pattern == "ada.*"


def test_source_deprecated_method() -> None:
    option = ConfigOptions.key("pulsar.source.enableAutoAcknowledgeMessage").boolean_type().no_default_value()
    builder = source_builder().set_topics("ada")
    with pytest.warns(DeprecationWarning, match="key: str"):
        builder.set_config(option, True)
    with pytest.warns(DeprecationWarning, match="set_properties"):
        builder.set_config_with_dict({"pulsar.source.autoCommitCursorInterval": 1000})
    properties = builder.build().properties
    assert properties["pulsar.source.enableAutoAcknowledgeMessage"] == "true"
    assert properties["pulsar.source.autoCommitCursorInterval"] == "1000"


def test_stop_cursor_publish_time() -> None:
    at, after = StopCursor.at_publish_time(4444), StopCursor.after_publish_time(4445)
    assert (at.position.kind, at.position.timestamp, at.position.is_inclusive) == ("publish_time", 4444, False)
    assert (after.position.kind, after.position.timestamp, after.position.is_inclusive) == ("publish_time", 4445, True)


def test_stop_cursor_event_time() -> None:
    at, after = StopCursor.at_event_time(4444), StopCursor.after_event_time(4445)
    assert (at.position.kind, at.position.timestamp, at.position.is_inclusive) == ("event_time", 4444, False)
    assert (after.position.kind, after.position.timestamp, after.position.is_inclusive) == ("event_time", 4445, True)


def test_set_range_generator() -> None:
    builder = source_builder().set_topics(["ada", "beta"])
    assert builder.set_range_generator(RangeGenerator.full()).build().range_generator.ranges == ()
    generator = RangeGenerator.fixed_key(True, ["k1", "k2"], b"k3", b"k4")
    assert len(builder.set_range_generator(generator).build().range_generator.ranges) == 5
    with pytest.raises(ValueError, match="at least one key"):
        RangeGenerator.fixed_key()


def test_set_authentication() -> None:
    name = "org.apache.pulsar.client.impl.auth.AuthenticationBasic"
    with_text = source_builder().set_topics("a").set_authentication(name, "userId:u,password:p").build()
    with_dict = source_builder().set_topics("a").set_authentication(name, {"userId": "u", "password": "p"}).build()
    assert with_text.properties == with_dict.properties
    assert with_text.properties["pulsar.client.authPluginClassName"] == name
    assert with_text.properties["pulsar.client.authParams"] == "userId:u,password:p"


def sink_builder() -> Any:
    builder = PulsarSink.builder().set_service_url("pulsar://localhost:6650").set_admin_url("http://localhost:8080")
    return builder.set_serialization_schema(SimpleStringSchema())


def test_pulsar_sink() -> None:
    sink = (
        sink_builder()
        .set_producer_name("fo")
        .set_topics("ada")
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_topic_routing_mode(TopicRoutingMode.ROUND_ROBIN)
        .delay_sending_message(MessageDelayer.fixed(Duration.of_seconds(12)))
        .set_config("pulsar.producer.chunkingEnabled", True)
        .set_properties({"pulsar.producer.batchingMaxMessages": 100})
        .set_authentication("org.apache.pulsar.client.impl.auth.AuthenticationToken", "token:t")
        .build()
    )
    assert (sink.topics, sink.waits_on_checkpoint, sink.delayer.delay_ms) == (("ada",), True, 12_000)
    assert sink.properties["pulsar.producer.producerName"] == "fo - %s"
    assert sink.properties["pulsar.producer.chunkingEnabled"] == "true"
    assert sink.properties["pulsar.producer.batchingMaxMessages"] == "100"


class _NamedProducers:
    """A fake of the module `pulsar` with the parts for producers. It records the names of producers."""

    class PulsarException(Exception): ...

    class CompressionType:
        NONE = 0

    class Result:
        Ok = 0

    def __init__(self) -> None:
        self.names: list[str] = []

    def Client(self, service_url: str) -> Any:
        return self

    def create_producer(self, topic: str, producer_name: str, **_: Any) -> Any:
        if producer_name in self.names:
            raise self.PulsarException("ProducerBusy")
        self.names.append(producer_name)
        return object()


@pytest.mark.parametrize(
    ("name", "pattern"), [("orders", r"orders - [0-9a-f-]{36}"), ("%s/orders", r"[0-9a-f-]{36}/orders")]
)
def test_producers_of_all_subtasks_have_names_of_their_own(
    monkeypatch: pytest.MonkeyPatch, name: str, pattern: str
) -> None:
    module = _NamedProducers()
    monkeypatch.setitem(sys.modules, "pulsar", module)  # type: ignore[arg-type]
    sink = sink_builder().set_topics("t").set_producer_name(name).build()

    for _ in range(3):  # subtasks, or restarts while Pulsar still has the old producer
        sink.make_connection(sink.properties).produce("t")

    assert len(set(module.names)) == 3
    assert all(re.fullmatch(pattern, made) for made in module.names)


def test_sink_set_topics_with_list() -> None:
    assert sink_builder().set_topics(["ada", "beta"]).build().topics == ("ada", "beta")


# -- writing -----------------------------------------------------------------------------------------------------


class Writing:
    def __init__(self, cluster: FakeCluster, change: Callable[[Any], Any] = lambda builder: builder) -> None:
        sink = change(sink_builder().set_topics(list(cluster.by_topic))).build()
        sink.make_connection = cluster.connect
        self.writer = sink.create_writer(TestingWriterContext())

    def __enter__(self) -> Any:
        return self.writer

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def at_least_once(builder: Any) -> Any:
    return builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)


def test_messages_go_to_all_partitions_in_turn_with_their_event_time() -> None:
    cluster = FakeCluster(t=["t-0", "t-1"], u=["u"])
    change = lambda b: b.set_config("pulsar.producer.batchingMaxMessages", 2)  # noqa: E731
    with Writing(cluster, change) as writer:
        writer.write(Batch(["a", "b", "c"], np.array([5, 6, 7], np.int64)))
        writer.write(Batch(["d", "e", "f", "g"]))
        writer.flush(True)
    assert [(partition, data.decode()) for partition, data, _, _ in cluster.sent] == [
        ("t-0", "a"),
        ("t-0", "b"),
        ("t-1", "c"),
        ("t-1", "d"),
        ("u", "e"),
        ("u", "f"),
        ("t-0", "g"),
    ]
    assert [time for _, _, time, _ in cluster.sent] == [5, 6, 7, None, None, None, None]


def test_writer_without_keys_uses_one_partition_unless_a_router_chooses() -> None:
    cluster = FakeCluster(t=["t-0", "t-1", "t-2"])
    with Writing(cluster, lambda b: b.set_topic_routing_mode(TopicRoutingMode.MESSAGE_KEY_HASH)) as writer:
        writer.write(Batch(list("abcdef")))
    assert len({partition for partition, *_ in cluster.sent}) == 1
    routed = FakeCluster(t=["t-0", "t-1"])
    change = lambda b: b.set_topic_router(lambda record, partitions: partitions[record == "b"])  # noqa: E731
    with Writing(routed, change) as writer:
        writer.write(Batch(list("aba")))
    assert [partition for partition, *_ in routed.sent] == ["t-0", "t-1", "t-0"]
    with (
        Writing(routed, lambda b: b.set_topic_router(lambda *_: None)) as writer,
        pytest.raises(TypeMismatchError, match="must return the name of a topic, not None"),
    ):
        writer.write(Batch(["a"]))


@pytest.mark.parametrize(("change", "waits"), [(at_least_once, True), (lambda builder: builder, False)])
def test_checkpoint_waits_for_messages_with_at_least_once(change: Any, waits: bool) -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.holds = True
    with Writing(cluster, change) as writer:
        writer.write(Batch(["a"]))
        thread = threading.Thread(target=writer.flush, args=(False,))
        thread.start()
        thread.join(0.05 if waits else 10)
        assert thread.is_alive() == waits
        for answer in cluster.held:
            answer()
        thread.join(10)
        assert not thread.is_alive()
    assert [data for _, data, _, _ in cluster.sent] == [b"a"]


def test_a_message_that_was_not_taken_fails_the_job() -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.errors = ["Timeout"]
    with Writing(cluster, at_least_once) as writer, pytest.raises(PulsarError, match="a message for t-0: Timeout"):
        writer.write(Batch(["a"]))
        writer.flush(False)


def test_unconfirmed_messages_are_limited_and_can_be_delayed() -> None:
    cluster = FakeCluster(t=["t-0"])
    cluster.holds = True
    change = lambda b: b.set_config("pulsar.sink.maxPendingMessages", 2).delay_sending_message(  # noqa: E731
        MessageDelayer.fixed(Duration.of_millis(9))
    )
    with Writing(cluster, change) as writer:
        thread = threading.Thread(target=writer.write, args=(Batch(list("abc")),))
        thread.start()
        with cluster.lock:
            assert cluster.lock.wait_for(lambda: len(cluster.held) == 2, timeout=10)
        thread.join(0.05)
        assert (thread.is_alive(), len(cluster.held)) == (True, 2)
        cluster.holds = False
        cluster.held[0]()
        thread.join(10)
        cluster.held[1]()
        writer.flush(True)
    assert sorted((data, delay) for _, data, _, delay in cluster.sent) == [(b"a", 9), (b"b", 9), (b"c", 9)]


# -- mistakes ----------------------------------------------------------------------------------------------------


def test_builders_refuse_invalid_settings() -> None:
    with pytest.raises(ConfigurationError, match="call set_service_url"):
        PulsarSource.builder().build()
    with pytest.raises(ConfigurationError, match="No topic names"):
        source_builder().build()
    with pytest.raises(ConfigurationError, match="can be set only once"):
        source_builder().set_topics("a").set_topic_pattern("b")
    with pytest.raises(ConfigurationError, match="is already 'mine'"):
        source_builder().set_subscription_name("other")
    with pytest.raises(ConfigurationError, match="nor a topic router are"):
        sink_builder().build()
    with pytest.raises(ConfigurationError, match="EXACTLY_ONCE"):
        sink_builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ConfigurationError, match="set_topic_router"):
        sink_builder().set_topic_routing_mode(TopicRoutingMode.CUSTOM)
    with pytest.raises(UnsupportedOperationError, match="no JVM"):
        sink_builder().set_topic_router("org.example.Router")


def test_a_missing_client_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    with pytest.raises(UnsupportedOperationError, match=r"flinkpy\[pulsar\]"):
        sink_builder().set_topics("t").build().create_writer(TestingWriterContext())
    with pytest.raises(UnsupportedOperationError, match=r"flinkpy\[pulsar\]"):
        source_builder().set_topics("t").build().create_enumerator(EnumeratorContext())
