"""Key stores and trust stores, and the errors for those that cannot work."""

from __future__ import annotations

import pickle
import socket
import ssl
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="TLS material is made with the package cryptography: NOT tested")

from cryptography.hazmat.primitives import serialization

from flinkpy.common.errors import ConfigurationError
from flinkpy.security import PEER_NAME, TlsMaterial
from flinkpy.security.certificates import CLIENT_NAME, Identity, make_authority, make_certificate, trust_store_pkcs12

NOW_MS = int(time.time() * 1000)
AUTHORITY = make_authority(NOW_MS)
OTHER_AUTHORITY = make_authority(NOW_MS)
YEAR = timedelta(days=365)
SERVICE = make_certificate(AUTHORITY, PEER_NAME, NOW_MS, YEAR)
CLIENT = make_certificate(AUTHORITY, CLIENT_NAME, NOW_MS, YEAR)
EXPIRED = make_certificate(AUTHORITY, PEER_NAME, NOW_MS, timedelta(days=-1))
FOREIGN = make_certificate(OTHER_AUTHORITY, PEER_NAME, NOW_MS, YEAR)
ENABLED = "security.ssl.internal.enabled"


def material(identity: Identity, authority: Identity = AUTHORITY, **fields: Any) -> TlsMaterial:
    return TlsMaterial(identity.key_pem, identity.certificate_pem, authority.certificate_pem, **fields)


def stores(directory: Path, key_store: bytes, trust_store: bytes, **options: str) -> dict[str, str]:
    (directory / "keys").write_bytes(key_store)
    (directory / "trusted").write_bytes(trust_store)
    keys = {key: key.replace("_", "-").replace("cert-", "cert.") for key in options}
    named = {f"security.ssl.internal.{keys[key]}": value for key, value in options.items()}
    return {
        ENABLED: "true",
        "security.ssl.internal.keystore": str(directory / "keys"),
        "security.ssl.internal.truststore": str(directory / "trusted"),
        **named,
    }


def load(configuration: dict[str, str]) -> TlsMaterial:
    loaded = TlsMaterial.of_configuration(configuration)
    assert loaded is not None
    return loaded


PEM_STORE = SERVICE.key_pem + SERVICE.certificate_pem


def test_nothing_is_read_where_tls_is_not_enabled() -> None:
    assert TlsMaterial.of_configuration({"security.ssl.internal.keystore": "/nowhere"}) is None


def test_pem_stores_are_read_and_work(tmp_path: Path) -> None:
    loaded = load(stores(tmp_path, PEM_STORE, AUTHORITY.certificate_pem))
    loaded.check(is_service=True)
    assert loaded.fingerprints == () and loaded.handshake_timeout_ms is None


def test_an_encrypted_pem_key_needs_its_password(tmp_path: Path) -> None:
    encrypted = SERVICE.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"geheim"),
    )
    content = encrypted + SERVICE.certificate_pem
    load(stores(tmp_path, content, AUTHORITY.certificate_pem, key_password="geheim")).check(is_service=True)
    with pytest.raises(ConfigurationError, match="keys cannot be decrypted"):
        load(stores(tmp_path, content, AUTHORITY.certificate_pem, key_password="wrong"))
    with pytest.raises(ConfigurationError, match="key-password` is not set"):
        load(stores(tmp_path, content, AUTHORITY.certificate_pem))


def test_pkcs12_stores_are_read_and_work(tmp_path: Path) -> None:
    password = {"keystore_password": "geheim", "truststore_password": "geheim"}
    key_store = SERVICE.as_pkcs12("service", AUTHORITY, b"geheim")
    trust_store = trust_store_pkcs12(AUTHORITY, b"geheim")
    load(stores(tmp_path, key_store, trust_store, **password)).check(is_service=True)
    named = {**password, "keystore_type": "pkcs12", "truststore_type": "PKCS12"}
    load(stores(tmp_path, key_store, trust_store, **named)).check(is_service=True)
    with pytest.raises(ConfigurationError, match="keys cannot be opened as PKCS12") as raised:
        load(stores(tmp_path, key_store, trust_store, keystore_password="wrong-one"))
    assert "wrong-one" not in str(raised.value)


def test_the_general_options_are_the_fallback(tmp_path: Path) -> None:
    configuration = stores(tmp_path, PEM_STORE, AUTHORITY.certificate_pem)
    general = {key.replace("internal.", "") if key != ENABLED else key: value for key, value in configuration.items()}
    assert load(general).private_key == load(configuration).private_key


@pytest.mark.parametrize(
    ("key_store", "trust_store", "said"),
    [
        (SERVICE.certificate_pem, AUTHORITY.certificate_pem, "keys must have one private key"),
        (SERVICE.key_pem, AUTHORITY.certificate_pem, "keys must have one private key"),
        (b"", AUTHORITY.certificate_pem, "keys cannot be opened as PKCS12"),
        (PEM_STORE, SERVICE.key_pem, "trusted has no certificate"),
        (PEM_STORE, b"nonsense", "trusted cannot be opened as PKCS12"),
    ],
    ids=["no key", "no certificate", "empty key store", "no trusted certificate", "no store"],
)
def test_a_store_without_what_belongs_there_is_named(
    tmp_path: Path, key_store: bytes, trust_store: bytes, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load(stores(tmp_path, key_store, trust_store))


def test_missing_options_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"needs `security.ssl.internal.keystore`"):
        load({ENABLED: "true"})
    configuration = stores(tmp_path, PEM_STORE, AUTHORITY.certificate_pem)
    (tmp_path / "trusted").unlink()
    with pytest.raises(ConfigurationError, match=r"trusted cannot be read .No such file"):
        load(configuration)


@pytest.mark.parametrize(
    ("identity", "authority", "said"),
    [
        (EXPIRED, AUTHORITY, "expired"),
        (FOREIGN, AUTHORITY, "not signed by an authority in the trust store"),
        (CLIENT, AUTHORITY, "for clients"),
    ],
)
def test_a_certificate_that_no_peer_would_accept_is_refused_at_the_start(
    identity: Identity, authority: Identity, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"key store K.*{said}"):
        material(identity, authority, source="key store K").check(is_service=True)


def test_a_key_that_is_not_that_of_the_certificate_is_refused() -> None:
    mixed = TlsMaterial(CLIENT.key_pem, SERVICE.certificate_pem, AUTHORITY.certificate_pem)
    with pytest.raises(ConfigurationError, match="private key does not belong to"):
        mixed.check(is_service=True)


def test_a_client_needs_no_certificate_of_a_service() -> None:
    material(CLIENT).check(is_service=False)
    with pytest.raises(ConfigurationError, match="expired"):
        material(EXPIRED).check(is_service=False)


def test_fingerprints_are_those_of_sha1_or_sha256(tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(SERVICE.certificate_pem.decode())
    with_colons = ":".join(SERVICE.fingerprint[i : i + 2].upper() for i in range(0, 64, 2))
    pinned = load(stores(tmp_path, PEM_STORE, AUTHORITY.certificate_pem, cert_fingerprint=f"{'0' * 40}, {with_colons}"))
    assert not pinned.is_pinned_out(der)
    assert pinned.is_pinned_out(ssl.PEM_cert_to_DER_cert(CLIENT.certificate_pem.decode()))
    with pytest.raises(ConfigurationError, match=r"cert\.fingerprint"):
        load(stores(tmp_path, PEM_STORE, AUTHORITY.certificate_pem, cert_fingerprint="abc"))


def handshake(server: TlsMaterial, client: TlsMaterial | ssl.SSLContext) -> tuple[str | None, str | None]:
    """Returns the error of each side of a handshake; None if it accepted the other side."""
    here, there = socket.socketpair()
    said: list[str | None] = [None]

    def serve() -> None:
        try:
            with server.server_context().wrap_socket(there, server_side=True) as secured:
                secured.recv(1)
                secured.sendall(b"x")
        except OSError as error:
            said[0] = str(error)
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    context = client if isinstance(client, ssl.SSLContext) else client.client_context()
    refused = None
    try:
        with context.wrap_socket(here, server_hostname=PEER_NAME) as secured:
            secured.sendall(b"x")
            if not secured.recv(1):
                refused = "closed"
    except OSError as error:
        refused = str(error)
    here.close()
    thread.join()
    return said[0], refused


def test_members_of_a_cluster_understand_each_other() -> None:
    assert handshake(material(SERVICE), material(SERVICE)) == (None, None)
    assert handshake(material(SERVICE), material(CLIENT)) == (None, None)


@pytest.mark.parametrize(
    ("server", "client"),
    [
        (material(FOREIGN, OTHER_AUTHORITY), material(SERVICE)),
        (material(SERVICE), material(FOREIGN)),
        (material(EXPIRED), material(SERVICE)),
        (material(SERVICE), material(EXPIRED)),
        (material(CLIENT), material(SERVICE)),
    ],
    ids=["server of another CA", "client of another CA", "expired server", "expired client", "client as a server"],
)
def test_others_are_refused_by_both_sides(server: TlsMaterial, client: TlsMaterial) -> None:
    there, here = handshake(server, client)
    assert there is not None and here is not None


def test_a_client_without_certificate_and_old_versions_are_refused() -> None:
    anonymous = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    there, here = handshake(material(SERVICE), anonymous)
    assert there is not None and here is not None
    old = material(SERVICE).client_context()
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    there, here = handshake(material(SERVICE), old)
    assert there is not None and here is not None


def test_neither_keys_nor_passwords_are_shown_or_pickled() -> None:
    assert "PRIVATE" not in repr(material(SERVICE)) and "BEGIN" not in repr(SERVICE)
    with pytest.raises(TypeError, match="private key"):
        pickle.dumps(material(SERVICE))
