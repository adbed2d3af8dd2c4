"""Pipelines that Hypothesis makes give the same results as a stream, as a native batch and in Spark.

A few fixed ones natively by default, and in Spark in `make differential`; `FLINKPY_GENERATED_PIPELINES=200` tries so
many new ones.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster
from engines import engine_properties, run_on
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.common.time import Duration, Time
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, min_, sum_
from flinkpy.datastream.connectors.file_system import FileSource
from flinkpy.datastream.expressions import coalesce, col, if_then_else
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

_WANTED = int(os.environ.get("FLINKPY_GENERATED_PIPELINES", "0"))
#: Every stream of a generated pipeline has this type, so that any operation may follow any other.
RECORD = Types.ROW_NAMED(["k", "n", "x"], [Types.STRING(), Types.LONG(), Types.LONG()])
#: No record of the test is that late.
NEVER_LATE = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1 << 40)).with_timestamp_column("x")

Plan = tuple[Any, ...]

ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from(["a", "b", "ä", ""])),
        st.one_of(st.none(), st.integers(-(2**31), 2**31), st.integers(-5, 5)),
        st.integers(-50, 200),
    ),
    max_size=20,
)
SOURCES = st.tuples(st.sampled_from(["collection", "parquet"]), ROWS)
ONE_INPUT = st.sampled_from(
    [
        *[("map", number) for number in range(2)],
        *[("filter", number) for number in range(2)],
        ("flat_map",),
        *[("where", number) for number in range(3)],
        *[("select", number) for number in range(3)],
        *[("partition", how, n) for how in ("rebalance", "shuffle", "rescale", "global_") for n in (1, 3)],
        *[("aggregate", function) for function in ("sum", "min", "max")],
        ("reduce",),
        ("state",),
        *[("window", kind) for kind in ("tumbling", "sliding", "session")],
        ("first", 3),
    ]
)


def _longer(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    return st.one_of(
        st.tuples(ONE_INPUT, plans),
        st.tuples(st.just(("union",)), plans, plans),
        st.tuples(st.tuples(st.just("join"), st.sampled_from(["inner", "left", "semi", "anti"])), plans, plans),
    )


PLANS = st.recursive(SOURCES.map(lambda source: (("source", *source),)), _longer, max_leaves=6)


def gives_every_update(plan: Plan) -> bool:
    """True if the plan emits intermediate results in streaming mode. Such a plan is compared in batch mode only."""
    return plan[0][0] == "reduce" or any(gives_every_update(each) for each in plan[1:])


class Count(KeyedProcessFunction):
    """Counts the records of a key and emits the number at the end of the key's records."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1 << 50)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield Row(str(ctx.get_current_key()), self.count.value(), 0)


class Builder:
    """Makes a program of a plan."""

    def __init__(self, env: StreamExecutionEnvironment, directory: Path) -> None:
        self._env = env
        self._directory = directory
        self._num_files = 0

    def stream(self, plan: Plan) -> Any:
        (operation, *options), *inputs = plan
        made: Any = getattr(self, f"_{operation}")(*map(self.stream, inputs), *options)
        return made

    def _source(self, kind: str, rows: list[Any]) -> Any:
        if kind == "collection" or not rows:
            return self._env.from_collection([Row(*row) for row in rows], RECORD)
        self._num_files += 1
        path = self._directory / f"{self._num_files}.parquet"
        types = [pa.string(), pa.int64(), pa.int64()]
        columns = [pa.array(list(values), kind) for values, kind in zip(zip(*rows), types)]
        pq.write_table(pa.table(columns, names=["k", "n", "x"]), path, row_group_size=5)
        source = FileSource.for_parquet(str(path))
        return self._env.from_source(source, WatermarkStrategy.no_watermarks(), "file")

    def _map(self, stream: Any, number: int) -> Any:
        if number == 0:
            return stream.map(lambda row: Row(row[0], (row[1] or 0) % 7, row[2]), RECORD)
        return stream.map(lambda row: Row(row[0] and row[0] + "!", row[1], abs(row[2])), RECORD)

    def _filter(self, stream: Any, number: int) -> Any:
        return stream.filter(lambda row: row[2] % 2 == number)

    def _flat_map(self, stream: Any) -> Any:
        return stream.flat_map(lambda row: [row, Row("new", row[2], 1)] if row[2] % 3 == 0 else [], RECORD)

    def _where(self, stream: Any, number: int) -> Any:
        conditions = (col("n") > 0, col("k").is_null | (col("x") < 30), ~(col("k") == "a"))
        return stream.filter_batches(conditions[number])

    def _select(self, stream: Any, number: int) -> Any:
        k, n, x = (col(name) for name in ("k", "n", "x"))
        computed = (
            (k, n * 3 - x, x),
            (coalesce(k, "none"), if_then_else(n > 2, n / 2, x), x % 10),
            (if_then_else(k.like("_"), k, "long"), n.if_null(1), x),
        )[number]
        return stream.select(*[each.alias(name) for each, name in zip(computed, ("k", "n", "x"))])

    def _partition(self, stream: Any, how: str, parallelism: int) -> Any:
        return (
            getattr(stream, how)().map(lambda row: row, RECORD).set_parallelism(1 if how == "global_" else parallelism)
        )

    def _aggregate(self, stream: Any, function: str) -> Any:
        value = {"sum": sum_, "min": min_, "max": max_}[function]("n")
        return stream.key_by("k").aggregate(n=value, x=count(), emit="FINAL")

    def _reduce(self, stream: Any) -> Any:
        return stream.key_by("k").reduce(lambda a, b: Row(a[0], ((a[1] or 0) + (b[1] or 0)) % 1000, a[2] + b[2]))

    def _state(self, stream: Any) -> Any:
        return stream.key_by("k").process(Count(), RECORD)

    def _window(self, stream: Any, kind: str) -> Any:
        windows = {
            "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(40)),
            "sliding": SlidingEventTimeWindows.of(Time.milliseconds(40), Time.milliseconds(30)),
            "session": EventTimeSessionWindows.with_gap(Time.milliseconds(9)),
        }[kind]
        timed = stream.assign_timestamps_and_watermarks(NEVER_LATE)
        result = timed.key_by("k").window(windows).aggregate(n=sum_("n"), rows=count())
        return result.select("k", (col("n").if_null(0) * 100 + col("rows")).alias("n"), col("window_start").alias("x"))

    def _first(self, stream: Any, limit: int) -> Any:
        return stream.sort_columns("n", "x", col("k").desc, limit=limit)

    def _union(self, one: Any, other: Any) -> Any:
        return one.union(other)

    def _join(self, one: Any, other: Any, how: str) -> Any:
        right = other.select("k", col("n").alias("m"))
        joined = one.key_by("k").join_columns(right.key_by("k"), how=how)
        if how in ("semi", "anti"):
            return joined
        return joined.select("k", (col("n") + col("m").if_null(0)).alias("n"), "x")


@pytest.mark.timeout(300 + 20 * _WANTED)
@pytest.mark.parametrize("engine", ["native-batch", "spark"])
@settings(
    max_examples=_WANTED or 6,
    derandomize=not _WANTED,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(plan=PLANS)
def test_engines_agree_about_a_generated_pipeline(
    plan: Plan, engine: str, engine_cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    engine_properties(engine)
    directory = tmp_path_factory.mktemp("files")
    engines = {"native-batch", engine} | (set() if gives_every_update(plan) else {"native-streaming"})
    results = {
        engine: Counter(run_on(engine, engine_cluster, lambda env: Builder(env, directory).stream(plan)))
        for engine in sorted(engines)
    }
    for engine, found in results.items():
        note(f"{engine}: {found}")
    assert all(found == results["native-batch"] for found in results.values()), plan
