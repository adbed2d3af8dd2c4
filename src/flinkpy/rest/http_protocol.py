"""RestProtocol: HTTP connections that clients cannot hold open by sending slowly.

uvicorn has a time limit for idle connections, but none for a request that never becomes complete. So a client without a
token could use up all connections.

Thread: the process's asyncio loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from flinkpy.security import TlsMaterial

#: How long the head of a request may take, from the first connection or byte on. It fits into a few packets.
HEAD_TIMEOUT_S = 10.0
#: How long the next piece of a body may take. Bodies are read only for callers that have been admitted.
BODY_PAUSE_TIMEOUT_S = 30.0


class GatheringTransport:
    """A transport that sends what is written in one turn of the loop as one piece.

    uvicorn writes the head of an answer and its body one after the other. The first packet wakes the client up. On a
    busy host the client then takes the place of this process, whose body waits for its next turn.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._transport.write(b"".join(pieces))


class RestProtocol(H11Protocol):
    """Closes a connection whose client does not complete a request in time."""

    _waiting: asyncio.TimerHandle | None = None
    #: whether the time limit for the head of the present request runs
    _is_head_limited = False

    def connection_made(self, transport: Any) -> None:
        gathering: Any = GatheringTransport(transport, self.loop)
        super().connection_made(gathering)
        self._limit_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            # A head that is not complete. Further pieces of it get no more time.
            if not self._is_head_limited:
                self._limit_head()
            return
        self._stop_waiting()
        if state is h11.SEND_BODY:
            self._waiting = self.loop.call_later(BODY_PAUSE_TIMEOUT_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _limit_head(self) -> None:
        self._stop_waiting()
        self._is_head_limited = True
        self._waiting = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _stop_waiting(self) -> None:
        self._is_head_limited = False
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.abort()


def protocol_class(tls: TlsMaterial | None) -> type[H11Protocol]:
    """Returns the HTTP protocol. It refuses clients whose certificate is not one of those configured, if any are."""
    if tls is None or not tls.fingerprints:
        return RestProtocol
    pinned = tls

    class PinnedProtocol(RestProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if certificate is None or pinned.is_pinned_out(certificate):
                transport.abort()

    return PinnedProtocol
