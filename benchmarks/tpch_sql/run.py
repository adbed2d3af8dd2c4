"""tpch: the 22 queries of TPC-H as SQL in batch mode, beside PySpark on `local[2]` and DuckDB with two threads.

All read the same Parquet files. A query runs on the engines in turn: natively, on flinkpy's Spark backend, and in the
two peers. The first round warms up and its answers are compared, then the best of two rounds counts. Ours goes the
whole way of a job: it is planned, submitted to a cluster with one TaskExecutor, and its rows come back to the program.
The note has the CPU seconds of all processes of each side, which depend less on what else the machine does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from math import exp, log
from pathlib import Path
from typing import Any

import duckdb
import psutil

from benchmarks.peers import BENCH_DIR, PROGRAMS
from benchmarks.result import Result
from benchmarks.tpch_sql.tables import QUERIES, TABLES, create_tables, generate, query
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment

ROUNDS = 2
BAR = 2.0
#: On the Spark backend a query may take 1.1 times as long as the same text in PySpark.
SPARK_BAR = 0.91
THREADS = 2
#: Decimals that DuckDB divides as doubles are equal up to this.
_TOLERANCE = 1e-6

_ON_SPARK = {
    "execution.batch.backend": "spark",
    "execution.batch.spark.master": f"local[{THREADS}]",
    "execution.batch.spark.start-timeout": "5 min",
    "execution.batch.spark.conf.spark.driver.memory": "4g",
}

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class _Side:
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def run(scale: float = 1, queries: Sequence[str] | None = None) -> list[Result]:
    numbers = QUERIES if queries is None else tuple(int(each.removeprefix("q")) for each in queries)
    directory = _data(scale)
    cluster = LocalCluster(LocalClusterOptions(1, {"taskmanager.numberOfTaskSlots": "8"}))
    cluster.start()
    spark = _Spark(directory)
    reference = duckdb.connect(config={"threads": THREADS})
    try:
        for name in TABLES:
            reference.execute(f"CREATE VIEW {name} AS SELECT * FROM '{directory / name}.parquet'")
        tables, on_spark = _tables(cluster, directory), _tables(cluster, directory)
        for key, value in _ON_SPARK.items():
            on_spark.get_config().set(key, value)
        measured = [_measured(number, tables, on_spark, spark, reference) for number in numbers]
    finally:
        reference.close()
        spark.stop()
        cluster.stop()
    natively, in_spark = [pair[0] for pair in measured], [pair[1] for pair in measured]
    return [
        *natively,
        *_means("tpch", natively, scale, BAR),
        *in_spark,
        *_means("tpch on Spark", in_spark, scale, SPARK_BAR),
    ]


def _data(scale: float) -> Path:
    directory = BENCH_DIR / ".data" / f"tpch-sql-{scale:g}"
    if not (directory / "ready").exists():
        generate(directory, scale)
        (directory / "ready").touch()
    return directory


def _tables(cluster: LocalCluster, directory: Path) -> TableEnvironment:
    properties = Configuration.from_dict(dict(cluster.client_properties))
    environment = StreamExecutionEnvironment.get_execution_environment(properties)
    environment.set_parallelism(THREADS)
    tables = StreamTableEnvironment.create(environment, EnvironmentSettings.in_batch_mode())
    create_tables(tables, directory)
    return tables


class _Spark:
    """The process of `programs/spark_sql.py`."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "spark_sql.py"), str(directory), *TABLES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answer()

    @property
    def pid(self) -> int:
        return self._process.pid

    def query(self, text: str) -> tuple[float, Rows]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return answer["seconds"], [tuple(row) for row in answer["rows"]]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"spark_sql.py ended with {self._process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _measured(
    number: int,
    tables: TableEnvironment,
    on_spark: TableEnvironment,
    spark: _Spark,
    reference: duckdb.DuckDBPyConnection,
) -> tuple[Result, Result]:
    """Returns the results of the native backend and of the Spark backend."""
    text = query(number)

    def ours(environment: TableEnvironment) -> tuple[float, Rows]:
        started = time.perf_counter()
        with environment.execute_sql(text).collect() as found:
            rows = [tuple(row) for row in found]
        return time.perf_counter() - started, rows

    def theirs() -> tuple[float, Rows]:
        started = time.perf_counter()
        rows = reference.execute(text.replace("`", '"')).fetchall()
        return time.perf_counter() - started, rows

    answer = theirs()[1]
    _compare(f"Q{number} of flinkpy", ours(tables)[1], answer)
    _compare(f"Q{number} of flinkpy on Spark", ours(on_spark)[1], answer)
    _compare(f"Q{number} of Spark", spark.query(text)[1], answer)
    mine, region, sparks, ducks = _Side(), _Side(), _Side(), _Side()
    for _ in range(ROUNDS):
        _time(mine, lambda: ours(tables), lambda: _cpu_seconds(spark.pid, is_spark=False))
        _time(region, lambda: ours(on_spark), lambda: _cpu_seconds(spark.pid, is_spark=False))
        _time(sparks, lambda: spark.query(text), lambda: _cpu_seconds(spark.pid, is_spark=True))
        _time(ducks, theirs, time.process_time)
    seconds, peer, duck = (min(each.seconds) for each in (mine, sparks, ducks))
    note = (
        f"DuckDB {duck:.3f} s ({duck / seconds:.2f}x); CPU {min(mine.cpu_seconds):.2f} s, "
        f"Spark {min(sparks.cpu_seconds):.2f} s, DuckDB {min(ducks.cpu_seconds):.2f} s"
    )
    result = Result(f"tpch q{number}", seconds, peer, "s", "PySpark local[2]", peer / seconds, None, note)
    sys.stderr.write(f"{result.name}: {seconds:.3f} s, Spark {peer:.3f} s; {note}\n")
    best = min(region.seconds)
    told = f"CPU {min(region.cpu_seconds):.2f} s, PySpark {min(sparks.cpu_seconds):.2f} s"
    on_backend = Result(f"tpch on Spark q{number}", best, peer, "s", "PySpark local[2]", peer / best, None, told)
    sys.stderr.write(f"{on_backend.name}: {best:.3f} s, PySpark {peer:.3f} s; {told}\n")
    return result, on_backend


def _time(side: _Side, call: Callable[[], tuple[float, Rows]], cpu: Callable[[], float]) -> None:
    before = cpu()
    side.seconds.append(call()[0])
    side.cpu_seconds.append(cpu() - before)


def _cpu_seconds(spark_pid: int, *, is_spark: bool) -> float:
    """Returns the CPU seconds that the processes of Spark, or all others below this one, have used so far."""
    me = psutil.Process()
    sparks = psutil.Process(spark_pid)
    of_spark = {sparks, *sparks.children(recursive=True)}
    total = 0.0
    for process in of_spark if is_spark else {me, *me.children(recursive=True)} - of_spark:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _compare(whose: str, rows: Rows, expected: Rows) -> None:
    if len(rows) != len(expected):
        raise AssertionError(f"{whose} has {len(rows)} rows, DuckDB has {len(expected)}")
    for row, wanted in zip(rows, expected):
        if len(row) != len(wanted) or not all(map(_is_same, row, wanted)):
            raise AssertionError(f"{whose} has the row {row}, DuckDB has {wanted}")


def _is_same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, (float, Decimal, int)) and isinstance(value, str):
        value = Decimal(value)
    if isinstance(wanted, float):
        return abs(float(value) - wanted) <= _TOLERANCE * max(1.0, abs(wanted))
    return bool(value == wanted) or str(value) == str(wanted)


def _means(name: str, results: list[Result], scale: float, bar: float) -> list[Result]:
    ratios = [result.ratio for result in results if result.ratio is not None]
    mean = exp(sum(map(log, ratios)) / len(ratios))
    ours = sum(result.ours for result in results)
    peer = sum(result.peer or 0.0 for result in results)
    note = f"geometric mean of {len(results)} queries at scale {scale:g}; the seconds are sums"
    return [Result(name, ours, peer, "s", "PySpark local[2]", mean, bar, note)]
