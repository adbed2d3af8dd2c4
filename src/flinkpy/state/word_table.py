"""WordTable: a hash table with open addressing from words (int64) to slots (int32), which grows without long pauses.

A table that becomes too small is replaced by an empty one. Its words move there in steps, in the order of their places,
which is their order in the new table too. Until then a word is in one of both. The places of the new table are written
in steps, too, before it is used: words fall everywhere, so the first batch would otherwise wait for all of its memory.
"""

from __future__ import annotations

import numpy as np

from flinkpy.state.row_kernels import EMPTY, REMOVED, RowKernels

_MIN_PLACES = 1 << 10
#: The number of places of a replaced table from which words move per word that is looked up, and at least per call. The
#: move ends before the new table is full, because an eighth of its places is free for new words.
_MOVED_PER_WORD, _MIN_MOVED = 8, 1 << 15
#: The number of places of the next table that are written per new word, and at least per call with new words.
_PREPARED_PER_WORD, _MIN_PREPARED = 16, 1 << 14


class _Places:
    """Places for words. They may be used after they have been prepared."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.words = np.empty(count, dtype=np.int64)
        self.slots = np.empty(count, dtype=np.int32)
        self.shift = 64 - (count - 1).bit_length()
        self._num_prepared = 0

    def prepare(self, count: int) -> None:
        """Writes the next `count` places."""
        end = min(self._num_prepared + count, self.count)
        self.words[self._num_prepared : end] = 0
        self.slots[self._num_prepared : end] = EMPTY
        self._num_prepared = end

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, int]:
        return self.words, self.slots, self.shift


class WordTable:
    """Thread: task thread.

    Attributes:
        size: the number of words.
    """

    def __init__(self, row_kernels: RowKernels) -> None:
        self.size = 0
        self._kernels = row_kernels
        self._here = _Places(_MIN_PLACES)
        self._here.prepare(_MIN_PLACES)
        #: The number of places in use, including those of removed words.
        self._num_used = 0
        #: The places that have been replaced, until all words have moved; and how many of them have been visited.
        self._old: _Places | None = None
        self._num_moved = 0
        #: Those that will replace the current ones.
        self._next: _Places | None = None

    def find(self, words: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the slot of each word; negative for unknown words."""
        slots = self._kernels.find(words, *self._here.arrays)
        if self._old is not None:
            missing = np.flatnonzero(slots < 0)
            if len(missing):
                slots[missing] = self._kernels.find(words[missing], *self._old.arrays)
        return slots

    def find_or_add(self, words: np.ndarray, free: np.ndarray, next_slot: int) -> tuple[np.ndarray, np.ndarray]:
        """Looks up words. New ones get the slots at the end of `free`, backwards, then `next_slot` and those after it.

        Returns: int64[n]: the slots; int64[m]: for each new slot, in the order of assignment, its first position.
        """
        self._make_room(len(words))
        if self._old is None:
            slots, new = self._kernels.find_or_add(words, *self._here.arrays, free, next_slot)
        else:
            slots = self._kernels.find(words, *self._old.arrays)
            missing = np.flatnonzero(slots < 0)
            slots[missing], new = self._kernels.find_or_add(words[missing], *self._here.arrays, free, next_slot)
            new = missing[new]
        self._note_added(len(new))
        return slots, new

    def insert(self, words: np.ndarray, slots: np.ndarray) -> None:
        """Adds new, distinct words with these slots."""
        self._make_room(len(words))
        self._kernels.insert(words, slots, *self._here.arrays)
        self._note_added(len(words))

    def remove(self, words: np.ndarray) -> None:
        """Removes words of the table, each once."""
        self.size -= len(words)
        if self._old is not None:
            is_old = self._kernels.find(words, *self._old.arrays) >= 0
            self._kernels.remove(words[is_old], *self._old.arrays)
            words = words[~is_old]
        self._kernels.remove(words, *self._here.arrays)

    # -- growth ------------------------------------------------------------------------------------------------------

    def _note_added(self, count: int) -> None:
        self.size += count
        self._num_used += count
        if count and 8 * self._num_used > 3 * self._here.count:
            if self._next is None:
                self._next = _Places(self._places_for(self.size + self._here.count // 2 - self._num_used))
            self._next.prepare(max(_MIN_PREPARED, _PREPARED_PER_WORD * count))

    def _places_for(self, size: int) -> int:
        """Returns how many places a table for this number of words begins with."""
        count = _MIN_PLACES
        while 8 * size > 3 * count:
            count *= 2
        return count

    def _make_room(self, wanted: int) -> None:
        """Moves some words of replaced places. Replaces the current ones before more than half of them are in use."""
        if 2 * (self._num_used + wanted) > self._here.count:
            if self._old is not None:
                self._move(self._old.count)
            count = self._places_for(self.size + wanted)
            following = self._next
            if following is None or following.count < count:
                following = _Places(count)
            following.prepare(following.count)
            self._old, self._num_moved = self._here, 0
            self._here, self._next = following, None
            # Words that have not moved yet are counted too, so their room is reserved.
            self._num_used = self.size
        if self._old is not None:
            self._move(max(_MIN_MOVED, _MOVED_PER_WORD * wanted))

    def _move(self, count: int) -> None:
        """Moves the words in the next `count` replaced places."""
        assert self._old is not None
        old = self._old
        begin, end = self._num_moved, min(self._num_moved + count, old.count)
        places = begin + np.flatnonzero(old.slots[begin:end] >= 0)
        self._kernels.insert(old.words.take(places), old.slots.take(places).astype(np.int64), *self._here.arrays)
        # Words behind these places are found beyond them.
        old.slots[places] = REMOVED
        self._num_moved = end
        if end == old.count:
            self._old = None
