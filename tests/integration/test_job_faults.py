"""kill -9 of each kind of process while a job runs: the effect on the job and on its client."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, StartCluster
from job_support import (
    FIXED_DELAY,
    Gate,
    environment,
    num_free_slots,
    task_threads,
    wait_for_state,
    wait_until,
    wait_until_idle,
)

from flinkpy.common import Encoder, Types
from flinkpy.common.errors import FlinkError, JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink


def start_counting_job(env: StreamExecutionEnvironment, gate: Gate, output: Path, last: int = 2_000) -> Any:
    """Starts a job: numbers -> gate -> keyed sum across processes -> text files."""
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    (
        env.from_sequence(1, last)
        .map(gate.pass_at(last // 2), output_type=Types.LONG())
        .map(lambda x: (x % 7, 1), output_type=pair)
        .key_by(lambda p: p[0])
        .sum(1)
        .map(lambda p: f"{p[0]},{p[1]}", output_type=Types.STRING())
        .sink_to(FileSink.for_row_format(str(output), Encoder.simple_string_encoder()).build())
    )
    return env.execute_async("counting")


def counts_in(output: Path) -> Counter[str]:
    """Returns the highest count of each key in the finished files."""
    counts: Counter[str] = Counter()
    for path in output.rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            for line in path.read_text().splitlines():
                key, count = line.split(",")
                counts[key] = max(counts[key], int(count))
    return counts


def expected_counts(last: int = 2_000) -> Counter[str]:
    return Counter(str(x % 7) for x in range(1, last + 1))


@pytest.mark.chaos
def test_a_killed_task_executor_is_replaced_and_the_result_is_right(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(3)
    gate = Gate(tmp_path)
    client = start_counting_job(environment(cluster, **FIXED_DELAY), gate, tmp_path / "out")
    gate.wait_for_arrival()
    victim = gate.arrivals[0]
    name = next(p.spec.name for p in cluster.task_executors if p.popen.pid == victim)
    cluster.kill(name)
    gate.wait_for_arrival(2)
    assert set(gate.arrivals) - {victim}
    gate.open()
    client.get_job_execution_result().result()
    details = cluster.client.request_job(str(client.get_job_id()))
    assert details.num_restarts == 1
    assert counts_in(tmp_path / "out") == expected_counts()
    wait_until(lambda: num_free_slots(cluster) == 2, "the slots of the two that live")


def test_without_restarts_the_error_names_the_task_executor(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    client = start_counting_job(environment(cluster), gate, tmp_path / "out")
    gate.wait_for_arrival()
    wait_for_state(cluster, str(client.get_job_id()), JobState.RUNNING)
    victim = gate.arrivals[0]
    name = next(p.spec.name for p in cluster.task_executors if p.popen.pid == victim)
    cluster.kill(name)
    with pytest.raises(JobExecutionError) as caught:
        client.get_job_execution_result().result()
    assert f"taskexecutor-127.0.0.1-{victim}-" in str(caught.value)
    gate.open()
    wait_until_idle(cluster, slots=1)


@pytest.mark.chaos
def test_a_killed_job_master_ends_or_restarts_its_job_and_frees_its_slots(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    client = start_counting_job(environment(cluster), gate, tmp_path / "out")
    gate.wait_for_arrival()
    (pid,) = job_master_of(cluster)
    os.kill(pid, signal.SIGKILL)
    gate.open()
    try:
        client.get_job_execution_result().result()
    except FlinkError as error:
        assert "JobMaster" in str(error)
    else:
        assert counts_in(tmp_path / "out") == expected_counts()
    wait_until_idle(cluster)


@pytest.mark.chaos
def test_a_job_continues_without_the_resource_manager(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    client = start_counting_job(environment(cluster), gate, tmp_path / "out")
    gate.wait_for_arrival()
    cluster.kill("resourcemanager")
    wait_until(lambda: "registering again" in cluster.log("taskexecutor-1"), "the TaskExecutor notices")
    gate.open()
    client.get_job_execution_result().result()
    assert counts_in(tmp_path / "out") == expected_counts()
    for process in cluster.task_executors:
        assert process.address is not None
        assert task_threads(cluster, process.address) == []


def test_a_killed_dispatcher_leaves_no_task_running(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    client = start_counting_job(environment(cluster, **{"client.timeout": "1 s"}), gate, tmp_path / "out")
    gate.wait_for_arrival()
    job_masters = [psutil.Process(pid) for pid in job_master_of(cluster)]
    cluster.kill("dispatcher")
    with pytest.raises(FlinkError):
        client.get_job_execution_result().result()
    _, alive = psutil.wait_procs(job_masters, timeout=40)
    assert alive == []
    wait_until_idle(cluster)


def job_master_of(cluster: RunningCluster) -> list[int]:
    """Returns the JobMaster processes that run a job: those with a connection from a TaskExecutor."""
    pids = []
    te_pids = {p.popen.pid for p in cluster.task_executors}
    listening = {}
    for pid in cluster.job_master_pids():
        for c in psutil.Process(pid).net_connections(kind="tcp"):
            if c.status == psutil.CONN_LISTEN:
                listening[c.laddr.port] = pid
    for te in te_pids:
        for c in psutil.Process(te).net_connections(kind="tcp"):
            if c.status == psutil.CONN_ESTABLISHED and c.raddr and c.raddr.port in listening:
                pids.append(listening[c.raddr.port])
    return sorted(set(pids))
