"""Ten batch pipelines as flinkpy programs, and their input. `programs/spark_peer.py` has the same ones in PySpark.

Together they have what jobs of users have: Python functions per record and per batch, reductions, state and timers,
joins, windows, text formats, and files as results. Each returns a number that depends on its results, so that both
sides can be compared.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from flinkpy.common import Row, Time, Types, WatermarkStrategy
from flinkpy.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import avg, count, max_, sum_
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from flinkpy.datastream.expressions import col
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.datastream.window import TumblingEventTimeWindows

#: Events at scale 1.
EVENTS = 1_000_000
KINDS = ("view", "click", "order", "refund")
NUM_FILES = 300
GAP_MS = 60_000
_WORD = re.compile(r"[a-z]+")

EVENT = Types.ROW_NAMED(["user", "kind", "amount", "ts"], [Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()])
TOTAL = Types.ROW_NAMED(["user", "n", "total"], [Types.LONG(), Types.LONG(), Types.LONG()])


def generate(directory: Path, scale: float) -> None:
    """Writes the input files, which are always the same for a scale."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = int(EVENTS * scale)
    numbers = np.random.default_rng(7)
    users = max(10, rows // 50)
    events = pa.table(
        {
            "user": numbers.integers(0, users, rows),
            "kind": pa.array(KINDS).take(pa.array(numbers.integers(0, len(KINDS), rows))),
            "amount": numbers.integers(0, 10_000, rows),
            "ts": 1_700_000_000_000 + np.arange(rows, dtype=np.int64) * 10,
        }
    )
    pq.write_table(events, directory / "events.parquet", row_group_size=max(1, rows // 8))
    facts = {"user": np.arange(users), "segment": pa.array([f"s{each % 12}" for each in range(users)])}
    pq.write_table(pa.table(facts), directory / "users.parquet")
    pa_csv.write_csv(events.slice(0, rows // 2), directory / "events.csv")
    with (directory / "events.json").open("w") as file:
        for row in events.slice(0, rows // 4).to_pylist():
            file.write(json.dumps(row) + "\n")
    chosen = random.Random(7)
    vocabulary = ["".join(chosen.choices("abcdefghij", k=chosen.randint(2, 7))) for _ in range(5000)]
    with (directory / "words.txt").open("w") as file:
        for _ in range(rows // 10):
            file.write(" ".join(chosen.choices(vocabulary, k=8)) + "\n")
    many = directory / "many"
    many.mkdir(exist_ok=True)
    for number in range(NUM_FILES):
        part = events.slice(number * rows // NUM_FILES, rows // NUM_FILES)
        pq.write_table(part, many / f"part-{number:03}.parquet")
    pq.write_table(events.slice(0, rows // NUM_FILES * NUM_FILES), directory / "one.parquet")


class Pipelines:
    """The pipelines over the files of one directory. `out` is an empty directory for files that a pipeline writes."""

    def __init__(self, env: StreamExecutionEnvironment, directory: Path, out: Path) -> None:
        self._env = env
        self._directory = directory
        self._out = out

    def _read(self, source: Any) -> DataStream:
        return self._env.from_source(source, WatermarkStrategy.no_watermarks(), "input")

    def _events(self) -> DataStream:
        return self._read(FileSource.for_parquet(str(self._directory / "events.parquet")))

    def _written(self, stream: DataStream, row_type: Any, assigner: BucketAssigner | None = None) -> int:
        builder = FileSink.for_bulk_format(str(self._out), ParquetBulkWriters.for_row_type(row_type))
        if assigner is not None:
            builder = builder.with_bucket_assigner(assigner)
        stream.sink_to(builder.build())
        self._env.execute()
        return sum(pq.read_metadata(path).num_rows for path in self._out.rglob("*part-*"))

    def words(self) -> int:
        lines = self._read(
            FileSource.for_record_stream_format(
                StreamFormat.text_line_format(), str(self._directory / "words.txt")
            ).build()
        )
        pair = Types.TUPLE([Types.STRING(), Types.LONG()])
        counted = (
            lines.flat_map(tokens, pair)
            .key_by(lambda each: each[0], Types.STRING())
            .reduce(lambda one, other: (one[0], one[1] + other[1]))
        )
        return sum(n * n for _, n in _collected(counted))

    def maps_reduce(self) -> int:
        totals = (
            self._events()
            .map(scored, TOTAL)
            .key_by(lambda row: row["user"], Types.LONG())
            .reduce(lambda one, other: Row(one[0], one[1] + other[1], max(one[2], other[2])))
        )
        return sum(row["n"] * row["total"] for row in _collected(totals))

    def join_to_partitions(self) -> int:
        users = self._read(FileSource.for_parquet(str(self._directory / "users.parquet")))
        joined = (
            self._events()
            .filter_batches(col("kind") != "refund")
            .key_by("user")
            .join_columns(users.key_by("user"), broadcast=True)
            .select("user", "amount", "ts", "segment")
        )
        row_type = Types.ROW_NAMED(
            ["user", "amount", "ts", "segment"], [Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING()]
        )
        return self._written(joined, row_type, BySegment())

    def sql_aggregate(self) -> int:
        result = (
            self._events()
            .filter_batches(col("amount") > 100)
            .select("user", "kind", "amount", (col("amount") * 3 - 1).alias("weighted"))
            .key_by(("user", "kind"))
            .aggregate(n=count(), total=sum_("weighted"), top=max_("amount"), mean=avg("amount"), emit="FINAL")
            .sort_columns(col("total").desc, "user", "kind", limit=1000)
        )
        return sum(row["total"] for row in _collected(result))

    def state_and_timers(self) -> int:
        sessions = (
            self._read(FileSource.for_parquet(str(self._directory / "events.parquet")))
            .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts"))
            .key_by(lambda row: row["user"], Types.LONG())
            .process(Sessions(), TOTAL)
        )
        return sum(row["n"] * row["n"] + row["total"] for row in _collected(sessions))

    def windows(self) -> int:
        result = (
            self._events()
            .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts"))
            .key_by("user")
            .window(TumblingEventTimeWindows.of(Time.minutes(60)))
            .aggregate(n=count(), total=sum_("amount"))
        )
        return sum(row["n"] * row["total"] for row in _collected(result))

    def csv_to_parquet(self) -> int:
        orders = self._read(FileSource.for_csv(str(self._directory / "events.csv"), schema=EVENT)).filter_batches(
            col("kind") == "order"
        )
        return self._written(orders, EVENT)

    def json_flat_map(self) -> int:
        kinds = Types.ROW_NAMED(["kind", "amount"], [Types.STRING(), Types.LONG()])
        totals = (
            self._read(FileSource.for_json(str(self._directory / "events.json"), schema=EVENT))
            .flat_map(halves, kinds)
            .key_by("kind")
            .aggregate(n=count(), total=sum_("amount"), emit="FINAL")
        )
        return sum(row["n"] + row["total"] for row in _collected(totals))

    def vectorised(self) -> int:
        schema = pa.schema([("user", pa.int64()), ("score", pa.int64())])
        scores = (
            self._events()
            .map_batches(scores_of, schema)
            .key_by("user")
            .aggregate(n=count(), top=max_("score"), emit="FINAL")
        )
        return sum(row["n"] * row["top"] for row in _collected(scores))

    def merged_streams(self) -> int:
        one = self._events().map(lambda row: (row["user"], row["kind"], row["ts"]), CHANGE)
        parts = FileSource.for_parquet(str(self._directory / "one.parquet"))
        other = self._read(parts).map(lambda row: (row["user"] + 3, row["kind"], row["ts"] + 5), CHANGE)
        latest = one.union(other).key_by(lambda each: each[0], Types.LONG()).reduce(later)
        return sum(each[2] % 1009 for each in _collected(latest))

    # -- beside the ten ----------------------------------------------------------------------------------------------

    def trivial_keyed(self) -> int:
        """Fewer records than one batch, from the program itself."""
        numbers = self._env.from_collection([(each % 5, each) for each in range(1000)], PAIR)
        sums = numbers.key_by(lambda pair: pair[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1]))
        return sum(each[1] for each in _collected(sums))

    def one_file(self) -> int:
        return self._grouped("one.parquet")

    def many_files(self) -> int:
        return self._grouped("many")

    def _grouped(self, name: str) -> int:
        events = self._read(FileSource.for_parquet(str(self._directory / name)))
        result = events.filter_batches(col("amount") > 100).key_by("kind").aggregate(n=count(), emit="FINAL")
        return sum(row["n"] for row in _collected(result))


TEN: dict[str, Callable[[Pipelines], int]] = {
    name: getattr(Pipelines, name)
    for name in (
        "words",
        "maps_reduce",
        "join_to_partitions",
        "sql_aggregate",
        "state_and_timers",
        "windows",
        "csv_to_parquet",
        "json_flat_map",
        "vectorised",
        "merged_streams",
    )
}
CHANGE = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def _collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def tokens(line: str) -> Iterator[tuple[str, int]]:
    for word in _WORD.findall(line):
        yield word, 1


def scored(row: Any) -> Row:
    amount = row["amount"]
    return Row(row["user"], 1, amount * 2 + len(row["kind"]) if amount % 7 else 0)


def halves(row: Any) -> Iterator[Row]:
    yield Row(row["kind"], row["amount"] // 2)
    if row["amount"] % 3:
        yield Row(row["kind"] + "-rest", row["amount"] - row["amount"] // 2)


def scores_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    score = pc.add(pc.multiply(batch.column("amount"), 3), pc.utf8_length(batch.column("kind")))
    return pa.RecordBatch.from_arrays([batch.column("user"), pc.cast(score, pa.int64())], ["user", "score"])


def later(one: tuple[int, str, int], other: tuple[int, str, int]) -> tuple[int, str, int]:
    return one if one[2:0:-1] >= other[2:0:-1] else other


class BySegment(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"segment={element['segment']}"


class Sessions(KeyedProcessFunction):
    """Emits the sum of a user's events that are at most GAP_MS apart."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._session = runtime_context.get_state(
            ValueStateDescriptor("session", Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        held = self._session.value()
        time = value["ts"]
        if held is None:
            held = (0, 0, time)
        elif time - held[2] > GAP_MS:
            yield Row(value["user"], held[0], held[1])
            held = (0, 0, time)
        self._session.update((held[0] + 1, held[1] + value["amount"], time))
        ctx.timer_service().register_event_time_timer(time // 3_600_000 * 3_600_000 + 7_200_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        held = self._session.value()
        if held is not None:
            self._session.clear()
            yield Row(ctx.get_current_key(), held[0], held[1])
