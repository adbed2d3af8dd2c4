"""KafkaSource on a real broker: starting and stopping offsets, discovery, and failures."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from kafka_broker.broker import KafkaBroker
from kafka_running import Running, running
from ports import own_port

from flinkpy.common import Duration, SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.common.errors import ConfigurationError, InputFormatError, JobExecutionError, KafkaError
from flinkpy.connectors.kafka.partitions import KafkaPartitionSplit, split_owner
from flinkpy.datastream import KeyedProcessFunction, ProcessFunction
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.dynamic_kafka import DynamicKafkaSource, SingleClusterTopicMetadataService
from flinkpy.datastream.connectors.kafka import (
    ConsumerRecord,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)

EARLIEST = KafkaOffsetsInitializer.earliest()
LATEST = KafkaOffsetsInitializer.latest()


def builder(kafka: KafkaBroker, *topics: str) -> Any:
    made = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_value_only_deserializer(SimpleStringSchema())
        # Tests then do not wait for records that do not exist yet.
        .set_property("fetch.wait.max.ms", "20")
    )
    return made.set_topics(*topics) if topics else made


def texts(numbers: Any) -> list[str]:
    return list(map(str, numbers))


# -- starting and stopping offsets ------------------------------------------------------------------------------------


def test_a_bounded_source_reads_the_records_present_at_its_start(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(topic, list(range(partition, 100, 2)), partition=partition)
    with running(builder(kafka, topic).set_bounded(LATEST).build(), max_batch_rows=7) as run:
        kafka.produce(topic, ["too late"])
        assert sorted(map(int, run.read_to_end())) == list(range(100))
        assert run.values_of(f"{topic}-0") == texts(range(0, 100, 2)), "in the order of the partition"
        assert sorted(run.contexts[0].finished_splits) == [f"{topic}-0", f"{topic}-1"]


def test_a_source_starts_at_the_configured_offsets(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=2)
    first, second = KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 1)
    kafka.produce(topic, texts(range(10)), partition=0, timestamps=list(range(1000, 1010)))
    kafka.produce(topic, ["a", "b"], partition=1, timestamps=[2000, 3000])

    def read(starting: KafkaOffsetsInitializer, **properties: str) -> list[str]:
        made = builder(kafka, topic).set_starting_offsets(starting).set_bounded(LATEST)
        made.set_properties({key.replace("_", "."): value for key, value in properties.items()})
        with running(made.build()) as run:
            return sorted(run.read_to_end())

    assert read(EARLIEST) == [*texts(range(10)), "a", "b"]
    assert read(LATEST) == []
    assert read(KafkaOffsetsInitializer.timestamp(1008)) == ["8", "9", "a", "b"]
    assert read(KafkaOffsetsInitializer.timestamp(2500)) == ["b"], "of a partition without such a record none"
    latest, earliest = KafkaOffsetResetStrategy.LATEST, KafkaOffsetResetStrategy.EARLIEST
    assert read(KafkaOffsetsInitializer.offsets({first: 7, second: 1})) == ["7", "8", "9", "b"]
    assert read(KafkaOffsetsInitializer.offsets({first: 7}, earliest)) == ["7", "8", "9", "a", "b"]
    assert read(KafkaOffsetsInitializer.offsets({first: 7}, latest)) == ["7", "8", "9"]
    committed = KafkaOffsetsInitializer.committed_offsets
    assert read(committed(latest), group_id="nobody") == []
    assert read(committed(earliest), group_id="nobody") == [*texts(range(10)), "a", "b"]
    with pytest.raises(ConfigurationError, match=rf"{topic}-0, {topic}-1: the consumer group has committed no offset"):
        read(committed(), group_id="nobody")


def test_a_source_stops_at_the_configured_offsets(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, texts(range(10)), partition=0, timestamps=list(range(1000, 1010)))
    kafka.produce(topic, ["a", "b"], partition=1, timestamps=[2000, 3000])

    def read(stopping: KafkaOffsetsInitializer) -> list[str]:
        with running(builder(kafka, topic).set_bounded(stopping).build(), max_batch_rows=3) as run:
            return sorted(run.read_to_end())

    at = {KafkaTopicPartition(topic, 0): 4, KafkaTopicPartition(topic, 1): 0}
    assert read(KafkaOffsetsInitializer.offsets(at)) == ["0", "1", "2", "3"]
    assert read(KafkaOffsetsInitializer.timestamp(1005)) == texts(range(5))
    with running(builder(kafka, topic).set_unbounded(LATEST).build()) as run:
        assert len(run.read_to_end()) == 12, "a source that stops without being bounded ends, too"


def test_offsets_of_completed_checkpoints_are_committed_to_the_group(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, texts(range(10)))
    made = builder(kafka, topic).set_group_id("observed")
    with running(made.build(), max_batch_rows=4) as run:
        run.read(4)
        run.checkpoint(1)
        run.read(8)
        run.checkpoint(2)
        run.complete(1)
        name = f"KafkaSourceReader.topic.{topic}.partition.0"
        run.read_until(lambda: run.contexts[0].metrics()[f"{name}.committedOffset"] == 4, "the commit")
        metrics = run.contexts[0].metrics()
        assert metrics["KafkaSourceReader.commitsSucceeded"] == 1
        assert metrics["KafkaSourceReader.commitsFailed"] == 0
        assert metrics[f"{name}.currentOffset"] >= 7
    resumed = builder(kafka, topic).set_group_id("observed").set_bounded(LATEST)
    with running(resumed.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build()) as run:
        assert run.read_to_end() == texts(range(4, 10))


def test_pending_records_are_counted(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, texts(range(10)))
    with running(builder(kafka, topic).build(), max_batch_rows=4) as run:
        run.read(4)
        assert run.contexts[0].metrics()["pendingRecords"] == 6


# -- transactions ----------------------------------------------------------------------------------------------------


def write_transactions(kafka: KafkaBroker, topic: str) -> None:
    """Writes a committed and an aborted transaction. The topic ends with aborted records and transaction markers."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"writer-of-{topic}"})
    producer.init_transactions(30)
    for text, ends in (("kept", producer.commit_transaction), ("gone", producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{text}-{number}")
        producer.flush(30)
        ends(30)


def test_a_bounded_source_ends_behind_aborted_records_and_markers(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    write_transactions(kafka, topic)
    committed = builder(kafka, topic).set_property("isolation.level", "read_committed").set_bounded(LATEST)
    with running(committed.build()) as run:
        assert run.read_to_end() == ["kept-0", "kept-1", "kept-2"]
    # The default of the Java client, and so of Flink.
    with running(builder(kafka, topic).set_bounded(LATEST).build()) as run:
        assert len(run.read_to_end()) == 6


# -- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_restored_source_continues_at_its_position(kafka: KafkaBroker, parallelism: int) -> None:
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, texts(range(200)))
    source = builder(kafka, topic).set_bounded(LATEST).build()
    with running(source, 2, max_batch_rows=9) as run:
        before = list(run.read(60))
        checkpoint = run.checkpoint()
        run.read(100)
    with running(source, parallelism, checkpoint=checkpoint) as run:
        after = run.read_to_end()
    assert Counter(before + after) == Counter(texts(range(200)))


def test_a_restored_source_does_not_look_up_its_starting_offsets_again(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    source = builder(kafka, topic).set_starting_offsets(LATEST).build()
    with running(source) as run:
        checkpoint = run.checkpoint()
    kafka.produce(topic, ["since"])
    with running(source, checkpoint=checkpoint) as run:
        assert run.read(1) == ["since"]


# -- discovery -------------------------------------------------------------------------------------------------------


def test_a_new_partition_is_read_from_its_beginning(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["old"])
    source = builder(kafka, topic).set_starting_offsets(LATEST).set_property("partition.discovery.interval.ms", "50")
    with running(source.build(), 2) as run:
        kafka.add_partitions(topic, 2)
        kafka.produce(topic, ["first of the new partition"], partition=1)
        run.run_timers()
        assert run.read(1) == ["first of the new partition"]
        [owner] = [index for index, records in enumerate(run.records) if records]
        assert owner == split_owner(KafkaPartitionSplit(KafkaTopicPartition(topic, 1), 0), 2)
        run.run_timers()
        assert len(run.read(1)) == 1, "the partition is found once"
        checkpoint = run.checkpoint()
    with running(source.build(), 2, checkpoint=checkpoint) as run:
        kafka.produce(topic, ["more"], partition=1)
        assert run.read(1) == ["more"]


def test_a_pattern_finds_topics_that_appear_later(kafka: KafkaBroker) -> None:
    source = builder(kafka).set_topic_pattern("orders-.*").set_property("partition.discovery.interval.ms", "50").build()
    with running(source) as run:
        for name in ("orders-eu", "other-orders-eu"):
            kafka.produce(kafka.create_topic(name), [f"from {name}"])
        run.run_timers()
        assert run.read(1) == ["from orders-eu"]


def test_single_partitions_can_be_read(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=3)
    for partition in range(3):
        kafka.produce(topic, [f"of {partition}"], partition=partition)
    source = builder(kafka).set_partitions({KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 2)})
    with running(source.set_bounded(LATEST).build(), 2) as run:
        assert sorted(run.read_to_end()) == ["of 0", "of 2"]


# -- deserialization --------------------------------------------------------------------------------------------------


class Everything(KafkaRecordDeserializationSchema):
    def deserialize(self, message: ConsumerRecord) -> Any:
        return None if message.value == b"ignored" else message


def test_a_deserializer_sees_key_headers_timestamp_and_offset(kafka: KafkaBroker) -> None:
    from confluent_kafka import Producer

    topic = kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"value", b"key", timestamp=1234, headers=[("h", b"1"), ("h", None)])
    producer.produce(topic, b"ignored", timestamp=1235)
    producer.produce(topic, None, b"tombstone", timestamp=1236)
    producer.flush(30)
    source = builder(kafka, topic).set_deserializer(Everything()).set_bounded(LATEST).build()
    with running(source) as run:
        assert run.read_to_end() == [
            ConsumerRecord(topic, 0, 0, 1234, b"key", b"value", (("h", b"1"), ("h", None))),
            ConsumerRecord(topic, 0, 2, 1236, b"tombstone", None, ()),
        ]
        assert [timestamp for _, _, timestamp in run.records[0]] == [1234, 1236]


def test_a_value_schema_emits_no_record_for_a_tombstone(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["one", None, "two"], timestamps=[1, 2, 3])
    with running(builder(kafka, topic).set_bounded(LATEST).build()) as run:
        run.read_to_end()
        assert [(value, timestamp) for _, value, timestamp in run.records[0]] == [("one", 1), ("two", 3)]


class Numbers(SimpleStringSchema):
    def __init__(self, on_error: Any = "fail") -> None:
        super().__init__()
        self.on_error = on_error

    def deserialize(self, message: bytes) -> Any:
        return json.loads(message)


def test_a_value_that_cannot_be_read_is_skipped_and_counted_if_configured(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["1", "two", "3"])
    with running(builder(kafka, topic).set_value_only_deserializer(Numbers("skip")).set_bounded(LATEST).build()) as run:
        assert run.read_to_end() == [1, 3]
        assert run.contexts[0].metrics()["numRecordsSkipped"] == 1


# -- errors -----------------------------------------------------------------------------------------------------------


def test_the_error_names_a_missing_topic(kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaError, match=f"Kafka topic nowhere of brokers {kafka.bootstrap_servers}: UNKNOWN_TOPIC"):
        Running(builder(kafka, "nowhere").build())
    topic = kafka.create_topic()
    missing = {KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 7)}
    with pytest.raises(KafkaError, match=f"Kafka partitions {topic}-7 do not exist"):
        Running(builder(kafka).set_partitions(missing).build())


def test_the_error_names_missing_brokers_after_a_bounded_time() -> None:
    address = f"127.0.0.1:{own_port()}"
    made = KafkaSource.builder().set_bootstrap_servers(address).set_topics("any")
    made.set_value_only_deserializer(SimpleStringSchema()).set_property("default.api.timeout.ms", "300")
    with pytest.raises(KafkaError, match=f"Kafka topic any: Kafka brokers {address} do not answer"):
        Running(made.build())


def test_a_topic_that_is_deleted_ends_the_job(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["last words"])
    made = builder(kafka, topic).set_property("topic.metadata.refresh.interval.ms", "200")
    with running(made.set_property("topic.metadata.propagation.max.ms", "200").build()) as run:
        run.read(1)
        kafka.delete_topic(topic)
        with pytest.raises(
            KafkaError, match=f"Kafka brokers {kafka.bootstrap_servers}: _UNKNOWN_PARTITION: {topic} .0."
        ):
            run.read(2)


def test_an_offset_out_of_range_is_an_error_if_the_strategy_is_none(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["only"])
    at = {KafkaTopicPartition(topic, 0): 77}
    none = KafkaOffsetsInitializer.offsets(at, KafkaOffsetResetStrategy.NONE)
    with (
        running(builder(kafka, topic).set_starting_offsets(none).build()) as run,
        pytest.raises(KafkaError, match=f"Kafka partition {topic}-0: _AUTO_OFFSET_RESET"),
    ):
        run.read(1)
    earliest = KafkaOffsetsInitializer.offsets(at, KafkaOffsetResetStrategy.EARLIEST)
    with running(builder(kafka, topic).set_starting_offsets(earliest).build()) as run:
        assert run.read(1) == ["only"]


def test_a_source_continues_after_a_broker_restarts(own_kafka: KafkaBroker) -> None:
    topic = own_kafka.create_topic()
    own_kafka.produce(topic, texts(range(100)))
    source = builder(own_kafka, topic).set_property("reconnect.backoff.max.ms", "200").build()
    with running(source) as run:
        run.read(100)
        own_kafka.kill()
        assert not run.poll()
        own_kafka.resume()
        own_kafka.wait_until_ready()
        own_kafka.produce(topic, texts(range(100, 200)))
        assert run.read(200) == texts(range(200))


# -- whole jobs --------------------------------------------------------------------------------------------------------


def test_a_bounded_job_copies_a_topic_with_its_timestamps(shared_cluster: RunningCluster, kafka: KafkaBroker) -> None:
    source_topic, sink_topic = kafka.create_topic(partitions=3), kafka.create_topic(partitions=2)
    kafka.produce(source_topic, list(range(5000)), timestamps=list(range(1, 5001)))
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(sink_topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_record_serializer(serializer)
        .build()
    )
    env = environment(shared_cluster)
    source = builder(kafka, source_topic).set_bounded(LATEST).build()
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
    stream.map(lambda text: f"<{text}>", Types.STRING()).sink_to(sink)
    env.execute("copy")
    copied = {(message.value().decode(), message.timestamp()[1]) for message in kafka.read(sink_topic)}
    assert copied == {(f"<{number}>", number + 1) for number in range(5000)}


class Lateness(ProcessFunction):
    """Emits (value, True if the watermark had passed it)."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp() <= ctx.timer_service().current_watermark()


def test_records_of_a_slow_partition_are_not_late_because_another_is_ahead(
    shared_cluster: RunningCluster, kafka: KafkaBroker
) -> None:
    """One subtask reads a partition with timestamps far in the future, and later one with timestamps in the past."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, texts(range(100)), partition=0, timestamps=list(range(900_000, 900_100)))
    env = environment(shared_cluster, parallelism=1, **{"pipeline.auto-watermark-interval": "1 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_source(builder(kafka, topic).build(), strategy, "kafka").process(
        Lateness(), Types.TUPLE([Types.STRING(), Types.BOOLEAN()])
    )
    with stream.execute_and_collect("lateness") as results:
        # By the time the client has these results, many watermarks could have been emitted.
        assert [value for value, _ in itertools.islice(results, 100)] == texts(range(100))
        kafka.produce(topic, texts(range(100)), partition=1, timestamps=list(range(1_000, 1_100)))
        assert list(itertools.islice(results, 100)) == [(text, False) for text in texts(range(100))]


def test_watermarks_advance_although_a_partition_is_idle(shared_cluster: RunningCluster, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, texts(range(10)), partition=0, timestamps=list(range(1_000, 1_010)))
    env = environment(shared_cluster, parallelism=1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(100))
    stream = env.from_source(builder(kafka, topic).build(), strategy, "kafka").key_by(
        lambda text: "all", Types.STRING()
    )
    with stream.process(TimerAt(1_005), Types.LONG()).execute_and_collect("idle") as results:
        # The source never ends. Without idleness this would wait forever for the other partition.
        assert next(iter(results)) == 1_005


class TimerAt(KeyedProcessFunction):
    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(self._timestamp)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield timestamp


def test_the_error_of_a_value_that_cannot_be_read_names_its_offset(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["1", "two"])
    with (
        running(builder(kafka, topic).set_value_only_deserializer(StrictNumbers()).set_bounded(LATEST).build()) as run,
        pytest.raises(InputFormatError, match=f"Kafka topic {topic}, partition 0, offset 1: no number"),
    ):
        run.read_to_end()


class StrictNumbers(SimpleStringSchema):
    def deserialize_batch(self, messages: Any) -> Any:
        from flinkpy.formats.schema import DecodedBatch, MessageError

        bad = [MessageError(index, "no number") for index, message in enumerate(messages) if not message.isdigit()]
        return DecodedBatch([int(message) for message in messages if message.isdigit()], None, bad)


def test_a_job_reads_several_topics_and_continues_after_a_restore(kafka: KafkaBroker) -> None:
    first, second = kafka.create_topic("stream-a", 2), kafka.create_topic("stream-b")
    kafka.produce(first, texts(range(50)))
    kafka.produce(second, texts(range(50, 100)))
    service = SingleClusterTopicMetadataService("local", {"bootstrap.servers": kafka.bootstrap_servers})
    source = (
        DynamicKafkaSource.builder()
        .set_stream_pattern("stream-.*")
        .set_kafka_metadata_service(service)
        .set_bounded(LATEST)
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    with running(source, 2, max_batch_rows=7) as run:
        before = list(run.read(30))
        checkpoint = run.checkpoint()
    with running(source, checkpoint=checkpoint) as run:
        assert Counter(before + run.read_to_end()) == Counter(texts(range(100)))


def test_a_job_that_reads_a_missing_topic_fails_and_names_it(
    shared_cluster: RunningCluster, kafka: KafkaBroker
) -> None:
    env = environment(shared_cluster)
    env.from_source(builder(kafka, "not-there").build(), WatermarkStrategy.no_watermarks(), "kafka").print()
    with pytest.raises(JobExecutionError, match=r"Kafka topic not-there of brokers .*: UNKNOWN_TOPIC_OR_PART"):
        env.execute("missing")
