"""`flinkpy cluster start | status | stop` with real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from clusters import run_flinkpy
from job_support import wait_until

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import RpcUnavailableError
from flinkpy.security import Audience, SecurityContext


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory. Afterwards its cluster is stopped, and no process of it may remain."""
    directory = tmp_path / "run"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("FLINKPY_RUN_DIR", str(directory))
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield directory
    run_flinkpy("cluster", "stop")
    assert processes_of(directory) == []
    assert list(temporary.rglob("*")) == []


def processes_of(directory: Path) -> list[str]:
    """Returns the command lines of all processes of this run directory."""
    found = []
    for process in psutil.process_iter(["environ", "cmdline"]):
        environment = process.info["environ"] or {}
        if environment.get("FLINKPY_RUN_DIR") == str(directory) and process.pid != os.getpid():
            found.append(" ".join(process.info["cmdline"] or []))
    return found


def num_task_managers(client: ClusterClient) -> int:
    try:
        return client.request_cluster_overview().num_task_managers
    except RpcUnavailableError:
        return -1  # the Dispatcher is starting


def start(*arguments: str) -> None:
    result = run_flinkpy("cluster", "start", "-D", "jobmanager.rpc.port=0", *arguments)
    assert result.returncode == 0, result.stderr


def recorded(directory: Path) -> dict[str, int]:
    document = json.loads((directory / "cluster.json").read_text())
    return {process["name"]: process["pid"] for process in document["processes"]}


def test_a_started_cluster_runs_jobs_and_a_stopped_one_leaves_nothing(run_dir: Path) -> None:
    start("--taskmanagers", "2")
    document = json.loads((run_dir / "cluster.json").read_text())
    with ClusterClient(document["dispatcher_address"], security=SecurityContext.of_client({})) as client:
        assert client.list_jobs() == []
    status = run_flinkpy("cluster", "status")
    assert status.returncode == 0
    assert [line.split("\t")[0] for line in status.stdout.splitlines()[1:6]] == [
        "dispatcher",
        "taskexecutor-1",
        "taskexecutor-2",
        "resourcemanager",
        "supervisor",
    ]
    stopped = run_flinkpy("cluster", "stop")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "Cluster stopped.\n", "")
    assert processes_of(run_dir) == []


def test_rest_can_shut_down_a_started_cluster_for_good(run_dir: Path) -> None:
    start("--taskmanagers", "1", "-D", "rest.port=0")
    supervisor = psutil.Process(recorded(run_dir)["supervisor"])
    document = json.loads((run_dir / "cluster.json").read_text())
    security = SecurityContext.of_client({})
    with ClusterClient(document["dispatcher_address"], security=security) as client:
        url = client.request_cluster_overview().rest_url
    token = security.token_for(Audience.DISPATCHER)
    answer = httpx.delete(f"{url}/v1/cluster", headers={"authorization": f"Bearer {token}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    supervisor.wait(30)
    wait_until(lambda: processes_of(run_dir) == [], "all processes have ended")
    assert "a client has shut the cluster down" in (run_dir / "log" / "supervisor.log").read_text()
    assert run_flinkpy("cluster", "status").stdout == "No cluster is running.\n"


def test_a_second_start_is_refused_and_changes_nothing(run_dir: Path) -> None:
    start("--taskmanagers", "1")
    before = recorded(run_dir)
    again = run_flinkpy("cluster", "start")
    assert again.returncode == 2
    assert "a cluster is already running" in again.stderr
    assert recorded(run_dir) == before


def test_no_service_is_left_if_one_cannot_start(run_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_flinkpy("cluster", "start", "-D", f"jobmanager.rpc.port={port}")
    assert result.returncode == 1
    assert f"127.0.0.1:{port}: the port is in use" in result.stderr
    assert "Traceback" not in result.stderr
    assert processes_of(run_dir) == []
    assert not (run_dir / "cluster.json").exists()


def test_a_wrong_option_starts_nothing(run_dir: Path) -> None:
    result = run_flinkpy("cluster", "start", "-D", "taskmanager.numberOfTaskSlots=many")
    assert result.returncode == 2
    assert result.stderr.startswith("flinkpy: option `taskmanager.numberOfTaskSlots` has the value `many`")
    assert processes_of(run_dir) == []


def test_status_shows_a_dead_process_and_stop_ends_the_others(run_dir: Path) -> None:
    start("--taskmanagers", "1")
    os.kill(recorded(run_dir)["supervisor"], signal.SIGKILL)
    os.kill(recorded(run_dir)["taskexecutor-1"], signal.SIGKILL)
    status = run_flinkpy("cluster", "status")
    assert status.returncode == 1
    assert "dead" in next(line for line in status.stdout.splitlines() if line.startswith("taskexecutor-1"))
    assert run_flinkpy("cluster", "stop").returncode == 0
    assert processes_of(run_dir) == []


def test_the_record_of_a_cluster_that_died_does_not_block_a_new_one(run_dir: Path) -> None:
    start("--taskmanagers", "1")
    for pid in reversed(recorded(run_dir).values()):
        os.kill(pid, signal.SIGKILL)
    start("--taskmanagers", "1")
    assert run_flinkpy("cluster", "status").returncode == 0


def test_a_killed_service_is_restarted_at_its_address(run_dir: Path) -> None:
    start("--taskmanagers", "2")
    before = recorded(run_dir)
    address = json.loads((run_dir / "cluster.json").read_text())["dispatcher_address"]
    services = ["dispatcher", "resourcemanager", "taskexecutor-1", "taskexecutor-2"]
    for name in services:
        os.kill(before[name], signal.SIGKILL)

    wait_until(lambda: all(recorded(run_dir)[name] != before[name] for name in services), "all are replaced")

    assert json.loads((run_dir / "cluster.json").read_text())["dispatcher_address"] == address
    with ClusterClient(address, security=SecurityContext.of_client({})) as client:
        wait_until(lambda: num_task_managers(client) == 2, "both TaskExecutors")
    assert run_flinkpy("cluster", "status").returncode == 0
    stopped = run_flinkpy("cluster", "stop")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert processes_of(run_dir) == []
