"""ProducerConnection: the producer's side of a data connection; it serves the requests of one consumer process.

Source: org.apache.flink.runtime.io.network.netty.{PartitionRequestServerHandler, PartitionRequestQueue}.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ExternalError, PartitionConnectionError, PartitionCorruptedError
from flinkpy.network.blocking.range_reader import SubpartitionRangeReader
from flinkpy.network.credit import SenderCredit
from flinkpy.network.partition_manager import PartitionRequest, ResultPartitionManager
from flinkpy.network.transport import frames
from flinkpy.network.transport.authenticator import DataPlaneAuthenticator
from flinkpy.network.transport.framed_connection import FramedConnection
from flinkpy.network.transport.io_loop import READ, IoLoop
from flinkpy.network.transport.stored_subpartition_sender import StoredSubpartitionSender
from flinkpy.network.transport.subpartition_sender import SubpartitionSender

if TYPE_CHECKING:
    from flinkpy.network.result_partition import ResultPartition


class ProducerConnection(FramedConnection):
    """Thread: frames on the I/O thread; partitions appear and fail on any."""

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
    ) -> None:
        super().__init__(loop, sock, peer_host)
        self._manager = manager
        self._authenticator = authenticator
        self._segment_size_bytes = segment_size_bytes
        self._request_timeout_ms = request_timeout_ms
        self._on_closed = on_closed
        self._peer_host = peer_host
        self._nonce = secrets.token_bytes(frames.NONCE_BYTES)
        self._is_authenticated = False
        self._senders: dict[int, SubpartitionSender] = {}
        self._requests: dict[int, PartitionRequest] = {}
        #: Of every channel, from its request on: what is granted before the partition appears must not be lost,
        #: since the consumer counts on it.
        self._credits: dict[int, SenderCredit] = {}
        self._handshake_timer = loop.call_later(handshake_timeout_ms, self._on_handshake_timeout)

    def start(self) -> None:
        """Thread: I/O."""
        self.register(READ)
        self._is_blocked = False
        self.send(frames.frame(frames.GREETING, a=frames.PROTOCOL_VERSION, body=self._nonce))

    def producer_failed(self, channel_id: int, cause: Exception) -> None:
        """The partition of this channel was released under its consumer. Thread: any."""
        self._credits.pop(channel_id, None)
        if self._senders.pop(channel_id, None) is not None:
            is_corrupted = isinstance(cause, PartitionCorruptedError)
            code = frames.PARTITION_CORRUPTED if is_corrupted else frames.PRODUCER_FAILED
            self._send_error(channel_id, code, str(cause))

    def on_frame(self, kind: int, flags: int, channel: int, a: int, b: int, c: int, d: int, e: int, body: Any) -> None:
        if not self._is_authenticated:
            self._on_hello(kind, a, b, body)
        elif kind == frames.CREDIT:
            self._on_credit(channel, a, b, bool(flags & frames.FINAL))
        elif kind == frames.PARTITION_REQUEST:
            timeout_ms = 0 if flags & frames.IS_FINISHED else self._request_timeout_ms
            self._on_partition_request(channel, a, e or 1, b, c, bytes(body)[:d].decode(), timeout_ms)
        elif kind == frames.CLOSE:
            self._on_close(channel)
        elif kind == frames.RECLAIM:
            self._on_reclaim(channel, a)
        else:
            self.fail(PartitionConnectionError(f"{self.peer} sent a frame of type {kind}, which only producers send"))

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

    def _on_hello(self, kind: int, version: int, token_bytes: int, body: Any) -> None:
        data = bytes(body or b"")
        if kind != frames.HELLO or len(data) < frames.NONCE_BYTES + token_bytes:
            self.fail(PartitionConnectionError(f"{self.peer} did not begin with a greeting"))
            return
        if version != frames.PROTOCOL_VERSION:
            self._refuse(f"data plane protocol {version} where {frames.PROTOCOL_VERSION} is spoken")
            return
        nonce = data[: frames.NONCE_BYTES]
        token = data[frames.NONCE_BYTES : frames.NONCE_BYTES + token_bytes]
        if not self._authenticator.accepts(self._peer_host, self._nonce, token, is_consumer=True):
            self._refuse(f"{self._peer_host} was not authenticated for the data plane")
            return
        self._handshake_timer.cancel()
        self._is_authenticated = True
        self.allow_large_frames()
        answer = self._authenticator.token(nonce, is_consumer=False)
        self.send(frames.frame(frames.HELLO_ACK, a=frames.PROTOCOL_VERSION, b=len(answer), body=answer))

    def _refuse(self, reason: str) -> None:
        self._send_error(0, frames.REFUSED, reason)
        self.fail(PartitionConnectionError(f"refused the data connection of {self.peer}: {reason}"))

    def _on_handshake_timeout(self) -> None:
        if not self._is_authenticated:
            self.fail(PartitionConnectionError(f"{self.peer} connected and did not say who it is"))

    def _on_partition_request(
        self, channel_id: int, first: int, count: int, credits: int, window: int, partition_id: str, timeout_ms: int
    ) -> None:
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
            sender.close()  # it broke meanwhile, and did not see this sender

    def _on_credit(self, channel_id: int, credits: int, window: int, is_final: bool) -> None:
        sender = self._senders.get(channel_id)
        if sender is not None:
            sender.grant(credits, window, is_final)
            return
        credit = self._credits.get(channel_id)
        if credit is not None:  # the partition is not here yet
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
                # Queued under the lock: a BACKLOG that does without these credits must not overtake it, or the consumer
                # takes the sender to have enough.
                self._control.append(frames.frame(frames.RETURNED, channel_id, credits))
        self.flush()  # whoever had something to send meanwhile found the lock taken, and relies on its holder

    def _send_error(self, channel_id: int, code: int, message: str) -> None:
        body = message.encode()[:2048]
        self.send(frames.frame(frames.ERROR, channel_id, code, len(body), body=body))
