"""Panes: the slices of time that tumbling and sliding windows consist of, and their merged contents.

Windows of `size` ms start every `slide` ms. The greatest common divisor of both is the length of a pane. Each window is
a run of whole panes: window w has the panes from `w * per_slide` up to, but not including, `w * per_slide +
per_window`. So each record belongs to one pane, independent of the number of its windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinkpy.state.accumulators import Accumulator
from flinkpy.state.pane_table import PaneTable


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

    def end_of_pane(self, pane: Any) -> Any:
        """Returns the first ms after the pane."""
        return self._offset + (pane + 1) * self._length

    def is_in_gap(self, pane: Any) -> Any:
        return pane % self.per_slide >= self.per_window

    def first_pane(self, window: Any) -> Any:
        return window * self.per_slide

    def end_pane(self, window: Any) -> Any:
        """Returns the first pane after the window."""
        return window * self.per_slide + self.per_window

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


def distinct_codes(codes: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct codes in order, and the position of each code among them.

    Args:
        codes: int64[n], each at least 0 and below `span`.
    """
    if span > 8 * len(codes) + 65_536:
        distinct, groups = np.unique(codes, return_inverse=True)
        return distinct, groups
    is_there = np.zeros(span, dtype=bool)
    is_there[codes] = True
    distinct = np.flatnonzero(is_there)
    places = np.empty(span, dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct, places.take(codes)


#: A block merges this many panes, or this many blocks of the next smaller size.
_FAN_OUT = 4


@dataclass(frozen=True, slots=True)
class Block:
    """The merged contents of several panes.

    Attributes:
        keys: the numbers of the keys, in order.
        accumulators: the accumulators, with one slot per key.
    """

    keys: np.ndarray
    accumulators: list[Accumulator]


class PaneBlocks:
    """Merges runs of panes and keeps the results for the windows that share them. Thread: task thread.

    Without blocks, a window of many panes would merge all of them again each time it slides by a few. A block merges
    four neighbouring panes, the next size merges four such blocks, and so on. Blocks are created when a window first
    needs them. So a window consists of a few blocks of each size, and their number grows with the logarithm of the
    window's length. Blocks are derived from panes, which are the state. They are not part of snapshots.
    """

    def __init__(self, table: PaneTable) -> None:
        self._table = table
        #: The blocks by size (in panes) and number.
        self._blocks: dict[int, dict[int, Block]] = {}
        self._numbering = table.key_numbering

    def run(self, panes: np.ndarray, first: int, end: int) -> Block:
        """Returns the merged contents of the panes from `first` up to, but not including, `end`.

        Args:
            panes: all existing panes, in order.
        """
        if self._numbering != self._table.key_numbering:
            # The numbers of the keys have changed.
            self._blocks.clear()
            self._numbering = self._table.key_numbering
        blocks: list[Block] = []
        single: list[int] = []
        self._collect(panes, first, end, self._largest(first, end), blocks, single)
        return self._merge(blocks, single)

    def _largest(self, first: int, end: int) -> int:
        size = 1
        while size * _FAN_OUT <= end - first:
            size *= _FAN_OUT
        return size

    def _collect(
        self, panes: np.ndarray, first: int, end: int, size: int, blocks: list[Block], single: list[int]
    ) -> None:
        """Collects the blocks of `size` and smaller, and the single panes, that make up the panes `first` to `end`."""
        low, high = np.searchsorted(panes, [first, end]).tolist()
        if high - low <= 2 or size == 1:
            single += panes[low:high].tolist()
            return
        inner_first, inner_end = -(-first // size), end // size
        if inner_first >= inner_end:
            self._collect(panes, first, end, size // _FAN_OUT, blocks, single)
            return
        self._collect(panes, first, inner_first * size, size // _FAN_OUT, blocks, single)
        for number in range(inner_first, inner_end):
            self._collect_block(panes, number, size, blocks, single)
        self._collect(panes, inner_end * size, end, size // _FAN_OUT, blocks, single)

    def _collect_block(self, panes: np.ndarray, number: int, size: int, blocks: list[Block], single: list[int]) -> None:
        known = self._blocks.setdefault(size, {})
        block = known.get(number)
        if block is None:
            low, high = np.searchsorted(panes, [number * size, (number + 1) * size]).tolist()
            if high - low <= 2:
                single += panes[low:high].tolist()
                return
            parts: list[Block] = []
            alone: list[int] = []
            self._collect(panes, number * size, (number + 1) * size, size // _FAN_OUT, parts, alone)
            block = known[number] = self._merge(parts, alone)
        blocks.append(block)

    def _merge(self, blocks: list[Block], panes: list[int]) -> Block:
        table = self._table
        slots = table.slots_of_panes(np.array(panes, dtype=np.int64))
        codes = np.concatenate([*(block.keys for block in blocks), table.key_numbers(slots)])
        keys, groups = distinct_codes(codes, table.num_keys)
        accumulators = table.layout.create_accumulators()
        for position, accumulator in enumerate(accumulators):
            accumulator.grow(len(keys))
            start = 0
            for block in blocks:
                length = len(block.keys)
                part = groups[start : start + length]
                accumulator.merge(part, block.accumulators[position], np.arange(length))
                start += length
            accumulator.merge(groups[start:], table.accumulators[position], slots)
        return Block(keys, accumulators)

    def changed(self, panes: np.ndarray) -> None:
        """Drops the blocks that contain these panes, which have got more records."""
        for size, known in self._blocks.items():
            if known:
                for number in np.unique(panes // size).tolist():
                    known.pop(number, None)

    def drop_before(self, pane: int) -> None:
        """Drops blocks with panes before `pane`. No window needs them any more."""
        for size, known in self._blocks.items():
            for number in [number for number in known if number * size < pane]:
                del known[number]
