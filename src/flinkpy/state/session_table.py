"""SessionTable: accumulators of sessions: per key some spans of time that do not touch each other.

The sessions of a key are a chain of slots, the latest first. A batch is merged with the beginnings of the chains of its
keys, as far back as its records reach, in one pass: all spans, those of records and those of sessions, are sorted by
key and start, and what touches becomes one session.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.end_queue import EndQueue
from flinkpy.state.window_table import NO_SLOTS, WindowTable, with_room

_END = -1
_LONG_AGO = np.iinfo(np.int64).min


class SessionTable(WindowTable):
    """Thread: task thread. Slots are valid until the next `drop`. The times of a slot are start and end (exclusive)."""

    def __init__(self, layout: TableLayout) -> None:
        super().__init__(layout)
        self._is_live = np.zeros(0, dtype=bool)
        #: First slot of each key, and the next one of each slot.
        self._first = NO_SLOTS
        self._next = NO_SLOTS
        #: Every live session is in one of the two queues, in either with an end that it had once; sessions only grow.
        self._ending, self._expiring = EndQueue(), EndQueue()
        self._is_ending = np.zeros(0, dtype=bool)
        self._is_expiring = np.zeros(0, dtype=bool)

    # -- what there is -----------------------------------------------------------------------------------------------

    def live_slots(self) -> np.ndarray:
        return np.flatnonzero(self._is_live[: self._size])

    def starts(self, slots: np.ndarray) -> np.ndarray:
        return self._times[0].take(slots)

    def ends(self, slots: np.ndarray) -> np.ndarray:
        return self._times[1].take(slots)

    @property
    def first_end(self) -> int | None:
        """No session that `take_ended` has not given ends before it; None where there is none."""
        return self._ending.first_end

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

    def _chains(self, numbers: np.ndarray, since: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the slots of all sessions of the keys `numbers[i]` that do not end before `since[i]`, int64[n]: the first
        one behind them in each chain). Each key is there once."""
        chunks = []
        slots = self._first.take(numbers)
        rows = np.flatnonzero(slots != _END)
        while len(rows):
            at = slots[rows]
            reached = self._times[1].take(at) >= since[rows]
            rows, at = rows[reached], at[reached]
            chunks.append(at)
            slots[rows] = self._next.take(at)
            rows = rows[slots[rows] != _END]
        return np.concatenate(chunks) if chunks else NO_SLOTS, slots

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(
        self, numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray, value_columns: Sequence[pa.Array | None]
    ) -> np.ndarray:
        """Take in records, each of which spans `starts[i]` to `ends[i]` of key `numbers[i]`.

        Returns: int64[n]: the slot of each record's session.
        """
        touched, since = _earliest(numbers, starts, self._keys.size)
        known, rests = self._chains(touched, since)
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
        self._link(keys, targets, rests)
        self._expect(targets)

        slots = targets.take(groups[: len(numbers)])
        for accumulator, values in zip(self.accumulators, value_columns, strict=True):
            accumulator.add(slots, values)
        self.changed(targets)
        return slots

    def _has_room(self, size: int) -> None:
        if size > len(self._next):
            self._next = with_room(self._next, size)
            room = np.zeros(len(self._next) - len(self._is_live), dtype=bool)
            self._is_live = np.append(self._is_live, room)
            self._is_ending = np.append(self._is_ending, room)
            self._is_expiring = np.append(self._is_expiring, room)

    def _link(self, keys: np.ndarray, slots: np.ndarray, rests: np.ndarray | None = None) -> None:
        """These slots are the chains of these keys; both are in order of the keys, and within them of time.

        Args:
            rests: of each of the keys, what comes behind them in the chain; None: nothing does.
        """
        is_first = np.append(True, keys[1:] != keys[:-1])
        # The first in time is the last of its chain.
        self._next[slots] = np.append(_END, slots[:-1])
        self._next[slots[is_first]] = _END if rests is None else rests
        is_last = np.append(is_first[1:], True)
        self._first[keys[is_last]] = slots[is_last]

    # -- ends --------------------------------------------------------------------------------------------------------

    def take_ended(self, time: int) -> np.ndarray:
        """The sessions whose last ms is not after `time`. One that was given is given again only after it has grown."""
        slots = self._ending.pop_until(time + 1)
        self._is_ending[slots] = False
        slots = slots[self._is_live.take(slots)]
        has_ended = self.ends(slots) - 1 <= time
        self._expect(slots[~has_ended])
        return slots[has_ended]

    def take_expired(self, ended: np.ndarray, time: int) -> np.ndarray:
        """Among `ended` and what earlier calls were given, the sessions whose last ms is not after `time`."""
        self._keep_ended(ended)
        slots = self._expiring.pop_until(time + 1)
        self._is_expiring[slots] = False
        slots = slots[self._is_live.take(slots)]
        has_expired = self.ends(slots) - 1 <= time
        self._keep_ended(slots[~has_expired])
        return slots[has_expired]

    def _expect(self, slots: np.ndarray) -> None:
        """These sessions have to end; each is there once."""
        slots = slots[~self._is_ending.take(slots)]
        self._is_ending[slots] = True
        self._ending.add(slots, self.ends(slots))

    def _keep_ended(self, slots: np.ndarray) -> None:
        slots = slots[~self._is_expiring.take(slots)]
        self._is_expiring[slots] = True
        self._expiring.add(slots, self.ends(slots))

    def dropped(self, slots: np.ndarray) -> None:
        super().dropped(slots)
        self._is_live[slots] = False

    def drop(self, slots: np.ndarray) -> None:
        """Forget these sessions."""
        if not len(slots):
            return
        self.dropped(slots)
        touched = _distinct(self._key_of_slot.take(slots), self._keys.size)
        left, _ = self._chains(touched, np.full(len(touched), _LONG_AGO))
        self._first[touched] = _END
        self._link_all(left[self._is_live.take(left)])
        self._compact_if_sparse()

    def _link_all(self, slots: np.ndarray) -> None:
        """These are all sessions of their keys."""
        if len(slots):
            keys = self._key_of_slot.take(slots)
            order = order_by(keys, self._times[0].take(slots))
            self._link(keys.take(order), slots.take(order))

    def _index_all(self) -> None:
        self._first = np.full(self._keys.size, _END, dtype=np.int64)
        self._next = np.full(self._size, _END, dtype=np.int64)
        self._is_live = np.ones(self._size, dtype=bool)
        self._is_ending = np.zeros(self._size, dtype=bool)
        self._is_expiring = np.zeros(self._size, dtype=bool)
        self._ending, self._expiring = EndQueue(), EndQueue()
        self._link_all(np.arange(self._size))
        self._expect(np.arange(self._size))

    def _restore_entries(self, key_columns: list[pa.Array], times: list[np.ndarray]) -> np.ndarray:
        numbers = self.numbers_of(key_columns)
        self._has_room(self._size + len(numbers))
        slots = self._append(numbers, times)
        self._is_live[slots] = True
        # Other batches may have had sessions of the same keys.
        touched = _distinct(numbers, self._keys.size)
        known, _ = self._chains(touched, np.full(len(touched), _LONG_AGO))
        self._link_all(np.concatenate([known, slots]))
        self._expect(slots)
        return slots


def _distinct(numbers: np.ndarray, span: int) -> np.ndarray:
    """The distinct numbers in order; all are below `span`."""
    if span > 16 * len(numbers) + 1024:
        return np.unique(numbers)
    is_there = np.zeros(span, dtype=bool)
    is_there[numbers] = True
    return np.flatnonzero(is_there)


def _earliest(numbers: np.ndarray, times: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """(the distinct numbers in order, the earliest time of each); numbers are below `span`."""
    distinct = _distinct(numbers, span)
    place = np.empty(span, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    earliest = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(earliest, place.take(numbers), times)
    return distinct, earliest


def order_by(numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """An order by number, and within each by time."""
    combined = _combined(numbers, times, times)
    return np.lexsort((times, numbers)) if combined is None else np.argsort(combined[0])


def _combined(numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Starts and ends moved so far apart that those of different numbers cannot meet; None: 64 bits are too few."""
    if not len(numbers):
        return starts, ends
    first = int(starts.min())
    width = int(ends.max()) - first + 1
    if (int(numbers.max()) + 1) * width >= 1 << 62:
        return None
    moved = numbers * width - first
    return starts + moved, ends + moved


def _touching(keys: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(an order by key and start, the positions in it at which spans begin that touch none before of their key)."""
    combined = _combined(keys, starts, ends)
    if combined is None:
        order = np.lexsort((starts, keys))
        keys, starts, ends = keys.take(order), starts.take(order), ends.take(order)
        is_first = np.append(True, keys[1:] != keys[:-1])
        # Ends by their rank, raised for every key beyond all of the keys before.
        distinct, ranks = np.unique(ends, return_inverse=True)
        raised = (np.cumsum(is_first) - 1) * len(distinct)
        latest = distinct.take(np.maximum.accumulate(ranks + raised) - raised)
        is_first[1:] |= starts[1:] > latest[:-1]
        return order, np.flatnonzero(is_first)
    starts, ends = combined
    order = np.argsort(starts)
    latest = np.maximum.accumulate(ends.take(order))
    return order, np.flatnonzero(np.append(True, starts.take(order)[1:] > latest[:-1]))
