"""Streams of columns: the operators that select, filter_batches, aggregate, join_columns and sort_columns add."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkpy.common import Configuration, Duration, Types, WatermarkStrategy
from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import avg, count, first, max_, mean, min_, sum_
from flinkpy.datastream.expressions import col
from flinkpy.datastream.window import TumblingEventTimeWindows
from flinkpy.graph import operator_specs as specs

ROW = Types.ROW_NAMED(["k", "i", "m", "d"], [Types.STRING(), Types.INT(), Types.DECIMAL(15, 2), Types.DOUBLE()])
_NO_WATERMARKS = WatermarkStrategy.no_watermarks()
OTHER = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.runtime-mode": "BATCH"})
    )


@pytest.fixture
def stream(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([], ROW)


def types_of(stream: DataStream) -> dict[str, TypeInformation]:
    kind = stream.get_type()
    assert isinstance(kind, RowTypeInfo)
    return dict(zip(kind.get_field_names(), kind.get_field_types()))


def test_a_selection_has_the_names_and_types_of_its_expressions(stream: DataStream) -> None:
    selected = stream.select("k", col("m") * 2, (col("m") * col("i")).alias("total"))

    assert types_of(selected) == {
        "k": Types.STRING(),
        "_c1": Types.DECIMAL(17, 2),
        "total": Types.DECIMAL(26, 2),
    }


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda s: s.select("k", "nope"), "select: there is no column 'nope'; the columns are 'k', 'i', 'm', 'd'"),
        (lambda s: s.select("k", col("i").alias("k")), "select: two columns have the name 'k'"),
        (lambda s: s.filter_batches(col("nope") > 1), "filter_batches: there is no column 'nope'"),
        (lambda s: s.filter_batches(col("i") + 1), "filter_batches: (i + 1) is a Integer, not a BOOLEAN"),
        (lambda s: s.sort_columns("nope"), "sort_columns: there is no column 'nope'"),
        (lambda s: s.key_by("k").aggregate(x=sum_(col("nope") + 1)), "aggregate 'x': there is no column 'nope'"),
        (lambda s: s.key_by("k").aggregate(x=avg("k")), "aggregate 'x': column 'k' is a String, not a number"),
        (lambda s: s.key_by("k").aggregate(k=count()), "two columns 'k'"),
        (lambda s: s.aggregate_columns(x=sum_("nope")), "there is no column 'nope'|no column 'nope'"),
        (lambda s: s.key_by("k").join_columns(s.key_by("i")), "they must be of the same types"),
        (lambda s: s.key_by("k").join_columns(s.key_by("k")), "both streams have a column 'i'"),
        (lambda s: s.key_by(lambda r: r.k).join_columns(s.key_by("k")), "the key must be columns too"),
        (lambda s: s.map(str).select("k"), "select works on columns"),
    ],
)
def test_wrong_arguments_fail_when_the_program_is_built(stream: DataStream, build: Any, said: str) -> None:
    with pytest.raises(UserError) as error:
        build(stream)
    assert any(each in error.value.message for each in said.split("|"))


def test_windows_with_a_stream_of_late_records_take_columns_only(stream: DataStream) -> None:
    windowed = stream.key_by("k").window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    for aggregate in (avg("m"), sum_(col("m") + 1)):
        assert list(types_of(windowed.aggregate(x=aggregate))) == ["k", "window_start", "window_end", "x"]
    windowed.side_output_late_data(OutputTag("late"))
    for aggregate in (avg("m"), sum_(col("m") + 1)):
        with pytest.raises(UserError, match="with side_output_late_data all aggregates must be of columns"):
            windowed.aggregate(x=aggregate)


def test_aggregates_have_the_types_of_sql(stream: DataStream) -> None:
    result = stream.key_by("k").aggregate(
        n=count(), total=sum_("m"), avg=avg("m"), mean=mean("m"), top=max_(col("i") + 1), low=min_("d"), avg_i=avg("i")
    )

    assert types_of(result) == {
        "k": Types.STRING(),
        "n": Types.LONG(),
        "total": Types.DECIMAL(25, 2),
        "avg": Types.DECIMAL(19, 6),
        "mean": Types.DOUBLE(),
        "top": Types.INT(),
        "low": Types.DOUBLE(),
        "avg_i": Types.DOUBLE(),
    }


def test_a_join_has_the_columns_of_both_without_the_second_key(env: StreamExecutionEnvironment) -> None:
    left = env.from_collection([], ROW).key_by("k")
    right = env.from_collection([], OTHER).key_by("k")

    assert list(types_of(left.join_columns(right, "left"))) == ["k", "i", "m", "d", "v"]
    assert list(types_of(left.join_columns(right, "anti", broadcast=True))) == ["k", "i", "m", "d"]
    with pytest.raises(ValueError, match="how must be one of inner, left, semi, anti"):
        left.join_columns(right, "outer")


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.aggregate_columns(n=count()),
        lambda s: s.sort_columns("k"),
        lambda s: s.key_by("k").join_columns(s.key_by("k"), "semi"),
    ],
)
def test_operation_that_emits_at_the_end_refuses_an_unbounded_stream(tmp_path: Path, build: Any) -> None:
    from flinkpy.datastream.connectors.file_system import StreamFormat

    env = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    endless = source.monitor_continuously(Duration.of_seconds(1)).build()
    lines = env.from_source(endless, WatermarkStrategy.no_watermarks(), "lines").map(lambda line: (line,), ROW)

    with pytest.raises(UnsupportedOperationError, match="the source 'Source: lines' is unbounded"):
        build(lines)


def test_first_and_last_of_everything_have_no_meaning(stream: DataStream) -> None:
    with pytest.raises(UnsupportedOperationError, match="is not one of count, count_distinct, sum_"):
        stream.aggregate_columns(x=first("i"))


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_a_limit_is_a_number_of_records(stream: DataStream, limit: Any) -> None:
    with pytest.raises(ValueError, match="the limit must be"):
        stream.sort_columns("k", limit=limit)


def plan_of(env: StreamExecutionEnvironment) -> dict[str, str]:
    return {node["type"]: node["contents"] for node in json.loads(env.get_execution_plan())["nodes"]}


def test_the_plan_shows_the_optimizations(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": ["a"], "i": [1], "m": [Decimal("1.50")], "unused": ["x"]}), path)
    lines = env.from_source(FileSource.for_parquet(str(path)), WatermarkStrategy.no_watermarks(), "lines")
    lines.filter_batches(col("i") > 0).key_by("k").aggregate(total=sum_("m"), emit="FINAL")

    assert plan_of(env) == {
        "Source: lines": "Source: lines; columns: k, i, m; where: (i > 0)",
        "Filter": "Filter; columns: k, m",
        "Local Aggregation": "Local Aggregation",
        "Keyed Aggregation": "Keyed Aggregation; merges the results of the aggregation before the exchange",
    }
    # Building the plan changes nothing in the program, and the option turns it off.
    env.get_configuration().set_string("execution.columns.optimizer.enabled", "false")
    assert plan_of(env) == {name: name for name in ("Source: lines", "Filter", "Keyed Aggregation")}


def test_inputs_of_functions_keep_all_their_columns(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": ["a"], "i": [1]}), path)
    lines = env.from_source(FileSource.for_parquet(str(path)), WatermarkStrategy.no_watermarks(), "lines")
    lines.map(str)
    lines.select("i").print()

    assert plan_of(env)["Source: lines"] == "Source: lines"


def test_a_sorted_stream_keeps_its_order_through_operators_of_parallelism_one(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(4)
    ordered = env.from_collection([], ROW).sort_columns(col("m").desc).select("k").filter_batches(col("k") == "a")

    assert ordered.get_parallelism() == 1


def test_specs_in_the_job_contain_the_expressions(env: StreamExecutionEnvironment) -> None:
    env.from_collection([], ROW).select((col("m") + 1).alias("x")).print()
    job = env.generate_job_graph()

    loaded = [pickle.loads(op.factory_pickle) for vertex in job.vertices for op in vertex.chain]
    (select,) = [spec for spec in loaded if isinstance(spec, specs.SelectSpec)]
    assert select.expressions[0].is_same((col("m") + 1).alias("x"))


def test_all_records_that_produce_watermarks_are_read_in_streaming_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": [1, 2], "i": [1, 2], "unused": ["x", "y"]}), path)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    for mode, contents in (
        ("STREAMING", "Source: lines; columns: at, i"),
        ("BATCH", "Source: lines; columns: at, i; where: (i > 1)"),
    ):
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"execution.runtime-mode": mode})
        )
        lines = env.from_source(FileSource.for_parquet(str(path)), by_time, "lines")
        lines.filter_batches(col("i") > 1).select("i").print()
        assert plan_of(env)["Source: lines"] == contents


def test_operators_that_flinkpy_inserts_have_ids_without_generated_uids(env: StreamExecutionEnvironment) -> None:
    env.get_configuration().set_string("pipeline.auto-generate-uids", "false")
    env.get_config().disable_auto_generated_uids()
    source = env.from_collection([], ROW).uid("source")
    means = source.key_by("k").aggregate(average=mean("d"), emit="FINAL").uid("means")
    means.print().uid("sink")

    names = [op.name for vertex in env.generate_job_graph().vertices for op in vertex.chain]
    assert names[1:4] == ["Local Aggregation", "Keyed Aggregation", "Select"]


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_columns_that_nothing_needs_after_a_join_are_not_read(tmp_path: Path, mode: str) -> None:
    for name, renamed in (("left", "a"), ("right", "b")):
        table = pa.table({"k": [1], renamed: [2], f"unused_{renamed}": ["x"]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.runtime-mode": mode})
    )
    left, right = (
        env.from_source(FileSource.for_parquet(str(tmp_path / f"{name}.parquet")), _NO_WATERMARKS, name)
        for name in ("left", "right")
    )
    left.key_by("k").join_columns(right.key_by("k")).select(col("a") + col("b")).print()

    plan = plan_of(env)
    assert plan["Source: left"] == "Source: left; columns: k, a"
    assert plan["Source: right"] == "Source: right; columns: k, b"
