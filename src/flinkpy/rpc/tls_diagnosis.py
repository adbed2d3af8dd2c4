"""Finds out why a TLS connection could not be made.

gRPC reports that a handshake failed, but not why, and does not report a refusal by the peer at all. Therefore this
module connects once more with Python's own TLS, whose errors name the reason. Blocking.
"""

from __future__ import annotations

import socket
import ssl

from flinkpy.security import PEER_NAME, TlsMaterial
from flinkpy.security.tls_material import verification_failure

_TIMEOUT_S = 2.0
#: The preface of an HTTP/2 client (RFC 9113, 3.4) with an empty SETTINGS frame.
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
#: The first byte of a TLS record that contains an alert (RFC 8446, 5.1).
_TLS_ALERT = 0x15

_REFUSES = "the peer refuses this process's certificate"
_NOT_PROVED = "the process that listens there has not proved that it belongs to this cluster"
_HINTS = ("handshake", "Handshake", "Socket closed", "Connection reset")


def may_be_tls(details: str) -> bool:
    """True if the text of gRPC's error suggests that the two sides differ in TLS."""
    return "failed to connect" in details and any(hint in details for hint in _HINTS)


def diagnose(address: str, tls: TlsMaterial | None) -> str | None:
    """Returns what is wrong with TLS between this process and the peer at `address`, or None."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S) as connection:
            if tls is None:
                return _speaks_tls(connection)
            found = _handshake(connection, tls)
            return found if tls.is_mutual else _of_derived(found)
    except (OSError, ValueError):
        return None


def _speaks_tls(connection: socket.socket) -> str | None:
    connection.sendall(_HTTP2_PREFACE)
    answer = connection.recv(16)
    if (answer and answer[0] == _TLS_ALERT) or not answer:
        return (
            "the peer speaks TLS, or is not a gRPC server, and this process speaks plaintext: set "
            "`security.ssl.internal.enabled` with a key store and a trust store"
        )
    return None


def _handshake(connection: socket.socket, tls: TlsMaterial) -> str | None:
    context = tls.client_context()
    context.set_alpn_protocols(["h2"])
    own = f" ({tls.source})" if tls.source else ""
    try:
        with context.wrap_socket(connection, server_hostname=PEER_NAME) as secured:
            secured.sendall(_HTTP2_PREFACE)
            # With TLS 1.3 a server checks the client's certificate after the client has finished the handshake.
            if not secured.recv(1):
                return f"{_REFUSES}: the peer does not trust its authority, or it has expired{own}"
    except ssl.SSLCertVerificationError as error:
        if not tls.is_mutual:
            return (
                f"{_NOT_PROVED}, so no token was sent to it: the cluster has another secret, or another program has "
                "taken the port"
            )
        return f"this process refuses the peer: {verification_failure(error.verify_message)}{own}"
    except ssl.SSLError as error:
        return _of_alert(error, own)
    except TimeoutError:
        return "the peer does not answer the TLS handshake: it speaks plaintext or another protocol"
    except OSError:
        return f"{_REFUSES}, or it speaks plaintext{own}"
    return None


def _of_derived(reason: str | None) -> str | None:
    """Returns the reason in terms of the cluster secret: TLS derived from it has no files to check."""
    if reason is None or _NOT_PROVED in reason:
        return reason
    return (
        f"{_NOT_PROVED}, so no token was sent to it: the cluster uses its own certificates "
        "(`security.ssl.internal.enabled`) and this process does not, or another program has taken the port"
    )


def _of_alert(error: ssl.SSLError, own: str) -> str:
    reason = (error.reason or str(error)).upper()
    if "WRONG_VERSION" in reason or "UNKNOWN_PROTOCOL" in reason or "RECORD_LAYER" in reason:
        return (
            "the peer speaks plaintext and this process TLS: enable TLS on both sides (`security.ssl.internal.enabled`)"
        )
    if "EXPIRED" in reason:
        return f"{_REFUSES}: it has expired (`flinkpy certs --renew`){own}"
    if "UNKNOWN_CA" in reason:
        return f"{_REFUSES}: the peer does not trust its authority{own}"
    if "ALERT" in reason:
        return f"{_REFUSES}: {error.reason}{own}"
    return f"TLS fails: {error.reason or error}"
