"""The changes of kazoo's connection handling."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from flinkpy.highavailability.zookeeper.kazoo_connection import PatientHandler


class BufferedSocket:
    """A socket that holds `pending` decrypted bytes, as a TLS socket does."""

    def __init__(self, real: socket.socket, pending: int) -> None:
        self._real = real
        self._pending = pending

    def fileno(self) -> int:
        return self._real.fileno()

    def pending(self) -> int:
        return self._pending


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.fixture
def handler() -> PatientHandler:
    return PatientHandler(1.0, lambda connected, host: connected)


def test_select_does_not_wait_for_data_that_is_already_decrypted(
    handler: PatientHandler, sockets: tuple[socket.socket, socket.socket]
) -> None:
    buffered = BufferedSocket(sockets[0], pending=3)
    # Without a time-out this would wait for ever.
    assert handler.select([buffered, sockets[1]], [], [], None) == ([buffered], [], [])
    sockets[0].sendall(b"x")
    readable, _, _ = handler.select([buffered, sockets[1]], [], [], None)
    assert {id(one) for one in readable} == {id(buffered), id(sockets[1])}


def test_sockets_without_anything_are_waited_for(
    handler: PatientHandler, sockets: tuple[socket.socket, socket.socket]
) -> None:
    empty = BufferedSocket(sockets[0], pending=0)
    assert handler.select([empty], [], [], 0.01) == ([], [], [])
    sockets[1].sendall(b"x")
    assert handler.select([empty], [], [], None) == ([empty], [], [])
