"""Errors of a statement show its line, with carets below the culprit."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.execute_sql("CREATE TABLE orders (id INT, item STRING) WITH ('connector' = 'datagen')")
    return environment


def test_the_culprit_of_a_statement_is_marked(tables: TableEnvironment) -> None:
    with pytest.raises(ValidationError) as error:
        tables.execute_sql("SELECT id,\n  itm\nFROM orders")
    assert error.value.message.splitlines()[1:] == ["   2 |   itm", "     |   ^^^"]
    assert (error.value.details["line"], error.value.details["column"]) == ("2", "3")


@pytest.mark.parametrize("method", ["sql_query", "explain_sql"])
def test_the_other_doors_mark_it_too(tables: TableEnvironment, method: str) -> None:
    with pytest.raises(ValidationError, match=r"\| SELECT id \+ item FROM orders\n.*\|        \^{9}$"):
        getattr(tables, method)("SELECT id + item FROM orders")


def test_an_insert_of_a_statement_set_marks_it(tables: TableEnvironment) -> None:
    with pytest.raises(ValidationError, match=r"\^{5}$"):
        tables.create_statement_set().add_insert_sql("INSERT INTO orders SELECT nosuc, item FROM orders")


def test_the_culprit_inside_of_a_view_is_marked_in_the_text_of_the_view(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE TEMPORARY TABLE things (id INT, gone INT) WITH ('connector' = 'datagen')")
    tables.execute_sql("CREATE VIEW ids AS SELECT gone FROM things")
    tables.execute_sql("DROP TEMPORARY TABLE things")
    tables.execute_sql("CREATE TEMPORARY TABLE things (id INT) WITH ('connector' = 'datagen')")
    with pytest.raises(ValidationError) as error:
        tables.execute_sql("SELECT * FROM ids")
    lines = error.value.message.splitlines()
    assert lines[1] == "In the view `default_catalog`.`default_database`.`ids`:"
    assert lines[2:] == ["   1 | SELECT gone FROM `default_catalog`.`default_database`.`things`", "     |        ^^^^"]
