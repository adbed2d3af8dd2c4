"""Panes: the slices of time that tumbling and sliding windows consist of, and their merged contents.

Windows of `size` ms start every `slide` ms. The greatest common divisor of both is the length of a pane. Each window is
a run of whole panes: window w has the panes from `w * per_slide` up to, but not including, `w * per_slide +
per_window`. So each record belongs to one pane, independent of the number of its windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Panes:
    """Computes panes and windows. All methods take ints or int64 arrays.

    Attributes:
        per_window, per_slide: the number of panes per window and per slide.
        has_gaps: True if some times are in no window.
    """

    def __init__(self, size_ms: int, slide_ms: int, offset_ms: int) -> None:
        self._size = size_ms
        self._slide = slide_ms
        self._offset = offset_ms
        self._length = math.gcd(size_ms, slide_ms)
        self.per_window = size_ms // self._length
        self.per_slide = slide_ms // self._length
        self.has_gaps = slide_ms > size_ms

    def pane_at(self, time: Any) -> Any:
        return (time - self._offset) // self._length

    def is_in_gap(self, pane: Any) -> Any:
        return pane % self.per_slide >= self.per_window

    def first_window(self, pane: Any) -> Any:
        """Returns the first window of the pane. It is greater than `last_window` for a pane in a gap."""
        return -((self.per_window - 1 - pane) // self.per_slide)

    def last_window(self, pane: Any) -> Any:
        return pane // self.per_slide

    def start_of(self, window: Any) -> Any:
        """Returns the first ms of the window."""
        return self._offset + window * self._slide

    def end_of(self, window: Any) -> Any:
        """Returns the first ms after the window."""
        return self._offset + window * self._slide + self._size

    def last_ended(self, time: Any) -> Any:
        """Returns the last window whose last ms is at or before `time`."""
        return (time - self._offset - self._size + 1) // self._slide

    def windows_of(self, panes: np.ndarray, first: int, last: int) -> np.ndarray:
        """Returns the windows from `first` to `last` that contain any of these panes (in order), as int64[n]."""
        first = max(first, int(self.first_window(panes[0])))
        last = min(last, int(self.last_window(panes[-1])))
        if first > last:
            return np.empty(0, dtype=np.int64)
        lows = np.maximum(self.first_window(panes), first)
        highs = np.minimum(self.last_window(panes), last)
        # Count each window once, at the first of its panes.
        lows[1:] = np.maximum(lows[1:], np.maximum.accumulate(highs)[:-1] + 1)
        counts = np.maximum(highs - lows + 1, 0)
        before = np.cumsum(counts) - counts
        return np.arange(int(counts.sum())) + np.repeat(lows - before, counts)
