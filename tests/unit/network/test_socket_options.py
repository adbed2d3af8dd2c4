"""Data connections detect a network that drops all packets."""

from __future__ import annotations

import contextlib
import socket

from flinkpy.network.transport import connection_manager


def test_a_silent_connection_ends_with_and_without_unacknowledged_data() -> None:
    with socket.socket() as sock:
        connection_manager._configure(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle_s, pause_s, count = (
            sock.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle_s + pause_s * count == 25
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        with contextlib.suppress(OSError):  # Linux before 6.15
            assert sock.getsockopt(socket.IPPROTO_TCP, connection_manager._TCP_RTO_MAX_MS) == 5_000
