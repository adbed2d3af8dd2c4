"""tls: the exchange of `exchange.py` between two processes with mutual TLS, beside the same exchange in plaintext.

Both sides prove in either case that they know the cluster's secret, as they do by default. They take turns on the same
machine; the best of each counts, since whatever else runs here only takes away.
"""

from __future__ import annotations

import datetime as dt
import time

from benchmarks.exchange import Pipe, all_of, consume, environment_of, measure, produce, scale_of
from benchmarks.result import Result, rate
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.security import PEER_NAME, TlsMaterial
from flinkpy.security.certificates import make_authority, make_certificate

_ROUNDS = 3
#: rows per batch -> batches per round
_CASES = {65_536: 1_000, 1_024: 30_000}
_BAR = 0.4

#: Private key, certificate and authority, or nothing without TLS. Key material cannot be pickled, so its parts are.
_Pem = tuple[bytes, bytes, bytes] | None


def run() -> list[Result]:
    """Returns one result per batch size: GB/s for large batches, batches/s for small ones."""
    pem = _pem_of_a_member()
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
    return environment_of(resource_id, None if pem is None else TlsMaterial(*pem))


def _pem_of_a_member() -> tuple[bytes, bytes, bytes]:
    now_ms = time.time_ns() // 1_000_000
    authority = make_authority(now_ms)
    member = make_certificate(authority, PEER_NAME, now_ms, dt.timedelta(days=1))
    return member.key_pem, member.certificate_pem, authority.certificate_pem


if __name__ == "__main__":
    from benchmarks.result import print_results

    print_results(run())
