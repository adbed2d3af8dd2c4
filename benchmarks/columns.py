"""columns: CSV files of bids, in the column lane, beside Flink SQL (Java) reading the same files."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from benchmarks import bids
from benchmarks.peers import pyflink_python, run_program
from benchmarks.result import Result, rate

#: Each query runs several times and the best run counts on both sides, so both are warm.
ROUNDS = 3
BARS = {"filter": 3.0, "aggregate": 6.0}


def best_rates(python: object, program: str, wanted: Iterable[str], rounds: int = ROUNDS) -> dict[str, float]:
    """M rows per second of each query."""
    queries = [query for query in wanted for _ in range(rounds)]
    measured = run_program(str(python), program, bids.directory(), "--queries", *queries)
    return {
        query: bids.ROWS / min(line["seconds"] for line in measured if line["query"] == query) / 1e6 for query in wanted
    }


def run() -> list[Result]:
    """5 M rows of 5 integer columns -> filter; and -> key_by -> count, max, mean per key; parallelism 2."""
    ours = best_rates(sys.executable, "csv_job.py", BARS)
    peer = best_rates(pyflink_python(), "flink_sql_csv.py", BARS)
    return [
        rate(f"columns {query}", ours[query], peer[query], "M rows/s", "Flink SQL (Java)", bar)
        for query, bar in BARS.items()
    ]
