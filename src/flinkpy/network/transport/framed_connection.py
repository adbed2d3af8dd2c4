"""FramedConnection: a socket that sends and receives frames without blocking a thread.

Sending: control frames go first. Then the sources (channels with data and credit) take turns with one frame each, so a
source creates its next frame only when the socket can take it. A thread that has something to send tries to become the
writer. If another thread is writing already, that thread also sends the new data. The I/O thread sends what the socket
does not take immediately.

Receiving: one system call reads as much as there is, directly into Arrow memory. Frames are slices of it, not copies,
and keep the buffer alive.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections import deque
from typing import Any, Protocol

import pyarrow as pa

from flinkpy.common.errors import BrokenError, ExternalError, PartitionAuthenticationError, PartitionConnectionError
from flinkpy.network.subpartition import BufferedBatch, recycle_all
from flinkpy.network.transport import frames
from flinkpy.network.transport.io_loop import BROKEN, READ, WRITE, IoLoop
from flinkpy.network.transport.socket_transport import (
    PlainTransport,
    SocketTransport,
    TlsTransport,
    TlsTransports,
    is_plaintext,
    tls_problem,
)

_log = logging.getLogger(__name__)

# The maximum size of one receive call, unless a larger frame is expected. It limits the memory that a small batch keeps
# alive. It holds some ten batches of a thousand rows, so they share the cost of the call.
_RECEIVE_BYTES = 1 << 18
# The next receive call uses another buffer if the current one has less room than this.
_MIN_ROOM_BYTES = 1 << 14
# Room for control frames between data frames of one size, in a buffer made for one data frame. Without it, a control
# frame would push the end of the next data frame out of the buffer, and all of that frame would be moved.
_CONTROL_ROOM_BYTES = 1 << 10
# The bytes to gather before a send call: enough to make the cost of the call small, and little enough to stay in the L2
# cache.
_SEND_BYTES = 1 << 18
# The maximum number of bytes that a thread sends before the I/O thread takes over. A task that happens to be the writer
# must not send for others for ever.
_SEND_BUDGET_BYTES = 1 << 23
# The maximum number of bytes to receive before other connections get their turn.
_RECEIVE_BUDGET_BYTES = 1 << 23
# The buffer size for an unauthenticated peer: many peers may connect and send nothing.
_GREETING_BYTES = 1 << 13
# The maximum memory allocated because a header announces a frame. A longer frame gets memory as its data arrives, or if
# the previous frame was as long. A header of a few bytes must not cost much more than those bytes.
_UNPROVEN_BYTES = 1 << 22


class FrameSource(Protocol):
    """A source of frames under flow control."""

    is_queued: bool

    def next_frames(self, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        """Appends the parts of the next frame to `parts`, and the buffer to recycle when it is sent to `on_sent`.

        Returns: the number of bytes.
        """
        ...

    @property
    def is_ready(self) -> bool:
        """True if `next_frames` would add a frame."""
        ...


class FramedConnection:
    """Base class of data connections. Thread: sending from any thread; receiving on the I/O thread."""

    def __init__(self, loop: IoLoop, sock: socket.socket, peer: str, tls: TlsTransports | None = None) -> None:
        self.peer = peer
        self._loop = loop
        self._socket = sock
        self._transport: SocketTransport = PlainTransport(sock)
        self._tls = tls
        #: The transport while a TLS handshake is in progress.
        self._handshake: TlsTransport | None = None
        self._fd = sock.fileno()
        self._is_registered = False
        self._failure: ExternalError | None = None
        self._fail_lock = threading.Lock()
        # sending
        self._write_lock = threading.Lock()
        self._control: deque[bytes] = deque()
        self._sources: deque[FrameSource] = deque()
        self._parts: list[Any] = []
        self._on_sent: list[BufferedBatch] = []
        self._is_blocked = True  # until connected and registered
        # receiving
        self._max_body_bytes = frames.MAX_SMALL_BODY_BYTES
        self._receive_bytes = _GREETING_BYTES
        self._buffer = pa.allocate_buffer(_GREETING_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        #: The size of the last DATA frame, which the next one probably has too; 0 before the first frame.
        self._expected_bytes = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    @property
    def is_broken(self) -> bool:
        return self._failure is not None

    @property
    def failure(self) -> ExternalError | None:
        return self._failure

    # ------------------------------------------------------------ what subclasses implement

    def on_frame(self, kind: int, flags: int, channel: int, a: int, b: int, c: int, d: int, e: int, body: Any) -> None:
        """Handles a received frame; `body` is a pa.Buffer with the padded body. Thread: I/O."""
        raise NotImplementedError

    def on_failed(self, error: ExternalError) -> None:
        """Handles the failure of the connection. Called once. Thread: any."""
        raise NotImplementedError

    def may_send_long(self, kind: int, channel: int, body_bytes: int, e: int) -> bool:
        """True if a frame of some megabytes, whose header was received, is expected. Thread: I/O."""
        return True

    def refuse(self, error: PartitionAuthenticationError) -> None:
        """Fails the connection, and tells the peer the reason if possible."""
        self.fail(error)

    def answer_in_plaintext(self) -> None:
        """Answers a peer that does not use TLS, and waits. Thread: I/O."""

    def on_established(self) -> None:
        """Called after the TLS handshake. Frames may be sent from now on. Thread: I/O."""
        raise NotImplementedError

    # ------------------------------------------------------------ sending

    def send(self, frame: bytes) -> None:
        """Sends a control frame, before all data that has not been handed to the socket yet."""
        self._control.append(frame)
        self.flush()

    @property
    def write_lock(self) -> threading.Lock:
        """The lock for taking items from the sources. Call `flush` after releasing it."""
        return self._write_lock

    def add_control(self, frame: bytes) -> None:
        """Like `send`, but requires the write lock."""
        self._control.append(frame)

    def add_source(self, source: FrameSource) -> None:
        """Adds a source that has something to send."""
        if not source.is_queued:
            source.is_queued = True
            self._sources.append(source)
        self.flush()

    def flush(self) -> None:
        """Sends what can be sent now, unless another thread does so.

        Invariant: every thread that takes the write lock, for any reason, calls this after releasing it.
        """
        while (self._parts or self._control or self._sources) and not self._is_blocked:
            if not self._write_lock.acquire(blocking=False):
                return
            try:
                is_done = self._drain()
            finally:
                self._write_lock.release()
            if not is_done:
                self._loop.call_soon(self.flush)
                return

    def allow_large_frames(self, max_body_bytes: int) -> None:
        """Allows frames of up to this size, because the peer was authenticated."""
        self._max_body_bytes = max_body_bytes
        self._receive_bytes = _RECEIVE_BYTES

    def _drain(self) -> bool:
        """Sends until there is no more data or the socket is full.

        Returns False if this thread has sent its maximum and must leave the rest to the I/O thread. Requires the write
        lock.
        """
        budget = _SEND_BUDGET_BYTES
        while not self._is_blocked:
            if not self._parts:
                if budget <= 0:
                    return False
                self._gather()
                if not self._parts:
                    return True
            try:
                sent = self._transport.send(self._parts)
            except BlockingIOError:
                self._block()
                return True
            except OSError as error:
                self._fail_after_last_words(self._broken(error))
                return True
            self.bytes_sent += sent
            budget -= sent
            self._advance(sent)
        return True

    def _gather(self) -> None:
        parts, control, sources = self._parts, self._control, self._sources
        size = 0
        while control:
            part = control.popleft()
            parts.append(part)
            size += len(part)
        while sources and size < _SEND_BYTES:
            source = sources.popleft()
            source.is_queued = False  # before the call, so that later data queues the source again
            size += source.next_frames(parts, self._on_sent)
            if source.is_ready and not source.is_queued:
                source.is_queued = True
                sources.append(source)

    def _advance(self, sent: int) -> None:
        """Removes sent bytes from the front of the parts."""
        parts = self._parts
        if sent == sum(map(len, parts)):
            parts.clear()
            if self._on_sent:
                sent_buffers, self._on_sent = self._on_sent, []
                recycle_all(sent_buffers)
            return
        whole = 0
        for part in parts:
            size = len(part)
            if sent < size:
                break
            sent -= size
            whole += 1
        del parts[:whole]
        if sent:
            parts[0] = memoryview(parts[0])[sent:]

    def _block(self) -> None:
        """Makes the I/O thread continue when the full socket can take data again."""
        self._is_blocked = True
        try:
            self._loop.modify(self._fd, READ | WRITE)
        except OSError as error:
            self.fail(PartitionConnectionError(f"the data connection to {self.peer} broke: {error}"))

    def _unblock(self) -> None:
        """Continues to send, because the socket can take data again. Thread: I/O."""
        with self._write_lock:
            if self._failure is not None:
                return
            self._loop.modify(self._fd, READ)
            self._is_blocked = False
        self.flush()

    # ------------------------------------------------------------ receiving

    def register(self, events: int) -> None:
        """Registers the socket with the I/O loop. Thread: I/O."""
        self._loop.register(self._fd, self, events)
        self._is_registered = True

    def on_events(self, events: int) -> None:
        if self._failure is not None:
            return
        if self._handshake is not None:
            self._continue_handshake(self._handshake)
            return
        if events & WRITE:
            self._unblock()
        if events & (READ | BROKEN):
            self._receive_guarded()

    def _receive_guarded(self) -> None:
        try:
            self._receive()
        except BrokenError as error:
            if self._begins_as_tls:
                self.refuse(self._tls_mismatch())
                return
            self.fail(PartitionConnectionError(f"the data connection to {self.peer} carries no valid frames: {error}"))
        except Exception as error:  # channels must not wait for the lost frames
            self.fail(PartitionConnectionError(f"receiving from {self.peer} failed: {error!r}"))
            raise

    def _receive(self) -> None:
        budget = _RECEIVE_BUDGET_BYTES
        while self._failure is None:
            if budget <= 0:
                if self._transport.has_pending:  # an empty socket would not be reported again
                    self._loop.call_soon(self._receive_rest)
                return
            room = len(self._view) - self._end
            try:
                got = self._transport.receive_into(self._view[self._end :])
            except BlockingIOError:
                return
            except OSError as error:
                self.fail(self._broken(error))
                return
            if not got:
                closed = PartitionConnectionError(f"the data connection to {self.peer} was closed by the peer")
                self.fail(self._tls_mismatch() if self._begins_as_tls else closed)
                return
            self.bytes_received += got
            self._end += got
            budget -= got
            self._cut_frames()
            if got < room:
                return  # the socket had no more

    def _receive_rest(self) -> None:
        if self._failure is None:
            self._receive_guarded()

    def _cut_frames(self) -> None:
        buffer, view, start, end = self._buffer, self._view, self._start, self._end
        header_bytes, unpack, on_frame = frames.HEADER_BYTES, frames.HEADER.unpack_from, self.on_frame
        data_kind = frames.DATA
        needed = header_bytes
        while end - start >= header_bytes:
            body_bytes, kind, flags, _, channel, a, b, c, d, e = unpack(view, start)
            if body_bytes > self._max_body_bytes or body_bytes & 7:
                raise BrokenError(f"a frame of type {kind} has an invalid size of {body_bytes} bytes")
            needed = header_bytes + body_bytes
            if end - start < needed:
                if body_bytes > _UNPROVEN_BYTES and not self.may_send_long(kind, channel, body_bytes, e):
                    raise BrokenError(f"a frame of type {kind} has {body_bytes} bytes, which were not requested")
                break
            body = buffer.slice(start + header_bytes, body_bytes) if body_bytes else None
            start += needed
            on_frame(kind, flags, channel, a, b, c, d, e, body)
            if kind == data_kind or not self._expected_bytes:
                self._expected_bytes = needed
            needed = header_bytes
        self._start = start
        room = len(view) - start
        # A new buffer is needed only when the front of a long frame has filled this one.
        if room < max(needed, self._expected_bytes, _MIN_ROOM_BYTES) and not (start == 0 and end < len(view)):
            self._new_buffer(needed)

    def _new_buffer(self, needed: int) -> None:
        """Switches to another buffer, because frames point into the current one. A partial frame is moved.

        In a stream of large frames of one size nothing is moved: each buffer has room for a frame of the last size.
        """
        rest = self._view[self._start : self._end]
        due = min(needed, max(_UNPROVEN_BYTES, 2 * len(rest)))
        buffer = pa.allocate_buffer(max(self._receive_bytes, max(due, self._expected_bytes) + _CONTROL_ROOM_BYTES))
        view = memoryview(buffer)
        if rest:
            view[: len(rest)] = rest
        self._buffer, self._view, self._start, self._end = buffer, view, 0, len(rest)

    # ------------------------------------------------------------ TLS

    def begin_handshake(self, transport: TlsTransport) -> None:
        """Starts the TLS handshake. No frames are sent or received before its end. Thread: I/O."""
        self._transport = transport
        self._handshake = transport
        self._continue_handshake(transport)

    def _continue_handshake(self, transport: TlsTransport) -> None:
        assert self._tls is not None
        try:
            transport.handshake()
            self._tls.check_peer(transport, self.peer)
        except ssl.SSLWantReadError:
            self._loop.modify(self._fd, READ)
            return
        except ssl.SSLWantWriteError:
            self._loop.modify(self._fd, READ | WRITE)
            return
        except PartitionAuthenticationError as error:
            self._handshake = None
            self._is_blocked = False
            self.refuse(error)
            return
        except (OSError, ValueError) as error:
            if is_plaintext(error):
                self.answer_in_plaintext()
            self.fail(self._broken(error))
            return
        self._handshake = None
        self.on_established()
        self._unblock()
        self._receive_rest()  # data after the handshake is already in the TLS layer

    @property
    def _begins_as_tls(self) -> bool:
        """True if the first bytes of a plaintext connection are those of TLS."""
        is_first = not self._expected_bytes and self._tls is None
        return is_first and bytes(self._view[: min(2, self._end)]) in frames.TLS_RECORDS

    def _tls_mismatch(self) -> PartitionAuthenticationError:
        return PartitionAuthenticationError(
            f"the data connection to {self.peer} was refused: {self.peer} uses TLS, but this process does not "
            f"(security.ssl.internal.enabled)"
        )

    # ------------------------------------------------------------ ending

    def _broken(self, error: OSError | ValueError) -> PartitionConnectionError:
        problem = tls_problem(error, self.peer)
        if problem is not None:
            return PartitionAuthenticationError(f"the data connection to {self.peer} was refused: {problem}")
        during = " during its TLS handshake" if self._handshake is not None else ""
        return PartitionConnectionError(f"the data connection to {self.peer} broke{during}: {error}")

    def _fail_after_last_words(self, cause: ExternalError) -> None:
        """Reads the remaining data before it fails the connection.

        The peer may have sent the reason for closing it, which is more useful than `cause`.
        """

        def read_and_fail() -> None:
            self._receive_rest()
            self.fail(cause)

        self._is_blocked = True
        self._loop.call_soon(read_and_fail)

    def fail(self, error: ExternalError) -> None:
        """Closes the connection. Only the first call counts. Thread: any."""
        with self._fail_lock:
            if self._failure is not None:
                return
            self._failure = error
            self._is_blocked = True
        with contextlib.suppress(OSError):
            # `SSLSocket.shutdown` would remove the TLS layer while other threads use it.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._loop.call_soon(self._close_socket)
        self.on_failed(error)

    def _close_socket(self) -> None:
        """Closes the socket on the I/O thread.

        On another thread, the descriptor could be reused while an event of this socket is handled.
        """
        with self._write_lock:
            self._is_blocked = True
            if self._is_registered:
                self._loop.unregister(self._fd)
            self._socket.close()
            sent_buffers, self._on_sent = self._on_sent, []
            self._parts.clear()
            self._control.clear()
            self._sources.clear()
        recycle_all(sent_buffers)
