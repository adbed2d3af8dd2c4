"""Reads key stores and trust stores in the formats PEM and PKCS12."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import security_options
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, read_option
from flinkpy.security.tls_material import TlsMaterial

_FINGERPRINT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_INSTALL = "pip install 'flinkpy[tls]'"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options that name a key store and a trust store. `section` is the prefix of their keys."""

    section: str
    keystore: ConfigOption[str | None]
    keystore_password: ConfigOption[str | None]
    key_password: ConfigOption[str | None]
    keystore_type: ConfigOption[str | None]
    truststore: ConfigOption[str | None]
    truststore_password: ConfigOption[str | None]
    truststore_type: ConfigOption[str | None]
    fingerprints: ConfigOption[str | None]


INTERNAL_STORES = StoreOptions(
    section="security.ssl.internal",
    keystore=security_options.INTERNAL_KEYSTORE,
    keystore_password=security_options.INTERNAL_KEYSTORE_PASSWORD,
    key_password=security_options.INTERNAL_KEY_PASSWORD,
    keystore_type=security_options.INTERNAL_KEYSTORE_TYPE,
    truststore=security_options.INTERNAL_TRUSTSTORE,
    truststore_password=security_options.INTERNAL_TRUSTSTORE_PASSWORD,
    truststore_type=security_options.INTERNAL_TRUSTSTORE_TYPE,
    fingerprints=security_options.INTERNAL_CERT_FINGERPRINT,
)


def load_tls_material(configuration: AnyConfiguration) -> TlsMaterial:
    """Reads the files that the options name. Raises: ConfigurationError naming the option, the file and the problem."""
    stores = INTERNAL_STORES
    key_store = _store(configuration, stores, stores.keystore)
    trust_store = _store(configuration, stores, stores.truststore)
    private_key, chain = _key_store(configuration, stores, key_store)
    timeout_ms = read_option(configuration, security_options.INTERNAL_HANDSHAKE_TIMEOUT)
    return TlsMaterial(
        private_key=private_key,
        certificate_chain=chain,
        trusted_certificates=_trust_store(configuration, stores, trust_store),
        fingerprints=_fingerprints(configuration, stores),
        handshake_timeout_ms=None if timeout_ms < 0 else timeout_ms,
        source=f"key store {key_store}, trust store {trust_store}",
    )


def load_rest_tls_material(configuration: AnyConfiguration, stores: StoreOptions, *, is_mutual: bool) -> TlsMaterial:
    """Reads the files of the REST server. Only mutual TLS needs a trust store. Raises: see `load_tls_material`."""
    key_store = _store(configuration, stores, stores.keystore)
    private_key, chain = _key_store(configuration, stores, key_store)
    if not is_mutual:
        return TlsMaterial(private_key, chain, chain, source=f"key store {key_store}", is_mutual=False)
    trust_store = _store(configuration, stores, stores.truststore)
    return TlsMaterial(
        private_key=private_key,
        certificate_chain=chain,
        trusted_certificates=_trust_store(configuration, stores, trust_store),
        fingerprints=_fingerprints(configuration, stores),
        source=f"key store {key_store}, trust store {trust_store}",
    )


def load_rest_client_material(configuration: AnyConfiguration, stores: StoreOptions) -> TlsMaterial:
    """Reads the files of a client of the REST server. Only mutual TLS needs a key store. Raises: see
    `load_tls_material`.
    """
    if read_option(configuration, stores.keystore) is not None:
        return load_rest_tls_material(configuration, stores, is_mutual=True)
    trust_store = _store(configuration, stores, stores.truststore)
    trusted = _trust_store(configuration, stores, trust_store)
    return TlsMaterial(b"", b"", trusted, source=f"trust store {trust_store}", is_mutual=False)


def _key_store(configuration: AnyConfiguration, stores: StoreOptions, path: Path) -> tuple[bytes, bytes]:
    store_password = read_option(configuration, stores.keystore_password)
    key_password = read_option(configuration, stores.key_password) or store_password
    content = _read(path)
    if _is_pem(read_option(configuration, stores.keystore_type), content):
        return _pem_key_store(path, content, key_password, stores.section)
    private_key, chain, _ = _pkcs12(path, content, store_password)
    if not private_key or not chain:
        raise _bad(path, "has no private key with a certificate")
    return private_key, chain


def _trust_store(configuration: AnyConfiguration, stores: StoreOptions, path: Path) -> bytes:
    content = _read(path)
    if _is_pem(read_option(configuration, stores.truststore_type), content):
        trusted = _certificates(content)
    else:
        _, own, others = _pkcs12(path, content, read_option(configuration, stores.truststore_password))
        trusted = own + others
    if not trusted:
        raise _bad(path, "has no certificate")
    return trusted


def _store(configuration: AnyConfiguration, stores: StoreOptions, option: ConfigOption[str | None]) -> Path:
    text = read_option(configuration, option)
    if not text:
        raise ConfigurationError(
            f"`{stores.section}.enabled` needs `{option.key}` (`flinkpy certs` makes the files)",
            details={"option": option.key},
        )
    return Path(text).expanduser()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _bad(path, f"cannot be read ({error.strerror})") from None


def _bad(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"the TLS file {path} {problem}", details={"path": str(path)})


def _is_pem(configured: str | None, content: bytes) -> bool:
    return configured == "PEM" if configured is not None else b"-----BEGIN " in content


def _certificates(content: bytes) -> bytes:
    return b"".join(block.group() + b"\n" for block in _BLOCK.finditer(content) if block.group(1) == b"CERTIFICATE")


def _pem_key_store(path: Path, content: bytes, password: str | None, section: str) -> tuple[bytes, bytes]:
    keys = [block.group() for block in _BLOCK.finditer(content) if block.group(1).endswith(b"PRIVATE KEY")]
    chain = _certificates(content)
    if len(keys) != 1 or not chain:
        raise _bad(path, "must have one private key and its certificates, all in PEM format")
    key = keys[0] + b"\n"
    if b"ENCRYPTED" in key:
        key = _decrypted(path, key, password, section)
    return key, chain


def _decrypted(path: Path, key: bytes, password: str | None, section: str) -> bytes:
    if not password:
        raise _bad(path, f"has an encrypted private key, and `{section}.key-password` is not set")
    serialization, _ = _cryptography(path)
    try:
        loaded = serialization.load_pem_private_key(key, password.encode())
    except (ValueError, TypeError):
        raise _bad(path, f"cannot be decrypted with `{section}.key-password`") from None
    return _plain(serialization, loaded)


def _pkcs12(path: Path, content: bytes, password: str | None) -> tuple[bytes, bytes, bytes]:
    """Returns the private key, its certificate chain beginning with its own certificate, and other certificates."""
    serialization, pkcs12 = _cryptography(path)
    try:
        store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        hint = "wrong password, or not a PKCS12 file" if password is not None else "is a password missing?"
        raise _bad(path, f"cannot be opened as PKCS12 ({hint})") from None
    encoding = serialization.Encoding.PEM
    key = b"" if store.key is None else _plain(serialization, store.key)
    own = b"" if store.cert is None else store.cert.certificate.public_bytes(encoding)
    others = b"".join(entry.certificate.public_bytes(encoding) for entry in store.additional_certs)
    return (key, own + others, b"") if key else (key, own, others)


def _plain(serialization, key) -> bytes:  # type: ignore[no-untyped-def]
    plain: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return plain


def _cryptography(path: Path):  # type: ignore[no-untyped-def]
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise _bad(path, f"is encrypted or in PKCS12 format, which needs another package: {_INSTALL}") from None
    return serialization, pkcs12


def _fingerprints(configuration: AnyConfiguration, stores: StoreOptions) -> tuple[str, ...]:
    text = read_option(configuration, stores.fingerprints)
    wanted = [part.strip().replace(":", "").lower() for part in (text or "").split(",") if part.strip()]
    for fingerprint in wanted:
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise ConfigurationError(
                f"`{stores.fingerprints.key}` must be SHA-1 or SHA-256 fingerprints (40 or 64 hexadecimal "
                "digits, colons allowed), separated by commas",
                details={"option": stores.fingerprints.key},
            )
    return tuple(wanted)
