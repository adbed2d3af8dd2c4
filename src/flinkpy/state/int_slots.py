"""IntSlots: gives each distinct int64 a slot: 0, 1, 2, ... in order of first appearance; a whole batch at a time.

Two forms. While the keys lie in a small range, a table indexed by `key - base`: one lookup a key. When they do not, an
open-addressing hash table that is probed for all keys of the batch together: each round settles every key whose place
it is, and only the others go into the next.
"""

from __future__ import annotations

import numpy as np

#: The table form may span this many keys: 32 MiB of int64 slots.
MAX_DENSE_SPAN = 1 << 22
_MIN_DENSE_SPAN = 1 << 10
_MIN_HASH_CAPACITY = 1 << 12
#: 2**64 divided by the golden ratio: spreads consecutive keys (Fibonacci hashing).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_EMPTY = -1
#: While keys are put in, this minus its position stands for the one that wants a place.
_CLAIMED = -2


class IntSlots:
    """Thread: task thread.

    Attributes:
        size: number of slots given out.
    """

    def __init__(self) -> None:
        self.size = 0
        self._base = 0
        self._dense: np.ndarray | None = np.full(0, _EMPTY, dtype=np.int64)
        self._hash_keys = np.empty(0, dtype=np.int64)
        self._hash_slots = np.empty(0, dtype=np.int64)
        self._shift = np.uint64(0)

    def slots_of(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Args:
            keys: int64[n].

        Returns:
            slots: int64[n].
            new_positions: int64[m]: where in `keys` each slot given out by this call first appears, in slot order.
        """
        if not len(keys):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if self._dense is not None and self._cover(int(keys.min()), int(keys.max())):
            return self._dense_slots(self._dense, keys)
        return self._hashed_slots(keys)

    def clear(self) -> None:
        """Forget all keys. The table keeps its room: whoever clears it will fill it again."""
        self.size = 0
        if self._dense is None:
            self._dense = np.full(0, _EMPTY, dtype=np.int64)
            self._hash_keys = self._hash_slots = np.empty(0, dtype=np.int64)
        else:
            self._dense.fill(_EMPTY)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """int64[n]: the slot of each key, negative where it has none."""
        table = self._dense
        if table is None:
            return self._find(keys)
        index = keys - self._base
        is_inside = (index >= 0) & (index < len(table))
        slots = np.full(len(keys), _EMPTY, dtype=np.int64)
        slots[is_inside] = table.take(index[is_inside])
        return slots

    def reserve(self) -> int:
        """A slot that belongs to no number."""
        self.size += 1
        return self.size - 1

    # -- table ---------------------------------------------------------------------------------------------------

    def _cover(self, low: int, high: int) -> bool:
        """Make the table span low..high; False where that is too much, and the keys are hashed from now on."""
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
        # Room to both sides, so that keys that creep up (or down) do not copy the table each time.
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
        # Written backwards, so the first appearance of a key is the one that stays.
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
        """Put in keys that are not there, each once."""
        mask = len(self._hash_slots) - 1
        place = self._home(keys)
        while len(keys):
            empty = self._hash_slots[place] < 0
            # Several may want the same empty place: the last one written has it.
            self._hash_slots[place[empty]] = slots[empty]
            settled = empty & (self._hash_slots[place] == slots)
            self._hash_keys[place[settled]] = keys[settled]
            left = ~settled
            keys, slots, place = keys[left], slots[left], (place[left] + 1) & mask

    def _hashed_slots(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        """Put in keys that are not there, each any number of times; there is room. They get the next slots.

        Returns: (int64[n]: the slot of each, bool[n]: whether it is the first of its key).
        """
        table, mask = self._hash_slots, len(self._hash_slots) - 1
        place = self._home(keys)
        #: Position of the first one of the same key.
        owner = np.empty(len(keys), dtype=np.int64)
        left = np.arange(len(keys))
        while len(left):
            here = place[left]
            claims = left[table[here] == _EMPTY]
            # The same keys want the same places all the way. Written backwards, so that the first who wants it stays.
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
        """int64[n] slots, negative where the key is not there."""
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
