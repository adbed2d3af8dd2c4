"""windows: event-time windows over CSV files of bids, in the column lane, beside Flink SQL (Java) on the same files."""

from __future__ import annotations

import sys

from benchmarks.columns import best_rates
from benchmarks.peers import pyflink_python
from benchmarks.result import Result, rate

#: TUMBLE of 10 s, and HOP of 10 s every 2 s.
BARS = {"tumble": 8.0, "hop": 25.0}


def run() -> list[Result]:
    """5 M rows -> key_by -> windows -> count, max per key and window; 4 s out of order; parallelism 2.

    The peer runs each query once: it takes a minute, and its start is nothing beside that.
    """
    ours = best_rates(sys.executable, "csv_job.py", BARS)
    peer = best_rates(pyflink_python(), "flink_sql_csv.py", BARS, rounds=1)
    return [
        rate(f"windows {query}", ours[query], peer[query], "M rows/s", "Flink SQL (Java)", bar)
        for query, bar in BARS.items()
    ]
