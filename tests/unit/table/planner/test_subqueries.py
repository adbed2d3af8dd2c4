"""Subqueries become joins: which kind, by which keys and with which conditions."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
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
            "joinType=[InnerJoin], where=[AND(=($c1, c), >(b, EXPR$0))], select=[a, b, c, EXPR$0, $c1]",
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


def test_mark_of_an_uncorrelated_exists_has_no_row_where_the_query_has_none(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT EXISTS (SELECT x FROM u WHERE y > 1) FROM t")

    assert "GroupAggregate(groupBy=[$exists], select=[$exists]" in plan


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_condition_below_an_outer_join_stays_below_it(planner: PlannerFixture, kind: str) -> None:
    plan = planner.plan(
        f"SELECT a, (SELECT COUNT(*) FROM (SELECT * FROM t AS s WHERE s.c = t.c) AS l {kind} JOIN u ON l.a = x) FROM t"
    )

    assert f"joinType=[{kind.title()}OuterJoin], where=[AND(" in plan


def test_correlation_by_an_inequality_joins_the_distinct_values_of_the_outer_column(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a FROM t WHERE b = (SELECT MAX(y) FROM u WHERE x > a)")

    assert "GroupAggregate(groupBy=[a], select=[a, MAX_RETRACT(y) AS EXPR$0]" in plan
    assert "Join(joinType=[InnerJoin], where=[>(x, a)]" in plan
    assert plan.count("GroupAggregate(groupBy=[a], select=[a], ") == 1


def test_limit_of_a_correlated_query_is_a_rank_per_outer_value(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a, y FROM t, LATERAL (SELECT y FROM u WHERE x = a ORDER BY y DESC LIMIT 2)")

    assert "rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=2], partitionBy=[a], orderBy=[y DESC]" in plan


def test_in_as_a_value_counts_rows_with_null(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a IN (SELECT x FROM u) FROM t")

    assert "GroupAggregate(select=[COUNT(*) AS $total, COUNT(x) AS $known]" in plan


def test_exists_of_a_global_aggregate_is_always_true(planner: PlannerFixture) -> None:
    assert "Join" not in planner.plan("SELECT a FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE x = a)")


def test_subquery_of_groups_refers_to_grouping_columns(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT c, (SELECT COUNT(*) FROM u WHERE z = c) FROM t GROUP BY c")

    assert "joinType=[LeftOuterJoin], where=[=($c0, c)]" in plan
    with pytest.raises(ValidationError, match="Expression 'a' is not being grouped"):
        planner.plan("SELECT c, (SELECT COUNT(*) FROM u WHERE x = a) FROM t GROUP BY c")


def test_correlation_that_no_join_replaces_is_refused(planner: PlannerFixture) -> None:
    with pytest.raises(UnsupportedOperationError, match="OFFSET without a limit in a correlated subquery"):
        planner.plan("SELECT a, (SELECT y FROM u WHERE x > a OFFSET 1) FROM t")


def test_rows_of_except_all_and_intersect_all_are_counted_per_side(planner: PlannerFixture) -> None:
    less = planner.plan("SELECT a FROM t EXCEPT ALL SELECT x FROM u")
    both = planner.plan("SELECT a FROM t INTERSECT ALL SELECT x FROM u")

    assert "Correlate(invocation=[$REPLICATE_ROWS$1($f0, a)], select=[$f0, a, a0], joinType=[INNER]" in less
    assert "SUM(vcol_marker) AS sum_vcol_marker" in less
    assert "COUNT(vcol_left_marker) AS vcol_left_cnt, COUNT(vcol_right_marker) AS vcol_right_cnt" in both


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, (SELECT y FROM u WHERE z = t.c) FROM t WHERE c > 'm'",
        "SELECT a FROM t WHERE c > 'm' AND b < (SELECT y FROM u WHERE z = t.c)",
        "SELECT (SELECT y FROM u WHERE z = s.c) FROM (SELECT * FROM t WHERE c > 'm') AS s WHERE a IN (SELECT x FROM u)",
    ],
)
def test_a_scalar_subquery_reads_only_the_keys_that_filters_let_pass(planner: PlannerFixture, query: str) -> None:
    plan = planner.plan(query)
    assert "SINGLE_VALUE" in plan
    assert "where=[>(z, _UTF-16LE'm'" in plan


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("LEFT JOIN u ON a = x AND b > (SELECT MAX(y) FROM u AS w)", "LeftOuterJoin], where=[AND(=(a, x), >(b, "),
        ("FULL JOIN u ON a = x AND y IN (SELECT b FROM t AS s)", "FullOuterJoin], where=[AND(=(a, x), $f"),
        (
            "RIGHT JOIN u ON a = x AND EXISTS (SELECT 1 FROM t AS s WHERE s.b = y)",
            "RightOuterJoin], where=[AND(=(a, x), $f",
        ),
    ],
)
def test_subqueries_in_outer_joins_become_columns_of_an_input(
    planner: PlannerFixture, join: str, expected: str
) -> None:
    assert expected in planner.plan(f"SELECT a, y FROM t {join}")


def test_a_subquery_over_both_inputs_of_an_outer_join_is_refused(planner: PlannerFixture) -> None:
    with pytest.raises(UnsupportedOperationError, match="FULL JOIN that refers to both inputs"):
        planner.plan("SELECT a FROM t FULL JOIN u ON EXISTS (SELECT 1 FROM t AS s WHERE s.a = t.a AND s.b = u.y)")
