"""Invalid HTTP/2 on the port of a process that serves every service.

The process continues to serve, its port stays open, other connections continue, memory stays bounded, and the log grows
only a little. FLINKPY_HTTP2_FUZZ_CASES is the number of cases, FLINKPY_FUZZ_SEED the number of the first. A failure
names the cases since the last successful check of the server.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzzing import SEED, cases, number_of_cases
from http2_fuzzing import ServerUnderTest, one_case

CASES = number_of_cases("FLINKPY_HTTP2_FUZZ_CASES", 300)
#: A hundred thousand cases take a quarter of an hour on an idle core.
pytestmark = pytest.mark.timeout(max(120, CASES // 10))
#: The number of cases between two checks of the server.
CHECK_EVERY = 50
#: The memory that the process may gain: a few messages of the maximum 32 MiB, because zeros compress well.
MEMORY_BYTES = 96 << 20
#: gRPC's core keeps some 700 bytes of each connection. No Python object of it remains.
BYTES_PER_CASE = 1024
#: The permitted log: one warning of each place that may warn, and two more per second of each.
LOG_BYTES = 1 << 20
#: The server answers invalid bytes within a millisecond. A case for which it only waits ends after this time.
SILENCE_S = 0.003


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerUnderTest]:
    made = ServerUnderTest(tmp_path)
    yield made
    made.close()


def test_mutated_requests_do_no_harm(server: ServerUnderTest) -> None:
    answered = 0
    last_well = SEED
    for number, rng in cases(CASES):
        case = one_case(rng, server.token)
        try:
            answered += bool(server.send(case, wait_s=SILENCE_S))
            if number % CHECK_EVERY == 0 or number == SEED + CASES - 1:
                server.check()
                last_well = number + 1
        except (AssertionError, OSError) as error:
            raise AssertionError(f"one of the cases {last_well} to {number}: {error!r}\n{server.log_tail()}") from error
        allowed = MEMORY_BYTES + (number - SEED) * BYTES_PER_CASE
        assert server.peak_growth_bytes < allowed, f"case {number} took {server.peak_growth_bytes:,} bytes"
    assert answered > CASES / 2, "the server hardly answers, so this tests little"
    assert server.log_bytes < LOG_BYTES, server.log_tail()


def test_the_cases_include_a_path_that_is_not_text() -> None:
    """A server that decodes paths in the loop that accepts calls would end with such a case."""
    made = [one_case(random.Random(number), b"token") for number in range(300)]
    assert any(b"/\xff\xfe" in case or b"/\xc3" in case or b"/\xed\xa0\x80" in case for case in made)
