"""batch-native: TPC-H's queries 1, 3, 6, 12 and 14 at scale 1, in batch mode, on a cluster of two TaskExecutors.

The peers read the same Parquet files in the same run: PySpark's DataFrames with `local[2]`, and DuckDB with two
threads. All are warm: every query runs several times, the first run does not count, and the best of the others does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from benchmarks.peers import BENCH_DIR, run_program
from benchmarks.result import Result
from benchmarks.tpch import QUERIES, SQL, TABLES, generate, tables_of
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration
from flinkpy.datastream import StreamExecutionEnvironment

SCALE = 1
ROUNDS = 3
BAR = 1.0


def run(numbers: tuple[int, ...] = tuple(QUERIES)) -> list[Result]:
    """Seconds of each query beside PySpark; what DuckDB takes is in the note."""
    directory = data(SCALE)
    ours = native(directory, numbers)
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


def data(scale: float) -> Path:
    """The generated tables, made on first use."""
    directory = BENCH_DIR / ".data" / f"tpch-{scale}"
    if not (directory / "ready").exists():
        generate(directory, scale)
        (directory / "ready").touch()
    return directory


def native(directory: Path, numbers: tuple[int, ...], rounds: int = ROUNDS) -> dict[int, list[float]]:
    """Seconds of each run of each query."""
    cluster = LocalCluster(LocalClusterOptions(2, {"taskmanager.numberOfTaskSlots": "1"}))
    cluster.start()
    try:
        host, _, port = cluster.dispatcher_address.rpartition(":")
        properties = {
            "jobmanager.rpc.address": host,
            "jobmanager.rpc.port": port,
            "execution.target": "remote",
            "execution.runtime-mode": "BATCH",
            "execution.batch.backend": "native",
        }
        return {number: _timed(lambda n=number: _answer(properties, directory, n), rounds) for number in numbers}  # type: ignore[misc]
    finally:
        cluster.stop()


def in_duckdb(directory: Path, numbers: tuple[int, ...]) -> dict[int, float]:
    """The best seconds of each query."""
    connection = duckdb.connect(config={"threads": 2})
    for table in TABLES:
        connection.execute(f"create view {table} as select * from '{directory / table}.parquet'")
    best = {
        number: min(_timed(lambda sql=SQL[number]: connection.execute(sql).fetchall(), ROUNDS))
        for number in numbers  # type: ignore[misc]
    }
    connection.close()
    return best


def _answer(properties: dict[str, str], directory: Path, number: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(properties))
    env.set_parallelism(2)
    with QUERIES[number](tables_of(env, directory)).execute_and_collect() as results:
        assert list(results), f"Q{number} has no result"


def _timed(query: Callable[[], object], rounds: int) -> list[float]:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        query()
        seconds.append(time.perf_counter() - started)
    return seconds
