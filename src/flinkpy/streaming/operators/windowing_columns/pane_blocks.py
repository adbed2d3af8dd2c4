"""PaneBlocks: the merged contents of runs of neighbouring panes, shared by several windows.

Without blocks, a window of many panes would merge all of them again each time it slides by a few. A block merges four
neighbouring panes, the next size merges four such blocks, and so on. Blocks are created when a window first needs them.
So a window consists of a few blocks of each size, and their number grows with the logarithm of the window's length.
Blocks are derived from panes, which are the state. They are not part of snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flinkpy.state.accumulators import Accumulator
from flinkpy.state.pane_table import PaneTable
from flinkpy.streaming.operators.windowing_columns.distinct import distinct_codes

#: The number of panes or blocks in a block of the next size.
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
