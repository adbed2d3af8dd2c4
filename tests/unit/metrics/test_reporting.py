"""Metric reporters: their configuration and their output."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.reporters import MetricReporter, MetricReporting, ReportedMetric, create_reporter
from flinkpy.metrics.reporters.json_lines import JsonLinesReporter
from flinkpy.metrics.reporters.log import LogReporter
from flinkpy.metrics.reporters.metric_selection import MetricSelection

SCOPE = MetricScope("job", "vertex", 0, 0)


_reported = MetricSelection({}, ".").reported


class Remembering(MetricReporter):
    """A reporter configured by its name, like a user's reporter."""

    reports: list[list[ReportedMetric]]
    options: Mapping[str, str]
    made: list[Remembering] = []

    def __init__(self) -> None:
        self.reports = []
        self.is_closed = False
        self.made.append(self)

    def open(self, options: Mapping[str, str]) -> None:
        self.options = options

    def report(self, metrics: Iterable[ReportedMetric]) -> None:
        self.reports.append(list(metrics))

    def close(self) -> None:
        self.is_closed = True


def group_of(count: int) -> NamedMetricGroup:
    group = NamedMetricGroup(("host", "map"), {"<job_name>": "j"})
    group.counter("hits").inc(count)
    return group


def reporting(registry: MetricRegistry, **options: str) -> MetricReporting:
    properties = {f"metrics.reporter.mine.{key.replace('_', '.')}": value for key, value in options.items()}
    return MetricReporting(Configuration.from_dict({"metrics.reporters": "mine", **properties}), registry)


def test_a_users_reporter_gets_current_metrics_and_those_of_ended_tasks() -> None:
    registry = MetricRegistry()
    running, ended = group_of(1), group_of(2)
    registry.register(SCOPE, running)
    another = MetricScope("job", "vertex", 1, 0)
    registry.register(another, ended)
    name = f"{Remembering.__module__}:Remembering"
    under_test = reporting(registry, factory_class=name, interval="1 h", path="x")
    under_test.start()
    registry.unregister(another, ended)
    under_test.close()
    (reporter,) = Remembering.made
    assert reporter.options["path"] == "x" and reporter.is_closed
    (report,) = reporter.reports
    assert [(one.identifier, one.reading.value) for one in report] == [("host.map.hits", 2), ("host.map.hits", 1)]
    assert report[0].variables == {"<job_name>": "j"}


def test_a_metric_has_the_variables_of_its_own_group() -> None:
    group = group_of(1)
    group.add_group("key", "value").counter("misses")
    hits, misses = _reported([group])
    assert hits.variables == {"<job_name>": "j"}
    assert (misses.identifier, misses.variables) == ("host.map.key.value.misses", {"<job_name>": "j", "<key>": "value"})
    assert (misses.name, misses.logical_scope) == ("misses", "key")


def test_the_jsonlines_reporter_appends_one_object_per_metric(tmp_path: Path) -> None:
    reporter = JsonLinesReporter(ManualClock(5_000))
    reporter.open({"path": str(tmp_path / "metrics-%p.jsonl")})
    group = group_of(3)
    group.distribution("sizes").update(4)
    reporter.report(_reported([group]))
    reporter.report(_reported([]))
    reporter.report(_reported([group_of(4)]))
    (path,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {
        "timestamp_ms": 5_000,
        "metric": "host.map.hits",
        "kind": "counter",
        "value": 3,
        "variables": {"job_name": "j"},
    }
    assert (lines[1]["metric"], lines[1]["mean"]) == ("host.map.sizes", 4.0)
    assert len(lines) == 3


def test_the_log_reporter_logs_all_metrics(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        LogReporter().report(_reported([group_of(3)]))
    assert "host.map.hits: 3" in caplog.text


@pytest.mark.parametrize(
    ("factory_class", "message"),
    [
        ("", "metrics.reporter.mine.factory.class is not set"),
        ("nonsense", "'nonsense' is neither one of prometheus, .*, jsonlines, jmx nor a loadable"),
        ("json:JSONDecoder", "is not a MetricReporter"),
    ],
)
def test_an_invalid_reporter_is_named(factory_class: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_reporter("mine", factory_class)


def test_a_configuration_written_for_flink_may_name_its_log_reporter() -> None:
    assert isinstance(create_reporter("x", "org.apache.flink.metrics.slf4j.Slf4jReporterFactory"), LogReporter)


def test_the_jsonlines_reporter_needs_a_path() -> None:
    with pytest.raises(ConfigurationError, match="needs the option `path`"):
        JsonLinesReporter().open({})
