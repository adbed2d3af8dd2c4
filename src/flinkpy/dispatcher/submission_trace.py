"""The span of a submission, which begins the trace of a job."""

from __future__ import annotations

import asyncio
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.traces.trace_context import SpanContext, current_context
from flinkpy.traces.tracer_slot import current_tracer


def trace_submission(graph: job_pb2.JobGraph, answer: asyncio.Future[Any]) -> None:
    """Writes the span of the submission into the graph, for the spans of the job, and reports it with the answer.

    It is a child of the call that submitted the job, if that is traced. Without reporters nothing happens.
    """
    tracer = current_tracer()
    if tracer is None:
        return
    from flinkpy.traces.span import Span

    caller = current_context()
    context = SpanContext.new(caller)
    graph.traceparent = context.traceparent
    span = (
        Span.builder("flinkpy.dispatcher", "Submission")
        .set_context(context)
        .set_parent(caller)
        .set_start_ts_millis(SystemClock().now_ms())
        .set_attributes({"job_id": graph.job_id, "job_name": graph.name, "num_vertices": len(graph.vertices)})
    )

    def answered(done: asyncio.Future[Any]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            span.set_error(str(error))
        tracer.add_span(span)

    answer.add_done_callback(answered)
