"""The dashboard in front of a job of two vertices with 300 subtasks each, on 8 TaskExecutors.

The Dispatcher is a fake, so that its answers cost nothing; the REST server, HTTP and the browser are real.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from browser import open_page, screenshot
from rest_harness import RestHarness, TestingServices
from test_job_operations import JOB, SINK, SOURCE, FakeDispatcher, subtask

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2, metrics_pb2
from flinkpy.common.states import ExecutionState
from flinkpy.rest.forms.live import LIVE_METRICS
from flinkpy.rest.options import RestOptions

logger = logging.getLogger(__name__)

PARALLELISM = 300
TASK_EXECUTORS = 8
#: Values of every tenth subtask change between two polls.
CHANGING = 10
POLL = f"/vertices/{SINK}/live"


class WideJob(FakeDispatcher):
    """A Dispatcher with one wide job, whose values change with every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.job = job_pb2.JobDetails(
            job_id=JOB, name="wide", status=common_pb2.RUNNING, start_time_ms=1, end_time_ms=-1
        )
        for vertex_id, name in ((SOURCE, "Source: events -> parse"), (SINK, "aggregate -> Sink: results")):
            vertex = self.job.vertices.add(
                id=vertex_id,
                name=name,
                parallelism=PARALLELISM,
                max_parallelism=4_096,
                tasks_per_state={"RUNNING": PARALLELISM},
                state=ExecutionState.RUNNING.value,
                start_time_ms=1,
                end_time_ms=-1,
                subtasks=[subtask(index) for index in range(PARALLELISM)],
            )
            for index, one in enumerate(vertex.subtasks):
                one.resource_id = f"taskexecutor-{index % TASK_EXECUTORS}"
                one.endpoint = f"10.0.0.{index % TASK_EXECUTORS}:4512"
            for number, operator in enumerate(name.split(" -> ")):
                vertex.operators.add(id=f"{name[0]}{number}", name=operator)
        self.job.vertices[1].operators[0].inputs.add(
            operator_id="S1", ship_strategy="HASH", exchange=job_pb2.PIPELINED_BOUNDED, vertex_id=SOURCE
        )

    async def request_cluster_overview(self, request: Any) -> dispatcher_pb2.ClusterOverview:
        return dispatcher_pb2.ClusterOverview(num_task_managers=TASK_EXECUTORS, num_jobs_running=1)

    async def request_diagnosis(self, request: Any, timeout_s: float | None = None) -> job_pb2.JobDiagnosis:
        return job_pb2.JobDiagnosis(job_id=JOB, status=common_pb2.RUNNING)

    async def request_metrics(self, request: Any, timeout_s: float | None = None) -> Any:
        self.asked += 1
        dump = metrics_pb2.MetricsDump()
        for vertex_id in (SOURCE, SINK):
            if request.vertex_id in ("", vertex_id):
                for index in range(PARALLELISM):
                    group = dump.groups.add(job_id=JOB, vertex_id=vertex_id, subtask_index=index)
                    changes = self.asked if index % CHANGING == 0 else 0
                    for name in LIVE_METRICS:
                        group.metrics.add(name=name, kind="gauge", number=(index * 7 + changes * 13) % 1_000)
        return dump


@contextmanager
def serving(harness: RestHarness) -> Iterator[str]:
    """Runs the REST application on a socket, in a thread with a loop of its own. Provides its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(harness.application, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), name="REST server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def test_three_hundred_subtasks_are_shown_within_a_second_and_polled_in_small_answers(_chromium: Any) -> None:
    dispatcher = WideJob()
    options = RestOptions(requires_token=False, refresh_interval_ms=500)
    harness = RestHarness(TestingServices(dispatcher), options)
    with serving(harness) as url, open_page(_chromium) as (page, _):
        page.goto(f"{url}/#/jobs/{JOB}")
        page.get_by_role("button", name="aggregate").wait_for()
        sizes: list[int] = []
        page.on("response", lambda answer: sizes.append(_size(answer)) if POLL in answer.url else None)

        def polls(number: int) -> None:
            """Lets the fake's answers grow too old, and waits until there were `number` polls."""
            while len(sizes) < number:
                harness.clock.advance(options.refresh_interval_ms)
                with page.expect_response(lambda answer: POLL in answer.url):
                    pass

        work = Work(page)
        before_ms = work.ms()
        page.evaluate("path => { location.hash = path }", f"/jobs/{JOB}/vertices/{SINK}")
        page.get_by_role("row").nth(20).wait_for()
        shown_ms = work.ms() - before_ms
        assert page.get_by_role("table", name="Subtasks").get_attribute("aria-rowcount") == str(PARALLELISM + 1)
        assert page.get_by_role("row").count() < 60, "rows out of sight are in the document"
        polls(5)
        poll_ms = (work.ms() - before_ms - shown_ms) / len(sizes)
        screenshot(page, "wide-vertex")
        logger.info("shown after %d ms of work, %d ms a poll; polls of %s bytes", shown_ms, poll_ms, sizes)
        # The work of the page's thread, because a loaded machine says nothing by its clock.
        assert shown_ms < 1_000
        assert sizes[0] < 60_000 and max(sizes[1:]) < sizes[0] / 3

        page.get_by_role("columnheader", name="Busy").get_by_role("button").click()
        page.get_by_role("searchbox").fill("10.0.0.3")
        page.get_by_text("of 300").wait_for()


def _size(answer: Any) -> int:
    return int(answer.headers["content-length"])


class Work:
    """How long the main thread of a page has worked since this was made, in ms."""

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")

    def ms(self) -> float:
        metrics = {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"]) * 1000
