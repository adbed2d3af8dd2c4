"""TraceReporter and EventReporter: the interfaces of reporters. LogTraceReporter and LogEventReporter: use the log.

Source: org.apache.flink.traces.reporter.TraceReporter, org.apache.flink.events.reporter.EventReporter,
org.apache.flink.traces.slf4j.Slf4jTraceReporter, org.apache.flink.events.slf4j.Slf4jEventReporter.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flinkpy.configuration.options import ConfigOption
from flinkpy.traces.event import Event
from flinkpy.traces.span import Span

__all__ = ["EventReporter", "LogEventReporter", "LogTraceReporter", "TraceReporter"]

logger = logging.getLogger(__name__)


class _Reporter(ABC):
    """Base class of reporters. Thread: its own thread makes all calls except the constructor.

    Attributes:
        OPTIONS: the options of this class of reporters, without the prefix of the reporter.
    """

    OPTIONS: ClassVar[tuple[ConfigOption[Any], ...]] = ()

    @abstractmethod
    def open(self, options: Mapping[str, str]) -> None:
        """Prepares the reporter. `options` are those below its prefix. Raises: ConfigurationError."""

    def close(self) -> None:
        return


class TraceReporter(_Reporter):
    """Reports spans."""

    @abstractmethod
    def report(self, spans: Sequence[Span]) -> None:
        """Reports spans that have ended. It may block. An error means that these spans are lost."""


class EventReporter(_Reporter):
    """Reports events."""

    @abstractmethod
    def report(self, events: Sequence[Event]) -> None:
        """Reports events. It may block. An error means that these events are lost."""


class LogTraceReporter(TraceReporter):
    """Writes each span as one line to the log of the process."""

    def open(self, options: Mapping[str, str]) -> None:
        return

    def report(self, spans: Sequence[Span]) -> None:
        for span in spans:
            logger.info("Reported span: %s", json.dumps(_span_document(span), default=list))


class LogEventReporter(EventReporter):
    """Writes each event as one line to the log of the process."""

    def open(self, options: Mapping[str, str]) -> None:
        return

    def report(self, events: Sequence[Event]) -> None:
        for event in events:
            document = {
                "scope": event.scope,
                "name": event.name,
                "observedTsMillis": event.observed_ms,
                "severity": event.severity,
                "body": event.body,
                "attributes": dict(event.attributes),
            }
            logger.info("Reported event: %s", json.dumps(document, default=list))


def _span_document(span: Span) -> dict[str, Any]:
    return {
        "scope": span.scope,
        "name": span.name,
        "startTsMillis": span.start_ms,
        "endTsMillis": span.end_ms,
        "traceId": span.context.trace_id,
        "spanId": span.context.span_id,
        "parentSpanId": None if span.parent is None else span.parent.span_id,
        "attributes": dict(span.attributes),
        **({"error": span.error} if span.error else {}),
        **({"children": [_span_document(child) for child in span.children]} if span.children else {}),
    }
