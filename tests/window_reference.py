"""A reference interpreter of windows: one record at a time, no batches, no state backend, no code of the engine.

It is slow and short, so that it can be read against Flink's documentation.

Source of the rules: org.apache.flink.streaming.runtime.operators.windowing.WindowOperator and its triggers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Window = tuple[int, int]  # start and end (exclusive), in ms
Result = tuple[str, Any, Any]  # ("fire", key, (window, values)) or ("late", key, (value, timestamp))

MIN_WATERMARK = -(1 << 63)


def tumbling(size: int, offset: int = 0) -> Callable[[Any, int], list[Window]]:
    return sliding(size, size, offset)


def sliding(size: int, slide: int, offset: int = 0) -> Callable[[Any, int], list[Window]]:
    """Returns a function for the windows that start at offset + n * slide and contain a timestamp, the latest first."""

    def assign(_: Any, timestamp: int) -> list[Window]:
        last = (timestamp - offset) // slide * slide + offset
        return [(start, start + size) for start in range(last, timestamp - size, -slide)]

    return assign


def session(gap: Callable[[Any], int]) -> Callable[[Any, int], list[Window]]:
    return lambda value, timestamp: [(timestamp, timestamp + gap(value))]


@dataclass
class Trigger:
    """A trigger of the reference.

    Attributes:
        kind: event_time | continuous | count.
        every: the interval in ms, or the count.
        purges: clears the window when it fires.
    """

    kind: str = "event_time"
    every: int = 0
    purges: bool = False


@dataclass
class _Pane:
    values: list[Any] = field(default_factory=list)
    count: int = 0
    timers: set[int] = field(default_factory=set)
    continuous_at: int | None = None


@dataclass
class WindowInterpreter:
    """Takes records and watermarks in the order in which the operator sees them, and appends to `results`."""

    assign: Callable[[Any, int], list[Window]]
    merges: bool = False
    trigger: Trigger = field(default_factory=Trigger)
    lateness: int = 0
    watermark: int = MIN_WATERMARK
    results: list[Result] = field(default_factory=list)
    panes: dict[tuple[Any, Window], _Pane] = field(default_factory=dict)

    def record(self, key: Any, value: Any, timestamp: int) -> None:
        is_taken = False
        for window in self.assign(value, timestamp):
            if self.merges:
                window = self._merge(key, window)
            if self._cleanup_time(window) <= self.watermark:
                self.panes.pop((key, window), None)
                continue
            is_taken = True
            pane = self.panes.setdefault((key, window), _Pane())
            pane.values.append(value)
            pane.timers.add(self._cleanup_time(window))
            if self._on_element(pane, window, timestamp):
                self._fire(key, window, pane)
        if not is_taken and timestamp + self.lateness <= self.watermark:
            self.results.append(("late", key, (value, timestamp)))

    def advance(self, watermark: int) -> None:
        """Fires all due timers in the order of their times, including timers that are set meanwhile."""
        self.watermark = max(self.watermark, watermark)
        while True:
            due = [
                (time, key, window)
                for (key, window), pane in self.panes.items()
                for time in pane.timers
                if time <= self.watermark
            ]
            if not due:
                return
            time, key, window = min(due, key=lambda timer: timer[0])
            pane = self.panes[key, window]
            pane.timers.remove(time)
            if self._on_timer(pane, window, time):
                self._fire(key, window, pane)
            if time == self._cleanup_time(window):
                del self.panes[key, window]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _cleanup_time(self, window: Window) -> int:
        return window[1] - 1 + self.lateness

    def _fire(self, key: Any, window: Window, pane: _Pane) -> None:
        if pane.values:
            self.results.append(("fire", key, (window, list(pane.values))))
        if self.trigger.purges:
            pane.values.clear()

    def _on_element(self, pane: _Pane, window: Window, timestamp: int) -> bool:
        end = window[1] - 1
        if self.trigger.kind == "count":
            pane.count += 1
            if pane.count < self.trigger.every:
                return False
            pane.count = 0
            return True
        if end <= self.watermark:
            return True
        pane.timers.add(end)
        if self.trigger.kind == "continuous" and pane.continuous_at is None:
            pane.continuous_at = min(timestamp - timestamp % self.trigger.every + self.trigger.every, end)
            pane.timers.add(pane.continuous_at)
        return False

    def _on_timer(self, pane: _Pane, window: Window, time: int) -> bool:
        if self.trigger.kind == "count":
            return False
        if time == window[1] - 1:
            return True
        if self.trigger.kind == "continuous" and time == pane.continuous_at:
            pane.continuous_at = min(time + self.trigger.every, window[1] - 1)
            pane.timers.add(pane.continuous_at)
            return True
        return False

    def _merge(self, key: Any, window: Window) -> Window:
        """Merges this window with all windows of the key that it touches. Returns the covering window."""
        touched = [other for (k, other) in self.panes if k == key and other[0] <= window[1] and window[0] <= other[1]]
        if not touched:
            return window
        merged = (min(window[0], *(w[0] for w in touched)), max(window[1], *(w[1] for w in touched)))
        panes = [self.panes.pop((key, other)) for other in sorted(touched)]
        pane = _Pane([value for pane in panes for value in pane.values], sum(pane.count for pane in panes))
        pane.timers = {self._cleanup_time(merged)}
        if merged[1] - 1 > self.watermark:
            pane.timers.add(merged[1] - 1)
        self.panes[key, merged] = pane
        return merged
