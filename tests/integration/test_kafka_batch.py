"""KafkaSource in batch mode, natively and in Spark: both engines read the same records of a real broker."""

from __future__ import annotations

import pytest
from clusters import RunningCluster
from engines import run_on
from kafka_broker.broker import KafkaBroker

from flinkpy.common import SimpleStringSchema, WatermarkStrategy
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.datastream.connectors.dynamic_kafka import DynamicKafkaSource, SingleClusterTopicMetadataService
from flinkpy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaTopicPartition

EARLIEST = KafkaOffsetsInitializer.earliest()
LATEST = KafkaOffsetsInitializer.latest()
GROUP = "batch-readers"
#: The timestamp of the first record. Each partition has a record per second.
T0 = 1_700_000_000_000


def commit_offset(kafka: KafkaBroker, topic: str, partition: int, offset: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("engine", ["native-batch", pytest.param("spark", marks=pytest.mark.differential)])
def test_a_bounded_source_reads_from_and_to_the_chosen_offsets(
    kafka: KafkaBroker, engine_cluster: RunningCluster, engine: str
) -> None:
    """Reads by timestamp, by the offsets of a group, by given offsets, everything, and with a DynamicKafkaSource."""
    # The records are years old, so a broker with retention would delete them.
    topic = kafka.create_topic(partitions=3, retention_ms="-1")
    for partition in range(2):  # the third one stays empty
        values = list(range(partition * 100, partition * 100 + 20))
        kafka.produce(topic, values, partition=partition, timestamps=[T0 + 1000 * number for number in range(20)])
        commit_offset(kafka, topic, partition, 15)
    commit_offset(kafka, topic, 2, 0)

    def stream(
        env: StreamExecutionEnvironment, start: KafkaOffsetsInitializer, end: KafkaOffsetsInitializer
    ) -> DataStream:
        builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap_servers).set_topics(topic)
        builder.set_group_id(GROUP).set_property("fetch.wait.max.ms", "20")
        builder.set_value_only_deserializer(SimpleStringSchema()).set_starting_offsets(start).set_bounded(end)
        return env.from_source(builder.build(), WatermarkStrategy.for_monotonous_timestamps(), "kafka")

    def build(env: StreamExecutionEnvironment) -> dict[str, DataStream]:
        given = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 18})
        committed = KafkaOffsetsInitializer.committed_offsets()
        at = KafkaOffsetsInitializer.timestamp
        service = SingleClusterTopicMetadataService("one", {"bootstrap.servers": kafka.bootstrap_servers})
        dynamic = DynamicKafkaSource.builder().set_kafka_metadata_service(service).set_stream_ids({topic})
        dynamic.set_value_only_deserializer(SimpleStringSchema()).set_bounded(LATEST)
        return {
            "all": stream(env, EARLIEST, LATEST),
            "nothing": stream(env, LATEST, LATEST),
            "times": stream(env, at(T0 + 4500), at(T0 + 7000)),
            "last": stream(env, at(T0 + 18_000), at(T0 + 60_000)),
            "group": stream(env, committed, LATEST),
            "to group": stream(env, EARLIEST, committed),
            "given": stream(env, given, LATEST),
            "dynamic": env.from_source(dynamic.build(), WatermarkStrategy.no_watermarks(), "dynamic"),
        }

    results = run_on(engine, engine_cluster, build)
    found: dict[str, list[int]] = {}
    for name, value in results:
        found.setdefault(name, []).append(int(value))
    first, second = list(range(20)), list(range(100, 120))
    assert {name: sorted(values) for name, values in found.items()} == {
        "all": first + second,
        "times": first[5:7] + second[5:7],
        "last": first[18:] + second[18:],
        "group": first[15:] + second[15:],
        "to group": first[:15] + second[:15],
        "given": first[18:] + second,
        "dynamic": first + second,
    }
