"""tls: the exchange of `exchange.py` between two processes with mutual TLS, beside the same exchange in plaintext.

Both sides prove in either case that they know the cluster's secret, as they do by default. They take turns on the same
machine; the best of each counts, since whatever else runs here only takes away.
"""

from __future__ import annotations

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.exchange import Pipe, all_of, consume, measure, produce, scale_of
from benchmarks.result import Result, rate
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.transport.authenticator import HmacAuthenticator
from flinkpy.security import PEER_NAME, TlsMaterial

_ROUNDS = 4
#: rows per batch -> batches per round
_CASES = {65_536: 1_500, 1_024: 60_000}
_BAR = 0.4
_KEY = bytes(32)

#: Private key and certificate, which is its own authority; nothing where there is no TLS.
_Pem = tuple[bytes, bytes] | None


def run() -> list[Result]:
    """One result per batch size: GB/s for large batches, batches/s for small ones."""
    pem = _key_and_certificate()
    results = []
    for rows, batches in _CASES.items():
        plain, encrypted = [], []
        for _ in range(_ROUNDS):
            plain.append(measure(_producer, _consumer, rows, batches, None))
            encrypted.append(measure(_producer, _consumer, rows, batches, pem))
        scale, unit = scale_of(rows, batches)
        results.append(
            rate(
                f"mutual TLS, {rows:,}-row batches",
                scale / min(encrypted),
                scale / min(plain),
                unit,
                "the same in plaintext",
                _BAR,
                f"best of {_ROUNDS}; ours {all_of(scale, encrypted)}, peer {all_of(scale, plain)}",
            )
        )
    return results


def _producer(pipe: Pipe, rows: int, batches: int, pem: _Pem) -> None:
    produce(_environment("producer", pem), pipe, rows, batches)


def _consumer(pipe: Pipe, result: Pipe, rows: int, batches: int, pem: _Pem) -> None:
    consume(_environment("consumer", pem), pipe, result, rows, batches)


def _environment(resource_id: str, pem: _Pem) -> NetworkEnvironment:
    material = None if pem is None else TlsMaterial(pem[0], pem[1], pem[1])
    return NetworkEnvironment(resource_id=resource_id, authenticator=HmacAuthenticator(_KEY), tls=material)


def _key_and_certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, PEER_NAME)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(PEER_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


if __name__ == "__main__":
    from benchmarks.result import print_results

    print_results(run())
