"""Structured types: OBJECT_OF and OBJECT_UPDATE, declared columns, casts and text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.planner.logical import nodes as rel


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (a INT, u STRUCTURED<'com.example.User', name STRING, age INT NOT NULL>) "
        "WITH ('connector' = 'datagen')"
    )
    return made


def typed(tables: TableEnvironment, expression: str) -> str:
    return str(tables.sql_query(f"SELECT {expression} FROM t").get_resolved_schema().columns[0].type)


def value(tables: TableEnvironment, expression: str) -> Any:
    plan = tables.sql_query(f"SELECT {expression}").operation
    assert isinstance(plan, rel.Project)
    (column,) = compile_expressions(list(plan.expressions)).evaluate(pa.RecordBatch.from_pydict({"row": [0, 1]}))
    assert column[0] == column[1] or column[0].as_py() == column[1].as_py()
    return column[0].as_py()


def test_an_object_has_the_fields_of_its_keys(tables: TableEnvironment) -> None:
    made = "OBJECT_OF('User', 'name', 'Ann', 'age', 3)"
    assert typed(tables, made) == "STRUCTURED<'User', `name` CHAR(3) NOT NULL, `age` INT NOT NULL>"
    assert value(tables, made) == {"name": "Ann", "age": 3}
    assert value(tables, f"{made}.age + 1") == 4
    assert value(tables, f"CAST({made} AS STRING)") == "(name=Ann, age=3)"


def test_an_update_replaces_fields_and_keeps_the_others(tables: TableEnvironment) -> None:
    made = "OBJECT_OF('User', 'name', 'Ann', 'age', 3)"
    assert value(tables, f"OBJECT_UPDATE({made}, 'age', 4.5)") == {"name": "Ann", "age": pytest.approx(4.5)}
    assert typed(tables, "OBJECT_UPDATE(u, 'name', 'x')") == (
        "STRUCTURED<'com.example.User', `name` CHAR(1) NOT NULL, `age` INT NOT NULL>"
    )
    null = "CAST(NULL AS STRUCTURED<'User', name STRING>)"
    assert value(tables, f"OBJECT_UPDATE({null}, 'name', 'x')") is None


def test_a_column_keeps_its_class(tables: TableEnvironment) -> None:
    assert typed(tables, "u") == "STRUCTURED<'com.example.User', `name` STRING, `age` INT NOT NULL>"
    assert typed(tables, "u.name") == "STRING"
    with tables.execute_sql("DESCRIBE t").collect() as rows:
        assert [*rows][1][1] == "STRUCTURED<'com.example.User', `name` STRING, `age` INT NOT NULL>"


def test_a_row_becomes_an_object_by_a_cast_only(tables: TableEnvironment) -> None:
    kind = "STRUCTURED<'User', name STRING, age BIGINT>"
    assert value(tables, f"CAST(ROW('a', 1) AS {kind})") == {"name": "a", "age": 1}
    assert typed(tables, "CAST(u AS ROW<name STRING, age INT>)") == "ROW<`name` STRING, `age` INT>"
    tables.execute_sql(f"CREATE TABLE users (u {kind}) WITH ('connector' = 'blackhole')")
    tables.explain_sql("INSERT INTO users SELECT OBJECT_OF('User', 'name', 'a', 'age', 1)")
    with pytest.raises(ValidationError, match="Incompatible types for sink column 'u'"):
        tables.explain_sql("INSERT INTO users SELECT OBJECT_OF('Item', 'name', 'a', 'age', 1)")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("OBJECT_OF(a)", "character string literal representing the class name"),
        ("OBJECT_OF('C', a, 1)", "field key at position 2 must be a non-null character string literal"),
        ("OBJECT_OF('C', 'x', 1, 'x', 2)", "field name 'x' at position 4 is repeated"),
        ("OBJECT_OF('C', 'x')", "needs a value for each field key"),
        ("OBJECT_UPDATE(ROW(1), 'x', 1)", "must be a structured type, but was ROW"),
        (
            "OBJECT_UPDATE(u, 'x', 1)",
            r"type attributes. Available attributes: \[name, age\]",
        ),
    ],
)
def test_a_wrong_argument_is_named(tables: TableEnvironment, call: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.sql_query(f"SELECT {call} FROM t")
