"""ServiceHost: what a service may do with the process that it runs in.

A service usually has a process of its own: signals end it, it announces its address on standard output or in a file,
and after a fatal error it ends the process. Services that run in the process of a user's program are its guests: the
program keeps its signals, streams, log, working directory and garbage collector, and goes on when a service ends.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable

from flinkpy.common.process import ShutdownRequest, announce_ready

#: Larger than any pid of Linux (`PID_MAX_LIMIT`).
_FIRST_GUEST_PID = 1 << 23
_guest_pids = itertools.count(_FIRST_GUEST_PID)


class ServiceHost:
    """The host of a service that has this process for itself. Thread: the service's loop.

    Args:
        ready_file: where the address is written to, see `announce_ready`.
    """

    #: True if other services or a user's program run in this process.
    is_shared = False

    def __init__(self, ready_file: str | None = None) -> None:
        self.ready_file = ready_file

    @property
    def pid(self) -> int:
        """A number that no other service of this host has."""
        return os.getpid()

    def listen(self, shutdown: ShutdownRequest) -> None:
        """Requests the shutdown when the service is asked to end."""
        shutdown.listen_to_signals()

    def on_stop(self, callback: Callable[[str], None]) -> None:
        """Calls `callback(reason)` on the loop when the service is asked to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, callback, f"received {number.name}")

    def on_server_end(self) -> Callable[[BaseException | None], None] | None:
        """Returns what a server calls if it ends without having been stopped; None: it ends the process."""
        return None

    def announce_ready(self, service: str, address: str, data_address: str | None = None) -> None:
        """Tells that the service can be reached at `address`."""
        announce_ready(service, address, data_address, self.ready_file)


class SharedProcess(ServiceHost):
    """The host of one service that is a guest in this process. Create it on the service's loop."""

    is_shared = True

    def __init__(self) -> None:
        super().__init__()
        self._pid = next(_guest_pids)
        self._callback: Callable[[str], None] | None = None
        self._reason: str | None = None
        #: The address of the service, once it is ready.
        self.address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return self._pid

    def listen(self, shutdown: ShutdownRequest) -> None:
        self.on_stop(shutdown.request)

    def on_stop(self, callback: Callable[[str], None]) -> None:
        self._callback = callback
        if self._reason is not None:
            callback(self._reason)

    def on_server_end(self) -> Callable[[BaseException | None], None]:
        return lambda error: self.stop(f"its server has ended: {error}")

    def announce_ready(self, service: str, address: str, data_address: str | None = None) -> None:
        if not self.address.done():
            self.address.set_result(address)

    def stop(self, reason: str) -> None:
        """Asks the service to end."""
        self._reason = reason
        if self._callback is not None:
            self._callback(reason)
