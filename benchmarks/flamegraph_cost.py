"""flamegraph-cost: the rate of a job of row functions while its stacks are sampled, and while they are not."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.slices import compare_quiet, compare_slices

#: Slices of each kind, in turns, in one run of one job.
SLICES = 32
SECONDS = 2.5
#: A job may lose 3 % of its rate while somebody looks.
BAR = 0.97


def run() -> list[Result]:
    """All vertices of number sequence -> map -> filter -> rebalance -> map, parallelism 2, sampled as the page does."""
    slices = run_program(sys.executable, "flamegraph_job.py", "--slices", SLICES, "--seconds", SECONDS)
    peer = "the same job, not sampled"
    return [
        compare_slices("flamegraph-cost rate", slices, "seconds", peer, BAR),
        compare_slices("flamegraph-cost rows per CPU", slices, "cpu_seconds", peer, BAR),
        compare_quiet("flamegraph-cost nobody looks", slices, "seconds"),
    ]
