"""SessionTable: accumulators of session windows. The sessions of a key are time spans that do not touch each other.

The sessions of a key form a chain of slots, the latest first. A batch is merged in one pass with the first sessions of
the chains of its keys, as far back as its records reach. The spans of the records and of the sessions are sorted by key
and start, and spans that touch each other become one session.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.growing import with_room
from flinkpy.state.window_table import NO_SLOTS, WindowTable

_END = -1
_LONG_AGO = np.iinfo(np.int64).min


_NO_SLOTS = np.empty(0, dtype=np.int64)


class EndQueue:
    """Slots in the order of their ends. `pop_until` does not look at the slots that are not due.

    The slots are kept in sorted runs, each of which is more than twice as long as the next, as in a log-structured
    merge tree. A slot is in the queue at most once. Thread: task thread.
    """

    def __init__(self) -> None:
        #: (ascending ends, their slots).
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, slots: np.ndarray, ends: np.ndarray) -> None:
        if not len(slots):
            return
        runs = self._runs
        first = len(runs)
        length = len(slots)
        while first and len(runs[first - 1][0]) <= 2 * length:
            first -= 1
            length += len(runs[first][0])
        if first < len(runs):
            ends = np.concatenate([*(run[0] for run in runs[first:]), ends])
            slots = np.concatenate([*(run[1] for run in runs[first:]), slots])
        # The sort is linear here, because it detects sorted runs.
        order = np.argsort(ends, kind="stable")
        runs[first:] = [(ends.take(order), slots.take(order))]

    def pop_until(self, end: int) -> np.ndarray:
        """Removes the slots that were added with this end or an earlier one. Returns them in ascending order."""
        popped = []
        for position, (ends, slots) in enumerate(self._runs):
            count = int(np.searchsorted(ends, end, side="right"))
            if count:
                popped.append(slots[:count])
                self._runs[position] = ends[count:], slots[count:]
        if not popped:
            return _NO_SLOTS
        self._runs = [run for run in self._runs if len(run[0])]
        return np.sort(np.concatenate(popped))

    @property
    def first_end(self) -> int | None:
        """The earliest end; None if the queue is empty."""
        return min((int(ends[0]) for ends, _ in self._runs), default=None)


class SessionTable(WindowTable):
    """A WindowTable for session windows. The times of a slot are the start and the end (exclusive), in ms.

    Slots are valid until the next `drop`. Thread: task thread.
    """

    def __init__(self, layout: TableLayout) -> None:
        super().__init__(layout)
        self._is_live = np.zeros(0, dtype=bool)
        #: The first slot of each key, and the next slot of each slot.
        self._first = NO_SLOTS
        self._next = NO_SLOTS
        #: Each live session is in one of the queues, with its current end or an earlier one. Sessions only grow.
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
        """A lower bound for the ends of the sessions that `take_ended` has not returned; None if there are none."""
        return self._ending.first_end

    def numbers_of(self, key_columns: list[pa.Array]) -> np.ndarray:
        """Returns int64[n]: the number of each row's key. Numbers are valid until the next `drop`."""
        numbers = self._keys.slots_of(key_columns)
        known = len(self._first)
        if self._keys.size > known:
            self._first = with_room(self._first, self._keys.size)
            self._first[known:] = _END
        return numbers

    def has_sessions(self, numbers: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for the keys that have sessions."""
        return self._first.take(numbers) != _END

    def touches(self, numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true if a session of key `numbers[i]` touches the span from `starts[i]` to `ends[i]`."""
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
        """Follows the chains of distinct keys back to `since`.

        Returns:
            the slots of the sessions of the keys `numbers[i]` that do not end before `since[i]`.
            int64[n]: the first slot behind them in each chain.
        """
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
        """Adds records. Record i has the key `numbers[i]` and spans `starts[i]` to `ends[i]`.

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
        # One session of each group stays. The others are merged into it.
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
        """Links the slots to the chains of their keys. Both arrays are in the order of the keys, then of time.

        Args:
            rests: for each distinct key, the slot behind these slots in the chain; None if the chains end with them.
        """
        is_first = np.append(True, keys[1:] != keys[:-1])
        # The earliest session is the last of its chain.
        self._next[slots] = np.append(_END, slots[:-1])
        self._next[slots[is_first]] = _END if rests is None else rests
        is_last = np.append(is_first[1:], True)
        self._first[keys[is_last]] = slots[is_last]

    # -- ends --------------------------------------------------------------------------------------------------------

    def take_ended(self, time: int) -> np.ndarray:
        """Returns the sessions whose last ms is not after `time`. Returns a session again only after it has grown."""
        slots = self._ending.pop_until(time + 1)
        self._is_ending[slots] = False
        slots = slots[self._is_live.take(slots)]
        has_ended = self.ends(slots) - 1 <= time
        self._expect(slots[~has_ended])
        return slots[has_ended]

    def take_expired(self, ended: np.ndarray, time: int) -> np.ndarray:
        """Returns the sessions in `ended`, of this and of earlier calls, whose last ms is not after `time`."""
        self._keep_ended(ended)
        slots = self._expiring.pop_until(time + 1)
        self._is_expiring[slots] = False
        slots = slots[self._is_live.take(slots)]
        has_expired = self.ends(slots) - 1 <= time
        self._keep_ended(slots[~has_expired])
        return slots[has_expired]

    def _expect(self, slots: np.ndarray) -> None:
        """Adds distinct sessions to the queue of `take_ended`, unless they are in it."""
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
        """Drops these sessions."""
        if not len(slots):
            return
        self.dropped(slots)
        touched = _distinct(self._key_of_slot.take(slots), self._keys.size)
        left, _ = self._chains(touched, np.full(len(touched), _LONG_AGO))
        self._first[touched] = _END
        self._link_all(left[self._is_live.take(left)])
        self._compact_if_sparse()

    def _link_all(self, slots: np.ndarray) -> None:
        """Links the chains of the keys of these slots, which are all sessions of their keys."""
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
        # Former batches may have contained sessions of the same keys.
        touched = _distinct(numbers, self._keys.size)
        known, _ = self._chains(touched, np.full(len(touched), _LONG_AGO))
        self._link_all(np.concatenate([known, slots]))
        self._expect(slots)
        return slots


def _distinct(numbers: np.ndarray, span: int) -> np.ndarray:
    """Returns the distinct numbers in order. All numbers are below `span`."""
    if span > 16 * len(numbers) + 1024:
        return np.unique(numbers)
    is_there = np.zeros(span, dtype=bool)
    is_there[numbers] = True
    return np.flatnonzero(is_there)


def _earliest(numbers: np.ndarray, times: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct numbers in order, and the earliest time of each. All numbers are below `span`."""
    distinct = _distinct(numbers, span)
    place = np.empty(span, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    earliest = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(earliest, place.take(numbers), times)
    return distinct, earliest


def order_by(numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Returns the order of rows by number, then by time."""
    combined = _combined(numbers, times, times)
    return np.lexsort((times, numbers)) if combined is None else np.argsort(combined[0])


def _combined(numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Shifts starts and ends so that spans of different numbers cannot touch. Returns None if 64 bits are too few."""
    if not len(numbers):
        return starts, ends
    first = int(starts.min())
    width = int(ends.max()) - first + 1
    if (int(numbers.max()) + 1) * width >= 1 << 62:
        return None
    moved = numbers * width - first
    return starts + moved, ends + moved


def _touching(keys: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Groups spans that touch each other.

    Returns:
        the order of the spans by key and start.
        the positions in that order at which a group begins: the span touches no earlier span of its key.
    """
    combined = _combined(keys, starts, ends)
    if combined is None:
        order = np.lexsort((starts, keys))
        keys, starts, ends = keys.take(order), starts.take(order), ends.take(order)
        is_first = np.append(True, keys[1:] != keys[:-1])
        # The ranks of the ends, raised for each key above those of all earlier keys.
        distinct, ranks = np.unique(ends, return_inverse=True)
        raised = (np.cumsum(is_first) - 1) * len(distinct)
        latest = distinct.take(np.maximum.accumulate(ranks + raised) - raised)
        is_first[1:] |= starts[1:] > latest[:-1]
        return order, np.flatnonzero(is_first)
    starts, ends = combined
    order = np.argsort(starts)
    latest = np.maximum.accumulate(ends.take(order))
    return order, np.flatnonzero(np.append(True, starts.take(order)[1:] > latest[:-1]))
