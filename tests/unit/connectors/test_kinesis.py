"""The Kinesis source and sinks with a fake service, which tests reshard and let refuse requests."""

from __future__ import annotations

import datetime
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from connector_fakes import TestingWriterContext
from reading import Reading

from flinkpy.common import Duration, SimpleStringSchema, WatermarkStrategy
from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import ConfigurationError, InputFormatError, KinesisError, UnsupportedOperationError
from flinkpy.connectors.aws import client as aws_client
from flinkpy.connectors.kinesis.enumerator import FinishKept, ShardsFinished
from flinkpy.connectors.kinesis.shards import KinesisShardSplit, Position, Shard
from flinkpy.connectors.kinesis.source import KinesisSource
from flinkpy.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisFirehoseSink,
    KinesisShardAssigner,
    KinesisStreamsSink,
    PartitionKeyGenerator,
    WatermarkTracker,
)
from flinkpy.records.batch import Batch

STREAM = "orders"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
FROM_START = {
    "aws.region": "eu-west-1",
    "flink.stream.initpos": "TRIM_HORIZON",
    "flink.shard.getrecords.intervalmillis": "1",
}


def refusal(code: str, status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Operation")


@dataclass
class FakeShard:
    parents: tuple[str, ...] = ()
    records: list[dict[str, Any]] = field(default_factory=list)
    is_closed: bool = False


class FakeKinesis:
    """Attributes:
    errors: to raise instead of the next answers. refusals: of PutRecords, codes by data, first come first served.
    requests: of PutRecords, the data.
    """

    def __init__(self, *shards: str) -> None:
        self.shards = {shard: FakeShard() for shard in shards}
        self.errors: list[Exception] = []
        self.refusals: dict[bytes, list[str]] = {}
        self.requests: list[list[bytes]] = []
        self.stored: list[tuple[str, bytes]] = []
        self.iterators: list[dict[str, Any]] = []
        self.page_size = 100
        self.gate: threading.Event | None = None
        self.lock = threading.Lock()

    def put(self, shard: str, *texts: str, at_s: float = 1.0) -> None:
        for text in texts:
            records = self.shards[shard].records
            record = {
                "Data": text.encode(),
                "PartitionKey": "k",
                "SequenceNumber": str(len(records) + 1),
                "ApproximateArrivalTimestamp": EPOCH + datetime.timedelta(seconds=at_s),
            }
            records.append(record)

    def list_shards(self, StreamName: str = "", NextToken: str = "") -> dict[str, Any]:
        self._raise()
        begin = int(NextToken or 0)
        names = list(self.shards)
        listed = []
        for name in names[begin : begin + self.page_size]:
            entry: dict[str, Any] = {"ShardId": name, "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"}}
            entry.update(zip(("ParentShardId", "AdjacentParentShardId"), self.shards[name].parents))
            listed.append(entry)
        end = begin + self.page_size
        return {"Shards": listed, **({"NextToken": str(end)} if end < len(names) else {})}

    def get_shard_iterator(self, ShardId: str, ShardIteratorType: str, **arguments: Any) -> dict[str, Any]:
        self.iterators.append({"ShardId": ShardId, "ShardIteratorType": ShardIteratorType, **arguments})
        return {"ShardIterator": f"{ShardId} {arguments.get('StartingSequenceNumber', 0)}"}

    def get_records(self, ShardIterator: str, Limit: int) -> dict[str, Any]:
        with self.lock:
            self._raise()
            name, begin = ShardIterator.split()
            shard = self.shards[name]
            records = shard.records[int(begin) : int(begin) + Limit]
            end = int(begin) + len(records)
            is_end = shard.is_closed and end == len(shard.records)
            return {"Records": records, "NextShardIterator": None if is_end else f"{name} {end}"}

    def put_records(self, Records: list[dict[str, Any]], StreamName: str) -> dict[str, Any]:
        codes = self._put(Records)
        keys = [record["PartitionKey"] for record in Records]
        self.stored += [(key, r["Data"]) for key, r, code in zip(keys, Records, codes) if code is None]
        failed = sum(code is not None for code in codes)
        return {"FailedRecordCount": failed, "Records": [_answer(code) for code in codes]}

    def put_record_batch(self, Records: list[dict[str, Any]], DeliveryStreamName: str) -> dict[str, Any]:
        codes = self._put(Records)
        self.stored += [(DeliveryStreamName, r["Data"]) for r, code in zip(Records, codes) if code is None]
        failed = sum(code is not None for code in codes)
        return {"FailedPutCount": failed, "RequestResponses": [_answer(code) for code in codes]}

    def _put(self, records: list[dict[str, Any]]) -> list[str | None]:
        if self.gate is not None:
            assert self.gate.wait(10)
        with self.lock:
            self._raise()
            self.requests.append([record["Data"] for record in records])
            waiting = [self.refusals.get(record["Data"]) for record in records]
            return [codes.pop(0) if codes else None for codes in waiting]

    def _raise(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


def _answer(code: str | None) -> dict[str, Any]:
    return {"SequenceNumber": "1"} if code is None else {"ErrorCode": code, "ErrorMessage": "not now"}


# -- reading -----------------------------------------------------------------------------------------------------


def source_of(service: FakeKinesis, schema: Any = None, **properties: str) -> KinesisSource:
    assigner = KinesisShardAssigner.default_shard_assigner()
    given = FROM_START | {key.replace("__", "."): value for key, value in properties.items()}
    return KinesisSource((STREAM,), schema or SimpleStringSchema(), given, assigner, lambda *_: service)


def split_of(shard: str, **values: Any) -> KinesisShardSplit:
    return KinesisShardSplit(Shard(STREAM, shard), values.pop("position", Position("TRIM_HORIZON")), **values)


def test_records_come_with_their_shard_and_the_time_of_their_arrival() -> None:
    service = FakeKinesis("s0", "s1")
    service.put("s0", "a", "b", at_s=1.5)
    service.put("s1", "c", at_s=2.25)
    with Reading(source_of(service), [split_of("s0"), split_of("s1")]) as reading:
        reading.until(lambda: len(reading.read) == 3)
        service.put("s0", "d", at_s=3.0)
        reading.until(lambda: len(reading.read) == 4)
    assert sorted(reading.read) == [
        ("orders/s0", "a", 1500),
        ("orders/s0", "b", 1500),
        ("orders/s0", "d", 3000),
        ("orders/s1", "c", 2250),
    ]
    assert reading.reader.names_splits


def test_reader_continues_after_a_checkpoint_within_an_answer() -> None:
    service = FakeKinesis("s0")
    service.put("s0", *"abcde")
    source = source_of(service)
    with Reading(source, [split_of("s0")], max_batch_rows=2) as reading:
        reading.until(lambda: len(reading.read) == 2)
        state = pickle.loads(pickle.dumps(reading.reader.snapshot_state(1)))
    with Reading(source, state) as restored:
        restored.until(lambda: len(restored.read) == 3)
    assert reading.records + restored.records == list("abcde")
    assert service.iterators[-1]["StartingSequenceNumber"] == "2"


def test_records_before_the_starting_time_are_dropped_within_its_second() -> None:
    service = FakeKinesis("s0")
    service.put("s0", "early", at_s=5.2)
    service.put("s0", "late", at_s=5.7)
    with Reading(source_of(service), [split_of("s0", position=Position("AT_TIMESTAMP", 5.5))]) as reading:
        reading.until(lambda: bool(reading.read))
    assert reading.records == ["late"]


def test_finished_shard_stays_in_checkpoints_until_the_enumerator_has_it() -> None:
    service = FakeKinesis("s0")
    service.put("s0", "a")
    service.shards["s0"].is_closed = True
    source = source_of(service)
    with Reading(source, [split_of("s0")]) as reading:
        reading.until(lambda: bool(reading.context.events))
        assert reading.records == ["a"]
        assert reading.context.finished_splits == ["orders/s0"]
        assert reading.context.events == [ShardsFinished(("orders/s0",))]
        state = reading.reader.snapshot_state(1)
        assert [split.is_finished for split in state] == [True]
        reading.reader.handle_source_event(FinishKept(("orders/s0",)))
        assert reading.reader.snapshot_state(2) == []
    with Reading(source, state) as restored:
        assert restored.context.events == [ShardsFinished(("orders/s0",))]
        assert restored.context.finished_splits == ["orders/s0"]
        assert restored.reader.snapshot_state(3) == state


def test_paused_shards_emit_nothing_until_they_are_resumed() -> None:
    service = FakeKinesis("s0", "s1")
    service.put("s0", *"abc")
    with Reading(source_of(service), [split_of("s0"), split_of("s1")], max_batch_rows=1) as reading:
        reading.until(lambda: reading.records == ["a"])
        reading.reader.pause_or_resume_splits(["orders/s0"], [])
        service.put("s1", "x")
        reading.until(lambda: "x" in reading.records)
        assert reading.records == ["a", "x"]
        reading.reader.pause_or_resume_splits([], ["orders/s0"])
        reading.until(lambda: len(reading.read) == 4)
    assert reading.records == ["a", "x", "b", "c"]


@pytest.mark.parametrize(
    "error", [refusal("ProvisionedThroughputExceededException"), refusal("ExpiredIteratorException"), refusal("X", 500)]
)
def test_temporary_errors_are_retried(error: Exception) -> None:
    service = FakeKinesis("s0")
    service.put("s0", "a")
    service.errors.append(error)
    with Reading(source_of(service, flink__shard__getrecords__backoff__base="1"), [split_of("s0")]) as reading:
        reading.until(lambda: bool(reading.read))
    assert reading.records == ["a"]


def test_an_error_that_stays_fails_the_job_and_names_the_shard() -> None:
    service = FakeKinesis("s0")
    service.errors.append(refusal("AccessDeniedException"))
    with (
        Reading(source_of(service), [split_of("s0")]) as reading,
        pytest.raises(KinesisError, match=r"'orders', s0: .*AccessDenied"),
    ):
        reading.until(lambda: False)
    service.errors += [EndpointConnectionError(endpoint_url="http://nowhere")] * 2
    few = source_of(service, flink__shard__getrecords__maxretries="1", flink__shard__getrecords__backoff__base="1")
    with Reading(few, [split_of("s0")]) as reading, pytest.raises(KinesisError, match="nowhere"):
        reading.until(lambda: False)


class Described(KinesisDeserializationSchema):
    def deserialize(self, record_value, partition_key, seq_num, approx_arrival_timestamp, stream, shard_id):
        if record_value == b"bad":
            raise ValueError("cannot")
        return None if record_value == b"none" else (record_value, partition_key, seq_num, stream, shard_id)


class Lenient(Described):
    on_error = "skip"


def test_kinesis_schema_gets_the_metadata_of_a_record() -> None:
    service = FakeKinesis("s0")
    service.put("s0", "none", "bad", at_s=1)
    service.put("s0", "a", at_s=2)
    with Reading(source_of(service, Lenient()), [split_of("s0")]) as reading:
        reading.until(lambda: bool(reading.read))
    assert reading.read == [("orders/s0", (b"a", "k", "3", "orders", "s0"), 2000)]
    with (
        Reading(source_of(service, Described()), [split_of("s0")]) as reading,
        pytest.raises(ValueError, match="cannot"),
    ):
        reading.until(lambda: False)
    with pytest.raises(UnsupportedOperationError, match="no JVM"):
        KinesisDeserializationSchema(object())


# -- shards ------------------------------------------------------------------------------------------------------


class EnumeratorContext:
    def __init__(self, parallelism: int = 1) -> None:
        self.parallelism = parallelism
        self.registered_readers = set(range(parallelism))
        self.assigned: list[tuple[int, str]] = []
        self.splits: dict[str, KinesisShardSplit] = {}
        self.events: list[tuple[int, Any]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def assign_splits(self, assignment: dict[int, list[KinesisShardSplit]]) -> None:
        for subtask_index, splits in assignment.items():
            self.assigned += [(subtask_index, split.shard.shard_id) for split in splits]
            self.splits.update((split.shard.shard_id, split) for split in splits)

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        self.events.append((subtask_index, event))

    def call_async(self, call: Callable[[], Any], on_done: Callable[[Any, Any], None]) -> None:
        try:
            result = call()
        except KinesisError as error:
            on_done(None, error)
        else:
            on_done(result, None)

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timers.append((delay_ms, action))

    def discover_again(self) -> None:
        self.timers.pop()[1]()

    @property
    def shards(self) -> list[str]:
        return [shard for _, shard in self.assigned]


def resharded() -> FakeKinesis:
    """s0 was split into s1 and s2, and these merged into s3."""
    service = FakeKinesis("s0", "s1", "s2", "s3")
    for child, parents in {"s1": ("s0",), "s2": ("s0",), "s3": ("s1", "s2")}.items():
        service.shards[child].parents = parents
    service.page_size = 3
    return service


def test_children_are_read_after_all_their_parents() -> None:
    context = EnumeratorContext()
    enumerator = source_of(resharded()).create_enumerator(context)
    enumerator.start()
    assert context.shards == ["s0"]
    enumerator.handle_source_event(0, ShardsFinished(("orders/s0",)))
    assert context.shards == ["s0", "s1", "s2"]
    enumerator.handle_source_event(0, ShardsFinished(("orders/s1",)))
    assert context.shards == ["s0", "s1", "s2"]
    enumerator.handle_source_event(0, ShardsFinished(("orders/s2",)))
    assert context.shards == ["s0", "s1", "s2", "s3"]


def test_children_whose_parents_are_gone_are_read_at_once() -> None:
    service = resharded()
    del service.shards["s0"]
    context = EnumeratorContext()
    source_of(service).create_enumerator(context).start()
    assert context.shards == ["s1", "s2"]


def test_new_shards_are_discovered_and_a_failed_discovery_is_repeated() -> None:
    service = FakeKinesis("s0")
    context = EnumeratorContext()
    enumerator = source_of(service, flink__shard__discovery__intervalmillis="70").create_enumerator(context)
    enumerator.start()
    assert context.timers[0][0] == 70
    service.errors.append(refusal("LimitExceededException"))
    context.discover_again()
    service.shards["s1"] = FakeShard()
    context.discover_again()
    assert context.shards == ["s0", "s1"]
    context.discover_again()
    assert context.shards == ["s0", "s1"]


def test_error_names_a_missing_stream() -> None:
    service = FakeKinesis()
    service.errors.append(refusal("ResourceNotFoundException"))
    with pytest.raises(KinesisError, match=r"the shards of .*orders.* cannot be listed: .*ResourceNotFound"):
        source_of(service).create_enumerator(EnumeratorContext()).start()


def test_restored_enumerator_knows_waiting_and_assigned_shards() -> None:
    source, context = source_of(resharded()), EnumeratorContext()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    state = pickle.loads(pickle.dumps(enumerator.snapshot_state(1)))
    restored_context = EnumeratorContext()
    restored = source.restore_enumerator(restored_context, state)
    restored.start()
    assert restored_context.shards == []
    # The reader had read it to its end when the other half of the checkpoint was taken.
    restored.handle_source_event(0, ShardsFinished(("orders/s0",)))
    assert restored_context.shards == ["s1", "s2"]


def test_a_reader_is_told_when_a_completed_checkpoint_has_the_end_of_its_shard() -> None:
    source, context = source_of(resharded()), EnumeratorContext()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    enumerator.snapshot_state(1)
    enumerator.handle_source_event(0, ShardsFinished(("orders/s0",)))
    state = enumerator.snapshot_state(2)
    enumerator.notify_checkpoint_complete(1)
    assert context.events == []
    enumerator.notify_checkpoint_complete(2)
    assert context.events == [(0, FinishKept(("orders/s0",)))]
    restored_context = EnumeratorContext()
    restored = source.restore_enumerator(restored_context, state)
    restored.start()
    restored.handle_source_event(0, ShardsFinished(("orders/s0",)))
    assert restored_context.events == [(0, FinishKept(("orders/s0",)))]


def test_shard_finished_after_the_checkpoint_of_a_failed_reader_is_read_again() -> None:
    context = EnumeratorContext()
    enumerator = source_of(resharded()).create_enumerator(context)
    enumerator.start()
    enumerator.handle_source_event(0, ShardsFinished(("orders/s0",)))
    assert context.shards == ["s0", "s1", "s2"]
    back = [context.splits[shard] for shard in ("s0", "s1", "s2")]
    enumerator.add_splits_back(back, 0)
    assert context.shards == ["s0", "s1", "s2", "s0"]


def test_latest_is_the_time_when_the_job_was_started() -> None:
    service = FakeKinesis("s0")
    before = SystemClock().now_ms() / 1000
    context = EnumeratorContext()
    enumerator = source_of(service, flink__stream__initpos="LATEST").create_enumerator(context)
    enumerator.start()
    start = context.splits["s0"].position
    assert start.kind == "AT_TIMESTAMP"
    assert before <= (start.timestamp or 0) <= SystemClock().now_ms() / 1000
    assert enumerator.snapshot_state(1).start == start


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("1459799926.480", None, 1459799926.48),
        ("2016-04-04T19:58:46.480+00:00", None, 1459799926.48),
        ("2016-04-04T19:58:46.480-00:00", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", 1459799926.48),
        ("2016-04-04", "yyyy-MM-dd", 1459728000.0),
    ],
)
def test_a_starting_time_is_seconds_or_a_date(text: str, pattern: str | None, expected: float) -> None:
    properties = {"flink__stream__initpos": "AT_TIMESTAMP", "flink__stream__initpos__timestamp": text}
    if pattern:
        properties["flink__stream__initpos__timestamp__format"] = pattern
    source = source_of(FakeKinesis(), **properties)
    assert source.start_position == Position("AT_TIMESTAMP", timestamp=expected)


def test_shards_are_spread_by_their_name_or_evenly_by_their_hash_keys() -> None:
    size = (1 << 128) // 8
    shards = [Shard(STREAM, f"s{n}", (), n * size, (n + 1) * size - 1) for n in range(8)]
    uniform = KinesisShardAssigner.uniform_shard_assigner()
    assert sorted(uniform.assign(shard, 4) % 4 for shard in shards) == [0, 0, 1, 1, 2, 2, 3, 3]
    default = KinesisShardAssigner.default_shard_assigner()
    assert default.assign(shards[0], 4) == default.assign(shards[0], 4)
    assert KinesisShardAssigner(lambda shard, parallelism: 3).assign(shards[0], 4) == 3
    with pytest.raises(TypeError, match="no JVM"):
        KinesisShardAssigner(object())


# -- what PyFlink's own tests name -------------------------------------------------------------------------------


def test_kinesis_source() -> None:
    properties = {"aws.region": "us-east-1", "aws.credentials.provider.basic.accesskeyid": "id"}
    properties |= {"aws.credentials.provider.basic.secretkey": "key", "flink.stream.initpos": "LATEST"}
    properties |= {"flink.shard.idle.interval": 5000, "flink.watermark.sync.interval": 20}
    consumer = FlinkKinesisConsumer(["stream-1", "stream-2"], SimpleStringSchema(), properties)
    assert consumer.set_shard_assigner(KinesisShardAssigner.uniform_shard_assigner()) is consumer
    tracker = WatermarkTracker.job_manager_watermark_tracker("group")
    assert consumer.set_watermark_tracker(tracker) is consumer
    assert consumer.watermark_strategy is None
    consumer.set_periodic_watermark_assigner(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)))
    strategy = consumer.watermark_strategy
    assert strategy is not None
    assert (strategy.idle_timeout_ms, strategy.alignment) == (5000, ("group", 0, 20))
    source = pickle.loads(pickle.dumps(consumer.to_source()))
    assert source.streams == ("stream-1", "stream-2")
    assert source.produced_type == SimpleStringSchema().get_produced_type()
    assert FlinkKinesisConsumer("stream-1", SimpleStringSchema(), properties).to_source().streams == ("stream-1",)


def streams_builder() -> Any:
    return (
        KinesisStreamsSink.builder()
        .set_kinesis_client_properties({"aws.region": "eu-west-1"})
        .set_serialization_schema(SimpleStringSchema())
        .set_partition_key_generator(PartitionKeyGenerator.fixed())
        .set_stream_name("stream-1")
    )


def test_kinesis_streams_sink() -> None:
    builder = streams_builder().set_fail_on_error(True).set_max_batch_size(5).set_max_in_flight_requests(6)
    builder.set_max_buffered_requests(10).set_max_batch_size_in_bytes(1 << 20).set_max_time_in_buffer_ms(7)
    sink = builder.set_max_record_size_in_bytes(1 << 19).build()
    assert (sink.stream, sink.fails_on_error) == ("stream-1", True)
    assert tuple(vars(sink.settings).values()) == (5, 6, 10, 1 << 20, 7, 1 << 19)
    assert tuple(vars(streams_builder().build().settings).values()) == (500, 50, 10_000, 5 << 20, 5_000, 1 << 20)


def firehose_builder() -> Any:
    return (
        KinesisFirehoseSink.builder()
        .set_firehose_client_properties({"aws.region": "eu-west-1"})
        .set_serialization_schema(SimpleStringSchema())
        .set_delivery_stream_name("stream-1")
    )


def test_kinesis_firehose_sink() -> None:
    builder = firehose_builder().set_fail_on_error(True).set_max_batch_size(5).set_max_in_flight_requests(6)
    builder.set_max_buffered_requests(10).set_max_batch_size_in_bytes(1 << 20).set_max_time_in_buffer_ms(7)
    sink = builder.set_max_record_size_in_bytes(1 << 19).build()
    assert (sink.stream, sink.fails_on_error) == ("stream-1", True)
    assert tuple(vars(sink.settings).values()) == (5, 6, 10, 1 << 20, 7, 1 << 19)
    assert tuple(vars(firehose_builder().build().settings).values()) == (500, 50, 10_000, 4 << 20, 5_000, 1000 << 10)


# -- writing -----------------------------------------------------------------------------------------------------


class Writing:
    def __init__(self, service: FakeKinesis, builder: Any = None, **context: Any) -> None:
        sink = (builder or streams_builder()).build()
        sink.make_client = lambda *_: service
        self.context = TestingWriterContext(**context)
        self.writer = sink.create_writer(self.context)

    def __enter__(self) -> Any:
        return self.writer

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def test_requests_reach_the_limit_of_records_and_bytes() -> None:
    service = FakeKinesis()
    with Writing(service, streams_builder().set_max_batch_size(3)) as writer:
        writer.write(Batch(list("abcdefg")))
        writer.flush(False)
    assert sorted(map(len, service.requests)) == [1, 3, 3]
    assert sorted(service.stored) == [("0", text.encode()) for text in "abcdefg"]
    by_size = FakeKinesis()
    builder = streams_builder().set_max_record_size_in_bytes(4).set_max_batch_size_in_bytes(10)
    with Writing(by_size, builder) as writer:
        writer.write(Batch(["abcd"] * 5))
        writer.flush(True)
    assert sorted(map(len, by_size.requests)) == [1, 2, 2]


def test_running_requests_and_buffered_records_are_limited() -> None:
    service = FakeKinesis()
    service.gate = threading.Event()
    builder = streams_builder().set_max_batch_size(1).set_max_in_flight_requests(2).set_max_buffered_requests(3)
    with Writing(service, builder) as writer:
        writer.write(Batch(list("abcd")))
        assert (writer._in_flight, len(writer._buffer)) == (2, 2)
        thread = threading.Thread(target=lambda: writer.write(Batch(list("ef"))))
        thread.start()
        service.gate.set()
        thread.join(10)
        writer.flush(True)
    assert sorted(data for _, data in service.stored) == [text.encode() for text in "abcdef"]


def test_buffered_records_are_sent_after_the_longest_wait() -> None:
    service = FakeKinesis()
    writing = Writing(service, streams_builder().set_max_time_in_buffer_ms(70))
    with writing as writer:
        writer.write(Batch(["a"]))
        writer.write(Batch(["b"]))
        ((delay_ms, action),) = writing.context.timers
        assert (delay_ms, service.requests) == (70, [])
        action(0)
        writer._take_answers(blocking=True)
        assert service.requests == [[b"a", b"b"]]


@pytest.mark.parametrize("builder", [streams_builder, firehose_builder])
def test_only_refused_records_are_sent_again_and_flush_waits_for_them(builder: Callable[[], Any]) -> None:
    service = FakeKinesis()
    service.refusals[b"b"] = ["ProvisionedThroughputExceededException", "InternalFailure"]
    service.refusals[b"c"] = ["ServiceUnavailableException"]
    service.errors.append(refusal("ThrottlingException"))
    with Writing(service, builder()) as writer:
        writer.write(Batch(list("abc")))
        writer.flush(False)
    assert service.requests == [[b"a", b"b", b"c"], [b"b", b"c"], [b"b"]]
    assert sorted(data for _, data in service.stored) == [b"a", b"b", b"c"]


def test_first_refusal_fails_the_job_with_fail_on_error() -> None:
    service = FakeKinesis()
    service.refusals[b"b"] = ["ProvisionedThroughputExceededException"]
    with (
        Writing(service, streams_builder().set_fail_on_error(True)) as writer,
        pytest.raises(KinesisError, match=r"'stream-1': 1 of 2 records were refused: ProvisionedThroughput.*not now"),
    ):
        writer.write(Batch(list("ab")))
        writer.flush(False)


def test_permanent_refusal_fails_the_job() -> None:
    service = FakeKinesis()
    service.errors.append(refusal("ResourceNotFoundException"))
    with Writing(service) as writer, pytest.raises(KinesisError, match=r"'stream-1': .*ResourceNotFound"):
        writer.write(Batch(["a"]))
        writer.flush(False)
    with (
        Writing(service, streams_builder().set_max_record_size_in_bytes(3)) as writer,
        pytest.raises(InputFormatError, match="a record of 4 bytes"),
    ):
        writer.write(Batch(["abcd"]))


def test_partition_keys_are_the_subtask_random_or_from_a_callable() -> None:
    service = FakeKinesis()
    with Writing(service, subtask_index=7) as writer:
        writer.write(Batch(["a"]))
        writer.flush(True)
    with Writing(service, streams_builder().set_partition_key_generator(PartitionKeyGenerator.random())) as writer:
        writer.write(Batch(["b", "c"]))
        writer.flush(True)
    own = PartitionKeyGenerator(lambda record: record * 2)
    with Writing(service, streams_builder().set_partition_key_generator(own)) as writer:
        writer.write(Batch(["d"]))
        writer.flush(True)
    keys = [key for key, _ in service.stored]
    assert keys[0] == "7"
    assert keys[1] != keys[2]
    assert keys[3] == "dd"


# -- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "aws.region or aws.endpoint must be set"),
        ({"aws.region": "x", "aws.credentials.provider": "ASSUME_ROLE"}, "for a role use PROFILE"),
        ({"aws.region": "x", "aws.credentials.provider": "BASIC"}, "BASIC needs"),
        ({"aws.region": "x", "flink.stream.initpos": "NOW"}, "LATEST, TRIM_HORIZON or AT_TIMESTAMP, not 'NOW'"),
        (
            {"aws.region": "x", "flink.stream.initpos": "AT_TIMESTAMP"},
            "needs the property flink.stream.initpos",
        ),
        ({"aws.region": "x", "flink.stream.recordpublisher": "EFO"}, "must be POLLING, not 'EFO'"),
        ({"aws.region": "x", "flink.shard.getrecords.maxrecordcount": "20000"}, "must be at most 10000"),
    ],
)
def test_constructor_names_invalid_properties(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FlinkKinesisConsumer(STREAM, SimpleStringSchema(), properties)


def test_builder_refuses_incomplete_sinks() -> None:
    with pytest.raises(ConfigurationError, match="stream name must be set"):
        KinesisStreamsSink.builder().build()
    with pytest.raises(ConfigurationError, match="call set_partition_key_generator"):
        builder = KinesisStreamsSink.builder().set_stream_name("s").set_serialization_schema(SimpleStringSchema())
        builder.set_kinesis_client_properties({"aws.region": "x"}).build()
    with pytest.raises(ConfigurationError, match="must be above max_batch_size"):
        streams_builder().set_max_buffered_requests(500).build()
    with pytest.raises(ConfigurationError, match="must not be below max_record_size_in_bytes"):
        firehose_builder().set_max_batch_size_in_bytes(5).build()


def test_a_missing_client_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(UnsupportedOperationError, match=r"flinkpy\[kinesis\]"):
        streams_builder().build().create_writer(TestingWriterContext())
    with pytest.raises(UnsupportedOperationError, match=r"flinkpy\[kinesis\]"):
        aws_client.load_boto3()
