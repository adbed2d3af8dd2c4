"""EndQueue: the slots of a table in the order of their ends; asking for those that are due does not look at the others.

Sorted runs of which each is more than twice as long as the next, as in a log-structured merge tree.
"""

from __future__ import annotations

import numpy as np

_NO_SLOTS = np.empty(0, dtype=np.int64)


class EndQueue:
    """Thread: task thread. A slot is in it once at most."""

    def __init__(self) -> None:
        #: (ends in order, slots).
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
        # Linear where it finds runs that are in order.
        order = np.argsort(ends, kind="stable")
        runs[first:] = [(ends.take(order), slots.take(order))]

    def pop_until(self, end: int) -> np.ndarray:
        """Take out the slots that were added with this end or an earlier one; in ascending order of the slots."""
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
        """The earliest end; None where there is no slot."""
        return min((int(ends[0]) for ends, _ in self._runs), default=None)
