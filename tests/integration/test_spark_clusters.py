"""Regions on real Spark clusters: a standalone master with two workers, and a Spark Connect server.

Their processes share only this host with flinkpy, so functions and their files must be sent to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, StartCluster
from job_support import Gate, wait_for_state, wait_until
from spark_executors import ExecutorKill, check_python_program, python_program
from spark_support import (
    SPARK_DEADLINE_S,
    StandaloneCluster,
    connect_server,
    java_processes_of,
    require_spark,
    spark_cluster,
    spark_environment,
    standalone_cluster,
)

from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.functions import MapFunction, RuntimeContext

__all__ = ["spark_cluster"]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_spark()
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


class UsesFiles(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.path = runtime_context.get_distributed_cache().get_file("table")
        self.seen = runtime_context.get_int_counter("seen")

    def map(self, value: int) -> Any:
        from sent_along import double  # type: ignore[import-not-found]

        self.seen.add(1)
        return double(value), Path(self.path).read_text(), os.getpid()


def program(env: StreamExecutionEnvironment, directory: Path) -> Any:
    """Builds a program with a native source, a keyed shuffle in Spark, and a native sink."""
    (directory / "sent_along.py").write_text("def double(value):\n    return 2 * value\n")
    (directory / "table.txt").write_text("a table")
    env.add_python_file(str(directory / "sent_along.py"))
    env.register_cached_file(str(directory / "table.txt"), "table")
    numbers = env.from_sequence(1, 1000).set_batch_backend("native").map(lambda value: value)
    doubled = numbers.set_batch_backend("native").map(UsesFiles())
    return doubled.key_by(lambda each: each[0] % 10).reduce(lambda one, other: (one[0] + other[0], *other[1:]))


def check(results: list[Any], host_pid: int) -> None:
    assert sum(result[0] for result in results) == 1000 * 1001
    assert len(results) == 5
    assert {result[1] for result in results} == {"a table"}
    assert host_pid not in {result[2] for result in results}


@pytest.mark.chaos
def test_a_standalone_cluster_runs_a_region_and_survives_the_loss_of_an_executor(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    """The executor dies in a later stage, with records that three Spark jobs of the region read."""
    require_spark()
    cluster = start_cluster(num_task_executors=1, slots=4)
    with standalone_cluster(tmp_path) as standalone:
        env = spark_environment(cluster, 2, **standalone.properties)
        (tmp_path / "files").mkdir()
        check(list(program(env, tmp_path / "files").execute_and_collect()), cluster.task_executors[0].popen.pid)
        env = spark_environment(cluster, 2, **standalone.properties)
        kill = ExecutorKill(tmp_path)
        python_program(env, tmp_path / "out", kill, in_first=lambda each: each[0] == 50)
        env.execute()
        assert kill.has_fired
        check_python_program(tmp_path / "out")


@pytest.mark.chaos
def test_a_killed_worker_of_a_standalone_cluster_does_not_change_the_result(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    require_spark()
    cluster = start_cluster(num_task_executors=1, slots=4)
    with standalone_cluster(tmp_path) as standalone:
        lose_a_worker(cluster, standalone, Gate(tmp_path))


def lose_a_worker(cluster: RunningCluster, standalone: StandaloneCluster, gate: Gate) -> None:
    env = spark_environment(cluster, 2, **standalone.properties)
    held = env.from_sequence(1, 1000).map(gate.pass_at(900)).key_by(lambda value: value % 10)
    results = held.reduce(lambda one, other: one + other).execute_and_collect()
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    at_gate = gate.arrivals[0]
    ancestors = {parent.pid for parent in psutil.Process(at_gate).parents()}
    (lost,) = [worker for worker in standalone.workers if worker.popen.pid in ancestors]
    lost.stop()
    gate.open()
    assert sorted(results) == sorted(sum(range(rest or 10, 1001, 10)) for rest in range(10))


@pytest.mark.chaos
@pytest.mark.parametrize("dynamic", ["true", "false"])
def test_a_cluster_without_jobs_gives_its_executors_to_the_next_one(
    start_cluster: StartCluster, tmp_path: Path, dynamic: str
) -> None:
    """Both clusters need the only core of a Spark cluster. The session of the first one outlives its job."""
    require_spark()
    first, second = (start_cluster(num_task_executors=1, slots=4) for _ in range(2))
    conf = "execution.batch.spark.conf.spark.dynamicAllocation"
    gives_back = {
        # Only dynamic allocation gives the core back in time.
        "true": {f"{conf}.executorIdleTimeout": "2s", "execution.batch.spark.session.idle-timeout": "1 h"},
        "false": {f"{conf}.enabled": "false", "execution.batch.spark.session.idle-timeout": "5 s"},
    }
    gate = Gate(tmp_path)
    with standalone_cluster(tmp_path / "spark", num_workers=1) as standalone:
        properties = {**standalone.properties, **gives_back[dynamic]}
        held = spark_environment(first, 1, **properties).from_sequence(1, 10).map(gate.pass_at(9))
        results = held.key_by(lambda value: value % 2).reduce(lambda one, other: one + other).execute_and_collect()
        wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)

        env = spark_environment(second, 1, **standalone.properties)
        env.from_sequence(1, 10).map(lambda value: value * 2).print()
        client = env.execute_async("starved")
        job_id = str(client.get_job_id())
        waits = "for executors of Spark: its master has given the job none yet"
        wait_until(lambda: waits in second.flinkpy("info", job_id).stdout, "info says that it waits", SPARK_DEADLINE_S)
        wait_until(lambda: "for executors of Spark: the" in second.log("taskexecutor-1"), "the log", SPARK_DEADLINE_S)

        gate.open()
        assert sorted(results) == [25, 30]
        client.get_job_execution_result().result()
        assert waits not in second.flinkpy("info", job_id).stdout
        assert "got executors after" in second.log("taskexecutor-1")


def test_spark_connect_runs_a_region(spark_cluster: RunningCluster, connect: str, tmp_path: Path) -> None:
    env = spark_environment(spark_cluster, 2, **{"execution.batch.spark.master": connect})
    results = list(program(env, tmp_path).execute_and_collect())
    check(results, spark_cluster.task_executors[0].popen.pid)
    assert java_processes_of(spark_cluster) == [], "the driver is the server"


@pytest.mark.chaos
def test_spark_connect_shows_the_users_error_first(spark_cluster: RunningCluster, connect: str) -> None:
    def divide(value: int) -> float:
        return 1 / (value - 7)

    env = spark_environment(spark_cluster, 2, **{"execution.batch.spark.master": connect})
    with pytest.raises(JobExecutionError) as caught:
        list(env.from_collection(range(10)).map(divide).name("Divide").execute_and_collect())
    assert "return 1 / (value - 7)" in str(caught.value)
    assert "operator Divide: ZeroDivisionError" in str(caught.value).splitlines()[-1]


@pytest.mark.chaos
def test_rows_and_failed_tasks_of_a_connect_server_are_known(
    spark_cluster: RunningCluster, connect: str, tmp_path: Path
) -> None:
    """The first attempt of a task fails, and Spark repeats it."""
    failed = str(tmp_path / "failed")

    def fail_once(value: int) -> int:
        if value == 7 and not os.path.exists(failed):
            Path(failed).touch()
            raise ValueError("the first attempt")
        return value

    env = spark_environment(spark_cluster, 2, **{"execution.batch.spark.master": connect})
    kept = env.from_sequence(1, 100).map(fail_once).name("FailOnce")
    sums = kept.key_by(lambda value: value % 2).reduce(lambda one, other: one + other)
    assert sorted(sums.execute_and_collect()) == [2500, 2550]
    lines = spark_cluster.log("taskexecutor-1").splitlines()
    (ending,) = [line for line in lines if "FailOnce" in line and "; Spark" in line]
    assert ", 1 failed, 2 rows; Spark" in ending


def test_a_cancelled_job_ends_its_operations_on_a_connect_server(
    spark_cluster: RunningCluster, connect: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    env = spark_environment(spark_cluster, 2, **{"execution.batch.spark.master": connect})
    env.from_collection(range(10)).map(gate.pass_at(5)).print()
    client = env.execute_async("held")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    (held,) = gate.arrivals
    client.cancel().result()
    wait_for_state(spark_cluster, str(client.get_job_id()), JobState.CANCELED)
    wait_until(lambda: not psutil.pid_exists(held), "the end of the worker", SPARK_DEADLINE_S)


@pytest.mark.chaos
def test_the_driver_ends_with_its_killed_task_executor(start_cluster: StartCluster, tmp_path: Path) -> None:
    require_spark()
    cluster = start_cluster(num_task_executors=1, slots=4)
    gate = Gate(tmp_path)
    env = spark_environment(cluster)
    env.from_collection(range(10)).map(gate.pass_at(5)).print()
    env.execute_async("held")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    (java,) = java_processes_of(cluster)
    processes = [java, *java.children(recursive=True)]
    assert len(processes) > 1, "with its Python workers"
    cluster.kill("taskexecutor-1")
    _, alive = psutil.wait_procs(processes, timeout=SPARK_DEADLINE_S)
    assert [process.name() for process in alive] == []
