"""flamegraph-cost: the rate of a job of row functions while its stacks are sampled, and while they are not."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.slices import compare_slices

#: Slices of each kind, in turns, in one run of one job.
SLICES = 12
SECONDS = 5.0
#: A job may lose 3 % of its rate while somebody looks.
BAR = 0.97


def run() -> list[Result]:
    """All vertices of number sequence -> map -> filter -> rebalance -> map, parallelism 2, sampled as the page does."""
    slices = run_program(sys.executable, "flamegraph_job.py", "--slices", SLICES, "--seconds", SECONDS)
    sampled = [one for one in slices if one["sampled"]]
    quiet = [one for one in slices if not one["sampled"]]
    note = f"{len(sampled)} slices of each kind"
    # Two halves of the slices without samples differ by nothing but chance: what a difference of this run means.
    return [
        compare_slices("flamegraph-cost rate", sampled, quiet, "seconds", "the same job, not sampled", BAR, note),
        compare_slices(
            "flamegraph-cost rows per CPU", sampled, quiet, "cpu_seconds", "the same job, not sampled", BAR, note
        ),
        compare_slices(
            "flamegraph-cost nobody looks", quiet[::2], quiet[1::2], "seconds", "the other half of it", None, "noise"
        ),
    ]
