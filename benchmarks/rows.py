"""rows and keyed: the same DataStream program on flinkpy and on PyFlink."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.peers import pyflink_python, run_program, steady_rate
from benchmarks.result import Result, rate

#: A warm-up and two sizes each: their difference is the steady rate, free of start-up. Each side runs some seconds.
OUR_ROWS = {"rows": (200_000, 1_000_000, 20_000_000), "keyed": (100_000, 500_000, 5_000_000)}
PEER_ROWS = {"rows": (50_000, 200_000, 1_000_000), "keyed": (5_000, 50_000, 300_000)}


def _ours(job: str) -> list[dict[str, Any]]:
    return run_program(
        sys.executable, "datastream_job.py", "--package", "flinkpy", "--job", job, "--rows", *OUR_ROWS[job]
    )


def _peer(job: str, mode: str) -> list[dict[str, Any]]:
    arguments = ["--package", "pyflink", "--job", job, "--mode", mode, "--rows", *PEER_ROWS[job]]
    return run_program(pyflink_python(), "datastream_job.py", *arguments)


def _compare(job: str, bars: dict[str, float | None]) -> list[Result]:
    ours = steady_rate(_ours(job)) / 1e6
    return [
        rate(f"{job} ({mode})", ours, steady_rate(_peer(job, mode)) / 1e6, "M rows/s", f"PyFlink {mode} mode", bar)
        for mode, bar in bars.items()
    ]


def run_rows() -> list[Result]:
    """number sequence -> map(lambda) -> filter(lambda) -> discard, parallelism 2."""
    return _compare("rows", {"process": 30.0})


def run_keyed() -> list[Result]:
    """number sequence -> map to tuple -> key_by(1000 keys) -> KeyedProcessFunction with a ValueState, parallelism 2."""
    return _compare("keyed", {"process": 60.0, "thread": 20.0})
