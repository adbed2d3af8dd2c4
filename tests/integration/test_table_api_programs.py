"""Programs of the Table API on real processes: functions of rows, aggregates, table aggregates, windows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.common.types import Row, RowKind
from flinkpy.table import DataTypes, Schema, StreamTableEnvironment, Table, TableEnvironment
from flinkpy.table.expressions import col, lit, row_interval
from flinkpy.table.udf import AggregateFunction, TableAggregateFunction, udaf, udf, udtaf, udtf
from flinkpy.table.window import Over, Session, Slide, Tumble

TWO = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.BIGINT()), DataTypes.FIELD("b", DataTypes.BIGINT())])


class CountAndSum(AggregateFunction[Row, Row]):
    """Returns a row; gets whole rows."""

    def create_accumulator(self) -> Row:
        return Row(0, 0)

    def accumulate(self, accumulator: Row, *args: Any) -> None:
        accumulator[0] += 1
        accumulator[1] += args[0].b

    def retract(self, accumulator: Row, *args: Any) -> None:
        accumulator[0] -= 1
        accumulator[1] -= args[0].b

    def get_value(self, accumulator: Row) -> Row:
        return Row(accumulator[0], accumulator[1])

    def get_accumulator_type(self) -> Any:
        return TWO

    def get_result_type(self) -> Any:
        return TWO


class Top2(TableAggregateFunction[Row, list[int]]):
    """Emits the two largest numbers."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        accumulator.append(args[0])

    def retract(self, accumulator: list[int], *args: Any) -> None:
        accumulator.remove(args[0])

    def emit_value(self, accumulator: list[int]) -> Iterator[Row]:
        for number in sorted(accumulator)[:-3:-1]:
            yield Row(number)

    def get_accumulator_type(self) -> Any:
        return DataTypes.ARRAY(DataTypes.BIGINT())

    def get_result_type(self) -> Any:
        return DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])


@pytest.fixture
def tables(shared_cluster: RunningCluster) -> TableEnvironment:
    return StreamTableEnvironment.create(environment(shared_cluster))


@pytest.fixture
def numbers(tables: TableEnvironment) -> Table:
    return tables.from_elements([(1, 2, "Hi"), (2, 1, "Hi"), (3, 5, "Ho"), (4, 8, "Hi"), (5, 3, "Ho")], ["a", "b", "c"])


@pytest.fixture
def events(tables: TableEnvironment) -> Table:
    times = [datetime(2018, 3, 11, 3, 10), datetime(2018, 3, 11, 3, 40), datetime(2018, 3, 11, 4, 20)]
    rows = pa.table({"n": [2, 3, 8], "ts": pa.array(times, pa.timestamp("ms"))})
    schema = Schema.new_builder().column("n", "BIGINT").column("ts", "TIMESTAMP(3)")
    return tables.from_arrow(rows, schema.watermark("ts", "ts - INTERVAL '1' SECOND").build())


def final(table: Table) -> list[tuple[Any, ...]]:
    found: list[Any] = table.to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_functions_of_rows_change_whole_tables(numbers: Table) -> None:
    grown = udf(lambda row: Row(row.a + 1, row[1] * 2), result_type=TWO)
    letters = udtf(lambda row: [(row.a, each) for each in row.c], result_types=[DataTypes.BIGINT(), DataTypes.STRING()])
    totals = udf(lambda frame: frame[["a", "b"]] * 2, result_type=TWO, func_type="pandas")
    assert final(numbers.filter(col("a") == 1).map(grown).select(col("a"), col("b"))) == [(2, 4)]
    assert final(numbers.filter(col("a") < 3).map(totals)) == [(2, 4), (4, 2)]
    assert final(numbers.filter(col("a") == 1).flat_map(letters)) == [(1, "H"), (1, "i")]
    joined = numbers.filter(col("a") == 1).join_lateral(letters.alias("x", "y"), col("y") == "i")
    assert final(joined.select(col("a"), col("y"))) == [(1, "i")]


def test_an_aggregate_returns_a_row_per_group(numbers: Table) -> None:
    function = udaf(CountAndSum())
    found = numbers.group_by(col("c")).aggregate(function.alias("n", "total")).select(col("c"), col("total"), col("n"))
    assert final(found) == [("Hi", 11, 3), ("Ho", 8, 2)]
    assert final(numbers.select(col("b")).aggregate(function).select(col("*"))) == [(5, 19)]
    both = numbers.group_by(col("c")).select(col("b").sum.alias("b")).aggregate(function).select(col("b"))
    assert final(both) == [(19,)]


def test_a_table_aggregate_sends_its_rows_anew_after_each_row(numbers: Table) -> None:
    top = udtaf(Top2())
    per_group = numbers.group_by(col("c")).flat_aggregate(top(col("b")).alias("best")).select(col("c"), col("best"))
    with per_group.execute().collect() as found:
        changes = [(row.get_row_kind(), row[1]) for row in found if row[0] == "Ho"]
    assert changes == [
        (RowKind.INSERT, 5),
        (RowKind.DELETE, 5),
        (RowKind.INSERT, 5),
        (RowKind.INSERT, 3),
    ]
    assert final(per_group) == [("Hi", 2), ("Hi", 8), ("Ho", 3), ("Ho", 5)]
    assert final(per_group.flat_aggregate(top(col("best"))).select(col("n"))) == [(5,), (8,)]


def test_windows_have_aggregates_and_table_aggregates(events: Table) -> None:
    hours = events.window(Tumble.over(lit(1).hours).on(col("ts")).alias("w")).group_by(col("w"))
    first = datetime(2018, 3, 11, 3)
    assert final(hours.select(col("w").start, col("n").avg.alias("x"), col("n").max)) == [
        (first, 2, 3),
        (first.replace(hour=4), 8, 8),
    ]
    assert final(hours.flat_aggregate(udtaf(Top2())(col("n"))).select(col("w").end, col("n"))) == [
        (first.replace(hour=4), 2),
        (first.replace(hour=4), 3),
        (first.replace(hour=5), 8),
    ]
    sliding = events.window(Slide.over(lit(1).hours).every(lit(30).minutes).on(col("ts")).alias("w"))
    assert final(sliding.group_by(col("w")).select(col("n").sum)) == [(11,), (2,), (5,), (8,)]
    sessions = events.window(Session.with_gap(lit(35).minutes).on(col("ts")).alias("w")).group_by(col("w"))
    assert final(sessions.select(col("n").count, col("n").sum)) == [(1, 8), (2, 5)]
    rows = events.over_window(Over.order_by(col("ts")).preceding(row_interval(1)).alias("w"))
    assert final(rows.select(col("n"), col("n").sum.over(col("w")))) == [(2, 2), (3, 5), (8, 11)]


def test_batch_mode_has_the_same_results(shared_cluster: RunningCluster) -> None:
    env = environment(shared_cluster)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql("SET 'execution.runtime-mode' = 'batch'")
    numbers = tables.from_elements([(1, 2, "Hi"), (2, 1, "Hi"), (3, 5, "Ho")], ["a", "b", "c"])
    top = udtaf(Top2())
    with numbers.flat_aggregate(top(col("b"))).select(col("n")).execute().collect() as found:
        assert sorted((row.get_row_kind(), row[0]) for row in found) == [(RowKind.INSERT, 2), (RowKind.INSERT, 5)]
    total = numbers.aggregate(udaf(CountAndSum())).select(col("a"), col("b"))
    assert final(total) == [(3, 8)]
    pandas = udaf(
        lambda frame: (frame.a.max(), frame.b.mean()), result_type="ROW<x BIGINT, y DOUBLE>", func_type="pandas"
    )
    assert final(numbers.group_by(col("c")).aggregate(pandas).select(col("c"), col("x"), col("y"))) == [
        ("Hi", 2, 1.5),
        ("Ho", 3, 5.0),
    ]
