"""ProducerConnection: the producer's side of a data connection. It serves the requests of one consumer process.

Source: org.apache.flink.runtime.io.network.netty.{PartitionRequestServerHandler, PartitionRequestQueue}.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import (
    BrokenError,
    ExternalError,
    PartitionAuthenticationError,
    PartitionConnectionError,
    PartitionCorruptedError,
)
from flinkpy.network.blocking.range_reader import SubpartitionRangeReader
from flinkpy.network.credit import SenderCredit
from flinkpy.network.partition_manager import PartitionRequest, ResultPartitionManager
from flinkpy.network.transport import frames, greeting
from flinkpy.network.transport.authenticator import DataPlaneAuthenticator, Introductions, PeerRole
from flinkpy.network.transport.framed_connection import FramedConnection
from flinkpy.network.transport.io_loop import READ, IoLoop
from flinkpy.network.transport.socket_transport import TlsTransports
from flinkpy.network.transport.subpartition_sender import StoredSubpartitionSender, SubpartitionSender

if TYPE_CHECKING:
    from flinkpy.network.result_partition import ResultPartition


# The maximum number of channels to one consumer's process: thousands of subtasks that read from thousands.
_MAX_CHANNELS = 1 << 20
# The maximum credit of a channel, far more than a consumer can grant.
_MAX_CREDITS = 1 << 20


class ProducerConnection(FramedConnection):
    """A connection of a consumer's process, with one sender for each of its channels.

    Thread: frames on the I/O thread; partitions appear and fail on any.
    """

    def __init__(
        self,
        loop: IoLoop,
        sock: socket.socket,
        peer_host: str,
        *,
        manager: ResultPartitionManager,
        authenticator: DataPlaneAuthenticator,
        segment_size_bytes: int,
        request_timeout_ms: int,
        handshake_timeout_ms: int,
        on_closed: Callable[[ProducerConnection], None],
        on_authenticated: Callable[[ProducerConnection], None],
        resource_id: str = "",
        address: str = "",
        tls: TlsTransports | None = None,
    ) -> None:
        super().__init__(loop, sock, peer_host, tls)
        self._resource_id = resource_id[: frames.MAX_NAME_BYTES // 4]
        #: The data address of this process, "" if it is not known.
        self._address = address
        self._on_authenticated = on_authenticated
        self._manager = manager
        self._authenticator = authenticator
        self._segment_size_bytes = segment_size_bytes
        self._request_timeout_ms = request_timeout_ms
        self._on_closed = on_closed
        self._peer_host = peer_host
        #: The introductions of both sides, known once HELLO is answered.
        self._introductions: Introductions | None = None
        self._is_authenticated = False
        self._senders: dict[int, SubpartitionSender] = {}
        self._requests: dict[int, PartitionRequest] = {}
        #: The credit of every channel since its request. Credit that is granted before the partition appears must be
        #: kept, since the consumer relies on it.
        self._credits: dict[int, SenderCredit] = {}
        self._handshake_timer = loop.call_later(handshake_timeout_ms, self._on_handshake_timeout)

    def start(self) -> None:
        """Starts to serve the accepted socket. Thread: I/O."""
        transport = None
        if self._tls is not None:
            try:
                self._socket, transport = self._tls.of_producer(self._socket)
            except (OSError, ValueError) as error:  # the peer has gone already
                self.fail(PartitionConnectionError(f"the data connection to {self.peer} broke: {error}"))
                return
        self.register(READ)
        if transport is None:
            self._is_blocked = False
        else:
            self.begin_handshake(transport)

    def on_established(self) -> None:
        return  # the consumer speaks first

    @property
    def is_authenticated(self) -> bool:
        return self._is_authenticated

    def producer_failed(self, channel_id: int, cause: Exception) -> None:
        """Reports to the consumer that the partition of this channel was released. Thread: any."""
        self._credits.pop(channel_id, None)
        if self._senders.pop(channel_id, None) is not None:
            is_corrupted = isinstance(cause, PartitionCorruptedError)
            code = frames.PARTITION_CORRUPTED if is_corrupted else frames.PRODUCER_FAILED
            self._send_error(channel_id, code, str(cause))

    def on_frame(self, kind: int, flags: int, channel: int, a: int, b: int, c: int, d: int, e: int, body: Any) -> None:
        if not self._is_authenticated:
            self._on_greeting(kind, a, b, c, d, b"" if body is None else bytes(body))
        elif kind == frames.CREDIT:
            self._on_credit(channel, a, b, bool(flags & frames.FINAL))
        elif kind == frames.PARTITION_REQUEST:
            timeout_ms = 0 if flags & frames.IS_FINISHED else self._request_timeout_ms
            self._on_partition_request(channel, a, e or 1, b, c, _partition_id(body, d), timeout_ms)
        elif kind == frames.CLOSE:
            self._on_close(channel)
        elif kind == frames.RECLAIM:
            self._on_reclaim(channel, a)
        else:
            self.fail(PartitionConnectionError(f"{self.peer} sent a frame of type {kind}, which is not allowed"))

    def on_failed(self, error: ExternalError) -> None:
        self._handshake_timer.cancel()
        for request in list(self._requests.values()):
            request.cancel()
        self._requests.clear()
        self._credits.clear()
        senders = list(self._senders.values())
        self._senders.clear()
        for sender in senders:
            sender.close()
        self._on_closed(self)

    def _on_greeting(self, kind: int, a: int, b: int, c: int, d: int, body: bytes) -> None:
        if kind == frames.HELLO and self._introductions is None:
            self._on_hello(greeting.Hello.of_frame(a, b, c, d, body))
        elif kind == frames.PROOF and self._introductions is not None:
            self._on_proof(self._introductions, greeting.proof_of_frame(b, body))
        else:
            raise BrokenError(f"a frame of type {kind} arrived instead of a greeting")

    def _on_hello(self, hello: greeting.Hello) -> None:
        version = hello.version()
        if version is None:
            supported = f"{frames.OLDEST_PROTOCOL_VERSION} to {frames.PROTOCOL_VERSION}"
            self._refuse(f"data plane protocol {hello.oldest} to {hello.newest} is not supported, only {supported}")
            return
        if self._address and hello.address != self._address:
            self._refuse(f"the address {hello.address} was requested, but the producer has the address {self._address}")
            return
        nonce = secrets.token_bytes(frames.NONCE_BYTES)
        self._introductions = introductions = greeting.introductions(hello, version, self._resource_id, nonce)
        proof = self._authenticator.proof(introductions, PeerRole.PRODUCER)
        challenge = greeting.Challenge(version, nonce, proof, self._resource_id, self._segment_size_bytes)
        self.send(challenge.to_frame())

    def _on_proof(self, introductions: Introductions, proof: bytes) -> None:
        if not self._authenticator.accepts(self._peer_host, introductions, PeerRole.CONSUMER, proof):
            self._refuse(
                f"{self._peer_host} was not authenticated for the data plane: it did not prove that it knows this "
                f"cluster's secret (security.secret-file)"
            )
            return
        self._handshake_timer.cancel()
        if introductions.consumer_id:
            self.peer = f"{introductions.consumer_id} at {self._peer_host}"
        self._is_authenticated = True
        self.allow_large_frames(frames.MAX_SMALL_BODY_BYTES)
        self._on_authenticated(self)

    def answer_in_plaintext(self) -> None:
        reason = b"it uses TLS, but this process does not (security.ssl.internal.enabled)"
        frame = frames.frame(frames.ERROR, 0, frames.REFUSED, len(reason), body=reason)
        with contextlib.suppress(OSError):  # the peer has gone
            socket.socket.send(self._socket, frame)

    def refuse(self, error: PartitionAuthenticationError) -> None:
        self._send_error(0, frames.REFUSED, str(error))
        self.fail(error)

    def _refuse(self, reason: str) -> None:
        self._send_error(0, frames.REFUSED, reason)
        self.fail(PartitionAuthenticationError(f"refused the data connection of {self.peer}: {reason}"))

    def _on_handshake_timeout(self) -> None:
        if not self._is_authenticated:
            self.fail(PartitionAuthenticationError(f"{self.peer} connected and did not authenticate itself"))

    def _on_partition_request(
        self, channel_id: int, first: int, count: int, credits: int, window: int, partition_id: str, timeout_ms: int
    ) -> None:
        if channel_id in self._credits or len(self._credits) >= _MAX_CHANNELS:
            raise BrokenError(f"channel {channel_id} is already open, or too many are: {len(self._credits)}")
        _check_credit(credits)
        credit = self._credits[channel_id] = SenderCredit(credits, window)

        def on_partition(partition: ResultPartition) -> None:
            self._requests.pop(channel_id, None)
            self._attach(channel_id, partition, first, count, credit)

        def on_timeout() -> None:
            self._requests.pop(channel_id, None)
            self._credits.pop(channel_id, None)
            self._send_error(channel_id, frames.PARTITION_NOT_FOUND, partition_id)

        request = self._manager.request(partition_id, on_partition, on_timeout, timeout_ms)
        if not request.is_done:
            self._requests[channel_id] = request

    def _attach(
        self, channel_id: int, partition: ResultPartition, first: int, count: int, credit: SenderCredit
    ) -> None:
        if self.is_broken:
            return
        subpartition = partition.open_subpartitions(first, count)
        if subpartition is None:
            self._send_error(channel_id, frames.PARTITION_NOT_FOUND, f"no subpartitions {first} to {first + count - 1}")
            return
        is_stored = isinstance(subpartition, SubpartitionRangeReader)
        sender_class = StoredSubpartitionSender if is_stored else SubpartitionSender
        sender = sender_class(self, channel_id, subpartition, credit, self._segment_size_bytes)
        self._senders[channel_id] = sender
        if not subpartition.attach(sender):
            self._senders.pop(channel_id, None)
            self._send_error(channel_id, frames.ALREADY_CONSUMED, partition.partition_id)
        elif self.is_broken and self._senders.pop(channel_id, None) is not None:
            sender.close()  # the connection failed before it knew this sender

    def _on_credit(self, channel_id: int, credits: int, window: int, is_final: bool) -> None:
        credit = self._credits.get(channel_id)
        if credit is None:
            return  # the channel was closed meanwhile
        _check_credit(credit.available + credits)
        sender = self._senders.get(channel_id)
        if sender is not None:
            sender.grant(credits, window, is_final)
        else:  # the partition does not exist yet
            credit.grant(credits, window, is_final)

    def _on_close(self, channel_id: int) -> None:
        self._credits.pop(channel_id, None)
        request = self._requests.pop(channel_id, None)
        if request is not None:
            request.cancel()
        sender = self._senders.pop(channel_id, None)
        if sender is not None:
            sender.close()

    def _on_reclaim(self, channel_id: int, keep: int) -> None:
        with self._write_lock:
            sender, credit = self._senders.get(channel_id), self._credits.get(channel_id)
            if sender is not None:
                credits = sender.reclaim(keep)
            else:
                credits = 0 if credit is None else credit.give_back(keep)
            if credits:
                # Queued under the lock: a later BACKLOG, which does not count these credits, must not be sent first.
                # Otherwise the consumer assumes that the sender has enough credit.
                self._control.append(frames.frame(frames.RETURNED, channel_id, credits))
        self.flush()  # a thread that found the lock taken relies on its holder

    def _send_error(self, channel_id: int, code: int, message: str) -> None:
        body = message.encode()[:2048]
        self.send(frames.frame(frames.ERROR, channel_id, code, len(body), body=body))


def _check_credit(credits: int) -> None:
    if credits > _MAX_CREDITS:
        raise BrokenError(f"a credit of {credits} segments exceeds the maximum of {_MAX_CREDITS}")


def _partition_id(body: Any, size: int) -> str:
    try:
        return "" if body is None else bytes(body)[:size].decode()
    except UnicodeDecodeError as error:
        raise BrokenError(f"a partition id is not valid UTF-8: {error}") from error
