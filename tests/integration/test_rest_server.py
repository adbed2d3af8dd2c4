"""The REST server of a running cluster: who gets in, uploaded programs, and TaskManagers that do not answer."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from clusters import RunningCluster
from job_support import wait_until

from flinkpy.security import Audience, Role

PROGRAM = """
import sys
from flinkpy.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = [int(number) for number in sys.argv[1:]]
env.from_collection(numbers).map(lambda number: number + 1).print()
env.execute("uploaded")
"""


@contextmanager
def rest_client(cluster: RunningCluster, role: Role | None = Role.SUBMIT) -> Iterator[httpx.Client]:
    """Provides a client with a token of `role`, or without one."""
    headers = {}
    if role is not None:
        token = cluster.security.with_role(role).token_for(Audience.DISPATCHER)
        headers["authorization"] = f"Bearer {token}"
    url = cluster.client.request_cluster_overview().rest_url
    with httpx.Client(base_url=f"{url}/v1", headers=headers, timeout=60) as client:
        yield client


def test_callers_get_what_their_role_allows(shared_cluster: RunningCluster) -> None:
    with rest_client(shared_cluster, None) as stranger:
        assert stranger.get("/overview").status_code == 401
        assert stranger.get("/overview", headers={"host": "evil.example"}).status_code == 403
    with rest_client(shared_cluster, Role.READ) as reader:
        assert reader.get("/overview").json()["taskmanagers"] == len(shared_cluster.task_executors)
        assert reader.delete("/cluster").status_code == 403
        assert reader.get("/jobmanager/log").status_code == 403


def test_a_browser_gets_in_once_by_the_link_of_the_command_line(shared_cluster: RunningCluster) -> None:
    printed = shared_cluster.flinkpy("dashboard", "--no-browser")
    assert printed.returncode == 0, printed.stderr
    link = printed.stdout.strip()
    with httpx.Client(follow_redirects=True, timeout=60) as browser:
        page = browser.get(link)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert browser.get(page.url.join("/v1/jobs")).status_code == 200
        # A request that changes something must come from the page itself.
        assert browser.request("DELETE", page.url.join("/v1/jars/none")).status_code == 403
    with httpx.Client(follow_redirects=True, timeout=60) as other:
        assert other.get(link).status_code == 401


def test_answers_do_not_wait_for_acknowledgements(shared_cluster: RunningCluster) -> None:
    """If TCP delays the second part of an answer, every answer takes 40 ms once the kernel delays acknowledgements."""
    with rest_client(shared_cluster) as client:
        taken_s = []
        for _ in range(60):
            began_s = time.perf_counter()
            client.get("/config")
            taken_s.append(time.perf_counter() - began_s)
    assert min(taken_s[30:]) < 0.035


def test_an_uploaded_program_runs_as_an_application(shared_cluster: RunningCluster) -> None:
    with rest_client(shared_cluster) as client:
        uploaded = client.post("/jars/upload", files={"jarfile": ("numbers.py", PROGRAM)})
        program = Path(uploaded.json()["filename"]).name

        plan = client.post(f"/jars/{program}/plan", json={"programArgsList": ["1"], "parallelism": 1})
        assert [node["parallelism"] for node in plan.json()["plan"]["nodes"]] == [1]

        started = client.post(f"/jars/{program}/run", json={"programArgsList": ["1", "2"], "parallelism": 1})
        assert started.status_code == 200, started.text
        application = started.json()["applicationId"]
        wait_until(lambda: _application(client, application)["status"] == "FINISHED", "the application has finished")
        (job,) = _application(client, application)["jobs"]
        assert (job["jid"], job["name"], job["state"]) == (started.json()["jobid"], "uploaded", "FINISHED")

        failed = client.post(f"/jars/{program}/run", json={"programArgsList": ["one"]})
        assert failed.status_code == 400 and "ValueError" in failed.json()["errors"][0]
        assert client.delete(f"/jars/{program}").status_code == 200


#: Ends no loop of its own: it runs one job after the other, and an error of one does not end it.
STUBBORN_PROGRAM = """
import sys, time
from flinkpy.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
env.execute("ends")
while True:
    if "between" in sys.argv:
        time.sleep(600)
    try:
        env.from_sequence(0, 10**12).map(lambda n: time.sleep(0.01) or n).filter(lambda n: False).print()
        env.execute("endless")
    except Exception:
        pass
"""


def test_a_canceled_application_ends_with_its_jobs_whatever_its_program_does(shared_cluster: RunningCluster) -> None:
    with rest_client(shared_cluster) as client:
        uploaded = client.post("/jars/upload", files={"jarfile": ("stubborn.py", STUBBORN_PROGRAM)})
        program = Path(uploaded.json()["filename"]).name
        for argument, states in (("running", {"FINISHED": 1, "RUNNING": 1}), ("between", {"FINISHED": 1})):
            started = client.post(f"/jars/{program}/run", json={"programArgsList": [argument], "parallelism": 1})
            application = started.json()["applicationId"]
            wait_until(lambda one=application, expected=states: _jobs(client, one) == expected, "the jobs are there")
            assert programs_of(application) != []
            assert client.post(f"/applications/{application}/cancel").status_code == 202
            wait_until(lambda one=application: _application(client, one)["status"] != "RUNNING", "it has ended")
            assert _application(client, application)["status"] == "CANCELED"
            expected = {"CANCELED" if state == "RUNNING" else state: count for state, count in states.items()}
            assert _jobs(client, application) == expected
            assert programs_of(application) == []
            assert client.post(f"/applications/{application}/cancel").status_code == 202
        assert client.delete(f"/jars/{program}").status_code == 200


def _jobs(client: httpx.Client, application_id: str) -> dict[str, int]:
    """Returns the number of jobs of an application in each state."""
    listed = client.get("/applications/overview").json()["applications"]
    (found,) = [one["jobs"] for one in listed if one["id"] == application_id]
    return dict(found)


def programs_of(application_id: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if application_id in process.cmdline():
                found.append(process)
        except psutil.Error:  # it has just ended
            continue
    return found


def _application(client: httpx.Client, application_id: str) -> Any:
    return client.get(f"/applications/{application_id}").json()


def test_a_stopped_task_manager_makes_its_details_stale(shared_cluster: RunningCluster) -> None:
    process = shared_cluster.task_executors[0].popen
    with rest_client(shared_cluster) as client:
        infos = client.get("/taskmanagers").json()["taskmanagers"]
        port = (shared_cluster.task_executors[0].address or "").rpartition(":")[2]
        (name,) = [one["id"] for one in infos if one["path"].endswith(f":{port}")]
        assert client.get(f"/taskmanagers/{name}").json()["metrics"]["heapUsed"] > 0
        assert "MainThread" in client.get(f"/taskmanagers/{name}/thread-dump").text
        process.send_signal(signal.SIGSTOP)
        try:
            details = client.get(f"/taskmanagers/{name}")
        finally:
            process.send_signal(signal.SIGCONT)
        assert (details.status_code, details.json()["stale"], details.json()["id"]) == (200, True, name)
        assert client.get("/taskmanagers/none").status_code == 404
