"""ConsumerConnection: the consumer's side of a data connection, with all channels to one producer process.

Source: org.apache.flink.runtime.io.network.netty.{NettyPartitionRequestClient,
CreditBasedPartitionRequestClientHandler}.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import BrokenError, ExternalError, PartitionAuthenticationError, PartitionConnectionError
from flinkpy.network.codec import PRIORITY_BARRIER, decode_element
from flinkpy.network.credit import MAX_WINDOW_SEGMENTS, Grant, most_bytes
from flinkpy.network.options import KIB
from flinkpy.network.received import receive_schema
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.network.transport import frames, greeting
from flinkpy.network.transport.authenticator import DataPlaneAuthenticator, PeerRole
from flinkpy.network.transport.framed_connection import FramedConnection
from flinkpy.network.transport.io_loop import BROKEN, READ, WRITE, IoLoop
from flinkpy.network.transport.socket_transport import TlsTransports

# The maximum number of characters of a name in a greeting. A character has at most four bytes.
_MAX_NAME = frames.MAX_NAME_BYTES // 4


class ConsumerConnection(FramedConnection):
    """A connection to a producer's process, which all channels to that process share.

    Thread: requests, credits and closing from any; frames on the I/O thread.
    """

    def __init__(
        self,
        loop: IoLoop,
        sock: socket.socket,
        address: str,
        *,
        resource_id: str,
        authenticator: DataPlaneAuthenticator,
        connect_timeout_ms: int,
        on_closed: Callable[[ConsumerConnection], None],
        on_unused: Callable[[ConsumerConnection], None],
        tls: TlsTransports | None = None,
        segment_size_bytes: int = 32 * KIB,
    ) -> None:
        super().__init__(loop, sock, address, tls)
        self.address = address
        self.verifies_membership = authenticator.verifies_membership
        #: The producer's segment size, in which its buffers cost credits; this process's size until the producer has
        #: sent its own.
        self._segment_size_bytes = segment_size_bytes
        self._authenticator = authenticator
        self._on_closed = on_closed
        self._on_unused = on_unused
        self._hello = greeting.Hello(
            newest=frames.PROTOCOL_VERSION,
            oldest=frames.OLDEST_PROTOCOL_VERSION,
            nonce=secrets.token_bytes(frames.NONCE_BYTES),
            consumer_id=resource_id[:_MAX_NAME],
            address=address[: frames.MAX_NAME_BYTES],
        )
        self._is_connected = False
        self._is_authenticated = False
        self._channels: dict[int, RemoteInputChannel] = {}
        self._channel_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._until_authenticated: list[bytes] | None = []
        self._timer = loop.call_later(connect_timeout_ms, self._on_timeout)

    def connect(self, target: Any) -> None:
        """Starts to connect to the socket address `target`. Thread: I/O."""
        error = self._socket.connect_ex(target)
        if error not in (0, errno.EINPROGRESS):
            self.fail(PartitionConnectionError(f"cannot connect to {self.address}: {os.strerror(error)}"))
            return
        self.register(READ | WRITE)

    @property
    def num_channels(self) -> int:
        return len(self._channels)

    # ------------------------------------------------------------ requests of channels. Thread: any

    def request_partition(self, channel: RemoteInputChannel, subpartition_index: int, initial: Grant) -> int:
        """Requests a subpartition. Returns the id of the channel on this connection.

        Raises:
            PartitionConnectionError: the connection broke.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            channel_id = next(self._channel_ids)
            self._channels[channel_id] = channel
        body = channel.partition_id.encode()
        self._send_authenticated(
            frames.frame(
                frames.PARTITION_REQUEST,
                channel_id,
                subpartition_index,
                initial.credits,
                initial.window,
                d=len(body),
                e=channel.num_subpartitions,
                flags=frames.IS_FINISHED if channel.is_blocking else 0,
                body=body,
            )
        )
        return channel_id

    def send_grant(self, channel_id: int, grant: Grant) -> None:
        flags = frames.FINAL if grant.is_final else 0
        self._send_authenticated(frames.frame(frames.CREDIT, channel_id, grant.credits, grant.window, flags=flags))

    def send_reclaim(self, channel_id: int, keep: int) -> None:
        self._send_authenticated(frames.frame(frames.RECLAIM, channel_id, keep))

    def close_channel(self, channel_id: int) -> None:
        """Closes a channel that has all data or is not needed any more."""
        with self._lock:
            known = self._channels.pop(channel_id, None) is not None
            unused = not self._channels
        if known and self._failure is None:
            self._send_authenticated(frames.frame(frames.CLOSE, channel_id))
            if unused:
                self._on_unused(self)

    def _send_authenticated(self, frame: bytes) -> None:
        """Sends the frame now, or after the greeting."""
        with self._lock:
            if self._until_authenticated is not None:
                self._until_authenticated.append(frame)
                return
        self.send(frame)

    # ------------------------------------------------------------ I/O thread

    def on_events(self, events: int) -> None:
        if not self._is_connected and self._failure is None and events & (WRITE | BROKEN):
            error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                self.fail(PartitionConnectionError(f"cannot connect to {self.address}: {os.strerror(error)}"))
                return
            self._is_connected = True
            if self._tls is not None:
                self._begin_tls(self._tls)
                return
            self.on_established()
        super().on_events(events)

    def _begin_tls(self, tls: TlsTransports) -> None:
        try:
            self._socket, transport = tls.of_consumer(self._socket)
        except (OSError, ValueError) as error:  # the connection broke meanwhile
            self.fail(self._broken(error))
            return
        self.begin_handshake(transport)

    def on_established(self) -> None:
        self._control.append(self._hello.to_frame())  # sent when the socket accepts data

    def on_frame(self, kind: int, flags: int, channel: int, a: int, b: int, c: int, d: int, e: int, body: Any) -> None:
        if kind == frames.DATA and self._is_authenticated:
            if body is None or len(body) > most_bytes(e, self._segment_size_bytes):
                raise BrokenError(f"a DATA frame that costs {e} segments has a wrong size")
            target = self._channels.get(channel)
            if target is not None:
                target.on_data(bool(flags & frames.PICKLED), bool(flags & frames.MORE), body, a, b, c, d, e)
            return
        small = b"" if body is None else _small(kind, body)
        if kind == frames.ERROR:
            self._on_error(channel, a, small[:b].decode(errors="replace"))
        elif not self._is_authenticated:
            self._on_challenge(kind, a, b, c, d, small)
        else:
            self._on_control(kind, flags, channel, a, b, small)

    def may_send_long(self, kind: int, channel: int, body_bytes: int, e: int) -> bool:
        if kind != frames.DATA:
            return body_bytes <= _LIMITS.get(kind, 0)
        target = self._channels.get(channel)
        # The channel may have been closed while the frame was on its way.
        has_credit = e <= MAX_WINDOW_SEGMENTS if target is None else target.has_credit(e)
        return has_credit and body_bytes <= most_bytes(e, self._segment_size_bytes)

    def _on_control(self, kind: int, flags: int, channel_id: int, a: int, b: int, body: bytes) -> None:
        if kind not in _FROM_PRODUCERS:
            raise BrokenError(f"a producer must not send a frame of type {kind}")
        channel = self._channels.get(channel_id)
        if channel is None:
            return  # closed while this was on its way
        if kind == frames.ELEMENT:
            element = decode_element(flags, body[:a])
            if flags == PRIORITY_BARRIER:
                channel.on_priority(element)
            else:
                channel.on_element(element)
        elif kind == frames.SCHEMA:
            channel.on_schema(receive_schema(body[:a]))
        elif kind == frames.BACKLOG:
            channel.on_backlog(a, b)
        else:
            channel.on_returned(a)

    def _on_challenge(
        self, kind: int, version: int, proof_bytes: int, name_bytes: int, segment: int, body: bytes
    ) -> None:
        if kind == frames.GREETING_OF_VERSION_1:
            self.fail(PartitionConnectionError(f"{self.address} uses the old data plane protocol {version}"))
            return
        if kind != frames.CHALLENGE:
            raise BrokenError(f"a frame of type {kind} arrived before the greeting")
        challenge = greeting.Challenge.of_frame(version, proof_bytes, name_bytes, segment, body)
        if not frames.OLDEST_PROTOCOL_VERSION <= version <= frames.PROTOCOL_VERSION:
            self.fail(
                PartitionConnectionError(
                    f"{self.address} uses data plane protocol {version}, which this process does not support"
                )
            )
            return
        introductions = greeting.introductions(self._hello, version, challenge.producer_id, challenge.nonce)
        if not self._authenticator.accepts(self._peer_host(), introductions, PeerRole.PRODUCER, challenge.proof):
            self.fail(
                PartitionAuthenticationError(
                    f"{self.address} was not authenticated for the data plane: it did not prove that it knows this "
                    f"cluster's secret (security.secret-file)"
                )
            )
            return
        ours, theirs = self._segment_size_bytes, challenge.segment_size_bytes
        if theirs > _LARGEST_SEGMENT_RATIO * ours:
            self.fail(
                PartitionConnectionError(
                    f"{self.address} has network buffers of {theirs} bytes, but this process has {ours} "
                    f"(taskmanager.memory.segment-size)"
                )
            )
            return
        self._segment_size_bytes = max(ours, theirs)
        self._timer.cancel()
        self._is_authenticated = True
        self.allow_large_frames(frames.MAX_BODY_BYTES)
        with self._lock:
            self._control.append(greeting.proof_frame(self._authenticator.proof(introductions, PeerRole.CONSUMER)))
            self._control.extend(self._until_authenticated or ())
            self._until_authenticated = None
        self.flush()

    def _peer_host(self) -> str:
        try:
            return str(self._socket.getpeername()[0])
        except (OSError, IndexError):
            return ""  # the peer has gone

    def _on_error(self, channel_id: int, code: int, message: str) -> None:
        if code == frames.REFUSED:
            self.fail(PartitionAuthenticationError(f"{self.address} refused the data connection: {message}"))
            return
        channel = self._channels.get(channel_id)
        if channel is None:
            return
        with self._lock:
            self._channels.pop(channel_id, None)
        if code == frames.PARTITION_NOT_FOUND:
            channel.on_partition_not_found()
        elif code == frames.ALREADY_CONSUMED:
            channel.on_already_consumed()
        elif code == frames.PARTITION_CORRUPTED:
            channel.on_partition_corrupted(message)
        else:
            channel.on_producer_failed(message)

    def _on_timeout(self) -> None:
        if not self._is_authenticated:
            what = "no TLS handshake" if self._handshake is not None else "no answer"
            self.fail(PartitionConnectionError(f"{what} from the data address {self.address}"))

    def on_failed(self, error: ExternalError) -> None:
        self._timer.cancel()
        self._on_closed(self)
        with self._lock:
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.on_connection_failed(error)


# The maximum ratio of a producer's segment size to that of this process.
_LARGEST_SEGMENT_RATIO = 32

#: The frames that producers send, besides DATA and ERROR.
_FROM_PRODUCERS = (frames.ELEMENT, frames.SCHEMA, frames.BACKLOG, frames.RETURNED)

#: The maximum body of frames that are not DATA. For types that are not listed it is that of a greeting.
_LIMITS = {frames.SCHEMA: frames.MAX_SCHEMA_BYTES, frames.ELEMENT: frames.MAX_ELEMENT_BYTES}


def _small(kind: int, body: Any) -> bytes:
    if len(body) > _LIMITS.get(kind, frames.MAX_SMALL_BODY_BYTES):
        raise BrokenError(f"a frame of type {kind} has {len(body)} bytes, which is too long")
    return bytes(body)
