"""InternalTimerService: the timers of one keyed operator.

Timers of one time are a bucket of keys, so a (key, time) pair is there once, and a heap orders the times. Event-time
timers fire when the watermark passes them; for processing time one timer of the task stands for the earliest.

Source: org.apache.flink.streaming.api.operators.InternalTimerServiceImpl.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.state.backend import KeyContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService, ScheduledTimer


class TimerQueue:
    """Timers of one time domain."""

    __slots__ = ("_buckets", "_times")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Any, None]] = {}
        self._times: list[int] = []

    def add(self, timestamp: int, key: Any) -> None:
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            bucket = self._buckets[timestamp] = {}
            heapq.heappush(self._times, timestamp)
        bucket[key] = None

    def remove(self, timestamp: int, key: Any) -> None:
        bucket = self._buckets.get(timestamp)
        if bucket is not None:
            bucket.pop(key, None)

    def next_timestamp(self) -> int | None:
        """The earliest time that has timers."""
        while self._times:
            earliest = self._times[0]
            if self._buckets[earliest]:
                return earliest
            heapq.heappop(self._times)
            del self._buckets[earliest]
        return None

    def pop_due(self, up_to: int) -> Iterator[tuple[int, Any]]:
        """(timestamp, key) of every timer not after `up_to`, in order of time, each removed before it is given.

        Timers that are added or removed while this runs are taken into account.
        """
        while (timestamp := self.next_timestamp()) is not None and timestamp <= up_to:
            bucket = self._buckets[timestamp]
            for key in list(bucket):
                if key in bucket:
                    del bucket[key]
                    yield timestamp, key

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self._buckets.values())

    def items(self) -> Iterator[tuple[int, Any]]:
        """Every timer, for snapshots."""
        for timestamp, bucket in self._buckets.items():
            for key in bucket:
                yield timestamp, key


class InternalTimerService:
    """Also what `ctx.timer_service()` gives: PyFlink's TimerService for the current key. Thread: task thread."""

    def __init__(
        self,
        key_context: KeyContext,
        processing_time_service: ProcessingTimeService,
        on_processing_time: Callable[[int], None],
    ) -> None:
        """`on_processing_time(time)` is told that processing-time timers up to `time` are due."""
        self._context = key_context
        self._clock = processing_time_service
        self._on_processing_time = on_processing_time
        self._scheduled: ScheduledTimer | None = None
        self.event_time = TimerQueue()
        self.processing_time = TimerQueue()
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self._clock.current_time_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        self.event_time.add(timestamp, self._context.key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.processing_time.add(timestamp, self._context.key)
        if self._scheduled is None or timestamp < self._scheduled.timestamp_ms:
            self._schedule()

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.event_time.remove(timestamp, self._context.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.processing_time.remove(timestamp, self._context.key)

    def _schedule(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        earliest = self.processing_time.next_timestamp()
        if earliest is not None:
            self._scheduled = self._clock.register_timer(earliest, self._fire_processing_time)

    def _fire_processing_time(self, timestamp: int) -> None:
        self._scheduled = None
        self._on_processing_time(timestamp)
        self._schedule()


class UnkeyedTimerService:
    """TimerService of a process function on a stream without keys: it can tell the time, and has no timers."""

    def __init__(self, processing_time_service: ProcessingTimeService) -> None:
        self._clock = processing_time_service
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self._clock.current_time_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def _refuse(self, timestamp: int) -> None:
        raise UnsupportedOperationError("timers need a keyed stream; call key_by first")

    register_event_time_timer = _refuse
    register_processing_time_timer = _refuse
    delete_event_time_timer = _refuse
    delete_processing_time_timer = _refuse
