"""Batch programs whose results do not fit on the disk, or whose results are lost with their process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from clusters import StartCluster
from job_support import FIXED_DELAY, Gate, environment, wait_for_state, wait_until, wait_until_idle

from flinkpy.common import Types
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

FIXED_PARALLELISM = {"execution.batch.adaptive.auto-parallelism.enabled": "false"}
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
NUMBERS = 1_000
EXPECTED = [(key, sum(x for x in range(1, NUMBERS + 1) if x % 5 == key)) for key in range(5)]


def batch(cluster: Any, parallelism: int = 2, **properties: str) -> StreamExecutionEnvironment:
    env = environment(cluster, parallelism, **{**FIXED_PARALLELISM, **properties})
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def partition_files(directory: Path) -> list[Path]:
    return [path for suffix in ("*.data", "*.index") for path in sorted(directory.rglob(suffix))]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    directory = tmp_path / "gate"
    directory.mkdir()
    return Gate(directory)


def test_a_full_disk_fails_the_job_with_one_clear_error_and_leaves_no_file(
    start_cluster: StartCluster, small_disk: Path
) -> None:
    cluster = start_cluster(1, 2, properties={"io.tmp.dirs": str(small_disk)})
    env = batch(cluster)
    texts = env.from_sequence(1, 4_000).map(lambda number: (number % 4, os.urandom(10_000)))
    texts.key_by(lambda pair: pair[0]).map(lambda pair: len(pair[1])).print()
    with pytest.raises(JobExecutionError) as raised:
        env.execute("too large")
    message = str(raised.value)
    assert "PartitionWriteError" in message or "cannot be written" in message
    assert "No space left" in message and str(small_disk) in message
    wait_until(lambda: partition_files(small_disk) == [], "the files are removed")
    wait_until_idle(cluster, 2)


def sums_with_a_gate(env: StreamExecutionEnvironment, gate: Gate) -> Any:
    """Builds a job whose first subtask 1 waits for the gate, so the test can damage the results of subtask 0."""
    wait = gate.pass_at(NUMBERS)
    numbers = env.from_sequence(1, NUMBERS).map(wait, Types.LONG())
    return numbers.map(lambda x: (x % 5, x), PAIR).key_by(lambda pair: pair[0]).sum(1)


def test_files_of_a_killed_task_executor_are_removed_by_the_next_one(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path
) -> None:
    cluster = start_cluster(1, 2)
    env = batch(cluster, **FIXED_DELAY)
    with sums_with_a_gate(env, gate).execute_and_collect() as results:
        gate.wait_for_arrival()
        (index,) = wait_until(lambda: sorted(tmp_path.rglob("*.index")), "one result is finished")
        cluster.kill("taskexecutor-1")
        cluster.add_task_executors(1)
        wait_until(lambda: not index.exists(), "the next process removes the files")
        gate.open()
        assert sorted(results) == EXPECTED
    wait_until(lambda: partition_files(tmp_path) == [], "the files are removed")


def test_a_job_that_is_cancelled_leaves_neither_finished_nor_unfinished_results(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path
) -> None:
    cluster = start_cluster(1, 2)
    env = batch(cluster)
    sums_with_a_gate(env, gate).print()
    job_id = str(env.execute_async("cancelled").get_job_id())
    gate.wait_for_arrival()
    wait_until(lambda: list(tmp_path.rglob("*.index")), "one result is finished")
    assert len(list(tmp_path.rglob("*.data"))) == 2
    cluster.client.cancel_job(job_id)
    wait_for_state(cluster, job_id, JobState.CANCELED)
    wait_until(lambda: partition_files(tmp_path) == [], "the files are removed")
    wait_until_idle(cluster, 2)
