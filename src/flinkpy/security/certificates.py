"""Makes a certificate authority and certificates that it signs. Needs the package `cryptography`.

Each cluster has its own authority, and the holders of its certificates are members of the cluster. Certificates of
services have the name `flinkpy-internal`, which callers check. Those of clients have another name, so that a client
cannot pretend to be a service.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UserError
from flinkpy.security.tls_material import PEER_NAME, ZOOKEEPER_NAME

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

CLIENT_NAME = "flinkpy-client"
#: The name in certificates of REST servers. Its holders are no members of the cluster.
REST_NAME = "flinkpy-rest"
#: The names and addresses of the host itself.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: RFC 1035, 2.3.4, and a label of RFC 1123, 2.1. Underscores occur in names of containers.
_MAX_HOST_LENGTH = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: The tolerated difference between the clocks of two hosts.
_CLOCK_DIFFERENCE = timedelta(minutes=5)
#: An authority outlives its certificates, which are renewed.
_AUTHORITY_LIFETIME = timedelta(days=3650)
#: A date before that of any clock, and the date that means no end (RFC 5280, 4.1.2.5).
_FOR_EVER = (datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
#: The order of the curve P-256 (SP 800-186, 3.2.1.3).
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate."""

    key: EllipticCurvePrivateKey = field(repr=False)
    certificate: Certificate

    @property
    def key_pem(self) -> bytes:
        serialization = _cryptography()
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(_cryptography().Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 fingerprint, in the form of `security.ssl.internal.cert.fingerprint`."""
        from cryptography.hazmat.primitives import hashes

        return self.certificate.fingerprint(hashes.SHA256()).hex()

    def as_pkcs12(self, name: str, authority: Identity, password: bytes) -> bytes:
        """Returns a PKCS12 key store, which Java can also read."""
        serialization = _cryptography()
        from cryptography.hazmat.primitives.serialization import pkcs12

        return pkcs12.serialize_key_and_certificates(
            name.encode(),
            self.key,
            self.certificate,
            [authority.certificate],
            serialization.BestAvailableEncryption(password),
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of hosts and addresses in the certificate."""
        from cryptography import x509

        found = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]
        return tuple(name for name in names if name not in (PEER_NAME, ZOOKEEPER_NAME, REST_NAME, CLIENT_NAME))

    @classmethod
    def of_pem(cls, key_pem: bytes, certificate_pem: bytes) -> Identity:
        """Reads a key and its certificate. Raises: ValueError."""
        serialization = _cryptography()
        from cryptography import x509

        key: Any = serialization.load_pem_private_key(key_pem, None)
        return cls(key, x509.load_pem_x509_certificate(certificate_pem))


def trust_store_pkcs12(authority: Identity, password: bytes) -> bytes:
    serialization = _cryptography()
    from cryptography.hazmat.primitives.serialization import pkcs12

    return pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(authority.certificate, b"authority")],
        serialization.BestAvailableEncryption(password),
    )


def make_authority(now_ms: int, name: str = "flinkpy cluster authority") -> Identity:
    from cryptography.hazmat.primitives.asymmetric import ec

    return _authority(ec.generate_private_key(ec.SECP256R1()), name, *_lifetime(now_ms, _AUTHORITY_LIFETIME))


def derive_authority(scalar: int) -> Identity:
    """Returns the authority whose private key is derived from `scalar`. It does not expire.

    All processes derive the same key and name, so they trust each other's certificates.
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.derive_private_key(scalar % (_P256_ORDER - 1) + 1, ec.SECP256R1())
    return _authority(key, "flinkpy cluster authority", *_FOR_EVER)


def make_server_certificate(authority: Identity) -> Identity:
    """Makes a key and a certificate of a service, also for loopback addresses. They do not expire."""
    return _certificate(authority, PEER_NAME, [_alternative(host) for host in LOOPBACK], *_FOR_EVER)


def _authority(key: EllipticCurvePrivateKey, name: str, begin: datetime, end: datetime) -> Identity:
    from cryptography import x509

    subject = _name(name)
    builder = _builder(subject, subject, key, begin, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    return Identity(key, _signed(builder, key))


def make_certificate(
    authority: Identity, name: str, now_ms: int, lifetime: timedelta, hosts: Sequence[str] = ()
) -> Identity:
    """Makes a key and a certificate. Only PEER_NAME, ZOOKEEPER_NAME and REST_NAME are names of servers.

    Args:
        hosts: names (perhaps with a leading `*.`) and IP addresses by which browsers and other clients that expect the
            name of a host reach the server.

    Raises:
        ValueError: see `check_host`.
    """
    return _certificate(authority, name, [_alternative(host) for host in hosts], *_lifetime(now_ms, lifetime))


def check_host(host: str) -> IPv4Address | IPv6Address | str:
    """Returns the address, or the name in lower case. Raises: ValueError if it is neither."""
    with contextlib.suppress(ValueError):
        return ip_address(host.strip("[]"))
    labels = host.lower().removeprefix("*.").split(".")
    # A name that ends in a number is an address that is wrong.
    if len(host) > _MAX_HOST_LENGTH or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise ValueError(f"{host!r} is neither a name of a host nor an IP address")
    return host.lower()


def _alternative(host: str) -> Any:
    """Returns the subject alternative name of a host."""
    from cryptography import x509

    checked = check_host(host)
    return x509.DNSName(checked) if isinstance(checked, str) else x509.IPAddress(checked)


def _certificate(authority: Identity, name: str, more_names: list[Any], begin: datetime, end: datetime) -> Identity:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), authority.certificate.subject, key, begin, end)
    uses = [] if name == REST_NAME else [ExtendedKeyUsageOID.CLIENT_AUTH]
    if name in (PEER_NAME, ZOOKEEPER_NAME, REST_NAME):
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    for extension, is_critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName([x509.DNSName(name), *more_names]), False),
        (_key_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage(uses), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical=is_critical)
    return Identity(key, _signed(builder, authority.key))


def _name(name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _lifetime(now_ms: int, lifetime: timedelta) -> tuple[datetime, datetime]:
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    return min(now, now + lifetime) - _CLOCK_DIFFERENCE, now + lifetime


def _builder(subject: Any, issuer: Any, key: EllipticCurvePrivateKey, begin: datetime, end: datetime) -> Any:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: Any, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives import hashes

    certificate: Certificate = builder.sign(key, hashes.SHA256())
    return certificate


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise UserError("making certificates needs another package: pip install 'flinkpy[tls]'") from None
    return serialization
