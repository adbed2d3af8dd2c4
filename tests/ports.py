"""Chooses ports before a server listens on them: for servers that need a fixed port, and for absent peers.

A port that was found free can be taken before it is used. The kernel may give it to the next outgoing connection, or
another test may find it too. A port of `own_port` is outside the range that the kernel chooses from, and belongs to one
process until that process ends.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

#: The lowest port: above the ports that only root may bind, and above the usual ports of services.
_FIRST, _LAST = 12_000, 65_535
#: If the kernel chooses from all ports, tests take ports from here on. An outgoing connection may then get one of them.
_FALLBACK = range(20_000, 32_000)
#: The minimum number of ports to choose from: a hundredth of the ports of a common system.
_ENOUGH = 500

#: The ports of this process: by port, a socket that is bound to a name which contains the port.
_claims: dict[int, socket.socket] = {}


def own_port(host: str = "127.0.0.1") -> int:
    """Returns a port without a listener that no other caller gets while this process runs."""
    ports = _unassigned_ports()
    first = random.randrange(len(ports))
    for port in ports[first:] + ports[:first]:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # An abstract name: the kernel frees it when the process ends, and it is local to the network namespace, as
            # ports are.
            claim.bind(f"\0flinkpy-test-port-{port}")
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.bind((host, port))
        except OSError:
            claim.close()
            continue
        _claims[port] = claim
        return port
    raise AssertionError("every port is in use")


def _unassigned_ports() -> list[int]:
    """Returns the ports that the kernel never chooses by itself."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(_FIRST, _LAST + 1) if not low <= port <= high]
    return ports if len(ports) >= _ENOUGH else list(_FALLBACK)
