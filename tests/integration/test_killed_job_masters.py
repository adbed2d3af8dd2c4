"""kill -9 of JobMaster processes: their jobs continue, and waiting clients keep waiting."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, StartCluster
from job_support import FIXED_DELAY, Gate, environment, wait_for_state, wait_until, wait_until_idle
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records

from flinkpy._proto import job_pb2
from flinkpy.common import Configuration, Encoder, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.state import ValueStateDescriptor

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def leader_of(cluster: RunningCluster, job_id: str) -> int:
    """Returns the process that leads the job, according to its log line."""

    def find() -> int | None:
        lines = [line for line in cluster.log("dispatcher").splitlines() if f"job {job_id} is led by" in line]
        return int(lines[-1].rpartition("pid ")[2].rstrip(")")) if lines else None

    pid = wait_until(find, f"a JobMaster of {job_id}")
    return int(pid)


def kill_leader(cluster: RunningCluster, job_id: str) -> int:
    pid = leader_of(cluster, job_id)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: leader_of(cluster, job_id) != pid, "another JobMaster leads the job")
    return pid


def waiting_graph(cluster: RunningCluster, **properties: str) -> job_pb2.JobGraph:
    """Returns a job that waits for slots that do not exist."""
    env = environment(cluster, **properties)
    env.from_sequence(1, 10).map(lambda x: x).print()
    return env.generate_job_graph("waiting")


def counting(env: StreamExecutionEnvironment, gate: Gate, output: Path, last: int) -> None:
    (
        env.from_sequence(1, last)
        .map(gate.pass_at(last // 2), output_type=Types.LONG())
        .map(lambda x: (x % 7, 1), output_type=PAIR)
        .key_by(lambda p: p[0])
        .sum(1)
        .filter(lambda p: p[1] == last // 7)
        .map(lambda p: f"{p[0]},{p[1]}", output_type=Types.STRING())
        .sink_to(FileSink.for_row_format(str(output), Encoder.simple_string_encoder()).build())
    )


KEYS, RECORDS_PER_KEY = 4, 300


class Count(KeyedProcessFunction):
    """Emits (key, number, count). count is number + 1 if no record of the key was lost or repeated."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], value[1], count


def checkpointed_counting(
    cluster: RunningCluster, tmp_path: Path, rate: float = 150, properties: dict[str, str] | None = None
) -> Any:
    """Starts a job that takes checkpoints and runs for some seconds; its output is in `tmp_path/out`."""
    checkpoints = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    env = environment(cluster, **checkpoints, **(properties or {}))
    env.configure(Configuration.from_dict({"restart-strategy.type": "fixed-delay", **FIXED_DELAY}))
    env.enable_checkpointing(100)
    source = SequencePerKeySource(KEYS, RECORDS_PER_KEY, rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    counted = numbers.key_by(lambda pair: pair[0], Types.LONG()).process(Count(), triple).uid("count")
    counted.sink_to(TwoPhaseSink(str(tmp_path / "out"))).uid("out")
    return env.execute_async("counting")


def wait_for_more_output(tmp_path: Path) -> None:
    seen = len(list(committed_records(tmp_path / "out")))
    wait_until(lambda: len(list(committed_records(tmp_path / "out"))) > seen, "more committed records")


def assert_exactly_once(tmp_path: Path) -> None:
    expected = [(key, number, number + 1) for key in range(KEYS) for number in range(RECORDS_PER_KEY)]
    assert sorted(committed_records(tmp_path / "out")) == expected


def files_below(directory: Path) -> list[Path]:
    """Returns the files that exist now. Another process may remove files at the same time."""
    return [Path(parent, name) for parent, _, names in os.walk(directory) for name in names]


def lines_of(output: Path) -> list[str]:
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted(line for path in files for line in path.read_text().splitlines())


def test_a_job_without_checkpoints_starts_over_and_frees_the_slots_of_its_first_run(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    gate, last = Gate(tmp_path), 1_400
    env = environment(cluster, **FIXED_DELAY)
    counting(env, gate, tmp_path / "out", last)
    client = env.execute_async("counting")
    job_id = str(client.get_job_id())
    gate.wait_for_arrival()
    states: list[JobState] = []
    watch = threading.Thread(target=lambda: states.extend(cluster.client.watch_job_status(job_id)))
    watch.start()
    wait_until(lambda: states, "the watch has begun")
    kill_leader(cluster, job_id)
    gate.wait_for_arrival(2)
    gate.open()

    client.get_job_execution_result().result()
    watch.join(20)

    assert sorted(set(lines_of(tmp_path / "out"))) == [f"{key},{last // 7}" for key in range(7)]
    assert states[-1] is JobState.FINISHED
    assert JobState.RESTARTING in states
    assert cluster.client.request_job(job_id).num_restarts == 0, "a JobMaster's death is no restart"
    wait_until_idle(cluster)


def test_a_job_resumes_from_its_last_checkpoint_and_deletes_its_checkpoints_at_its_end(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    client = checkpointed_counting(cluster, tmp_path, properties={"jobmaster.task-adoption.timeout": "0"})
    job_id = str(client.get_job_id())
    for _ in range(3):
        wait_for_more_output(tmp_path)
        kill_leader(cluster, job_id)
    wait_for_more_output(tmp_path)
    assert cluster.client.request_checkpoint_statistics(job_id).latest_restored.checkpoint_id > 0

    client.get_job_execution_result().result()

    assert_exactly_once(tmp_path)
    assert cluster.client.request_job(job_id).num_restarts == 0
    wait_until(lambda: files_below(tmp_path / "checkpoints") == [], "its checkpoints are removed")


def test_the_checkpoints_of_a_job_canceled_between_two_job_masters_are_deleted(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    client = checkpointed_counting(cluster, tmp_path, rate=50)
    job_id = str(client.get_job_id())
    wait_for_more_output(tmp_path)
    assert files_below(tmp_path / "checkpoints")
    os.kill(leader_of(cluster, job_id), signal.SIGKILL)
    client.cancel().result()
    assert cluster.client.wait_for_result(job_id).status == JobState.CANCELED.value
    wait_until(lambda: files_below(tmp_path / "checkpoints") == [], "its checkpoints are removed")
    wait_until_idle(cluster)


def test_jobs_survive_if_all_job_masters_are_killed_at_once(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0)
    graphs = []
    for _ in range(3):
        graph = waiting_graph(cluster, **FIXED_DELAY)
        graph.job_id = os.urandom(16).hex()
        cluster.client.submit_job(graph)
        graphs.append(graph)
    for graph in graphs:
        wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    leaders = {graph.job_id: leader_of(cluster, graph.job_id) for graph in graphs}
    for pid in cluster.job_master_pids():
        os.kill(pid, signal.SIGKILL)
    for job_id, former in leaders.items():
        wait_until(lambda job_id=job_id, former=former: leader_of(cluster, job_id) != former, "another leader")
        wait_for_state(cluster, job_id, JobState.RUNNING)
        cluster.client.cancel_job(job_id)
        assert cluster.client.wait_for_result(job_id).status == JobState.CANCELED.value


def test_a_job_whose_job_masters_die_repeatedly_fails_with_a_clear_error(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, properties={"flinkpy.dispatcher.jobmaster-recovery.attempts": "2"})
    graph = waiting_graph(cluster, **FIXED_DELAY)
    cluster.client.submit_job(graph)
    for _ in range(2):
        kill_leader(cluster, graph.job_id)
    os.kill(leader_of(cluster, graph.job_id), signal.SIGKILL)

    result = cluster.client.wait_for_result(graph.job_id)

    assert (result.status, result.error.type) == (JobState.FAILED.value, "JobMasterLostError")
    assert "loss 3 in a row" in result.error.message
    assert "SIGKILL" in result.error.message


def test_a_job_canceled_while_it_has_no_job_master_is_canceled(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, properties={"flinkpy.dispatcher.standby-jobmasters": "0"})
    graph = waiting_graph(cluster, **FIXED_DELAY)
    cluster.client.submit_job(graph)
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    os.kill(leader_of(cluster, graph.job_id), signal.SIGKILL)
    wait_for_state(cluster, graph.job_id, JobState.RESTARTING)
    cluster.client.cancel_job(graph.job_id)
    assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value


def test_a_job_master_that_hangs_is_replaced(start_cluster: StartCluster) -> None:
    cluster = start_cluster(0, properties={"heartbeat.interval": "200 ms", "heartbeat.timeout": "2 s"})
    graph = waiting_graph(cluster, **FIXED_DELAY)
    cluster.client.submit_job(graph)
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    frozen = psutil.Process(leader_of(cluster, graph.job_id))
    frozen.send_signal(signal.SIGSTOP)
    wait_until(lambda: leader_of(cluster, graph.job_id) != frozen.pid, "another leader")
    wait_for_state(cluster, graph.job_id, JobState.RUNNING)
    assert frozen.wait(10) == -signal.SIGKILL or not frozen.is_running()
    cluster.client.cancel_job(graph.job_id)
    assert cluster.client.wait_for_result(graph.job_id).status == JobState.CANCELED.value


def test_a_job_that_must_not_run_twice_fails_with_the_reason(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = environment(cluster)
    counting(env, gate, tmp_path / "out", 1_400)
    client = env.execute_async("counting")
    gate.wait_for_arrival()
    os.kill(leader_of(cluster, str(client.get_job_id())), signal.SIGKILL)
    with pytest.raises(JobExecutionError, match="SIGKILL"):
        client.get_job_execution_result().result()
    gate.open()
    wait_until_idle(cluster)
