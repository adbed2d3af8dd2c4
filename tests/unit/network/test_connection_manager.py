"""The limit for unauthenticated connections, and the socket options of data connections."""

from __future__ import annotations

import contextlib
import socket

from flinkpy.common.errors import ExternalError
from flinkpy.network.transport import connection_manager
from flinkpy.network.transport.connection_manager import UnauthenticatedConnections


class Peer:
    def __init__(self, peer: str = "10.0.0.1") -> None:
        self.peer = peer
        self.failures: list[ExternalError] = []

    def fail(self, error: ExternalError) -> None:
        self.failures.append(error)


def test_a_peer_is_accepted_while_there_is_room() -> None:
    connections = UnauthenticatedConnections(2)
    connections.add(Peer(), 0)

    assert connections.has_room(0)


def test_no_peer_is_accepted_while_all_others_may_be_honest() -> None:
    connections, first = UnauthenticatedConnections(1), Peer()
    connections.add(first, 0)

    assert not connections.has_room(1_999)
    assert not first.failures


def test_a_peer_that_waits_too_long_is_closed_to_make_room() -> None:
    connections, first, second = UnauthenticatedConnections(2), Peer("10.6.6.6"), Peer()
    connections.add(first, 0)
    connections.add(second, 1)

    assert connections.has_room(2_000)
    assert "10.6.6.6 connected and did not authenticate itself" in str(first.failures[0])
    assert not second.failures
    assert len(connections) == 1


def test_an_authenticated_peer_takes_no_room() -> None:
    connections, first = UnauthenticatedConnections(1), Peer()
    connections.add(first, 0)
    connections.remove(first)
    connections.remove(first)

    assert connections.has_room(0)


def test_log_lines_about_refused_peers_are_limited() -> None:
    connections = UnauthenticatedConnections(1)

    assert [connections.next_report(now_ms) for now_ms in (0, 1, 2, 4_999, 5_000)] == [0, None, None, None, 3]
    assert connections.next_report(10_000) == 0


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
