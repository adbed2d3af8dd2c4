"""Submission of a JobGraph through REST."""

from __future__ import annotations

from typing import Any

import pytest
from rest_harness import RestHarness, TestingServices

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.security import Role

GRAPH = job_pb2.JobGraph(job_id="a" * 32, name="n").SerializeToString()
REQUEST = '{"executionPlanFileName": "graph", "jobJarFileNames": [], "jobArtifactFileNames": []}'


class Submission:
    def __init__(self) -> None:
        self.submitted: list[str] = []

    async def submit_job(self, request: dispatcher_pb2.SubmitJobRequest) -> dispatcher_pb2.SubmitJobResponse:
        self.submitted.append(request.job_graph.name)
        return dispatcher_pb2.SubmitJobResponse(job_id=request.job_graph.job_id)


def submit(dispatcher: Submission, request: str, graph: bytes, role: Role = Role.SUBMIT) -> Any:
    files = {"request": ("request", request), "file": ("graph", graph)}
    return RestHarness(TestingServices(dispatcher)).call("POST", "/jobs", files=files, role=role)


def test_a_graph_is_submitted() -> None:
    dispatcher = Submission()
    answer = submit(dispatcher, REQUEST, GRAPH)
    assert (answer.status_code, answer.json()) == (202, {"jobUrl": f"/jobs/{'a' * 32}"})
    assert dispatcher.submitted == ["n"]


@pytest.mark.parametrize(
    "request_text, graph, text",
    [
        (REQUEST, b"\xac\xed\0\5", "Java objects"),
        (REQUEST, b"\xff\xff", "no serialized JobGraph"),
        ("{}", GRAPH, "does not match"),
        ('{"executionPlanFileName": "other"}', GRAPH, "'other' is missing"),
    ],
)
def test_other_requests_are_refused(request_text: str, graph: bytes, text: str) -> None:
    dispatcher = Submission()
    answer = submit(dispatcher, request_text, graph)
    assert answer.status_code == 400 and text in answer.json()["errors"][0]
    assert dispatcher.submitted == []


def test_whoever_only_reads_submits_nothing() -> None:
    dispatcher = Submission()
    assert submit(dispatcher, REQUEST, GRAPH, Role.READ).status_code == 403
    assert dispatcher.submitted == []
