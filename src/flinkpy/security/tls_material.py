"""TlsMaterial: this process's private key and certificates, and the authority whose certificates it trusts.

Both sides of every connection show a certificate. Peers are called by addresses that change, so that a certificate is
no proof of an address: all carry the one name `flinkpy-internal`, and the authority signs for members of the cluster
only.

Source: org.apache.flink.runtime.net.SSLUtils.
Differs: TLS 1.2 or newer with the library's own ciphers, whatever `security.ssl.protocol` and `.algorithms` say.
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

#: The name in all certificates of a cluster.
PEER_NAME = "flinkpy-internal"
#: The name in those of ZooKeeper's servers, which cannot pass as a service of the cluster.
ZOOKEEPER_NAME = "flinkpy-zookeeper"


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """PEM bytes.

    Attributes:
        private_key: not encrypted.
        certificate_chain: this process's certificate first.
        trusted_certificates: those of the authorities.
        fingerprints: SHA-1 or SHA-256 digests in lower-case hexadecimal; where any are given, a peer's certificate must
            have one of them.
        handshake_timeout_ms: how long a handshake may take; None for the default of who does it.
        source: the files it was read from, for messages.
        is_mutual: whether those who connect show a certificate too. Where they do not there may be no private key.
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
        """What `security.ssl.internal.*` names, or None where TLS is not enabled. Raises: ConfigurationError."""
        if not read_option(configuration, security_options.INTERNAL_ENABLED):
            return None
        from flinkpy.security.key_stores import load_tls_material

        return load_tls_material(configuration)

    def server_context(self) -> ssl.SSLContext:
        """For the side that is connected to; the peer must show a certificate where TLS is mutual."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        return self._fill(context, ssl.CERT_REQUIRED if self.is_mutual else ssl.CERT_NONE)

    def client_context(self) -> ssl.SSLContext:
        """For the side that connects, with the name the other must have as `server_hostname`, which is checked."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = True
        return self._fill(context, ssl.CERT_REQUIRED)

    def is_pinned_out(self, certificate_der: bytes) -> bool:
        """Whether fingerprints are asked for and the peer's certificate has none of them."""
        if not self.fingerprints:
            return False
        import hashlib

        digests = {hashlib.sha1(certificate_der).hexdigest(), hashlib.sha256(certificate_der).hexdigest()}
        return digests.isdisjoint(self.fingerprints)

    def check(self, *, is_service: bool) -> None:
        """Shake hands with oneself: what is certain to fail with every peer is told at the start.

        Raises: ConfigurationError naming the files and the likely cause.
        """
        import ssl

        try:
            server, client = self.server_context(), self.client_context()
        except ssl.SSLError as error:
            raise self._refused(_CAUSES.get(error.reason or "", error.reason or str(error))) from None
        if not is_service:
            # Only what it shows is looked at: no peer asks a client for the name of a service.
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
    "KEY_VALUES_MISMATCH": "the private key is not that of the first certificate in the key store",
    "NO_CERTIFICATE_OR_CRL_FOUND": "the trust store has no certificate that can be read",
    "PEM_LIB": "the key store cannot be read: it is damaged, or no PEM",
}


def verification_failure(reason: str, name: str = PEER_NAME) -> str:
    """Why a certificate was refused, in words and with the likely cause; `name` is what it should have been for."""
    if "expired" in reason:
        return "the certificate has expired (`flinkpy certs --renew` makes a new one), or a clock is wrong"
    if "not yet valid" in reason:
        return "the certificate is not valid yet: a clock is wrong"
    if "ostname mismatch" in reason or "IP address mismatch" in reason:
        likely = "it is a client's, or not of flinkpy" if name == PEER_NAME else "it was made for something else"
        return f"the certificate has not the name {name}: {likely}"
    if "purpose" in reason:
        return "the certificate is a client's, which is not good for a service"
    if (
        "issuer" in reason
        or "certificate signature failure" in reason
        or "self-signed" in reason
        or "self signed" in reason
    ):
        return "the certificate is not signed by an authority in the trust store: they are of different authorities"
    return reason


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A file for a library that reads files only; it is in memory, and nobody else can open it."""
    descriptor = os.memfd_create("tls-material", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
