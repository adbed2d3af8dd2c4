"""Joins with temporal table functions: the plans are those of joins with the versions of a table."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table import EnvironmentSettings, PlanReference, TableEnvironment
from flinkpy.table.expressions import col


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    time = "ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    made.execute_sql(f"CREATE TABLE orders (amount INT, currency STRING, {time}) WITH ('connector' = 'datagen')")
    made.execute_sql(f"CREATE TABLE history (currency STRING, rate INT, {time}) WITH ('connector' = 'datagen')")
    rates = made.from_path("history").create_temporal_table_function(col("ts"), col("currency"))
    made.create_temporary_system_function("Rates", rates)
    latest = made.from_path("history").create_temporal_table_function("pt", "currency")
    made.create_temporary_system_function("LatestRates", latest)
    return made


def test_the_version_of_each_row_is_joined(tables: TableEnvironment) -> None:
    text = tables.explain_sql(
        "SELECT amount * rate FROM orders AS o, LATERAL TABLE(Rates(o.ts)) AS r WHERE o.currency = r.currency"
    )
    assert "TemporalJoin(joinType=[InnerJoin]" in text and "Rank(" not in text


def test_the_condition_may_stand_in_the_join(tables: TableEnvironment) -> None:
    query = "SELECT rate FROM orders AS o JOIN LATERAL TABLE(Rates(o.ts)) AS r ON o.currency = r.currency"
    assert "TemporalJoin(" in tables.explain_sql(query)


def test_the_latest_row_of_a_key_is_joined_by_processing_time(tables: TableEnvironment) -> None:
    query = "SELECT rate FROM orders AS o, LATERAL TABLE(LatestRates(o.pt)) AS r WHERE o.currency = r.currency"
    assert "TemporalJoin(joinType=[InnerJoin]" in tables.explain_sql(query)
    tables.execute_sql("CREATE TABLE sink (rate INT) WITH ('connector' = 'blackhole')")
    plan = tables.compile_plan_sql(f"INSERT INTO sink {query}").as_json_string()
    assert "TemporalJoin(" in tables.load_plan(PlanReference.from_json_string(plan)).explain()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT 1 FROM orders AS o LEFT JOIN LATERAL TABLE(Rates(o.ts)) AS r ON TRUE",
            "joined by an INNER",
        ),
        ("SELECT 1 FROM orders AS o, LATERAL TABLE(Rates()) AS r", "takes one argument: a time attribute"),
        ("SELECT 1 FROM orders AS o, LATERAL TABLE(Rates(o.amount)) AS r", "expects TIMESTAMP"),
        ("SELECT 1 FROM orders AS o, LATERAL TABLE(Rates(o.pt)) AS r", "Non rowtime timeAttribute"),
        ("SELECT 1 FROM orders AS o, LATERAL TABLE(LatestRates(o.ts)) AS r", "Non processing timeAttribute"),
        (
            "SELECT 1 FROM orders AS o, LATERAL TABLE(Rates(o.ts)) AS r",
            "join key .* can not be empty",
        ),
    ],
)
def test_a_wrong_join_is_named(tables: TableEnvironment, query: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.explain_sql(query)


def test_the_columns_of_a_function_are_checked(tables: TableEnvironment) -> None:
    history = tables.from_path("history")
    with pytest.raises(ValidationError, match="no column 'rates'"):
        history.create_temporal_table_function("ts", "rates")
    with pytest.raises(ValidationError, match="'rate' is no time attribute"):
        history.create_temporal_table_function("rate", "currency")
