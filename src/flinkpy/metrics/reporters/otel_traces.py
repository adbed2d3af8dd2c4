"""OpenTelemetryTraceReporter and OpenTelemetryEventReporter: send spans and events by OpenTelemetry's protocol.

Events are log records with the attribute `event.name`.

Source: org.apache.flink.traces.otel.OpenTelemetryTraceReporter,
org.apache.flink.events.otel.OpenTelemetryEventReporter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from flinkpy.common.error_text import valid_text
from flinkpy.metrics.reporters.otlp import OTLP_OPTIONS, OtlpClient, OtlpOptions, Signal, key_values
from flinkpy.traces.event import Event
from flinkpy.traces.reporters import EventReporter, TraceReporter
from flinkpy.traces.span import AttributeValue, Span

__all__ = ["OpenTelemetryEventReporter", "OpenTelemetryTraceReporter"]

_NS_PER_MS = 1_000_000
#: The numbers of severities in OpenTelemetry.
_SEVERITIES = {
    "TRACE": logs_pb2.SEVERITY_NUMBER_TRACE,
    "DEBUG": logs_pb2.SEVERITY_NUMBER_DEBUG,
    "INFO": logs_pb2.SEVERITY_NUMBER_INFO,
    "WARN": logs_pb2.SEVERITY_NUMBER_WARN,
    "ERROR": logs_pb2.SEVERITY_NUMBER_ERROR,
    "FATAL": logs_pb2.SEVERITY_NUMBER_FATAL,
}


class OpenTelemetryTraceReporter(TraceReporter):
    """Sends spans with their children."""

    OPTIONS = OTLP_OPTIONS

    def open(self, options: Mapping[str, str]) -> None:
        settings = OtlpOptions.of(options)
        self._resource = settings.resource()
        self._client = OtlpClient(settings, Signal.TRACES)

    def report(self, spans: Sequence[Span]) -> None:
        by_scope: dict[str, list[trace_pb2.Span]] = {}
        for span in spans:
            for one in _with_children(span):
                by_scope.setdefault(one.scope, []).append(span_message(one))
        scopes = [
            trace_pb2.ScopeSpans(scope=common_pb2.InstrumentationScope(name=valid_text(scope)), spans=messages)
            for scope, messages in by_scope.items()
        ]
        resource = trace_pb2.ResourceSpans(resource=self._resource, scope_spans=scopes)
        self._client.send(ExportTraceServiceRequest(resource_spans=[resource]).SerializeToString())

    def close(self) -> None:
        self._client.close()


class OpenTelemetryEventReporter(EventReporter):
    """Sends events as log records."""

    OPTIONS = OTLP_OPTIONS

    def open(self, options: Mapping[str, str]) -> None:
        settings = OtlpOptions.of(options)
        self._resource = settings.resource()
        self._client = OtlpClient(settings, Signal.LOGS)

    def report(self, events: Sequence[Event]) -> None:
        by_scope: dict[str, list[logs_pb2.LogRecord]] = {}
        for event in events:
            by_scope.setdefault(event.scope, []).append(event_message(event))
        scopes = [
            logs_pb2.ScopeLogs(scope=common_pb2.InstrumentationScope(name=valid_text(scope)), log_records=messages)
            for scope, messages in by_scope.items()
        ]
        resource = logs_pb2.ResourceLogs(resource=self._resource, scope_logs=scopes)
        self._client.send(ExportLogsServiceRequest(resource_logs=[resource]).SerializeToString())

    def close(self) -> None:
        self._client.close()


def _with_children(span: Span) -> Iterator[Span]:
    yield span
    for child in span.children:
        yield from _with_children(child)


def span_message(span: Span) -> trace_pb2.Span:
    """Returns one span, without its children."""
    message = trace_pb2.Span(
        trace_id=bytes.fromhex(span.context.trace_id),
        span_id=bytes.fromhex(span.context.span_id),
        parent_span_id=b"" if span.parent is None else bytes.fromhex(span.parent.span_id),
        name=valid_text(span.name),
        kind=trace_pb2.Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start_ms * _NS_PER_MS,
        end_time_unix_nano=span.end_ms * _NS_PER_MS,
        attributes=_attributes(span.attributes),
        links=[
            trace_pb2.Span.Link(trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id))
            for link in span.links
        ],
    )
    if span.error:
        message.status.code = trace_pb2.Status.STATUS_CODE_ERROR
        message.status.message = valid_text(span.error)
    return message


def event_message(event: Event) -> logs_pb2.LogRecord:
    message = logs_pb2.LogRecord(
        time_unix_nano=event.observed_ms * _NS_PER_MS,
        observed_time_unix_nano=event.observed_ms * _NS_PER_MS,
        severity_number=_SEVERITIES[event.severity],
        severity_text=event.severity,
        body=common_pb2.AnyValue(string_value=valid_text(event.body)),
        event_name=valid_text(event.name),
        attributes=_attributes({"event.name": event.name, **event.attributes}),
    )
    if event.parent is not None:
        message.trace_id = bytes.fromhex(event.parent.trace_id)
        message.span_id = bytes.fromhex(event.parent.span_id)
    return message


def _attributes(attributes: Mapping[str, AttributeValue]) -> list[common_pb2.KeyValue]:
    found: list[common_pb2.KeyValue] = []
    for key, value in attributes.items():
        if isinstance(value, str | bool | int | float):
            found += key_values({key: value})
        else:
            values = [common_pb2.AnyValue(int_value=number) for number in value]
            array = common_pb2.AnyValue(array_value=common_pb2.ArrayValue(values=values))
            found.append(common_pb2.KeyValue(key=valid_text(key), value=array))
    return found
