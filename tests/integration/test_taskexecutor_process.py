"""The TaskExecutor process: its start, hangs, return and end."""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster, run_flinkpy
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

from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.errors import FlinkError, JobExecutionError, UserError
from flinkpy.common.states import JobState
from flinkpy.rpc.sync_client import SyncGateway

FAST_HEARTBEATS = {"heartbeat.interval": "300 ms", "heartbeat.timeout": "2 s"}


@pytest.mark.parametrize("option", ["--port", "--data-port"])
def test_the_error_names_a_port_in_use(option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_flinkpy("taskexecutor", "--resourcemanager", "127.0.0.1:1", option, str(port))
    assert done.returncode != 0
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_task_executor_binds_only_loopback(cluster: RunningCluster) -> None:
    import psutil

    for process in cluster.task_executors:
        connections = psutil.Process(process.popen.pid).net_connections(kind="tcp")
        addresses = {c.laddr.ip.removeprefix("::ffff:") for c in connections if c.status == psutil.CONN_LISTEN}
        assert addresses == {"127.0.0.1"}


def test_sigterm_ends_a_task_executor_in_order_while_a_function_cannot_be_stopped(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    wait_at_gate = gate.pass_at(1)

    def sleep_long(x: int) -> int:
        wait_at_gate(x)
        time.sleep(600)
        return x

    gate.open()
    env = environment(cluster, parallelism=1)
    env.from_sequence(1, 10).map(sleep_long).print()
    client = env.execute_async("sleeping")
    gate.wait_for_arrival()
    victim = next(p for p in cluster.task_executors if p.popen.pid == gate.arrivals[0])
    started = time.monotonic()
    victim.popen.send_signal(signal.SIGTERM)
    assert victim.popen.wait(40) == 0
    assert time.monotonic() - started < 30
    with pytest.raises(JobExecutionError, match="SIGTERM"):
        client.get_job_execution_result().result()


def test_a_suspended_process_is_declared_lost_and_returns_without_tasks(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(2, properties=FAST_HEARTBEATS)
    gate = Gate(tmp_path)
    env = environment(cluster, parallelism=1, **FIXED_DELAY)
    env.from_sequence(1, 10).map(gate.pass_at(5)).print()
    client = env.execute_async("hanging")
    gate.wait_for_arrival()
    victim = next(p for p in cluster.task_executors if p.popen.pid == gate.arrivals[0])
    victim.popen.send_signal(signal.SIGSTOP)
    try:
        gate.wait_for_arrival(2)  # the task was restarted on the other TaskExecutor
        gate.open()
        client.get_job_execution_result().result()
    finally:
        victim.popen.send_signal(signal.SIGCONT)
    wait_until(lambda: num_free_slots(cluster) == 2, "the process is registered again")
    assert victim.address is not None
    wait_until(lambda: task_threads(cluster, victim.address) == [], "its old task has ended")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the regular expression engine may have learned better")
def test_a_call_that_keeps_the_interpreter_lock_takes_the_process_down(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(1, properties={"task.cancellation.timeout": "3 s"})

    def backtrack(x: int) -> int:
        import re

        re.match(r"(a+)+$", "a" * 60 + "b")
        return x

    env = environment(cluster, parallelism=1)
    env.from_sequence(1, 10).map(backtrack).print()
    client = env.execute_async("backtracking")
    assert cluster.task_executors[0].popen.wait(30) == 1
    assert "in backtrack" in cluster.log("taskexecutor-1")
    with pytest.raises(FlinkError, match="taskexecutor-"):
        client.get_job_execution_result().result()


def test_logs_can_be_listed_and_read_by_name_only(start_cluster: StartCluster, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "te.log").write_text("hello")
    (tmp_path / "secret").write_text("no")
    cluster = start_cluster(1, properties={"env.log.dir": str(logs)})
    address = cluster.task_executors[0].address
    assert address is not None
    with SyncGateway("TaskExecutor", address, security=cluster.security) as gateway:
        listed = gateway.request_log_list(taskexecutor_pb2.LogListRequest(), timeout_s=10)
        assert "te.log" in [file.name for file in listed.files]
        chunks = gateway.request_file(taskexecutor_pb2.FileRequest(name="te.log"))
        assert b"".join(chunk.data for chunk in chunks) == b"hello"
        with pytest.raises(UserError):
            list(gateway.request_file(taskexecutor_pb2.FileRequest(name="../secret")))


def num_python_threads(pid: int) -> int:
    """Returns the number of threads of a process that are not of gRPC's own pool, which grows on a busy machine."""
    names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(name != "event_engine" for name in names)


def test_many_jobs_leave_no_threads_and_no_descriptors(start_cluster: StartCluster) -> None:
    import psutil

    # A TaskExecutor keeps its I/O threads. The first job starts one.
    cluster = start_cluster(2, properties={"cluster.io-pool.size": "1"})

    def run_one() -> None:
        env = environment(cluster)
        env.from_sequence(1, 100).rebalance().map(lambda x: x).execute_and_collect().close()
        wait_until_idle(cluster)

    def counts() -> list[tuple[int, int]]:
        processes = [psutil.Process(p.popen.pid) for p in cluster.task_executors]
        return [(num_python_threads(p.pid), p.num_fds()) for p in processes]

    for _ in range(3):
        run_one()
    before = counts()
    num_jobs = 5
    for _ in range(num_jobs):
        run_one()

    def is_back() -> bool:
        # Other services may have connected in between, and a busy machine lets asyncio's pool start another of its few
        # threads. A leak would grow with every job.
        return all(
            threads < threads_before + num_jobs and descriptors < descriptors_before + num_jobs
            for (threads, descriptors), (threads_before, descriptors_before) in zip(counts(), before, strict=True)
        )

    wait_until(is_back, f"threads and descriptors as before: {before}")


def test_cancelling_frees_a_task_that_waits_for_its_consumer(cluster: RunningCluster, tmp_path: Path) -> None:
    """All tasks are back-pressured when the job is cancelled."""
    gate = Gate(tmp_path)
    env = environment(cluster)
    env.from_sequence(1, 50_000_000).rebalance().map(lambda x: "x" * 100).rebalance().map(
        gate.pass_at("x" * 100)
    ).print()
    client = env.execute_async("back-pressured")
    gate.wait_for_arrival(2)
    wait_for_state(cluster, str(client.get_job_id()), JobState.RUNNING)
    client.cancel().result()
    wait_until_idle(cluster)
