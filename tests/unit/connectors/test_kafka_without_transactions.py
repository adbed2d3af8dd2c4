"""Kafka's source and its at-least-once sink on the mock brokers of librdkafka.

These know neither transactions nor isolation levels. Tests on a real broker cover both.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kafka_running import WriterContext, running

from flinkpy.common import SimpleStringSchema
from flinkpy.connectors.kafka.subscriber import ClusterMetadata, KafkaStream
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.dynamic_kafka import DynamicKafkaSource, KafkaMetadataService
from flinkpy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkpy.records.batch import Batch

confluent_kafka = pytest.importorskip("confluent_kafka")


class MockCluster:
    """A mock cluster. The first record creates a topic with four partitions."""

    def __init__(self) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 0}
        )
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def write(self, topic: str, *values: Any) -> None:
        for value in values:
            self._producer.produce(topic, str(value))
        assert self._producer.flush(30) == 0


@pytest.fixture
def clusters():
    """Provides a function that starts a mock cluster."""
    started = []

    def start() -> MockCluster:
        started.append(MockCluster())
        return started[-1]

    yield start
    started.clear()


def source(cluster: MockCluster, *topics: str) -> Any:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(cluster.bootstrap_servers)
        .set_topics(*topics)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def test_source_reads_what_a_sink_wrote(clusters):
    cluster = clusters()
    cluster.write("t", "first")
    schema = KafkaRecordSerializationSchema.builder().set_topic("t")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(cluster.bootstrap_servers)
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        # Choose a partition per record, not per few milliseconds.
        .set_property("sticky.partitioning.linger.ms", "0")
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    writer = sink.create_writer(WriterContext())
    writer.write(Batch([str(number) for number in range(500)]))
    writer.flush(False)
    writer.close()
    with running(source(cluster, "t"), 2, max_batch_rows=64) as run:
        assert Counter(run.read_to_end()) == Counter(["first", *map(str, range(500))])
    assert {subtask for subtask, records in enumerate(run.records) if records} == {0, 1}


def test_restored_reader_resumes_each_partition(clusters):
    cluster = clusters()
    cluster.write("t", *range(300))
    with running(source(cluster, "t"), 2, max_batch_rows=11) as run:
        before = list(run.read(100))
        checkpoint = run.checkpoint()
    with running(source(cluster, "t"), checkpoint=checkpoint) as run:
        assert Counter(before + run.read_to_end()) == Counter(map(str, range(300)))


class Moving(KafkaMetadataService):
    """A service of one stream, whose clusters the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters: dict[str, MockCluster] = {}

    def get_all_streams(self):
        found = {
            name: ClusterMetadata(frozenset({"t"}), {"bootstrap.servers": cluster.bootstrap_servers})
            for name, cluster in self.clusters.items()
        }
        return {KafkaStream("s", found)}

    def describe_streams(self, stream_ids):
        return {found.stream_id: found for found in self.get_all_streams()}


def test_stream_source_reads_several_clusters_and_follows_a_stream_that_moves(clusters):
    service = Moving()
    service.clusters = {"one": clusters(), "two": clusters()}
    for name, cluster in service.clusters.items():
        cluster.write("t", *(f"{name}-{number}" for number in range(20)))
    builder = DynamicKafkaSource.builder().set_stream_ids({"s"}).set_kafka_metadata_service(service)
    built = (
        builder.set_property("stream-metadata-discovery-interval-ms", "10")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    with running(built, 2, max_batch_rows=3) as run:
        expected = Counter(f"{name}-{number}" for name in ("one", "two") for number in range(20))
        assert Counter(run.read(40)) == expected
        assert {split_id.split("-")[0] for records in run.records for split_id, _, _ in records} == {"one", "two"}
        left = service.clusters.pop("one")
        service.clusters["three"] = clusters()
        service.clusters["three"].write("t", "three-0")
        left.write("t", "one-is-not-read-any-more")
        run.run_timers()
        assert Counter(run.read(41)) == expected + Counter(["three-0"])
        finished = [split_id for context in run.contexts for split_id in context.finished_splits]
        assert sorted(finished) == [f"one-t-{partition}" for partition in range(4)]
        checkpoint = run.checkpoint()
    service.clusters["two"].write("t", "two-20")
    with running(built, checkpoint=checkpoint) as run:
        assert run.read(1) == ["two-20"]
