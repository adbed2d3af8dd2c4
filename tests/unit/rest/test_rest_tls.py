"""TLS between the REST server and its clients, without sockets."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.rest.tls import rest_client_context, rest_tls_material
from flinkpy.security import ClusterSecret, Role, SecurityContext
from flinkpy.security.certificates import Identity, make_authority, make_server_certificate

ENABLED = {"security.ssl.rest.enabled": "true"}
MUTUAL = {**ENABLED, "security.ssl.rest.authentication-enabled": "true"}


@pytest.fixture(scope="module")
def authority() -> Identity:
    return make_authority(SystemClock().now_ms())


@pytest.fixture
def stores(tmp_path: Path, authority: Identity) -> dict[str, str]:
    """Returns the options of a key store and a trust store."""
    member = make_server_certificate(authority)
    (tmp_path / "key.pem").write_bytes(member.key_pem + member.certificate_pem)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    return {
        "security.ssl.rest.keystore": str(tmp_path / "key.pem"),
        "security.ssl.rest.truststore": str(tmp_path / "ca.pem"),
    }


def security(byte: int = 1) -> SecurityContext:
    return SecurityContext.of_secret(ClusterSecret(bytes([byte] * 32)), Role.CLUSTER)


def shake_hands(server: dict[str, str], client: dict[str, str], clients: SecurityContext | None = None) -> None:
    """Connects a client to `127.0.0.1`. Raises: ssl.SSLError if one of them refuses the other."""
    material = rest_tls_material(server, security())
    assert material is not None
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = rest_client_context(client, clients or security())
    unfinished = [
        context.wrap_bio(back, there, server_hostname="127.0.0.1"),
        material.server_context().wrap_bio(there, back, server_side=True),
    ]
    while unfinished:
        for side in list(unfinished):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            unfinished.remove(side)


def without(options: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in options.items() if not key.endswith(name)}


def test_without_stores_a_client_of_the_cluster_trusts_the_server() -> None:
    shake_hands(ENABLED, {})
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(ENABLED, {}, security(2))


def test_a_client_needs_no_key_store_unless_tls_is_mutual(stores: dict[str, str]) -> None:
    trusting = without(stores, "keystore")
    shake_hands({**ENABLED, **without(stores, "truststore")}, trusting)
    shake_hands({**MUTUAL, **stores}, stores)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands({**MUTUAL, **stores}, trusting)


def test_a_client_that_does_not_trust_the_authority_refuses_the_server(stores: dict[str, str]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands({**ENABLED, **without(stores, "truststore")}, {})


def test_a_trust_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigurationError, match=r"ca\.pem"):
        rest_client_context({"security.ssl.rest.truststore": str(tmp_path / "ca.pem")}, security())
