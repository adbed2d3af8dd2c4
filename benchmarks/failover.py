"""failover: how long a job is silent after kill -9 of the host of its leading masters, with ZooKeeper."""

from __future__ import annotations

import statistics
import sys

from benchmarks.peers import run_program
from benchmarks.result import Result

BAR_S = 5.0
KILLS = 5
#: Before this timeout no process can know that a host is dead.
SESSION_TIMEOUT_S = 2


def run() -> list[Result]:
    """Measures the median outage of several kills of the leader at 20,000 records/s of 1 kB, half of the capacity."""
    measured = run_program(
        sys.executable, "failover_job.py", "--kills", KILLS, "--session-timeout", f"{SESSION_TIMEOUT_S} s"
    )
    outages_s = sorted(one["outage_s"] for one in measured)
    median_s = statistics.median(outages_s)
    note = f"session time-out {SESSION_TIMEOUT_S} s; {outages_s[0]:.1f} to {outages_s[-1]:.1f} s in {KILLS} kills"
    return [Result("failover", median_s, BAR_S, "s", "the bar", BAR_S / median_s, 1.0, note)]
