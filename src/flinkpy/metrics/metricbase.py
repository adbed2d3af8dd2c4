"""The kinds of metrics, and the group they are registered in.

Each is written by one thread, the task's, and read by any. What happens per record is one addition; rates and
quantiles are worked out by who reads.

Source: pyflink.metrics.metricbase, org.apache.flink.metrics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["Counter", "Distribution", "Gauge", "Histogram", "Meter", "Metric", "MetricGroup"]

#: How often meters are advanced. Source: org.apache.flink.metrics.View.
UPDATE_INTERVAL_S = 5
#: Values a histogram looks back on. Source: metrics.latency.history-size and DescriptiveStatisticsHistogram.
DEFAULT_HISTORY_SIZE = 128
#: What is told of a histogram beside count, min, max, mean and stddev.
QUANTILES = (("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p98", 0.98), ("p99", 0.99), ("p999", 0.999))


class Metric(ABC):  # noqa: B024  a common base, as in PyFlink
    __slots__ = ()


class Counter(Metric):
    """A number that goes up and down."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count


class CounterView(Counter):
    """Counts what is counted elsewhere."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], int]) -> None:
        super().__init__()
        self._function = function

    def get_count(self) -> int:
        return self._function()


class Gauge(Metric):
    """A value that is asked for when somebody looks, from any thread."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def get_value(self) -> Any:
        return self._function()


class Meter(Metric):
    """Events, and their rate over a span of time that ends with the last update.

    `counter`: where events are counted too. Source: org.apache.flink.metrics.MeterView.
    """

    __slots__ = ("_count", "_counter", "_rate", "_samples", "_span_s", "_time")

    def __init__(self, time_span_in_seconds: int = 60, counter: Counter | None = None) -> None:
        self._span_s = max(time_span_in_seconds - time_span_in_seconds % UPDATE_INTERVAL_S, UPDATE_INTERVAL_S)
        self._count = 0
        self._counter = counter
        #: The count at the last updates, in a ring.
        self._samples = [0] * (self._span_s // UPDATE_INTERVAL_S + 1)
        self._time = 0
        self._rate = 0.0

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count if self._counter is None else self._count + self._counter.get_count()

    def get_rate(self) -> float:
        """Events per second."""
        return self._rate

    def update(self) -> None:
        """Called every `UPDATE_INTERVAL_S` seconds, by one thread."""
        self._time = (self._time + 1) % len(self._samples)
        self._samples[self._time] = self.get_count()
        oldest = self._samples[(self._time + 1) % len(self._samples)]
        self._rate = (self._samples[self._time] - oldest) / self._span_s


class Distribution(Metric):
    """Count, sum, minimum, maximum and mean of all values seen."""

    __slots__ = ("count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        self.count += 1
        self.sum += value
        if self.min is None or value < self.min:
            self.min = value
        if self.max is None or value > self.max:
            self.max = value

    def statistics(self) -> dict[str, float]:
        """By name: sum, min, max and mean; zeros where nothing was seen."""
        return {
            "sum": self.sum,
            "min": self.min or 0,
            "max": self.max or 0,
            "mean": self.sum / self.count if self.count else 0.0,
        }


class Histogram(Metric):
    """Quantiles of the last `history_size` values. Source: org.apache.flink.runtime.metrics.DescriptiveStatistics-
    Histogram."""

    __slots__ = ("_count", "_values")

    def __init__(self, history_size: int = DEFAULT_HISTORY_SIZE) -> None:
        if history_size < 1:
            raise ValueError(f"a histogram remembers at least one value, not {history_size}")
        self._count = 0
        self._values: list[float | None] = [None] * history_size

    def update(self, value: float) -> None:
        values = self._values
        values[self._count % len(values)] = value
        self._count += 1

    def get_count(self) -> int:
        """Values seen, not only those remembered."""
        return self._count

    def statistics(self) -> dict[str, float]:
        """min, max, mean, stddev and p50 to p999 of the values remembered; zeros where there are none."""
        values = sorted(value for value in list(self._values) if value is not None)
        if not values:
            return dict.fromkeys(("min", "max", "mean", "stddev", *(name for name, _ in QUANTILES)), 0.0)
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values)
        told = {
            "min": values[0],
            "max": values[-1],
            "mean": mean,
            "stddev": math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else 0.0,
        }
        told.update((name, _quantile(values, quantile)) for name, quantile in QUANTILES)
        return told


def _quantile(ordered: list[float], quantile: float) -> float:
    """Between the two values next to its place, as Apache Commons' Percentile has it."""
    place = quantile * (len(ordered) + 1)
    below = math.floor(place)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    return ordered[below - 1] + (place - below) * (ordered[below] - ordered[below - 1])


class MetricGroup(ABC):
    """A named container of metrics and further groups. The same name gives the same metric.

    Source: pyflink.metrics.MetricGroup; what it lacks is from org.apache.flink.metrics.MetricGroup.
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """The subgroup `name`; with `extra` the group of the variable `name`, whose value is `extra`."""

    @abstractmethod
    def counter(self, name: str) -> Counter: ...

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """`obj()` is the value; called by another thread than the function's, so it should only look."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter: ...

    @abstractmethod
    def distribution(self, name: str) -> Distribution: ...

    @abstractmethod
    def histogram(self, name: str, histogram: Histogram | None = None) -> Histogram:
        """Beyond PyFlink; `histogram`: one made by the caller."""

    @abstractmethod
    def get_all_variables(self) -> dict[str, str]:
        """Variables of this group and those it is in, e.g. `<job_name>`. Beyond PyFlink."""

    @abstractmethod
    def get_scope_components(self) -> tuple[str, ...]:
        """Where this group is, outermost first. Beyond PyFlink."""

    @abstractmethod
    def get_metric_identifier(self, metric_name: str) -> str:
        """The full name of a metric of this group: its scope and it, separated by `metrics.scope.delimiter`. Beyond
        PyFlink."""
