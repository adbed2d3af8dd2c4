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

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.records.key_identity import state_key
from flinkpy.records.lanes import rows_of
from flinkpy.state.key_slots import KeySlots
from flinkpy.streaming.sort.spill_file import RowSpillFile, SpillDirectory

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class Order:
    """The sort columns of records, and their kinds: arrays of one length.

    Records are sorted by the 64-bit word of the key. Then records without a timestamp precede those with one, which are
    sorted by timestamp. Then records of input 0 precede those of input 1. Equal records keep their order of arrival. In
    rare cases several keys have the same word; `Block.key_ids` distinguishes them.
    """

    words: np.ndarray
    has_time: np.ndarray
    times: np.ndarray
    inputs: np.ndarray
    #: None if all are INSERT.
    kinds: np.ndarray | None

    @staticmethod
    def of_batch(batch: Batch, words: np.ndarray, input_index: int) -> Order:
        count = batch.num_rows
        times = batch.timestamps
        return Order(
            words,
            np.full(count, times is not None, dtype=np.bool_),
            np.full(count, MIN_WATERMARK, dtype=np.int64) if times is None else times,
            np.full(count, input_index, dtype=np.int8),
            batch.kinds,
        )

    @staticmethod
    def concat(orders: Sequence[Order]) -> Order:
        kinds = None
        if any(order.kinds is not None for order in orders):
            inserts = [np.zeros(len(o.words), dtype=np.int8) if o.kinds is None else o.kinds for o in orders]
            kinds = np.concatenate(inserts)
        columns = zip(*((order.words, order.has_time, order.times, order.inputs) for order in orders))
        words, has_time, times, inputs = map(np.concatenate, columns)
        return Order(words, has_time, times, inputs, kinds)

    def __getitem__(self, rows: Any) -> Order:
        kinds = None if self.kinds is None else self.kinds[rows]
        return Order(self.words[rows], self.has_time[rows], self.times[rows], self.inputs[rows], kinds)

    def argsort(self) -> np.ndarray:
        """Returns the row numbers in sorted order. The sort is stable."""
        columns: list[np.ndarray] = [self.words]
        if self.has_time.any():
            columns = [self.times, self.has_time, self.words]
        if (self.inputs != self.inputs[:1]).any():
            columns = [self.inputs, *columns]
        return np.lexsort(columns)

    def sort_bytes(self) -> np.ndarray:
        """Returns S18[n]: byte strings that sort as the records do.

        Their last byte is never 0, because NumPy ignores trailing zeros.
        """
        packed = np.empty((len(self.words), 18), dtype=np.uint8)
        packed[:, :8] = self.words.astype(">u8").view(np.uint8).reshape(-1, 8)
        packed[:, 8] = self.has_time
        packed[:, 9:17] = (self.times.view(np.uint64) ^ _SIGN).astype(">u8").view(np.uint8).reshape(-1, 8)
        packed[:, 17] = self.inputs + 1
        return packed.reshape(-1).view("S18")


@dataclass(frozen=True, slots=True)
class Block(ABC):
    """Records in one of the lanes."""

    order: Order

    def __len__(self) -> int:
        return len(self.order.words)

    @classmethod
    @abstractmethod
    def concat(cls, blocks: Sequence[Self]) -> Self: ...

    @abstractmethod
    def slice(self, start: int, end: int) -> Self: ...

    @abstractmethod
    def take(self, rows: np.ndarray) -> Self: ...

    @abstractmethod
    def key_ids(self) -> np.ndarray:
        """Returns int64[n]. Records with the same word have the same number exactly if they have the same key."""

    @abstractmethod
    def key_of(self, row: int) -> Any: ...

    @abstractmethod
    def rows(self, start: int, end: int) -> list[Any]:
        """Returns the records as Python objects."""

    @abstractmethod
    def packed(self) -> Any:
        """Returns the form in a file, which `unpacked` reads."""

    @abstractmethod
    def unpacked(self, packed: Any) -> Self:
        """Returns the block whose `packed` form this is. It has the same class and schema as this block."""


@dataclass(frozen=True, slots=True)
class RowBlock(Block):
    """Records as Python objects.

    Attributes:
        keys: the state keys.
        key_numbers: the position in `keys` of each record's key.
    """

    values: list[Any]
    keys: list[Any]
    key_numbers: np.ndarray

    @classmethod
    def concat(cls, blocks: Sequence[RowBlock]) -> RowBlock:
        if len(blocks) == 1:
            return blocks[0]
        keys: list[Any] = []
        values: list[Any] = []
        numbers = []
        for block in blocks:
            numbers.append(block.key_numbers + len(keys))
            keys += block.keys
            values += block.values
        return RowBlock(Order.concat([block.order for block in blocks]), values, keys, np.concatenate(numbers))

    def slice(self, start: int, end: int) -> RowBlock:
        return RowBlock(self.order[start:end], self.values[start:end], self.keys, self.key_numbers[start:end])

    def take(self, rows: np.ndarray) -> RowBlock:
        values = self.values
        return RowBlock(self.order[rows], [values[row] for row in rows.tolist()], self.keys, self.key_numbers[rows])

    def key_ids(self) -> np.ndarray:
        """Returns the numbers. Blocks that were concatenated may each have an entry for the same key."""
        used, first = np.unique(self.key_numbers, return_index=True)
        same = np.arange(len(self.keys))
        known: dict[int, list[int]] = {}
        for number, word in zip(used.tolist(), self.order.words[first].tolist()):
            others = known.setdefault(word, [])
            key = self.keys[number]
            for other in others:
                if self.keys[other] == key:
                    same[number] = other
                    break
            else:
                others.append(number)
        return same[self.key_numbers]

    def key_of(self, row: int) -> Any:
        return self.keys[self.key_numbers[row]]

    def rows(self, start: int, end: int) -> list[Any]:
        return self.values[start:end]

    def packed(self) -> Any:
        used, numbers = np.unique(self.key_numbers, return_inverse=True)
        return self.order, self.values, [self.keys[number] for number in used.tolist()], numbers

    def unpacked(self, packed: Any) -> RowBlock:
        return RowBlock(*packed)


@dataclass(frozen=True, slots=True)
class ColumnBlock(Block):
    """Records as columns.

    Attributes:
        key_positions: the positions of the key columns.
        type_info: the type of the records.
    """

    columns: pa.RecordBatch
    key_positions: tuple[int, ...]
    type_info: Any

    @classmethod
    def concat(cls, blocks: Sequence[ColumnBlock]) -> ColumnBlock:
        if len(blocks) == 1:
            return blocks[0]
        columns = pa.concat_batches([block.columns for block in blocks])
        return replace(blocks[0], order=Order.concat([block.order for block in blocks]), columns=columns)

    def slice(self, start: int, end: int) -> ColumnBlock:
        return replace(self, order=self.order[start:end], columns=self.columns.slice(start, end - start))

    def take(self, rows: np.ndarray) -> ColumnBlock:
        return replace(self, order=self.order[rows], columns=self.columns.take(pa.array(rows)))

    def key_ids(self) -> np.ndarray:
        keys = [self.columns.column(position) for position in self.key_positions]
        return KeySlots([key.type for key in keys]).slots_of(keys)

    def key_of(self, row: int) -> Any:
        return state_key(tuple(self.columns.column(position)[row].as_py() for position in self.key_positions))

    def rows(self, start: int, end: int) -> list[Any]:
        kinds = self.order.kinds
        part = self.columns.slice(start, end - start)
        return rows_of(Batch(part, None, None if kinds is None else kinds[start:end]), self.type_info)

    def packed(self) -> Any:
        return self.order, self.columns.serialize().to_pybytes()

    def unpacked(self, packed: Any) -> ColumnBlock:
        order, data = packed
        columns = pa.ipc.read_record_batch(pa.py_buffer(data), self.columns.schema)
        return replace(self, order=order, columns=columns)


#: Shares of the memory, each 1/N of it: for one block of a run, and for all blocks that are merged at once.
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
    def num_bytes(self) -> int:
        """The estimated size of the records in memory."""
        return self._num_bytes

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
            # Holds at least half a block of each run, so that all runs take part in most rounds.
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
