"""Only services of this user can bind a reserved port."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flinkpy.common.addresses import PortReservation, raise_if_taken
from flinkpy.common.errors import AddressInUseError
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

HOST = "127.0.0.1"
#: Binds like an attacker: shares the port with every process that permits it.
_BIND = """
import os, socket, sys
os.setuid(int(sys.argv[3]))
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
taken.bind((sys.argv[1], int(sys.argv[2])))
taken.listen()
"""
_NOBODY = 65534


@pytest.fixture
def reservation() -> Iterator[PortReservation]:
    made = PortReservation(HOST, 0)
    yield made
    made.close()


@pytest.fixture
def told(reservation: PortReservation, monkeypatch: pytest.MonkeyPatch) -> PortReservation:
    """Returns the reservation as a process sees it that is started to serve at the port."""
    for name, value in reservation.environment.items():
        monkeypatch.setenv(name, value)
    return reservation


async def serve_at(port: int) -> None:
    server = RpcServer(bind_address=HOST, port=port, security=SecurityContext.insecure())
    await server.start()
    try:
        assert server.address == f"{HOST}:{port}"
        socket.create_connection((HOST, port)).close()
    finally:
        await server.stop()


def test_the_service_can_bind_the_reserved_port_repeatedly(told: PortReservation) -> None:
    for _ in range(3):
        asyncio.run(serve_at(told.port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, told.port)).close()


def test_a_process_without_the_reservation_cannot_bind_the_port(reservation: PortReservation) -> None:
    with pytest.raises(AddressInUseError, match=rf"{HOST}:{reservation.port}.*in use"):
        asyncio.run(serve_at(reservation.port))
    with pytest.raises(AddressInUseError, match="in use"):
        PortReservation(HOST, reservation.port)
    with pytest.raises(AddressInUseError, match="in use"):
        raise_if_taken(HOST, reservation.port)


def test_a_port_with_a_listener_cannot_be_reserved() -> None:
    with socket.create_server((HOST, 0), reuse_port=True) as listener, pytest.raises(AddressInUseError):
        PortReservation(HOST, listener.getsockname()[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user: NOT tested")
@pytest.mark.parametrize("host", [HOST, "0.0.0.0"])
def test_another_user_cannot_bind_the_port_between_two_services(reservation: PortReservation, host: str) -> None:

    def bind_as(user: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", _BIND, host, str(reservation.port), str(user)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    refused = bind_as(_NOBODY)
    assert refused.returncode == 1 and "Address already in use" in refused.stderr
    assert bind_as(os.geteuid()).returncode == 0, "the test could not have failed"


def test_a_released_port_is_free() -> None:
    made = PortReservation(HOST, 0)
    port = made.port
    made.close()
    made.close()
    PortReservation(HOST, port).close()
