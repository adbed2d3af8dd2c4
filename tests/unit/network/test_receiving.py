"""The buffers for received bytes, which a transport delivers without sockets and their timing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.errors import ExternalError
from flinkpy.network.transport import frames
from flinkpy.network.transport.framed_connection import FramedConnection

LONG = 1 << 20


class NoLoop:
    def call_soon(self, action: Callable[[], None]) -> None:
        return


class Bytes:
    """A transport with all its data ready, like a socket whose peer is far ahead."""

    has_pending = False

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def receive_into(self, view: memoryview) -> int:
        if not self._data:
            raise BlockingIOError
        size = min(len(view), len(self._data))
        view.cast("B")[:size] = self._data[:size]
        self._data = self._data[size:]
        return size


class Receiver(FramedConnection):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(NoLoop(), sock, "peer")  # type: ignore[arg-type]
        self.bodies: list[pa.Buffer | None] = []
        self.moved_bytes = 0
        self.allow_large_frames(frames.MAX_BODY_BYTES)

    def receive(self, data: bytes) -> None:
        self._transport = Bytes(data)  # type: ignore[assignment]
        self._receive()

    def on_frame(self, kind: int, flags: int, channel: int, a: int, b: int, c: int, d: int, e: int, body: Any) -> None:
        self.bodies.append(body)

    def on_failed(self, error: ExternalError) -> None:
        raise error

    def _new_buffer(self, needed: int) -> None:
        self.moved_bytes += self._end - self._start
        super()._new_buffer(needed)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Receiver(ours)


def long_frame(fill: int) -> bytes:
    return frames.frame(frames.DATA, 1, body=bytes([fill]) * LONG)


def test_long_frames_are_received_without_moving_them(receiver: Receiver) -> None:
    receiver.receive(b"".join(long_frame(fill) for fill in range(2)))
    receiver.moved_bytes = 0

    receiver.receive(b"".join(long_frame(fill) for fill in range(8)))

    assert [body.to_pybytes()[:1] for body in receiver.bodies[2:] if body is not None] == [bytes([i]) for i in range(8)]
    assert receiver.moved_bytes < LONG // 4


@pytest.mark.parametrize("where", ["before", "after"])
def test_control_frames_between_long_frames_do_not_move_them(receiver: Receiver, where: str) -> None:
    control = frames.frame(frames.BACKLOG, 1, 5, 5)

    def pair(fill: int) -> bytes:
        return control + long_frame(fill) if where == "before" else long_frame(fill) + control

    receiver.receive(pair(0) + pair(1))
    receiver.moved_bytes = 0

    receiver.receive(b"".join(map(pair, range(8))))

    bodies = [body for body in receiver.bodies[4:] if body is not None]
    assert [body.to_pybytes() for body in bodies] == [bytes([fill]) * LONG for fill in range(8)]
    assert receiver.moved_bytes < LONG // 4


def test_control_frames_alone_do_not_move_the_next_long_frame(receiver: Receiver) -> None:
    control = frames.frame(frames.BACKLOG, 1, 5, 5)
    receiver.receive(long_frame(0) + long_frame(1))
    receiver.moved_bytes = 0

    for fill in range(8):
        receiver.receive(control)
        receiver.receive(long_frame(fill))

    assert receiver.moved_bytes < LONG // 4
