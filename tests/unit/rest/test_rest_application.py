"""Answers of the REST server that do not depend on the operation."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from rest_harness import RestHarness, TestingServices

from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.common.errors import (
    ExternalError,
    JobNotFoundError,
    NotLeaderError,
    RpcTimeoutError,
    UserError,
)
from flinkpy.rest.options import RestOptions
from flinkpy.security import Role
from flinkpy.traces.reporting import Tracer
from flinkpy.traces.span import Span, SpanBuilder
from flinkpy.traces.trace_context import SpanContext, current_context
from flinkpy.traces.tracer_slot import install_tracer


class Jobs:
    def __init__(self, *jobs: dispatcher_pb2.JobOverview, error: Exception | None = None) -> None:
        self._jobs = jobs
        self._error = error

    async def list_jobs(self, request: dispatcher_pb2.ListJobsRequest) -> dispatcher_pb2.ListJobsResponse:
        if self._error is not None:
            raise self._error
        return dispatcher_pb2.ListJobsResponse(jobs=self._jobs)

    async def shut_down_cluster(self, request: dispatcher_pb2.ShutDownClusterRequest) -> common_pb2.Acknowledge:
        return common_pb2.Acknowledge()


def harness(*jobs: dispatcher_pb2.JobOverview, error: Exception | None = None, **options: int) -> RestHarness:
    return RestHarness(TestingServices(Jobs(*jobs, error=error)), RestOptions(**options))


@pytest.fixture
def errors_in_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.ERROR):
        yield caplog


@pytest.mark.parametrize("path", ["/jobs", "/v1/jobs"])
def test_operations_exist_with_and_without_version(path: str) -> None:
    job = dispatcher_pb2.JobOverview(job_id="a" * 32, status=common_pb2.RUNNING)
    answer = harness(job).call("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert answer.json() == {"jobs": [{"id": "a" * 32, "status": "RUNNING"}]}


def test_head_is_get_without_body() -> None:
    answer = harness().call("HEAD", "/jobs")
    assert answer.status_code == 200


def test_a_call_of_a_trace_is_a_span_and_calls_of_services_belong_to_it() -> None:
    header, seen = f"00-{'a' * 32}-{'b' * 16}-01", []

    class Dispatcher(Jobs):
        async def list_jobs(self, request: dispatcher_pb2.ListJobsRequest) -> dispatcher_pb2.ListJobsResponse:
            seen.append(current_context())
            return await super().list_jobs(request)

    class ListTracer(Tracer):
        has_spans = True  # type: ignore[assignment]

        def __init__(self) -> None:
            self.spans: list[Span] = []

        def add_span(self, builder: SpanBuilder) -> None:
            self.spans.append(builder.build())

    install_tracer(tracer := ListTracer())
    try:
        rest = RestHarness(TestingServices(Dispatcher()))
        rest.call("GET", "/jobs")
        rest.call("GET", "/jobs", role=None, headers={"traceparent": header})
        assert tracer.spans == [], "neither calls without a trace nor those of strangers are reported"
        rest.call("GET", "/v1/jobs", headers={"traceparent": header})
    finally:
        install_tracer(None)
    (span,) = tracer.spans
    assert (span.name, span.parent) == ("GET /jobs", SpanContext("a" * 32, "b" * 16))
    assert seen == [None, span.context]


def test_an_unknown_path_gets_404_in_flinks_words() -> None:
    answer = harness().call("GET", "/v1/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"errors": ["Unable to load requested file /v1/nothing."]}


def test_a_wrong_verb_gets_405() -> None:
    answer = harness().call("DELETE", "/overview")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert answer.json() == {"errors": ["Method DELETE is not allowed for /overview."]}


def test_no_token_gets_401_and_says_how_to_get_one() -> None:
    answer = harness().call("GET", "/jobs", role=None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "flinkpy token" in answer.json()["errors"][0]


def test_a_role_that_is_too_low_gets_403() -> None:
    answer = harness().call("DELETE", "/cluster", role=Role.READ)
    assert answer.status_code == 403
    assert answer.json() == {"errors": ["DELETE /cluster requires the role submit; the caller has the role read."]}
    assert harness().call("DELETE", "/cluster", role=Role.SUBMIT).status_code == 200


def test_a_request_that_is_too_large_gets_413() -> None:
    small = harness(max_content_bytes=10)
    assert small.call("DELETE", "/cluster", content=b"x" * 11).status_code == 413
    assert small.call("DELETE", "/cluster", content=b"x" * 10).status_code == 200


@pytest.mark.parametrize(
    "error, status, text",
    [
        (JobNotFoundError("there is no job x", details={"job_id": "x"}), 404, "Job x not found"),
        (UserError("the path is empty"), 400, "the path is empty"),
        (NotLeaderError("no leader"), 503, "no leader"),
        (RpcTimeoutError("no answer in time"), 504, "no answer in time"),
        (ExternalError("the disk is full"), 500, "the disk is full"),
    ],
)
def test_typed_errors_have_their_statuses(error: Exception, status: int, text: str) -> None:
    answer = harness(error=error).call("GET", "/jobs")
    assert (answer.status_code, answer.json()) == (status, {"errors": [text]})


def test_a_defect_tells_a_caller_nothing_but_where_the_log_has_it(errors_in_log: pytest.LogCaptureFixture) -> None:
    answer = harness(error=KeyError("/secret/path")).call("GET", "/jobs")
    assert answer.status_code == 500
    (text,) = answer.json()["errors"]
    assert "secret" not in text and "Traceback" not in text
    reference = text.partition("reference ")[2][:8]
    (record,) = errors_in_log.records
    assert reference in record.getMessage() and record.exc_info is not None


def test_every_answer_has_security_headers() -> None:
    for path in ("/jobs", "/nothing"):
        headers = harness().call("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers


def test_a_ticket_becomes_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    server = harness()
    answer = server.call("GET", f"/login?ticket={server.context.access.new_ticket(Role.READ)}", role=None)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    value = cookie.partition(";")[0]
    assert server.call("GET", "/jobs", role=None, headers={"cookie": value}).status_code == 200
    assert server.call("GET", "/login?ticket=x", role=None).status_code == 401
