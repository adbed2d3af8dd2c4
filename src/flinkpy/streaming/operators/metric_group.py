"""Metrics that user functions register, with PyFlink's MetricGroup surface.

Source: pyflink.metrics.MetricGroup. Differs: metrics live in the task process itself, no Beam in between.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class Counter:
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count


class Meter:
    """Events, and their rate over the last `time_span_in_seconds`."""

    __slots__ = ("_count", "_marks", "_span_s")

    def __init__(self, time_span_in_seconds: int = 60) -> None:
        self._span_s = time_span_in_seconds
        self._count = 0
        #: (second, events in it), one entry a second, none older than the span.
        self._marks: deque[tuple[int, int]] = deque(maxlen=time_span_in_seconds)

    def mark_event(self, value: int = 1) -> None:
        self._count += value
        second = int(time.monotonic())
        if self._marks and self._marks[-1][0] == second:
            self._marks[-1] = (second, self._marks[-1][1] + value)
        else:
            self._marks.append((second, value))

    def get_count(self) -> int:
        return self._count

    def get_rate(self) -> float:
        """Events per second over the span."""
        oldest = int(time.monotonic()) - self._span_s
        return sum(events for second, events in list(self._marks) if second > oldest) / self._span_s


class Distribution:
    """Count, sum, minimum and maximum of the values seen."""

    __slots__ = ("count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


class OperatorMetricGroup:
    """A named group of metrics; groups nest. The same name gives the same metric."""

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        self.scope = scope
        self._groups: dict[tuple[str, ...], OperatorMetricGroup] = {}
        self._metrics: dict[str, Counter | Meter | Distribution | Callable[[], int]] = {}

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetricGroup:
        """A subgroup `name`, or the key-value group `name=extra`."""
        path = (name,) if extra is None else (name, extra)
        group = self._groups.get(path)
        if group is None:
            group = self._groups[path] = OperatorMetricGroup((*self.scope, *path))
        return group

    def counter(self, name: str) -> Counter:
        metric = self._metrics.setdefault(name, Counter())
        if not isinstance(metric, Counter):
            raise ValueError(f"metric {name!r} exists and is no counter")
        return metric

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        self._metrics[name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        metric = self._metrics.setdefault(name, Meter(time_span_in_seconds))
        if not isinstance(metric, Meter):
            raise ValueError(f"metric {name!r} exists and is no meter")
        return metric

    def distribution(self, name: str) -> Distribution:
        metric = self._metrics.setdefault(name, Distribution())
        if not isinstance(metric, Distribution):
            raise ValueError(f"metric {name!r} exists and is no distribution")
        return metric

    def read(self) -> dict[str, float]:
        """Every metric of this group and its subgroups by its dotted name. Any thread."""
        values: dict[str, float] = {}
        for name, metric in list(self._metrics.items()):
            path = ".".join((*self.scope, name))
            if isinstance(metric, Counter | Meter):
                values[path] = metric.get_count()
                if isinstance(metric, Meter):
                    values[f"{path}.rate"] = metric.get_rate()
            elif isinstance(metric, Distribution):
                values[f"{path}.count"] = metric.count
                values[f"{path}.sum"] = metric.sum
                values[f"{path}.min"] = metric.min or 0
                values[f"{path}.max"] = metric.max or 0
            else:
                values[path] = metric()
        for group in list(self._groups.values()):
            values.update(group.read())
        return values
