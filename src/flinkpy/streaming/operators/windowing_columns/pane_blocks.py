"""PaneBlocks: what runs of neighbouring panes have together, kept for the windows that share them.

A window of many panes would have them all put together again each time it moves on by a few. Here four neighbours, four
of those fours and so on are put together once, when a window first needs them, so that a window is made of some blocks
of each size: their number grows with the logarithm of the window's length. Blocks come from panes, which are the state;
they are part of no snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flinkpy.state.accumulators import Accumulator
from flinkpy.state.pane_table import PaneTable
from flinkpy.streaming.operators.windowing_columns.distinct import distinct_codes

#: Blocks, or panes, in a block of the next size.
_FAN_OUT = 4


@dataclass(frozen=True, slots=True)
class Block:
    """`accumulators` have one slot per key; `keys` are the numbers of the keys, in order."""

    keys: np.ndarray
    accumulators: list[Accumulator]


class PaneBlocks:
    """Thread: task thread."""

    def __init__(self, table: PaneTable) -> None:
        self._table = table
        #: By size (panes in a block) and number of the block.
        self._blocks: dict[int, dict[int, Block]] = {}
        self._numbering = table.key_numbering

    def run(self, panes: np.ndarray, first: int, end: int) -> Block:
        """What the panes from `first` to `end`, exclusive, have together.

        Args:
            panes: all that there are, in order.
        """
        if self._numbering != self._table.key_numbering:
            # The keys have other numbers now.
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
        """Blocks of `size` and smaller ones that together are the panes from `first` to `end`."""
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
        """These panes have got more records: blocks with them are of no use."""
        for size, known in self._blocks.items():
            if known:
                for number in np.unique(panes // size).tolist():
                    known.pop(number, None)

    def drop_before(self, pane: int) -> None:
        """No window with an earlier pane will be asked for."""
        for size, known in self._blocks.items():
            for number in [number for number in known if number * size < pane]:
                del known[number]
