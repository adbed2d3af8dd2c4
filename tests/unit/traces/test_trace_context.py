"""`traceparent` headers are read and written as W3C's recommendation says."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest

from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.rpc.client import call_metadata
from flinkpy.security import SecurityContext
from flinkpy.traces import trace_context
from flinkpy.traces.event import Event
from flinkpy.traces.reporting import Tracer
from flinkpy.traces.span import Span, SpanBuilder
from flinkpy.traces.trace_context import SpanContext, current_context, set_span_of_functions, using_context
from flinkpy.traces.traced_calls import traced_call
from flinkpy.traces.tracer_slot import install_tracer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_header_is_read_and_written() -> None:
    context = SpanContext.parse(f"00-{TRACE}-{SPAN}-01")
    assert context == SpanContext(TRACE, SPAN)
    assert context.traceparent == f"00-{TRACE}-{SPAN}-01"
    assert SpanContext.parse(f"01-{TRACE}-{SPAN}-00-later") == context, "later versions may append fields"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_a_header_that_is_not_valid_is_ignored(header: str | None) -> None:
    assert SpanContext.parse(header) is None


def test_a_new_span_belongs_to_the_trace_of_its_parent() -> None:
    parent = SpanContext.new()
    child = SpanContext.new(parent)
    assert child.trace_id == parent.trace_id and child.span_id != parent.span_id
    assert re.fullmatch(r"[0-9a-f]{32}", parent.trace_id) and re.fullmatch(r"[0-9a-f]{16}", parent.span_id)


def test_a_context_ends_with_its_block_or_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SpanContext(TRACE, SPAN)
    with using_context(context):
        assert current_context() == context
        now_s = trace_context.time.monotonic()
        monkeypatch.setattr(trace_context.time, "monotonic", lambda: now_s + trace_context.MAX_CONTEXT_AGE_S + 1)
        assert current_context() is None, "a timer that was started by the call must not belong to it for ever"
    assert current_context() is None


def test_calls_carry_the_context_and_no_header_without_one() -> None:
    security = SecurityContext(None, None)
    assert "traceparent" not in dict(call_metadata(None, security, "Dispatcher"))
    with using_context(SpanContext(TRACE, SPAN)):
        assert dict(call_metadata(None, security, "Dispatcher"))["traceparent"] == f"00-{TRACE}-{SPAN}-01"


class ListTracer(Tracer):
    """Keeps spans and events instead of reporting them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.events: list[Event] = []

    @property
    def has_spans(self) -> bool:
        return True

    def add_span(self, builder: SpanBuilder) -> None:
        self.spans.append(builder.build())


@pytest.fixture
def tracer() -> Iterator[ListTracer]:
    found = ListTracer()
    install_tracer(found)
    yield found
    install_tracer(None)


def test_a_call_with_a_header_becomes_a_span_and_the_parent_of_further_calls(tracer: ListTracer) -> None:
    async def handle() -> None:
        with traced_call("scope", "name", f"00-{TRACE}-{SPAN}-01", {"a": "b"}):
            inner = await asyncio.create_task(asyncio.to_thread(current_context))
            assert inner is not None and inner.trace_id == TRACE and inner.span_id != SPAN

    asyncio.run(handle())
    (span,) = tracer.spans
    assert span.parent == SpanContext(TRACE, SPAN)
    assert (span.name, span.attributes, span.error) == ("name", {"a": "b"}, "")


def test_spans_of_functions_belong_to_the_span_of_their_task_unless_they_have_a_parent(tracer: ListTracer) -> None:
    own, cause = SpanContext(TRACE, SPAN), SpanContext.new()
    group = NamedMetricGroup()

    def in_task_thread() -> None:
        set_span_of_functions(cause)
        group.add_span(Span.builder("scope", "caused"))
        group.add_span(Span.builder("scope", "own").set_parent(own))
        assert current_context() is None, "calls of the task would become spans"

    thread = threading.Thread(target=in_task_thread)
    thread.start()
    thread.join()
    group.add_span(Span.builder("scope", "elsewhere"))
    assert [(span.name, span.parent) for span in tracer.spans] == [("caused", cause), ("own", own), ("elsewhere", None)]


def test_a_call_that_fails_has_a_span_with_the_error(tracer: ListTracer) -> None:
    with pytest.raises(ValueError), traced_call("scope", "name", f"00-{TRACE}-{SPAN}-01", {}):
        raise ValueError("broken")
    assert tracer.spans[0].error == "broken"


def test_a_call_without_a_header_has_no_span(tracer: ListTracer) -> None:
    with traced_call("scope", "name", None, {}):
        assert current_context() is None
    assert tracer.spans == []
