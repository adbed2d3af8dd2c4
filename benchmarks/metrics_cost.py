"""metrics-cost: the rate of a job of row functions while all its metrics are read, and while nobody reads them.

Reading is what a reporter and the dashboard cause. The counters, and the rates that each TaskExecutor computes every
five seconds, are there in both kinds of slices.
"""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.slices import compare_slices

#: Slices of each kind, in turns, in one run of one job.
SLICES = 12
SECONDS = 5.0
#: A job may lose 2 % of its rate.
BAR = 0.98


def run() -> list[Result]:
    """number sequence -> map -> filter -> rebalance -> map, parallelism 2, all metrics read once a second."""
    slices = run_program(sys.executable, "metrics_job.py", "--slices", SLICES, "--seconds", SECONDS)
    read = [one for one in slices if one["read"]]
    quiet = [one for one in slices if not one["read"]]
    note = f"{len(read)} slices of each kind"
    peer = "the same job, metrics not read"
    # Two halves of the quiet slices differ by nothing but chance: what a difference of this run means.
    return [
        compare_slices("metrics-cost rate", read, quiet, "seconds", peer, BAR, note),
        compare_slices("metrics-cost rows per CPU", read, quiet, "cpu_seconds", peer, BAR, note),
        compare_slices(
            "metrics-cost nobody reads", quiet[::2], quiet[1::2], "seconds", "the other half of it", None, "noise"
        ),
    ]
