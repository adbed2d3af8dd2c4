"""What flinkpy needs of kazoo's connection that kazoo keeps to itself, or does otherwise.

Checked with kazoo 2.11. Where a name is not there any more, what depends on it falls back to what was configured.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kazoo.handlers.threading import SequentialThreadingHandler

if TYPE_CHECKING:
    import socket

logger = logging.getLogger(__name__)

#: Pause before a connection thread that has ended by an error is run again.
_PAUSE_S = 1.0


class PatientHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Does not wait a whole session time-out for one host, which is all there is for the whole ensemble.

    Args:
        secure: what is spoken through instead of a connected socket, given the host's name.
    """

    def __init__(self, patience_s: float, secure: Callable[[socket.socket, str], socket.socket]) -> None:
        super().__init__()
        self._patience_s = patience_s
        self._secure = secure

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["timeout"] = min(kwargs.get("timeout", self._patience_s), self._patience_s)
        connected = super().create_connection(*args, **kwargs)
        try:
            connected.settimeout(self._patience_s)
            return self._secure(connected, kwargs["hostname"])
        except BaseException:
            connected.close()
            raise

    def select(self, rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
        # An answer that came in one TLS record with the one before it is in the process already: no more would come.
        if any(getattr(one, "pending", _nothing)() for one in rlist):
            readable, writable, exceptional = super().select(rlist, wlist, xlist, 0)
            readable += [one for one in rlist if getattr(one, "pending", _nothing)() and one not in readable]
            return readable, writable, exceptional
        return super().select(rlist, wlist, xlist, timeout)


def _nothing() -> int:
    return 0


class SessionFacts:
    """When the server was last heard, and what session time-out it agreed to.

    Thread: written by kazoo's connection, read by any.
    """

    def __init__(self, kazoo: Any, timeout_s: float, patience_s: float) -> None:
        self.timeout_s = timeout_s
        self.last_contact_s = time.monotonic()
        connection = getattr(kazoo, "_connection", None)
        if connection is None:
            return
        invoke, read = connection._invoke, connection._read_socket

        def invoke_and_note(timeout: float, request: Any, *args: Any, **kwargs: Any) -> Any:
            # The first request of a connection is the one for the session; a server that has stopped never answers it.
            answer = invoke(min(timeout, max(patience_s, 1.0)), request, *args, **kwargs)
            self.last_contact_s = time.monotonic()
            agreed = getattr(answer[0], "time_out", 0) if isinstance(answer, tuple) else 0
            if agreed > 0:
                self.timeout_s = agreed / 1000
            return answer

        def read_and_note(*args: Any, **kwargs: Any) -> Any:
            answer = read(*args, **kwargs)
            self.last_contact_s = time.monotonic()
            return answer

        connection._invoke = invoke_and_note
        connection._read_socket = read_and_note


def keep_running(kazoo: Any, closed: threading.Event) -> None:
    """Let kazoo's connection thread outlive an answer that it cannot read, with another session.

    It would end, the process would stand by for ever, and nobody would be told.
    """
    connection: Any = getattr(kazoo, "_connection", None)
    loop = getattr(connection, "zk_loop", None)
    if loop is None:
        return

    def loop_until_closed() -> None:
        while True:
            try:
                loop()
            except Exception as error:  # noqa: BLE001 - whatever it was, there must be a connection again
                logger.error("the connection to ZooKeeper has failed and is made anew: %r", error)
            if closed.wait(_PAUSE_S):
                return

    connection.zk_loop = loop_until_closed
