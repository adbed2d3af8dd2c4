"""ExternalSorter: sorts more records than fit in memory: sorted runs go to files, and are merged block by block.

```
add, add, ... --(memory is full)--> sorted, as one run to a file      at the end: of each run one block at a time;
              --(end, no runs)----> sorted in memory                  what is below the last record of every block
                                                                      is sorted together and given away
```

Runs keep the order of arrival: of equal records those of an earlier run come first. Where there are more runs than
blocks that fit in memory, neighbours are merged into longer runs before.

Source: org.apache.flink.runtime.operators.sort.ExternalSorter. Differs: whole blocks are sorted at once, by NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from flinkpy.streaming.sort.blocks import Block
from flinkpy.streaming.sort.spill_file import RowSpillFile, SpillDirectory

#: What of the memory one block of a run takes, and all blocks that are merged at once.
_BLOCK_SHARE = 64
_MERGE_SHARE = 2
_MOST_BLOCK_BYTES = 1 << 20
_LEAST_BLOCK_BYTES = 1 << 14
_LEAST_FAN_IN = 2
_MOST_FAN_IN = 128


class ExternalSorter:
    """Thread: task thread.

    Attributes:
        num_runs: in files now.
    """

    def __init__(self, spills: SpillDirectory, memory_bytes: int) -> None:
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._blocks: list[Block] = []
        self._num_bytes = 0
        self._runs: list[_Run] = []

    @property
    def num_runs(self) -> int:
        return len(self._runs)

    def add(self, block: Block, num_bytes: int) -> None:
        """Records as they arrive, which take about `num_bytes` in memory."""
        self._blocks.append(block)
        self._num_bytes += num_bytes
        if self._num_bytes > self._memory_bytes:
            self.spill()

    def spill(self) -> None:
        """What is in memory becomes a run."""
        blocks, self._blocks = self._blocks, []
        num_bytes, self._num_bytes = self._num_bytes, 0
        num_rows = sum(map(len, blocks))
        if not num_rows:
            return
        block = blocks[0].concat(blocks)
        del blocks
        block = block.take(block.order.argsort())
        run = _Run(self._spills.row_file(), block.slice(0, 0), max(1, num_bytes // num_rows))
        run.write(block, self._block_bytes)
        self._runs.append(run)

    def sorted(self) -> Iterator[Block]:
        """All records in their order. Nothing is added any more."""
        if not self._runs:
            blocks, self._blocks = self._blocks, []
            if blocks:
                block = blocks[0].concat(blocks)
                del blocks
                yield block.take(block.order.argsort())
            return
        self.spill()
        while len(self._runs) > self._fan_in:
            self._runs = [
                self._merged(self._runs[i : i + self._fan_in]) for i in range(0, len(self._runs), self._fan_in)
            ]
        runs, self._runs = self._runs, []
        yield from _merge(runs)

    @property
    def _block_bytes(self) -> int:
        return min(_MOST_BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, self._memory_bytes // _BLOCK_SHARE))

    @property
    def _fan_in(self) -> int:
        return min(_MOST_FAN_IN, max(_LEAST_FAN_IN, self._memory_bytes // _MERGE_SHARE // self._block_bytes))

    def _merged(self, runs: Sequence[_Run]) -> _Run:
        if len(runs) == 1:
            return runs[0]
        merged = _Run(self._spills.row_file(), runs[0].form, max(run.row_bytes for run in runs))
        for block in _merge(runs):
            merged.write(block, self._block_bytes)
        return merged


class _Run:
    """A sorted run in a file.

    Args:
        form: a block like those of the run, for reading them.
        row_bytes: that a record takes in memory, about.
    """

    def __init__(self, file: RowSpillFile, form: Block, row_bytes: int) -> None:
        self.file = file
        self.form = form
        self.row_bytes = row_bytes

    def write(self, block: Block, block_bytes: int) -> None:
        step = max(1, block_bytes // self.row_bytes)
        for start in range(0, len(block), step):
            self.file.write(block.slice(start, min(start + step, len(block))).packed())


class _Cursor:
    """What of a run has been read and not been given away."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._packed = run.file.read()
        self.block: Block = run.form
        self.has_more = True
        self.bytes: np.ndarray = np.empty(0, dtype="S18")
        self.fill(1)

    def fill(self, least: int) -> None:
        """Read on where there are fewer than `least` records here."""
        blocks = [self.block] if len(self.block) else []
        count = len(self.block)
        while count < least and self.has_more:
            packed = next(self._packed, None)
            if packed is None:
                self.has_more = False
                self._run.file.delete()
            else:
                blocks.append(self._run.form.unpacked(packed))
                count += len(blocks[-1])
        if blocks and (len(blocks) > 1 or blocks[0] is not self.block):
            self.block = blocks[0].concat(blocks)
            self.bytes = self.block.order.sort_bytes()

    def give(self, count: int) -> Block:
        given, self.block = self.block.slice(0, count), self.block.slice(count, len(self.block))
        self.bytes = self.bytes[count:]
        return given


def _merge(runs: Sequence[_Run]) -> Iterator[Block]:
    cursors = [_Cursor(run) for run in runs]
    typical = max(len(cursor.block) for cursor in cursors)
    while True:
        for cursor in cursors:
            # Half a block: so that all runs take part in most rounds.
            cursor.fill(max(1, typical // 2))
        cursors = [cursor for cursor in cursors if len(cursor.block)]
        if not cursors:
            return
        # Nothing that is not read yet comes before the last record of its run's block. Of equal ones the first run's.
        bounds = [(cursor.bytes[-1], i) for i, cursor in enumerate(cursors) if cursor.has_more]
        if not bounds:
            counts = [len(cursor.block) for cursor in cursors]
        else:
            bound, last = min(bounds)
            counts = [
                int(np.searchsorted(cursor.bytes, bound, side="right" if i <= last else "left"))
                for i, cursor in enumerate(cursors)
            ]
        given = [cursor.give(count) for cursor, count in zip(cursors, counts) if count]
        block = given[0].concat(given)
        yield block.take(block.order.argsort()) if len(given) > 1 else block
