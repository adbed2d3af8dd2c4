"""Losses of the Spark driver or of the Connect server while it runs a region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, StartCluster
from job_support import FIXED_DELAY, NO_RESTART, Gate, wait_until
from spark_support import (
    SPARK_DEADLINE_S,
    connect_server,
    java_processes_of,
    kill_with_children,
    require_spark,
    spark_environment,
)

from flinkpy.common.errors import JobExecutionError

pytestmark = pytest.mark.timeout(900)


def held_program(cluster: RunningCluster, gate: Gate, **properties: str) -> Any:
    """Builds a program whose functions wait at the gate before a shuffle."""
    env = spark_environment(cluster, 2, **properties)
    held = env.from_sequence(1, 1000).map(gate.pass_at(900)).key_by(lambda value: value % 10)
    return held.reduce(lambda one, other: one + other).execute_and_collect()


def wait_for_gate(gate: Gate, number: int) -> psutil.Process:
    """Returns the Python worker that has reached the gate."""
    wait_until(lambda: len(gate.arrivals) >= number, "a worker at the gate", SPARK_DEADLINE_S)
    (worker,) = [pid for pid in gate.arrivals if psutil.pid_exists(pid)]
    return psutil.Process(worker)


EXPECTED = sorted(sum(range(rest or 10, 1001, 10)) for rest in range(10))


def test_a_killed_driver_causes_one_error_and_leaves_nothing(start_cluster: StartCluster, tmp_path: Path) -> None:
    require_spark()
    cluster = start_cluster(num_task_executors=1, slots=4)
    gate = Gate(tmp_path)
    results = held_program(cluster, gate, **NO_RESTART)
    worker = wait_for_gate(gate, 1)
    (java,) = java_processes_of(cluster)
    java.kill()
    with pytest.raises(JobExecutionError) as caught:
        list(results)
    assert str(caught.value).splitlines() == [str(caught.value)], "one line"
    assert "Spark at local[2] is gone: its driver was killed by signal 9" in str(caught.value)
    psutil.wait_procs([worker], timeout=SPARK_DEADLINE_S)
    assert not worker.is_running()


@pytest.mark.chaos
def test_a_job_with_a_restart_strategy_outlives_the_driver(start_cluster: StartCluster, tmp_path: Path) -> None:
    require_spark()
    cluster = start_cluster(num_task_executors=1, slots=4)
    gate = Gate(tmp_path)
    results = held_program(cluster, gate, **FIXED_DELAY)
    wait_for_gate(gate, 1)
    (java,) = java_processes_of(cluster)
    java.kill()
    wait_until(lambda: len(gate.arrivals) >= 2, "another worker at the gate", SPARK_DEADLINE_S)
    (other,) = java_processes_of(cluster)
    assert other.pid != java.pid
    gate.open()
    assert sorted(results) == EXPECTED


@pytest.mark.chaos
def test_a_killed_connect_server_causes_one_error_and_the_next_server_is_used(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    require_spark()
    cluster = start_cluster(num_task_executors=1, slots=4)
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    gate = Gate(tmp_path)
    with connect_server(tmp_path / "first") as address:
        master = {"execution.batch.spark.master": address}
        results = held_program(cluster, gate, **NO_RESTART, **master)
        worker = wait_for_gate(gate, 1)
        (server,) = [parent for parent in worker.parents() if parent.name() == "java"]
        kill_with_children(server.pid)
        with pytest.raises(JobExecutionError) as caught:
            list(results)
    assert str(caught.value).splitlines() == [str(caught.value)], "one line"
    assert f"Spark at {address} is gone: " in str(caught.value)
    gate.open()
    with connect_server(tmp_path / "second", port=int(address.rpartition(":")[2])):
        assert sorted(held_program(cluster, gate, **NO_RESTART, **master)) == EXPECTED
