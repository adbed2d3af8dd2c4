"""The kinds of metrics, and the interface of metric groups.

The task's thread writes a metric; any thread may read it. An update per record costs one addition; rates and quantiles
are computed when the metric is read.

Source: pyflink.metrics.metricbase, org.apache.flink.metrics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from flinkpy.common.clock import Clock, SystemClock
from flinkpy.traces.trace_context import span_of_functions
from flinkpy.traces.tracer_slot import current_tracer

if TYPE_CHECKING:
    from flinkpy.traces.event import EventBuilder
    from flinkpy.traces.span import SpanBuilder

__all__ = ["Counter", "Distribution", "Gauge", "Histogram", "Meter", "Metric", "MetricGroup", "TimerGauge"]

#: Interval at which meters are updated. Source: org.apache.flink.metrics.View.
UPDATE_INTERVAL_S = 5
#: The time span of rates. Source: org.apache.flink.metrics.{MeterView,View}, runtime.metrics.TimerGauge.
DEFAULT_TIME_SPAN_S = 60
#: The shortest time that a rate is computed over. A meter that was created just now would report huge rates otherwise.
MIN_ELAPSED_S = 1.0
#: Number of values that a histogram covers. Source: metrics.latency.history-size and DescriptiveStatisticsHistogram.
DEFAULT_HISTORY_SIZE = 128
#: Quantiles that a histogram reports in addition to count, min, max, mean and stddev.
QUANTILES = (("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p98", 0.98), ("p99", 0.99), ("p999", 0.999))


class Metric(ABC):  # noqa: B024  a common base, as in PyFlink
    __slots__ = ()

    #: `counter`, `meter`, `distribution`, `histogram` or `gauge`.
    kind: ClassVar[str] = "gauge"


class Counter(Metric):
    """A count that goes up and down."""

    __slots__ = ("_count",)

    kind = "counter"

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count


class CounterView(Counter):
    """A counter whose value a function returns."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], int]) -> None:
        super().__init__()
        self._function = function

    def get_count(self) -> int:
        return self._function()


class Gauge(Metric):
    """A value that a function returns when the gauge is read, on any thread."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def get_value(self) -> Any:
        return self._function()


class View(Metric):
    """A metric that depends on its own past, so that one thread must call `update` every `UPDATE_INTERVAL_S` seconds.

    Source: org.apache.flink.metrics.View.
    """

    __slots__ = ()

    @abstractmethod
    def update(self) -> None: ...


class Meter(View):
    """Counts events and computes their rate over the last `time_span_in_seconds`, or since its creation if later.

    Source: org.apache.flink.metrics.MeterView.
    Differs: Flink divides by the whole time span from the start and reads the count only at updates. So a meter reports
    too low rates in its first minute, and the rate that it had up to five seconds ago. Here the rate is the count of
    events divided by the time that has really passed.

    Args:
        time_span_in_seconds: length of the time span of the rate.
        counter: a counter whose events are included.
        clock: measures the time. By default the clock of the system.
    """

    __slots__ = ("_clock", "_count", "_counter", "_samples")

    kind = "meter"

    def __init__(
        self,
        time_span_in_seconds: int = DEFAULT_TIME_SPAN_S,
        counter: Counter | None = None,
        clock: Clock | None = None,
    ) -> None:
        num_intervals = max(time_span_in_seconds // UPDATE_INTERVAL_S, 1)
        self._clock = clock or _SYSTEM_CLOCK
        self._count = 0
        self._counter = counter
        #: The times and counts of the last updates, oldest first. The first one is the creation.
        self._samples: deque[tuple[int, int]] = deque(maxlen=num_intervals + 1)
        self.update()

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count if self._counter is None else self._count + self._counter.get_count()

    def get_rate(self) -> float:
        """Events per second."""
        return self.count_and_rate()[1]

    def count_and_rate(self) -> tuple[int, float]:
        """Returns both values as of the same moment."""
        since_ns, before = self._samples[0]
        count = self.get_count()
        elapsed_s = (self._clock.monotonic_ns() - since_ns) / 1e9
        return count, (count - before) / max(elapsed_s, MIN_ELAPSED_S)

    def update(self) -> None:
        self._samples.append((self._clock.monotonic_ns(), self.get_count()))


class TimerGauge(View):
    """The milliseconds of each second, from 0 to 1000, that a task spent in a state, over the last minute.

    Source: org.apache.flink.runtime.metrics.TimerGauge.

    Args:
        total_ms: returns the time spent so far, including a stay that is still in progress.
        clock: measures the time. By default the clock of the system.
    """

    __slots__ = ("_meter",)

    def __init__(self, total_ms: Callable[[], int], clock: Clock | None = None) -> None:
        self._meter = Meter(DEFAULT_TIME_SPAN_S, CounterView(total_ms), clock)

    def get_value(self) -> int:
        return min(1000, max(0, round(self._meter.get_rate())))

    def update(self) -> None:
        self._meter.update()


_SYSTEM_CLOCK = SystemClock()


class Distribution(Metric):
    """Count, sum, minimum, maximum and mean of all values seen."""

    __slots__ = ("count", "max", "min", "sum")

    kind = "distribution"

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
        """Returns sum, min, max and mean by name; zeros if there are no values."""
        return {
            "sum": self.sum,
            "min": self.min or 0,
            "max": self.max or 0,
            "mean": self.sum / self.count if self.count else 0.0,
        }


class Histogram(Metric):
    """Statistics of the last `history_size` values.

    Source: org.apache.flink.runtime.metrics.DescriptiveStatisticsHistogram.
    """

    __slots__ = ("_count", "_values")

    kind = "histogram"

    def __init__(self, history_size: int = DEFAULT_HISTORY_SIZE) -> None:
        if history_size < 1:
            raise ValueError(f"history_size of a histogram must be at least 1, not {history_size}")
        self._count = 0
        self._values: list[float | None] = [None] * history_size

    def update(self, value: float) -> None:
        values = self._values
        values[self._count % len(values)] = value
        self._count += 1

    def get_count(self) -> int:
        """Returns the number of all values, including those that have left the history."""
        return self._count

    def statistics(self) -> dict[str, float]:
        """Returns min, max, mean, stddev and p50 to p999 of the values in the history; zeros if it is empty."""
        values = sorted(value for value in list(self._values) if value is not None)
        if not values:
            return dict.fromkeys(("min", "max", "mean", "stddev", *(name for name, _ in QUANTILES)), 0.0)
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values)
        statistics = {
            "min": values[0],
            "max": values[-1],
            "mean": mean,
            "stddev": math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else 0.0,
        }
        statistics.update((name, _quantile(values, quantile)) for name, quantile in QUANTILES)
        return statistics


def _quantile(ordered: list[float], quantile: float) -> float:
    """Returns the quantile, interpolated between its two neighbours like Apache Commons' Percentile."""
    place = quantile * (len(ordered) + 1)
    below = math.floor(place)
    if below < 1:
        return ordered[0]
    if below >= len(ordered):
        return ordered[-1]
    return ordered[below - 1] + (place - below) * (ordered[below] - ordered[below - 1])


class MetricGroup(ABC):
    """A named container of metrics and subgroups. Registering a name again returns the existing metric.

    Source: pyflink.metrics.MetricGroup; methods marked "Beyond PyFlink" are from org.apache.flink.metrics.MetricGroup.

    Example:
        class Parse(MapFunction):
            def open(self, runtime_context):
                self.errors = runtime_context.get_metrics_group().counter("errors")
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Returns the subgroup `name`. With `extra`, `name` is a variable of the subgroup and `extra` its value."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Returns the counter `name`."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Registers a gauge.

        Args:
            name: name of the metric.
            obj: a function that returns the value. Another thread calls it, so it must not change anything.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Returns the meter `name`, whose rate covers the last `time_span_in_seconds`."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Returns the distribution `name`."""

    @abstractmethod
    def histogram(self, name: str, histogram: Histogram | None = None) -> Histogram:
        """Returns the histogram `name`. Beyond PyFlink.

        Args:
            name: name of the metric.
            histogram: the histogram to register if there is none; by default a new one.
        """

    def add_span(self, span_builder: SpanBuilder) -> None:
        """Reports a span to the reporters of `traces.reporters`. Beyond PyFlink.

        The variables of this group become attributes of the span, without angle brackets. A span without a parent gets
        that of the job: its submission, or its recovery. Without reporters, it does nothing. It never blocks.
        """
        if (tracer := current_tracer()) is not None:
            if span_builder.parent is None:
                span_builder.set_parent(span_of_functions())
            tracer.add_span(span_builder.set_attributes(self._attributes()))

    def add_event(self, event_builder: EventBuilder) -> None:
        """Reports an event to the reporters of `events.reporters`. Beyond PyFlink. See `add_span`."""
        if (tracer := current_tracer()) is not None:
            if event_builder.parent is None:
                event_builder.set_parent(span_of_functions())
            tracer.add_event(event_builder.set_attributes(self._attributes()))

    def _attributes(self) -> dict[str, str]:
        return {name.strip("<>"): value for name, value in self.get_all_variables().items()}

    @abstractmethod
    def get_all_variables(self) -> dict[str, str]:
        """Returns the variables of this group and its parents, e.g. `<job_name>`. Beyond PyFlink."""

    @abstractmethod
    def get_scope_components(self) -> tuple[str, ...]:
        """Returns the names of the enclosing scopes and this group, outermost first. Beyond PyFlink."""

    @abstractmethod
    def get_metric_identifier(self, metric_name: str) -> str:
        """Returns the full name of a metric: scope and name, joined by `metrics.scope.delimiter`. Beyond PyFlink."""
