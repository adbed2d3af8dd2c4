"""latency-window: from the end of a window to its result in the sink, across two processes."""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result

P99_BAR_MS = 45.0


def run() -> list[Result]:
    """10,000 records/s through source -> key_by -> 100 ms tumbling event-time windows -> sink (ratio = bar / ours)."""
    measured = run_program(sys.executable, "latency_window_job.py")[-1]
    note = ", ".join(f"{name} {measured[name]:.2f} ms" for name in ("p50", "p90", "p99.9", "max"))
    p99 = measured["p99"]
    return [Result("latency of windows p99", p99, P99_BAR_MS, "ms", "the bar", P99_BAR_MS / p99, 1.0, note)]
