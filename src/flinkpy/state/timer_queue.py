"""TimerQueue: the timers of one time domain of a keyed operator, owned by its state backend.

Timers of one time are a bucket of keys, so a (key, time) pair is there once, and a heap orders the times.

Source: org.apache.flink.runtime.state.KeyGroupedInternalPriorityQueue, heap.HeapPriorityQueueSet.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any


class TimerQueue(ABC):
    """Thread: task thread. Its backend snapshots and restores what is in it."""

    __slots__ = ()

    @abstractmethod
    def add(self, timestamp: int, key: Any) -> None:
        """A timer that is there already stays one."""

    @abstractmethod
    def remove(self, timestamp: int, key: Any) -> None:
        """Also where there is no such timer."""

    @abstractmethod
    def next_timestamp(self) -> int | None:
        """The earliest time that has timers."""

    @abstractmethod
    def pop_due(self, up_to: int) -> Iterator[tuple[int, Any]]:
        """(timestamp, key) of every timer not after `up_to`, in order of time, each removed before it is given.

        Timers that are added or removed while this runs are taken into account.
        """

    @abstractmethod
    def items(self) -> Iterator[tuple[int, Any]]:
        """Every (timestamp, key), in no particular order."""

    @abstractmethod
    def __len__(self) -> int: ...


class HeapTimerQueue(TimerQueue):
    """In memory. While a snapshot is written, a bucket is copied before it is changed for the first time."""

    __slots__ = ("_buckets", "_owned", "_times")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Any, None]] = {}
        self._times: list[int] = []
        #: Times whose bucket no running snapshot holds; None where none is running.
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
        """Timer by timer; for a restore."""
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
        """The bucket, for changing it."""
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

    def pop_due(self, up_to: int) -> Iterator[tuple[int, Any]]:
        while (timestamp := self.next_timestamp()) is not None and timestamp <= up_to:
            for key in list(self._buckets[timestamp]):
                bucket = self._buckets.get(timestamp)
                if bucket is None:
                    break
                if key in bucket:
                    del self._own(timestamp)[key]
                    yield timestamp, key

    def items(self) -> Iterator[tuple[int, Any]]:
        for timestamp, bucket in self._buckets.items():
            for key in bucket:
                yield timestamp, key

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    # -- snapshots, by the backend ---------------------------------------------------------------------------------

    def freeze(self) -> tuple[list[int], list[dict[Any, None]]]:
        """(times, their buckets), which stay as they are until `thaw`."""
        self._owned = set()
        return list(self._buckets), list(self._buckets.values())

    def thaw(self) -> None:
        """No snapshot is running any more. Thread: any."""
        self._owned = None
