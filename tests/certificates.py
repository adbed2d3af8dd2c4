"""Certificate authorities for tests, and certificates that are wrong in one way or another."""

from __future__ import annotations

import datetime as dt
import ipaddress
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flinkpy.security import PEER_NAME, TlsMaterial

_DAY = dt.timedelta(days=1)


class Authority:
    """A certificate authority for members of a cluster."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self.certificate = (
            _begin(self._name, self._name, self._key, -_DAY, 10 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return _pem(self.certificate)

    def member(
        self,
        *,
        name: str = PEER_NAME,
        valid_from: dt.timedelta = -_DAY,
        valid_for: dt.timedelta = 2 * _DAY,
        trusted: Authority | None = None,
    ) -> TlsMaterial:
        """Returns the security context of a process with a certificate of this authority.

        Args:
            trusted: the authority whose certificates it accepts, by default this one.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a member")])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        names: list[x509.GeneralName] = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            _begin(subject, self._name, key, valid_from, valid_from + valid_for)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(usage, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return TlsMaterial(_private_pem(key), _pem(certificate), (trusted or self).pem)


@cache
def authority() -> Authority:
    """The authority of the cluster under test."""
    return Authority()


def self_signed() -> TlsMaterial:
    """A self-signed certificate that trusts the cluster's authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, PEER_NAME)])
    certificate = (
        _begin(name, name, key, -_DAY, _DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(PEER_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return TlsMaterial(_private_pem(key), _pem(certificate), authority().pem)


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    valid_from: dt.timedelta,
    valid_to: dt.timedelta,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid_from)
        .not_valid_after(now + valid_to)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
