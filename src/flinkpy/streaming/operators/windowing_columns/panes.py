"""Panes: the slices of time that tumbling and sliding windows are made of.

Windows of `size` ms begin every `slide` ms. Cut at multiples of their greatest common divisor, time falls into panes,
and each window is a run of whole panes: window w is panes `w * per_slide` to `w * per_slide + per_window`, exclusive.
So a record goes into one pane, however many windows it is in. All methods take ints or int64 arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Panes:
    """Attributes:
    per_window, per_slide: numbers of panes.
    has_gaps: whether there is time that is in no window.
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
        """Of those that the pane is in; greater than `last_window` in a gap."""
        return -((self.per_window - 1 - pane) // self.per_slide)

    def last_window(self, pane: Any) -> Any:
        return pane // self.per_slide

    def start_of(self, window: Any) -> Any:
        """First ms of it."""
        return self._offset + window * self._slide

    def end_of(self, window: Any) -> Any:
        """First ms behind it."""
        return self._offset + window * self._slide + self._size

    def last_ended(self, time: Any) -> Any:
        """The last window whose last ms is not after `time`."""
        return (time - self._offset - self._size + 1) // self._slide

    def windows_of(self, panes: np.ndarray, first: int, last: int) -> np.ndarray:
        """int64[n]: the windows from `first` to `last` that have any of these panes, which are in order."""
        first = max(first, int(self.first_window(panes[0])))
        last = min(last, int(self.last_window(panes[-1])))
        if first > last:
            return np.empty(0, dtype=np.int64)
        lows = np.maximum(self.first_window(panes), first)
        highs = np.minimum(self.last_window(panes), last)
        # Each window once: with the first of its panes.
        lows[1:] = np.maximum(lows[1:], np.maximum.accumulate(highs)[:-1] + 1)
        counts = np.maximum(highs - lows + 1, 0)
        before = np.cumsum(counts) - counts
        return np.arange(int(counts.sum())) + np.repeat(lows - before, counts)
