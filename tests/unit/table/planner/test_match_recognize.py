"""MATCH_RECOGNIZE is planned as in Flink 2.3, and what Flink refuses is refused in its words."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.errors import FlinkError
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.planner import explain
from tests.unit.table.planner.planning import PlannerFixture


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    fixture.table(
        "e", "id INT", "k STRING", "price INT", "tax INT", "ts TIMESTAMP(3)", "pt AS PROCTIME()", watermark="ts AS ts"
    )
    return fixture


def match(**parts: str) -> str:
    given = {
        "part": "PARTITION BY k",
        "order": "ORDER BY ts",
        "measures": "A.id AS aid",
        "rows": "ONE ROW PER MATCH",
        "after": "AFTER MATCH SKIP PAST LAST ROW",
        "pattern": "A B",
        "within": "",
        "subset": "",
        "define": "A AS A.price > 1",
        **parts,
    }
    return (
        f"SELECT * FROM e MATCH_RECOGNIZE ({given['part']} {given['order']} MEASURES {given['measures']} "
        f"{given['rows']} {given['after']} PATTERN ({given['pattern']}) {given['within']} {given['subset']} "
        f"DEFINE {given['define']}) AS t"
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"pattern": "A | B"}, "Currently, CEP doesn't support branching patterns."),
        ({"pattern": "PERMUTE(A, B)"}, "Currently, CEP doesn't support PERMUTE patterns."),
        ({"pattern": "A {- B -} C"}, "Currently, CEP doesn't support '{-' '-}' patterns."),
        ({"pattern": "(A B)+ C"}, "Group patterns are not supported yet."),
        ({"pattern": "A B*"}, "Greedy quantifiers are not allowed as the last element of a Pattern yet."),
        ({"pattern": "A* B?"}, "Optional pattern cannot be preceded by greedy pattern"),
        ({"pattern": "A? B*?"}, "Patterns that can produce empty matches are not supported."),
        ({"pattern": "A?? B"}, "Reluctant optional variables are not supported yet."),
        ({"pattern": "A B A"}, "Pattern variables must be unique. That might change in the future."),
        ({"pattern": "A{0} B"}, "The to should be a number greater than or equal to from: "),
        ({"pattern": "^ A B"}, "the anchors ^ and $ of a PATTERN are not supported"),
        ({"subset": "SUBSET U = (A, B)"}, "SUBSET in MATCH_RECOGNIZE is not supported"),
        ({"rows": "ALL ROWS PER MATCH"}, "All rows per match mode is not supported yet."),
        ({"order": ""}, "You must specify either rowtime or proctime for order by."),
        ({"order": "ORDER BY price, ts"}, "You must specify either rowtime or proctime for order by as the first one."),
        ({"order": "ORDER BY ts DESC"}, "Primary sort order of a streaming table must be ascending on time."),
        ({"after": "AFTER MATCH SKIP TO FIRST C"}, "Unknown pattern 'C'"),
        (
            {"within": "WITHIN INTERVAL '1' MONTH"},
            "Only constant intervals with millisecond resolution are supported as time constraints of patterns.",
        ),
        ({"define": "A AS A.price > 1, A AS A.price > 2"}, "Pattern variable 'A' has already been defined"),
        ({"define": "A AS A.price"}, "DEFINE clause must be a condition"),
        ({"define": "A AS PREV(A.price) > 1"}, "Flink does not support physical offsets within partition."),
        ({"define": "A AS FINAL LAST(A.price) > 1"}, "Cannot use RUNNING/FINAL in DEFINE"),
        ({"measures": "RUNNING LAST(A.id) AS x"}, "Unsupported call: RUNNING"),
        ({"measures": "SUM(A.price + B.price) AS x"}, "Multiple pattern variables in 'SUM("),
        ({"measures": "FIRST(A.price + B.price) AS x"}, "Multiple pattern variables in 'FIRST("),
        ({"measures": "SUM(DISTINCT A.price) AS x"}, "DISTINCT/ALL not allowed with SUM("),
        ({"measures": "FIRST(LAST(A.price)) AS x"}, "Cannot nest PREV/NEXT under LAST/FIRST"),
        ({"measures": "PREV(A.price) AS x"}, "Cannot use PREV/NEXT in MEASURE"),
        ({"measures": "CLASSIFIER() AS x"}, "Unsupported call: CLASSIFIER()"),
        ({"measures": "C.id AS x"}, "Table 'C' not found"),
        ({"measures": "A.nope AS x"}, "Column 'nope' not found in table 'A'"),
        ({"measures": "A.id AS k"}, "Columns ambiguously defined: {k}"),
        ({"part": "PARTITION BY price + 1"}, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE take columns"),
    ],
)
def test_unsupported_statements_are_refused(planner: PlannerFixture, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(FlinkError) as caught:
        planner.plan(match(**parts))
    assert message in str(caught.value)


def test_updates_are_refused(planner: PlannerFixture) -> None:
    query = (
        "SELECT * FROM (SELECT k, MAX(price) AS price, PROCTIME() AS p FROM e GROUP BY k) "
        "MATCH_RECOGNIZE (ORDER BY p MEASURES A.k AS x PATTERN (A B) DEFINE A AS A.price > 1)"
    )
    with pytest.raises(FlinkError, match="Match Recognize doesn't support consuming update changes"):
        planner.plan(query)


def test_plan_reads_like_that_of_flink(planner: PlannerFixture) -> None:
    plan = planner.plan(
        match(
            order="ORDER BY ts, price DESC",
            pattern="A+ B{2,3} C",
            after="AFTER MATCH SKIP TO LAST B",
            measures="id AS x, LAST(id, 1) AS y, FIRST(A.price + A.tax, 1) AS z, SUM(price) AS s",
            define="B AS B.price > A.price AND B.tax < LAST(B.tax, 1), A AS price > 2 AND LAST(price, 1) > 3",
        )
    )
    assert (
        "Match(partitionBy=[k], orderBy=[ts ASC, price DESC], measures=[FINAL(*.id) AS x, FINAL(LAST(*.id, 1)) AS y, "
        "FINAL(+(FIRST(A.price, 1), FIRST(A.tax, 1))) AS z, FINAL(SUM(*.price)) AS s], "
        "rowsPerMatch=[ONE ROW PER MATCH], after=[SKIP TO LAST _UTF-16LE'B'], "
        "pattern=[((PATTERN_QUANTIFIER(_UTF-16LE'A', 1, -1, false), "
        "PATTERN_QUANTIFIER(_UTF-16LE'B', 2, 3, false)), _UTF-16LE'C')], "
        "define=[{B=AND(>(PREV(B.$2, 0), LAST(A.$2, 0)), <(PREV(B.$3, 0), LAST(B.$3, 1))), "
        "A=AND(>(LAST(*.$2, 0), 2), >(LAST(*.$2, 1), 3))}], changelogMode=[I])"
    ) in plan


def test_a_compiled_plan_has_the_same_match(planner: PlannerFixture) -> None:
    planner.table("found", "k STRING", "x INT", "s INT")
    insert = "INSERT INTO found " + match(
        pattern="A+ B{2,3} C",
        within="WITHIN INTERVAL '5' SECOND",
        after="AFTER MATCH SKIP TO LAST B",
        measures="LAST(id, 1) AS x, SUM(A.price) AS s",
        define="B AS B.price > FIRST(A.price, 1) + 1",
    )
    text = planner.planner.compile_plan([planner.operation(insert)])
    graph = planner.planner.load_plan(text)
    assert "".join(explain.physical_text(each, changelog=True) for each in graph.roots) == planner.plan(insert)
    assert planner.planner.compile_plan([planner.operation(insert)]) == text


def test_match_rowtime_stays_an_event_time_and_columns_do_not(planner: PlannerFixture) -> None:
    operation = planner.operation(match(measures="MATCH_ROWTIME() AS rt, A.ts AS t"))
    types = [str(each.type) for each in operation.row_type.fields]
    assert types == ["STRING", "TIMESTAMP(3) *ROWTIME* NOT NULL", "TIMESTAMP(3)"]


def test_columns_that_no_expression_needs_are_not_read(planner: PlannerFixture) -> None:
    assert "Calc(select=[id, k, price, ts]" in planner.plan(match())


def test_conditions_on_the_partition_are_pushed_below(planner: PlannerFixture) -> None:
    plan = planner.plan(f"{match()} WHERE k = 'a' AND aid > 2").splitlines()
    assert "where=[>(aid, 2)]" in plan[0]
    assert any("where=[=(k, _UTF-16LE'a'" in line for line in plan[2:])


def test_in_batch_mode_rows_are_in_the_order_of_any_timestamp() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.execute_sql(
        "CREATE TABLE e (id INT, k STRING, price INT, ts TIMESTAMP(6)) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '1')"
    )
    assert "Match(partitionBy=[k], orderBy=[ts ASC]" in tables.explain_sql(match())
    with pytest.raises(FlinkError, match="You must specify time point for order by as the first one"):
        tables.explain_sql(match(order="ORDER BY price"))
    with pytest.raises(FlinkError, match="You must specify non-empty order by"):
        tables.explain_sql(match(order=""))
