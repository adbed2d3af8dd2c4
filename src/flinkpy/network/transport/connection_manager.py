"""ConnectionManager: the listening socket and all data connections of one process.

All gates share the connection to a producer's process. It is kept for a while after its last channel, for the next job,
and is closed with the network environment at the latest.

Source: org.apache.flink.runtime.io.network.netty.{NettyConnectionManager, PartitionRequestClientFactory}.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
from typing import Any, Protocol

from flinkpy.common.errors import (
    AddressInUseError,
    ExternalError,
    PartitionAuthenticationError,
    PartitionConnectionError,
)
from flinkpy.network.credit import Grant
from flinkpy.network.options import NetworkOptions
from flinkpy.network.partition_manager import ResultPartitionManager
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.network.transport.authenticator import DataPlaneAuthenticator
from flinkpy.network.transport.consumer_connection import ConsumerConnection
from flinkpy.network.transport.framed_connection import FramedConnection
from flinkpy.network.transport.io_loop import READ, IoLoop
from flinkpy.network.transport.producer_connection import ProducerConnection
from flinkpy.network.transport.socket_transport import TlsTransports

_log = logging.getLogger(__name__)

# Connections waiting to be accepted: enough for the processes of a large cluster that connect at the same time.
_BACKLOG = 1024
# The pause after a failed accept. Without it the socket would be reported as readable all the time.
_ACCEPT_PAUSE_MS = 200
# How long an unused connection is kept for the next job. A restart of a job takes less.
_IDLE_CLOSE_MS = 60_000
# A peer whose host vanished is detected after 10 + 3 * 5 seconds.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
# How long sent data may stay unacknowledged. TCP alone would retry for a quarter of an hour.
_UNACKNOWLEDGED_MS = 30_000
# The longest pause before TCP sends data again. By default the pauses double up to two minutes, and a repaired network
# would stay unused for that long. TCP_RTO_MAX_MS of linux/tcp.h, from Linux 6.15 on.
_TCP_RTO_MAX_MS, _RESEND_PAUSE_MS = 44, 5_000
# How long an unauthenticated connection may use its place when the limit is reached. An honest peer needs less, even
# together with many others on a busy machine.
_PATIENCE_MS = 2_000
# The time between two log lines about unauthenticated peers.
_REPORT_INTERVAL_MS = 5_000


class UnauthenticatedPeer(Protocol):
    """A connection whose peer has not been authenticated."""

    peer: str

    def fail(self, error: ExternalError) -> None: ...


class UnauthenticatedConnections:
    """The connections of peers that have not been authenticated. Their number is limited.

    A member of the cluster is authenticated within milliseconds. When the limit is reached, a connection that has been
    open for much longer is closed to make room. If there is none, new peers wait in the backlog of the kernel.

    Thread: any; `has_room` on the I/O thread.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        #: The time of arrival by connection, oldest first.
        self._since: dict[UnauthenticatedPeer, int] = {}
        self._reported_ms: int | None = None
        self._unreported = 0

    def __len__(self) -> int:
        return len(self._since)

    def has_room(self, now_ms: int) -> bool:
        """True if one more connection may be accepted.

        At the limit, it closes the oldest connection if that has been here for too long.
        """
        with self._lock:
            if len(self._since) < self._limit:
                return True
            oldest = next(iter(self._since))
            if now_ms - self._since[oldest] < _PATIENCE_MS:
                return False
            del self._since[oldest]
        oldest.fail(
            PartitionAuthenticationError(
                f"{oldest.peer} connected and did not authenticate itself, and too many other peers are waiting"
            )
        )
        return True

    def add(self, connection: UnauthenticatedPeer, now_ms: int) -> None:
        with self._lock:
            self._since[connection] = now_ms

    def remove(self, connection: UnauthenticatedPeer) -> None:
        """Removes a connection that was authenticated or closed. Unknown ones are ignored."""
        with self._lock:
            self._since.pop(connection, None)

    def next_report(self, now_ms: int) -> int | None:
        """Returns the number of failures that were not logged since the last line, or None if it is too early to log.

        A failure for which it is too early is counted.
        """
        with self._lock:
            if self._reported_ms is not None and now_ms - self._reported_ms < _REPORT_INTERVAL_MS:
                self._unreported += 1
                return None
            self._reported_ms = now_ms
            count, self._unreported = self._unreported, 0
            return count


class ConnectionManager:
    """Accepts and opens the data connections of a process. Thread: any, except where noted."""

    def __init__(
        self,
        loop: IoLoop,
        options: NetworkOptions,
        manager: ResultPartitionManager,
        authenticator: DataPlaneAuthenticator,
        resource_id: str,
        tls: TlsTransports | None = None,
    ) -> None:
        #: The address at which consumers know this process. Their first frame contains it, see `frames`.
        self.address = ""
        self._tls = tls
        self._loop = loop
        self._options = options
        self._manager = manager
        self._authenticator = authenticator
        self._resource_id = resource_id
        self._lock = threading.Lock()
        self._consumers: dict[str, ConsumerConnection] = {}
        self._producers: set[ProducerConnection] = set()
        self._unauthenticated = UnauthenticatedConnections(options.max_unauthenticated_connections)
        self._listener: socket.socket | None = None
        self._is_closed = False

    def listen(self, bind_address: str, port: int) -> int:
        """Starts to accept consumers. Returns the port.

        Raises:
            AddressInUseError: names the address.
        """
        family = socket.AF_INET6 if ":" in bind_address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((bind_address, port))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            what = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound: {error.strerror}"
            raise AddressInUseError(
                f"the data address {bind_address}:{port} (taskmanager.data.port) {what}",
                details={"address": f"{bind_address}:{port}"},
            ) from error
        self._listener = listener
        self._loop.register(listener.fileno(), self, READ)
        return listener.getsockname()[1]

    def request_partition(
        self, address: str, channel: RemoteInputChannel, subpartition_index: int, initial: Grant
    ) -> tuple[ConsumerConnection, int]:
        """Requests a subpartition from the process at `address`, over the existing connection or a new one.

        Returns: the connection and the id of the channel on it.

        Raises:
            PartitionConnectionError: the address is invalid, or the connection breaks immediately.
        """
        for is_last_try in (False, True):
            connection = self._connection_to(address)
            try:
                return connection, connection.request_partition(channel, subpartition_index, initial)
            except PartitionConnectionError:
                if is_last_try:
                    raise
        raise AssertionError("unreachable")

    @property
    def connections(self) -> list[FramedConnection]:
        with self._lock:
            return [*self._consumers.values(), *self._producers]

    def close(self) -> None:
        """Closes all sockets. The loop must still be running."""
        with self._lock:
            self._is_closed = True
            listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.call_soon(lambda: self._close_listener(listener))
        for connection in self.connections:
            connection.fail(PartitionConnectionError("the network environment of this process was closed"))

    def on_events(self, events: int) -> None:
        """Accepts connections. Thread: I/O."""
        while self._listener is not None:
            if not self._unauthenticated.has_room(self._loop.now_ms):
                self._pause_accepting()
                return
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Usually the process has no free descriptors. Others may be closed soon, and the peer waits in the
                # backlog.
                _log.warning("cannot accept a data connection: %s", error)
                self._pause_accepting()
                return
            self._accepted(sock, address[0])

    def _accepted(self, sock: socket.socket, peer_host: str) -> None:
        _configure(sock)
        connection = ProducerConnection(
            self._loop,
            sock,
            peer_host,
            manager=self._manager,
            authenticator=self._authenticator,
            segment_size_bytes=self._options.segment_size_bytes,
            request_timeout_ms=self._options.partition_request_timeout_ms,
            handshake_timeout_ms=self._options.handshake_timeout_ms,
            on_closed=self._forget_producer,
            on_authenticated=self._unauthenticated.remove,
            resource_id=self._resource_id,
            address=self.address,
            tls=self._tls,
        )
        self._unauthenticated.add(connection, self._loop.now_ms)
        with self._lock:
            is_closed = self._is_closed
            self._producers.add(connection)
        if is_closed:
            connection.fail(PartitionConnectionError("the network environment of this process was closed"))
        else:
            connection.start()

    def _pause_accepting(self) -> None:
        """Stops accepting connections for a short time. Thread: I/O."""
        if self._listener is not None:
            fd = self._listener.fileno()
            self._loop.modify(fd, 0)
            self._loop.call_later(_ACCEPT_PAUSE_MS, self._resume_accepting)

    def _resume_accepting(self) -> None:
        if self._listener is not None:
            self._loop.modify(self._listener.fileno(), READ)

    def _connection_to(self, address: str) -> ConsumerConnection:
        with self._lock:
            if self._is_closed:
                raise PartitionConnectionError("the network environment of this process was closed")
            connection = self._consumers.get(address)
            if connection is not None and not connection.is_broken:
                return connection
        family, target = _resolve(address)
        with self._lock:
            connection = self._consumers.get(address)
            if connection is not None and not connection.is_broken:
                return connection
            sock = socket.socket(family, socket.SOCK_STREAM)
            _configure(sock)
            connection = ConsumerConnection(
                self._loop,
                sock,
                address,
                resource_id=self._resource_id,
                authenticator=self._authenticator,
                connect_timeout_ms=self._options.connect_timeout_ms,
                on_closed=self._forget_consumer,
                on_unused=self._close_if_unused_later,
                tls=self._tls,
                segment_size_bytes=self._options.segment_size_bytes,
            )
            self._consumers[address] = connection
        self._loop.call_soon(lambda: connection.connect(target))
        return connection

    def _close_if_unused_later(self, connection: ConsumerConnection) -> None:
        self._loop.call_later(_IDLE_CLOSE_MS, lambda: self._close_if_unused(connection))

    def _close_if_unused(self, connection: ConsumerConnection) -> None:
        if not connection.num_channels:
            connection.fail(PartitionConnectionError("the data connection was closed, because it was not used"))

    def _forget_consumer(self, connection: ConsumerConnection) -> None:
        with self._lock:
            if self._consumers.get(connection.address) is connection:
                del self._consumers[connection.address]

    def _forget_producer(self, connection: ProducerConnection) -> None:
        if not connection.is_authenticated:
            self._unauthenticated.remove(connection)
            self._log_unauthenticated(connection)
        with self._lock:
            self._producers.discard(connection)

    def _log_unauthenticated(self, connection: ProducerConnection) -> None:
        """Logs the failure of a connection. Many failures make one line, so that outsiders cannot fill the log."""
        failure = connection.failure
        if self._is_closed or failure is None:
            return
        others = self._unauthenticated.next_report(self._loop.now_ms)
        if others is None:
            return
        _log.warning("%s%s", failure, f"; {others} more such failures since the last line" if others else "")

    def _close_listener(self, listener: socket.socket) -> None:
        self._loop.unregister(listener.fileno())
        listener.close()


def _resolve(address: str) -> tuple[int, Any]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise PartitionConnectionError(f"{address!r} is not a data address (host:port)")
    try:
        family, _, _, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise PartitionConnectionError(f"cannot resolve the data address {address}: {error}") from error
    return family, target


def _configure(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError):  # not every platform's kernel has all of these
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, _RESEND_PAUSE_MS)
