"""Span: something that took time, e.g. a checkpoint; SpanBuilder: makes one.

Source: org.apache.flink.traces.{Span,SpanBuilder}.
Differs: a span has ids, so that reporters can connect it with its parent. Flink's spans know only their children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flinkpy.common.clock import SystemClock
from flinkpy.traces.trace_context import SpanContext

__all__ = ["AttributeValue", "Span", "SpanBuilder"]

#: The types of attributes that every backend knows.
AttributeValue = str | bool | int | float | Sequence[int]


@dataclass(frozen=True, slots=True)
class Span:
    """A span. Times in milliseconds since 1970.

    Attributes:
        scope: names the part of the program that reports it, e.g. a class.
        parent: the span that caused it; None: it begins a trace.
        links: spans of other traces that it belongs to.
        error: the description of the failure, if what the span measures has failed.
    """

    scope: str
    name: str
    start_ms: int
    end_ms: int
    context: SpanContext
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    children: tuple[Span, ...] = ()
    parent: SpanContext | None = None
    links: tuple[SpanContext, ...] = ()
    error: str = ""

    @staticmethod
    def builder(scope: type | str, name: str) -> SpanBuilder:
        """Returns a builder.

        Args:
            scope: the class that reports the span, or its name.
            name: the name of the span, for people.
        """
        return SpanBuilder(scope, name)


class SpanBuilder:
    """Builds a span. Each `set_` returns the builder.

    Example:
        >>> span = Span.builder(Loader, "load").set_start_ts_millis(start).set_attribute("rows", 3)
        >>> runtime_context.get_metrics_group().add_span(span)
    """

    def __init__(self, scope: type | str, name: str) -> None:
        self._scope = scope if isinstance(scope, str) else f"{scope.__module__}.{scope.__qualname__}"
        self._name = name
        self._start_ms = 0
        self._end_ms = 0
        self._attributes: dict[str, AttributeValue] = {}
        self._children: list[SpanBuilder] = []
        self._context: SpanContext | None = None
        self._parent: SpanContext | None = None
        self._links: tuple[SpanContext, ...] = ()
        self._error = ""

    def set_start_ts_millis(self, start_ts_millis: int) -> SpanBuilder:
        """Sets the start. By default, it is the end."""
        self._start_ms = start_ts_millis
        return self

    def set_end_ts_millis(self, end_ts_millis: int) -> SpanBuilder:
        """Sets the end. By default, it is the time of `build`."""
        self._end_ms = end_ts_millis
        return self

    def set_attribute(self, key: str, value: AttributeValue) -> SpanBuilder:
        self._attributes[key] = value
        return self

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> SpanBuilder:
        self._attributes.update(attributes)
        return self

    def add_child(self, child: SpanBuilder) -> SpanBuilder:
        """Adds a span that is reported with this one, as its child."""
        self._children.append(child)
        return self

    def set_context(self, context: SpanContext) -> SpanBuilder:
        """Sets the ids of the span. By default, they are new. Beyond Flink."""
        self._context = context
        return self

    def set_parent(self, parent: SpanContext | None, links: Sequence[SpanContext] = ()) -> SpanBuilder:
        """Sets the span that caused this one, and the spans of other traces that it belongs to. Beyond Flink."""
        self._parent, self._links = parent, tuple(links)
        return self

    @property
    def parent(self) -> SpanContext | None:
        """The span that caused this one; None: it is not set."""
        return self._parent

    def set_error(self, description: str) -> SpanBuilder:
        """Marks that what the span measures has failed. Beyond Flink."""
        self._error = description
        return self

    def build(self) -> Span:
        end_ms = self._end_ms or SystemClock().now_ms()
        context = self._context or SpanContext.new(self._parent)
        return Span(
            scope=self._scope,
            name=self._name,
            start_ms=self._start_ms or end_ms,
            end_ms=end_ms,
            context=context,
            attributes=dict(self._attributes),
            children=tuple(child.set_parent(context).build() for child in self._children),
            parent=self._parent,
            links=self._links,
            error=self._error,
        )
