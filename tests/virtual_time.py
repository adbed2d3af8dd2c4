"""An event loop on virtual time: its clock jumps to the next timer, so a test of hours takes milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while callbacks are ready, and otherwise jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self._now = 1_000.0

    def time(self) -> float:
        return self._now

    def advance_by(self, seconds: float) -> None:
        self._now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("the test waits for something that can never happen")
        events = super().select(0)
        if not events and timeout > 0:
            self._loop.advance_by(timeout)
        return events


class LoopClock:
    """A Clock that reads the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return round(self._loop.time() * 1000)

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1_000_000_000)

    def thread_time_ns(self) -> int:
        return 0


def run_on_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a coroutine function to its end on a new VirtualTimeLoop."""
    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(test())
    finally:
        loop.close()
