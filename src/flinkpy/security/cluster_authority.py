"""The certificate authority of a cluster without configured TLS. Its key is derived from the cluster secret.

Every service of the control plane has a certificate of this authority. A caller that knows the secret, or has a token
with the authority, verifies it before it sends a token. So no other process on the port of a service gets a token.

Making the certificate needs the package `cryptography`, whose import takes about 45 ms. Therefore the first process
writes the certificate to a file beside the secret, and the others read it.
"""

from __future__ import annotations

import functools
import hmac
import logging
import os
import re
import stat
from pathlib import Path

from flinkpy.common.durable_file import unfinished_path
from flinkpy.security.cluster_secret import ClusterSecret
from flinkpy.security.tls_material import TlsMaterial

logger = logging.getLogger(__name__)

#: The private key of the service's certificate, the certificate, and the authority's certificate.
_FILE = re.compile(
    rb"# ([0-9a-f]{64})\n"
    rb"((-----BEGIN PRIVATE KEY-----\n.*?-----END PRIVATE KEY-----\n)"
    rb"(-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----\n)"
    rb"(-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----\n))",
    re.DOTALL,
)
_MAX_FILE_BYTES = 16 * 1024
_PURPOSE = "tls file"


def authority_file(secret_file: Path) -> Path:
    """Returns the file of the certificate that the processes with this secret file share."""
    return secret_file.with_name(f"{secret_file.name}.pem")


def derived_tls(secret: ClusterSecret, secret_file: Path | None = None) -> TlsMaterial:
    """Returns the certificate of services and the authority that clients trust, from the file or new ones.

    If the file cannot be written, each process makes its own certificate, which is equally trusted. A file that was
    not made with this secret, or that others can read, is replaced.
    """
    if secret_file is None:
        return _in_memory(secret)
    path = authority_file(secret_file)
    found = _read(secret, path)
    if found is None:
        found = _make(secret)
        _write(secret, path, found)
    return found


def authority_pem(secret: ClusterSecret, secret_file: Path) -> bytes:
    """Returns the certificate of the authority, by which clients verify services."""
    return derived_tls(secret, secret_file).trusted_certificates


def of_authority(authority: bytes) -> TlsMaterial:
    """Returns the TLS material of a client that knows only the certificate of the authority (PEM)."""
    return TlsMaterial(b"", b"", authority, source="the token", is_mutual=False)


def _make(secret: ClusterSecret) -> TlsMaterial:
    from flinkpy.security.certificates import derive_authority, make_server_certificate

    # 64 bits more than the key has, so that all keys are equally likely (FIPS 186-5, A.2.1).
    scalar = int.from_bytes(secret.derive_key("tls authority 1") + secret.derive_key("tls authority 2")[:8], "big")
    authority = derive_authority(scalar)
    service = make_server_certificate(authority)
    return _material(service.key_pem, service.certificate_pem, authority.certificate_pem)


#: For secrets without a file.
_in_memory = functools.lru_cache(maxsize=8)(_make)


def _material(key: bytes, certificate: bytes, authority: bytes) -> TlsMaterial:
    return TlsMaterial(key, certificate, authority, source="the cluster secret", is_mutual=False)


def _read(secret: ClusterSecret, path: Path) -> TlsMaterial | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            return None
        content = os.read(descriptor, _MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
    match = _FILE.fullmatch(content)
    if match is None or not hmac.compare_digest(match[1], _check(secret, match[2])):
        return None
    return _material(match[3], match[4], match[5])


def _write(secret: ClusterSecret, path: Path, made: TlsMaterial) -> None:
    content = made.private_key + made.certificate_chain + made.trusted_certificates
    unfinished = unfinished_path(path)
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(b"# " + _check(secret, content) + b"\n" + content)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        logger.debug("%s cannot be written (%s): every process makes its own certificate", path, error.strerror)


def _check(secret: ClusterSecret, content: bytes) -> bytes:
    return hmac.digest(secret.derive_key(_PURPOSE), content, "sha256").hex().encode()
