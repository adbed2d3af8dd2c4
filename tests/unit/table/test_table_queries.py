"""A query of the Table API has the plan that SQL has for it; errors have Flink's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.common.types import Row
from flinkpy.table import DataTypes, EnvironmentSettings, ExplainDetail, Table, TableEnvironment
from flinkpy.table import expressions as ex
from flinkpy.table.expression import TimeIntervalUnit, TimePointUnit
from flinkpy.table.expressions import col, lit
from flinkpy.table.udf import TableAggregateFunction, udf, udtaf
from flinkpy.table.window import Over, Session, Slide, Tumble

Build = Callable[[Table], Table]


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (a INT, b BIGINT, c STRING, r ROW<x INT, y STRING>, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen')"
    )
    made.execute_sql("CREATE TABLE u (d INT, e STRING) WITH ('connector' = 'datagen')")
    return made


def physical(text: str) -> str:
    return text.partition("== Optimized Physical Plan ==")[2].partition("== Optimized Execution Plan ==")[0]


def tumble(*keys: str) -> Callable[[Table], object]:
    window = Tumble.over(lit(10).minutes).on(col("ts")).alias("w")
    return lambda t: t.window(window).group_by(col("w"), *map(col, keys))


ROWS = Over.partition_by(col("a")).order_by(col("ts")).preceding(ex.row_interval(2)).following(ex.CURRENT_ROW)
RANGE = Over.partition_by(col("a")).order_by(col("ts")).preceding(lit(1).minutes).alias("w")

#: Queries of the Table API with the same query of SQL.
SAME: dict[str, Build] = {
    "SELECT a + 1 AS x, UPPER(c) AS y FROM t": lambda t: t.select((t.a + 1).alias("x"), t.c.upper_case.alias("y")),
    "SELECT a, b FROM t WHERE a > 1 AND c LIKE 'x%'": lambda t: t.filter((t.a > 1) & t.c.like("x%")).select(t.a, t.b),
    "SELECT a FROM t WHERE a IN (1, 2) OR b NOT BETWEEN 1 AND 5": lambda t: t.where(
        t.a.in_(1, 2) | t.b.not_between(1, 5)
    ).select(t.a),
    "SELECT CASE WHEN a = 1 THEN 'one' ELSE c END AS x FROM t": lambda t: t.select(
        (t.a == 1).then("one", t.c).alias("x")
    ),
    "SELECT CAST(a AS STRING) AS x, TRY_CAST(c AS INT) AS y FROM t": lambda t: t.select(
        t.a.cast(DataTypes.STRING()).alias("x"), t.c.try_cast(DataTypes.INT()).alias("y")
    ),
    "SELECT EXTRACT(YEAR FROM ts) AS x, FLOOR(ts TO HOUR) AS y FROM t": lambda t: t.select(
        t.ts.extract(TimeIntervalUnit.YEAR).alias("x"), t.ts.floor(TimeIntervalUnit.HOUR).alias("y")
    ),
    "SELECT r.x AS p, ARRAY[a, 2][1] AS q FROM t": lambda t: t.select(
        t.r.get("x").alias("p"), ex.array(t.a, 2).at(1).alias("q")
    ),
    "SELECT r.x AS r$x, r.y AS r$y FROM t": lambda t: t.select(t.r.flatten),
    "SELECT c, COUNT(DISTINCT a) AS n, SUM(b) AS s FROM t GROUP BY c": lambda t: t.group_by(t.c).select(
        t.c, t.a.count.distinct.alias("n"), t.b.sum.alias("s")
    ),
    "SELECT MOD(a, 2) AS k, AVG(b) + 1 AS s FROM t GROUP BY MOD(a, 2)": lambda t: t.group_by(
        (t.a % 2).alias("k")
    ).select(col("k"), (t.b.avg + 1).alias("s")),
    "SELECT MAX(a) AS m FROM t": lambda t: t.select(t.a.max.alias("m")),
    "SELECT DISTINCT a, c FROM t": lambda t: t.select(t.a, t.c).distinct(),
    "SELECT a, SUM(b) AS s, TUMBLE_START(ts, INTERVAL '10' MINUTE) AS p, TUMBLE_ROWTIME(ts, INTERVAL '10' MINUTE) AS q "
    "FROM t GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE), a": lambda t: tumble("a")(t).select(  # type: ignore[attr-defined]
        t.a, t.b.sum.alias("s"), col("w").start.alias("p"), col("w").rowtime.alias("q")
    ),
    "SELECT COUNT(a) AS n FROM t GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)": lambda t: (
        t.window(Slide.over(lit(1).hours).every(lit(5).minutes).on(t.ts).alias("w"))
        .group_by(col("w"))
        .select(t.a.count.alias("n"))
    ),
    "SELECT c, COUNT(a) AS n FROM t GROUP BY c, SESSION(ts, INTERVAL '5' MINUTE)": lambda t: (
        t.window(Session.with_gap(lit(5).minutes).on(t.ts).alias("w")).group_by(t.c, col("w"))
    ).select(t.c, t.a.count.alias("n")),
    "SELECT a, SUM(b) OVER (PARTITION BY a ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t": (
        lambda t: t.over_window(ROWS.alias("w")).select(t.a, t.b.sum.over(col("w")).alias("s"))
    ),
    "SELECT MIN(b) OVER (PARTITION BY a ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS s "
    "FROM t": lambda t: t.over_window(RANGE).select(t.b.min.over("w").alias("s")),
    "SELECT a, b AS x FROM t ORDER BY x DESC, a LIMIT 3": lambda t: (
        t.select(t.a, t.b.alias("x")).order_by(col("x").desc, col("a")).fetch(3)
    ),
    "SELECT a FROM t WHERE a IN (SELECT d FROM u)": lambda t: t.filter(t.a.in_(u_of(t).select(col("d")))).select(t.a),
    "SELECT a, e FROM t JOIN u ON a = d": lambda t: t.join(u_of(t), col("a") == col("d")).select(col("a"), col("e")),
    "SELECT a, e FROM t LEFT JOIN u ON a = d AND c = e": lambda t: t.left_outer_join(
        u_of(t), (col("a") == col("d")) & (col("c") == col("e"))
    ).select(col("a"), col("e")),
    "SELECT a, e FROM t FULL JOIN u ON a = d": lambda t: t.full_outer_join(u_of(t), col("a") == col("d")).select(
        col("a"), col("e")
    ),
    "SELECT a, c FROM t UNION SELECT d, e FROM u": lambda t: t.select(t.a, t.c).union(u_of(t)),
    "SELECT a, c FROM t INTERSECT ALL SELECT d, e FROM u": lambda t: t.select(t.a, t.c).intersect_all(u_of(t)),
    "SELECT a, c FROM t EXCEPT SELECT d, e FROM u": lambda t: t.select(t.a, t.c).minus(u_of(t)),
    "SELECT UPPER(c) || '!' AS x FROM t": lambda t: t.select(ex.call_sql("UPPER(c) || '!'").alias("x")),
    "SELECT POWER(a, 2) AS x, COALESCE(c, 'n') AS y FROM t": lambda t: t.select(
        (t.a**2).alias("x"), ex.coalesce(t.c, "n").alias("y")
    ),
    "SELECT ts + INTERVAL '1 00:00:00' DAY TO SECOND AS x, TIMESTAMPDIFF(DAY, ts, ts) AS y FROM t": lambda t: t.select(
        (t.ts + lit(1).days).alias("x"), ex.timestamp_diff(TimePointUnit.DAY, t.ts, t.ts).alias("y")
    ),
}


def u_of(table: Table) -> Table:
    return table._environment.from_path("u")


@pytest.mark.parametrize("statement", SAME)
def test_query_has_the_plan_of_sql(tables: TableEnvironment, statement: str) -> None:
    built = SAME[statement](tables.from_path("t"))
    assert physical(built.explain()) == physical(tables.sql_query(statement).explain())
    assert built.get_resolved_schema().column_names == tables.sql_query(statement).get_resolved_schema().column_names


#: Queries with the names that Flink gives to their columns.
NAMED: dict[str, Build] = {
    "_c0, a, _c2": lambda t: t.select(t.a + 1, t.a, lit(5)),
    "a-BIGINT, r$x": lambda t: t.select(t.a.cast(DataTypes.BIGINT()), t.r.get("x")),
    "c, EXPR$0, EXPR$1": lambda t: t.group_by(t.c).select(t.c, t.a.sum, t.b.max),
    "EXPR$0, _c1": lambda t: t.select(t.a.sum, t.a.sum + t.b.max),
    "x, y, c, r, ts": lambda t: t.alias("x", "y"),
    "a, b, c, r, ts, d": lambda t: t.add_columns((t.a + 1).alias("d")),
    "a, b, c, r, ts": lambda t: t.add_or_replace_columns((t.a + 1).alias("b")),
    "a, z, c, r, ts": lambda t: t.rename_columns(t.b.alias("z")),
    "a, r": lambda t: t.drop_columns(t.b, t.c, t.ts),
    "b, c, a": lambda t: t.select(ex.with_columns(ex.range_("b", "c")), ex.with_columns(1)),
    "a, ts": lambda t: t.select(ex.without_columns(ex.range_(2, 4))),
}


@pytest.mark.parametrize("names", NAMED)
def test_columns_have_the_names_of_flink(tables: TableEnvironment, names: str) -> None:
    assert ", ".join(NAMED[names](tables.from_path("t")).get_resolved_schema().column_names) == names


#: Wrong queries with what the error says.
WRONG: dict[str, Build] = {
    r"Cannot resolve field \[d\], input field list:\[a, b, c, r, ts\]": lambda t: t.select(col("d")),
    r"input field list:\[x, y\]; did you mean 'x'\?": lambda t: t.select(t.a.alias("x"), t.b.alias("y")).select(
        col("X")
    ),
    "Ambiguous column name: x": lambda t: t.select(t.a.alias("x"), t.b.alias("x")),
    r"join relations with ambiguous names: \[a, b, c, r, ts\]": lambda t: t.join(t),
    "Filter clause must be a condition, not INT": lambda t: t.filter(t.a),
    "Window properties can only be used on windowed tables": lambda t: t.group_by(t.a).select(t.a.start),
    "GroupBy must contain exactly one window alias": lambda t: (
        tumble()(t.select(t.a, t.ts))
        and (t.window(Tumble.over(lit(1).hours).on(t.ts).alias("w")).group_by(t.a).select(t.a))
    ),
    "The union operation on two tables of different column sizes: 5 and 2": lambda t: t.union(u_of(t)),
    r"Drop field \[d\] does not exist in source table": lambda t: t.drop_columns(col("d")),
    "Renaming must add an alias to the original field": lambda t: t.rename_columns(t.a),
    "Aliasing more fields than we actually have": lambda t: t.alias(*"abcdefg"),
    "An alias can only be given to a whole expression": lambda t: t.select(t.a.alias("x") + 1),
    "Only tables from the same TableEnvironment can be joined": lambda t: t.join(
        TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).from_elements([(1,)], ["z"])
    ),
    "No match found for function signature nothing": lambda t: t.select(ex.call("nothing", t.a)),
    "Invalid SQL expression: a +": lambda t: t.select(ex.call_sql("a +")),
    "Cannot derive a data type for value": lambda t: t.select(lit(object())),
    "Only a scalar function can be used in the map operator": lambda t: t.map(t.a),
    "A flatAggregate only accepts an expression which defines a table aggregate function": lambda t: t.flat_aggregate(
        t.a.sum
    ).select(t.a),
    "the returned table of function .* has 2 columns, whereas alias list has 1 columns": lambda t: t.flat_aggregate(
        udtaf(Last())(t.a).alias("x")
    ).select(col("x")),
    "not supported in the select right after the aggregate": lambda t: t.flat_aggregate(udtaf(Last())(t.a)).select(
        col("n").sum
    ),
    "Aggregate function expected. Got: a": lambda t: t.group_by(t.c).aggregate(t.a).select(t.c),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_query_is_refused_in_the_words_of_flink(tables: TableEnvironment, message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        WRONG[message](tables.from_path("t"))
    assert "SQL validation failed" not in str(caught.value)


def test_a_window_of_rows_is_refused(tables: TableEnvironment) -> None:
    with pytest.raises(UnsupportedOperationError, match="number of rows"):
        Tumble.over(ex.row_interval(5))


def test_an_attribute_that_is_no_column_is_named(tables: TableEnvironment) -> None:
    with pytest.raises(AttributeError, match="no column named 'z', available columns: \\[a, b, c, r, ts\\]"):
        tables.from_path("t").z  # noqa: B018


def test_a_function_need_not_be_registered(tables: TableEnvironment) -> None:
    double = udf(lambda x: x * 2, result_type=DataTypes.INT(), name="double")
    plan = tables.from_path("t").select(double(col("a") + 1).alias("x")).explain()
    assert "double((a + 1)) AS x" in plan or "double(+(a, 1)) AS x" in plan


class Last(TableAggregateFunction[Row, list[Any]]):
    """Emits the last number, and how many came before it."""

    def create_accumulator(self) -> list[Any]:
        return [None, 0]

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        accumulator[:] = args[0], accumulator[1] + 1

    def emit_value(self, accumulator: list[Any]) -> Iterator[Row]:
        yield Row(*accumulator)

    def get_result_type(self) -> Any:
        return DataTypes.ROW([DataTypes.FIELD("n", DataTypes.INT()), DataTypes.FIELD("before", DataTypes.BIGINT())])

    def get_accumulator_type(self) -> Any:
        return self.get_result_type()


def test_a_table_aggregate_sends_all_kinds_of_changes(tables: TableEnvironment) -> None:
    t = tables.from_path("t")
    found = t.group_by(t.c).flat_aggregate(udtaf(Last())(t.a).alias("x", "y")).select(t.c, col("y"), col("x"))
    assert found.get_resolved_schema().column_names == ("c", "y", "x")
    assert physical(found.explain(ExplainDetail.CHANGELOG_MODE)).strip().splitlines()[:3] == [
        "Calc(select=[c, y, x], changelogMode=[I,UA,D])",
        "+- GroupTableAggregate(groupBy=[c], select=[c, LAST(a) AS (x, y)], changelogMode=[I,UA,D])",
        "   +- Exchange(distribution=[hash[c]], changelogMode=[I])",
    ]


def test_a_table_aggregate_of_windows_is_only_appended_to(tables: TableEnvironment) -> None:
    t = tables.from_path("t")
    window = Tumble.over(lit(10).minutes).on(t.ts).alias("w")
    grouped = t.window(window).group_by(t.c, col("w")).flat_aggregate(udtaf(Last())(t.a))
    found = grouped.select(t.c, col("w").start, col("n"), col("w").end.alias("e"))
    assert found.get_resolved_schema().column_names == ("c", "EXPR$0", "n", "e")
    assert "changelogMode=[I]" in physical(found.explain(ExplainDetail.CHANGELOG_MODE)).splitlines()[1]


def test_a_registered_table_aggregate_is_called_by_its_name(tables: TableEnvironment) -> None:
    tables.create_temporary_function("last_one", udtaf(Last()))
    t = tables.from_path("t")
    found = t.flat_aggregate(ex.call("last_one", t.a)).select(col("before"))
    assert "GroupTableAggregate(select=[LAST_ONE(a) AS (n, before)])" in found.explain()
    with pytest.raises(ValidationError, match="last_one is a table_aggregate function and cannot be used here"):
        tables.sql_query("SELECT last_one(a) FROM t")


def test_a_compiled_plan_keeps_a_registered_table_aggregate(tables: TableEnvironment) -> None:
    tables.create_temporary_function("kept_one", udtaf(Last()))
    tables.execute_sql("CREATE TEMPORARY TABLE changes (x BIGINT) WITH ('connector' = 'print')")
    t = tables.from_path("t")
    plan = t.flat_aggregate(ex.call("kept_one", t.a)).select(col("before")).insert_into("changes").compile_plan()
    assert "GroupTableAggregate(select=[KEPT_ONE(a) AS (n, before)])" in plan.explain()


def test_insert_into_names_its_sink(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE TEMPORARY TABLE sink (x INT) WITH ('connector' = 'blackhole')")
    pipeline = tables.from_path("t").select(col("a")).insert_into("sink")
    identifier = pipeline.get_sink_identifier()
    assert identifier is not None
    assert identifier.as_summary_string() == "default_catalog.default_database.sink"
    assert "Sink(table=[default_catalog.default_database.sink]" in pipeline.explain()
