"""InterpreterWatchdog: ends the process when no Python code but one call has run for too long.

A call into C that keeps the interpreter lock (a regular expression that backtracks for ever) stops every thread of the
process, the main loop with it: no cancellation arrives, no heartbeat is answered, and the peers give the process up.
Nothing written in Python could end it then. The interpreter's own fault handler can: its timer is a thread in C. The
loop sets it anew every few seconds; when the loop is stuck it writes the stack of every thread to standard error, the
guilty function among them, and ends the process.
"""

from __future__ import annotations

import faulthandler
import sys

from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

#: The timer is set anew this many times within its timeout, so that a loaded machine does not let it run out.
TICKS_PER_TIMEOUT = 6


class InterpreterWatchdog:
    """Thread: main thread. One per process."""

    def __init__(self, endpoint: RpcEndpoint, timeout_ms: int) -> None:
        self._endpoint = endpoint
        self._timeout_ms = timeout_ms
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Watch from now on; a timeout of 0 watches nothing."""
        if self._timeout_ms > 0:
            faulthandler.dump_traceback_later(self._timeout_ms / 1000, exit=True, file=sys.stderr)
            self._timer = self._endpoint.schedule(self._timeout_ms / TICKS_PER_TIMEOUT, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            faulthandler.cancel_dump_traceback_later()
