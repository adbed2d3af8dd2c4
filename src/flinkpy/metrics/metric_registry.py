"""MetricRegistry: the metric groups of a process and their current values; NamedMetricGroup: one group.

Source: org.apache.flink.runtime.metrics.MetricRegistryImpl, dump.MetricQueryService.
"""

from __future__ import annotations

import enum
import logging
import numbers
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from flinkpy.common.error_text import USER_ERRORS, bounded_text, describe
from flinkpy.metrics.metricbase import (
    DEFAULT_TIME_SPAN_S,
    Counter,
    CounterView,
    Distribution,
    Gauge,
    Histogram,
    Meter,
    Metric,
    MetricGroup,
    TimerGauge,
    View,
)

__all__ = [
    "MetricRegistry",
    "MetricScope",
    "MetricValue",
    "NamedMetricGroup",
    "ScopeKind",
    "read_metric",
]

logger = logging.getLogger(__name__)

#: Maximum length of a reported text; a gauge may return any value.
MAX_TEXT_CHARS = 1_000


M = TypeVar("M", bound=Metric)


class NamedMetricGroup(MetricGroup):
    """The implementation of MetricGroup. Thread: one thread writes, any thread reads.

    Source: org.apache.flink.runtime.metrics.groups.{AbstractMetricGroup,GenericMetricGroup,GenericKeyMetricGroup}.

    Args:
        scope: names of the enclosing scopes and the group, outermost first.
        variables: values by variable name, with angle brackets.
        delimiter: separates the parts of a metric's full name.
        logical_scope: the kinds of the enclosing scopes, e.g. `taskmanager`, `job`, `task`, and names of groups.
            Values of variables are not part of it.
    """

    def __init__(
        self,
        scope: tuple[str, ...] = (),
        variables: dict[str, str] | None = None,
        delimiter: str = ".",
        logical_scope: tuple[str, ...] = (),
    ) -> None:
        self._scope = scope
        #: Names of metrics in reporters that send variables as labels. It has no values of variables.
        self.logical_scope = logical_scope
        self._variables = dict(variables or {})
        self._delimiter = delimiter
        self._groups: dict[tuple[str, str | None], NamedMetricGroup] = {}
        self._metrics: dict[str, Metric] = {}

    def add_group(self, name: str, extra: str | None = None) -> NamedMetricGroup:
        group = self._groups.get((name, extra))
        if group is None:
            path = (name,) if extra is None else (name, extra)
            variables = self._variables if extra is None else {**self._variables, f"<{name}>": extra}
            group = NamedMetricGroup((*self._scope, *path), variables, self._delimiter, (*self.logical_scope, name))
            self._groups[(name, extra)] = group
        return group

    def remove_group(self, name: str, extra: str | None = None) -> None:
        """Removes a subgroup; its metrics are no longer reported."""
        self._groups.pop((name, extra), None)

    def counter(self, name: str) -> Counter:
        return self._metric(name, Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        if not callable(obj):
            raise TypeError(f"gauge {name!r} needs a function that returns its value, not a {type(obj).__name__}")
        if name in self._metrics:
            # As in Flink the first gauge stays, and metrics never fail a program.
            logger.warning("Metric %s already exists, so the gauge is not registered", self.get_metric_identifier(name))
            return
        self._metrics[name] = Gauge(obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._metric(name, Meter, lambda: Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        return self._metric(name, Distribution, Distribution)

    def histogram(self, name: str, histogram: Histogram | None = None) -> Histogram:
        return self._metric(name, Histogram, lambda: histogram or Histogram())

    def time_of(self, name: str, total_ms: Callable[[], int]) -> None:
        """Registers the milliseconds per second that a total time in milliseconds grows by."""
        self._metric(name, TimerGauge, lambda: TimerGauge(total_ms))

    def count_of(self, name: str, count: Callable[[], int]) -> None:
        """Registers a count that a function returns, and its rate as `<name>PerSecond`."""
        counter = self._metric(name, Counter, lambda: CounterView(count))
        self._metric(f"{name}PerSecond", Meter, lambda: Meter(DEFAULT_TIME_SPAN_S, counter))

    def count_only(self, name: str, count: Callable[[], int]) -> None:
        """Registers a count that a function returns, without a rate."""
        self._metric(name, Counter, lambda: CounterView(count))

    def register(self, name: str, metric: M) -> M:
        """Registers a metric. Returns the one that has the name already, if there is one."""
        return self._metric(name, type(metric), lambda: metric)

    def get_all_variables(self) -> dict[str, str]:
        return dict(self._variables)

    def get_scope_components(self) -> tuple[str, ...]:
        return self._scope

    def get_metric_identifier(self, metric_name: str) -> str:
        return self._delimiter.join((*self._scope, metric_name))

    def metrics(self) -> Iterator[tuple[str, Metric]]:
        """Yields all metrics of this group and its subgroups with their names relative to this group. Any thread.

        The parts of these names are separated by dots, whatever delimiter is configured, as in Flink's REST API.
        """
        yield from self.own_metrics()
        for (name, extra), group in list(self._groups.items()):
            prefix = name if extra is None else f"{name}.{extra}"
            for below, metric in group.metrics():
                yield f"{prefix}.{below}", metric

    def groups(self) -> Iterator[NamedMetricGroup]:
        """Yields this group and all groups below it. Any thread."""
        yield self
        for group in list(self._groups.values()):
            yield from group.groups()

    def own_metrics(self) -> list[tuple[str, Metric]]:
        """Returns the names and metrics of this group without its subgroups. Any thread."""
        return list(self._metrics.items())

    def _metric(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = make()
        if not isinstance(metric, kind):
            raise ValueError(
                f"metric {name!r} already exists as a {type(metric).__name__.lower()}, not a {kind.__name__.lower()}"
            )
        return metric


class ScopeKind(enum.Enum):
    """A kind of things that have metrics."""

    PROCESS = "process"
    JOB = "job"
    #: The coordinator of an operator, in the JobMaster.
    COORDINATOR = "coordinator"
    #: A subtask, or one of its operators.
    TASK = "task"


#: The `subtask_index` of a scope that is not a subtask's.
NO_SUBTASK = -1


@dataclass(frozen=True, slots=True)
class MetricScope:
    """The process, job, coordinator, task or operator that a registered group belongs to. By default the process.

    Source: org.apache.flink.runtime.metrics.dump.QueryScopeInfo.
    """

    job_id: str = ""
    vertex_id: str = ""
    subtask_index: int = NO_SUBTASK
    attempt_number: int = 0
    #: Empty for the metrics of the whole task.
    operator_id: str = ""
    operator_name: str = ""

    @property
    def kind(self) -> ScopeKind:
        if not self.job_id:
            return ScopeKind.PROCESS
        if not self.vertex_id:
            return ScopeKind.JOB
        return ScopeKind.COORDINATOR if self.subtask_index == NO_SUBTASK else ScopeKind.TASK


class MetricValue(NamedTuple):
    """The value of a metric at one point in time.

    Attributes:
        kind: `counter`, `meter`, `distribution`, `histogram` or `gauge`.
        value: the count of a counter, distribution or histogram; the events per second of a meter; a gauge's value.
        statistics: further values by name, e.g. `count` of a meter or `p99` of a histogram.
    """

    kind: str
    value: int | float | str
    statistics: dict[str, float]


class MetricRegistry:
    """The registered metric groups of a process. Thread: any. The lock is never held while a user's gauge runs."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._groups: dict[MetricScope, NamedMetricGroup] = {}
        self._listeners: list[Callable[[MetricScope, NamedMetricGroup], None]] = []

    def register(self, scope: MetricScope, group: NamedMetricGroup) -> None:
        with self._lock:
            self._groups[scope] = group

    def unregister(self, scope: MetricScope, group: NamedMetricGroup) -> None:
        """Removes a group; does nothing if another group has the scope by now. Idempotent."""
        with self._lock:
            if self._groups.get(scope) is not group:
                return
            del self._groups[scope]
        for listener in self._listeners:
            listener(scope, group)

    def on_unregistered(self, listener: Callable[[MetricScope, NamedMetricGroup], None]) -> None:
        """Adds a listener that is called, on any thread, when a group is unregistered."""
        self._listeners.append(listener)

    def update_meters(self) -> None:
        """Updates all rates; must be called every `metricbase.UPDATE_INTERVAL_S` seconds."""
        for _, group in self.groups():
            for name, metric in group.metrics():
                if isinstance(metric, View):
                    try:
                        metric.update()
                    except USER_ERRORS as error:
                        logger.debug("Cannot update %s: %s", name, describe(error))

    def groups(self, job_id: str | None = None) -> list[tuple[MetricScope, NamedMetricGroup]]:
        with self._lock:
            return [(scope, group) for scope, group in self._groups.items() if job_id in (None, scope.job_id)]

    def read(
        self,
        job_id: str | None = None,
        vertex_id: str | None = None,
        names: Collection[str] = (),
        kinds: Collection[ScopeKind] = tuple(ScopeKind),
        name_ends: tuple[str, ...] = (),
    ) -> Iterator[tuple[MetricScope, str, MetricValue]]:
        """Yields the values of the metrics of one job or vertex, or of all. Runs the gauges of user functions.

        Args:
            names: the names of the metrics to read.
            kinds: the kinds of scopes to read.
            name_ends: ends of the names of further metrics to read. Without names and ends, all metrics are read.
        """
        everything = not (names or name_ends)
        for scope, group in self.groups(job_id):
            if vertex_id in (None, scope.vertex_id) and scope.kind in kinds:
                for name, metric in group.metrics():
                    if everything or name in names or name.endswith(name_ends):
                        yield scope, name, read_metric(metric, name)


def read_metric(metric: Metric, name: str = "") -> MetricValue:
    """Returns the current value of the metric, or the text of the error if it cannot be read."""
    kind = metric.kind
    try:
        if isinstance(metric, Gauge | TimerGauge):
            return MetricValue(kind, _sendable(metric.get_value()), {})
        if isinstance(metric, Counter):
            return MetricValue(kind, _sendable(metric.get_count()), {})
        if isinstance(metric, Meter):
            count, rate = map(float, metric.count_and_rate())
            return MetricValue(kind, rate, {"count": count, "rate": rate})
        if isinstance(metric, Distribution):
            return MetricValue(kind, _sendable(metric.count), _floats(metric.statistics()))
        assert isinstance(metric, Histogram)
        return MetricValue(kind, _sendable(metric.get_count()), _floats(metric.statistics()))
    except USER_ERRORS as error:
        logger.debug("Cannot read %s %s: %s", kind, name, describe(error))
        return MetricValue(kind, bounded_text(describe(error), MAX_TEXT_CHARS), {})


def _sendable(value: Any) -> int | float | str:
    """Returns a number of at most 64 bits, or text."""
    # Most values; the checks below take several times as long.
    if type(value) is float or (type(value) is int and -(1 << 63) <= value < 1 << 63):
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool):
        return str(value).lower()
    # The scalars of numpy are such numbers too, but most of them are no subclasses of int or float.
    if isinstance(value, numbers.Integral):
        if -(1 << 63) <= int(value) < 1 << 63:
            return int(value)
    elif isinstance(value, numbers.Real):
        return float(value)
    return bounded_text(str(value), MAX_TEXT_CHARS)


def _floats(statistics: dict[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in statistics.items()}
