"""Spans of calls that belong to a trace. Calls without a `traceparent` are not measured: heartbeats have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flinkpy.common.clock import SystemClock
from flinkpy.traces.trace_context import SpanContext, using_context
from flinkpy.traces.tracer_slot import current_tracer

__all__ = ["traced_call"]


@contextmanager
def traced_call(scope: str, name: str, traceparent: str | None, attributes: Mapping[str, str]) -> Iterator[None]:
    """Reports the block as a span if its caller sent a `traceparent`, and makes it the parent of what the block does.

    Args:
        scope: the scope of the span.
        name: its name.
        traceparent: the header that the caller sent, if any.
        attributes: its attributes.
    """
    tracer = current_tracer()
    caller = None if tracer is None else SpanContext.parse(traceparent)
    if tracer is None or caller is None:
        yield
        return
    from flinkpy.traces.span import Span

    context = SpanContext.new(caller)
    span = Span.builder(scope, name).set_context(context).set_parent(caller).set_attributes(attributes)
    span.set_start_ts_millis(SystemClock().now_ms())
    try:
        with using_context(context):
            yield
    except Exception as error:
        span.set_error(str(error))
        raise
    finally:
        tracer.add_span(span)
