"""Kafka -> job with checkpoints -> Kafka: a reader of committed records sees each record once, despite any crash."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster
from job_support import environment, wait_until
from kafka_broker.broker import KafkaBroker

from flinkpy.common import SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError, JobNotFoundError
from flinkpy.common.failpoints import FAILPOINTS, SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.connectors.kafka.transaction_client import TransactionClient
from flinkpy.datastream import MapFunction
from flinkpy.datastream.connectors.base import DeliveryGuarantee
from flinkpy.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    Semantic,
)

NUM_RECORDS = 16_000
SETTINGS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "50 ms",
    "execution.checkpointing.interval": "200 ms",
}


class SlowlyUntil(MapFunction):
    """An identity function that gets slower and slower until the file is removed, so the job lasts long enough."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._is_slow = True
        self._num_slow = 0

    def map(self, value: str) -> str:
        if self._is_slow:
            self._num_slow += 1
            # A checkpoint cannot interrupt a batch, so the first records must be fast.
            time.sleep(min(0.01, 0.0001 * (1 + self._num_slow // 500)))
            self._is_slow = not value.endswith("0") or os.path.exists(self._path)
        return value


def copying_job(env, kafka: KafkaBroker, topics: tuple[str, str], prefix: str, slow: Path, **properties: str):
    """Starts a job that copies a topic. It is slow while the file `slow` exists."""
    source_topic, sink_topic = topics
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
    stream.map(SlowlyUntil(slow), Types.STRING()).uid("slowly").rebalance().sink_to(builder.build()).uid("sink")


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
    """Returns the id of the latest checkpoint, or 0 while the JobMaster is not reachable."""
    try:
        return cluster.client.request_checkpoint_statistics(job_id).latest_completed.checkpoint_id
    except JobNotFoundError:
        return 0


def test_every_record_arrives_once_without_failures(
    cluster: RunningCluster, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topics = source_topic, sink_topic = filled_topics(kafka)
    env = environment(cluster, **SETTINGS)
    copying_job(env, kafka, topics, "calm", tmp_path / "not-slow")
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


def test_a_killed_task_executor_loses_and_repeats_nothing(
    start_cluster: StartCluster, kafka: KafkaBroker, tmp_path: Path
) -> None:
    cluster = start_cluster(2, restart_services=True)
    topics = filled_topics(kafka)
    slow = tmp_path / "slow"
    slow.touch()
    env = environment(cluster, **SETTINGS)
    copying_job(env, kafka, topics, "killed", slow)
    client = env.execute_async("killed")
    job_id = str(client.get_job_id())
    for name in ("taskexecutor-1", "taskexecutor-2"):
        before = completed_checkpoints(cluster, job_id)
        wait_until(lambda before=before: completed_checkpoints(cluster, job_id) > before + 1, "checkpoints")
        cluster.kill(name)
    wait_until(lambda: cluster.client.request_job(job_id).num_restarts >= 2, "two restarts")
    slow.unlink()
    client.get_job_execution_result().result()
    assert_each_once(kafka, topics[1])
    assert_no_open_transactions(kafka, "killed")


def test_a_crash_at_any_step_of_a_transaction_loses_and_repeats_nothing(
    start_cluster: StartCluster, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [name for name in FAILPOINTS if name.startswith("kafka_sink.")]
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    for point in points:
        (tokens / point).touch()
    # Each point fires once, in this order, at the second hit in a process, when an earlier transaction exists.
    monkeypatch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{point}=crash@2" for point in points))
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    topics = filled_topics(kafka)
    slow = tmp_path / "slow"
    slow.touch()
    env = environment(cluster, **SETTINGS)
    copying_job(env, kafka, topics, "crashed", slow)
    client = env.execute_async("crashed")
    wait_until(lambda: not any(tokens.iterdir()), "a process has died at each point", 80.0)
    slow.unlink()
    client.get_job_execution_result().result()
    # A process may die during a restart, so not every death causes another restart.
    assert cluster.client.request_job(str(client.get_job_id())).num_restarts >= 1
    assert_each_once(kafka, topics[1])
    assert_no_open_transactions(kafka, "crashed")


@pytest.mark.chaos
@pytest.mark.parametrize("outages", [1, 2])
def test_a_broker_killed_during_the_job_loses_and_repeats_nothing(
    cluster: RunningCluster, own_kafka: KafkaBroker, tmp_path: Path, outages: int
) -> None:
    topics = filled_topics(own_kafka)
    slow = tmp_path / "slow"
    slow.touch()
    env = environment(cluster, **SETTINGS)
    copying_job(env, own_kafka, topics, "outage", slow)
    client = env.execute_async("outage")
    job_id = str(client.get_job_id())
    for _ in range(outages):
        before = completed_checkpoints(cluster, job_id)
        wait_until(lambda before=before: completed_checkpoints(cluster, job_id) > before + 1, "checkpoints")
        own_kafka.kill()
        own_kafka.resume()
        own_kafka.wait_until_ready()
    slow.unlink()
    client.get_job_execution_result().result()
    assert_each_once(own_kafka, topics[1])
    assert_no_open_transactions(own_kafka, "outage")
    own_kafka.kill()  # otherwise the check of the cluster finds the broker that this test has started


def test_a_job_with_another_parallelism_commits_the_transactions_of_a_failed_one(
    start_cluster: StartCluster, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job fails when its checkpoint is complete and before anything is committed; its checkpoint is kept."""
    token = tmp_path / "tokens" / "kafka_sink.before_commit"
    token.parent.mkdir()
    token.touch()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, "kafka_sink.before_commit=error")
    monkeypatch.setenv(TOKENS_VARIABLE, str(token.parent))
    cluster = start_cluster(2)
    topics = filled_topics(kafka)
    settings = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "sink.committer.retries": "0",
    }
    slow = tmp_path / "slow"
    slow.touch()
    env = environment(cluster, parallelism=2, **settings)
    copying_job(env, kafka, topics, "left-over", slow)
    with pytest.raises(JobExecutionError, match=r"failpoint kafka_sink.before_commit"):
        env.execute("fails")
    slow.unlink()
    [metadata] = (tmp_path / "checkpoints").rglob("_metadata")
    env = environment(cluster, parallelism=1, **settings, **{"execution.state-recovery.path": str(metadata.parent)})
    copying_job(env, kafka, topics, "left-over", slow)
    env.execute("goes on")
    assert_each_once(kafka, topics[1])
    assert_no_open_transactions(kafka, "left-over")


def test_a_job_whose_transaction_timed_out_fails_permanently_and_both_remedies_work(
    start_cluster: StartCluster, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TaskExecutor dies between a checkpoint and its commit, and the restart waits for longer than the time-out."""
    token = tmp_path / "tokens" / "kafka_sink.before_commit"
    token.parent.mkdir()
    token.touch()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, "kafka_sink.before_commit=crash@3")
    monkeypatch.setenv(TOKENS_VARIABLE, str(token.parent))
    cluster = start_cluster(1, restart_services=True)
    source_topic, sink_topic = filled_topics(kafka)
    slow = tmp_path / "slow"
    slow.touch()
    settings = {
        **SETTINGS,
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "5 s",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.num-retained": "2",
    }

    def run(topic: str, restored: Path | None = None, **properties: str) -> None:
        start = {} if restored is None else {"execution.state-recovery.path": str(restored)}
        env = environment(cluster, parallelism=1, **settings, **start)
        topics = source_topic, topic
        copying_job(env, kafka, topics, "timing-out", slow, transaction_timeout_ms="2000", **properties)
        env.execute("timing out")

    with pytest.raises(JobExecutionError, match="so its records are lost") as failed:
        run(sink_topic)
    [job] = cluster.client.list_jobs()
    assert cluster.client.request_job(job.job_id).num_restarts == 1, "the crash; the lost transaction is no restart"
    slow.unlink()
    # The error message names the kept checkpoint, and so does the command that shows an ended job.
    kept = sorted(
        (path.parent for path in (tmp_path / "checkpoints").rglob("_metadata")), key=lambda at: int(at.name[4:])
    )
    assert len(kept) == 2 and all(str(path) in str(failed.value) for path in kept), failed.value
    shown = cluster.flinkpy("info", job.job_id).stdout
    assert all(str(path) in shown for path in kept), shown
    # First remedy: continue without the records.
    rest_topic = kafka.create_topic()
    run(rest_topic, kept[1], ignore_failures_after_transaction_timeout="true")
    committed = Counter(kafka.read_values(sink_topic)) + Counter(kafka.read_values(rest_topic))
    assert max(committed.values()) == 1 and 0 < len(committed) < NUM_RECORDS, (
        "only the records of the transaction are missing"
    )
    # Second remedy: write them again.
    run(sink_topic, kept[0])
    assert_each_once(kafka, sink_topic)


def test_the_older_functions_copy_a_topic_exactly_once(cluster: RunningCluster, kafka: KafkaBroker) -> None:
    source_topic, sink_topic = filled_topics(kafka)
    properties = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "older"}
    with pytest.warns(DeprecationWarning, match="Use KafkaSource instead"):
        consumer = FlinkKafkaConsumer(source_topic, SimpleStringSchema(), properties)
    producer = FlinkKafkaProducer(
        sink_topic,
        SimpleStringSchema(),
        {**properties, "transaction.timeout.ms": "60000"},
        semantic=Semantic.EXACTLY_ONCE,
    )
    env = environment(cluster, **SETTINGS)
    env.add_source(consumer.set_start_from_earliest(), "consumer").add_sink(producer)
    client = env.execute_async("older")
    wait_until(lambda: len(kafka.read(sink_topic)) >= NUM_RECORDS, "all records are committed")
    client.cancel().result()
    assert_each_once(kafka, sink_topic)
