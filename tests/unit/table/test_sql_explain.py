"""EXPLAIN with the plan of the job, and refusals of statements that have no plan."""

from __future__ import annotations

import json

import pytest

from flinkpy.common.errors import TableProgramError
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


def ways_to_the_sink(tables: TableEnvironment, options: str, key: str) -> list[str]:
    """Returns how rows reach the operators after the aggregate of an INSERT, the sink last."""
    tables.execute_sql(f"CREATE TABLE keyed (a INT, b BIGINT{key}) WITH ('connector' = 'blackhole'{options})")
    insert = "INSERT INTO keyed SELECT a, SUM(b) FROM numbers GROUP BY a"
    job = tables.explain_sql(insert, ExplainDetail.JSON_EXECUTION_PLAN).partition("== Physical Execution Plan ==\n")[2]
    nodes = json.loads(job)["nodes"]
    first = next(place for place, node in enumerate(nodes) if node["type"] == "GroupAggregate")
    return [node["predecessors"][0]["ship_strategy"] for node in nodes[first + 1 :]]


KEY = ", PRIMARY KEY (a) NOT ENFORCED"


@pytest.mark.parametrize(
    ("mode", "options", "last"),
    [
        ("AUTO", "", "FORWARD"),
        ("AUTO", ", 'sink.parallelism' = '7'", "HASH"),
        ("AUTO", ", 'sink.parallelism' = '1'", "REBALANCE"),
        ("FORCE", "", "HASH"),
        ("NONE", ", 'sink.parallelism' = '7'", "REBALANCE"),
    ],
)
def test_rows_reach_a_sink_of_another_parallelism_by_its_key(
    tables: TableEnvironment, mode: str, options: str, last: str
) -> None:
    tables.execution_environment.set_parallelism(2)
    tables.get_config().set("table.exec.sink.keyed-shuffle", mode)
    assert ways_to_the_sink(tables, options, KEY)[-1] == last


def test_changes_without_a_key_cannot_reach_a_sink_of_another_parallelism(tables: TableEnvironment) -> None:
    tables.execution_environment.set_parallelism(2)
    with pytest.raises(TableProgramError, match="configured parallelism of 7, while the input parallelism is 2"):
        ways_to_the_sink(tables, ", 'sink.parallelism' = '7'", "")
