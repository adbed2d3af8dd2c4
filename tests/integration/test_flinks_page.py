"""Flink's own web page, as it is in its Maven artifact, works in front of this REST server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from flinks_page import Browser, browser, flinks_page, require_chromium
from job_support import environment, wait_until
from maven_jars import require_jars
from test_rest_jobs import Counting, Failing, RestClient, start_endless_job

from flinkpy.common import Types
from flinkpy.security import Audience

JOB_TABS = ("overview", "exceptions", "dataskew", "timeline", "checkpoints", "configuration")
#: The drawers of a vertex, and a text that each shows once its data are there.
DRAWERS = {
    "detail": "Max Parallelism",
    "subtasks": "127.0.0.1:",
    "taskmanagers": "127.0.0.1:",
    "watermarks": "Datetime of Watermark",
    "accumulators": "records",
    "backpressure": "Measurement:",
    "metrics": "Add Metric",
    "flamegraph": "On-CPU",
}
#: Texts of the drawers of an ended job: nothing is sampled, and its tasks have no metrics any more.
OF_ENDED = {"backpressure": "Operator is not running", "metrics": "No Available Metric"}


def test_flinks_own_page_shows_a_job(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    jars = require_jars("flink_web_page")
    require_chromium()
    job_id = start_endless_job(shared_cluster, tmp_path / "checkpoints")
    with RestClient(shared_cluster) as rest:
        wait_until(lambda: rest.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"] > 0, "a checkpoint")
        source = rest.get(f"/jobs/{job_id}")["vertices"][0]
    url = shared_cluster.client.request_cluster_overview().rest_url
    token = shared_cluster.security.token_for(Audience.DISPATCHER)
    with flinks_page(jars, url, token) as page_url, browser(page_url) as tab:
        tab.show("/overview", "Total Task Slots2", "Task Managers2")
        tab.show("/job/running", "endless <job>", "RUNNING")
        tab.show(f"/job/running/{job_id}/overview/{source['id']}/subtasks", source["name"], "127.0.0.1:")
        tab.show(f"/job/running/{job_id}/checkpoints", "Latest Completed Checkpoint", "chk-")
        assert not tab.problems, "\n".join(tab.problems)


@pytest.mark.differential
def test_flinks_own_page_shows_every_view_of_a_cluster(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    jars = require_jars("flink_web_page")
    require_chromium()
    env = environment(shared_cluster, 1)
    env.from_collection([1, 2, 3]).map(Failing()).print()
    failed = str(env.execute_async("failing").get_job_id())
    with RestClient(shared_cluster) as rest:
        wait_until(lambda: rest.get(f"/jobs/{failed}/status")["status"] == "FAILED", "the job has failed")
        env = environment(shared_cluster, 1)
        env.from_collection([1, 2, 3], Types.LONG()).map(Counting(), output_type=Types.LONG()).print()
        finished = str(env.execute_async("finishing").get_job_id())
        wait_until(lambda: rest.get(f"/jobs/{finished}/status")["status"] == "FINISHED", "the job has finished")
        running = start_endless_job(shared_cluster, tmp_path / "checkpoints")
        wait_until(lambda: rest.get(f"/jobs/{running}")["status-counts"]["RUNNING"] == 2, "the vertices run")
        wait_until(lambda: rest.get(f"/jobs/{running}/checkpoints")["counts"]["completed"] > 0, "a checkpoint")
        manager = rest.get("/taskmanagers")["taskmanagers"][0]["id"]
        jobs = {job_id: rest.get(f"/jobs/{job_id}") for job_id in (running, finished, failed)}
    url = shared_cluster.client.request_cluster_overview().rest_url
    token = shared_cluster.security.token_for(Audience.DISPATCHER)
    with flinks_page(jars, url, token) as page_url, browser(page_url) as tab:
        check_cluster(tab, manager)
        check_job(tab, "running", jobs[running], "RUNNING")
        tab.show(f"/job/running/{running}/checkpoints", "Latest Completed Checkpoint", "chk-")
        assert "numRecordsOut" in tab.options_of_metrics(f"/job/running/{running}", jobs[running]["vertices"][0]["id"])
        check_job(tab, "completed", jobs[finished], "FINISHED")
        check_job(tab, "completed", jobs[failed], "FAILED")
        tab.show(f"/job/completed/{failed}/exceptions", "ValueError: no 1", "in map")
        assert not tab.problems, "\n".join(tab.problems)
        # Without the adaptive scheduler Flink answers 404, too, and its page shows the message.
        tab.show(f"/job/running/{running}/rescales", "AdaptiveScheduler is not enabled")
        assert tab.problems and all("/rescales" in problem for problem in tab.problems)


def check_cluster(tab: Browser, manager: str) -> None:
    tab.show("/overview", "Total Task Slots2", "Task Managers2")
    tab.show("/job/running", "endless <job>", "RUNNING")
    tab.show("/job/completed", "failing", "finishing")
    tab.show("/application/running", "Running Applications")
    tab.show("/application/completed", "Completed Applications")
    tab.show("/submit", "Uploaded Jars")
    tab.show("/task-manager", manager)
    for tabs in ("/job-manager", f"/task-manager/{manager}"):
        tab.show(f"{tabs}/metrics", "Garbage Collection", "Python")
        tab.show(f"{tabs}/logs", "INFO")
        tab.show(f"{tabs}/stdout", "INFO")
        tab.show(f"{tabs}/thread-dump", "MainThread")
        tab.show(f"{tabs}/profiler", "Create Profiling Instance")
    tab.show("/job-manager/config", "taskmanager.numberOfTaskSlots", "CPython")
    tab.show("/job-manager/log", "dispatcher.log")
    tab.show("/job-manager/log/dispatcher.log", "INFO")
    tab.show(f"/task-manager/{manager}/log-list", "taskexecutor-1.log")
    tab.show(f"/task-manager/{manager}/log-list/taskexecutor-1.log", "INFO")


def check_job(tab: Browser, kind: str, job: Any, state: str) -> None:
    """Shows all tabs of a job and, unless it failed, all drawers of its first vertex."""
    path = f"/job/{kind}/{job['jid']}"
    source = job["vertices"][0]
    expected = {
        "overview": source["name"],
        "exceptions": "Root Exception",
        "dataskew": source["name"],
        "timeline": "Vertex TimeLine",
        "checkpoints": "Checkpoint Counts",
        "configuration": "Object reuse mode",
    }
    for name in JOB_TABS:
        tab.show(f"{path}/{name}", job["name"], state, expected[name])
    if state == "FAILED":
        return  # its drawers differ from those of a finished job in their numbers only
    for drawer, text in DRAWERS.items():
        tab.show(f"{path}/overview/{source['id']}/{drawer}", text if state == "RUNNING" else OF_ENDED.get(drawer, text))
