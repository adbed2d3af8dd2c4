"""TimerQueue: the timers of one time domain of a keyed operator. The state backend owns it.

The keys of the timers of one time form a bucket, so each (key, time) pair occurs once. A heap orders the times.

Source: org.apache.flink.runtime.state.KeyGroupedInternalPriorityQueue, heap.HeapPriorityQueueSet.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

#: Times that `peek` looks at. More are of removed timers only if a function removes most of its timers.
_PEEKED = 64


class TimerQueue(ABC):
    """Timers in the order of their times. The backend takes snapshots of them and restores them.

    Thread: task thread.
    """

    __slots__ = ()

    #: The number of timers that `pop_due` has yielded. Any thread may read it.
    num_fired: int

    @abstractmethod
    def add(self, timestamp: int, key: Any) -> None:
        """Adds a timer. Has no effect if the timer exists."""

    @abstractmethod
    def remove(self, timestamp: int, key: Any) -> None:
        """Removes a timer. Has no effect if the timer does not exist."""

    @abstractmethod
    def next_timestamp(self) -> int | None:
        """Returns the earliest time of a timer; None if there are no timers."""

    @abstractmethod
    def peek(self) -> int | None:
        """Returns about the earliest time of a timer, without reading files. Thread: any."""

    @abstractmethod
    def pop_due(self, up_to: int) -> Iterator[tuple[int, Any]]:
        """Yields (timestamp, key) of each timer up to and including `up_to`, in the order of time.

        Each timer is removed before it is yielded. Timers that are added or removed meanwhile are taken into account.
        """

    @abstractmethod
    def items(self) -> Iterator[tuple[int, Any]]:
        """Yields (timestamp, key) of all timers, in no particular order."""

    @abstractmethod
    def __len__(self) -> int: ...


class HeapTimerQueue(TimerQueue):
    """A TimerQueue in memory. While a snapshot is running, each bucket is copied before its first change."""

    __slots__ = ("_buckets", "_owned", "_times", "num_fired")

    def __init__(self) -> None:
        self.num_fired = 0
        self._buckets: dict[int, dict[Any, None]] = {}
        self._times: list[int] = []
        #: The times whose buckets no running snapshot refers to; None if no snapshot is running.
        self._owned: set[int] | None = None

    def add(self, timestamp: int, key: Any) -> None:
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            bucket = self._new_bucket(timestamp)
        elif self._owned is not None:
            bucket = self._own(timestamp)
        bucket[key] = None

    def _new_bucket(self, timestamp: int) -> dict[Any, None]:
        bucket = self._buckets[timestamp] = {}
        heapq.heappush(self._times, timestamp)
        owned = self._owned
        if owned is not None:
            owned.add(timestamp)
        return bucket

    def add_all(self, keys: list[Any], timestamps: list[int]) -> None:
        """Adds restored timers."""
        add = self.add
        for timestamp, key in zip(timestamps, keys, strict=True):
            add(timestamp, key)

    def remove(self, timestamp: int, key: Any) -> None:
        bucket = self._buckets.get(timestamp)
        if bucket is not None and key in bucket:
            del self._own(timestamp)[key]

    def contains(self, timestamp: int, key: Any) -> bool:
        bucket = self._buckets.get(timestamp)
        return bucket is not None and key in bucket

    def _own(self, timestamp: int) -> dict[Any, None]:
        """Returns the bucket, which may be changed."""
        owned = self._owned
        bucket = self._buckets[timestamp]
        if owned is not None and timestamp not in owned:
            bucket = self._buckets[timestamp] = bucket.copy()
            owned.add(timestamp)
        return bucket

    def next_timestamp(self) -> int | None:
        while self._times:
            earliest = self._times[0]
            if self._buckets[earliest]:
                return earliest
            heapq.heappop(self._times)
            del self._buckets[earliest]
        return None

    def peek(self) -> int | None:
        # The first times of the heap are among the earliest. The bucket of a removed timer is empty.
        return min((at for at in self._times[:_PEEKED] if self._buckets.get(at)), default=None)

    def pop_due(self, up_to: int) -> Iterator[tuple[int, Any]]:
        while (timestamp := self.next_timestamp()) is not None and timestamp <= up_to:
            for key in list(self._buckets[timestamp]):
                bucket = self._buckets.get(timestamp)
                if bucket is None:
                    break
                if key in bucket:
                    del self._own(timestamp)[key]
                    self.num_fired += 1
                    yield timestamp, key

    def items(self) -> Iterator[tuple[int, Any]]:
        for timestamp, bucket in self._buckets.items():
            for key in bucket:
                yield timestamp, key

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    # -- snapshots, by the backend ---------------------------------------------------------------------------------

    def freeze(self) -> tuple[list[int], list[dict[Any, None]]]:
        """Returns the times and their buckets, which do not change until `thaw`."""
        self._owned = set()
        return list(self._buckets), list(self._buckets.values())

    def thaw(self) -> None:
        """Ends copy on write: no snapshot is running any more. Thread: any."""
        self._owned = None
