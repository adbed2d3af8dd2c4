"""Runs hand-written PySpark programs in one warm session: `spark_peer.py TPCH_DIRECTORY DIRECTORY CONF`.

Reads a line `NAME OUT` at a time, runs the program NAME, and prints its seconds and answer as JSON. OUT is the
directory for files that the program writes.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_tpch import QUERIES

GAP_MS = 60_000
WORD = re.compile(r"[a-z]+")
EVENT = "user bigint, kind string, amount bigint, ts bigint"
Batches = Iterator[pa.RecordBatch]


class Programs:
    """The programs, as an author who knows PySpark writes them: Python only where the functions are Python."""

    def __init__(self, spark: SparkSession, tpch: Path, directory: Path) -> None:
        self._spark = spark
        self._tpch = tpch
        self._directory = directory
        self._out = directory

    def run(self, name: str, out: Path) -> int:
        self._out = out
        if name.startswith("Q"):
            tables = lambda table: self._spark.read.parquet(str(self._tpch / f"{table}.parquet"))  # noqa: E731
            return len(QUERIES[int(name[1:])](tables).collect())
        answer: int = getattr(self, name)()
        return answer

    def _events(self, name: str = "events.parquet") -> DataFrame:
        return self._spark.read.parquet(str(self._directory / name))

    def _written(self, frame: DataFrame, *by: str) -> int:
        frame.write.mode("overwrite").partitionBy(*by).parquet(str(self._out))
        return sum(pq.read_metadata(path).num_rows for path in self._out.rglob("part-*"))

    def words(self) -> int:
        lines = self._spark.read.text(str(self._directory / "words.txt"))
        counted = lines.mapInArrow(tokens, "word string").groupBy("word").count()
        return sum(row[1] * row[1] for row in counted.collect())

    def maps_reduce(self) -> int:
        scored = self._events().mapInArrow(score_rows, "user bigint, n bigint, total bigint")
        totals = scored.repartition("user").mapInArrow(reduce_rows, "user bigint, n bigint, total bigint")
        return sum(row[1] * row[2] for row in totals.collect())

    def join_to_partitions(self) -> int:
        events = self._events().where(F.col("kind") != "refund")
        joined = events.join(F.broadcast(self._events("users.parquet")), "user")
        return self._written(joined.select("user", "amount", "ts", "segment"), "segment")

    def sql_aggregate(self) -> int:
        result = (
            self._events()
            .where(F.col("amount") > 100)
            .groupBy("user", "kind")
            .agg(
                F.count("*").alias("n"),
                F.sum(F.col("amount") * 3 - 1).alias("total"),
                F.max("amount").alias("top"),
                F.avg("amount").alias("mean"),
            )
            .orderBy(F.col("total").desc(), "user", "kind")
            .limit(1000)
        )
        return sum(row["total"] for row in result.collect())

    def state_and_timers(self) -> int:
        by_user = self._events().select("user", "amount", "ts").repartition("user").sortWithinPartitions("user", "ts")
        sessions = by_user.mapInArrow(sessions_of, "user bigint, n bigint, total bigint")
        return sum(row[1] * row[1] + row[2] for row in sessions.collect())

    def windows(self) -> int:
        window = (F.col("ts") - F.pmod(F.col("ts"), F.lit(3_600_000))).alias("window")
        result = self._events().groupBy("user", window).agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        return sum(row["n"] * row["total"] for row in result.collect())

    def csv_to_parquet(self) -> int:
        read = self._spark.read.schema(EVENT).option("header", True).csv(str(self._directory / "events.csv"))
        return self._written(read.where(F.col("kind") == "order"))

    def json_flat_map(self) -> int:
        read = self._spark.read.schema(EVENT).json(str(self._directory / "events.json"))
        parts = read.select("kind", "amount").mapInArrow(halves, "kind string, amount bigint")
        totals = parts.groupBy("kind").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        return sum(row["n"] + row["total"] for row in totals.collect())

    def vectorised(self) -> int:
        scored = self._events().select("user", "kind", "amount").mapInArrow(scores_of, "user bigint, score bigint")
        result = scored.groupBy("user").agg(F.count("*").alias("n"), F.max("score").alias("top"))
        return sum(row["n"] * row["top"] for row in result.collect())

    def merged_streams(self) -> int:
        columns = ["user", "kind", "ts"]
        one = self._events().select(*columns).mapInArrow(shifted(0, 0), "user bigint, kind string, ts bigint")
        other = self._events("one.parquet").select(*columns)
        moved = other.mapInArrow(shifted(3, 5), "user bigint, kind string, ts bigint")
        latest = one.union(moved).repartition("user").mapInArrow(latest_of, "user bigint, kind string, ts bigint")
        return sum(row[2] % 1009 for row in latest.collect())

    def trivial_keyed(self) -> int:
        numbers = self._spark.createDataFrame(
            pa.table({"key": [each % 5 for each in range(1000)], "n": list(range(1000))})
        )
        sums = numbers.repartition("key").mapInArrow(sum_rows, "key bigint, n bigint")
        return sum(row[1] for row in sums.collect())

    def one_file(self) -> int:
        return self._grouped("one.parquet")

    def many_files(self) -> int:
        return self._grouped("many")

    def _grouped(self, name: str) -> int:
        result = self._events(name).where(F.col("amount") > 100).groupBy("kind").agg(F.count("*").alias("n"))
        return sum(row["n"] for row in result.collect())


def tokens(batches: Batches) -> Batches:
    for batch in batches:
        words = [word for line in batch.column(0).to_pylist() for word in WORD.findall(line)]
        yield pa.RecordBatch.from_arrays([pa.array(words, pa.string())], ["word"])


def score_rows(batches: Batches) -> Batches:
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in ("user", "kind", "amount")))
        scored = [(user, 1, amount * 2 + len(kind) if amount % 7 else 0) for user, kind, amount in rows]
        yield batch_of(scored, ("user", "n", "total"))


def reduce_rows(batches: Batches) -> Batches:
    held: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for user, n, total in zip(*(column.to_pylist() for column in batch.columns)):
            before = held.get(user)
            held[user] = (n, total) if before is None else (before[0] + n, max(before[1], total))
    yield batch_of([(user, *each) for user, each in held.items()], ("user", "n", "total"))


def sessions_of(batches: Batches) -> Batches:
    user, n, total, last = None, 0, 0, 0
    for batch in batches:
        ended = []
        for key, amount, time_ms in zip(*(column.to_pylist() for column in batch.columns)):
            if key != user or time_ms - last > GAP_MS:
                if user is not None:
                    ended.append((user, n, total))
                user, n, total = key, 0, 0
            n, total, last = n + 1, total + amount, time_ms
        yield batch_of(ended, ("user", "n", "total"))
    if user is not None:
        yield batch_of([(user, n, total)], ("user", "n", "total"))


def halves(batches: Batches) -> Batches:
    for batch in batches:
        parts = []
        for kind, amount in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist()):
            parts.append((kind, amount // 2))
            if amount % 3:
                parts.append((kind + "-rest", amount - amount // 2))
        yield batch_of(parts, ("kind", "amount"))


def scores_of(batches: Batches) -> Batches:
    for batch in batches:
        score = pc.add(pc.multiply(batch.column("amount"), 3), pc.utf8_length(batch.column("kind")))
        yield pa.RecordBatch.from_arrays([batch.column("user"), pc.cast(score, pa.int64())], ["user", "score"])


def shifted(users: int, ms: int) -> Callable[[Batches], Batches]:
    def shift(batches: Batches) -> Batches:
        for batch in batches:
            rows = zip(*(column.to_pylist() for column in batch.columns))
            yield batch_of([(user + users, kind, ts + ms) for user, kind, ts in rows], ("user", "kind", "ts"))

    return shift


def latest_of(batches: Batches) -> Batches:
    held: dict[int, tuple[int, str]] = {}
    for batch in batches:
        for user, kind, ts in zip(*(column.to_pylist() for column in batch.columns)):
            before = held.get(user)
            if before is None or (ts, kind) > before:
                held[user] = (ts, kind)
    yield batch_of([(user, kind, ts) for user, (ts, kind) in held.items()], ("user", "kind", "ts"))


def sum_rows(batches: Batches) -> Batches:
    sums: dict[int, int] = {}
    for batch in batches:
        for key, n in zip(*(column.to_pylist() for column in batch.columns)):
            sums[key] = sums.get(key, 0) + n
    yield batch_of(list(sums.items()), ("key", "n"))


def batch_of(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> pa.RecordBatch:
    columns: list[Any] = [list(column) for column in zip(*rows)] or [[] for _ in names]
    types = [pa.string() if name == "kind" else pa.int64() for name in names]
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in zip(columns, types)], list(names))


def main(tpch: Path, directory: Path, conf: dict[str, str]) -> None:
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    programs = Programs(spark, tpch, directory)
    for line in sys.stdin:
        name, out = line.split()
        started = time.perf_counter()
        answer = programs.run(name, Path(out))
        seconds = time.perf_counter() - started
        sys.stdout.write(json.dumps({"seconds": seconds, "answer": answer}) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
