"""Metrics of user functions: groups, names, kinds, and the values in a registry."""

from __future__ import annotations

import sys

import pytest

from flinkpy._proto import metrics_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.metrics import Counter, Distribution, Histogram, Meter, MetricGroup
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup, read_metric
from flinkpy.metrics.metricbase import Gauge, TimerGauge
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup, TaskMetricGroup

SCOPE = MetricScope("job", "vertex", 1, 0)
VARIABLES = {"<host>": "h", "<tm_id>": "tm", "<job_name>": "j", "<task_name>": "t", "<subtask_index>": "1"}


def test_groups_nest_and_adding_a_group_twice_returns_the_same_group() -> None:
    group: MetricGroup = NamedMetricGroup(("root",))
    inner = group.add_group("a").add_group("b")
    assert inner.get_scope_components() == ("root", "a", "b")
    assert group.add_group("a").add_group("b") is inner
    assert inner.get_metric_identifier("hits") == "root.a.b.hits"


def test_a_group_with_a_value_defines_a_variable_for_its_subgroups() -> None:
    group = NamedMetricGroup(("root",), {"<job_name>": "j"})
    inner = group.add_group("key", "value").add_group("more")
    assert inner.get_all_variables() == {"<job_name>": "j", "<key>": "value"}
    assert inner.get_scope_components() == ("root", "key", "value", "more")
    assert group.get_all_variables() == {"<job_name>": "j"}
    assert group.add_group("key") is not group.add_group("key", "value")


def test_registering_a_name_twice_returns_the_same_metric_and_refuses_another_kind() -> None:
    group = OperatorMetricGroup()
    counter = group.counter("hits")
    counter.inc()
    assert group.counter("hits") is counter
    with pytest.raises(ValueError, match="'hits' already exists as a counter, not a meter"):
        group.meter("hits")


def test_a_counter_goes_up_and_down() -> None:
    counter = Counter()
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    counter.dec()
    assert counter.get_count() == 3


def test_a_meter_returns_the_events_per_second_since_its_creation_and_later_of_its_span() -> None:
    clock = ManualClock()
    meter = Meter(10, clock=clock)
    meter.mark_event(50)
    assert meter.get_rate() == 50.0  # at least one second is assumed
    clock.advance(4_000)
    assert meter.get_rate() == 12.5
    for _ in range(4):
        clock.advance(5_000)
        meter.update()
    assert (meter.get_count(), meter.get_rate()) == (50, 0.0)  # the fifty are more than ten seconds ago
    meter.mark_event(20)
    assert meter.get_rate() == 2.0


def test_a_meter_divides_by_the_time_that_has_passed_if_updates_come_late() -> None:
    clock = ManualClock()
    meter = Meter(60, clock=clock)
    for _ in range(30):
        clock.advance(8_000)
        meter.mark_event(800)
        meter.update()
        assert meter.get_rate() == pytest.approx(100.0)


def test_a_meter_ignores_the_events_that_its_counter_had_before() -> None:
    clock, counter = ManualClock(), Counter()
    counter.inc(1_000_000)
    meter = Meter(60, counter, clock)
    counter.inc(30)
    clock.advance(3_000)
    assert (meter.get_count(), meter.get_rate()) == (1_000_030, 10.0)


def test_a_timer_gauge_returns_milliseconds_per_second_and_never_the_total() -> None:
    clock, busy_ms = ManualClock(), 0
    gauge = TimerGauge(lambda: busy_ms, clock)
    for _ in range(60):  # five minutes, busy for a quarter of the time
        clock.advance(5_000)
        busy_ms += 1_250
        gauge.update()
        assert gauge.get_value() == 250
    busy_ms += 10_000_000
    assert read_metric(gauge).value == 1000
    assert read_metric(gauge).kind == "gauge"


def test_a_distribution_returns_sum_extremes_and_mean() -> None:
    distribution = Distribution()
    assert read_metric(distribution).statistics == {"sum": 0, "min": 0, "max": 0, "mean": 0.0}
    for value in (4, -2, 7):
        distribution.update(value)
    reading = read_metric(distribution)
    assert (reading.kind, reading.value) == ("distribution", 3)
    assert reading.statistics == {"sum": 9, "min": -2, "max": 7, "mean": 3.0}


def test_a_histogram_covers_only_its_history() -> None:
    histogram = Histogram(history_size=100)
    for value in range(1_000):
        histogram.update(value)
    told = histogram.statistics()
    assert histogram.get_count() == 1_000
    assert (told["min"], told["max"], told["mean"]) == (900, 999, 949.5)
    assert told["p50"] == 949.5
    assert told["p99"] == pytest.approx(998.99)


def test_a_gauge_is_evaluated_on_reading_and_may_return_any_value() -> None:
    values: list[object] = [1, 1.5, True, "text", 1 << 70]
    assert [read_metric(Gauge(lambda v=value: v)).value for value in values] == [1, 1.5, "true", "text", str(1 << 70)]


def test_a_gauge_that_raises_reports_its_error_and_does_not_hide_others() -> None:
    registry = MetricRegistry()
    group = NamedMetricGroup()
    group.gauge("broken", lambda: 1 // 0)
    group.counter("whole").inc()
    registry.register(SCOPE, group)
    read = {name: reading.value for _, name, reading in registry.read()}
    assert read == {"broken": "ZeroDivisionError: integer division or modulo by zero", "whole": 1}


def test_an_unreadable_metric_reports_a_bounded_reason() -> None:
    too_large, no_number = Counter(), Histogram()
    too_large.inc(1 << 70)
    no_number.update("text")  # type: ignore[arg-type]
    no_number.update(1)
    exits = Gauge(lambda: sys.exit("\ud800"))
    huge = Gauge(lambda: "\udfff" * 1_000_000)

    for metric in (too_large, no_number, exits, huge):
        reading = read_metric(metric)
        dump = metrics_pb2.MetricDump(name="m", kind=reading.kind, text=str(reading.value))
        assert dump.ByteSize() < 5_000
    assert read_metric(exits).value == "SystemExit: \\ud800"
    assert read_metric(too_large).value == str(1 << 70)


def test_registering_a_gauge_twice_keeps_the_first() -> None:
    group = OperatorMetricGroup()
    group.gauge("size", lambda: 1)
    group.gauge("size", lambda: 2)
    assert dict(group.metrics())["size"].get_value() == 1  # type: ignore[attr-defined]


def test_a_gauge_needs_a_function() -> None:
    with pytest.raises(TypeError, match="gauge 'size' needs a function"):
        OperatorMetricGroup().gauge("size", 3)  # type: ignore[arg-type]


def test_an_operators_metrics_have_its_scope_and_variables() -> None:
    task = TaskMetricGroup(SCOPE, VARIABLES)
    operator = task.add_operator("id", "my map")
    assert task.get_scope_components() == ("h", "taskmanager", "tm", "j", "t", "1")
    assert operator.get_metric_identifier("hits") == "h.taskmanager.tm.j.my map.1.hits"
    assert operator.get_all_variables() == {**VARIABLES, "<operator_id>": "id", "<operator_name>": "my map"}


def test_the_scope_and_its_delimiter_are_configured() -> None:
    configuration = Configuration.from_dict(
        {"metrics.scope.operator": "<job_name>.<operator_name>", "metrics.scope.delimiter": "/"}
    )
    operator = TaskMetricGroup(SCOPE, VARIABLES, configuration).add_operator("id", "map")
    assert operator.add_group("g").get_metric_identifier("hits") == "j/map/g/hits"


def test_metrics_are_read_by_job_until_their_task_has_ended() -> None:
    registry = MetricRegistry()
    task = TaskMetricGroup(SCOPE, VARIABLES, registry=registry)
    task.add_operator("id", "map").add_group("g", "v").counter("hits").inc(4)
    assert [(scope.operator_name, name, r.value) for scope, name, r in registry.read("job")] == [
        ("map", "g.v.hits", 4),
    ]
    assert list(registry.read("another job")) == []
    task.close()
    task.close()
    assert list(registry.read()) == []


def test_a_later_attempt_is_not_unregistered_by_the_end_of_the_earlier_one() -> None:
    registry = MetricRegistry()
    first = TaskMetricGroup(SCOPE, VARIABLES, registry=registry)
    second = TaskMetricGroup(SCOPE, VARIABLES, registry=registry)
    second.counter("hits")
    first.close()
    assert [name for _, name, _ in registry.read()] == ["hits"]


def test_the_registry_updates_all_meters() -> None:
    registry = MetricRegistry()
    group = NamedMetricGroup()
    clock = ManualClock()
    meter = group.add_group("inner")._metric("events", Meter, lambda: Meter(5, clock=clock))
    registry.register(SCOPE, group)
    meter.mark_event(1_000)
    for _ in range(3):
        clock.advance(5_000)
        registry.update_meters()
    meter.mark_event(10)
    clock.advance(5_000)
    reading = next(registry.read())[2]
    assert (reading.value, reading.statistics) == (1.0, {"count": 1_010, "rate": 1.0})


def test_a_view_that_cannot_be_read_does_not_keep_others_from_being_updated() -> None:
    registry, group, clock, reads = MetricRegistry(), NamedMetricGroup(), ManualClock(), iter([0])
    group._metric("broken", TimerGauge, lambda: TimerGauge(lambda: next(reads), clock))
    meter = group._metric("events", Meter, lambda: Meter(5, clock=clock))
    registry.register(SCOPE, group)
    meter.mark_event(5)
    clock.advance(10_000)
    registry.update_meters()
    registry.update_meters()
    assert meter.get_rate() == 0.0
