"""EXPLAIN with the plan of the job, and refusals of statements that have no plan."""

from __future__ import annotations

import json

import pytest

from flinkpy.table import EnvironmentSettings, ExplainDetail, TableEnvironment


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql("CREATE TABLE numbers (a INT, b BIGINT) WITH ('connector' = 'datagen')")
    made.execute_sql("CREATE TABLE totals (a INT, b BIGINT) WITH ('connector' = 'print')")
    return made


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO totals SELECT a, SUM(b) FROM numbers GROUP BY a", "SELECT a, SUM(b) FROM numbers GROUP BY a"],
)
def test_the_plan_of_the_job_is_json_behind_the_other_plans(tables: TableEnvironment, statement: str) -> None:
    text = tables.explain_sql(statement, ExplainDetail.JSON_EXECUTION_PLAN)
    plans, _, job = text.partition("== Physical Execution Plan ==\n")
    assert plans.rstrip().endswith("fields=[a, b])")
    assert "GroupAggregate" in [node["type"] for node in json.loads(job)["nodes"]]
    assert tables.execution_environment.get_transformations() == []


def test_estimated_cost_says_that_there_are_no_estimates(tables: TableEnvironment) -> None:
    (row,) = tables.execute_sql("EXPLAIN ESTIMATED_COST SELECT a FROM numbers").collect()
    assert "estimates no row counts and costs" in row[0]
