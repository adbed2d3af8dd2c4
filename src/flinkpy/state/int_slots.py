"""IntSlots: assigns a slot (0, 1, 2, ...) to each distinct int64 in the order of first appearance, batch by batch.

It has two forms. While the keys lie in a small range, it is a table indexed by `key - base`, with one lookup per key.
Otherwise it is a hash table with open addressing, which is probed for all keys of a batch together: each round resolves
the keys that are at their place, and the next round continues with the rest. In a process that has loaded the compiled
kernels of `row_groups`, they probe key by key.

A table that is too small is replaced by an empty one. Its keys move there in steps, some with each batch, so that no
batch waits for all of them. Until then keys are looked up in both.
"""

from __future__ import annotations

import numpy as np

from flinkpy.state.row_groups import kernels

#: The maximum number of keys that the table form spans: 32 MiB of int64 slots.
MAX_DENSE_SPAN = 1 << 22
_MIN_DENSE_SPAN = 1 << 10
_MIN_HASH_CAPACITY = 1 << 12
#: 2**64 divided by the golden ratio: spreads consecutive keys (Fibonacci hashing).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_EMPTY = -1
#: During an insertion a place holds this number minus the position of the key that claims it.
_CLAIMED = -2
#: The number of places of a replaced table from which keys move per key of a batch, and at least per batch. A table has
#: room for half as many new keys as it has places before it is replaced, so all keys have moved by then.
_MOVED_PER_KEY, _MIN_MOVED = 8, 1 << 14


class IntSlots:
    """The slots of int64 keys. Thread: task thread.

    Attributes:
        size: the number of assigned slots.
    """

    def __init__(self) -> None:
        self.size = 0
        self._base = 0
        self._dense: np.ndarray | None = np.full(0, _EMPTY, dtype=np.int64)
        self._hashed = _HashTable(0)
        #: The table that has been replaced, until all its keys have moved; and how many of its places have.
        self._old: _DenseTable | _HashTable | None = None
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
            self._hashed, self._old = _HashTable(0), None
        else:
            self._dense.fill(_EMPTY)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slot of each key, negative for unknown keys."""
        if self._dense is not None:
            return _DenseTable(self._base, self._dense).find(keys)
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
        self._replace(_DenseTable(self._base, self._dense), _MIN_HASH_CAPACITY)
        self._dense = None

    # -- hash table ----------------------------------------------------------------------------------------------

    def _hashed_slots(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if 2 * (self.size + len(keys)) > self._hashed.num_places:
            if self._old is not None:
                self._move(self._old.num_places)
            self._replace(self._hashed, len(keys))
        if self._old is None:
            return self._find_or_insert(keys)
        self._move(max(_MIN_MOVED, _MOVED_PER_KEY * len(keys)))
        if self._old is None:
            return self._find_or_insert(keys)
        slots = self._old.find(keys)
        missing = np.flatnonzero(slots < 0)
        slots[missing], new = self._find_or_insert(keys[missing])
        return slots, missing[new]

    def _find_or_insert(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slots, new = self._hashed.find_or_insert(keys, self.size)
        self.size += len(new)
        return slots, new

    def _replace(self, old: _DenseTable | _HashTable, wanted: int) -> None:
        """Begins a table with room for all keys and `wanted` more."""
        self._old = old if self.size else None
        self._num_moved = 0
        self._hashed = _HashTable(max(_MIN_HASH_CAPACITY, 4 * (self.size + wanted)))

    def _move(self, count: int) -> None:
        """Moves the keys in the next `count` places of the old table to the new one."""
        assert self._old is not None
        begin, end = self._num_moved, min(self._num_moved + count, self._old.num_places)
        self._hashed.insert(*self._old.entries(begin, end))
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

    def entries(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the keys in these places, and their slots."""
        places = begin + np.flatnonzero(self._slots[begin:end] >= 0)
        return places + self._base, self._slots.take(places)


class _HashTable:
    """A hash table with open addressing. It has at least `capacity` places."""

    def __init__(self, capacity: int) -> None:
        bits = max(1, (capacity - 1).bit_length())
        self.num_places = 1 << bits
        self._keys = np.zeros(1 << bits, dtype=np.int64)
        # Slots stay below 2**31: memory runs out before.
        self._slots = np.full(1 << bits, _EMPTY, dtype=np.int32)
        self._shift = np.uint64(64 - bits)

    def _home(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.view(np.uint64) * _MULTIPLIER) >> self._shift).astype(np.int64)

    def entries(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the keys in these places, and their slots."""
        places = begin + np.flatnonzero(self._slots[begin:end] >= 0)
        return self._keys.take(places), self._slots.take(places).astype(np.int64)

    def insert(self, keys: np.ndarray, slots: np.ndarray) -> None:
        """Inserts new, distinct keys."""
        module = kernels.loaded
        if module is not None:
            module.insert(keys, slots, self._keys, self._slots, self._shift)
            return
        mask = len(self._slots) - 1
        place = self._home(keys)
        while len(keys):
            empty = self._slots[place] < 0
            # Several keys may claim the same empty place. The last write wins.
            self._slots[place[empty]] = slots[empty]
            settled = empty & (self._slots[place] == slots)
            self._keys[place[settled]] = keys[settled]
            left = ~settled
            keys, slots, place = keys[left], slots[left], (place[left] + 1) & mask

    def find_or_insert(self, keys: np.ndarray, next_slot: int) -> tuple[np.ndarray, np.ndarray]:
        """Looks up keys, which may repeat. New keys get the next slots. The table has room for them.

        Returns: int64[n]: the slots; int64[m]: for each new slot, the first position of its key.
        """
        module = kernels.loaded
        if module is not None:
            slots, new = module.find_or_insert(keys, self._keys, self._slots, self._shift, next_slot)
            return slots, new
        slots = self.find(keys)
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots, missing
        slots[missing], is_first = self._insert_new(keys[missing], next_slot)
        return slots, missing[is_first]

    def _insert_new(self, keys: np.ndarray, next_slot: int) -> tuple[np.ndarray, np.ndarray]:
        """Inserts new keys, which may repeat.

        Returns: int64[n]: the slot of each key; bool[n]: true at the first appearance of each key.
        """
        table, mask = self._slots, len(self._slots) - 1
        place = self._home(keys)
        #: The position of the first appearance of each key.
        owner = np.empty(len(keys), dtype=np.int64)
        left = np.arange(len(keys))
        while len(left):
            here = place[left]
            claims = left[table[here] == _EMPTY]
            # Equal keys probe the same places. The writes go backwards, so the first claim of a place wins.
            table[place[claims[::-1]]] = _CLAIMED - claims[::-1]
            claimant = _CLAIMED - table[here]
            is_claimed = claimant >= 0
            is_settled = is_claimed & (keys[np.where(is_claimed, claimant, 0)] == keys[left])
            owner[left[is_settled]] = claimant[is_settled]
            left = left[~is_settled]
            place[left] = (place[left] + 1) & mask
        is_first = owner == np.arange(len(keys))
        firsts = np.flatnonzero(is_first)
        given = np.empty(len(keys), dtype=np.int64)
        given[firsts] = np.arange(next_slot, next_slot + len(firsts))
        table[place[firsts]] = given[firsts]
        self._keys[place[firsts]] = keys[firsts]
        return given.take(owner), is_first

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slots, negative for unknown keys."""
        module = kernels.loaded
        if module is not None:
            found: np.ndarray = module.find(keys, self._keys, self._slots, self._shift)
            return found
        place = self._home(keys)
        slots = self._slots.take(place).astype(np.int64)
        wrong = np.flatnonzero((slots >= 0) & (self._keys.take(place) != keys))
        mask = len(self._slots) - 1
        while len(wrong):
            next_place = (place[wrong] + 1) & mask
            place[wrong] = next_place
            found = self._slots.take(next_place)
            slots[wrong] = found
            wrong = wrong[(found >= 0) & (self._keys.take(next_place) != keys[wrong])]
        return slots
