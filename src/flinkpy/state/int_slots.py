"""IntSlots: assigns a slot (0, 1, 2, ...) to each distinct int64 in the order of first appearance, batch by batch.

It has two forms. While the keys lie in a small range, it is a table indexed by `key - base`, with one lookup per key.
Otherwise it is a WordTable. Keys move there in steps, some with each batch, so that no batch waits for all of them.
Until then keys are looked up in both.
"""

from __future__ import annotations

import numpy as np

from flinkpy.state.row_groups import kernels as group_kernels
from flinkpy.state.row_kernels import NumpyKernels, kernels
from flinkpy.state.word_table import WordTable

#: The maximum number of keys that the table form spans: 32 MiB of int64 slots.
MAX_DENSE_SPAN = 1 << 22
_MIN_DENSE_SPAN = 1 << 10
_EMPTY = -1
#: The number of places of the first form whose keys move to the second one per key of a batch, and at least per batch.
_MOVED_PER_KEY, _MIN_MOVED = 1, 1 << 14
_NONE_FREE = np.empty(0, dtype=np.int64)


class IntSlots:
    """The slots of int64 keys. Thread: task thread.

    Attributes:
        size: the number of assigned slots.
    """

    def __init__(self) -> None:
        self.size = 0
        self._base = 0
        self._dense: np.ndarray | None = np.full(0, _EMPTY, dtype=np.int64)
        #: The hash table if `_dense` is None.
        self._hashed: WordTable | None = None
        #: The table that has been replaced, until all its keys have moved; and how many of its places have.
        self._old: _DenseTable | None = None
        self._num_moved = 0

    def slots_of(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Looks up the slots of keys. New keys get the next slots.

        Args:
            keys: int64[n].

        Returns:
            slots: int64[n].
            new_positions: int64[m]: for each slot that this call assigned, in slot order, its first position in `keys`.
        """
        if not len(keys):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if self._dense is not None and self._cover(int(keys.min()), int(keys.max())):
            return self._dense_slots(self._dense, keys)
        return self._hashed_slots(keys)

    def clear(self) -> None:
        """Forgets all keys. The table keeps its memory, because the caller fills it again."""
        self.size = 0
        if self._dense is None:
            self._dense = np.full(0, _EMPTY, dtype=np.int64)
            self._hashed = self._old = None
        else:
            self._dense.fill(_EMPTY)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slot of each key, negative for unknown keys."""
        if self._dense is not None:
            return _DenseTable(self._base, self._dense).find(keys)
        assert self._hashed is not None
        slots = self._hashed.find(keys)
        if self._old is not None:
            missing = np.flatnonzero(slots < 0)
            slots[missing] = self._old.find(keys[missing])
        return slots

    def reserve(self) -> int:
        """Assigns a slot that belongs to no key, and returns it."""
        self.size += 1
        return self.size - 1

    # -- table ---------------------------------------------------------------------------------------------------

    def _cover(self, low: int, high: int) -> bool:
        """Extends the table to span low..high. If that is too large, changes to the hash table and returns False."""
        table = self._dense
        assert table is not None
        if len(table) and low >= self._base and high < self._base + len(table):
            return True
        first = min(low, self._base) if len(table) else low
        last = max(high, self._base + len(table) - 1) if len(table) else high
        span = last - first + 1
        if span > MAX_DENSE_SPAN:
            self._to_hash_table()
            return False
        # Leaves room on both sides, so slowly growing (or falling) keys do not copy the table each time.
        span_wanted = min(MAX_DENSE_SPAN, max(_MIN_DENSE_SPAN, 2 * span))
        room_below = (span_wanted - span) // 2 if low < self._base and len(table) else 0
        base = max(first - room_below, -(1 << 63))
        grown = np.full(span_wanted, _EMPTY, dtype=np.int64)
        if len(table):
            grown[self._base - base : self._base - base + len(table)] = table
        self._base, self._dense = base, grown
        return True

    def _dense_slots(self, table: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        index = keys - self._base if self._base else keys
        slots = table.take(index)
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots, missing
        wanted = index[missing]
        # The writes go backwards, so the first appearance of a key wins.
        numbers = np.arange(len(wanted))
        table[wanted[::-1]] = numbers[::-1]
        is_first = table[wanted] == numbers
        new = int(is_first.sum())
        table[wanted[is_first]] = np.arange(self.size, self.size + new)
        self.size += new
        slots[missing] = table[wanted]
        return slots, missing[is_first]

    def _to_hash_table(self) -> None:
        assert self._dense is not None
        self._old = _DenseTable(self._base, self._dense) if self.size else None
        self._num_moved = 0
        self._dense = None
        self._hashed = WordTable(NumpyKernels() if group_kernels.loaded is None else kernels())

    # -- hash table ----------------------------------------------------------------------------------------------

    def _hashed_slots(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self._hashed is not None
        if self._old is not None:
            self._move(max(_MIN_MOVED, _MOVED_PER_KEY * len(keys)))
        if self._old is None:
            slots, new = self._hashed.find_or_add(keys, _NONE_FREE, self.size)
        else:
            slots = self._old.find(keys)
            missing = np.flatnonzero(slots < 0)
            slots[missing], new = self._hashed.find_or_add(keys[missing], _NONE_FREE, self.size)
            new = missing[new]
        self.size += len(new)
        return slots, new

    def _move(self, count: int) -> None:
        """Moves the keys in the next `count` places of the replaced table."""
        assert self._old is not None and self._hashed is not None
        begin, end = self._num_moved, min(self._num_moved + count, self._old.num_places)
        self._hashed.insert(*self._old.take(begin, end))
        self._num_moved = end
        if end == self._old.num_places:
            self._old = None


class _DenseTable:
    """Slots of a range of keys."""

    def __init__(self, base: int, slots: np.ndarray) -> None:
        self._base = base
        self._slots = slots
        self.num_places = len(slots)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slots, negative for unknown keys."""
        index = keys - self._base
        is_inside = (index >= 0) & (index < len(self._slots))
        slots = np.full(len(keys), _EMPTY, dtype=np.int64)
        slots[is_inside] = self._slots.take(index[is_inside])
        return slots

    def take(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Removes the keys in these places. Returns them and their slots."""
        places = begin + np.flatnonzero(self._slots[begin:end] >= 0)
        slots = self._slots.take(places)
        self._slots[places] = _EMPTY
        return places + self._base, slots
