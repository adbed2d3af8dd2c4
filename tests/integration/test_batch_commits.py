"""Commits of batch sinks when processes are killed: the output of each sink appears exactly once.

The native engine is tested here, Spark in test_spark_commits.py. Every fault happens in or beside a committer, before,
between or after its commits.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster, StartCluster
from commit_faults import AFTER, BEFORE, BETWEEN, DIE, RAISE, WAIT, Faults, FaultySink
from ha_cluster import HaCluster
from job_support import environment, wait_until
from kafka_broker.broker import KafkaBroker
from test_ha_job_masters import leading_pid
from test_kafka_sink import exactly_once
from zookeeper_server import ZooKeeperServer

from flinkpy.common import Encoder, Row, Types
from flinkpy.common.failpoints import SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.datastream import DataStream, MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.formats.parquet import ParquetBulkWriters

pytestmark = pytest.mark.timeout(300)

NUM_RECORDS = 1000
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "100 ms",
    # By default a failed commit would be retried at once.
    "sink.committer.retries": "0",
    # JobMasters die in quick succession here.
    "flinkpy.dispatcher.jobmaster-recovery.attempts": "100",
    "flinkpy.dispatcher.jobmaster-recovery.max-backoff": "10 ms",
}
ROW = Types.ROW_NAMED(["number"], [Types.LONG()])


def batch_environment(cluster: Any, **properties: str) -> StreamExecutionEnvironment:
    env = environment(cluster, 2, **{**RESTARTS, **properties})
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


class RowFiles:
    """Sinks with lines of text. Each subtask of a writer has a file, so each sink has two committables."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, numbers: DataStream, faults: Faults, name: str) -> None:
        sink = FileSink.for_row_format(str(self._directory / name), Encoder.simple_string_encoder()).build()
        numbers.map(str, Types.STRING()).sink_to(FaultySink(sink, faults, name))

    def read(self, name: str) -> list[int]:
        return [int(line) for path in self.files(name) for line in path.read_text().split()]

    def files(self, name: str) -> list[Path]:
        paths = (self._directory / name).rglob("*")
        return [path for path in paths if path.is_file() and not path.name.startswith(".")]


class BulkFiles(RowFiles):
    """Sinks with Parquet files."""

    def add(self, numbers: DataStream, faults: Faults, name: str) -> None:
        path = str(self._directory / name)
        sink = FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(ROW)).build()
        numbers.map(lambda number: Row(number=number), ROW).sink_to(FaultySink(sink, faults, name))

    def read(self, name: str) -> list[int]:
        return [number for path in self.files(name) for number in pq.read_table(path)["number"].to_pylist()]


class KafkaTopics:
    """Sinks with transactions. Each subtask of a writer has one."""

    def __init__(self, kafka: KafkaBroker, prefix: str) -> None:
        self._kafka = kafka
        self._prefix = prefix

    def add(self, numbers: DataStream, faults: Faults, name: str) -> None:
        topic = f"{self._prefix}-{name}"
        self._kafka.create_topic(topic, 2)
        # Longer than all kills together take on a busy machine.
        sink = exactly_once(self._kafka, topic, topic, **{"transaction.timeout.ms": "600000"})
        numbers.map(str, Types.STRING()).sink_to(FaultySink(sink, faults, name))

    def read(self, name: str) -> list[int]:
        return [int(value) for value in self._kafka.read_values(f"{self._prefix}-{name}")]


Outputs = RowFiles | KafkaTopics


def run_job(
    env: StreamExecutionEnvironment, outputs: Outputs, faults: Faults, names: list[str], kill: Callable[[], None]
) -> None:
    """Runs a job with these sinks, while `kill` is called at each armed fault. Asserts that each has every record."""
    numbers = env.from_sequence(1, NUM_RECORDS)
    for name in names:
        outputs.add(numbers, faults, name)
    with faults.killing(kill):
        env.execute(f"{len(names)} sinks")
    assert faults.left == [], "every fault has happened"
    for name in names:
        found = outputs.read(name)
        assert len(found) == NUM_RECORDS, f"{len(found)} records in the {name} sink"
        assert sorted(found) == list(range(1, NUM_RECORDS + 1))


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def task_executors(cluster: RunningCluster) -> list[int]:
    return [process.popen.pid for process in cluster.task_executors]


def test_killed_task_executors_and_job_masters_commit_nothing_twice(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    """The first commit ends with the death of its TaskExecutor. In the second one all TaskExecutors die, and the
    JobMaster with them.
    """
    cluster = start_cluster(2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    faults.arm("first", AFTER, DIE)
    faults.arm("second", BETWEEN, WAIT)
    faults.arm("second", AFTER, WAIT)

    def kill() -> None:
        kill_all(cluster.job_master_pids() + task_executors(cluster))

    output = tmp_path / "output"
    run_job(batch_environment(cluster), RowFiles(output), faults, ["first", "second"], kill)
    assert [path for path in output.rglob(".*") if path.is_file()] == [], "no writer has run again"


class FailsOnceAtTheEnd(MapFunction):
    """Fails at the last record, when `go` exists, unless it has failed before. Then it notes that it is there again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def map(self, value: int) -> int:
        if value == NUM_RECORDS:
            wait_until((self._directory / "go").exists, "the writer must fail")
            if not (self._directory / "failed").exists():
                (self._directory / "failed").touch()
                raise OSError("a fault of the writer")
            (self._directory / "again").touch()
        return value


@pytest.mark.chaos
def test_a_writer_that_runs_again_keeps_what_another_sink_will_commit_in_its_directory(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(2)
    faults = Faults(tmp_path / "faults")
    faults.arm("first", BEFORE, WAIT)
    env = batch_environment(cluster)
    env.set_parallelism(1)
    numbers = env.from_sequence(1, NUM_RECORDS).map(lambda number: number, Types.LONG())
    for name, branch in (("first", numbers), ("second", numbers.rebalance().map(FailsOnceAtTheEnd(tmp_path)))):
        sink = FileSink.for_row_format(str(tmp_path / "output"), Encoder.simple_string_encoder()).build()
        branch.map(str, Types.STRING()).sink_to(FaultySink(sink, faults, name))

    def fail_the_other_writer() -> None:
        (tmp_path / "go").touch()
        wait_until((tmp_path / "again").exists, "the other writer runs again")

    with faults.killing(fail_the_other_writer):
        env.execute("two sinks in one directory")
    assert sorted(RowFiles(tmp_path).read("output")) == sorted([*range(1, NUM_RECORDS + 1)] * 2)


# The matrix

SINKS = [["first", "second"], ["first", "second", "third"]]
KINDS = {"row files": RowFiles, "bulk files": BulkFiles}
VICTIMS: dict[str, Callable[[RunningCluster], list[int]]] = {
    "TaskExecutors": task_executors,
    "JobMaster": lambda cluster: cluster.job_master_pids(),
    "JobMaster and TaskExecutors": lambda cluster: cluster.job_master_pids() + task_executors(cluster),
}


def kill_at_every_step(
    cluster: RunningCluster,
    env: StreamExecutionEnvironment,
    outputs: Outputs,
    faults: Faults,
    names: list[str],
    victims: str,
) -> None:
    """Runs a job whose committers' processes, or all `victims`, are killed at every step of every commit."""
    faults.arm_all(names, DIE if victims == "committer" else WAIT)

    def kill() -> None:
        kill_all(VICTIMS[victims](cluster))

    run_job(env, outputs, faults, names, kill)


in_all_ways = pytest.mark.parametrize("victims", ["committer", *VICTIMS])
with_sinks = pytest.mark.parametrize("names", SINKS, ids=["2 sinks", "3 sinks"])


@pytest.mark.chaos
@with_sinks
@pytest.mark.parametrize("kind", KINDS)
@in_all_ways
def test_kills_at_every_step_of_every_commit(
    start_cluster: StartCluster, tmp_path: Path, kind: str, names: list[str], victims: str
) -> None:
    cluster = start_cluster(2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    kill_at_every_step(cluster, batch_environment(cluster), KINDS[kind](tmp_path), faults, names, victims)


@pytest.mark.chaos
@with_sinks
@in_all_ways
def test_kills_at_every_step_of_every_transaction(
    kafka: KafkaBroker, start_cluster: StartCluster, tmp_path: Path, names: list[str], victims: str
) -> None:
    cluster = start_cluster(2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    outputs = KafkaTopics(kafka, f"native-{victims.replace(' ', '-')}-{len(names)}")
    kill_at_every_step(cluster, batch_environment(cluster), outputs, faults, names, victims)


@pytest.mark.chaos
def test_a_job_master_that_dies_while_it_stores_committables(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed, so the job starts over."""
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    point = "kept_result.before_rename"
    for number in range(3):
        (tokens / f"{point}.{number}").touch()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, f"{point}=crash")
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    run_job(batch_environment(cluster), RowFiles(tmp_path), faults, ["first", "second"], lambda: None)
    assert list(tokens.iterdir()) == []


@pytest.mark.chaos
@pytest.mark.parametrize("properties", [{}, {"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"}])
@pytest.mark.parametrize("strategy", ["region", "full"])
def test_failed_commits_are_repeated_under_every_failover_strategy(
    start_cluster: StartCluster, tmp_path: Path, properties: dict[str, str], strategy: str
) -> None:
    cluster = start_cluster(2, slots=4, properties={"jobmanager.execution.failover-strategy": strategy})
    faults = Faults(tmp_path / "faults")
    faults.arm_all(["first", "second"], RAISE)
    env = batch_environment(cluster, **properties)
    run_job(env, RowFiles(tmp_path), faults, ["first", "second"], lambda: None)


@pytest.mark.chaos
@pytest.mark.parametrize("is_recovered", ["false", "true"])
def test_the_masters_of_a_highly_available_cluster_are_killed(
    zookeeper: ZooKeeperServer, tmp_path: Path, is_recovered: str
) -> None:
    """At each step the leading Dispatcher, the JobMaster and a TaskExecutor die."""
    with HaCluster(zookeeper, tmp_path, resource_managers=1) as cluster:
        faults = Faults(tmp_path / "faults")
        for place in (BEFORE, BETWEEN, AFTER):
            faults.arm("first", place, WAIT)
        env = batch_environment(cluster, **{"execution.batch.job-recovery.enabled": is_recovered})
        numbers = env.from_sequence(1, NUM_RECORDS)
        outputs = RowFiles(tmp_path)
        for name in ("first", "second"):
            outputs.add(numbers, faults, name)
        client = env.execute_async("two sinks")
        job_id = str(client.get_job_id())

        def kill() -> None:
            cluster.heal()
            former = leading_pid(cluster, job_id)
            cluster.kill(cluster.leader("dispatcher"))
            cluster.kill("taskexecutor-1")
            kill_all([former])
            cluster.heal()
            wait_until(lambda: leading_pid(cluster, job_id) != former, "another JobMaster leads the job")

        with faults.killing(kill):
            client.get_job_execution_result().result()
        assert faults.left == []
        for name in ("first", "second"):
            assert sorted(outputs.read(name)) == list(range(1, NUM_RECORDS + 1))
