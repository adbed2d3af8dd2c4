"""Programs give the same results in streaming mode, in native batch mode and in Spark.

Streaming mode emits every new result of a key and batch mode the last one, and only streaming mode has late records.
Programs that differ by design are compared on the two engines of batch mode: `like="native-batch"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster
from engines import SameResults, _known_results, engine_properties, plain, same_results
from job_support import environment

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.common.time import Time
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import (
    BroadcastProcessFunction,
    CoGroupFunction,
    JoinFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.aggregates import avg, count, max_, mean, min_, sum_
from flinkpy.datastream.connectors.file_system import FileSink, FileSource
from flinkpy.datastream.expressions import col, if_then_else
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

#: The time limit of a test. The first Spark job starts Spark.
pytestmark = pytest.mark.timeout(300)

__all__ = ["_known_results", "same_results"]

Env = StreamExecutionEnvironment
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
SALES = Types.ROW_NAMED(["shop", "item", "amount"], [Types.STRING(), Types.STRING(), Types.INT()])
EVENT = Types.ROW_NAMED(["key", "at", "x"], [Types.STRING(), Types.LONG(), Types.INT()])
ODD = OutputTag("odd", Types.INT())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


BY_SECOND_FIELD = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


def sales(env: Env, rows: int = 200) -> Any:
    made = [
        Row(f"shop-{i % 3}" if i % 11 else None, f"item-{i % 7}", None if i % 13 == 0 else i * 37 % 101)
        for i in range(rows)
    ]
    return env.from_collection(made, SALES)


def items(env: Env) -> Any:
    row_type = Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.LONG()])
    return env.from_collection(
        [Row(f"item-{i}", i * 10) for i in range(5)] + [Row("item-3", 7), Row(None, 1)], row_type
    )


def pairs(env: Env) -> Any:
    return env.from_collection([("ab c"[i % 4], i) for i in range(60)], PAIR)


def events(env: Env) -> Any:
    """Returns events in the order of time for one subtask: no record is late."""
    made = env.from_collection([Row("abc"[i % 3], i * 7, i) for i in range(80)], EVENT)
    return made.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    )


# -- functions of records ------------------------------------------------------------------------------------------


def test_functions_give_the_same_results_on_every_engine(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        numbers = env.from_collection(list(range(100)), Types.LONG())
        tripled = numbers.map(lambda x: x * 3, Types.LONG()).filter(lambda x: x % 2 == 0)
        return tripled.flat_map(lambda x: [x, -x], Types.LONG())

    assert len(same_results(build)) == 100


def test_objects_of_any_class_pass_through_every_engine(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        things = env.from_collection([None, {"a": [1, 2]}, ("x", None), 3.5, float("nan"), "ä"])
        return things.map(lambda value: (type(value).__name__, value))

    assert len(same_results(build)) == 6


def test_every_partitioning_works_between_operators_of_different_parallelism(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        numbers = env.from_sequence(1, 50).map(lambda x: x, Types.LONG())
        there = numbers.rebalance().map(lambda x: x + 1, Types.LONG()).set_parallelism(3)
        back = there.shuffle().map(lambda x: x * 2, Types.LONG()).set_parallelism(1)
        spread = back.rescale().map(lambda x: x - 1, Types.LONG()).set_parallelism(2)
        chosen = spread.partition_custom(lambda key, n: key % n, lambda x: x).map(lambda x: x, Types.LONG())
        return chosen.global_().map(lambda x: x, Types.LONG())

    assert same_results(build) == sorted((2 * x + 1 for x in range(1, 51)), key=repr)


def test_broadcast_sends_every_record_to_every_subtask(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        return env.from_collection([1, 2, 3], Types.INT()).broadcast().map(lambda x: x, Types.INT()).set_parallelism(3)

    assert same_results(build) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


# -- keys ----------------------------------------------------------------------------------------------------------


def test_reduce_and_rolling_aggregates_emit_the_last_result_of_a_key(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        keyed = pairs(env).key_by(lambda pair: pair[0], Types.STRING())
        return {
            "reduce": keyed.reduce(lambda a, b: (a[0], a[1] + b[1])),
            "max": keyed.max(1),
            "min": keyed.min_by(1),
            "sum": keyed.sum(1),
        }

    assert len(same_results(build, like="native-batch")) == 16


class CountAndFlush(KeyedProcessFunction):
    """Counts in state, and emits the count when a timer fires at the end of the key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.INT(), Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(value[1] % 5, True)
        ctx.timer_service().register_event_time_timer(1 << 40)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), self.count.value(), tuple(sorted(self.seen.keys()))


def test_keyed_functions_can_use_state_and_timers(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        return pairs(env).key_by(lambda pair: pair[0], Types.STRING()).process(CountAndFlush())

    assert same_results(build)[0] == (" ", 15, (0, 1, 2, 3, 4))


def test_a_single_key_may_have_all_records(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        return pairs(env).key_by(lambda pair: "one", Types.STRING()).process(CountAndFlush())

    assert same_results(build) == [("one", 60, (0, 1, 2, 3, 4))]


# -- several streams -----------------------------------------------------------------------------------------------


class Split(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value


def test_side_outputs_may_form_a_diamond(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        split = env.from_collection(list(range(40)), Types.INT()).process(Split(), Types.INT())
        odd = split.get_side_output(ODD).map(lambda x: x * 100, Types.INT())
        even = split.filter(lambda x: x % 4 == 0)
        return {"odd": odd, "even": even, "both": odd.union(even).rebalance().map(lambda x: -x, Types.INT())}

    assert len(same_results(build)) == 60


def test_typed_streams_can_be_united_also_with_themselves(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        one = pairs(env)
        return one.union(pairs(env), one.filter(lambda pair: pair[1] > 30)).key_by(0).sum(1)

    assert len(same_results(build, like="native-batch")) == 4


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        yield value[0], value[1] * (ctx.get_broadcast_state(RULES).get(value[0]) or 0)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        return ()


def test_broadcast_state_is_complete_before_the_records_of_a_batch(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        rules = env.from_collection([("a", 2), ("b", 3)], PAIR).broadcast(RULES)
        return pairs(env).connect(rules).process(Rules(), PAIR)

    assert len(same_results(build, like="native-batch")) == 60


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[0], first[2], second[2]


class Sizes(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield len(list(first)), len(list(second))


def test_windows_can_be_joined(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        one, other = events(env), events(env).filter(lambda row: row[2] % 2 == 0)
        windows = TumblingEventTimeWindows.of(Time.milliseconds(50))
        joined = one.join(other).where(lambda row: row[0]).equal_to(lambda row: row[0]).window(windows).apply(Pair())
        groups = one.co_group(other).where(lambda row: row[0]).equal_to(lambda row: row[0]).window(windows)
        return {"join": joined, "co_group": groups.apply(Sizes())}

    assert len(same_results(build, like="native-batch")) > 50


# -- windows -------------------------------------------------------------------------------------------------------

WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(100)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(100), Time.milliseconds(40)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(22)),
}


@pytest.mark.parametrize("windows", ["tumbling", "sliding", pytest.param("session", marks=pytest.mark.short_on_spark)])
def test_windows_over_records_and_columns_agree(same_results: SameResults, windows: str) -> None:
    def build(env: Env) -> Any:
        keyed = events(env).filter_batches(col("x") != 30).key_by("key")
        columns = keyed.window(WINDOWS[windows]).aggregate(n=count(), total=sum_("x"), top=max_("x"))
        rows = keyed.window(WINDOWS[windows]).reduce(lambda a, b: Row(a[0], a[1], a[2] + b[2]))
        everything = events(env).window_all(WINDOWS[windows]).aggregate(n=count(), low=min_("x"))
        return {"columns": columns, "rows": rows, "all": everything}

    assert len(same_results(build, like="native-batch")) > 3


def test_windows_see_all_records_of_a_batch_whatever_their_date(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        rows = [Row("a", at, at) for at in (500, 10, 499, 20, 0, -1)]
        stream = env.from_collection(rows, EVENT).assign_timestamps_and_watermarks(BY_SECOND_FIELD)
        return stream.key_by("key").window(WINDOWS["tumbling"]).aggregate(n=count())

    results = same_results(build, like="native-batch")
    assert results == [("a", -100, 0, 1), ("a", 0, 100, 3), ("a", 400, 500, 1), ("a", 500, 600, 1)]


# -- columns -------------------------------------------------------------------------------------------------------


def test_columns_can_be_aggregated(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        return (
            sales(env)
            .key_by("shop")
            .aggregate(
                n=count(), total=sum_("amount"), top=max_("amount"), m=mean("amount"), a=avg("amount"), emit="FINAL"
            )
        )

    assert len(same_results(build)) == 4


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("broadcast", [False, True], ids=["", "broadcast"])
def test_columns_can_be_joined(same_results: SameResults, how: str, broadcast: bool) -> None:
    def build(env: Env) -> Any:
        joined = sales(env).key_by("item").join_columns(items(env).key_by("item"), how=how, broadcast=broadcast)
        return joined.select("item", "shop", (col("amount") * 2).alias("twice"))

    assert same_results(build)


def test_selections_filters_and_python_functions_can_alternate(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        named = sales(env).select("item", if_then_else(col("amount") > 50, "many", "few").alias("size"), "amount")
        kept = named.map(lambda row: Row(row[0], row[1], (row[2] or 0) + 1), named.get_type())
        big = kept.filter_batches(col("amount").between(10, 90))
        return big.key_by(("item", "size")).aggregate(n=count(), total=sum_(col("amount") + 1), emit="FINAL")

    assert len(same_results(build)) == 14


def test_columns_can_be_sorted_and_aggregated_to_one_row(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        return {
            "first": sales(env).sort_columns(col("amount").desc, "item", "shop", limit=9),
            "all": sales(env).aggregate_columns(n=count(), total=sum_("amount"), top=max_("item")),
        }

    assert len(same_results(build)) == 10


def test_the_order_of_sorted_results_is_kept(engine_cluster: RunningCluster) -> None:
    env = environment(engine_cluster, 2, **engine_properties("spark"))
    with sales(env).select("amount").sort_columns(col("amount").desc).execute_and_collect() as results:
        amounts = [row[0] for row in results]
    assert len(amounts) == 200
    assert amounts == sorted(amounts, key=lambda amount: (amount is None, -(amount or 0)))


def test_empty_inputs_give_no_results_except_the_row_of_a_global_aggregate(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        nothing = sales(env).filter(lambda row: False)
        return {
            "records": nothing.map(str, Types.STRING()),
            "keys": nothing.key_by("shop").aggregate(n=count(), emit="FINAL"),
            "join": nothing.key_by("item").join_columns(items(env).key_by("item"), how="left"),
            "state": nothing.key_by(lambda row: row[0]).process(CountAndFlush()),
            "all": nothing.aggregate_columns(n=count(), total=sum_("amount")),
        }

    assert same_results(build) == [("all", (0, None))]


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.short_on_spark
@pytest.mark.parametrize("engine", ["native-streaming", "native-batch", "spark"])
def test_two_sinks_write_the_joined_records_of_files_once(
    engine: str, engine_cluster: RunningCluster, tmp_path: Path
) -> None:
    table = pa.table({"n": range(1_000), "k": [i % 10 for i in range(1_000)]})
    for part in range(3):
        pq.write_table(table, tmp_path / f"in-{part}.parquet")
    env = environment(engine_cluster, 2, **engine_properties(engine))
    source = FileSource.for_parquet(*[str(tmp_path / f"in-{part}.parquet") for part in range(3)])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    small = numbers.filter_batches(col("n") < 100)
    for name, stream in (("small", small), ("sums", numbers.key_by("k").aggregate(s=sum_("n"), emit="FINAL"))):
        writer = ParquetBulkWriters.for_row_type(None)
        stream.sink_to(FileSink.for_bulk_format(str(tmp_path / name), writer).build())
    env.execute("two sinks")
    assert sorted(pq.read_table(tmp_path / "small")["n"].to_pylist()) == sorted([*range(100)] * 3)
    sums = pq.read_table(tmp_path / "sums").to_pylist()
    assert sorted((row["k"], row["s"]) for row in sums) == [(k, 3 * sum(range(k, 1_000, 10))) for k in range(10)]


def test_results_are_plain_values() -> None:
    assert plain(Row(1, float("nan"), [Row("a")], {"b": 2})) == (1, "NaN", (("a",),), (("b", 2),))
