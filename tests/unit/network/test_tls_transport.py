"""Non-blocking TLS: full sockets, partial records and data left in the TLS layer."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.errors import ExternalError
from flinkpy.network.transport import frames
from flinkpy.network.transport.framed_connection import FramedConnection
from flinkpy.network.transport.io_loop import READ
from flinkpy.network.transport.socket_transport import TlsTransport, TlsTransports, tls_problem
from tests.certificates import authority

SMALL_BUFFER = 32 * 1024


class Pair:
    """The two ends of a TLS connection over sockets with small buffers."""

    def __init__(self) -> None:
        transports = TlsTransports(authority().member())
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        self.sockets: list[socket.socket] = []
        server_socket, self.server = transports.of_producer(ours)
        client_socket, self.client = transports.of_consumer(theirs)
        self.sockets = [server_socket, client_socket]
        unfinished = [self.client, self.server]
        while unfinished:
            transport = unfinished.pop(0)
            try:
                transport.handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                unfinished.append(transport)

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def drop(parts: list[bytes], sent: int) -> None:
    """Removes the sent bytes, as a connection does."""
    while sent:
        size = len(parts[0])
        if sent < size:
            parts[0] = parts[0][sent:]
            return
        sent -= size
        del parts[0]


def receive(transport: TlsTransport, room: int = 1 << 16) -> bytes:
    view = memoryview(bytearray(room))
    try:
        return bytes(view[: transport.receive_into(view)])
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_any_size_are_received_unchanged(pair: Pair, seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([1, 32, 300, 8_192, 16_384, 65_536, 70_001, 262_144, 600_000]) for _ in range(25)]
    parts = [rng.randbytes(size) for size in sizes]
    whole, received = b"".join(parts), bytearray()

    while len(received) < len(whole):
        for _ in range(rng.randint(1, 5)):
            with suppress(BlockingIOError):
                if parts:
                    drop(parts, pair.server.send(parts))
        received += receive(pair.client, rng.choice([100, 5_000, 1 << 20]))

    assert received == whole
    assert not parts


def test_data_that_a_full_socket_refused_is_offered_again_unchanged(pair: Pair) -> None:
    """Encrypted data must not be encrypted again together with parts that were queued meanwhile."""
    parts = [b"x" * 200_000]
    with pytest.raises(BlockingIOError):
        while True:
            drop(parts, pair.server.send(parts))
            parts.append(b"x" * 200_000)
    left = sum(map(len, parts))
    parts.append(b"the end")
    received = bytearray()
    while parts:
        received += receive(pair.client)
        with suppress(BlockingIOError):
            drop(parts, pair.server.send(parts))
    while more := receive(pair.client):
        received += more

    assert received.endswith(b"xthe end")
    assert len(received) >= left


def test_a_direction_works_while_the_other_is_full(pair: Pair) -> None:
    with pytest.raises(BlockingIOError):
        while True:
            pair.server.send([b"x" * 100_000])

    assert pair.client.send([b"credit"]) == 6
    assert receive(pair.server) == b"credit"


def test_a_single_call_reads_many_records(pair: Pair) -> None:
    for _ in range(5):
        pair.server.send([b"y" * 100])

    assert receive(pair.client) == b"y" * 500


def test_decrypted_unread_data_is_pending(pair: Pair) -> None:
    pair.server.send([b"z" * 1000])

    assert receive(pair.client, 600) == b"z" * 600
    assert pair.client.has_pending
    assert receive(pair.client, 600) == b"z" * 400
    assert not pair.client.has_pending


def test_arrow_buffers_are_sent(pair: Pair) -> None:
    assert pair.server.send([pa.py_buffer(b"abc"), memoryview(b"def")]) == 6
    assert receive(pair.client) == b"abcdef"


def test_nothing_is_sent_in_plaintext_after_the_end(pair: Pair) -> None:
    pair.sockets[0].close()

    with pytest.raises(OSError, match="closed"):
        pair.server.send([b"a secret"])
    with pytest.raises(OSError, match="closed"):
        receive(pair.server)
    assert receive(pair.client) == b""


def test_tls_problem_returns_none_for_other_errors() -> None:
    assert tls_problem(ConnectionResetError("reset"), "peer") is None
    assert tls_problem(ValueError("closed"), "peer") is None


class OnLoop:
    """A loop whose pending actions are run by the test."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, action: Callable[[], None]) -> None:
        self.soon.append(action)


class Whole:
    """A transport that holds many frames, which its socket does not report."""

    def __init__(self, count: int) -> None:
        self._left = memoryview(frames.frame(frames.CREDIT, body=bytes(4000)) * count)

    @property
    def has_pending(self) -> bool:
        return bool(self._left)

    def send(self, parts: list[Any]) -> int:
        raise AssertionError("nothing is sent")

    def receive_into(self, view: memoryview) -> int:
        size = min(len(view), len(self._left))
        if not size:
            raise BlockingIOError
        view[:size].cast("B")[:] = self._left[:size]
        self._left = self._left[size:]
        return size


class Counting(FramedConnection):
    received = 0

    def on_frame(self, *_: object) -> None:
        self.received += 1

    def on_failed(self, error: ExternalError) -> None:
        raise AssertionError(error)


def test_data_left_in_the_tls_layer_is_received_in_the_next_turn() -> None:
    """The socket is empty, so it would not be reported as readable again."""
    loop, (ours, theirs) = OnLoop(), socket.socketpair()
    with ours, theirs:
        connection = Counting(loop, ours, "peer")  # type: ignore[arg-type]
        connection.allow_large_frames(1 << 20)
        count = 5_000  # some 20 MB, and 8 are received in one go
        connection._transport = Whole(count)
        connection.on_events(READ)
        turns = 1
        while loop.soon:
            loop.soon.pop()()
            turns += 1

        assert connection.received == count
        assert turns > 1
