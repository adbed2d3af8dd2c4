"""The reporters send what Flink's send: names, labels, kinds and values.

`tests/recorded/flink_reporters_2.3.0.json` is what the reporters of `flink-metrics-*` 2.3.0 sent for the metrics of an
operator in Flink's own groups.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from report_servers import http_server

from flinkpy.metrics.metric_registry import MetricValue
from flinkpy.metrics.reporters import ReportedMetric
from flinkpy.metrics.reporters.graphite import graphite_lines
from flinkpy.metrics.reporters.influxdb import influx_lines
from flinkpy.metrics.reporters.metric_selection import MetricSelection
from flinkpy.metrics.reporters.otel import OpenTelemetryMetricReporter
from flinkpy.metrics.reporters.prometheus_families import MetricFamilies
from flinkpy.metrics.reporters.statsd import statsd_packets
from flinkpy.metrics.scope_formats import GroupKind, ScopeFormats

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "recorded" / "flink_reporters_2.3.0.json").read_text(encoding="utf-8")
)
VARIABLES = {
    "<host>": "h.1",
    "<tm_id>": "tm-1",
    "<job_id>": "00000000000000010000000000000002",
    "<job_name>": "my job",
    "<task_id>": "00000000000000030000000000000004",
    "<task_name>": "my task",
    "<task_attempt_id>": "ATTEMPT",
    "<task_attempt_num>": "6",
    "<subtask_index>": "5",
    "<operator_id>": "00000000000000070000000000000008",
    "<operator_name>": "my op",
}


def metrics() -> list[ReportedMetric]:
    """Returns the metrics for which the recording was made."""
    group = ScopeFormats().group(GroupKind.OPERATOR, VARIABLES)
    group.counter("count").inc(3)
    gauges = {"real": 1.5, "low": -2, "yes": True, "text": 'say "hi"', "my.dotted gauge": 4}
    for name, value in gauges.items():
        group.gauge(name, lambda value=value: value)
    group.meter("events")
    for value in range(1, 101):
        group.histogram("times").update(value)
    group.add_group("my-group").add_group("ta.ble", "or ders").counter("hits").inc(9)
    event_rate = MetricValue("meter", 2.5, {"count": 5.0, "rate": 2.5})
    return [
        dataclasses.replace(metric, reading=event_rate) if metric.name == "events" else metric
        for metric in MetricSelection({}, ".").reported([group])
    ]


def samples(text: str) -> dict[tuple[str, str, tuple[tuple[str, str], ...]], float]:
    """Returns the samples of Prometheus' text format by type, name and labels."""
    return {
        (family.type, sample.name, tuple(sorted(sample.labels.items()))): round(sample.value, 9)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_gets_the_same_samples() -> None:
    registry = CollectorRegistry()
    registry.register(MetricFamilies({}).collected(metrics()))
    # Flink writes a comma after the last label.
    theirs = samples("\n".join(RECORDED["prometheus"]).replace(",}", "}") + "\n")
    # Flink reports a gauge without a number as 0.
    expected = {key: value for key, value in theirs.items() if not key[1].endswith("_text")}
    assert len(theirs) - len(expected) == 1
    assert samples(generate_latest(registry).decode()) == expected


def test_help_texts_of_prometheus_are_the_same() -> None:
    registry = CollectorRegistry()
    registry.register(MetricFamilies({}).collected(metrics()))
    ours = {line for line in generate_latest(registry).decode().splitlines() if line.startswith("#")}
    theirs = {line for line in RECORDED["prometheus"] if line.startswith("#")}
    assert ours == {line for line in theirs if "_text " not in line}


def lines_of_numbers(lines: list[str], separator: str) -> set[tuple[str, float]]:
    """Returns names and values. Values are rounded to the two digits that Flink's reporter for Graphite writes."""
    pairs = (line.rsplit(separator, 1) for line in lines)
    return {(name, round(float(value), 2)) for name, value in pairs if re.fullmatch(r"[-\d.]+", value)}


def test_statsd_gets_the_same_gauges() -> None:
    ours = b"\n".join(statsd_packets(metrics())).decode().splitlines()
    theirs = [line.removesuffix("|g") for line in RECORDED["statsd"]]
    # Flink sends `true` and the text, which a server cannot read.
    without_number = {("h_1.taskmanager.tm-1.my job.my op.5.yes", 1.0)}
    assert lines_of_numbers([line.removesuffix("|g") for line in ours], ":") - without_number == lines_of_numbers(
        theirs, ":"
    )


def test_graphite_gets_the_same_lines() -> None:
    ours = [line.decode().rsplit(" ", 1)[0] for line in graphite_lines(metrics(), 7)]
    # These are always 0 in Flink.
    theirs = [line for line in RECORDED["graphite"] if not re.search(r"\.(m5_rate|m15_rate|mean_rate) ", line)]
    assert lines_of_numbers(ours, " ") == lines_of_numbers(theirs, " ")


def points(lines: list[str]) -> dict[str, dict[str, str | float]]:
    """Returns the fields of each point of InfluxDB by measurement and tags."""
    found: dict[str, dict[str, str | float]] = {}
    for line in lines:
        series, _, fields = re.sub(r"\\ ", "\0", line).partition(" ")
        pairs = (field.split("=", 1) for field in re.findall(r'\w+=(?:"(?:\\.|[^"])*"|[^,]+)', fields))
        found[series] = {
            name: value if value.startswith('"') else round(float(value.rstrip("i")), 9) for name, value in pairs
        }
    return found


def test_influxdb_gets_the_same_points() -> None:
    ours = points([line.rsplit(" ", 1)[0] for line in influx_lines(metrics(), 7)])
    theirs = points(RECORDED["influxdb"])
    # Flink sends the text "true".
    (name,) = [name for name in theirs if "operator_yes" in name]
    assert (theirs.pop(name), ours.pop(name)) == ({"value": '"true"'}, {"value": 1.0})
    # Flink counts the values in the history of a histogram; here it is the number of all values. Both are 100.
    assert ours == theirs


def test_opentelemetry_gets_the_same_messages() -> None:
    with http_server() as server:
        reporter = OpenTelemetryMetricReporter()
        reporter.open({"exporter.endpoint": server.url, "exporter.protocol": "HTTP"})
        reporter.report(metrics())
        body = server.request()[3]
    sent = MessageToDict(ExportMetricsServiceRequest.FromString(body))
    ours = {one["name"]: one for one in sent["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
    theirs = {one["name"]: one for one in RECORDED["otel"]}
    # Flink does not send booleans.
    del ours["flink.taskmanager.job.task.operator.yes"]
    assert ours.keys() == theirs.keys()
    for name, message in theirs.items():
        assert normalized(ours[name]) == normalized(message), name


def normalized(message: dict[str, Any]) -> dict[str, Any]:
    """Returns a message without times, with its attributes as a mapping and its quantiles once."""
    (kind,) = message.keys() & {"sum", "gauge", "summary"}
    (point,) = message[kind]["dataPoints"]
    values = {name: value for name, value in point.items() if not name.endswith("UnixNano")}
    values["attributes"] = {one["key"]: one["value"]["stringValue"] for one in point["attributes"]}
    if kind == "summary":
        values["quantileValues"] = {one.get("quantile", 0): round(one["value"], 9) for one in point["quantileValues"]}
    return {"kind": kind, **{name: value for name, value in message[kind].items() if name != "dataPoints"}, **values}


@pytest.mark.parametrize("delimiter", [".", "/", ""])
def test_delimiters_within_a_part_of_an_identifier_are_replaced(delimiter: str) -> None:
    group = ScopeFormats().group(GroupKind.TASK_MANAGER, {"<host>": "10.0.0.1", "<tm_id>": "a/b"})
    group.counter("c")
    (metric,) = MetricSelection({"scope.delimiter": delimiter}, ".").reported([group])
    expected = {".": "10_0_0_1.taskmanager.a/b.c", "/": "10.0.0.1/taskmanager/a_b/c"}
    # An empty option is not set.
    assert metric.identifier == expected.get(delimiter, expected["."])
    assert metric.filtered_identifier(str.upper) == metric.identifier.upper()
