"""Blocks: records to sort, or a part of a sorted run, together with their sort columns.

Records are sorted by the 64-bit word of the key. Then records without a timestamp precede those with one, which are
sorted by timestamp. Then records of input 0 precede those of input 1. Equal records keep their order of arrival. In
rare cases several keys have the same word; `key_ids` distinguishes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.records.key_identity import state_key
from flinkpy.records.lanes import rows_of
from flinkpy.state.key_slots import KeySlots

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class Order:
    """The sort columns of records, and their kinds: arrays of one length."""

    words: np.ndarray
    has_time: np.ndarray
    times: np.ndarray
    inputs: np.ndarray
    #: None if all are INSERT.
    kinds: np.ndarray | None

    @staticmethod
    def of_batch(batch: Batch, words: np.ndarray, input_index: int) -> Order:
        count, times = batch.num_rows, batch.timestamps
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
