"""TlsMaterial: the private key and certificates of this process, and the authorities that it trusts.

With mutual TLS, both sides of a connection show a certificate. Addresses of peers change, so certificates do not name
them: all have the name `flinkpy-internal`, and the authority signs certificates of cluster members only.

Source: org.apache.flink.runtime.net.SSLUtils.
Differs: always TLS 1.2 or newer with the library's default ciphers. `security.ssl.protocol` and `.algorithms` are
ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import security_options
from flinkpy.configuration.options import AnyConfiguration, read_option

if TYPE_CHECKING:
    import ssl

#: The name in the certificates of all services of a cluster.
PEER_NAME = "flinkpy-internal"
#: The name in the certificates of ZooKeeper servers, which cannot pretend to be a service of the cluster.
ZOOKEEPER_NAME = "flinkpy-zookeeper"


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Keys and certificates as PEM bytes.

    Attributes:
        private_key: the private key, not encrypted.
        certificate_chain: the certificate of this process, and those that sign it.
        trusted_certificates: the certificates of the authorities.
        fingerprints: SHA-1 or SHA-256 digests in lower-case hexadecimal. If not empty, the certificate of a peer must
            have one of them.
        handshake_timeout_ms: the time-out of a handshake; None: the default of the caller.
        source: the files that it was read from, for messages.
        is_mutual: True if clients show a certificate too. Otherwise a client needs no private key.
    """

    private_key: bytes = field(repr=False)
    certificate_chain: bytes = field(repr=False)
    trusted_certificates: bytes = field(repr=False)
    fingerprints: tuple[str, ...] = ()
    handshake_timeout_ms: int | None = None
    source: str = ""
    is_mutual: bool = True

    @classmethod
    def of_configuration(cls, configuration: AnyConfiguration) -> TlsMaterial | None:
        """Reads the files of `security.ssl.internal.*`. None: TLS is not enabled. Raises: ConfigurationError."""
        if not read_option(configuration, security_options.INTERNAL_ENABLED):
            return None
        from flinkpy.security.key_stores import load_tls_material

        return load_tls_material(configuration)

    def server_context(self) -> ssl.SSLContext:
        """Returns the context of a server. Clients must show a certificate if TLS is mutual."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        return self._fill(context, ssl.CERT_REQUIRED if self.is_mutual else ssl.CERT_NONE)

    def client_context(self) -> ssl.SSLContext:
        """Returns the context of a client. The server's certificate must have the name given as `server_hostname`."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = True
        return self._fill(context, ssl.CERT_REQUIRED)

    def is_pinned_out(self, certificate_der: bytes) -> bool:
        """True if fingerprints are configured and the certificate has none of them."""
        if not self.fingerprints:
            return False
        import hashlib

        digests = {hashlib.sha1(certificate_der).hexdigest(), hashlib.sha256(certificate_der).hexdigest()}
        return digests.isdisjoint(self.fingerprints)

    def check(self, *, is_service: bool) -> None:
        """Makes a handshake with itself, so that errors that concern every peer are found at the start.

        Raises: ConfigurationError naming the files and the likely cause.
        """
        import ssl

        try:
            server, client = self.server_context(), self.client_context()
        except ssl.SSLError as error:
            raise self._refused(_CAUSES.get(error.reason or "", error.reason or str(error))) from None
        if not is_service:
            # Checks only the certificate of this process: no peer requires the name of a service from a client.
            client.check_hostname = False
            client.verify_mode = ssl.CERT_NONE
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = (
            client.wrap_bio(back, there, server_hostname=PEER_NAME),
            server.wrap_bio(there, back, server_side=True),
        )
        try:
            unfinished = list(sides)
            while unfinished:
                for side in list(unfinished):
                    try:
                        side.do_handshake()
                    except ssl.SSLWantReadError:
                        continue
                    unfinished.remove(side)
        except ssl.SSLCertVerificationError as error:
            raise self._refused(verification_failure(error.verify_message)) from None
        except ssl.SSLError as error:
            raise self._refused(error.reason or str(error)) from None

    def _refused(self, cause: str) -> ConfigurationError:
        return ConfigurationError(f"TLS cannot work with {self.source or 'this certificate'}: {cause}")

    def _fill(self, context: ssl.SSLContext, verify_mode: ssl.VerifyMode) -> ssl.SSLContext:
        import ssl

        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = verify_mode
        context.load_verify_locations(cadata=self.trusted_certificates.decode("ascii"))
        if self.private_key:
            with _as_file(self.certificate_chain + b"\n" + self.private_key) as path:
                context.load_cert_chain(path)
        return context

    def __reduce__(self) -> NoReturn:
        raise TypeError("TlsMaterial holds a private key and is not pickled")


_CAUSES = {
    "KEY_VALUES_MISMATCH": "the private key does not belong to the first certificate in the key store",
    "NO_CERTIFICATE_OR_CRL_FOUND": "the trust store has no readable certificate",
    "PEM_LIB": "the key store cannot be read: it is damaged or not PEM",
}


def verification_failure(reason: str, name: str = PEER_NAME) -> str:
    """Returns why a certificate was refused, with the likely cause. `name` is the expected name."""
    if "expired" in reason:
        return "the certificate has expired (`flinkpy certs --renew` makes a new one), or a clock is wrong"
    if "not yet valid" in reason:
        return "the certificate is not valid yet: a clock is wrong"
    if "ostname mismatch" in reason or "IP address mismatch" in reason:
        likely = "it is that of a client, or not of flinkpy" if name == PEER_NAME else "it was made for another server"
        return f"the certificate does not have the name {name}: {likely}"
    if "purpose" in reason:
        return "the certificate is for clients and cannot be used by a service"
    if (
        "issuer" in reason
        or "certificate signature failure" in reason
        or "self-signed" in reason
        or "self signed" in reason
    ):
        return "the certificate is not signed by an authority in the trust store"
    return reason


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Provides the content as a file in memory, for a library that reads files only."""
    descriptor = os.memfd_create("tls-material", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
