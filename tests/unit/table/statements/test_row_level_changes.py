"""DELETE, UPDATE and TRUNCATE: their plans, and the errors of tables that cannot be changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flinkpy.common.errors import FlinkError, JdbcError, TableProgramError, UnsupportedOperationError, ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.planner.row_level_changes import JOB_OPTIONS
from flinkpy.table.table_config import temporary_options


@pytest.fixture
def tables(tmp_path: Path) -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("table.exec.batch.engine", "OPERATORS")
    jdbc = f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path / 'd.db'}', 'table-name' = 'keyed'"
    made.execute_sql(f"CREATE TABLE keyed (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({jdbc})")
    made.execute_sql(f"CREATE TABLE plain (k INT, v BIGINT) WITH ({jdbc})")
    made.execute_sql("CREATE TABLE printed (k INT, v BIGINT) WITH ('connector' = 'print')")
    made.execute_sql("CREATE VIEW seen AS SELECT * FROM keyed")
    return made


def plan(tables: TableEnvironment, statement: str) -> str:
    from flinkpy.sql.parser import parse_statement

    with temporary_options(tables.get_config().get_configuration(), JOB_OPTIONS):
        changes = tables.planner.bind_row_changes(parse_statement(statement))  # type: ignore[arg-type]
        return tables.planner.physical_text([changes])


def test_a_delete_sends_the_rows_of_its_condition_to_the_sink(tables: TableEnvironment) -> None:
    text = plan(tables, "DELETE FROM keyed WHERE v > 3")
    assert "RowLevelChange(invocation=[DELETE(TABLE(#0))], select=[k, v]" in text
    assert "Sink(table=[default_catalog.default_database.keyed], fields=[k, v]" in text
    assert "SinkMaterializer" not in text and "FinalRows" in text


def test_an_update_sends_new_values_and_keeps_the_others(tables: TableEnvironment) -> None:
    text = plan(tables, "UPDATE keyed AS t SET v = v + 1 WHERE t.k = 2")
    assert "UPDATE(TABLE(#0))" in text and "+(v, 1) AS v" in text


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("DELETE FROM printed", UnsupportedOperationError, "delete operation .*printed .*SupportsRowLevelDelete"),
        ("UPDATE printed SET v = 1", UnsupportedOperationError, "update operation .*printed .*SupportsRowLevelUpdate"),
        ("TRUNCATE TABLE printed", UnsupportedOperationError, "truncate table operation .*printed .*SupportsTruncate"),
        ("DELETE FROM plain", ValidationError, "DELETE changes rows by their key: please declare the primary key"),
        ("UPDATE keyed SET k = 1", ValidationError, "The column 'k' is part of the primary key"),
        ("UPDATE keyed SET w = 1", ValidationError, "Unknown target column 'w'"),
        ("UPDATE keyed SET v = 1, v = 2", ValidationError, "'v' is assigned more than once"),
        ("UPDATE keyed SET v = 'x'", ValidationError, "Incompatible types for sink column 'v'"),
        ("DELETE FROM seen", ValidationError, "is a view"),
        ("DELETE FROM unseen", ValidationError, "Object 'unseen' not found"),
        ("TRUNCATE TABLE keyed", JdbcError, "no such table"),
    ],
)
def test_a_table_that_cannot_be_changed_is_named(
    tables: TableEnvironment, statement: str, error: type[FlinkError], message: str
) -> None:
    with pytest.raises(error, match=message):
        tables.execute_sql(statement)


def test_all_rows_are_truncated_at_once(tables: TableEnvironment, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection, connection:
        connection.execute("CREATE TABLE keyed (k INTEGER PRIMARY KEY, v INTEGER)")
        connection.execute("INSERT INTO keyed VALUES (1, 2)")
    tables.execute_sql("TRUNCATE TABLE keyed")
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM keyed").fetchone() == (0,)
    tables.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(TableProgramError, match="TRUNCATE TABLE statement is not supported for streaming mode now"):
        tables.execute_sql("TRUNCATE TABLE keyed")
