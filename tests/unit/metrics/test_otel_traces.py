"""Spans and events as messages of OpenTelemetry's protocol."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.reporters import otel_traces
from flinkpy.metrics.reporters.otel_traces import OpenTelemetryEventReporter, OpenTelemetryTraceReporter
from flinkpy.traces.event import Event
from flinkpy.traces.span import Span
from flinkpy.traces.trace_context import SpanContext


class FakeClient:
    """Keeps requests."""

    def __init__(self, *_: object) -> None:
        self.requests: list[bytes] = []

    def send(self, request: bytes) -> None:
        self.requests.append(request)

    def close(self) -> None:
        return


@pytest.fixture(autouse=True)
def fake_client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient()
    monkeypatch.setattr(otel_traces, "OtlpClient", lambda *_: client)
    return client


OPTIONS = {"exporter.endpoint": "http://localhost:4317", "service.name": "mine"}


def test_spans_and_their_children_are_sent_in_one_request(fake_client: FakeClient) -> None:
    parent, link = SpanContext.new(), SpanContext.new()
    outer = Span.builder("scope", "outer").set_start_ts_millis(1_000).set_end_ts_millis(2_000)
    outer.set_parent(parent, [link]).set_error("broken")
    outer.set_attributes({"text": "a", "whole": 1, "real": 0.5, "flag": True, "list": [1, 2]})
    outer.add_child(Span.builder("scope", "inner"))
    reporter = OpenTelemetryTraceReporter()
    reporter.open(OPTIONS)
    reporter.report([outer.build(), Span.builder("other", "alone").build()])

    (request,) = map(ExportTraceServiceRequest.FromString, fake_client.requests)
    (resource,) = request.resource_spans
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "mine"
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert [scope.scope.name for scope in resource.scope_spans] == ["scope", "other"]
    assert spans["outer"].parent_span_id.hex() == parent.span_id and spans["outer"].trace_id.hex() == parent.trace_id
    assert spans["outer"].links[0].trace_id.hex() == link.trace_id
    assert spans["inner"].parent_span_id == spans["outer"].span_id
    assert spans["alone"].parent_span_id == b""
    assert (spans["outer"].start_time_unix_nano, spans["outer"].end_time_unix_nano) == (10**9, 2 * 10**9)
    assert (spans["outer"].status.code, spans["outer"].status.message) == (Status.STATUS_CODE_ERROR, "broken")
    values = {one.key: one.value for one in spans["outer"].attributes}
    assert (values["text"].string_value, values["whole"].int_value, values["real"].double_value) == ("a", 1, 0.5)
    assert values["flag"].bool_value is True
    assert [one.int_value for one in values["list"].array_value.values] == [1, 2]


def test_events_are_log_records_with_a_name(fake_client: FakeClient) -> None:
    parent = SpanContext.new()
    event = Event.builder("scope", "CheckpointEvent").set_observed_ts_millis(7).set_severity("WARN")
    reporter = OpenTelemetryEventReporter()
    reporter.open(OPTIONS)
    reporter.report([event.set_parent(parent).set_attribute("checkpointId", 3).build()])

    (request,) = map(ExportLogsServiceRequest.FromString, fake_client.requests)
    (record,) = request.resource_logs[0].scope_logs[0].log_records
    assert (record.event_name, record.severity_text, record.time_unix_nano) == ("CheckpointEvent", "WARN", 7_000_000)
    assert record.body.string_value == "CheckpointEvent"
    assert record.trace_id.hex() == parent.trace_id
    assert {one.key for one in record.attributes} == {"event.name", "checkpointId"}


def test_an_endpoint_is_required() -> None:
    with pytest.raises(ConfigurationError, match=r"exporter\.endpoint"):
        OpenTelemetryTraceReporter().open({})


def test_texts_that_are_not_valid_are_sent_all_the_same(fake_client: FakeClient) -> None:
    reporter = OpenTelemetryTraceReporter()
    reporter.open(OPTIONS)
    reporter.report([Span.builder("scope", "a\ud800b").set_attribute("k", "\udfff").build()])
    assert len(fake_client.requests) == 1
