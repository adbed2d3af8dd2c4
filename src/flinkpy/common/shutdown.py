"""How a service process is asked to end: SIGTERM, SIGINT or a call of its own, all ending in one orderly shutdown."""

from __future__ import annotations

import asyncio
import signal


class ShutdownRequest:
    """Set once, by a signal or by `request`. Thread: the loop it was made on."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._reason = ""

    def listen_to_signals(self) -> None:
        """From now on SIGTERM and SIGINT ask for the end instead of causing it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request, f"signal {number.name}")

    def request(self, reason: str) -> None:
        """Ask for the end; only the first reason counts."""
        if not self._requested.is_set():
            self._reason = reason
            self._requested.set()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    async def wait(self) -> str:
        """Returns the reason once the end was asked for."""
        await self._requested.wait()
        return self._reason
