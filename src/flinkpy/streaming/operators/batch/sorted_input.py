"""SortedInput: sorts the records of bounded inputs by key, and by timestamp within a key.

Records that do not fit in memory are written to files. Records with the same timestamp keep their order of arrival.
Records without a timestamp come first, and records of the first input come before those of the second. The order of the
keys is undefined. The records of a key come in several batches if they do not fit in memory.

Source: org.apache.flink.streaming.api.operators.sort.{SortingDataInput,MultiInputSortingDataInput}. Differs: Flink
sorts keys by their bytes, flinkpy by their hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.records.batch import Batch
from flinkpy.records.key_hash import hash_words, key_words
from flinkpy.records.lanes import arrow_schema, has_exact_columns
from flinkpy.streaming.sort.external_sorter import Block, ColumnBlock, ExternalSorter, Order, RowBlock
from flinkpy.streaming.sort.row_sizes import RowSizes, size_of
from flinkpy.streaming.sort.spill_file import SpillDirectory

#: Yields (True if a new key begins, input index, records of one key). All records of a batch have timestamps, or none.
SortedRecords = Iterator[tuple[bool, int, Batch]]

#: The maximum number of records that are converted to Python objects at a time.
_MAX_ROWS = 4_096
#: The estimated size of a distinct key's entry without the key, and of the sort order of a record.
_BYTES_PER_KEY = 100
_BYTES_PER_ROW = 32


class SortedInput:
    """Sorts records that are Python objects. Thread: task thread."""

    def __init__(self, spills: SpillDirectory, memory_bytes: int) -> None:
        self._sorter = ExternalSorter(spills, memory_bytes)
        self._memory_bytes = memory_bytes
        self._sizes = RowSizes()
        #: The number of each key in memory.
        self._numbers: dict[Any, int] = {}
        self._rows: list[Any] = []
        self._order: list[Order] = []
        self._num_bytes = 0

    @property
    def num_bytes(self) -> int:
        """The estimated size of the records in memory."""
        return self._num_bytes

    @property
    def is_empty(self) -> bool:
        return not self._rows and not self._sorter.num_runs

    def add(self, keys: list[Any], rows: list[Any], batch: Batch, input_index: int) -> None:
        """Adds records. `rows` are the records of the batch, and `keys` their state keys (`records.key_identity`)."""
        if not rows:
            return
        numbers = self._numbers
        known, number_of, count = len(numbers), numbers.setdefault, len(rows)
        own = np.fromiter((number_of(key, len(numbers)) for key in keys), dtype=np.uint64, count=count)
        self._rows.extend(rows)
        # In memory, key numbers replace hash words, so keys come in the order of their first records.
        self._order.append(Order.of_batch(batch, own, input_index))
        self._num_bytes += self._sizes.bytes_of(rows) + count * _BYTES_PER_ROW
        if len(numbers) > known:
            key, row = keys[-1], rows[-1]
            is_part = key is row or (isinstance(row, (tuple, list)) and any(item is key for item in row))
            self._num_bytes += (len(numbers) - known) * (_BYTES_PER_KEY + (0 if is_part else size_of(key)))
        if self._num_bytes > self._memory_bytes:
            self.spill()

    def records(self) -> SortedRecords:
        """Yields all records once. Nothing may be added afterwards."""
        if self._sorter.num_runs:
            self.spill()
            return by_key(self._sorter.sorted())
        return self._in_memory()

    def spill(self) -> None:
        """Writes the records in memory to a file."""
        if not self._rows:
            return
        order = Order.concat(self._order)
        keys = list(self._numbers)
        numbers = order.words.astype(np.int64)
        order = Order(key_words(keys)[numbers], order.has_time, order.times, order.inputs, order.kinds)
        block = RowBlock(order, self._rows, keys, numbers)
        num_bytes = self._num_bytes
        self._rows, self._order, self._numbers, self._num_bytes = [], [], {}, 0
        self._sorter.add(block, num_bytes)
        self._sorter.spill()

    def _in_memory(self) -> SortedRecords:
        if not self._rows:
            return
        order = Order.concat(self._order)
        self._order, self._numbers = [], {}
        positions = order.argsort()
        unsorted, self._rows = self._rows, []
        rows = [unsorted[position] for position in positions.tolist()]
        del unsorted
        order = order[positions]
        keys, inputs, has_time = order.words, order.inputs, order.has_time
        is_first = np.diff(keys) != 0
        begins = [True, *is_first.tolist()]
        is_first |= (np.diff(inputs) != 0) | np.diff(has_time)
        starts = [0, *(np.flatnonzero(is_first) + 1).tolist()]
        times, kinds = order.times, order.kinds
        for start, end in zip(starts, [*starts[1:], len(rows)]):
            batch = Batch(
                rows[start:end],
                times[start:end] if has_time[start] else None,
                None if kinds is None else kinds[start:end],
            )
            yield begins[start], int(inputs[start]), batch


def can_sort_columns(fields: tuple[int | str, ...], type_info: Any) -> bool:
    """True if records of this type are columns, and equal keys have equal key columns.

    Nested columns and columns of bytes do not qualify, because they may contain pickled objects.
    """
    if not has_exact_columns(type_info):
        return False
    schema = arrow_schema(type_info)
    assert schema is not None
    kinds = [schema.field(field).type for field in fields]
    return not any(
        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in kinds
    )


class SortedColumns:
    """Sorts the records of one input as columns. The key consists of some of the columns. Thread: task thread.

    Args:
        fields: the key columns.
        type_info: the type of the records.
    """

    def __init__(
        self, fields: tuple[int | str, ...], type_info: Any, spills: SpillDirectory, memory_bytes: int
    ) -> None:
        self._sorter = ExternalSorter(spills, memory_bytes)
        self._fields = fields
        self._type_info = type_info

    @property
    def num_bytes(self) -> int:
        """The estimated size of the records in memory."""
        return self._sorter.num_bytes

    def spill(self) -> None:
        """Writes the records in memory to a file."""
        self._sorter.spill()

    def add(self, batch: Batch) -> None:
        columns = batch.values
        assert not isinstance(columns, list)
        if not columns.num_rows:
            return
        names = columns.schema.names
        positions = tuple(field if isinstance(field, int) else names.index(field) for field in self._fields)
        words = hash_words([columns.column(position) for position in positions])
        block = ColumnBlock(Order.of_batch(batch, words, 0), columns, positions, self._type_info)
        self._sorter.add(block, columns.nbytes + columns.num_rows * _BYTES_PER_ROW)

    def records(self) -> SortedRecords:
        """Yields all records once, as Python objects. Nothing may be added afterwards."""
        return by_key(self._sorter.sorted())


def by_key(blocks: Iterable[Block]) -> SortedRecords:
    """Cuts sorted blocks where the key or the input changes, or where timestamps begin or end."""
    word: int | None = None
    #: The position of the current key. The key itself is only read if another row has the same hash word.
    place: tuple[Block, int] | None = None
    #: Records of other keys with the same hash word. They come after all records of the current key.
    strays: list[tuple[Any, list[tuple[int, Batch]]]] = []
    for block in blocks:
        for row, input_index, batch in _parts(block):
            next_word = int(block.order.words[row])
            if next_word != word or place is None:
                yield from _stray_records(strays)
                word, place = next_word, (block, row)
                yield True, input_index, batch
                continue
            key, next_key = place[0].key_of(place[1]), block.key_of(row)
            if next_key == key:
                yield False, input_index, batch
            else:
                _add_stray(strays, next_key, input_index, batch)
    yield from _stray_records(strays)


def _parts(block: Block) -> Iterator[tuple[int, int, Batch]]:
    """Yields (first row, input index, records) of each part."""
    order = block.order
    words, inputs, has_time, times, kinds = order.words, order.inputs, order.has_time, order.times, order.kinds
    is_first = (np.diff(words) != 0) | (np.diff(block.key_ids()) != 0)
    is_first |= (np.diff(inputs) != 0) | np.diff(has_time)
    for begin in range(0, len(block), _MAX_ROWS):
        stop = min(begin + _MAX_ROWS, len(block))
        rows = block.rows(begin, stop)
        starts = [begin, *(np.flatnonzero(is_first[begin : stop - 1]) + begin + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], stop]):
            batch = Batch(
                rows[start - begin : end - begin],
                times[start:end] if has_time[start] else None,
                None if kinds is None else kinds[start:end],
            )
            yield start, int(inputs[start]), batch


def _add_stray(strays: list[tuple[Any, list[tuple[int, Batch]]]], key: Any, input_index: int, batch: Batch) -> None:
    for other, records in strays:
        if other == key:
            records.append((input_index, batch))
            return
    strays.append((key, [(input_index, batch)]))


def _stray_records(strays: list[tuple[Any, list[tuple[int, Batch]]]]) -> SortedRecords:
    for _, records in strays:
        for position, (input_index, batch) in enumerate(records):
            yield position == 0, input_index, batch
    strays.clear()
