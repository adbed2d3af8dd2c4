"""A statement is a program of its own, and options of a session can be reset."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import FlinkError
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment


def test_a_refused_statement_leaves_the_program_of_the_user_as_it_was() -> None:
    program = StreamExecutionEnvironment.get_execution_environment()
    program.from_collection([1]).map(str).print()
    before = program.get_transformations()
    tables = StreamTableEnvironment.create(program)
    tables.execute_sql(
        "CREATE TABLE files (n INT) WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'csv')"
    )
    with pytest.raises(FlinkError, match="replaces records"):
        tables.execute_sql("INSERT OVERWRITE files VALUES (1)")
    assert program.get_transformations() == before


def test_reset_returns_to_the_options_with_which_the_session_began() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    tables.execute_sql("SET 'table.local-time-zone' = 'UTC'")
    tables.execute_sql("RESET 'execution.runtime-mode'")
    configuration = tables.get_config().get_configuration()
    assert configuration.get_string("execution.runtime-mode", "").upper() == "BATCH"
    assert configuration.get_string("table.local-time-zone", "") == "UTC"
    tables.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
    tables.execute_sql("RESET")
    assert configuration.get_string("execution.runtime-mode", "").upper() == "BATCH"
    assert not configuration.contains_key("table.local-time-zone")
