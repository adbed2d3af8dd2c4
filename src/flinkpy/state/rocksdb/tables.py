"""The tables of column-wise aggregations in RocksDB, and their encoding.

RocksDBAggregateTable holds only a part of the keys in memory. The keys of recent batches form the working set. Keys
that are new to it are looked up in the database, all keys of a batch in one probe. When the working set is full, the
table writes its changes in one batch and begins a new working set.

The key of a database entry is the tuple of the key columns' values and the window times (or the bare value of a single
column). Its value is one row of the accumulators' columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.records.nested_values import nested_array, nested_values
from flinkpy.records.numpy_dtypes import numpy_dtype
from flinkpy.state.accumulators import Accumulator
from flinkpy.state.aggregate_table import AggregateTable, TableLayout
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.pickling import dumps, loads
from flinkpy.state.rocksdb.cached_state import in_order
from flinkpy.state.rocksdb.database import Pair, RocksDatabase
from flinkpy.state.rocksdb.key_codec import PREFIX, StateKeyCodec, after_prefix, decode, encode, tuple_start

#: The maximum number of keys of the working set: at most 100 MB if keys and accumulators are numbers.
_MAX_KEYS = 262_144
#: The number of rows that are read at once when the whole table is read.
_PIECE = 16_384


class RowCodec:
    """Converts table rows to database keys and values, and back. Namespaces follow the key columns. Thread: any."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        accumulators = layout.create_accumulators()
        self.value_types = [column.type for accumulator in accumulators for column in accumulator.freeze(0)()]
        fields: list[tuple[str, Any]] = [("valid", "u8")]
        #: True if all columns are numeric. Then a row is stored as its bytes, else as a pickle.
        self._is_plain = len(self.value_types) <= 64
        for position, kind in enumerate(self.value_types):
            plain = _plain_type(kind)
            if plain is None:
                self._is_plain = False
            else:
                fields.append((f"c{position}", numpy_dtype(plain)))
        self._row: Any = np.dtype(fields) if self._is_plain else np.dtype("u1")

    # -- keys --------------------------------------------------------------------------------------------------------

    def encode_keys(self, codec: StateKeyCodec, columns: Sequence[pa.Array], max_parallelism: int) -> list[bytes]:
        """Returns one database key per row."""
        groups = key_groups(hash_columns(columns[: len(self.layout.key_types)]), max_parallelism)
        if len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count:
            numbers = columns[0].to_numpy()
            if numbers.dtype != np.uint64 or not len(numbers) or int(numbers.max()) < 1 << 63:
                return codec.encode_ints(groups, numbers.astype(np.int64, copy=False))
        values = [_key_values(column) for column in columns]
        keys: Any = values[0] if len(values) == 1 else zip(*values)
        prefix, state_id = PREFIX.pack, codec.state_id
        return [prefix(group, state_id) + encode(key) for group, key in zip(groups.tolist(), keys)]

    def encode_suffixes(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """Returns the database keys without key group and state."""
        values = [_key_values(column) for column in columns]
        return list(map(encode, values[0] if len(values) == 1 else zip(*values)))

    def encode_prefixes(
        self, codec: StateKeyCodec, key_columns: Sequence[pa.Array], max_parallelism: int
    ) -> list[bytes]:
        """Returns the common prefix of the database keys of each key's entries in a map."""
        groups = key_groups(hash_columns(key_columns), max_parallelism)
        prefix, state_id = PREFIX.pack, codec.state_id
        start = tuple_start(len(self.layout.entry_types))
        keys = zip(*(_key_values(column) for column in key_columns))
        return [
            prefix(group, state_id) + start + b"".join(map(encode, key)) for group, key in zip(groups.tolist(), keys)
        ]

    def decode_keys(self, data: Sequence[bytes]) -> list[pa.Array]:
        keys = [decode(key, PREFIX.size)[0] for key in data]
        types = self.layout.entry_types
        columns: Any
        if len(types) == 1:
            columns = [keys]
        else:
            columns = list(zip(*keys)) or [()] * len(types)
        return [_key_array(column, kind) for column, kind in zip(columns, types)]

    # -- values ------------------------------------------------------------------------------------------------------

    def encode_values(self, columns: Sequence[pa.Array]) -> list[bytes]:
        if not self._is_plain:
            return [dumps(row) for row in zip(*(column.to_pylist() for column in columns))]
        rows: Any = np.zeros(len(columns[0]), dtype=self._row)
        valid = np.zeros(len(rows), dtype=np.uint64)
        for position, column in enumerate(columns):
            plain = _plain_type(column.type)
            assert plain is not None
            is_valid = column.is_valid().to_numpy(zero_copy_only=False)
            valid |= is_valid.astype(np.uint64) << np.uint64(position)
            numbers = column.cast(plain) if pa.types.is_boolean(column.type) else column.view(plain)
            rows[f"c{position}"] = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        rows["valid"] = valid
        return rows.view(np.dtype(f"V{self._row.itemsize}")).tolist()  # type: ignore[no-any-return]

    def decode_values(self, data: Sequence[bytes]) -> list[pa.Array]:
        if not self._is_plain:
            rows = [loads(row) for row in data]
            columns: Any = list(zip(*rows)) if rows else [()] * len(self.value_types)
            return [pa.array(column, kind) for column, kind in zip(columns, self.value_types)]
        table: Any = np.frombuffer(b"".join(data), dtype=self._row)
        arrays = []
        for position, kind in enumerate(self.value_types):
            plain = _plain_type(kind)
            missing = (table["valid"] >> np.uint64(position)) & np.uint64(1) == 0
            numbers = pa.array(np.ascontiguousarray(table[f"c{position}"]), plain, mask=missing)
            arrays.append(numbers.cast(kind) if pa.types.is_boolean(kind) else numbers.view(kind))
        return arrays

    def batch(self, pairs: Sequence[Pair]) -> pa.RecordBatch:
        """Returns the batch for a snapshot: the key columns, then the columns of the accumulators."""
        columns = self.decode_keys([key for key, _ in pairs]) + self.decode_values([value for _, value in pairs])
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Returns the numeric type that represents the values of a column; None if there is none."""
    if pa.types.is_boolean(kind):
        return pa.uint8()
    if pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64()):
        return kind
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return None


def _key_values(column: pa.Array) -> list[Any]:
    """Returns Python values. Times become numbers, because a Python datetime has no nanoseconds."""
    if pa.types.is_nested(column.type):
        return nested_values(column)
    plain = _plain_type(column.type) if pa.types.is_temporal(column.type) else None
    return (column if plain is None else column.view(plain)).to_pylist()  # type: ignore[no-any-return]


def _key_array(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_nested(kind):
        return nested_array(list(values), kind)
    plain = _plain_type(kind) if pa.types.is_temporal(kind) else None
    return pa.array(values, kind) if plain is None else pa.array(values, plain).view(kind)


class _WorkingSet:
    """The keys in memory, with a flag for those that differ from the database."""

    def __init__(self, layout: TableLayout) -> None:
        self.keys = KeySlots(list(layout.key_types))
        self.accumulators: list[Accumulator] = layout.create_accumulators()
        self.is_changed = np.zeros(0, dtype=bool)

    def grow(self) -> int:
        size = self.keys.size
        for accumulator in self.accumulators:
            accumulator.grow(size)
        if len(self.is_changed) < size:
            grown = np.zeros(max(size, 2 * len(self.is_changed)), dtype=bool)
            grown[: len(self.is_changed)] = self.is_changed
            self.is_changed = grown
        return size

    def key_columns(self) -> list[pa.Array]:
        return self.keys.keys()

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        at = 0
        for accumulator in self.accumulators:
            accumulator.restore(slots, columns[at : at + accumulator.num_columns])
            at += accumulator.num_columns

    def columns(self, slots: np.ndarray) -> list[pa.Array]:
        size = self.keys.size
        indices = pa.array(slots)
        return [column.take(indices) for accumulator in self.accumulators for column in accumulator.freeze(size)()]


class RocksDBAggregateTable(AggregateTable):
    """An AggregateTable whose keys need not all fit into memory.

    Slots are valid until the next `add`. `size` and `keys` load all keys into memory, so they are only used at the end
    of the input.
    """

    def __init__(
        self,
        layout: TableLayout,
        database: RocksDatabase,
        codec: StateKeyCodec,
        max_parallelism: int,
        key_groups_owned: range,
        max_keys: int = _MAX_KEYS,
    ) -> None:
        self.layout = layout
        self._rows = RowCodec(layout)
        self._database = database
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._key_groups = key_groups_owned
        self._max_keys = max_keys
        self._working = _WorkingSet(layout)
        self._has_all = False

    def add(self, key_columns: list[pa.Array], value_columns: Sequence[pa.Array | None]) -> np.ndarray:
        if self._working.keys.size >= self._max_keys:
            self.spill()
            self._working = _WorkingSet(self.layout)
            self._has_all = False
        working = self._working
        known = working.keys.size
        slots = working.keys.slots_of(key_columns)
        size = working.grow()
        if size > known and not self._has_all:
            self._read(known, slots, key_columns)
        for accumulator, values in zip(working.accumulators, value_columns, strict=True):
            accumulator.add(slots, values)
        working.is_changed[slots] = True
        return slots

    def _read(self, known: int, slots: np.ndarray, key_columns: list[pa.Array]) -> None:
        """Reads the accumulators of the new slots, which begin at `known`, from the database."""
        new_rows = np.flatnonzero(slots >= known)
        new_slots, first = np.unique(slots[new_rows], return_index=True)
        indices = pa.array(new_rows[first])
        columns = [column.take(indices) for column in key_columns]
        keys = self._rows.encode_keys(self._codec, columns, self._max_parallelism)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        found = self._database.get_many([keys[index] for index in order])
        there = [index for index, data in zip(order, found) if data is not None]
        if there:
            data = [value for value in found if value is not None]
            self._working.restore(new_slots[there], self._rows.decode_values(data))

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        return [accumulator.results(slots) for accumulator in self._working.accumulators]

    @property
    def size(self) -> int:
        self._bring_all()
        return self._working.keys.size

    def keys(self) -> list[pa.Array]:
        self._bring_all()
        return self._working.keys.keys()

    def _bring_all(self) -> None:
        if self._has_all:
            return
        working = self._working
        for pairs in self._pieces():
            columns = self._rows.decode_keys([key for key, _ in pairs])
            known = working.keys.size
            slots = working.keys.slots_of(columns)
            working.grow()
            new = np.flatnonzero(slots >= known)
            if len(new):
                working.restore(slots[new], self._rows.decode_values([pairs[row][1] for row in new.tolist()]))
        self._has_all = True

    def _pieces(self) -> Iterator[list[Pair]]:
        for key_group in self._key_groups:
            prefix = self._codec.prefix(key_group)
            pairs = self._database.scan(prefix, after_prefix(prefix))
            while piece := list(islice(pairs, _PIECE)):
                yield piece

    def spill(self) -> None:
        """Writes the changes to the database."""
        working = self._working
        changed = np.flatnonzero(working.is_changed[: working.keys.size])
        if not len(changed):
            return
        indices = pa.array(changed)
        keys = [column.take(indices) for column in working.key_columns()]
        values = self._rows.encode_values(working.columns(changed))
        self._database.write(in_order(self._rows.encode_keys(self._codec, keys, self._max_parallelism), values))
        working.is_changed[:] = False
