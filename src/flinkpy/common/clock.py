"""Clocks, which components get as an argument. Only this module reads the clocks of the machine."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Provides wall-clock time (for display and event time), monotonic time (for waits) and CPU time.

    The CPU time of a thread measures the cost of its work independently of the load of the machine.
    """

    def now_ms(self) -> int:
        """Returns milliseconds since the epoch; they may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Returns milliseconds since a fixed point; they never go back."""
        ...

    def monotonic_ns(self) -> int:
        """Returns nanoseconds since the fixed point of `monotonic_ms`."""
        ...

    def thread_time_ns(self) -> int:
        """Returns the CPU time that the calling thread has used; time spent waiting or preempted does not count."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def thread_time_ns(self) -> int:
        return time.thread_time_ns()


class ManualClock:
    """A clock for tests that moves only by `advance` and `use_cpu`. Only `use_cpu` adds CPU time."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._thread_time_ns = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    def thread_time_ns(self) -> int:
        return self._thread_time_ns

    def use_cpu(self, ms: int) -> None:
        """Simulates `ms` milliseconds of CPU work of the calling thread."""
        self.advance(ms)
        self._thread_time_ns += ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        if by_ms < 0:
            raise ValueError(f"a clock cannot go back, by_ms is {by_ms}")
        self._now_ms += by_ms
