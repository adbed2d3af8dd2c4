"""Column nodes become DataFrame operations with the results of flinkpy's operators; other nodes do not."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_engines import TIME, rows

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.connectors.file_source import FileSource
from flinkpy.expressions.nodes import col, lit
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.spark_region import SparkEdge, SparkNode

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from flinkpy.records.batch import Batch
from flinkpy.records.lanes import type_info_of_schema
from flinkpy.spark import result_rows
from flinkpy.spark.columns import is_expressible, translate
from flinkpy.spark.result_rows import with_finished_stages
from flinkpy.spark.staging import has_few_rows
from flinkpy.spark.stream_frame import StreamFrame, frame_of

PEOPLE = pa.table({"id": [1, 2, 3, None, 2], "name": ["a", "b", None, "d", "e"], "v.w": [1.5, None, 2.5, 4.0, -1.0]})
COUNT = (specs.ColumnAggregate("n", "COUNT"),)
BY_ID = specs.FieldKeySelector(("id",))
TOWNS = pa.table({"id": [2, 3, 3, None, 9], "town": ["x", "y", "z", "n", "q"]})


def stream(session: Any, table: pa.Table) -> StreamFrame:
    return frame_of(session, [Batch(batch) for batch in table.to_batches()], type_info_of_schema(table.schema))


def node(spec: specs.OperatorSpec, *indices: int, parallelism: int = 2) -> SparkNode:
    edges = tuple(SparkEdge(i, index, None, "FORWARD", None) for i, index in enumerate(indices))
    return SparkNode(7, "the operator", "uid", "op", spec, parallelism, edges)


def result(frame: StreamFrame | None) -> pa.Table:
    assert frame is not None and frame.is_columnar
    return frame.frame.toArrow()


def row_type(**types: Any) -> Any:
    return Types.ROW_NAMED(list(types), list(types.values()))


def test_a_selection_filters_computes_and_keeps_the_times_of_records(session: Any) -> None:
    chosen = (col("id").alias("n"), (col("v.w") * 2.0).alias("twice"))
    spec = specs.SelectSpec(chosen, col("v.w") > 1.0, output_type=row_type(n=Types.LONG(), twice=Types.DOUBLE()))
    table = PEOPLE.append_column(TIME, pa.array([1, 2, 3, 4, None], pa.int64()))
    frame = stream(session, PEOPLE)
    frame = StreamFrame(session.createDataFrame(table), frame.type_info, frame.layout)
    assert rows(result(translate(node(spec, 0), [frame], session))) == [(1, 3.0, 1), (3, 5.0, 3), (None, 8.0, 4)]


def test_streams_of_one_input_are_a_union(session: Any) -> None:
    spec = specs.FilterBatchesSpec(None, col("id") == 2, output_type=type_info_of_schema(PEOPLE.schema))
    frames = [stream(session, PEOPLE), stream(session, PEOPLE)]
    assert [row[1] for row in rows(result(translate(node(spec, 0, 0), frames, session)))] == ["b", "b", "e", "e"]


EXPECTED = {
    "inner": [(2, "b", "x"), (2, "e", "x"), (3, None, "y"), (3, None, "z")],
    "left": [(1, "a", None), (2, "b", "x"), (2, "e", "x"), (3, None, "y"), (3, None, "z"), (None, "d", None)],
    "semi": [(2, "b"), (2, "e"), (3, None)],
    "anti": [(1, "a"), (None, "d")],
}


@pytest.mark.parametrize("how", list(EXPECTED))
@pytest.mark.parametrize("is_broadcast", [False, True], ids=["shuffled", "broadcast"])
def test_joins_match_equal_keys_and_null_matches_nothing(session: Any, how: str, is_broadcast: bool) -> None:
    left = PEOPLE.select(["id", "name"])
    output = {"id": Types.LONG(), "name": Types.STRING()}
    if how in ("inner", "left"):
        output["town"] = Types.STRING()
    selectors = (specs.FieldKeySelector(("id",)), specs.FieldKeySelector(("id",)))
    spec = specs.ColumnJoinSpec(selectors, how, is_broadcast, output_type=row_type(**output))
    in_batch_mode = specs.BatchSpec(spec, output_type=spec.output_type)
    joined = translate(node(in_batch_mode, 0, 1), [stream(session, left), stream(session, TOWNS)], session)
    expected = sorted(((*row, None) for row in EXPECTED[how]), key=repr)
    assert rows(result(joined)) == expected
    plan = joined.frame._jdf.queryExecution().toString()
    assert ("BroadcastHashJoin" in plan) >= is_broadcast


def test_a_stream_may_be_joined_with_itself(session: Any) -> None:
    people = stream(session, PEOPLE.select(["id", "name"]))
    renamed = specs.SelectSpec(
        (col("id").alias("id"), col("name").alias("other")), output_type=row_type(id=Types.LONG(), other=Types.STRING())
    )
    others = translate(node(renamed, 0), [people], session)
    selectors = (specs.FieldKeySelector(("id",)), specs.FieldKeySelector(("id",)))
    output = row_type(id=Types.LONG(), name=Types.STRING(), other=Types.STRING())
    joined = translate(node(specs.ColumnJoinSpec(selectors, output_type=output), 0, 1), [people, others], session)
    assert len(rows(result(joined))) == 6


def test_order_is_that_of_the_columns_with_nulls_and_nan_in_their_places(session: Any) -> None:
    values = pa.table({"x": [1.0, None, float("nan"), -2.0], "y": ["a", "b", "c", "d"]})
    expected = {"ascending": ["b", "d", "a", "c"], "descending": ["c", "a", "d", "b"]}
    for direction, letters in expected.items():
        spec = specs.SortColumnsSpec((("x", direction),), output_type=type_info_of_schema(values.schema))
        ordered = result(translate(node(spec, 0, parallelism=1), [stream(session, values)], session))
        assert ordered["y"].to_pylist() == letters
    first = specs.SortColumnsSpec((("x", "descending"),), 2, output_type=type_info_of_schema(values.schema))
    limited = translate(node(first, 0, parallelism=1), [stream(session, values)], session)
    assert result(limited)["y"].to_pylist() == ["c", "a"]


def test_a_global_aggregate_of_no_records_emits_one_row(session: Any) -> None:
    aggregates = (specs.ColumnAggregate("n", "COUNT"), specs.ColumnAggregate("top", "MAX", "v.w"))
    spec = specs.GlobalColumnAggregateSpec(aggregates, output_type=row_type(n=Types.LONG(), top=Types.DOUBLE()))
    for table, expected in ((PEOPLE, (5, 4.0, None)), (PEOPLE.slice(0, 0), (0, None, None))):
        assert rows(result(translate(node(spec, 0), [stream(session, table)], session))) == [expected]


def test_aggregates_before_an_exchange_end_up_as_the_aggregates_of_all(session: Any) -> None:
    partial = (
        specs.ColumnAggregate("n", "COUNT", "v.w"),
        specs.ColumnAggregate("s", "SUM", "v.w"),
        specs.ColumnAggregate("low", "MIN", "v.w"),
    )
    output = row_type(id=Types.LONG(), n=Types.LONG(), s=Types.DOUBLE(), low=Types.DOUBLE())
    selector = specs.FieldKeySelector(("id",))
    before = translate(
        node(specs.PreAggregateSpec(selector, partial, output_type=output), 0), [stream(session, PEOPLE)], session
    )
    assert before is not None
    total = (
        specs.ColumnAggregate("n", "SUM", "n"),
        specs.ColumnAggregate("s", "SUM", "s"),
        specs.ColumnAggregate("low", "MIN", "low"),
    )
    after = specs.ColumnAggregateSpec(selector, total, "FINAL", output_type=output)
    expected = [(1, 1, 1.5, 1.5, None), (2, 1, -1.0, -1.0, None), (3, 1, 2.5, 2.5, None), (None, 1, 4.0, 4.0, None)]
    assert rows(result(translate(node(after, 0), [before], session))) == expected


def test_functions_of_python_are_left_to_python(session: Any) -> None:
    people = stream(session, PEOPLE)
    for spec in (
        specs.MapSpec(str),
        specs.FilterBatchesSpec(lambda batch: batch, output_type=people.type_info),
        specs.ColumnAggregateSpec(
            specs.FieldKeySelector(("id",)), (specs.ColumnAggregate("f", "FIRST", "name"),), "FINAL"
        ),
        specs.ColumnAggregateSpec(BY_ID, (specs.ColumnAggregate("n", "COUNT"),), "UPDATES"),
    ):
        assert translate(node(spec, 0), [people], session) is None
        assert not is_expressible(typed(node(spec, 0), people))


def typed(untyped: SparkNode, stream: StreamFrame) -> SparkNode:
    """Returns the node with the type of the stream on its edges."""
    return replace(untyped, inputs=tuple(replace(edge, type_info=stream.type_info) for edge in untyped.inputs))


def test_expressibility_is_known_without_a_plan(session: Any, tmp_path: Path) -> None:
    people = stream(session, PEOPLE)
    selectors = (BY_ID, BY_ID)
    window = specs.WindowAggregateSpec(BY_ID, (specs.ColumnAggregate("n", "COUNT"),), size_ms=7, slide_ms=3)
    times = row_type(id=Types.LONG(), window_start=Types.LONG(), window_end=Types.LONG(), n=Types.LONG())
    for spec, indices in (
        (specs.FilterBatchesSpec(None, col("id") == 2, output_type=people.type_info), (0, 0)),
        (specs.SortColumnsSpec((("id", "ascending"),), 3, output_type=people.type_info), (0,)),
        (specs.ColumnJoinSpec(selectors, "semi", output_type=people.type_info), (0, 1)),
        (specs.ColumnJoinSpec(selectors, "anti", True, output_type=people.type_info), (0, 1)),
        (
            specs.GlobalColumnAggregateSpec(
                (specs.ColumnAggregate("n", "COUNT"),), output_type=row_type(n=Types.LONG())
            ),
            (0,),
        ),
        (replace(window, output_type=times), (0,)),
    ):
        assert is_expressible(typed(node(spec, *indices), people))
    pq.write_table(DAYS, tmp_path / "a.parquet")
    assert is_expressible(source_of(FileSource.for_parquet(str(tmp_path))))
    unknown = specs.FilterBatchesSpec(None, col("name").upper_case == "A", output_type=people.type_info)
    assert not is_expressible(typed(node(unknown, 0), people))


# -- files -----------------------------------------------------------------------------------------------------------

DAYS = pa.table(
    {
        "day": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), None],
        "n": pa.array([1, 2, 3], pa.int32()),
        "at": pa.array([5, -1, 7], pa.int64()),
    }
)


def source_of(file_source: FileSource, strategy: Any = None) -> SparkNode:
    return node(specs.SourceSpec(file_source, strategy, output_type=file_source.produced_type))


def test_spark_reads_parquet_with_the_columns_and_predicates_of_the_plan(session: Any, tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    pq.write_table(DAYS, tmp_path / "k=1" / "a.parquet")
    pq.write_table(DAYS, tmp_path / "b.parquet")
    pq.write_table(DAYS, tmp_path / "_hidden.parquet")
    read = translate(source_of(FileSource.for_parquet(str(tmp_path))), [], session)
    assert len(rows(result(read))) == 6
    spec = specs.SelectSpec(
        (col("n").alias("n"),), col("day") <= lit(datetime.date(2020, 1, 1)), output_type=row_type(n=Types.INT())
    )
    chosen = translate(node(spec, 0), [read], session)
    assert rows(result(chosen)) == [(1, None), (1, None)]
    plan = chosen.frame._jdf.queryExecution().toString()
    assert "PushedFilters: [IsNotNull(day), LessThanOrEqual(day,2020-01-01)]" in plan
    assert "ReadSchema: struct<day:date,n:int>" in plan


def test_event_time_of_files_comes_from_a_column(session: Any, tmp_path: Path) -> None:
    pq.write_table(DAYS, tmp_path / "a.parquet")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    read = translate(source_of(FileSource.for_parquet(str(tmp_path)), strategy), [], session)
    assert result(read)[TIME].to_pylist() == [5, -1, 7]


def test_orc_is_read_by_spark_too(session: Any, tmp_path: Path) -> None:
    from pyarrow import orc

    orc.write_table(DAYS, str(tmp_path / "a.orc"))
    read = translate(source_of(FileSource.for_orc(str(tmp_path), columns=["n", "day"])), [], session)
    assert rows(result(read)) == rows(DAYS.select(["n", "day"]).append_column(TIME, pa.nulls(3, pa.int64())))


def test_files_that_spark_would_read_otherwise_are_left_to_our_readers(session: Any, tmp_path: Path) -> None:
    nanoseconds, twice, csv = tmp_path / "ns", tmp_path / "twice", tmp_path / "csv"
    for directory in (nanoseconds, twice, csv):
        directory.mkdir()
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), nanoseconds / "a.parquet", version="2.6")
    pq.write_table(pa.table({"a": [1], "A": [2]}), twice / "a.parquet")
    (csv / "a.csv").write_text("n\n1\n")
    for source in (
        FileSource.for_parquet(str(nanoseconds)),
        FileSource.for_parquet(str(twice)),
        FileSource.for_parquet(str(twice), columns=["a"], on_error="skip"),
        FileSource.for_csv(str(csv), schema={"n": Types.INT()}),
    ):
        assert translate(source_of(source), [], session) is None


def test_the_plan_says_which_results_have_few_rows(session: Any) -> None:
    numbers = session.range(100_000)
    assert has_few_rows(numbers.groupBy().count())
    assert has_few_rows(numbers.orderBy("id").limit(10).select("id"))
    assert not has_few_rows(numbers)
    assert not has_few_rows(numbers.groupBy("id").count())


# -- the number of rows ------------------------------------------------------------------------------------------------


def test_an_exchange_tells_that_few_rows_follow_and_its_stages_run_once(session: Any) -> None:
    ran = session.sparkContext.accumulator(0)
    frame = counted_keys(session, ran)
    same, is_small = with_finished_stages(frame)
    assert is_small
    assert same is frame
    assert sorted(map(tuple, same.collect())) == [(0, 10), (1, 10), (2, 10)]
    assert ran.value == 30


def test_the_rows_behind_a_large_exchange_are_read_without_running_its_stages_again(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_rows, "_FEW_BYTES", 0)
    ran = session.sparkContext.accumulator(0)
    frame = counted_keys(session, ran)
    behind, is_small = with_finished_stages(frame)
    assert not is_small
    assert behind.schema == frame.schema
    assert sorted(map(tuple, behind.collect())) == [(0, 10), (1, 10), (2, 10)]
    assert ran.value == 30


def test_nothing_runs_early_if_a_join_or_a_function_may_make_more_rows(session: Any) -> None:
    numbers = session.range(30)
    pairs = numbers.join(session.range(30).withColumnRenamed("id", "other"), F.col("id") % 2 == F.col("other") % 2)
    for frame in (numbers, pairs, numbers.groupBy("id").count().select(F.explode(F.array("id", "count")))):
        same, is_small = with_finished_stages(frame)
        assert same is frame
        assert not is_small


def counted_keys(session: Any, ran: Any) -> Any:
    def look(batches: Any) -> Any:
        for batch in batches:
            ran.add(batch.num_rows)
            yield batch

    numbers = session.range(0, 30, 1, 2).mapInArrow(look, "id bigint")
    return numbers.groupBy((F.col("id") % 3).alias("key")).agg(F.count("*").alias("n"))
