"""Time as a value that is passed in. Only this module reads the machine's clocks."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: wall time to show and to compare with event time, and monotonic time to measure with."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed point; never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class ManualClock:
    """A clock for tests: stands still until advanced."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        if by_ms < 0:
            raise ValueError("a clock is only ever advanced")
        self._now_ms += by_ms
