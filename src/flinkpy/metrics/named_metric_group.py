"""NamedMetricGroup: the implementation of MetricGroup.

Source: org.apache.flink.runtime.metrics.groups.{AbstractMetricGroup,GenericMetricGroup,GenericKeyMetricGroup}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flinkpy.metrics.metricbase import Counter, CounterView, Distribution, Gauge, Histogram, Meter, Metric, MetricGroup

__all__ = ["NamedMetricGroup"]

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Metric)


class NamedMetricGroup(MetricGroup):
    """A metric group with its metrics and subgroups. Thread: one thread writes, any thread reads.

    Args:
        scope: names of the enclosing scopes and the group, outermost first.
        variables: values by variable name, with angle brackets.
        delimiter: separates the parts of a metric's full name.
    """

    def __init__(
        self, scope: tuple[str, ...] = (), variables: dict[str, str] | None = None, delimiter: str = "."
    ) -> None:
        self._scope = scope
        self._variables = dict(variables or {})
        self._delimiter = delimiter
        self._groups: dict[tuple[str, str | None], NamedMetricGroup] = {}
        self._metrics: dict[str, Metric] = {}

    def add_group(self, name: str, extra: str | None = None) -> NamedMetricGroup:
        group = self._groups.get((name, extra))
        if group is None:
            path = (name,) if extra is None else (name, extra)
            variables = self._variables if extra is None else {**self._variables, f"<{name}>": extra}
            group = NamedMetricGroup((*self._scope, *path), variables, self._delimiter)
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

    def rate_of(self, name: str, count: Callable[[], int]) -> None:
        """Registers the rate of a count that a function returns."""
        self._metric(name, Meter, lambda: Meter(60, CounterView(count)))

    def count_of(self, name: str, count: Callable[[], int]) -> None:
        """Registers a count that a function returns, and its rate as `<name>PerSecond`."""
        counter = self._metric(name, Counter, lambda: CounterView(count))
        self._metric(f"{name}PerSecond", Meter, lambda: Meter(60, counter))

    def get_all_variables(self) -> dict[str, str]:
        return dict(self._variables)

    def get_scope_components(self) -> tuple[str, ...]:
        return self._scope

    def get_metric_identifier(self, metric_name: str) -> str:
        return self._delimiter.join((*self._scope, metric_name))

    def metrics(self) -> Iterator[tuple[str, Metric]]:
        """Yields all metrics of this group and its subgroups with their names relative to this group. Any thread."""
        yield from self.own_metrics()
        for (name, extra), group in list(self._groups.items()):
            prefix = name if extra is None else f"{name}{self._delimiter}{extra}"
            for below, metric in group.metrics():
                yield f"{prefix}{self._delimiter}{below}", metric

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
