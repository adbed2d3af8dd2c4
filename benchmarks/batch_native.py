"""batch-native: TPC-H's queries 1, 3, 6, 12 and 14 at scale 1, in batch mode, on a cluster of two TaskExecutors.

The peers read the same Parquet files in the same run: PySpark's DataFrames with `local[2]`, and DuckDB with two
threads. All are warm: every query runs several times, the first run does not count, and the best of the others does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.tpch import QUERIES, SQL, TABLES
from benchmarks.tpch_runs import data, on_cluster, timed

SCALE = 1
ROUNDS = 3
BAR = 1.0


def run(numbers: tuple[int, ...] = tuple(QUERIES)) -> list[Result]:
    """Seconds of each query beside PySpark; what DuckDB takes is in the note."""
    directory = data(SCALE)
    ours = on_cluster(directory, numbers, ROUNDS, {"execution.batch.backend": "native"}, task_executors=2, slots=1)
    spark = {
        line["query"]: line["seconds"] for line in run_program(sys.executable, "spark_tpch.py", directory, *numbers)
    }
    duck = in_duckdb(directory, numbers)
    results = []
    for number in numbers:
        seconds, peer = min(ours[number][1:]), min(spark[number][1:])
        shown = "/".join(f"{each:.2f}" for each in ours[number])
        note = f"best of runs 2 and 3 of {shown}; first of PySpark {spark[number][0]:.2f}; DuckDB {duck[number]:.2f}"
        results.append(
            Result(f"batch-native Q{number}", seconds, peer, "s", "PySpark local[2]", peer / seconds, BAR, note)
        )
    return results


def in_duckdb(directory: Path, numbers: tuple[int, ...]) -> dict[int, float]:
    """The best seconds of each query."""
    connection = duckdb.connect(config={"threads": 2})
    for table in TABLES:
        connection.execute(f"create view {table} as select * from '{directory / table}.parquet'")
    best = {
        number: min(timed(lambda sql=SQL[number]: connection.execute(sql).fetchall(), ROUNDS))
        for number in numbers  # type: ignore[misc]
    }
    connection.close()
    return best
