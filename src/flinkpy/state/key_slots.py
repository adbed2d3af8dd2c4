"""KeySlots: assigns a slot to each distinct key of one or more Arrow columns, batch by batch.

Keys of several columns have two hashes of 64 bits, and a KeyIndex finds them in one probe. In the other form each
column is converted to int64 codes. Numbers and times are their own codes. Other values (strings, decimals, ...) are
looked up in a dictionary, once per distinct value of a batch. The codes of several columns are combined in pairs.
So no Python object is created per row. NULL is a key like any other, as in GROUP BY of SQL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.records.nested_values import nested_texts
from flinkpy.state.int_slots import IntSlots
from flinkpy.state.key_index import KeyIndex, KeyWords

#: The maximum size of a chunk. Copying it takes milliseconds, and the offsets of strings have 31 bits.
_MAX_CHUNK_ROWS = 1 << 20
_MAX_CHUNK_BYTES = 1 << 28


class KeySlots:
    """The slots of keys. Thread: task thread.

    Args:
        types: the types of the key columns.
        zeros_are_one: True if -0.0 and 0.0 get the same slot. They are different keys, but one value for
            COUNT_DISTINCT.
    """

    def __init__(self, types: list[pa.DataType], zeros_are_one: bool = False) -> None:
        if not types:
            raise ValueError("a key needs at least one column")
        self.types = types
        self._index = KeyIndex(KeyWords(types)) if len(types) > 1 and all(map(_has_words, types)) else None
        self._columns = [] if self._index else [_ColumnSlots(arrow_type, zeros_are_one) for arrow_type in types]
        #: Pair i combines the slots of the columns up to i with the slots of column i + 1.
        self._pairs = [IntSlots() for _ in self._columns[1:]]
        #: Per key column, chunks with the values of the slots in slot order. Each chunk is more than twice as long as
        #: the next, or has the maximum size. So there are few chunks even if many batches brought new keys.
        self._key_chunks: list[list[pa.Array]] = [[] for _ in types]

    @property
    def size(self) -> int:
        """The number of keys."""
        if self._index is not None:
            return self._index.size
        return self._pairs[-1].size if self._pairs else self._columns[0].size

    def slots_of(self, columns: list[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the slot of each row's key. New keys get the next slots."""
        if self._index is not None:
            # No key is removed, so new keys get the next slots.
            slots, new_rows = self._index.slots_of(columns)
        else:
            slots, new_rows = self._columns[0].slots_of(columns[0])
            for pair, column, values in zip(self._pairs, self._columns[1:], columns[1:]):
                right, _ = column.slots_of(values)
                # Slots stay below 2**31: memory runs out before.
                slots, new_rows = pair.slots_of((slots << 32) | right)
        if len(new_rows):
            indices = pa.array(new_rows)
            for chunks, values in zip(self._key_chunks, columns):
                _append_chunk(chunks, values.take(indices))
        return slots

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns the key columns of these slots. The cost does not depend on the number of other slots."""
        chunks = self._key_chunks[0]
        if len(chunks) <= 1:
            indices = pa.array(slots)
            return [column.take(indices) for column in self.keys()]
        ends = np.cumsum([len(chunk) for chunk in chunks])
        numbers = np.searchsorted(ends, slots, side="right")
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers, np.arange(len(chunks) + 1), sorter=order)
        pieces = []
        for number, begin in enumerate((0, *ends[:-1].tolist())):
            rows = order[bounds[number] : bounds[number + 1]]
            if len(rows):
                pieces.append((number, pa.array(slots.take(rows) - begin)))
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        in_order = pa.array(back)
        return [
            pa.concat_arrays([chunks[number].take(indices) for number, indices in pieces]).take(in_order)
            if pieces
            else pa.array([], kind)
            for chunks, kind in zip(self._key_chunks, self.types)
        ]

    def keys(self) -> list[pa.Array]:
        """Returns the key columns of all slots."""
        for position, (chunks, arrow_type) in enumerate(zip(self._key_chunks, self.types)):
            if len(chunks) != 1:
                self._key_chunks[position] = [pa.concat_arrays(chunks) if chunks else pa.array([], arrow_type)]
        return [chunks[0] for chunks in self._key_chunks]

    def key_chunks(self) -> list[list[pa.Array]]:
        """Returns, per key column, chunks with the values of all slots. The chunks never change."""
        return [chunks.copy() if chunks else [pa.array([], kind)] for chunks, kind in zip(self._key_chunks, self.types)]


def _append_chunk(chunks: list[pa.Array], chunk: pa.Array) -> None:
    """Appends a chunk. Merges it with chunks at the end that are at most twice as long as what follows them."""
    first = len(chunks)
    length, size_bytes = len(chunk), chunk.nbytes
    while first and len(chunks[first - 1]) <= 2 * length:
        length += len(chunks[first - 1])
        size_bytes += chunks[first - 1].nbytes
        if length > _MAX_CHUNK_ROWS or size_bytes > _MAX_CHUNK_BYTES:
            break
        first -= 1
    chunks[first:] = [pa.concat_arrays([*chunks[first:], chunk]) if first < len(chunks) else chunk]


def _has_words(kind: pa.DataType) -> bool:
    """True if a KeyIndex takes the same values as equal: not floats, because -0.0 and 0.0 are different keys here."""
    types = pa.types
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal128(kind):
        return True
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return True
    return types.is_temporal(kind) and not types.is_interval(kind)  # type: ignore[no-any-return]


class _ColumnSlots:
    """The slots of one column's values, including null."""

    def __init__(self, arrow_type: pa.DataType, zeros_are_one: bool) -> None:
        self._encode = _encoder(arrow_type, zeros_are_one)
        self._slots = IntSlots()
        self._null_slot: int | None = None

    @property
    def size(self) -> int:
        return self._slots.size

    def slots_of(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n]: the slots; and the rows at which new slots appear first, in slot order."""
        if not column.null_count:
            return self._slots.slots_of(self._encode(column))
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)
        valid_rows = np.flatnonzero(is_valid)
        slots = np.empty(len(column), dtype=np.int64)
        slots[valid_rows], new = self._slots.slots_of(self._encode(column.drop_null()))
        new_rows = valid_rows[new]
        if self._null_slot is None:
            self._null_slot = self._slots.reserve()
            new_rows = np.append(new_rows, np.flatnonzero(~is_valid)[:1])
        slots[~is_valid] = self._null_slot
        return slots, new_rows


def _encoder(arrow_type: pa.DataType, zeros_are_one: bool) -> Any:
    """Returns a function from a column without nulls to int64[n] codes. Equal values always have equal codes."""
    types = pa.types
    if types.is_integer(arrow_type):
        return lambda column: column.to_numpy().astype(np.int64, copy=False)
    if types.is_boolean(arrow_type):
        return lambda column: column.to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_floating(arrow_type):
        return lambda column: _float_codes(column, zeros_are_one)
    if types.is_date32(arrow_type) or types.is_time32(arrow_type):
        return lambda column: column.view(pa.int32()).to_numpy().astype(np.int64)
    if types.is_temporal(arrow_type) and arrow_type.bit_width == 64:
        return lambda column: column.view(pa.int64()).to_numpy()
    encoder = _DictionaryEncoder()
    if types.is_nested(arrow_type):
        return lambda column: encoder(nested_texts(column))
    return encoder


def _float_codes(column: pa.Array, zeros_are_one: bool) -> np.ndarray:
    """Returns the bits of the numbers. All NaNs are equal. As keys -0.0 and 0.0 differ; see `records.key_identity`."""
    numbers = column.to_numpy().astype(np.float64)  # a copy
    if zeros_are_one:
        numbers += 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.int64)


class _DictionaryEncoder:
    """Numbers the values in the order of their first appearance."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}

    def __call__(self, column: pa.Array) -> np.ndarray:
        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        known = self._codes
        codes = [known.setdefault(value, len(known)) for value in encoded.dictionary.to_pylist()]
        return np.array(codes, dtype=np.int64)[encoded.indices.to_numpy()]
