"""ProcessingTimeService: the processing-time timers of one task.

The mailbox loop of the task fires them between batches, and sleeps at most until the earliest deadline. There is no
timer thread.

Source: org.apache.flink.streaming.runtime.tasks.ProcessingTimeService.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from flinkpy.common.clock import Clock


class ScheduledTimer:
    """A timer that can be cancelled."""

    __slots__ = ("action", "timestamp_ms")

    def __init__(self, timestamp_ms: int, action: Callable[[int], None]) -> None:
        self.timestamp_ms = timestamp_ms
        self.action: Callable[[int], None] | None = action

    def cancel(self) -> None:
        self.action = None


class ProcessingTimeService:
    """Runs the timers of one task. Thread: task thread.

    Args:
        back_pressured_ns: returns how long the task has been back-pressured so far; None if it never is.
    """

    def __init__(self, clock: Clock, back_pressured_ns: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._back_pressured_ns = back_pressured_ns
        self._heap: list[tuple[int, int, ScheduledTimer]] = []
        self._sequence = itertools.count()
        self._quiesced = False

    def current_time_ms(self) -> int:
        """Returns the wall-clock time, which `TimerService.current_processing_time` shows."""
        return self._clock.now_ms()

    def active_time_ns(self) -> int:
        """Returns the monotonic time minus the time of back-pressure, during which the task reads no input.

        Source: org.apache.flink.streaming.api.operators.util.PausableRelativeClock.
        """
        now_ns = self._clock.monotonic_ns()
        return now_ns if self._back_pressured_ns is None else now_ns - self._back_pressured_ns()

    def register_timer(self, timestamp_ms: int, action: Callable[[int], None]) -> ScheduledTimer:
        """Calls `action(timestamp_ms)` between two batches once the wall clock is past `timestamp_ms`.

        After `quiesce` it has no effect.
        """
        timer = ScheduledTimer(timestamp_ms, action)
        if not self._quiesced:
            delay_ms = max(0, timestamp_ms - self._clock.now_ms() + 1)
            deadline_ns = self._clock.monotonic_ns() + delay_ms * 1_000_000
            heapq.heappush(self._heap, (deadline_ns, next(self._sequence), timer))
        return timer

    def schedule_after(self, delay_ms: int, action: Callable[[int], None]) -> ScheduledTimer:
        return self.register_timer(self._clock.now_ms() + delay_ms, action)

    def next_deadline_ns(self) -> int | None:
        """Returns the monotonic time of the earliest timer; None if there is none."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def fire_due(self, now_ns: int) -> None:
        """Runs every timer whose deadline has passed, in the order of deadlines."""
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            _, _, timer = heapq.heappop(heap)
            action = timer.action
            if action is not None:
                timer.action = None
                action(timer.timestamp_ms)

    def quiesce(self) -> None:
        """Drops all timers and accepts no new ones. Called when the task finishes."""
        self._quiesced = True
        self._heap.clear()
