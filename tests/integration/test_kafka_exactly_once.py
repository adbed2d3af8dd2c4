"""Kafka -> job with checkpoints -> Kafka: a reader of committed records sees each record once, whatever dies."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster
from job_support import environment, wait_until
from kafka_broker.broker import KafkaBroker

from flinkpy.common import SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.common.errors import JobNotFoundError
from flinkpy.common.failpoints import SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.connectors.kafka.transaction_client import TransactionClient
from flinkpy.datastream import MapFunction
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

NUM_RECORDS = 3000
SETTINGS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "50 ms",
    "execution.checkpointing.interval": "200 ms",
}


class Slowly(MapFunction):
    """The identity, slow enough that a job lasts over some checkpoints."""

    def map(self, value: str) -> str:
        if value.endswith("0"):
            time.sleep(0.004)
        return value


def copying_job(env, kafka: KafkaBroker, source_topic: str, sink_topic: str, prefix: str, **properties: str):
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_topics(source_topic)
        .set_group_id(f"group-of-{prefix}")
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(sink_topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    builder = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.bootstrap_servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(prefix)
        .set_property("transaction.timeout.ms", "60000")
        .set_record_serializer(serializer)
    )
    for key, value in properties.items():
        builder.set_property(key.replace("_", "."), value)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").uid("source")
    stream.map(Slowly(), Types.STRING()).uid("slowly").rebalance().sink_to(builder.build()).uid("sink")


def filled_topics(kafka: KafkaBroker) -> tuple[str, str]:
    source_topic, sink_topic = kafka.create_topic(partitions=3), kafka.create_topic(partitions=2)
    kafka.produce(source_topic, list(range(NUM_RECORDS)))
    return source_topic, sink_topic


def assert_each_once(kafka: KafkaBroker, topic: str) -> None:
    assert Counter(kafka.read_values(topic)) == Counter(map(str, range(NUM_RECORDS)))


def assert_no_open_transactions(kafka: KafkaBroker, prefix: str) -> None:
    client = TransactionClient({"bootstrap.servers": kafka.bootstrap_servers}, 10)
    try:
        assert client.list_open(prefix) == []
    finally:
        client.close()


def completed_checkpoints(cluster: RunningCluster, job_id: str) -> int:
    """The id of the latest; 0 while the JobMaster is not there yet."""
    try:
        return cluster.client.request_checkpoint_statistics(job_id).latest_completed.checkpoint_id
    except JobNotFoundError:
        return 0


def test_without_failures_every_record_comes_once(cluster: RunningCluster, kafka: KafkaBroker) -> None:
    source_topic, sink_topic = filled_topics(kafka)
    env = environment(cluster, **SETTINGS)
    copying_job(env, kafka, source_topic, sink_topic, "calm")
    env.execute("calm")
    assert_each_once(kafka, sink_topic)
    assert_no_open_transactions(kafka, "calm")
    offsets = [end for _, end in committed_offsets(kafka, source_topic, "group-of-calm")]
    assert sum(offsets) == NUM_RECORDS


def committed_offsets(kafka: KafkaBroker, topic: str, group: str) -> list[tuple[int, int]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        found = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=10)
        return [(at.partition, max(0, at.offset)) for at in found]
    finally:
        consumer.close()


def test_a_killed_task_executor_loses_and_repeats_nothing(start_cluster: StartCluster, kafka: KafkaBroker) -> None:
    cluster = start_cluster(2, restart_services=True)
    source_topic, sink_topic = filled_topics(kafka)
    env = environment(cluster, **SETTINGS)
    copying_job(env, kafka, source_topic, sink_topic, "killed")
    client = env.execute_async("killed")
    job_id = str(client.get_job_id())
    for name in ("taskexecutor-1", "taskexecutor-2"):
        before = completed_checkpoints(cluster, job_id)
        wait_until(lambda before=before: completed_checkpoints(cluster, job_id) > before + 1, "checkpoints")
        cluster.kill(name)
    client.get_job_execution_result().result()
    assert cluster.client.request_job(job_id).num_restarts >= 1
    assert_each_once(kafka, sink_topic)
    assert_no_open_transactions(kafka, "killed")


@pytest.mark.parametrize("point", ["before_prepare", "before_commit", "after_commit"])
def test_a_crash_at_any_step_of_a_transaction_loses_and_repeats_nothing(
    start_cluster: StartCluster, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    name = f"kafka_sink.{point}"
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    for number in range(2):
        (tokens / f"{name}.{number}").touch()
    # Not at once: there is something to lose then.
    monkeypatch.setenv(SPECIFICATION_VARIABLE, f"{name}=crash@3")
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    source_topic, sink_topic = filled_topics(kafka)
    env = environment(cluster, **SETTINGS)
    copying_job(env, kafka, source_topic, sink_topic, point)
    env.execute(point)
    assert len(list(tokens.iterdir())) == 0, "the process did not die at that point"
    assert_each_once(kafka, sink_topic)
    assert_no_open_transactions(kafka, point)
