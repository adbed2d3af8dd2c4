"""CREATE TABLE ... AS and REPLACE TABLE ... AS: the columns of the table, and what is written to them."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment

SINK = "WITH ('connector' = 'blackhole')"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        """
        CREATE TABLE n (a INT, b BIGINT NOT NULL, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'datagen')
        """
    )
    return made


def columns(tables: TableEnvironment, statement: str) -> list[str]:
    """Returns the columns of the table that a statement makes."""
    from flinkpy.sql.parser import parse_statement

    table, _ = tables._table_as(parse_statement(statement))  # type: ignore[arg-type]
    return [f"{each.name} {each.type}" for each in table.resolved_schema.columns]


def test_the_columns_are_those_of_the_query(tables: TableEnvironment) -> None:
    assert columns(tables, f"CREATE TABLE t {SINK} AS SELECT a, b, ts FROM n") == [
        "a INT",
        "b BIGINT NOT NULL",
        "ts TIMESTAMP(3)",
    ]


def test_declared_columns_come_first_or_change_the_type_of_the_query(tables: TableEnvironment) -> None:
    statement = (
        f"CREATE TABLE t (x STRING, a BIGINT, c AS a + 1, PRIMARY KEY (b) NOT ENFORCED) {SINK} AS SELECT a, b FROM n"
    )
    assert columns(tables, statement) == ["x STRING", "c BIGINT", "a BIGINT", "b BIGINT NOT NULL"]
    text = tables.explain_sql(statement)
    assert "LogicalSink(table=[default_catalog.default_database.t], fields=[x, a, b])" in text
    assert "CAST(a AS BIGINT)" in text


def test_names_choose_the_order(tables: TableEnvironment) -> None:
    assert columns(tables, f"CREATE TABLE t (b, a) {SINK} AS SELECT a, b FROM n") == ["b BIGINT NOT NULL", "a INT"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"CREATE TABLE t (a, b) {SINK} AS SELECT a FROM n", "number of columns in the column list must match"),
        (f"CREATE TABLE t (x) {SINK} AS SELECT a FROM n", "Column 'x' not found in the source schema"),
        (
            f"CREATE TABLE t (a BOOLEAN) {SINK} AS SELECT a FROM n",
            "Incompatible types for sink column 'a' at position 0",
        ),
        (f"CREATE TABLE t {SINK} AS SELECT a, b AS a FROM n", ""),
        (f"CREATE TABLE t (x INT NOT NULL) {SINK} AS SELECT a FROM n", "NOT NULL"),
        (f"CREATE TABLE t PARTITIONED BY (x) {SINK} AS SELECT a FROM n", "Partition column 'x' not defined"),
        (f"REPLACE TABLE t {SINK} AS SELECT a FROM n", "to be replaced doesn't exist"),
        ("CREATE OR REPLACE TABLE n (a INT) WITH ('connector' = 'print')", "needs a query"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_a_table_is_made(
    tables: TableEnvironment, statement: str, message: str
) -> None:
    if not message:
        assert columns(tables, statement) == ["a INT", "a0 BIGINT NOT NULL"]
        return
    with pytest.raises(ValidationError, match=message):
        tables.execute_sql(statement)
    assert tables.list_tables() == ["n"]
