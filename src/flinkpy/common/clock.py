"""Time as a value that is passed in. Only this module reads the machine's clocks."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time to show and to compare with event time, monotonic time to wait with, and CPU time.

    The CPU time of a thread tells what its work costs, whatever else the machine runs.
    """

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed point; never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds."""
        ...

    def thread_time_ns(self) -> int:
        """CPU time that the calling thread has used. It stands still while the thread waits or is preempted."""
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
    """A clock for tests: stands still until advanced. All threads wait: none uses CPU time except by `use_cpu`."""

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
        """Have the calling thread work for so long."""
        self.advance(ms)
        self._thread_time_ns += ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        if by_ms < 0:
            raise ValueError("a clock is only ever advanced")
        self._now_ms += by_ms
