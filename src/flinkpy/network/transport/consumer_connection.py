"""ConsumerConnection: the consumer's side of a data connection: all channels of this process to one producer process.

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

from flinkpy.common.errors import BrokenError, ExternalError, PartitionConnectionError
from flinkpy.network.codec import PRIORITY_BARRIER, decode_element, decode_schema
from flinkpy.network.credit import Grant
from flinkpy.network.remote_input_channel import RemoteInputChannel
from flinkpy.network.transport import frames
from flinkpy.network.transport.authenticator import DataPlaneAuthenticator
from flinkpy.network.transport.framed_connection import FramedConnection
from flinkpy.network.transport.io_loop import BROKEN, READ, WRITE, IoLoop


class ConsumerConnection(FramedConnection):
    """Thread: requests, credits and closing from any; frames on the I/O thread."""

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
    ) -> None:
        super().__init__(loop, sock, address)
        self.address = address
        self._resource_id = resource_id
        self._authenticator = authenticator
        self._on_closed = on_closed
        self._on_unused = on_unused
        self._nonce = secrets.token_bytes(frames.NONCE_BYTES)
        self._is_connected = False
        self._is_authenticated = False
        self._channels: dict[int, RemoteInputChannel] = {}
        self._channel_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._until_authenticated: list[bytes] | None = []
        self._timer = loop.call_later(connect_timeout_ms, self._on_timeout)

    def connect(self, target: Any) -> None:
        """Begin to connect to the socket address `target`. Thread: I/O."""
        error = self._socket.connect_ex(target)
        if error not in (0, errno.EINPROGRESS):
            self.fail(PartitionConnectionError(f"cannot connect to {self.address}: {os.strerror(error)}"))
            return
        self.register(READ | WRITE)

    @property
    def num_channels(self) -> int:
        return len(self._channels)

    # ------------------------------------------------------------ what channels ask for. Thread: any

    def request_partition(self, channel: RemoteInputChannel, subpartition_index: int, initial: Grant) -> int:
        """Ask for a subpartition; returns the channel id on this connection.

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
        """The channel has everything, or is no longer interested."""
        with self._lock:
            known = self._channels.pop(channel_id, None) is not None
            unused = not self._channels
        if known and self._failure is None:
            self._send_authenticated(frames.frame(frames.CLOSE, channel_id))
            if unused:
                self._on_unused(self)

    def _send_authenticated(self, frame: bytes) -> None:
        """Send now, or when the greeting is over."""
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
        super().on_events(events)

    def on_frame(self, kind: int, flags: int, channel: int, a: int, b: int, c: int, d: int, e: int, body: Any) -> None:
        if kind == frames.DATA and self._is_authenticated:
            target = self._channels.get(channel)
            if target is not None:
                target.on_data(bool(flags & frames.PICKLED), bool(flags & frames.MORE), body, a, b, c, d, e)
            return
        small = b"" if body is None else bytes(body)
        if kind == frames.ERROR:
            self._on_error(channel, a, small[:b].decode(errors="replace"))
        elif not self._is_authenticated:
            self._on_handshake(kind, a, b, small)
        else:
            self._on_control(kind, flags, channel, a, b, small)

    def _on_control(self, kind: int, flags: int, channel_id: int, a: int, b: int, body: bytes) -> None:
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
            channel.on_schema(decode_schema(body[:a]))
        elif kind == frames.BACKLOG:
            channel.on_backlog(a, b)
        elif kind == frames.RETURNED:
            channel.on_returned(a)
        else:
            raise BrokenError(f"a frame of type {kind}, which only consumers send")

    def _on_handshake(self, kind: int, version: int, token_bytes: int, body: bytes) -> None:
        if kind == frames.GREETING and len(body) == frames.NONCE_BYTES:
            if version != frames.PROTOCOL_VERSION:
                self.fail(PartitionConnectionError(f"{self.address} speaks data plane protocol {version}"))
                return
            token = self._authenticator.token(body, is_consumer=True)
            hello = self._nonce + token + self._resource_id.encode()[:512]
            self.send(frames.frame(frames.HELLO, a=frames.PROTOCOL_VERSION, b=len(token), body=hello))
        elif kind == frames.HELLO_ACK:
            peer_host = self._socket.getpeername()[0]
            if not self._authenticator.accepts(peer_host, self._nonce, body[:token_bytes], is_consumer=False):
                self.fail(PartitionConnectionError(f"{self.address} was not authenticated for the data plane"))
                return
            self._on_authenticated()
        else:
            raise BrokenError(f"a frame of type {kind} before the greeting")

    def _on_authenticated(self) -> None:
        self._timer.cancel()
        self._is_authenticated = True
        self.allow_large_frames()
        with self._lock:
            for frame in self._until_authenticated or ():
                self._control.append(frame)
            self._until_authenticated = None
        self.flush()

    def _on_error(self, channel_id: int, code: int, message: str) -> None:
        if code == frames.REFUSED:
            self.fail(PartitionConnectionError(f"{self.address} refused the data connection: {message}"))
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
            self.fail(PartitionConnectionError(f"no answer from the data address {self.address}"))

    def on_failed(self, error: ExternalError) -> None:
        self._timer.cancel()
        self._on_closed(self)
        with self._lock:
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.on_connection_failed(error)
