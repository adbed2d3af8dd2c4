"""KeyIndex: assigns a slot to each distinct key of Arrow columns, batch by batch. Slots of removed keys are reused.

A key is known by words. The words of one column of numbers or times are its values, so they are exact. Other keys have
two independent 64-bit hashes: one finds the slot, and the other one must be equal too. The second one has a seed that
every process draws anew, so that no input can be made to contain two keys with equal words.

NULL is a key like any other, as in GROUP BY of SQL. All NaNs are equal, and so are -0.0 and 0.0.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.records.key_hash import hash_binary_column, mix_words
from flinkpy.records.nested_values import nested_texts
from flinkpy.state.growing import with_room
from flinkpy.state.pickling import dumps
from flinkpy.state.row_kernels import EMPTY, RowKernels, kernels, new_slots
from flinkpy.state.word_table import WordTable

_FIRST_SEED = np.uint64(0x9E3779B97F4A7C15)
#: The words of NULL.
_NULLS = (np.uint64(0x8EBC6AF09C88C6E3), np.uint64(0x589965CC75374CC3))
_STEP = np.uint64(0x52DCE729)
_NO_SLOTS = np.empty(0, dtype=np.int64)


class KeyWords:
    """Computes the words of keys. Thread: any.

    Args:
        types: the types of the key columns.
        seed: the seed of the second words.
    """

    def __init__(self, types: Sequence[pa.DataType], seed: int | None = None) -> None:
        self.types = list(types)
        #: True if the first word of a key without NULL is the key itself.
        self.is_exact = len(self.types) == 1 and _is_number(self.types[0])
        self._seed = secrets.randbits(64) if seed is None else seed

    def words(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """Returns two int64[n]: the words by which keys are found, and those that must be equal too."""
        length = len(columns[0])
        first = np.full(length, _FIRST_SEED, dtype=np.uint64)
        second = np.full(length, np.uint64(self._seed), dtype=np.uint64)
        for column in columns:
            for one, other in self._column_words(column):
                first = mix_words(first ^ one)
                first += _STEP
                second = mix_words((second ^ other) * np.uint64(0xC2B2AE3D27D4EB4F))
                second += _STEP
        return mix_words(first).view(np.int64), mix_words(second).view(np.int64)

    def _column_words(self, column: pa.Array) -> list[tuple[np.ndarray, np.ndarray]]:
        kind = column.type
        if pa.types.is_null(kind):
            return [(np.full(len(column), _NULLS[0]), np.full(len(column), _NULLS[1]))]
        if pa.types.is_dictionary(kind):
            return self._column_words(column.dictionary_decode())
        pairs: list[tuple[np.ndarray, np.ndarray]]
        if _is_number(kind):
            codes = exact_codes(column).view(np.uint64)
            pairs = [(codes, codes)]
        elif pa.types.is_decimal128(kind):
            halves = _decimal_halves(column)
            pairs = [(half, half) for half in halves]
        elif _is_text(kind):
            pairs = [self._text_words(column)]
        elif pa.types.is_struct(kind):
            pairs = [pair for field in column.flatten() for pair in self._column_words(field)]
        elif pa.types.is_nested(kind):
            pairs = [self._text_words(nested_texts(column))]
        else:
            pairs = [self._text_words(pa.array([dumps(value) for value in column.to_pylist()], pa.binary()))]
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            pairs = [(np.where(is_null, _NULLS[0], one), np.where(is_null, _NULLS[1], other)) for one, other in pairs]
        return pairs

    def _text_words(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        return hash_binary_column(column, int(_FIRST_SEED)), hash_binary_column(column, self._seed)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_floating(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
    )


def exact_codes(column: pa.Array) -> np.ndarray:
    """Returns int64[n]: equal numbers for equal values of a column of numbers or times. Those of NULL are arbitrary."""
    kind = column.type
    types = pa.types
    if types.is_boolean(kind):
        return column.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.int64)
    if types.is_floating(kind):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.int64)
    if types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if column.null_count:
        column = pc.fill_null(column, 0)
    return column.to_numpy().astype(np.int64, copy=False)


def _decimal_halves(column: pa.Array) -> list[np.ndarray]:
    buffer = column.buffers()[1]
    if buffer is None:
        return [np.zeros(len(column), dtype=np.uint64)] * 2
    halves = np.frombuffer(buffer, dtype=np.uint64, count=2 * (column.offset + len(column)))[2 * column.offset :]
    return [np.ascontiguousarray(halves[::2]), np.ascontiguousarray(halves[1::2])]


class KeyIndex:
    """The slots of keys. Thread: task thread.

    Attributes:
        capacity: all slots in use are below it.
        size: the number of keys.
    """

    def __init__(self, words: KeyWords, row_kernels: RowKernels | None = None) -> None:
        self._words = words
        self._table = WordTable(row_kernels or kernels())
        self.capacity = 0
        self.size = 0
        self._free = _NO_SLOTS
        self._num_free = 0
        self._word_of_slot = np.empty(0, dtype=np.int64)
        self._check_of_slot = np.empty(0, dtype=np.int64)
        self._null_slot = EMPTY
        #: The keys that share their first word with a key of the table: both words, and the slot.
        self._collided: dict[tuple[int, int], int] = {}
        self._collided_words: set[int] = set()

    # -- keys --------------------------------------------------------------------------------------------------------

    def find(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the slot of each key; negative for unknown keys."""
        if self._words.is_exact:
            column = columns[0]
            slots = self._table.find(exact_codes(column))
            if column.null_count:
                slots[column.is_null().to_numpy(zero_copy_only=False)] = self._null_slot
            return slots
        words, checks = self._words.words(columns)
        slots = self._table.find(words)
        if self.capacity:
            slots[(slots >= 0) & (self._check_of_slot.take(np.maximum(slots, 0)) != checks)] = EMPTY
        for row in self._collided_rows(words):
            slots[row] = self._collided.get((int(words[row]), int(checks[row])), int(slots[row]))
        return slots

    def slots_of(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """Looks up the slots of keys. New keys get slots.

        Returns: int64[n]: the slots; int64[m]: for each new slot the position where its key appears first.
        """
        if not len(columns[0]):
            return _NO_SLOTS, _NO_SLOTS
        if self._words.is_exact:
            return self._exact_slots(columns[0])
        return self._checked_slots(*self._words.words(columns))

    def remove(self, slots: np.ndarray) -> None:
        """Forgets the keys of these slots. The slots may be given to other keys."""
        if not len(slots):
            return
        if self._null_slot >= 0:
            is_null = slots == self._null_slot
            if is_null.any():
                self._release(slots[is_null])
                self._null_slot = EMPTY
                slots = slots[~is_null]
        if self._collided:
            slots = self._remove_collided(slots)
        self._table.remove(self._word_of_slot.take(slots))
        self._release(slots)

    # ----------------------------------------------------------------------------------------------------------------

    def _exact_slots(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        codes = exact_codes(column)
        if not column.null_count:
            slots, new = self._find_or_add(codes)
            self._word_of_slot[slots[new]] = codes[new]
            return slots, new
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(~is_null)
        slots = np.empty(len(codes), dtype=np.int64)
        slots[rows], new = self._find_or_add(codes[rows])
        new = rows[new]
        self._word_of_slot[slots[new]] = codes[new]
        if self._null_slot < 0:
            self._null_slot = int(self._allocate(1)[0])
            new = np.append(new, np.flatnonzero(is_null)[:1])
        slots[is_null] = self._null_slot
        return slots, new

    def _checked_slots(self, words: np.ndarray, checks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slots = np.full(len(words), EMPTY, dtype=np.int64)
        for row in self._collided_rows(words):
            slots[row] = self._collided.get((int(words[row]), int(checks[row])), EMPTY)
        rows = np.flatnonzero(slots < 0)
        slots[rows], new = self._find_or_add(words[rows])
        new = rows[new]
        self._word_of_slot[slots[new]] = words[new]
        self._check_of_slot[slots[new]] = checks[new]
        wrong = rows[self._check_of_slot.take(slots[rows]) != checks[rows]]
        for row in wrong.tolist():
            key = int(words[row]), int(checks[row])
            slot = self._collided.get(key)
            if slot is None:
                slot = self._collided[key] = int(self._allocate(1)[0])
                self._collided_words.add(key[0])
                self._word_of_slot[slot], self._check_of_slot[slot] = key
                new = np.append(new, row)
            slots[row] = slot
        return slots, new

    def _collided_rows(self, words: np.ndarray) -> list[int]:
        if not self._collided:
            return []
        return np.flatnonzero(np.isin(words, list(self._collided_words))).tolist()

    def _remove_collided(self, slots: np.ndarray) -> np.ndarray:
        """Removes the keys that are not in the table. Returns the other slots."""
        in_table = np.ones(len(slots), dtype=bool)
        for row in self._collided_rows(self._word_of_slot.take(slots)):
            slot = int(slots[row])
            key = int(self._word_of_slot[slot]), int(self._check_of_slot[slot])
            if self._collided.get(key) == slot:
                del self._collided[key]
                in_table[row] = False
        self._release(slots[~in_table])
        return slots[in_table]

    def _find_or_add(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slots, new = self._table.find_or_add(words, self._free[: self._num_free], self.capacity)
        self._take(len(new))
        return slots, new

    # -- slots -------------------------------------------------------------------------------------------------------

    def _allocate(self, count: int) -> np.ndarray:
        slots = new_slots(count, self._free[: self._num_free], self.capacity)
        self._take(count)
        return slots

    def _take(self, count: int) -> None:
        reused = min(count, self._num_free)
        self._num_free -= reused
        self.capacity += count - reused
        self.size += count
        self._word_of_slot = with_room(self._word_of_slot, self.capacity)
        if not self._words.is_exact:
            self._check_of_slot = with_room(self._check_of_slot, self.capacity)

    def _release(self, slots: np.ndarray) -> None:
        end = self._num_free + len(slots)
        self._free = with_room(self._free, end)
        self._free[self._num_free : end] = slots
        self._num_free = end
        self.size -= len(slots)
