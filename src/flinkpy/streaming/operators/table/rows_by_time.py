"""RowsByTime: finds the rows of a table whose time has come, without a search among the others.

Rows are in buckets of time, and a heap knows the first bucket.
"""

from __future__ import annotations

import heapq

import numpy as np

from flinkpy.records.segments import Groups

_NO_ROWS = np.empty(0, dtype=np.int64)


class RowsByTime:
    """Row numbers by time. It is not part of the state: it is built anew from restored rows. Thread: task thread.

    Args:
        bucket_ms: the length of a bucket. To take rows out looks at all rows of one bucket.
    """

    def __init__(self, bucket_ms: int) -> None:
        self._bucket_ms = max(1, bucket_ms)
        self._buckets: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._numbers: list[int] = []
        self._num_rows = 0

    def __len__(self) -> int:
        """The number of rows, of which one may be in several times."""
        return self._num_rows

    def add(self, rows: np.ndarray, times: np.ndarray) -> None:
        if not len(rows):
            return
        groups = Groups(times // self._bucket_ms)
        for number, start, end in zip(groups.keys.tolist(), groups.starts.tolist(), groups.ends.tolist()):
            places = groups.order[start:end]
            self._put(number, rows[places], times[places])

    def _put(self, number: int, rows: np.ndarray, times: np.ndarray) -> None:
        if number not in self._buckets:
            self._buckets[number] = []
            heapq.heappush(self._numbers, number)
        self._buckets[number].append((rows, times))
        self._num_rows += len(rows)

    def first(self) -> int | None:
        """Returns the lowest time; None if there are no rows."""
        if not self._numbers:
            return None
        return min(int(times.min()) for _, times in self._buckets[self._numbers[0]])

    def pop_until(self, time: int) -> tuple[np.ndarray, np.ndarray]:
        """Takes out all rows with a time up to this one.

        Returns: int64[m]: the rows in the order of their times, those of one time in the order of `add`; int64[m]: the
        times.
        """
        found: list[tuple[np.ndarray, np.ndarray]] = []
        while self._numbers and self._numbers[0] * self._bucket_ms <= time:
            number = heapq.heappop(self._numbers)
            found += self._buckets.pop(number)
            if (number + 1) * self._bucket_ms > time:
                break
        if not found:
            return _NO_ROWS, _NO_ROWS
        rows, times = (np.concatenate([piece[part] for piece in found]) for part in range(2))
        self._num_rows -= len(rows)
        is_later = times > time
        if is_later.any():
            self._put(int(times[is_later][0] // self._bucket_ms), rows[is_later], times[is_later])
            rows, times = rows[~is_later], times[~is_later]
        order = np.argsort(times, kind="stable")
        return rows[order], times[order]
