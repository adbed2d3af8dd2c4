"""FramedConnection: a socket that carries frames, either way, without blocking any thread.

Sending: control frames go first; then the sources (channels with data and credit) take turns, one frame each, so a
source is asked for its next frame only when the socket can take it. Whoever has something to send tries to become the
writer; if somebody is writing already, that one will see it. What the socket does not take is left to the I/O thread.

Receiving: straight into Arrow memory, as much as there is with one system call; frames are cut out of it without
copying, and whatever points into the buffer keeps it alive.
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

# One receive call fills at most this, unless a larger frame is expected: it bounds what a batch of a few rows keeps
# alive, and holds some ten batches of a thousand rows, so the call's cost is shared.
_RECEIVE_BYTES = 1 << 18
# With less room than this left in a buffer, the next receive goes into another one.
_MIN_ROOM_BYTES = 1 << 14
# Room for control frames between frames of one size, in a buffer that is made for one of these. Without it a control
# frame would put the end of the next long frame outside, and all of that would be moved.
_CONTROL_ROOM_BYTES = 1 << 10
# Gather at least this much before a send call: enough to make its cost small, little enough to stay in the L2 cache.
_SEND_BYTES = 1 << 18
# Sent in one go before the I/O thread takes over: a task that happens to be the writer must not serve others for ever.
_SEND_BUDGET_BYTES = 1 << 23
# Received in one go before other connections get their turn.
_RECEIVE_BUDGET_BYTES = 1 << 23
# The buffer of a peer that has not been authenticated: many may connect and say nothing.
_GREETING_BYTES = 1 << 13
# Allocated for a frame because its header says so. What is longer gets memory as it comes, or where the frame before
# was as long: a header of a few bytes must not cost much more than those bytes.
_UNPROVEN_BYTES = 1 << 22


class FrameSource(Protocol):
    """Something with frames to send under flow control."""

    is_queued: bool

    def next_frames(self, parts: list[Any], on_sent: list[BufferedBatch]) -> int:
        """Append the parts of the next frame, and the buffer to recycle when it is sent; returns the bytes."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether `next_frames` would give something."""
        ...


class FramedConnection:
    """Thread: sending from any thread; receiving on the I/O thread."""

    def __init__(self, loop: IoLoop, sock: socket.socket, peer: str, tls: TlsTransports | None = None) -> None:
        self.peer = peer
        self._loop = loop
        self._socket = sock
        self._transport: SocketTransport = PlainTransport(sock)
        self._tls = tls
        #: While a TLS handshake is going on.
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
        #: Of the last frame with data, so likely of the next one; 0 before the first frame.
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
        """A frame arrived; `body` is a pa.Buffer of the padded body. Thread: I/O."""
        raise NotImplementedError

    def on_failed(self, error: ExternalError) -> None:
        """The connection is of no use any more. Called once. Thread: any."""
        raise NotImplementedError

    def may_send_long(self, kind: int, channel: int, body_bytes: int, e: int) -> bool:
        """Whether a frame of some megabytes, of which the header has come, is wanted. Thread: I/O."""
        return True

    def refuse(self, error: PartitionAuthenticationError) -> None:
        """Give the connection up, and tell the peer why where it can be told."""
        self.fail(error)

    def answer_in_plaintext(self) -> None:
        """The peer does not speak TLS, and waits. Thread: I/O."""

    def on_established(self) -> None:
        """The TLS handshake is over; frames may be sent. Thread: I/O."""
        raise NotImplementedError

    # ------------------------------------------------------------ sending

    def send(self, frame: bytes) -> None:
        """Send a control frame, before any data that has not been handed to the socket yet."""
        self._control.append(frame)
        self.flush()

    @property
    def write_lock(self) -> threading.Lock:
        """Whoever holds it is the only one to take items from the sources. Call `flush` after releasing it."""
        return self._write_lock

    def add_control(self, frame: bytes) -> None:
        """`send`, for the holder of the write lock."""
        self._control.append(frame)

    def add_source(self, source: FrameSource) -> None:
        """`source` has something to send."""
        if not source.is_queued:
            source.is_queued = True
            self._sources.append(source)
        self.flush()

    def flush(self) -> None:
        """Send what can be sent now, unless another thread is doing so.

        Invariant: whoever takes the write lock, for whatever reason, calls this after releasing it.
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
        """The peer has been authenticated, and may send frames of that size."""
        self._max_body_bytes = max_body_bytes
        self._receive_bytes = _RECEIVE_BYTES

    def _drain(self) -> bool:
        """Send until there is nothing, or the socket is full, or (False) this thread has done enough for others.

        Thread: the holder of the write lock.
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
            source.is_queued = False  # before asking: what comes from now on queues the source again
            size += source.next_frames(parts, self._on_sent)
            if source.is_ready and not source.is_queued:
                source.is_queued = True
                sources.append(source)

    def _advance(self, sent: int) -> None:
        """Drop what was sent from the front of the parts."""
        parts = self._parts
        if sent == sum(map(len, parts)):
            parts.clear()
            if self._on_sent:
                done, self._on_sent = self._on_sent, []
                recycle_all(done)
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
        """The socket is full: the I/O thread goes on when it is not."""
        self._is_blocked = True
        try:
            self._loop.modify(self._fd, READ | WRITE)
        except OSError as error:
            self.fail(PartitionConnectionError(f"the data connection to {self.peer} broke: {error}"))

    def _unblock(self) -> None:
        """Thread: I/O."""
        with self._write_lock:
            if self._failure is not None:
                return
            self._loop.modify(self._fd, READ)
            self._is_blocked = False
        self.flush()

    # ------------------------------------------------------------ receiving

    def register(self, events: int) -> None:
        """Begin to be called. Thread: I/O."""
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
                self.refuse(self._speaks_tls())
                return
            self.fail(PartitionConnectionError(f"the data connection to {self.peer} carries no valid frames: {error}"))
        except Exception as error:  # channels must not wait for frames that were lost in it
            self.fail(PartitionConnectionError(f"receiving from {self.peer} failed: {error!r}"))
            raise

    def _receive(self) -> None:
        budget = _RECEIVE_BUDGET_BYTES
        while self._failure is None:
            if budget <= 0:
                if self._transport.has_pending:  # the socket may be empty, and would not be reported again
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
                self.fail(self._speaks_tls() if self._begins_as_tls else closed)
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
                raise BrokenError(f"a frame of type {kind} with {body_bytes} bytes")
            needed = header_bytes + body_bytes
            if end - start < needed:
                if body_bytes > _UNPROVEN_BYTES and not self.may_send_long(kind, channel, body_bytes, e):
                    raise BrokenError(f"a frame of type {kind} with {body_bytes} bytes, which nobody asked for")
                break
            body = buffer.slice(start + header_bytes, body_bytes) if body_bytes else None
            start += needed
            on_frame(kind, flags, channel, a, b, c, d, e, body)
            if kind == data_kind or not self._expected_bytes:
                self._expected_bytes = needed
            needed = header_bytes
        self._start = start
        room = len(view) - start
        # The front of a long frame fills the buffer before it gets another one.
        if room < max(needed, self._expected_bytes, _MIN_ROOM_BYTES) and not (start == 0 and end < len(view)):
            self._new_buffer(needed)

    def _new_buffer(self, needed: int) -> None:
        """Go on in another buffer, since what was received is being pointed at. A partial frame is moved there.

        A stream of large frames of one size is received without moving any: each buffer is as large as the last frame.
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
        """Nothing is sent or received before it is over. Thread: I/O."""
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
        self._receive_rest()  # what came with the end of the handshake is in the TLS layer

    @property
    def _begins_as_tls(self) -> bool:
        """Whether the first bytes of a plaintext connection are those of TLS."""
        is_first = not self._expected_bytes and self._tls is None
        return is_first and bytes(self._view[: min(2, self._end)]) in frames.TLS_RECORDS

    def _speaks_tls(self) -> PartitionAuthenticationError:
        return PartitionAuthenticationError(
            f"the data connection to {self.peer} was refused: {self.peer} speaks TLS, and this process does not "
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
        """The peer may have said why it ended the connection, which tells more than that it did."""

        def read_and_fail() -> None:
            self._receive_rest()
            self.fail(cause)

        self._is_blocked = True
        self._loop.call_soon(read_and_fail)

    def fail(self, error: ExternalError) -> None:
        """Give the connection up. Only the first call counts. Thread: any."""
        with self._fail_lock:
            if self._failure is not None:
                return
            self._failure = error
            self._is_blocked = True
        with contextlib.suppress(OSError):
            # Not that of a TLS socket: it would take the TLS layer away from under those that are using it.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._loop.call_soon(self._close_socket)
        self.on_failed(error)

    def _close_socket(self) -> None:
        """Thread: I/O, so that the descriptor is not reused under an event that is being handled."""
        with self._write_lock:
            self._is_blocked = True
            if self._is_registered:
                self._loop.unregister(self._fd)
            self._socket.close()
            done, self._on_sent = self._on_sent, []
            self._parts.clear()
            self._control.clear()
            self._sources.clear()
        recycle_all(done)
