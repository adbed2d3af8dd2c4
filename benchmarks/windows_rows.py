"""windows-rows: a Python AggregateFunction on windows of event time, on flinkpy and on PyFlink."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.peers import pyflink_python, run_program, steady_rate
from benchmarks.result import Result, rate

BAR = 20.0
#: A warm-up and two sizes each: their difference is the steady rate, free of start-up.
OUR_ROWS = {"tumble": (200_000, 500_000, 4_000_000), "hop": (100_000, 200_000, 1_500_000)}
PEER_ROWS = {"tumble": (5_000, 20_000, 120_000), "hop": (5_000, 20_000, 80_000)}
_TITLES = {"tumble": "TUMBLE 10 s", "hop": "HOP 2 s / 10 s"}


def _measure(python: Any, package: str, job: str, rows: tuple[int, ...]) -> float:
    measured = run_program(python, "windows_job.py", "--package", package, "--job", job, "--rows", *rows)
    return steady_rate(measured) / 1e6


def run() -> list[Result]:
    """number sequence -> map to tuple -> timestamps -> key_by(1000 keys) -> window -> aggregate, parallelism 1."""
    results = []
    for job, title in _TITLES.items():
        ours = _measure(sys.executable, "flinkpy", job, OUR_ROWS[job])
        peer = _measure(pyflink_python(), "pyflink", job, PEER_ROWS[job])
        results.append(rate(f"windows of rows, {title}", ours, peer, "M rows/s", "PyFlink process mode", BAR))
    return results
