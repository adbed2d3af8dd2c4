"""Changes of kazoo's connection handling, which kazoo has no options for.

Tested with kazoo 2.11. If a private name of kazoo does not exist any more, configured values are used instead.
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

#: The pause before a connection thread that failed is restarted.
_PAUSE_S = 1.0


class PatientHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Limits the time to connect to one host, so that all hosts are tried within the session time-out.

    Args:
        secure: wraps a connected socket in TLS, given the name of the host.
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
        # Several answers may come in one TLS record. Then select does not see the later ones.
        if any(getattr(one, "pending", _nothing)() for one in rlist):
            readable, writable, exceptional = super().select(rlist, wlist, xlist, 0)
            readable += [one for one in rlist if getattr(one, "pending", _nothing)() and one not in readable]
            return readable, writable, exceptional
        return super().select(rlist, wlist, xlist, timeout)


def _nothing() -> int:
    return 0


class SessionFacts:
    """The time when the server was last heard, and the session time-out that it has chosen.

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
            # The first request of a connection opens the session. A server that hangs never answers it.
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
    """Restarts kazoo's connection thread, with a new session, after an answer that it cannot read.

    Otherwise the thread would end unnoticed, and the process would never lead again.
    """
    connection: Any = getattr(kazoo, "_connection", None)
    loop = getattr(connection, "zk_loop", None)
    if loop is None:
        return

    def loop_until_closed() -> None:
        while True:
            try:
                loop()
            except Exception as error:  # noqa: BLE001 - a connection is needed in any case
                logger.error("the connection to ZooKeeper failed, connecting again: %r", error)
            if closed.wait(_PAUSE_S):
                return

    connection.zk_loop = loop_until_closed
