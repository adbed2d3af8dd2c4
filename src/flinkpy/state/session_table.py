"""SessionTable: accumulators of sessions: per key some spans of time that do not touch each other.

The sessions of a key are a chain of slots. A batch is merged with the chains of its keys in one pass: all spans, those
of records and those of sessions, are sorted by key and start, and what touches becomes one session.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.window_table import NO_SLOTS, WindowTable, with_room

_END = -1


class SessionTable(WindowTable):
    """Thread: task thread. Slots are valid until the next `drop`. The times of a slot are start and end (exclusive)."""

    def __init__(self, layout: TableLayout) -> None:
        super().__init__(layout)
        self._is_live = np.zeros(0, dtype=bool)
        #: First slot of each key, and the next one of each slot.
        self._first = NO_SLOTS
        self._next = NO_SLOTS

    # -- what there is -----------------------------------------------------------------------------------------------

    def live_slots(self) -> np.ndarray:
        return np.flatnonzero(self._is_live[: self._size])

    def starts(self, slots: np.ndarray) -> np.ndarray:
        return self._times[0].take(slots)

    def ends(self, slots: np.ndarray) -> np.ndarray:
        return self._times[1].take(slots)

    def numbers_of(self, key_columns: list[pa.Array]) -> np.ndarray:
        """int64[n]: the number of each row's key. Valid until the next `drop`."""
        numbers = self._keys.slots_of(key_columns)
        known = len(self._first)
        if self._keys.size > known:
            self._first = with_room(self._first, self._keys.size)
            self._first[known:] = _END
        return numbers

    def has_sessions(self, numbers: np.ndarray) -> np.ndarray:
        """bool[n]: whether the keys with these numbers have any."""
        return self._first.take(numbers) != _END

    def touches(self, numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """bool[n]: whether a session of key `numbers[i]` touches `starts[i]` to `ends[i]`."""
        found = np.zeros(len(numbers), dtype=bool)
        slots = self._first.take(numbers)
        rows = np.flatnonzero(slots != _END)
        while len(rows):
            at = slots[rows]
            found[rows] |= (self._times[0].take(at) <= ends[rows]) & (self._times[1].take(at) >= starts[rows])
            slots[rows] = self._next.take(at)
            rows = rows[slots[rows] != _END]
        return found

    def _chains(self, numbers: np.ndarray) -> np.ndarray:
        """The slots of all sessions of these keys, each of which is there once."""
        chunks = []
        slots = self._first.take(numbers)
        while len(slots := slots[slots != _END]):
            chunks.append(slots)
            slots = self._next.take(slots)
        return np.concatenate(chunks) if chunks else NO_SLOTS

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray, value_columns: Sequence[pa.Array | None]
    ) -> np.ndarray:
        """Take in records, each of which spans `starts[i]` to `ends[i]` of key `numbers[i]`.

        Returns: int64[n]: the slot of each record's session.
        """
        touched = _distinct(numbers, self._keys.size)
        known = self._chains(touched)
        all_keys = np.concatenate([numbers, self._key_of_slot.take(known)])
        all_starts = np.concatenate([starts, self._times[0].take(known)])
        all_ends = np.concatenate([ends, self._times[1].take(known)])
        order, begins = _touching(all_keys, all_starts, all_ends)
        groups = np.empty(len(order), dtype=np.int64)
        groups[order] = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
        keys = all_keys.take(order).take(begins)
        group_starts = all_starts.take(order).take(begins)
        group_ends = np.maximum.reduceat(all_ends.take(order), begins)

        targets = np.full(len(begins), _END, dtype=np.int64)
        # One of the sessions of a group stays; the others go into it.
        targets[groups[len(numbers) :]] = known
        is_new = targets == _END
        self._has_room(self._size + int(is_new.sum()))
        new = self._append(keys[is_new], [group_starts[is_new], group_ends[is_new]])
        self._is_live[new] = True
        targets[is_new] = new
        self._times[0][targets] = group_starts
        self._times[1][targets] = group_ends
        into = targets.take(groups[len(numbers) :])
        is_merged = into != known
        if is_merged.any():
            gone, into = known[is_merged], into[is_merged]
            for accumulator in self.accumulators:
                accumulator.merge(into, accumulator, gone)
            self.dropped(gone)
        self._link(keys, targets)

        slots = targets.take(groups[: len(numbers)])
        for accumulator, values in zip(self.accumulators, value_columns, strict=True):
            accumulator.add(slots, values)
        self.changed(targets)
        return slots

    def _has_room(self, size: int) -> None:
        if size > len(self._next):
            self._next = with_room(self._next, size)
            self._is_live = np.append(self._is_live, np.zeros(len(self._next) - len(self._is_live), dtype=bool))

    def _link(self, keys: np.ndarray, slots: np.ndarray) -> None:
        """These slots are the chains of these keys, which are in order."""
        is_first = np.append(True, keys[1:] != keys[:-1])
        self._first[keys[is_first]] = slots[is_first]
        self._next[slots] = np.append(np.where(is_first[1:], _END, slots[1:]), _END)

    def dropped(self, slots: np.ndarray) -> None:
        super().dropped(slots)
        self._is_live[slots] = False

    def drop(self, slots: np.ndarray) -> None:
        """Forget these sessions."""
        if not len(slots):
            return
        self.dropped(slots)
        touched = _distinct(self._key_of_slot.take(slots), self._keys.size)
        left = self._chains(touched)
        left = left[self._is_live.take(left)]
        self._first[touched] = _END
        if len(left):
            keys = self._key_of_slot.take(left)
            order = np.argsort(keys, kind="stable")
            self._link(keys.take(order), left.take(order))
        self._compact_if_sparse()

    def _index_all(self) -> None:
        self._first = np.full(self._keys.size, _END, dtype=np.int64)
        self._next = np.full(self._size, _END, dtype=np.int64)
        self._is_live = np.ones(self._size, dtype=bool)
        if self._size:
            order = np.argsort(self._key_of_slot, kind="stable")
            self._link(self._key_of_slot.take(order), order)

    def _restore_entries(self, key_columns: list[pa.Array], times: list[np.ndarray]) -> np.ndarray:
        numbers = self.numbers_of(key_columns)
        self._has_room(self._size + len(numbers))
        slots = self._append(numbers, times)
        self._is_live[slots] = True
        order = np.argsort(numbers, kind="stable")
        keys, last = numbers.take(order), slots.take(order)
        is_first = np.append(True, keys[1:] != keys[:-1])
        before = self._first.take(keys[is_first])
        self._link(keys, last)
        # What other batches had of the key comes behind.
        is_last = np.append(keys[1:] != keys[:-1], True)
        self._next[last[is_last]] = before
        return slots


def _distinct(numbers: np.ndarray, span: int) -> np.ndarray:
    """The distinct numbers in order; all are below `span`."""
    if span > 16 * len(numbers) + 1024:
        return np.unique(numbers)
    is_there = np.zeros(span, dtype=bool)
    is_there[numbers] = True
    return np.flatnonzero(is_there)


def _touching(keys: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(an order by key and start, the positions in it at which spans begin that touch none before of their key)."""
    order = np.lexsort((starts, keys))
    keys, starts, ends = keys.take(order), starts.take(order), ends.take(order)
    is_first = np.append(True, keys[1:] != keys[:-1])
    # The latest end so far of each key: ends by their rank, raised for every key beyond all of the keys before.
    distinct, ranks = np.unique(ends, return_inverse=True)
    raised = (np.cumsum(is_first) - 1) * len(distinct)
    latest = distinct.take(np.maximum.accumulate(ranks + raised) - raised)
    is_first[1:] |= starts[1:] > latest[:-1]
    return order, np.flatnonzero(is_first)
