"""TLS of RPC: binds the ports of servers and opens channels."""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping

import grpc
import grpc.aio

from flinkpy.common.addresses import is_loopback
from flinkpy.common.errors import AuthenticationError, ConfigurationError
from flinkpy.security import PEER_NAME, SecurityContext, TlsMaterial, check_bind

logger = logging.getLogger(__name__)

_NO_PROXY = ("grpc.enable_http_proxy", 0)
#: The certificates of all members of a cluster have this one name; they are not bound to addresses.
_PEER_NAME = ("grpc.ssl_target_name_override", PEER_NAME)


def check_server(bind_address: str, security: SecurityContext) -> None:
    """Checks that a server may bind `bind_address` and can verify tokens. Raises: ConfigurationError."""
    check_bind(bind_address, security)
    if security.secret is None and not security.is_insecure:
        raise ConfigurationError(
            "a server needs the cluster secret: it cannot verify the tokens of its callers with a token alone"
        )
    if security.is_insecure and security.tls is None and not is_loopback(bind_address.strip("[]")):
        what = "records" if security.derived_tls is not None else "calls, tokens and records"
        logger.warning("INSECURE: %s is bound without mutual TLS; %s cross the network in clear", bind_address, what)


def check_certificate(security: SecurityContext, auth_context: Callable[[], Mapping[str, Iterable[bytes]]]) -> None:
    """Checks the caller's certificate against the configured fingerprints. Raises: AuthenticationError."""
    if security.tls is None or not security.tls.fingerprints:
        return
    pem = next(iter(auth_context().get("x509_pem_cert", ())), b"")
    if not _is_pinned(security.tls, pem):
        raise AuthenticationError(
            "the caller's certificate matches no fingerprint of `security.ssl.internal.cert.fingerprint`"
        )


@functools.lru_cache(maxsize=256)
def _is_pinned(tls: TlsMaterial, pem: bytes) -> bool:
    return bool(pem) and not tls.is_pinned_out(ssl.PEM_cert_to_DER_cert(pem.decode("ascii")))


def bind_port(server: grpc.aio.Server, address: str, security: SecurityContext) -> int:
    """Binds `server` to `address` (host:port; port 0: any free port). Returns the port, or 0 if it is in use."""
    tls = security.control_tls
    if tls is None:
        return server.add_insecure_port(address)
    # With TLS that the user has set up, both sides show a certificate. Otherwise callers authenticate by a token.
    trusted = tls.trusted_certificates if tls.is_mutual else None
    credentials = grpc.ssl_server_credentials(
        [(tls.private_key, tls.certificate_chain)], trusted, require_client_auth=tls.is_mutual
    )
    return server.add_secure_port(address, credentials)


def open_aio_channel(address: str, options: list[tuple[str, object]], security: SecurityContext) -> grpc.aio.Channel:
    """Opens a channel to `address`. Raises: AuthenticationError, see `_channel_credentials`."""
    credentials = _channel_credentials(address, security)
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=[_NO_PROXY, *options])
    return grpc.aio.secure_channel(address, credentials, options=[_NO_PROXY, _PEER_NAME, *options])


def open_channel(address: str, options: list[tuple[str, object]], security: SecurityContext) -> grpc.Channel:
    """Opens a channel to `address`. Raises: AuthenticationError, see `_channel_credentials`."""
    credentials = _channel_credentials(address, security)
    if credentials is None:
        return grpc.insecure_channel(address, options=[_NO_PROXY, *options])
    return grpc.secure_channel(address, credentials, options=[_NO_PROXY, _PEER_NAME, *options])


def _channel_credentials(address: str, security: SecurityContext) -> grpc.ChannelCredentials | None:
    """Returns the credentials of a channel, or None for plaintext, over which nothing confidential is sent.

    Raises: AuthenticationError if this process has no token, or cannot verify the service at `address` and would show
        its token to any process that listens there.
    """
    tls = security.control_tls
    if tls is not None:
        return grpc.ssl_channel_credentials(
            tls.trusted_certificates, tls.private_key or None, tls.certificate_chain or None
        )
    if security.tokens is not None:
        raise AuthenticationError(
            f"no connection to {address}: the token does not contain the authority that verifies the services of its "
            "cluster, so any process that listens there would receive it. It was not printed by `flinkpy token`, or "
            "is incomplete: make a new one with `flinkpy token`",
            details={"address": address},
        )
    if not security.is_insecure:
        raise AuthenticationError(
            f"no connection to {address}: this process has neither a token nor the cluster secret. A client needs the "
            "file of the cluster secret (`security.secret-file`, FLINKPY_SECRET_FILE) or a token that `flinkpy token` "
            "made from it (`security.token-file`, FLINKPY_TOKEN)",
            details={"address": address},
        )
    return None
