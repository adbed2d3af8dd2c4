"""Event: something that happened at one moment; EventBuilder: makes one; Events: the names of flinkpy's own events.

Source: org.apache.flink.events.{Event,EventBuilder,Events}.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkpy.common.clock import SystemClock
from flinkpy.traces.span import AttributeValue
from flinkpy.traces.trace_context import SpanContext

__all__ = ["SEVERITIES", "Event", "EventBuilder", "Events"]

#: The severities that backends know, in their order.
SEVERITIES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


@dataclass(frozen=True, slots=True)
class Event:
    """An event. Times in milliseconds since 1970.

    Attributes:
        scope: names the part of the program that reports it, e.g. a class.
        severity: one of SEVERITIES.
        parent: the span that it belongs to, if any.
    """

    scope: str
    name: str
    observed_ms: int
    body: str = ""
    severity: str = "INFO"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    parent: SpanContext | None = None

    @staticmethod
    def builder(scope: type | str, name: str) -> EventBuilder:
        """Returns a builder. Args: see `Span.builder`."""
        return EventBuilder(scope, name)


class EventBuilder:
    """Builds an event. Each `set_` returns the builder."""

    def __init__(self, scope: type | str, name: str) -> None:
        self._scope = scope if isinstance(scope, str) else f"{scope.__module__}.{scope.__qualname__}"
        self._name = name
        self._observed_ms = 0
        self._body = ""
        self._severity = "INFO"
        self._attributes: dict[str, AttributeValue] = {}
        self._parent: SpanContext | None = None

    def set_observed_ts_millis(self, observed_ts_millis: int) -> EventBuilder:
        """Sets the time. By default, it is the time of `build`."""
        self._observed_ms = observed_ts_millis
        return self

    def set_body(self, body: str) -> EventBuilder:
        """Sets the text for people. By default, it is the name."""
        self._body = body
        return self

    def set_severity(self, severity: str) -> EventBuilder:
        """Sets the severity. Raises: ValueError if it is none of SEVERITIES."""
        if severity not in SEVERITIES:
            raise ValueError(f"the severity of an event is one of {', '.join(SEVERITIES)}, not {severity!r}")
        self._severity = severity
        return self

    def set_attribute(self, key: str, value: AttributeValue) -> EventBuilder:
        self._attributes[key] = value
        return self

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> EventBuilder:
        self._attributes.update(attributes)
        return self

    def set_parent(self, parent: SpanContext | None) -> EventBuilder:
        """Sets the span that the event belongs to. Beyond Flink."""
        self._parent = parent
        return self

    @property
    def parent(self) -> SpanContext | None:
        """The span that the event belongs to; None: it is not set."""
        return self._parent

    def build(self) -> Event:
        return Event(
            self._scope,
            self._name,
            self._observed_ms or SystemClock().now_ms(),
            self._body or self._name,
            self._severity,
            dict(self._attributes),
            self._parent,
        )


class Events(enum.Enum):
    """The events that flinkpy reports. Source: org.apache.flink.events.Events."""

    CHECKPOINT_EVENT = "CheckpointEvent"
    JOB_STATUS_CHANGE_EVENT = "JobStatusChangeEvent"
    JOB_FAILURE_EVENT = "JobFailureEvent"
    ALL_SUBTASKS_STATUS_CHANGE_EVENT = "AllSubtasksStatusChangeEvent"
