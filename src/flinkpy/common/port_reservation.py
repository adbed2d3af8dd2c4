"""PortReservation: keeps a port for the processes of this user that come and go on it.

A port is announced before its service has bound it, and free while a service that died is started again. Whoever binds
it meanwhile keeps the service from starting. So the process that starts services holds a socket that is bound to the
port and does not listen: the kernel then lets only processes of the same user bind it (SO_REUSEPORT, since Linux 3.9).
"""

from __future__ import annotations

import errno
import os
import socket

from flinkpy.common.errors import AddressInUseError

#: The port that a process may share with the reservation of the process that started it.
RESERVED_PORT_VARIABLE = "FLINKPY_RESERVED_PORT"


class PortReservation:
    """Reserves `port` of `host`, any free one where it is 0.

    Raises: AddressInUseError naming both, also where a process of this user has the port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.socket(_family(host), socket.SOCK_STREAM)
        try:
            # In this order: the port is bound by nobody else now, and may be shared from then on.
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
        """For the process that is to serve at the port."""
        return {RESERVED_PORT_VARIABLE: str(self.port)}

    def close(self) -> None:
        """Let the port go; idempotent."""
        self._socket.close()


def is_reserved(port: int) -> bool:
    """Whether the process that started this one keeps `port` for it."""
    return port != 0 and os.environ.get(RESERVED_PORT_VARIABLE) == str(port)


def raise_if_taken(host: str, port: int) -> None:
    """Raises: AddressInUseError where somebody has the port; gRPC's own message does not say why it could not bind."""
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
