"""A port that a test chooses in advance belongs to one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import ports
from ports import own_port

TESTS = Path(ports.__file__).parent


def test_a_port_is_assigned_once_and_never_by_the_kernel() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    owned = [own_port() for _ in range(200)]
    assert len(set(owned)) == 200
    assert not any(low <= port <= high for port in owned)


def test_another_process_gets_a_port_only_after_its_owner_has_ended() -> None:
    program = (
        "import sys, ports; ports._unassigned_ports = lambda: [int(sys.argv[1])]; print(ports.own_port(), flush=True)"
    )
    port = own_port()
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}

    def elsewhere() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(port)]
        return subprocess.run(command, check=False, env=environment, capture_output=True, text=True)

    assert "every port is in use" in elsewhere().stderr
    ports._claims.pop(port).close()  # as at the end of this process
    assert elsewhere().stdout == f"{port}\n"


def test_a_port_with_a_listener_is_not_assigned(monkeypatch) -> None:
    taken, free = own_port(), own_port()
    for port in (taken, free):
        ports._claims.pop(port).close()
    monkeypatch.setattr(ports, "_unassigned_ports", lambda: [taken, free])
    with socket.create_server(("127.0.0.1", taken)):
        assert own_port() == free
