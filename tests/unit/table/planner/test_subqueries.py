"""Subqueries become joins: which kind, by which keys and with which conditions."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import UnsupportedOperationError
from tests.unit.table.planner.planning import PlannerFixture


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    fixture.table("t", "a INT", "b BIGINT", "c STRING")
    fixture.table("u", "x INT", "y BIGINT", "z STRING NOT NULL")
    return fixture


def join_of(plan: str) -> str:
    """Returns the first join of a plan without its inputs' keys and its changes."""
    line = next(line for line in plan.splitlines() if " Join(" in line or line.startswith("Join("))
    return line.partition("Join(")[2].partition(", leftInputSpec")[0]


@pytest.mark.parametrize(
    ("query", "join"),
    [
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a AND y > b)",
            "joinType=[LeftSemiJoin], where=[AND(=($c1, a), >($c2, b))], select=[a, b]",
        ),
        ("SELECT a FROM t WHERE a IN (SELECT x FROM u)", "joinType=[LeftSemiJoin], where=[=(a, x)], select=[a]"),
        (
            "SELECT a FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE x = a)",
            "joinType=[LeftAntiJoin], where=[=($c3, a)], select=[a]",
        ),
        (
            "SELECT a FROM t WHERE a NOT IN (SELECT x FROM u)",
            "joinType=[LeftAntiJoin], where=[OR(=(a, x), IS NULL(a), IS NULL(x))], select=[a]",
        ),
        (
            "SELECT a FROM t WHERE b >= ALL (SELECT y FROM u)",
            "joinType=[LeftAntiJoin], where=[IS NOT TRUE(>=(b, y))], select=[a, b]",
        ),
        (
            "SELECT a FROM t WHERE b > (SELECT AVG(y) FROM u WHERE z = c)",
            "joinType=[LeftOuterJoin], where=[=($c1, c)], select=[a, b, c, EXPR$0, $c1]",
        ),
        (
            "SELECT a FROM t EXCEPT SELECT x FROM u",
            "joinType=[LeftAntiJoin], where=[IS NOT DISTINCT FROM(a, x)], select=[a]",
        ),
    ],
)
def test_subquery_becomes_a_join(planner: PlannerFixture, query: str, join: str) -> None:
    assert join_of(planner.plan(query)) == join


def test_scalar_query_that_may_have_several_rows_is_checked(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a, (SELECT y FROM u WHERE x = a) FROM t")

    assert "GroupAggregate(groupBy=[$c1], select=[$c1, SINGLE_VALUE(EXPR$0)" in plan.replace("(y)", "(EXPR$0)")


def test_count_of_a_correlated_query_is_zero_where_nothing_joins(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a, v FROM t, LATERAL (SELECT COUNT(*) AS v FROM u WHERE x = a)")

    assert plan.startswith("Calc(select=[a, COALESCE(v, 0:BIGINT) AS v]")
    assert "joinType=[LeftOuterJoin]" in plan


def test_exists_below_or_becomes_an_outer_join_with_a_mark(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a FROM t WHERE a = 1 OR EXISTS (SELECT 1 FROM u WHERE x = a)")

    assert plan.startswith("Calc(select=[a], where=[OR(=(a, 1), IS NOT NULL($mark))]")


def test_correlation_that_no_join_replaces_is_refused(planner: PlannerFixture) -> None:
    with pytest.raises(UnsupportedOperationError, match="may compare columns of the query around it by '=' only"):
        planner.plan("SELECT a FROM t WHERE b = (SELECT MAX(y) FROM u WHERE x > a)")
