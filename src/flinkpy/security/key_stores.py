"""Reads key stores and trust stores in the formats PEM and PKCS12."""

from __future__ import annotations

import re
from pathlib import Path

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import security_options
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, read_option
from flinkpy.security.tls_material import TlsMaterial

_FINGERPRINT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_INSTALL = "pip install 'flinkpy[tls]'"


def load_tls_material(configuration: AnyConfiguration) -> TlsMaterial:
    """Reads the files that the options name. Raises: ConfigurationError naming the option, the file and the problem."""
    key_store = _store(configuration, security_options.INTERNAL_KEYSTORE)
    trust_store = _store(configuration, security_options.INTERNAL_TRUSTSTORE)
    store_password = read_option(configuration, security_options.INTERNAL_KEYSTORE_PASSWORD)
    key_password = read_option(configuration, security_options.INTERNAL_KEY_PASSWORD) or store_password
    key_store_content, trust_store_content = _read(key_store), _read(trust_store)
    if _is_pem(read_option(configuration, security_options.INTERNAL_KEYSTORE_TYPE), key_store_content):
        private_key, chain = _pem_key_store(key_store, key_store_content, key_password)
    else:
        private_key, chain, _ = _pkcs12(key_store, key_store_content, store_password)
        if not private_key or not chain:
            raise _bad(key_store, "has no private key with a certificate")
    if _is_pem(read_option(configuration, security_options.INTERNAL_TRUSTSTORE_TYPE), trust_store_content):
        trusted = _certificates(trust_store_content)
    else:
        password = read_option(configuration, security_options.INTERNAL_TRUSTSTORE_PASSWORD)
        _, own, others = _pkcs12(trust_store, trust_store_content, password)
        trusted = own + others
    if not trusted:
        raise _bad(trust_store, "has no certificate")
    timeout_ms = read_option(configuration, security_options.INTERNAL_HANDSHAKE_TIMEOUT)
    return TlsMaterial(
        private_key=private_key,
        certificate_chain=chain,
        trusted_certificates=trusted,
        fingerprints=_fingerprints(read_option(configuration, security_options.INTERNAL_CERT_FINGERPRINT)),
        handshake_timeout_ms=None if timeout_ms < 0 else timeout_ms,
        source=f"key store {key_store}, trust store {trust_store}",
    )


def _store(configuration: AnyConfiguration, option: ConfigOption[str | None]) -> Path:
    text = read_option(configuration, option)
    if not text:
        raise ConfigurationError(
            f"`security.ssl.internal.enabled` needs `{option.key}` (`flinkpy certs` makes the files)",
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


def _pem_key_store(path: Path, content: bytes, password: str | None) -> tuple[bytes, bytes]:
    keys = [block.group() for block in _BLOCK.finditer(content) if block.group(1).endswith(b"PRIVATE KEY")]
    chain = _certificates(content)
    if len(keys) != 1 or not chain:
        raise _bad(path, "must have one private key and its certificates, all in PEM format")
    key = keys[0] + b"\n"
    if b"ENCRYPTED" in key:
        key = _decrypted(path, key, password)
    return key, chain


def _decrypted(path: Path, key: bytes, password: str | None) -> bytes:
    if not password:
        raise _bad(path, "has an encrypted private key, and `security.ssl.internal.key-password` is not set")
    serialization, _ = _cryptography(path)
    try:
        loaded = serialization.load_pem_private_key(key, password.encode())
    except (ValueError, TypeError):
        raise _bad(path, "cannot be decrypted with `security.ssl.internal.key-password`") from None
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


def _fingerprints(text: str | None) -> tuple[str, ...]:
    wanted = [part.strip().replace(":", "").lower() for part in (text or "").split(",") if part.strip()]
    for fingerprint in wanted:
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise ConfigurationError(
                "`security.ssl.internal.cert.fingerprint` must be SHA-1 or SHA-256 fingerprints (40 or 64 hexadecimal "
                "digits, colons allowed), separated by commas",
                details={"option": security_options.INTERNAL_CERT_FINGERPRINT.key},
            )
    return tuple(wanted)
