"""A second attempt replaces a task that hangs: the job ends early, with every record once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster
from job_support import Gate, environment, wait_until

from flinkpy.common import Encoder, Types
from flinkpy.common.states import JobState
from flinkpy.datastream import RuntimeExecutionMode
from flinkpy.datastream.connectors.file_system import FileSink

SPECULATION = {
    "execution.batch.speculative.enabled": "true",
    "slow-task-detector.check-interval": "100 ms",
    "slow-task-detector.execution-time.baseline-lower-bound": "1 s",
    "slow-task-detector.execution-time.baseline-ratio": "0.75",
}


def noting_its_process(directory: Path) -> Callable[[Any], Any]:
    """Returns an identity function that records its process for `hanging_elsewhere`."""
    path = str(directory / "source")

    def note(value: Any) -> Any:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        return value

    return note


def hanging_elsewhere(directory: Path, gate: Gate) -> Callable[[Any], Any]:
    """Returns an identity function that hangs in one task.

    The first task in another process than the source waits until the gate opens. Tasks in the process of the source
    wait until that task exists.
    """
    source, marker, wait = str(directory / "source"), str(directory / "first"), gate.pass_at("here")

    def hang(value: Any) -> Any:
        if os.path.exists(marker):
            return value
        with open(source) as file:
            is_at_home = int(file.read()) == os.getpid()
        if is_at_home:
            while not os.path.exists(marker):
                time.sleep(0.01)
            return value
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return value
        wait("here")
        return value

    return hang


def lines_of(output: Path) -> list[int]:
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted(int(line) for path in files for line in path.read_text().split())


@pytest.mark.parametrize(
    ("how", "writers"), [("function", 4), ("process", 1)], ids=["a function that also writes", "a stopped process"]
)
def test_a_hanging_task_gets_another_attempt_elsewhere_and_its_records_arrive_once(
    cluster: RunningCluster, tmp_path: Path, how: str, writers: int
) -> None:
    gate = Gate(tmp_path)
    env = environment(cluster, 4, **SPECULATION)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    work = (
        env.from_sequence(0, 1_999)
        .set_parallelism(1)
        .map(noting_its_process(tmp_path), output_type=Types.LONG())
        .set_parallelism(1)
        .key_by(lambda x: x % 64)
        .map(hanging_elsewhere(tmp_path, gate), output_type=Types.LONG())
        .set_parallelism(4)
    )
    (
        work.map(str, output_type=Types.STRING())
        .set_parallelism(writers)
        .sink_to(FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build())
        .set_parallelism(writers)
    )
    client = env.execute_async("one hangs")
    gate.wait_for_arrival()
    stopped = psutil.Process(gate.arrivals[0])
    if how == "process":
        stopped.send_signal(signal.SIGSTOP)
    try:
        job_id = str(client.get_job_id())
        wait_until(
            lambda: cluster.client.request_job_status(job_id) is JobState.FINISHED, "the job ends without the slow task"
        )
        assert not os.path.exists(gate.path)
        assert lines_of(tmp_path / "out") == list(range(2_000))
        details = cluster.client.request_job(job_id)
        attempts = [task.attempt_number for vertex in details.vertices for task in vertex.subtasks]
        assert sorted(attempts)[-1] == 1
        assert details.num_restarts == 0
    finally:
        gate.open()
        stopped.send_signal(signal.SIGCONT)


def test_the_job_waits_for_a_slow_task_without_speculation(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = environment(cluster, 4, **{**SPECULATION, "execution.batch.speculative.enabled": "false"})
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    source = env.from_sequence(0, 99).set_parallelism(1)
    numbers = source.map(noting_its_process(tmp_path), output_type=Types.LONG()).set_parallelism(1)
    numbers.key_by(lambda x: x % 8).map(hanging_elsewhere(tmp_path, gate), output_type=Types.LONG()).set_parallelism(
        4
    ).rebalance().map(str, output_type=Types.STRING()).set_parallelism(1).sink_to(
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    ).set_parallelism(1)
    client = env.execute_async("one hangs")
    job_id = str(client.get_job_id())
    gate.wait_for_arrival()

    def finished() -> int:
        vertices = cluster.client.request_job(job_id).vertices
        return sum(vertex.tasks_per_state.get("FINISHED", 0) for vertex in vertices)

    wait_until(lambda: finished() == 4, "the source and three of four tasks have finished")
    gate.open()
    client.get_job_execution_result().result()
    details = cluster.client.request_job(job_id)
    assert {task.attempt_number for vertex in details.vertices for task in vertex.subtasks} == {0}
    assert lines_of(tmp_path / "out") == list(range(100))
