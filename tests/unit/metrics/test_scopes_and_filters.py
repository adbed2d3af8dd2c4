"""Scopes of metric groups, and what a reporter selects: metrics, variables and delimiters."""

from __future__ import annotations

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError
from flinkpy.metrics.metric_filter import MetricFilter
from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.metrics.reporters.metric_selection import MetricSelection
from flinkpy.metrics.scope_formats import GroupKind, ScopeFormats

VARIABLES = {"<host>": "h", "<tm_id>": "te", "<job_name>": "j", "<task_name>": "t", "<subtask_index>": "0"}


def test_scopes_have_the_defaults_of_flink() -> None:
    formats = ScopeFormats()
    variables = {**VARIABLES, "<operator_name>": "o"}
    assert {kind.name: ".".join(formats.components(kind, variables)) for kind in GroupKind} == {
        "JOB_MANAGER": "h.jobmanager",
        "JOB_MANAGER_JOB": "h.jobmanager.j",
        "JOB_MANAGER_OPERATOR": "h.jobmanager.j.o",
        "TASK_MANAGER": "h.taskmanager.te",
        "TASK_MANAGER_JOB": "h.taskmanager.te.j",
        "TASK": "h.taskmanager.te.j.t.0",
        "OPERATOR": "h.taskmanager.te.j.o.0",
    }


def test_a_format_that_begins_with_a_star_begins_with_the_enclosing_one() -> None:
    formats = ScopeFormats(
        Configuration.from_dict(
            {"metrics.scope.tm": "<tm_id>", "metrics.scope.tm-job": "*.x", "metrics.scope.task": "*"}
        )
    )
    assert formats.components(GroupKind.TASK_MANAGER_JOB, VARIABLES) == ("te", "x")
    assert formats.components(GroupKind.TASK, VARIABLES) == ("te", "x")
    assert formats.components(GroupKind.JOB_MANAGER, VARIABLES) == ("h", "jobmanager")


def test_the_logical_scope_has_names_of_groups_but_no_values_of_variables() -> None:
    group = ScopeFormats().group(GroupKind.TASK, VARIABLES).add_group("split", "s-1").add_group("watermark")
    assert group.logical_scope == ("taskmanager", "job", "task", "split", "watermark")
    assert group.get_scope_components()[-3:] == ("split", "s-1", "watermark")


def test_names_for_rest_have_dots_whatever_delimiter_is_configured() -> None:
    formats = ScopeFormats(Configuration.from_dict({"metrics.scope.delimiter": "/"}))
    group = formats.group(GroupKind.TASK_MANAGER, VARIABLES)
    group.add_group("Status").counter("n")
    assert [name for name, _ in group.metrics()] == ["Status.n"]
    assert group.get_metric_identifier("n") == "h/taskmanager/te/n"


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ({}, {"job.uptime", "task.numRecordsIn", "task.numBytesIn", "task.latency"}),
        ({"filter.includes": "*.task"}, {"task.numRecordsIn", "task.numBytesIn", "task.latency"}),
        ({"filter.includes": "*:num*"}, {"task.numRecordsIn", "task.numBytesIn"}),
        ({"filter.includes": "*:numR*,up*;*:*:histogram"}, {"job.uptime", "task.numRecordsIn", "task.latency"}),
        ({"filter.excludes": "*:*:counter,gauge"}, {"task.latency"}),
        ({"filter.includes": "*.task:*:counter", "filter.excludes": "*:*Bytes*"}, {"task.numRecordsIn"}),
        ({"filter.includes": "taskmanager"}, set()),
    ],
)
def test_a_filter_chooses_by_scope_name_and_type(options: dict[str, str], accepted: set[str]) -> None:
    under_test = MetricFilter(options)
    metrics = {
        "job.uptime": ("jobmanager.job", "uptime", "gauge"),
        "task.numRecordsIn": ("taskmanager.job.task", "numRecordsIn", "counter"),
        "task.numBytesIn": ("taskmanager.job.task", "numBytesIn", "counter"),
        "task.latency": ("taskmanager.job.task", "latency", "histogram"),
    }
    assert {key for key, metric in metrics.items() if under_test.accepts(*metric)} == accepted


@pytest.mark.parametrize("text", ["a:b:counter:d", "a::counter", ":x"])
def test_a_filter_of_another_form_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"filter.excludes: '{text}' is not a filter; expected <scope>"):
        MetricFilter({"filter.excludes": text})


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'timer' is none of the types counter, gauge, histogram, meter"):
        MetricFilter({"filter.includes": "*:*:timer"})


def test_a_distribution_is_a_gauge_for_filters_as_in_pyflink() -> None:
    assert MetricFilter({"filter.includes": "*:*:gauge"}).accepts("x", "sizes", "distribution")


def test_a_reporter_has_its_own_delimiter_and_variables() -> None:
    group = NamedMetricGroup(("h", "a.b"), {"<host>": "h", "<job_id>": "1"}, logical_scope=("taskmanager",))
    group.counter("hits").inc()
    group.counter("misses")
    options = {
        "scope.delimiter": "_",
        "scope.variables.additional": "region:eu",
        "scope.variables.excludes": "job_id; nothing",
        "filter.includes": "taskmanager:hits",
    }
    (metric,) = MetricSelection(options, ".").reported([group])
    assert metric.identifier == "h_a.b_hits"
    assert metric.variables == {"<host>": "h", "<region>": "eu"}
    assert (metric.name, metric.scope, metric.logical_scope) == ("hits", ("h", "a.b"), "taskmanager")
    assert metric.filtered_identifier(lambda part: part.replace(".", "-")) == "h_a-b_hits"
