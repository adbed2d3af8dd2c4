"""The span of a submission begins the trace of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common.errors import JobSubmissionError
from flinkpy.dispatcher.submission_trace import trace_submission
from flinkpy.traces.reporting import Tracer
from flinkpy.traces.span import Span, SpanBuilder
from flinkpy.traces.trace_context import SpanContext, using_context
from flinkpy.traces.tracer_slot import install_tracer


class ListTracer(Tracer):
    """Keeps spans instead of reporting them."""

    has_spans = True  # type: ignore[assignment]

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def add_span(self, builder: SpanBuilder) -> None:
        self.spans.append(builder.build())


@pytest.fixture
def tracer() -> Iterator[ListTracer]:
    tracer = ListTracer()
    install_tracer(tracer)
    yield tracer
    install_tracer(None)


def submit(graph: job_pb2.JobGraph, error: Exception | None = None) -> None:
    async def run() -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answered = asyncio.Event()
        trace_submission(graph, answer)
        answer.add_done_callback(lambda _: answered.set())
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
        await answered.wait()
        answer.exception()

    asyncio.run(run())


def test_the_span_of_the_submission_is_written_into_the_graph(tracer: ListTracer) -> None:
    graph = job_pb2.JobGraph(job_id="j", name="words")
    caller = SpanContext.new()
    with using_context(caller):
        submit(graph)
    (span,) = tracer.spans
    assert graph.traceparent == span.context.traceparent
    assert (span.name, span.parent, span.error) == ("Submission", caller, "")
    assert span.attributes == {"job_id": "j", "job_name": "words", "num_vertices": 0}


def test_a_refused_submission_has_its_error(tracer: ListTracer) -> None:
    submit(job_pb2.JobGraph(job_id="j"), JobSubmissionError("no space"))
    assert tracer.spans[0].error == "no space"
    assert tracer.spans[0].parent is None


def test_without_reporters_a_graph_stays_as_it_is() -> None:
    graph = job_pb2.JobGraph(job_id="j")
    submit(graph)
    assert graph.traceparent == ""
