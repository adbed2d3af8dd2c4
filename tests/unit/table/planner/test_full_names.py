"""Views mean the same after USE: they store names of tables, functions and models in full."""

from __future__ import annotations

import pytest

from flinkpy.sql.parser import parse_query
from flinkpy.sql.parser.unparse import unparse
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.planner.binder.full_names import FullNames
from flinkpy.table.types import DataTypes
from flinkpy.table.udf import udf


def full(query: str) -> str:
    known = {("f",): ("c", "d", "f")}
    names = FullNames(lambda parts: ("c", "d", parts[-1]), known.get)
    return unparse(names.of(parse_query(query)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT t.a FROM t", "SELECT t.a FROM `c`.`d`.`t`"),
        ("SELECT a FROM d.t AS x", "SELECT a FROM `c`.`d`.`t` AS x"),
        ("TABLE t", "TABLE `c`.`d`.`t`"),
        ("SELECT f(a), UPPER(a) FROM t", "SELECT `c`.`d`.`f`(a), UPPER(a) FROM `c`.`d`.`t`"),
        (
            "WITH t AS (SELECT 1 FROM t), u AS (SELECT * FROM t) SELECT * FROM u JOIN d.t ON TRUE",
            "WITH t AS (SELECT 1 FROM `c`.`d`.`t`), u AS (SELECT * FROM t) SELECT * FROM u JOIN `c`.`d`.`t` ON TRUE",
        ),
        (
            "SELECT 1 FROM TUMBLE(TABLE t, DESCRIPTOR(s), INTERVAL '1' DAY) WHERE EXISTS (TABLE u)",
            "SELECT 1 FROM TUMBLE(TABLE `c`.`d`.`t`, DESCRIPTOR(s), INTERVAL '1' DAY) WHERE EXISTS (TABLE `c`.`d`.`u`)",
        ),
        (
            "SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(a))",
            "SELECT * FROM ML_PREDICT(TABLE `c`.`d`.`t`, MODEL `c`.`d`.`m`, DESCRIPTOR(a))",
        ),
    ],
)
def test_names_are_written_in_full_except_those_of_with(query: str, expected: str) -> None:
    assert full(query) == unparse(parse_query(expected))


def test_a_view_reads_the_same_after_use() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql("CREATE TABLE t (a INT, s STRING) WITH ('connector' = 'datagen')")
    plus_one = udf(lambda a: a + 1, result_type=DataTypes.INT())
    tables.create_temporary_function("plus_one", plus_one)
    tables.create_temporary_system_function("of_system", plus_one)
    tables.execute_sql("CREATE VIEW v AS SELECT plus_one(a) AS b, of_system(t.a) AS c, UPPER(s) AS d FROM t")
    tables.execute_sql("CREATE DATABASE other")
    tables.execute_sql("CREATE TABLE other.t (x INT) WITH ('connector' = 'datagen')")
    tables.execute_sql("USE other")
    plan = tables.explain_sql("SELECT * FROM default_database.v")
    assert "table=[[default_catalog, default_database, t]]" in plan
