"""Reporters of spans and events: configuration, batches, failures and limits."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.traces import reporting
from flinkpy.traces.event import Event
from flinkpy.traces.reporters import TraceReporter
from flinkpy.traces.reporting import Tracer
from flinkpy.traces.span import Span
from flinkpy.traces.trace_context import SpanContext
from flinkpy.traces.tracer_slot import current_tracer, install_tracer

WAIT_S = 30.0


class CollectingReporter(TraceReporter):
    """Keeps the spans of all its instances. Fails or blocks if the test says so."""

    spans: list[Span] = []
    error: Exception | None = None
    gate = threading.Event()
    reported = threading.Event()

    def open(self, options: dict[str, str]) -> None:
        if options.get("broken"):
            raise OSError("no such receiver")

    def report(self, spans: Sequence[Span]) -> None:
        assert self.gate.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        type(self).spans.extend(spans)
        self.reported.set()


@pytest.fixture(autouse=True)
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reporting, "BATCH_DELAY_S", 0)
    CollectingReporter.spans, CollectingReporter.error = [], None
    CollectingReporter.gate.set()
    CollectingReporter.reported.clear()
    yield
    CollectingReporter.gate.set()
    install_tracer(None)


def configured(factory: str = f"{__name__}:CollectingReporter", kind: str = "traces", **options: str) -> Configuration:
    entries = {f"{kind}.reporter.mine.{key}": value for key, value in options.items()}
    entries |= {f"{kind}.reporters": "mine", f"{kind}.reporter.mine.factory.class": factory}
    return Configuration.from_dict(entries)


def test_spans_reach_the_reporter_at_the_end_at_the_latest() -> None:
    tracer = Tracer(configured())
    tracer.start()
    for number in range(3):
        tracer.add_span(Span.builder("scope", f"span {number}").set_end_ts_millis(5))
    tracer.close()
    assert [span.name for span in CollectingReporter.spans] == ["span 0", "span 1", "span 2"]
    assert CollectingReporter.spans[0].start_ms == 5


def test_without_reporters_there_is_no_tracer() -> None:
    install_tracer(Tracer(Configuration()))
    assert current_tracer() is None


@pytest.mark.parametrize("factory", ["", "nonsense", "os:getcwd", "no.such.module:Class"])
def test_a_reporter_that_cannot_be_made_is_logged_and_left_out(factory: str, caplog: pytest.LogCaptureFixture) -> None:
    tracer = Tracer(configured(factory))
    assert not tracer.has_spans
    assert "traces.reporter.mine.factory.class" in caplog.text


@pytest.mark.parametrize("kind", ["traces", "events"])
@pytest.mark.parametrize("name", ["otel.OpenTelemetry", "slf4j.Slf4j"])
def test_class_names_of_flink_are_understood(kind: str, name: str) -> None:
    word = "Trace" if kind == "traces" else "Event"
    tracer = Tracer(configured(f"org.apache.flink.{kind}.{name}{word}ReporterFactory", kind))
    assert (tracer.has_spans, tracer.has_events) == (kind == "traces", kind == "events")


def test_a_reporter_that_cannot_be_opened_loses_only_its_own_spans(caplog: pytest.LogCaptureFixture) -> None:
    tracer = Tracer(configured(broken="yes"))
    tracer.start()
    tracer.close()
    assert "no such receiver" in caplog.text
    tracer.add_span(Span.builder("scope", "late"))


def test_a_failing_reporter_is_logged_with_the_number_of_lost_spans(caplog: pytest.LogCaptureFixture) -> None:
    CollectingReporter.error = OSError("refused")
    tracer = Tracer(configured())
    tracer.start()
    tracer.add_span(Span.builder("scope", "lost"))
    tracer.close()
    assert "has lost 1 items: OSError: refused" in caplog.text


def test_a_reporter_that_hangs_holds_a_bounded_number_of_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "MAX_WAITING", 10)
    monkeypatch.setattr(reporting, "STOP_TIMEOUT_S", 0)
    CollectingReporter.gate.clear()
    tracer = Tracer(configured())
    tracer.start()
    for _ in range(100):
        tracer.add_span(Span.builder("scope", "name"))
    tracer.close()
    CollectingReporter.gate.set()
    assert CollectingReporter.reported.wait(WAIT_S)
    for thread in tracer._spans:
        thread.join(WAIT_S)
    assert len(CollectingReporter.spans) <= 20, "a full queue, and the batch that the reporter holds"


def test_unknown_options_of_a_known_reporter_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    Tracer(configured("otel", **{"exporter.endpont": "http://localhost:1"}))
    assert "did you mean `exporter.endpoint`" in caplog.text


def test_the_log_reporter_writes_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tracer = Tracer(configured("log"))
    tracer.start()
    parent = SpanContext.new()
    span = Span.builder("scope", "outer").set_parent(parent).set_attribute("list", [1, 2])
    tracer.add_span(span.add_child(Span.builder("scope", "inner")))
    tracer.close()
    (line,) = [record.getMessage() for record in caplog.records if "Reported span" in record.getMessage()]
    document = json.loads(line.partition(": ")[2])
    assert (document["name"], document["parentSpanId"]) == ("outer", parent.span_id)
    assert document["attributes"] == {"list": [1, 2]}
    assert document["children"][0]["parentSpanId"] == document["spanId"]


def test_metric_groups_add_their_variables_to_spans_and_events() -> None:
    install_tracer(tracer := Tracer(configured()))
    tracer.start()
    group = NamedMetricGroup(("host",), {"<job_name>": "words"})
    MetricRegistry().register(MetricScope(), group)
    group.add_span(Span.builder(Tracer, "mine"))
    group.add_event(Event.builder(Tracer, "mine"))
    tracer.close()
    (span,) = CollectingReporter.spans
    assert span.attributes == {"job_name": "words"}
    assert span.scope == "flinkpy.traces.reporting.Tracer"


def test_an_event_with_an_unknown_severity_is_refused() -> None:
    with pytest.raises(ValueError, match="TRACE, DEBUG, INFO, WARN, ERROR, FATAL, not 'LOUD'"):
        Event.builder("scope", "name").set_severity("LOUD")
