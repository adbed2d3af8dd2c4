"""ExternalSorter: sorts more records than fit in memory. It writes sorted runs to files and merges them by blocks.

```
add, add, ... --(memory is full)--> sorted, written to a file as a run    at the end: one block of each run in memory;
              --(end, no runs)----> sorted in memory                      records up to the smallest last record of a
                                                                          block are sorted together and returned
```

Runs keep the order of arrival: among equal records those of an earlier run come first. If there are more runs than
blocks that fit in memory, neighbouring runs are merged into longer runs first.

Source: org.apache.flink.runtime.operators.sort.ExternalSorter. Differs: NumPy sorts whole blocks at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from flinkpy.streaming.sort.blocks import Block
from flinkpy.streaming.sort.spill_file import RowSpillFile, SpillDirectory

#: The fractions of the memory, as 1/n, of one block of a run and of all blocks that are merged at once.
_BLOCK_SHARE = 64
_MERGE_SHARE = 2
_MAX_BLOCK_BYTES = 1 << 20
_MIN_BLOCK_BYTES = 1 << 14
_MIN_FAN_IN = 2
_MAX_FAN_IN = 128


class ExternalSorter:
    """Sorts blocks of records. Thread: task thread."""

    def __init__(self, spills: SpillDirectory, memory_bytes: int) -> None:
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._blocks: list[Block] = []
        self._num_bytes = 0
        self._runs: list[_Run] = []

    @property
    def num_runs(self) -> int:
        """The number of runs that are in files now."""
        return len(self._runs)

    def add(self, block: Block, num_bytes: int) -> None:
        """Adds records, which take about `num_bytes` in memory."""
        self._blocks.append(block)
        self._num_bytes += num_bytes
        if self._num_bytes > self._memory_bytes:
            self.spill()

    def spill(self) -> None:
        """Sorts the records in memory and writes them to a file as a run."""
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
        """Yields all records, sorted. No record may be added afterwards."""
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
        return min(_MAX_BLOCK_BYTES, max(_MIN_BLOCK_BYTES, self._memory_bytes // _BLOCK_SHARE))

    @property
    def _fan_in(self) -> int:
        return min(_MAX_FAN_IN, max(_MIN_FAN_IN, self._memory_bytes // _MERGE_SHARE // self._block_bytes))

    def _merged(self, runs: Sequence[_Run]) -> _Run:
        if len(runs) == 1:
            return runs[0]
        merged = _Run(self._spills.row_file(), runs[0].prototype, max(run.row_bytes for run in runs))
        for block in _merge(runs):
            merged.write(block, self._block_bytes)
        return merged


class _Run:
    """A sorted run in a file.

    Args:
        prototype: a block of the same class and schema as the blocks of the run, needed to read them.
        row_bytes: the approximate size of a record in memory.
    """

    def __init__(self, file: RowSpillFile, prototype: Block, row_bytes: int) -> None:
        self.file = file
        self.prototype = prototype
        self.row_bytes = row_bytes

    def write(self, block: Block, block_bytes: int) -> None:
        step = max(1, block_bytes // self.row_bytes)
        for start in range(0, len(block), step):
            self.file.write(block.slice(start, min(start + step, len(block))).packed())


class _Cursor:
    """The records of a run that have been read but not returned."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._packed = run.file.read()
        self.block: Block = run.prototype
        self.has_more = True
        self.bytes: np.ndarray = np.empty(0, dtype="S18")
        self.fill(1)

    def fill(self, min_records: int) -> None:
        """Reads more of the run until at least `min_records` records are here."""
        blocks = [self.block] if len(self.block) else []
        count = len(self.block)
        while count < min_records and self.has_more:
            packed = next(self._packed, None)
            if packed is None:
                self.has_more = False
                self._run.file.delete()
            else:
                blocks.append(self._run.prototype.unpacked(packed))
                count += len(blocks[-1])
        if blocks and (len(blocks) > 1 or blocks[0] is not self.block):
            self.block = blocks[0].concat(blocks)
            self.bytes = self.block.order.sort_bytes()

    def take(self, count: int) -> Block:
        """Removes the first `count` records and returns them."""
        taken = self.block.slice(0, count)
        self.block = self.block.slice(count, len(self.block))
        self.bytes = self.bytes[count:]
        return taken


def _merge(runs: Sequence[_Run]) -> Iterator[Block]:
    cursors = [_Cursor(run) for run in runs]
    typical = max(len(cursor.block) for cursor in cursors)
    while True:
        for cursor in cursors:
            # At least half a block of each, so that all runs take part in most rounds.
            cursor.fill(max(1, typical // 2))
        cursors = [cursor for cursor in cursors if len(cursor.block)]
        if not cursors:
            return
        # Unread records of a run are not smaller than the last record of its block. Among equal records the first run
        # wins.
        bounds = [(cursor.bytes[-1], i) for i, cursor in enumerate(cursors) if cursor.has_more]
        if not bounds:
            counts = [len(cursor.block) for cursor in cursors]
        else:
            bound, last = min(bounds)
            counts = [
                int(np.searchsorted(cursor.bytes, bound, side="right" if i <= last else "left"))
                for i, cursor in enumerate(cursors)
            ]
        taken = [cursor.take(count) for cursor, count in zip(cursors, counts) if count]
        block = taken[0].concat(taken)
        yield block.take(block.order.argsort()) if len(taken) > 1 else block
