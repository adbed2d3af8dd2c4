"""InternalTimerService: the timers of one keyed operator.

Event-time timers fire when the watermark passes them. For processing time, the task has one timer for the earliest of
the queue. The queues belong to the operator's state backend, which snapshots and restores them.

Source: org.apache.flink.streaming.api.operators.InternalTimerServiceImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.metrics.metricbase import MetricGroup
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK
from flinkpy.state.backend import KeyContext, KeyedStateBackend
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService, ScheduledTimer

_LOG = logging.getLogger(__name__)

#: The names of the queues in the backend. They are part of every checkpoint.
EVENT_TIME_TIMERS = "event-time"
PROCESSING_TIME_TIMERS = "processing-time"
#: The name of a gauge, and its value without timers.
NEXT_EVENT_TIME_TIMER, NO_TIMER = "nextEventTimeTimer", MIN_WATERMARK


class InternalTimerService:
    """Owns the timers of one keyed operator. Functions get it from `ctx.timer_service()`, for the current key.

    Thread: task thread.

    Args:
        on_processing_time: called with the current time when processing-time timers up to that time are due.
    """

    def __init__(
        self,
        key_context: KeyContext,
        backend: KeyedStateBackend,
        processing_time_service: ProcessingTimeService,
        on_processing_time: Callable[[int], None],
    ) -> None:
        self._context = key_context
        self._clock = processing_time_service
        self._on_processing_time = on_processing_time
        self._scheduled: ScheduledTimer | None = None
        self.event_time: TimerQueue = backend.timer_queue(EVENT_TIME_TIMERS)
        self.processing_time: TimerQueue = backend.timer_queue(PROCESSING_TIME_TIMERS)
        self.watermark = MIN_WATERMARK
        self._is_batch = False
        self._has_warned = False

    @property
    def num_fired(self) -> int:
        """The number of timers that have fired. Any thread."""
        return self.event_time.num_fired + self.processing_time.num_fired

    def fire_at_end_of_keys(self) -> None:
        """Switches to batch mode: keys come one after the other, and the operator calls `end_key` between them.

        Source: org.apache.flink.streaming.api.operators.sorted.state.BatchExecutionInternalTimeService.
        """
        self._is_batch = True

    def end_key(self) -> None:
        """Fires the processing-time timers of the key. Its event-time timers have fired at the maximum watermark."""
        if self.processing_time.next_timestamp() is not None:
            self._on_processing_time(MAX_WATERMARK)
        self.watermark = MIN_WATERMARK

    def start(self) -> None:
        """Starts firing restored processing-time timers, when the operator is open. Overdue timers fire immediately."""
        self._schedule()

    def current_processing_time(self) -> int:
        return self._clock.current_time_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        if self._is_batch and self._is_over(timestamp):
            return
        self.event_time.add(timestamp, self._context.key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        if self._is_batch and self._is_over(timestamp):
            return
        self.processing_time.add(timestamp, self._context.key)
        if self._is_batch:
            return
        if self._scheduled is None or timestamp < self._scheduled.timestamp_ms:
            self._schedule()

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.event_time.remove(timestamp, self._context.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.processing_time.remove(timestamp, self._context.key)

    def _is_over(self, timestamp: int) -> bool:
        """True while timers fire at the end of a key in batch mode. New timers are ignored then: they may never end."""
        if self.watermark != MAX_WATERMARK:
            return False
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("ignoring the timer for %d: it was set by a timer that fired at the end of its key", timestamp)
        return True

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


def register_event_time_gauge(metrics: MetricGroup, next_timestamp: Callable[[], int | None]) -> None:
    """Registers `nextEventTimeTimer`: about the earliest time that waits for the watermark; NO_TIMER if there is none.

    Args:
        next_timestamp: returns that time. Called by any thread.
    """

    def read() -> int:
        timestamp = next_timestamp()
        return NO_TIMER if timestamp is None else timestamp

    metrics.gauge(NEXT_EVENT_TIME_TIMER, read)


class UnkeyedTimerService:
    """The TimerService of a process function on a stream without keys. It tells the time but has no timers."""

    def __init__(self, processing_time_service: ProcessingTimeService) -> None:
        self._clock = processing_time_service
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self._clock.current_time_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def _refuse(self, timestamp: int) -> None:
        raise UnsupportedOperationError("timers need a keyed stream: call key_by first")

    register_event_time_timer = _refuse
    register_processing_time_timer = _refuse
    delete_event_time_timer = _refuse
    delete_processing_time_timer = _refuse
