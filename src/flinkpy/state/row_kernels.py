"""Kernels of RowTable: a hash index from int64 words to slots, and lists of rows per slot.

There are two forms with equal behaviour. CompiledKernels are loops that numba compiles; they run without the GIL.
NumpyKernels process all rows of a batch together, in rounds. `kernels()` returns the compiled form if numba is
installed.

The index is a table with open addressing: `table_words` int64[2**k], and `table_slots` int32[2**k] with EMPTY, REMOVED
or a slot. The rows of a slot form a linked list in the order in which they were added: `head`, `tail` int32 by slot,
and `next_row`, `previous_row` int32 by row, with NONE at the ends.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from flinkpy.records.key_hash import compile_hashes

EMPTY, REMOVED = -1, -2
NONE = -1
#: During an insertion a place holds this number minus the position of the word that claims it.
_CLAIMED = -3
#: 2**64 divided by the golden ratio: spreads consecutive words (Fibonacci hashing).
_MULTIPLIER = 0x9E3779B97F4A7C15


class RowKernels(Protocol):
    """Thread: task thread. Arrays of words are int64[n]; `shift` is 64 minus the number of bits of the table's size."""

    name: str

    def find(self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int) -> np.ndarray:
        """Returns int64[n]: the slot of each word; negative if there is none."""
        ...

    def find_or_add(
        self,
        words: np.ndarray,
        table_words: np.ndarray,
        table_slots: np.ndarray,
        shift: int,
        free: np.ndarray,
        next_slot: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Looks up words. The table has room for them.

        New words get the slots at the end of `free`, from the last one backwards, then `next_slot` and those after it.

        Returns: int64[n]: the slots; int64[m]: for each new slot, in the order of assignment, its first position.
        """
        ...

    def remove(self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int) -> None:
        """Removes words that are in the table, each once."""
        ...

    def insert(
        self, words: np.ndarray, slots: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int
    ) -> None:
        """Inserts new, distinct words."""
        ...

    def link(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        counts: np.ndarray,
        next_row: np.ndarray,
        previous_row: np.ndarray,
    ) -> None:
        """Appends rows to the lists of their slots, in this order. `previous_row` is not kept if it is empty."""
        ...

    def unlink(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        counts: np.ndarray,
        next_row: np.ndarray,
        previous_row: np.ndarray,
    ) -> None:
        """Removes distinct rows from the lists of their slots."""
        ...

    def rows_of(
        self, slots: np.ndarray, head: np.ndarray, counts: np.ndarray, next_row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows of these slots: int64[m] positions in `slots`, ascending; int64[m] rows in list order.

        A negative slot has no rows.
        """
        ...


@cache
def kernels() -> RowKernels:
    """Returns the compiled kernels if numba is installed, otherwise those of NumPy."""
    return CompiledKernels() if find_spec("numba") is not None else NumpyKernels()


# -- NumPy ---------------------------------------------------------------------------------------------------------


class NumpyKernels:
    name = "numpy"

    def find(self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int) -> np.ndarray:
        return self._places(words, table_words, table_slots, shift)[0]

    def _places(
        self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the slot of each word, or EMPTY; and its place."""
        mask = len(table_slots) - 1
        place = _homes(words, shift)
        slots = table_slots.take(place)
        wrong = np.flatnonzero((slots != EMPTY) & ((slots == REMOVED) | (table_words.take(place) != words)))
        while len(wrong):
            here = (place[wrong] + 1) & mask
            place[wrong] = here
            found = table_slots.take(here)
            slots[wrong] = found
            wrong = wrong[(found != EMPTY) & ((found == REMOVED) | (table_words.take(here) != words[wrong]))]
        return slots.astype(np.int64), place

    def find_or_add(
        self,
        words: np.ndarray,
        table_words: np.ndarray,
        table_slots: np.ndarray,
        shift: int,
        free: np.ndarray,
        next_slot: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        slots = self.find(words, table_words, table_slots, shift)
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots, missing
        wanted = words[missing]
        mask = len(table_slots) - 1
        place = _homes(wanted, shift)
        #: The position of the first appearance of each word.
        owner = np.empty(len(wanted), dtype=np.int64)
        left = np.arange(len(wanted))
        while len(left):
            here = place[left]
            claims = left[table_slots[here] == EMPTY]
            # Equal words probe the same places. The writes go backwards, so the first claim of a place wins.
            table_slots[place[claims[::-1]]] = _CLAIMED - claims[::-1]
            claimant = _CLAIMED - table_slots[here].astype(np.int64)
            is_claimed = claimant >= 0
            is_settled = is_claimed & (wanted[np.where(is_claimed, claimant, 0)] == wanted[left])
            owner[left[is_settled]] = claimant[is_settled]
            left = left[~is_settled]
            place[left] = (place[left] + 1) & mask
        firsts = np.flatnonzero(owner == np.arange(len(wanted)))
        given = np.empty(len(wanted), dtype=np.int64)
        given[firsts] = new_slots(len(firsts), free, next_slot)
        table_slots[place[firsts]] = given[firsts]
        table_words[place[firsts]] = wanted[firsts]
        slots[missing] = given.take(owner)
        return slots, missing[firsts]

    def remove(self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int) -> None:
        _, place = self._places(words, table_words, table_slots, shift)
        table_slots[place] = REMOVED

    def insert(
        self, words: np.ndarray, slots: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int
    ) -> None:
        mask = len(table_slots) - 1
        place = _homes(words, shift)
        while len(words):
            is_empty = table_slots[place] < 0
            # Several words may claim the same empty place. The last write wins.
            table_slots[place[is_empty]] = slots[is_empty]
            settled = is_empty & (table_slots[place] == slots)
            table_words[place[settled]] = words[settled]
            left = ~settled
            words, slots, place = words[left], slots[left], (place[left] + 1) & mask

    def link(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        counts: np.ndarray,
        next_row: np.ndarray,
        previous_row: np.ndarray,
    ) -> None:
        if not len(rows):
            return
        order = np.argsort(slots, kind="stable")
        slots, rows = slots[order], rows[order]
        is_first = np.append(True, slots[1:] != slots[:-1])
        is_last = np.append(is_first[1:], True)
        firsts, lasts, distinct = rows[is_first], rows[is_last], slots[is_first]
        next_row[rows[:-1]] = rows[1:]
        next_row[lasts] = NONE
        before = tail[distinct]
        has_rows = before != NONE
        next_row[before[has_rows]] = firsts[has_rows]
        if len(previous_row):
            previous_row[rows[1:]] = rows[:-1]
            previous_row[firsts] = before
        head[distinct[~has_rows]] = firsts[~has_rows]
        tail[distinct] = lasts
        counts[distinct] += np.diff(np.flatnonzero(is_first), append=len(rows)).astype(counts.dtype)

    def unlink(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        counts: np.ndarray,
        next_row: np.ndarray,
        previous_row: np.ndarray,
    ) -> None:
        is_removed = np.zeros(len(next_row), dtype=bool)
        is_removed[rows] = True
        after = _skip(next_row[rows], next_row, is_removed)
        before = _skip(previous_row[rows], previous_row, is_removed)
        has_before, has_after = before != NONE, after != NONE
        next_row[before[has_before]] = after[has_before]
        previous_row[after[has_after]] = before[has_after]
        head[slots[~has_before]] = after[~has_before]
        tail[slots[~has_after]] = before[~has_after]
        np.subtract.at(counts, slots, 1)

    def rows_of(
        self, slots: np.ndarray, head: np.ndarray, counts: np.ndarray, next_row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        known = np.flatnonzero(slots >= 0)
        here = slots[known]
        num_rows = counts.take(here).astype(np.int64)
        places = np.cumsum(num_rows) - num_rows
        positions = np.repeat(known, num_rows)
        rows = np.empty(len(positions), dtype=np.int64)
        some = num_rows > 0
        places, current = places[some], head.take(here[some])
        while len(current):
            rows[places] = current
            current = next_row.take(current)
            left = current != NONE
            current, places = current[left], places[left] + 1
        return positions, rows


def _homes(words: np.ndarray, shift: int) -> np.ndarray:
    return ((words.view(np.uint64) * np.uint64(_MULTIPLIER)) >> np.uint64(shift)).astype(np.int64)


def _skip(rows: np.ndarray, step: np.ndarray, is_removed: np.ndarray) -> np.ndarray:
    """Follows `step` from each row to the first one that is not removed. Returns int64[n], with NONE at the ends."""
    rows = rows.astype(np.int64)
    while True:
        wrong = np.flatnonzero((rows != NONE) & is_removed.take(rows))
        if not len(wrong):
            return rows
        rows[wrong] = step.take(rows[wrong])


def read_only(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flags.writeable = False
    return values


def new_slots(count: int, free: np.ndarray, next_slot: int) -> np.ndarray:
    """Returns the slots that `find_or_add` gives to new words."""
    reused = free[len(free) - min(count, len(free)) :][::-1]
    return np.concatenate([reused, np.arange(next_slot, next_slot + count - len(reused))])


# -- numba ---------------------------------------------------------------------------------------------------------


def _find(words: Any, table_words: Any, table_slots: Any, shift: Any, out: Any) -> None:
    mask = len(table_slots) - 1
    for i in range(len(words)):
        word = words[i]
        place = np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))
        while True:
            slot = table_slots[place]
            if slot == -1 or (slot >= 0 and table_words[place] == word):
                break
            place = (place + 1) & mask
        out[i] = slot


def _find_or_add(
    words: Any,
    table_words: Any,
    table_slots: Any,
    shift: Any,
    free: Any,
    next_slot: Any,
    out: Any,
    new: Any,
) -> Any:
    mask = len(table_slots) - 1
    num_free = len(free)
    num_new = 0
    for i in range(len(words)):
        word = words[i]
        place = np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))
        while True:
            slot = table_slots[place]
            if slot == -1 or (slot >= 0 and table_words[place] == word):
                break
            place = (place + 1) & mask
        given = np.int64(slot)
        if slot == -1:
            given = free[num_free - 1 - num_new] if num_new < num_free else next_slot + num_new - num_free
            table_slots[place] = given
            table_words[place] = word
            new[num_new] = i
            num_new += 1
        out[i] = given
    return num_new


def _remove(words: Any, table_words: Any, table_slots: Any, shift: Any) -> None:
    mask = len(table_slots) - 1
    for i in range(len(words)):
        word = words[i]
        place = np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))
        while table_slots[place] < 0 or table_words[place] != word:
            place = (place + 1) & mask
        table_slots[place] = -2


def _insert(words: Any, slots: Any, table_words: Any, table_slots: Any, shift: Any) -> None:
    mask = len(table_slots) - 1
    for i in range(len(words)):
        word = words[i]
        place = np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))
        while table_slots[place] != -1:
            place = (place + 1) & mask
        table_slots[place] = slots[i]
        table_words[place] = word


def _link(slots: Any, rows: Any, head: Any, tail: Any, counts: Any, next_row: Any, previous_row: Any) -> None:
    for i in range(len(rows)):
        slot, row = slots[i], rows[i]
        before = tail[slot]
        next_row[row] = -1
        if before == -1:
            head[slot] = row
        else:
            next_row[before] = row
        if len(previous_row):
            previous_row[row] = before
        tail[slot] = row
        counts[slot] += 1


def _unlink(slots: Any, rows: Any, head: Any, tail: Any, counts: Any, next_row: Any, previous_row: Any) -> None:
    for i in range(len(rows)):
        slot, row = slots[i], rows[i]
        before, after = previous_row[row], next_row[row]
        if before == -1:
            head[slot] = after
        else:
            next_row[before] = after
        if after == -1:
            tail[slot] = before
        else:
            previous_row[after] = before
        counts[slot] -= 1


def _count_rows(slots: Any, counts: Any) -> Any:
    total = 0
    for i in range(len(slots)):
        if slots[i] >= 0:
            total += counts[slots[i]]
    return total


def _rows_of(slots: Any, head: Any, next_row: Any, positions: Any, rows: Any) -> None:
    at = 0
    for i in range(len(slots)):
        if slots[i] >= 0:
            row = head[slots[i]]
            while row != -1:
                positions[at] = i
                rows[at] = row
                at += 1
                row = next_row[row]


class CompiledKernels:
    """Compiles when it is created, which takes seconds. Compiled code is cached on disk: later processes load it."""

    name = "numba"

    def __init__(self) -> None:
        import numba

        compiled = numba.njit(cache=True, nogil=True)
        self._find = compiled(_find)
        self._find_or_add = compiled(_find_or_add)
        self._remove = compiled(_remove)
        self._insert = compiled(_insert)
        self._link = compiled(_link)
        self._unlink = compiled(_unlink)
        self._count_rows = compiled(_count_rows)
        self._rows_of = compiled(_rows_of)
        self._warm_up()

    def _warm_up(self) -> None:
        """Compiles or loads all loops, so that no batch waits for it."""
        compile_hashes()
        none, none32 = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        # Arrow's columns are read-only, which is another type to numba.
        for words in (none, read_only(none)):
            self.find(words, none, none32, 60)
            self.find_or_add(words, none, none32, 60, none, 0)
        self.remove(none, none, none32, 60)
        self.insert(none, none, none, none32, 60)
        self.link(none, none, none32, none32, none32, none32, none32)
        self.unlink(none, none, none32, none32, none32, none32, none32)
        self.rows_of(none, none32, none32, none32)

    def find(self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int) -> np.ndarray:
        slots = np.empty(len(words), dtype=np.int64)
        self._find(words, table_words, table_slots, shift, slots)
        return slots

    def find_or_add(
        self,
        words: np.ndarray,
        table_words: np.ndarray,
        table_slots: np.ndarray,
        shift: int,
        free: np.ndarray,
        next_slot: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        slots = np.empty(len(words), dtype=np.int64)
        new = np.empty(len(words), dtype=np.int64)
        num_new = self._find_or_add(words, table_words, table_slots, shift, free, next_slot, slots, new)
        return slots, new[:num_new].copy()

    def remove(self, words: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int) -> None:
        self._remove(words, table_words, table_slots, shift)

    def insert(
        self, words: np.ndarray, slots: np.ndarray, table_words: np.ndarray, table_slots: np.ndarray, shift: int
    ) -> None:
        self._insert(words, slots, table_words, table_slots, shift)

    def link(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        counts: np.ndarray,
        next_row: np.ndarray,
        previous_row: np.ndarray,
    ) -> None:
        self._link(slots, rows, head, tail, counts, next_row, previous_row)

    def unlink(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        counts: np.ndarray,
        next_row: np.ndarray,
        previous_row: np.ndarray,
    ) -> None:
        self._unlink(slots, rows, head, tail, counts, next_row, previous_row)

    def rows_of(
        self, slots: np.ndarray, head: np.ndarray, counts: np.ndarray, next_row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        total = self._count_rows(slots, counts)
        positions, rows = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        self._rows_of(slots, head, next_row, positions, rows)
        return positions, rows
