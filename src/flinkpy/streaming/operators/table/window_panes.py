"""The panes of table windows: those of CUMULATE, and those of windows that the input has already been assigned to.

TUMBLE and HOP use `windowing_columns.panes.Panes`.

Source: org.apache.flink.table.runtime.operators.window.tvf.slicing.SliceAssigners.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flinkpy.graph.table_specs import WindowSlices
from flinkpy.streaming.operators.windowing_columns.panes import Panes


def panes_of(window: WindowSlices) -> Panes:
    """Returns the panes of a window function. Those of SESSION are for input that has the bounds of sessions."""
    is_cumulative = window.kind == "CUMULATE"
    if window.kind == "SESSION":
        # Any ms may be the last one of a session.
        return AttachedPanes(1, 1, 0, False)
    if window.time_column is None and window.end_column is not None:
        step = window.size_ms if window.kind == "TUMBLE" else window.slide_ms
        return AttachedPanes(window.size_ms, step, window.offset_ms, is_cumulative)
    if is_cumulative:
        return CumulativePanes(window.size_ms, window.slide_ms, window.offset_ms)
    return Panes(window.size_ms, window.size_ms if window.kind == "TUMBLE" else window.slide_ms, window.offset_ms)


class AttachedPanes(Panes):
    """Windows that the input names by their ends. Each window is one pane. `pane_at` takes the window's last ms."""

    def __init__(self, size_ms: int, step_ms: int, offset_ms: int, is_cumulative: bool) -> None:
        super().__init__(step_ms, step_ms, offset_ms)
        self._window_size = size_ms
        self._is_cumulative = is_cumulative

    def start_of(self, window: Any) -> Any:
        end = self.end_of(window)
        if self._is_cumulative:
            return end - 1 - (end - 1 - self._offset) % self._window_size
        return end - self._window_size


class CumulativePanes(Panes):
    """CUMULATE: windows with one start, whose ends are one step apart, up to the largest size.

    Pane p is the step that ends with window p. Window p has the panes from the first one with its start up to p.
    """

    def __init__(self, size_ms: int, step_ms: int, offset_ms: int) -> None:
        super().__init__(step_ms, step_ms, offset_ms)
        self.steps = size_ms // step_ms
        #: The panes of the largest window.
        self.per_window = self.steps

    def first_pane(self, window: Any) -> Any:
        return window - window % self.steps

    def end_pane(self, window: Any) -> Any:
        return window + 1

    def last_window(self, pane: Any) -> Any:
        return pane - pane % self.steps + self.steps - 1

    def first_window(self, pane: Any) -> Any:
        return pane

    def start_of(self, window: Any) -> Any:
        return self._offset + self.first_pane(window) * self._slide

    def windows_of(self, panes: np.ndarray, first: int, last: int) -> np.ndarray:
        """See the base class. A window without rows of its own repeats the result of the one before it."""
        lows = np.maximum(panes, first)
        highs = np.minimum(self.last_window(panes), last)
        lows[1:] = np.maximum(lows[1:], np.maximum.accumulate(highs)[:-1] + 1)
        counts = np.maximum(highs - lows + 1, 0)
        before = np.cumsum(counts) - counts
        return np.arange(int(counts.sum())) + np.repeat(lows - before, counts)
