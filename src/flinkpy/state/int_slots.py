"""IntSlots: assigns a slot (0, 1, 2, ...) to each distinct int64 in the order of first appearance, batch by batch.

It has two forms. While the keys lie in a small range, it is a table indexed by `key - base`, with one lookup per key.
Otherwise it is a hash table with open addressing, which is probed for all keys of a batch together: each round resolves
the keys that are at their place, and the next round continues with the rest. In a process that has loaded the compiled
kernels of `row_groups`, they probe key by key.
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


class IntSlots:
    """The slots of int64 keys. Thread: task thread.

    Attributes:
        size: the number of assigned slots.
    """

    def __init__(self) -> None:
        self.size = 0
        self._base = 0
        self._dense: np.ndarray | None = np.full(0, _EMPTY, dtype=np.int64)
        self._hash_keys = np.empty(0, dtype=np.int64)
        self._hash_slots = np.empty(0, dtype=np.int64)
        self._shift = np.uint64(0)

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
            self._hash_keys = self._hash_slots = np.empty(0, dtype=np.int64)
        else:
            self._dense.fill(_EMPTY)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slot of each key, negative for unknown keys."""
        table = self._dense
        if table is None:
            return self._find(keys)
        index = keys - self._base
        is_inside = (index >= 0) & (index < len(table))
        slots = np.full(len(keys), _EMPTY, dtype=np.int64)
        slots[is_inside] = table.take(index[is_inside])
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
        table, self._dense = self._dense, None
        assert table is not None
        used = np.flatnonzero(table >= 0)
        self._rebuild(used + self._base, table[used], max(_MIN_HASH_CAPACITY, 4 * len(used)))

    # -- hash table ----------------------------------------------------------------------------------------------

    def _rebuild(self, keys: np.ndarray, slots: np.ndarray, capacity: int) -> None:
        bits = max(1, (capacity - 1).bit_length())
        self._hash_keys = np.zeros(1 << bits, dtype=np.int64)
        self._hash_slots = np.full(1 << bits, _EMPTY, dtype=np.int64)
        self._shift = np.uint64(64 - bits)
        self._insert(keys, slots)

    def _home(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.view(np.uint64) * _MULTIPLIER) >> self._shift).astype(np.int64)

    def _insert(self, keys: np.ndarray, slots: np.ndarray) -> None:
        """Inserts new, distinct keys."""
        module = kernels.loaded
        if module is not None:
            module.insert(keys, slots, self._hash_keys, self._hash_slots, self._shift)
            return
        mask = len(self._hash_slots) - 1
        place = self._home(keys)
        while len(keys):
            empty = self._hash_slots[place] < 0
            # Several keys may claim the same empty place. The last write wins.
            self._hash_slots[place[empty]] = slots[empty]
            settled = empty & (self._hash_slots[place] == slots)
            self._hash_keys[place[settled]] = keys[settled]
            left = ~settled
            keys, slots, place = keys[left], slots[left], (place[left] + 1) & mask

    def _hashed_slots(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        module = kernels.loaded
        if module is not None:
            if 2 * (self.size + len(keys)) > len(self._hash_slots):
                used = self._hash_slots >= 0
                self._rebuild(self._hash_keys[used], self._hash_slots[used], 4 * (self.size + len(keys)))
            slots, new = module.find_or_insert(keys, self._hash_keys, self._hash_slots, self._shift, self.size)
            self.size += len(new)
            return slots, new
        slots = self._find(keys)
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots, missing
        if 2 * (self.size + len(missing)) > len(self._hash_slots):
            used = self._hash_slots >= 0
            self._rebuild(self._hash_keys[used], self._hash_slots[used], 4 * (self.size + len(missing)))
        slots[missing], is_first = self._insert_new(keys[missing])
        return slots, missing[is_first]

    def _insert_new(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inserts new keys, which may repeat, and assigns the next slots. The table has room for them.

        Returns: int64[n]: the slot of each key; bool[n]: true at the first appearance of each key.
        """
        table, mask = self._hash_slots, len(self._hash_slots) - 1
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
        given[firsts] = np.arange(self.size, self.size + len(firsts))
        self.size += len(firsts)
        table[place[firsts]] = given[firsts]
        self._hash_keys[place[firsts]] = keys[firsts]
        return given.take(owner), is_first

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slots, negative for unknown keys."""
        place = self._home(keys)
        slots = self._hash_slots.take(place)
        wrong = np.flatnonzero((slots >= 0) & (self._hash_keys.take(place) != keys))
        mask = len(self._hash_slots) - 1
        while len(wrong):
            next_place = (place[wrong] + 1) & mask
            place[wrong] = next_place
            found = self._hash_slots.take(next_place)
            slots[wrong] = found
            wrong = wrong[(found >= 0) & (self._hash_keys.take(next_place) != keys[wrong])]
        return slots
