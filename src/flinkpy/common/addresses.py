"""Hosts and ports: the default bind address, a check for loopback addresses, port ranges and reservations."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from flinkpy.common.errors import AddressInUseError, ConfigurationError

LOOPBACK = "127.0.0.1"
_MAX_PORT = 65_535


def is_loopback(host: str) -> bool:
    """True if only this host can reach `host`, a name or a numeric address with an optional IPv6 scope."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def parse_port_range(text: str, option: str) -> tuple[int, ...]:
    """Returns the ports of a list of ports and ranges, e.g. `8081,50100-50200`.

    Source: org.apache.flink.util.NetUtils#getPortRangeFromString.

    Raises: ConfigurationError naming the option.
    """
    ports: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            begin = _port(first)
            end = _port(last) if dash else begin
        except ValueError:
            raise _bad_range(text, option) from None
        if begin > end or (dash and begin == 0):
            raise _bad_range(text, option)
        ports.extend(range(begin, end + 1))
    return tuple(dict.fromkeys(ports))


def _port(text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit() or len(text.strip()) > len(str(_MAX_PORT)):
        raise ValueError(text)
    port = int(text)
    if port > _MAX_PORT:
        raise ValueError(text)
    return port


def _bad_range(text: str, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"option `{option}` has the value `{text}`: expected ports from 0 to {_MAX_PORT} and ranges of them, e.g. "
        "`8081,50100-50200`",
        details={"option": option, "value": text},
    )


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
