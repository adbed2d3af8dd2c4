"""recovery: how long a job is silent after kill -9 of one of its TaskExecutors."""

from __future__ import annotations

import sys

from benchmarks.peers import pyflink_python, run_program
from benchmarks.result import Result

#: name -> (keys of a kilobyte each, bar in seconds)
SIZES = {"no state": (100, 3.0), "100 MB": (100_000, 4.0), "1 GB": (1_000_000, 8.0)}
#: Records per second while the TaskExecutor is killed: about half of the capacity of either side.
RATE = 20_000


def run() -> list[Result]:
    """20,000 records/s of 1 kB through key_by into keyed state; the ratio compares flinkpy with Flink 2.3.0."""
    results = []
    for name, (keys, bar_s) in SIZES.items():
        ours = run_program(sys.executable, "recovery_job.py", "--keys", keys, "--rate", RATE)[-1]
        peer = run_program(pyflink_python(), "flink_recovery.py", "--keys", keys, "--rate", RATE)[-1]
        note = (
            f"bar {bar_s:g} s; last checkpoint {ours['state_bytes'] / 1e6:,.0f} / {peer['state_bytes'] / 1e6:,.0f} MB"
        )
        outage_s = ours["outage_s"]
        results.append(Result(f"recovery ({name})", outage_s, bar_s, "s", "the bar", bar_s / outage_s, 1.0, note))
        results.append(
            Result(f"recovery ({name})", outage_s, peer["outage_s"], "s", "Flink 2.3.0", peer["outage_s"] / outage_s)
        )
    return results
