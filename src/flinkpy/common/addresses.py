"""Hosts and ports: the default bind address, a check for loopback addresses, and port reservations."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from flinkpy.common.errors import AddressInUseError

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """True if only this host can reach `host`, a name or a numeric address with an optional IPv6 scope."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


#: Environment variable with the port that the parent process has reserved for this process.
RESERVED_PORT_VARIABLE = "FLINKPY_RESERVED_PORT"


class PortReservation:
    """Reserves `port` of `host` for services that start, end and start again; 0 means any free port.

    A port is announced before its service binds it, and it is free while a lost service is replaced. Another process
    that binds it in between would keep the service from starting. So the process that starts services binds a socket to
    the port without listening. The kernel then lets only processes of the same user bind it (SO_REUSEPORT, since
    Linux 3.9).

    Raises: AddressInUseError with host and port, also if a process of this user has the port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.socket(_family(host), socket.SOCK_STREAM)
        try:
            # The order matters: binding fails if anyone has the port, and only then the port becomes shareable.
            self._socket.bind((host, port))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            self._socket.close()
            raise cannot_listen(host, port, error) from error

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for the process that will serve at the port."""
        return {RESERVED_PORT_VARIABLE: str(self.port)}

    def close(self) -> None:
        """Releases the port; idempotent."""
        self._socket.close()


def is_reserved(port: int) -> bool:
    """True if the parent process has reserved `port` for this process."""
    return port != 0 and os.environ.get(RESERVED_PORT_VARIABLE) == str(port)


def raise_if_taken(host: str, port: int) -> None:
    """Raises AddressInUseError if the port is taken; gRPC's own message does not give the reason."""
    if port == 0:
        return
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_reserved(port):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise cannot_listen(host, port, error) from error


def cannot_listen(host: str, port: int, error: OSError) -> AddressInUseError:
    if error.errno == errno.EADDRINUSE:
        message = f"cannot listen on {host}:{port}: the port is in use by another process"
    else:
        message = f"cannot listen on {host}:{port}: {error.strerror or error}"
    return AddressInUseError(message, details={"address": f"{host}:{port}"})


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
