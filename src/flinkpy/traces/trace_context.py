"""SpanContext: the identity of a span, and its form in headers of calls (`traceparent`, W3C Trace Context level 1).

A process that handles a call with a `traceparent` sends the context on with the calls that it makes for it. Timers and
tasks inherit the context of the code that made them, so it would never end: it is therefore valid for a limited time.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["TRACEPARENT", "SpanContext", "current_context", "using_context"]

#: The name of the header, and of the metadata of gRPC calls.
TRACEPARENT = "traceparent"
#: How long the calls that follow from a call belong to its trace.
MAX_CONTEXT_AGE_S = 60.0

_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
_current: ContextVar[tuple[SpanContext, float] | None] = ContextVar("flinkpy_span_context", default=None)


@dataclass(frozen=True, slots=True)
class SpanContext:
    """The ids of a span, in hexadecimal digits. They are never all zeros."""

    trace_id: str
    span_id: str

    @classmethod
    def new(cls, parent: SpanContext | None = None) -> SpanContext:
        """Returns a new span of the trace of `parent`, or of a new trace."""
        return cls(secrets.token_hex(16) if parent is None else parent.trace_id, secrets.token_hex(8))

    @classmethod
    def parse(cls, traceparent: str | None) -> SpanContext | None:
        """Returns the context that a header names. None if there is none or it is not valid: it is then ignored."""
        match = _TRACEPARENT.match(traceparent or "")
        if match is None or match["version"] == "ff" or not match["trace"].strip("0") or not match["span"].strip("0"):
            return None
        rest = (traceparent or "")[match.end() :]
        # Later versions may append fields.
        if rest and (match["version"] == "00" or not rest.startswith("-")):
            return None
        return cls(match["trace"], match["span"])

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


#: The span to which those of user functions belong. It is not `_current`, which calls carry on: a task makes calls all
#: the time, and they would fill the trace.
_span_of_functions: ContextVar[SpanContext | None] = ContextVar("flinkpy_span_of_functions", default=None)


def span_of_functions() -> SpanContext | None:
    """Returns the span that causes what the functions of this thread's task do. None: the job is not traced."""
    return _span_of_functions.get()


def set_span_of_functions(context: SpanContext | None) -> None:
    """Sets `span_of_functions` for the rest of this thread. Thread: task thread."""
    _span_of_functions.set(context)


def current_context() -> SpanContext | None:
    """Returns the span that the running code belongs to."""
    found = _current.get()
    if found is None or time.monotonic() > found[1]:
        return None
    return found[0]


@contextmanager
def using_context(context: SpanContext | None) -> Iterator[None]:
    """Makes `context` the current one within the block, and in tasks that the block starts."""
    token = _current.set(None if context is None else (context, time.monotonic() + MAX_CONTEXT_AGE_S))
    try:
        yield
    finally:
        _current.reset(token)
