"""Socket transports: they write bytes to a socket and read them, in plaintext or with TLS.

A plain socket takes many parts with one system call, and returns as much as there is. TLS works in records of at most
16 KiB. So small parts are joined to fill records, and one receive call reads as many records as there are.
"""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any, Protocol

from flinkpy.common.errors import PartitionAuthenticationError
from flinkpy.security import PEER_NAME, TlsMaterial

# The kernel's IOV_MAX.
_MAX_PARTS = 1024
_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL

# The maximum size of a TLS record.
_RECORD_BYTES = 1 << 14
# Smaller parts are joined up to this size, a multiple of the record size. Copying them costs a tenth of encrypting
# them, and every record that is not full costs a system call on both sides.
_JOINED_BYTES = 4 * _RECORD_BYTES
# The maximum size to encrypt with one call, which releases the GIL. A reader of the same connection waits as long.
_CHUNK_BYTES = 16 * _RECORD_BYTES


class SocketTransport(Protocol):
    """Writes bytes to a socket and reads them.

    Thread: one at a time in `send` and one at a time in `receive_into`; both may run at once.
    """

    @property
    def has_pending(self) -> bool:
        """True if there is data to receive which the socket itself does not report."""
        ...

    def send(self, parts: list[Any]) -> int:
        """Sends bytes from the front of `parts`. Returns their number.

        After an error, the same parts must be sent again.

        Raises: BlockingIOError; OSError if the connection is broken.
        """
        ...

    def receive_into(self, view: memoryview) -> int:
        """Fills `view` from its start. Returns the number of bytes; 0 at the end of the stream.

        If it is less than the size of `view`, there is no more data now.

        Raises: BlockingIOError; OSError if the connection is broken.
        """
        ...


class PlainTransport:
    """A plaintext connection."""

    has_pending = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, parts: list[Any]) -> int:
        if len(parts) > _MAX_PARTS:
            parts = parts[:_MAX_PARTS]
        return self._socket.sendmsg(parts, (), _SEND_FLAGS)

    def receive_into(self, view: memoryview) -> int:
        return self._socket.recv_into(view, len(view), socket.MSG_DONTWAIT)


class TlsTransport:
    """A TLS connection. Both directions share its state, so a lock guards every call.

    It uses `SSLSocket.read` and `write`, never `recv` and `send`: these continue in plaintext after the TLS layer was
    removed.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        #: Encrypted data that the socket did not take. Exactly this data has to be offered again.
        self._unsent: Any = None

    @property
    def has_pending(self) -> bool:
        with self._lock:
            return self._socket.pending() > 0

    def handshake(self) -> None:
        """Continues the handshake. Raises: ssl.SSLWantReadError, ssl.SSLWantWriteError; OSError if it has failed."""
        with self._lock:
            self._socket.do_handshake()

    def peer_certificate(self) -> tuple[bytes, list[str]]:
        """Returns the certificate of the peer in DER, and the DNS names in it."""
        with self._lock:
            encoded = self._socket.getpeercert(binary_form=True) or b""
            decoded: Any = self._socket.getpeercert() or {}
        return encoded, [value for kind, value in decoded.get("subjectAltName", ()) if kind == "DNS"]

    def send(self, parts: list[Any]) -> int:
        chunk = self._unsent
        if chunk is None:
            chunk = _chunk(parts)
        try:
            with self._lock:
                sent = self._socket.write(chunk)
        except ssl.SSLWantWriteError:
            self._unsent = chunk
            raise BlockingIOError from None
        except ValueError as error:  # the socket was closed meanwhile
            raise ConnectionAbortedError(str(error)) from error
        self._unsent = None
        return sent

    def receive_into(self, view: memoryview) -> int:
        read, lock, size, total = self._socket.read, self._lock, len(view), 0
        try:
            while total < size:
                with lock:
                    got: Any = read(size - total, view[total:])  # type: ignore[arg-type]
                if not got:
                    break
                total += got
        except ssl.SSLWantReadError:
            if not total:
                raise BlockingIOError from None
        except OSError:
            if not total:  # otherwise return the received data; the next call raises again
                raise
        except ValueError as error:  # the socket was closed meanwhile
            raise ConnectionAbortedError(str(error)) from error
        return total


def _chunk(parts: list[Any]) -> Any:
    """Returns the data to encrypt next, from the front of `parts`."""
    first = parts[0]
    size = len(first)
    if size > _CHUNK_BYTES:
        return memoryview(first)[:_CHUNK_BYTES]
    if size >= _JOINED_BYTES or len(parts) == 1:
        return first
    taken: list[Any] = []
    room = _JOINED_BYTES
    for part in parts:
        size = len(part)
        if size >= room:
            taken.append(memoryview(part)[:room])
            break
        taken.append(part)
        room -= size
    return b"".join(taken)


class TlsTransports:
    """Creates the TLS transports of a process, for both sides of a connection. Both sides show a certificate."""

    def __init__(self, material: TlsMaterial) -> None:
        self._material = material
        self._server_context = _without_extras(material.server_context())
        self._client_context = _without_extras(material.client_context())

    @property
    def handshake_timeout_ms(self) -> int | None:
        return self._material.handshake_timeout_ms

    def of_producer(self, sock: socket.socket) -> tuple[socket.socket, TlsTransport]:
        """Returns the TLS socket that replaces the connected `sock`, and its transport."""
        wrapped = self._server_context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, TlsTransport(wrapped)

    def of_consumer(self, sock: socket.socket) -> tuple[socket.socket, TlsTransport]:
        """Returns the TLS socket that replaces the connected `sock`, and its transport."""
        wrapped = self._client_context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=PEER_NAME)
        return wrapped, TlsTransport(wrapped)

    def check_peer(self, transport: TlsTransport, peer: str) -> None:
        """Checks the parts of a certificate that the TLS library does not check.

        Raises: PartitionAuthenticationError.
        """
        certificate, names = transport.peer_certificate()
        if PEER_NAME not in names:
            raise PartitionAuthenticationError(
                f"the certificate of {peer} is not that of a member of this cluster: it lacks the name {PEER_NAME}"
            )
        if self._material.is_pinned_out(certificate):
            raise PartitionAuthenticationError(
                f"the certificate of {peer} has none of the fingerprints in security.ssl.internal.cert.fingerprint"
            )


def _without_extras(context: ssl.SSLContext) -> ssl.SSLContext:
    """Disables renegotiation and resumption. Connections are few and long, so neither is needed."""
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if context.protocol is ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    # The cipher suites of TLS 1.2. All suites of TLS 1.3 are of this kind.
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    return context


_NO_TLS = "{peer} does not use TLS, but this process does (security.ssl.internal.enabled)"
#: Parts of the library's reasons, and messages for users. The first match counts.
_REASONS = (
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "{peer} showed no certificate"),
    ("ALERT_CERTIFICATE_REQUIRED", "{peer} requires a certificate, but this process showed none"),
    ("ALERT_UNKNOWN_CA", "{peer} does not trust the authority of this process's certificate"),
    ("ALERT_CERTIFICATE_EXPIRED", "{peer} reports that this process's certificate has expired"),
    ("ALERT_CERTIFICATE_UNKNOWN", "{peer} did not accept this process's certificate"),
    ("ALERT_BAD_CERTIFICATE", "{peer} did not accept this process's certificate"),
    ("ALERT_UNSUPPORTED_CERTIFICATE", "{peer} did not accept this process's certificate"),
    ("ALERT_ACCESS_DENIED", "{peer} did not accept this process's certificate"),
    ("ALERT_PROTOCOL_VERSION", "{peer} supports no version of TLS that this process allows (1.2 or newer)"),
    ("UNSUPPORTED_PROTOCOL", "{peer} supports no version of TLS that this process allows (1.2 or newer)"),
    ("NO_SHARED_CIPHER", "{peer} supports no cipher that this process supports"),
    ("ALERT_HANDSHAKE_FAILURE", "{peer} supports no cipher or version of TLS of this process"),
    ("HTTP_REQUEST", _NO_TLS),
    ("WRONG_VERSION_NUMBER", _NO_TLS),
    ("PACKET_LENGTH_TOO_LONG", _NO_TLS),
    ("RECORD_LAYER_FAILURE", _NO_TLS),
)


def is_plaintext(error: OSError | ValueError) -> bool:
    """True if a TLS handshake failed because the peer does not use TLS."""
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    return any(part in reason and text is _NO_TLS for part, text in _REASONS)


def tls_problem(error: OSError | ValueError, peer: str) -> str | None:
    """Returns one sentence on why a TLS connection failed, or None if TLS was not the reason."""
    if not isinstance(error, ssl.SSLError):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {peer} was not accepted: {error.verify_message}"
    reason = error.reason or ""
    for part, text in _REASONS:
        if part in reason:
            return f"{text.format(peer=peer)} ({reason})"
    return None
