"""ShutdownRequest: starts the orderly shutdown of a service process on SIGTERM, SIGINT or a call."""

from __future__ import annotations

import asyncio
import signal


class ShutdownRequest:
    """A request to end, set once by a signal or by `request`. Thread: the event loop that created it."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._reason = ""

    def listen_to_signals(self) -> None:
        """Makes SIGTERM and SIGINT request the shutdown instead of killing the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request, f"signal {number.name}")

    def request(self, reason: str) -> None:
        """Requests the shutdown; later requests have no effect."""
        if not self._requested.is_set():
            self._reason = reason
            self._requested.set()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    async def wait(self) -> str:
        """Waits for a request and returns its reason."""
        await self._requested.wait()
        return self._reason
