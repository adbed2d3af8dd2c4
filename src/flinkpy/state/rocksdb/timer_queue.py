"""RocksDBTimerQueue: keeps timers in the database, and the next ones also in memory.

All timers up to a horizon are in memory, in a heap queue, which alone determines the timers that are due. When the heap
queue is empty, the next timers of each key group are read, and the horizon moves to a later time. When too many timers
are added before the horizon, it moves to an earlier time. A database key consists of key group, number of the queue,
time and key, so the timers of a key group are in the order of time.

Source: org.apache.flink.state.rocksdb.RocksDBCachingPriorityQueueSet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.records.key_hash import hash_keys, key_groups
from flinkpy.state.rocksdb.cached_state import MAX_GENERATION, in_order
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import PREFIX, after_prefix, decode_state_key, encode
from flinkpy.state.timer_queue import HeapTimerQueue, TimerQueue

#: Times are stored as unsigned big-endian numbers, which keeps their order.
_TIME = struct.Struct(">Q")
_TIME_OFFSET = 1 << 63
_TIME_END = PREFIX.size + _TIME.size
_MIN_TIME, _MAX_TIME = -(1 << 63), (1 << 63) - 1
#: The number of timers in memory at which the horizon moves to an earlier time.
_MAX_HEAD = 131_072
_NEW, _ADDED, _REMOVED = "not in the database", "perhaps in the database", "to be deleted"


def encode_timers(queue_id: int, max_parallelism: int, timestamps: Sequence[int], keys: Sequence[Any]) -> list[bytes]:
    """Returns the database keys of timers."""
    groups: np.ndarray = key_groups(hash_keys(keys), max_parallelism)
    prefix, time = PREFIX.pack, _TIME.pack
    return [
        prefix(group, queue_id) + time(timestamp + _TIME_OFFSET) + encode(key)
        for group, timestamp, key in zip(groups.tolist(), timestamps, keys)
    ]


def decode_timer(data: bytes) -> tuple[int, Any]:
    """Returns (timestamp, key). Raises: CorruptStateError."""
    (time,) = _TIME.unpack_from(data, PREFIX.size)
    return time - _TIME_OFFSET, decode_state_key(data, _TIME_END)[0]


class RocksDBTimerQueue(TimerQueue):
    """A TimerQueue that keeps its timers in the database.

    Args:
        cache_size: the number of timers of a key group that are read at once. None: all timers stay in memory, and the
            database keeps them for checkpoints only.
    """

    __slots__ = (
        "_cache_size",
        "_changes",
        "_database",
        "_firing",
        "_head",
        "_head_size",
        "_horizon",
        "_max_parallelism",
        "_queue_id",
        "_range",
        "_stored",
        "num_fired",
    )

    def __init__(
        self,
        database: RocksDatabase,
        queue_id: int,
        max_parallelism: int,
        key_group_range: KeyGroupRange,
        cache_size: int | None,
    ) -> None:
        self.num_fired = 0
        self._database = database
        self._queue_id = queue_id
        self._max_parallelism = max_parallelism
        self._range = key_group_range
        self._cache_size = cache_size
        self._head = HeapTimerQueue()
        #: An upper bound for the number of timers in `_head`.
        self._head_size = 0
        #: `_head` holds all timers up to this time and no later ones. Initially the database has not been read.
        self._horizon = _MIN_TIME - 1
        self._changes: dict[tuple[int, Any], str] = {}
        #: The time of a timer beyond `_horizon`; None before the first one.
        self._stored: int | None = None
        #: The number of iterators that read `_head`. While there are any, it must stay the same object.
        self._firing = 0

    # -- the queue -------------------------------------------------------------------------------------------------

    def add(self, timestamp: int, key: Any) -> None:
        changes = self._changes
        timer = (timestamp, key)
        change = changes.get(timer)
        if timestamp <= self._horizon:
            if self._head.contains(timestamp, key):
                return
            self._head.add(timestamp, key)
            self._head_size += 1
            changes[timer] = _NEW if change is None else _ADDED
        elif change is not _NEW:
            changes[timer] = _ADDED
            self._stored = timestamp
        if len(changes) >= MAX_GENERATION:
            self.spill()
        if self._head_size >= _MAX_HEAD:
            self._shrink()

    def remove(self, timestamp: int, key: Any) -> None:
        if timestamp <= self._horizon:
            self._head.remove(timestamp, key)
        self._forget(timestamp, key)

    def _forget(self, timestamp: int, key: Any) -> None:
        timer = (timestamp, key)
        changes = self._changes
        if changes.get(timer) is _NEW:
            del changes[timer]
        else:
            changes[timer] = _REMOVED
            if len(changes) >= MAX_GENERATION:
                self.spill()

    def next_timestamp(self) -> int | None:
        earliest = self._head.next_timestamp()
        while earliest is None and self._horizon < _MAX_TIME:
            self._read_on()
            earliest = self._head.next_timestamp()
        return earliest

    def peek(self) -> int | None:
        earliest = self._head.peek()
        if earliest is None and self._horizon < _MAX_TIME:
            # The database has not been read up to its first timer, e.g. because no watermark has come yet.
            return self._stored
        return earliest

    def pop_due(self, up_to: int) -> Iterator[tuple[int, Any]]:
        while (earliest := self.next_timestamp()) is not None and earliest <= up_to:
            self._firing += 1
            try:
                for timestamp, key in self._head.pop_due(min(up_to, self._horizon)):
                    self._forget(timestamp, key)
                    self.num_fired += 1
                    yield timestamp, key
            finally:
                self._firing -= 1

    def items(self) -> Iterator[tuple[int, Any]]:
        self.spill()
        for key_group in range(self._range.start, self._range.end + 1):
            prefix = PREFIX.pack(key_group, self._queue_id)
            for data, _ in self._database.scan(prefix, after_prefix(prefix)):
                yield decode_timer(data)

    def __len__(self) -> int:
        """Returns the number of timers. It reads all of them, so it is only for tests and messages."""
        return sum(1 for _ in self.items())

    # -- memory and database ---------------------------------------------------------------------------------------

    def spill(self) -> None:
        """Writes the changes to the database."""
        changes = self._changes
        if not changes:
            return
        self._changes = {}
        timestamps = [timestamp for timestamp, _ in changes]
        keys = encode_timers(self._queue_id, self._max_parallelism, timestamps, [key for _, key in changes])
        self._database.write(in_order(keys, [None if change is _REMOVED else b"" for change in changes.values()]))

    def _read_on(self) -> None:
        """Moves the horizon to a later time, and reads all timers up to it into memory."""
        self.spill()
        head = HeapTimerQueue() if not self._firing else self._head
        limit = self._cache_size
        begin = _TIME.pack(self._horizon + 1 + _TIME_OFFSET)
        horizon = _MAX_TIME
        found: list[tuple[int, Any]] = []
        for key_group in range(self._range.start, self._range.end + 1):
            prefix = PREFIX.pack(key_group, self._queue_id)
            pairs = self._database.scan(prefix + begin, after_prefix(prefix))
            timers = [decode_timer(data) for data, _ in (pairs if limit is None else islice(pairs, limit + 1))]
            if limit is not None and len(timers) > limit:
                first, last = timers[0][0], timers[-1][0]
                if first == last:
                    # One time has more timers than are read at once. This reads all of them, so that the horizon can
                    # move to this time.
                    timers += self._all_at(pairs, first)
                    horizon = min(horizon, first)
                else:
                    horizon = min(horizon, last - 1)
            found += timers
        self._head = head
        self._head_size = 0
        self._horizon = horizon
        for timestamp, key in found:
            if timestamp <= horizon:
                head.add(timestamp, key)
                self._head_size += 1

    def _all_at(self, pairs: Iterator[tuple[bytes, bytes]], timestamp: int) -> Iterator[tuple[int, Any]]:
        for data, _ in pairs:
            timer = decode_timer(data)
            if timer[0] != timestamp:
                return
            yield timer

    def _shrink(self) -> None:
        """Drops the later half of the timers from memory. The database has them, or the next spill writes them."""
        if self._cache_size is None or self._firing:
            return
        times = sorted(timestamp for timestamp, _ in self._head.items())
        self._head_size = len(times)
        if len(times) < _MAX_HEAD // 2:
            return
        middle = times[len(times) // 2]
        if middle == times[-1]:
            return
        head = HeapTimerQueue()
        for timestamp, key in self._head.items():
            if timestamp <= middle:
                head.add(timestamp, key)
        self._head = head
        self._horizon = middle
        self._head_size = sum(1 for timestamp in times if timestamp <= middle)
