"""Batch jobs on real processes: stages share the available slots, and a failure repeats only the affected subtasks."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster, running_cluster
from job_support import FIXED_DELAY, Gate, Together, environment, wait_for_state, wait_until, wait_until_idle

from flinkpy.common import Encoder, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from flinkpy.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext

#: The names of the operations. The name of each vertex contains one of them.
NAMES = ("first", "second", "third", "other", "Committer", "text")
#: Options with which every operator has the parallelism given by the program.
FIXED_PARALLELISM = {"execution.batch.adaptive.auto-parallelism.enabled": "false"}


def batch(cluster: RunningCluster, parallelism: int = 2, **properties: str) -> StreamExecutionEnvironment:
    env = environment(cluster, parallelism, **{**FIXED_PARALLELISM, **properties})
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def subtasks(cluster: RunningCluster, job_id: str) -> dict[str, Any]:
    """Returns all subtasks by the name of their vertex in the program and their number."""
    return {
        f"{next((name for name in NAMES if name in vertex.name), vertex.name)}{subtask.subtask_index}": subtask
        for vertex in cluster.client.request_job(job_id).vertices
        for subtask in vertex.subtasks
    }


def has_finished(cluster: RunningCluster, job_id: str, name: str) -> bool:
    found = subtasks(cluster, job_id).get(name)
    return found is not None and ExecutionState(found.state) is ExecutionState.FINISHED


def restarted(cluster: RunningCluster, job_id: str) -> set[str]:
    return {name for name, subtask in subtasks(cluster, job_id).items() if subtask.attempt_number > 0}


def partition_files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.data"))


@pytest.fixture(scope="module")
def one_slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster with one slot, for tests that do not kill its processes."""
    with running_cluster(tmp_path_factory.mktemp("one-slot"), num_task_executors=1, slots=1) as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    directory = tmp_path / "gate"
    directory.mkdir()
    return Gate(directory)


class Note(MapFunction):
    """An identity function that records its process and subtask in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, runtime_context: RuntimeContext) -> None:
        (self._directory / f"{os.getpid()}").write_text(str(runtime_context.get_index_of_this_subtask()))

    def map(self, value: Any) -> Any:
        return value


class FailsOnce(MapFunction):
    """Records its input. The first attempt of subtask 1 waits for the gate at the first record, and fails."""

    def __init__(self, gate: Gate, output: Path) -> None:
        self._wait = gate.pass_at(True)
        self._output = output

    def open(self, runtime_context: RuntimeContext) -> None:
        self._number = runtime_context.get_index_of_this_subtask()
        self._attempt = runtime_context.get_attempt_number()

    def map(self, value: Any) -> Any:
        if self._number == 1 and self._attempt == 0:
            self._wait(True)
            raise ValueError("this once")
        with open(self._output / f"{self._number}-{self._attempt}", "a") as file:
            file.write(f"{value}\n")
        return value


# Stages


def test_a_job_of_many_more_tasks_than_slots_runs_in_one_slot(one_slot: RunningCluster) -> None:
    cluster = one_slot
    env = batch(cluster, 3)
    pairs = env.from_sequence(1, 300).rebalance().map(lambda x: (x % 5, x), Types.TUPLE([Types.LONG(), Types.LONG()]))
    sums = pairs.key_by(lambda pair: pair[0]).sum(1)
    with sums.execute_and_collect() as results:
        assert sorted(results) == [(key, sum(x for x in range(1, 301) if x % 5 == key)) for key in range(5)]
    wait_until_idle(cluster, 1)


def test_results_are_read_after_they_are_complete_and_deleted_after_they_were_read(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path
) -> None:
    cluster = start_cluster(num_task_executors=1, slots=2)
    env = batch(cluster, 2)
    wait = gate.pass_at(1)
    numbers = env.from_sequence(1, 100).map(lambda x: x, Types.LONG()).name("first")
    keyed = numbers.key_by(lambda x: x % 4).process(_Slow(wait), Types.LONG()).name("second")
    keyed.rebalance().map(lambda x: x, Types.LONG()).name("third").print()
    job_id = str(env.execute_async("stages").get_job_id())
    gate.wait_for_arrival()
    states = {name: ExecutionState(task.state) for name, task in subtasks(cluster, job_id).items()}
    assert {state for name, state in states.items() if name.startswith("third")} == {ExecutionState.CREATED}
    assert len(partition_files(tmp_path / "tmp")) >= 2
    gate.open()
    cluster.client.wait_for_result(job_id)
    wait_until(lambda: not partition_files(tmp_path / "tmp"), "no partition is left")
    assert restarted(cluster, job_id) == set()


class _Slow(KeyedProcessFunction):
    def __init__(self, wait: Any) -> None:
        self._wait = wait

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield self._wait(value)


def test_a_stream_with_several_consumers_is_written_once(one_slot: RunningCluster) -> None:
    cluster = one_slot
    env = batch(cluster, 2)
    keyed = env.from_sequence(1, 100).map(lambda x: (x % 3, x)).key_by(lambda pair: pair[0])
    sums = keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: ("sum", *pair))
    largest = keyed.reduce(max).map(lambda pair: ("max", *pair))
    with sums.union(largest).execute_and_collect() as results:
        found = sorted(results)
    assert found == sorted(
        [("sum", key, sum(x for x in range(1, 101) if x % 3 == key)) for key in range(3)]
        + [("max", key, max(x for x in range(1, 101) if x % 3 == key)) for key in range(3)]
    )


def test_results_of_any_size_reach_the_program_through_one_slot(one_slot: RunningCluster) -> None:
    """The results are larger than the buffers between the cluster and a slow program."""
    cluster = one_slot
    env = batch(cluster, 2)
    texts = env.from_sequence(1, 20_000).rebalance().map(lambda x: f"{x:0500d}", Types.STRING())
    with texts.execute_and_collect() as results:
        assert sorted(map(int, results)) == list(range(1, 20_001))
    wait_until_idle(cluster, 1)


class Counted(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._counter = runtime_context.get_int_counter("records")

    def map(self, value: Any) -> Any:
        self._counter.add(1)
        return value


def test_counts_of_tasks_that_run_one_after_the_other_are_complete_at_the_end(one_slot: RunningCluster) -> None:
    cluster = one_slot
    env = batch(cluster, 2)
    first = env.from_sequence(1, 60).map(Counted(), Types.LONG()).name("first")
    first.key_by(lambda x: x % 3).map(Counted(), Types.LONG()).name("second").print()
    result = env.execute("counted")
    assert result.get_all_accumulator_results() == {"records": 120}
    job_id = str(result.get_job_id())
    found = subtasks(cluster, job_id)
    assert {ExecutionState(task.state) for task in found.values()} == {ExecutionState.FINISHED}
    assert all(task.resource_id for task in found.values())
    assert sum(task.metrics.num_records_in for name, task in found.items() if name.startswith("second")) == 60
    shown = cluster.flinkpy("info", job_id).stdout
    assert "second" in shown and "FINISHED" in shown


@pytest.mark.parametrize("at", ["first", "second"])
def test_cancelling_in_any_stage_leaves_nothing_behind(one_slot: RunningCluster, gate: Gate, at: str) -> None:
    cluster = one_slot
    env = batch(cluster, 2)
    wait = gate.pass_at(70)
    first = env.from_sequence(1, 100).map(wait if at == "first" else lambda x: x, Types.LONG())
    second = first.key_by(lambda x: x % 4).map(wait if at == "second" else lambda x: x, Types.LONG())
    second.rebalance().map(lambda x: x, Types.LONG()).print()
    job_id = str(env.execute_async("cancelled").get_job_id())
    gate.wait_for_arrival()
    cluster.client.cancel_job(job_id)
    gate.open()
    wait_for_state(cluster, job_id, JobState.CANCELED)
    wait_until(lambda: not partition_files(one_slot.run_dir.parent / "tmp"), "no partition is left")
    wait_until_idle(cluster, 1)


# The four cases of failover


def test_a_task_that_fails_runs_again_alone(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(num_task_executors=1, slots=2)
    env = batch(cluster, 2, **FIXED_DELAY)
    mark = tmp_path / "failed"

    def fail_once(value: int) -> int:
        if value == 7 and not mark.exists():
            mark.touch()
            raise ValueError("this once")
        return value

    numbers = env.from_sequence(1, 100).map(lambda x: x, Types.LONG()).name("first")
    numbers.key_by(lambda x: x % 4).map(fail_once, Types.LONG()).name("second").print()
    job_id = str(env.execute_async("fails once").get_job_id())
    cluster.client.wait_for_result(job_id)
    assert [name[:-1] for name in restarted(cluster, job_id)] == ["second"]
    assert cluster.client.request_job(job_id).num_restarts == 1


def test_a_damaged_result_is_produced_again_by_its_producer_alone(one_slot: RunningCluster, gate: Gate) -> None:
    """The reader of the damaged file waits for the only slot, which another branch occupies."""
    cluster = one_slot
    env = batch(cluster, 1, **FIXED_DELAY)
    numbers = env.from_sequence(1, 100).map(lambda x: x, Types.LONG()).name("first")
    numbers.key_by(lambda x: x % 4).sum().name("second").print()
    env.from_sequence(1, 10).map(gate.pass_at(5), Types.LONG()).name("other").print()
    job_id = str(env.execute_async("damaged").get_job_id())
    gate.wait_for_arrival()
    (file,) = partition_files(one_slot.run_dir.parent / "tmp")
    with open(file, "r+b") as opened:
        data = bytearray(opened.read())
        data[len(data) // 2] ^= 0xFF
        opened.seek(0)
        opened.write(data)
    gate.open()
    cluster.client.wait_for_result(job_id)
    assert {name[:-1] for name in restarted(cluster, job_id)} == {"first", "second"}
    history = cluster.client.request_job(job_id).exception_history
    assert [entry.error.type for entry in history] == ["PartitionCorruptedError"]


@pytest.mark.parametrize("partitioner", [pytest.param("hash", marks=pytest.mark.chaos), "rebalance"])
def test_results_of_a_lost_process_are_produced_again_and_affected_finished_consumers_run_again(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path, partitioner: str
) -> None:
    cluster = start_cluster(num_task_executors=2, slots=1)
    producer, output = tmp_path / "producer", tmp_path / "output"
    producer.mkdir()
    output.mkdir()
    env = batch(cluster, 2, **FIXED_DELAY)
    numbers = env.from_sequence(1, 100).set_parallelism(1).map(Note(producer), Types.LONG()).set_parallelism(1)
    numbers = numbers.name("first")
    sent: DataStream = numbers.key_by(lambda x: x) if partitioner == "hash" else numbers.rebalance()
    sent.map(FailsOnce(gate, output), Types.LONG()).name("second").print()
    job_id = str(env.execute_async("lost").get_job_id())
    gate.wait_for_arrival()
    (pid,) = (int(path.name) for path in producer.iterdir())
    wait_until(lambda: has_finished(cluster, job_id, "second0"), "the other consumer has finished")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: any(p.popen.poll() is not None for p in cluster.task_executors), "the process has ended")
    gate.open()
    cluster.client.wait_for_result(job_id)
    expected = {"first0", "second1"} | ({"second0"} if partitioner == "rebalance" else set())
    assert restarted(cluster, job_id) == expected
    last = {name: subtask.attempt_number for name, subtask in subtasks(cluster, job_id).items()}
    written = [
        int(line)
        for number in range(2)
        for line in (output / f"{number}-{last[f'second{number}']}").read_text().split()
    ]
    assert sorted(written) == list(range(1, 101))


def test_without_a_restart_strategy_a_lost_result_fails_the_job(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path
) -> None:
    """The killed process has finished one subtask of the second stage, while the other one waits."""
    cluster = start_cluster(num_task_executors=2, slots=1)
    env = batch(cluster, 2)
    keyed = env.from_sequence(1, 100).key_by(lambda x: x % 4).map(Together(tmp_path / "together"), Types.LONG())
    stream = keyed.map(gate.pass_at(50), Types.LONG()).name("second")
    stream.rebalance().map(lambda x: x, Types.LONG()).print()
    client = env.execute_async("lost")
    job_id = str(client.get_job_id())
    gate.wait_for_arrival()
    wait_until(
        lambda: any(has_finished(cluster, job_id, f"second{number}") for number in range(2)),
        "the other subtask has finished",
    )
    (waiting,) = gate.arrivals
    other = next(process for process in cluster.task_executors if process.popen.pid != waiting)
    os.kill(other.popen.pid, signal.SIGKILL)
    wait_until(lambda: other.popen.poll() is not None, "the process has ended")
    gate.open()
    with pytest.raises(JobExecutionError, match="is lost"):
        client.get_job_execution_result().result()


# Sinks


def test_committed_records_are_not_written_again_when_their_writers_run_again(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path
) -> None:
    """A task writes files and passes its records on, over an edge that may distribute them differently.

    The files are committed when the records must be produced again for the other branch. The task runs again, and its
    writer drops the records.
    """
    cluster = start_cluster(num_task_executors=2, slots=1)
    producer, output, files = tmp_path / "producer", tmp_path / "output", tmp_path / "files"
    producer.mkdir()
    output.mkdir()
    env = batch(cluster, 2, **FIXED_DELAY)
    numbers = env.from_sequence(1, 100).set_parallelism(1).map(Note(producer), Types.LONG()).set_parallelism(1)
    numbers = numbers.name("first")
    texts = numbers.rebalance().map(lambda x: x, Types.LONG()).name("text")
    texts.sink_to(FileSink.for_row_format(str(files), Encoder.simple_string_encoder()).build()).name("Files")
    texts.rebalance().map(FailsOnce(gate, output), Types.LONG()).name("second").print()
    job_id = str(env.execute_async("committed").get_job_id())
    gate.wait_for_arrival()
    wait_until(lambda: has_finished(cluster, job_id, "Committer0"), "the files are committed")
    (pid,) = (int(path.name) for path in producer.iterdir())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: any(p.popen.poll() is not None for p in cluster.task_executors), "the process has ended")
    gate.open()
    cluster.client.wait_for_result(job_id)
    again = restarted(cluster, job_id)
    assert {"text0", "text1"} <= again
    assert "Committer0" not in again
    assert Counter(written_lines(files)) == Counter(str(x) for x in range(1, 101))
    assert [path for path in files.rglob(".*") if path.is_file()] == [], "the second attempts have written nothing"


@pytest.mark.parametrize("is_file", [pytest.param(False, marks=pytest.mark.chaos), True], ids=["sequence", "files"])
def test_a_source_subtask_whose_result_is_lost_reads_its_splits_again(
    start_cluster: StartCluster, gate: Gate, tmp_path: Path, is_file: bool
) -> None:
    cluster = start_cluster(num_task_executors=2, slots=1)
    files, inputs = tmp_path / "files", tmp_path / "inputs"
    inputs.mkdir()
    for number in range(4):
        (inputs / str(number)).write_text("".join(f"{x}\n" for x in range(1 + number * 25, 26 + number * 25)))
    env = batch(cluster, 2, **FIXED_DELAY)
    # Each process has the result of one subtask of the first stage, and runs one of the second stage.
    first, second = Together(tmp_path / "first"), Together(tmp_path / "second")
    if is_file:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(inputs)).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").map(int, Types.LONG())
    else:
        lines = env.from_sequence(1, 100).map(lambda x: x, Types.LONG())
    keyed = lines.map(first, Types.LONG()).name("first").key_by(lambda x: x % 4)
    texts = keyed.map(second, Types.LONG()).map(gate.pass_at(50), Types.LONG()).name("second").map(str, Types.STRING())
    texts.sink_to(FileSink.for_row_format(str(files), Encoder.simple_string_encoder()).build())
    job_id = str(env.execute_async("lost").get_job_id())
    gate.wait_for_arrival()
    (waiting,) = gate.arrivals
    other = next(process for process in cluster.task_executors if process.popen.pid != waiting)
    os.kill(other.popen.pid, signal.SIGKILL)
    wait_until(lambda: other.popen.poll() is not None, "the process has ended")
    gate.open()
    cluster.client.wait_for_result(job_id)
    assert "Committer0" not in restarted(cluster, job_id)
    assert len({name for name in restarted(cluster, job_id) if name.startswith("first")}) == 1
    assert Counter(written_lines(files)) == Counter(str(x) for x in range(1, 101))


def written_lines(directory: Path) -> list[str]:
    """Returns the committed lines."""
    return [
        line
        for path in directory.rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
        for line in path.read_text().split()
    ]
