"""metrics-cost: the rate of a job of row functions while all its metrics are read, and while nobody reads them.

Reading is what a reporter and the dashboard cause. The counters, and the rates that each TaskExecutor computes every
five seconds, are there in both kinds of slices.
"""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.slices import compare_quiet, compare_slices

#: Slices of each kind, in turns, in one run of one job.
SLICES = 32
SECONDS = 2.5
#: A job may lose 2 % of its rate.
BAR = 0.98


def run() -> list[Result]:
    """number sequence -> map -> filter -> rebalance -> map, parallelism 2, all metrics read once a second."""
    slices = run_program(sys.executable, "metrics_job.py", "--slices", SLICES, "--seconds", SECONDS)
    peer = "the same job, metrics not read"
    return [
        compare_slices("metrics-cost rate", slices, "seconds", peer, BAR),
        compare_slices("metrics-cost rows per CPU", slices, "cpu_seconds", peer, BAR),
        compare_quiet("metrics-cost nobody reads", slices, "seconds"),
    ]
