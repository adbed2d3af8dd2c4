"""ActivityClock: measures how long an input has been silent, without the time in which it could not be read.

Source: org.apache.flink.streaming.api.operators.util.PausableRelativeClock.
"""

from __future__ import annotations

from collections.abc import Callable


class ActivityClock:
    """A clock that follows another clock and can be paused. Thread: task thread.

    Args:
        below_ns: the clock to follow, which never goes back.
    """

    __slots__ = ("_below_ns", "_paused_at_ns", "_paused_total_ns")

    def __init__(self, below_ns: Callable[[], int]) -> None:
        self._below_ns = below_ns
        self._paused_total_ns = 0
        self._paused_at_ns: int | None = None

    def now_ns(self) -> int:
        at_ns = self._below_ns() if self._paused_at_ns is None else self._paused_at_ns
        return at_ns - self._paused_total_ns

    def pause(self) -> None:
        """Stops the clock. Idempotent."""
        if self._paused_at_ns is None:
            self._paused_at_ns = self._below_ns()

    def resume(self) -> None:
        """Lets the clock run again. Idempotent."""
        if self._paused_at_ns is not None:
            self._paused_total_ns += self._below_ns() - self._paused_at_ns
            self._paused_at_ns = None
