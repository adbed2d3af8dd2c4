"""Errors of queries name the place and the culprit, in Flink's words, with a similar name where there is one."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import TableProgramError, ValidationError
from tests.unit.table.planner.planning import PlannerFixture


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    fixture.table("t", "a INT", "b BIGINT", "price BIGINT", "ts TIMESTAMP(3)", "r ROW<x INT, y STRING>")
    fixture.table("e", "k INT", "ts TIMESTAMP(3)", watermark="ts AS ts")
    fixture.table("appends", "b BIGINT", "n BIGINT", mode="I")
    fixture.table("upserts", "b BIGINT", "n BIGINT", key=("b",), mode="I,UA,D")
    return fixture


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nosuch FROM t", "From line 1, column 8 to line 1, column 13: Column 'nosuch' not found in any table"),
        ("SELECT prise FROM t", "Column 'prise' not found in any table; did you mean 'price'?"),
        ("SELECT t.prise FROM t", "Column 'prise' not found in table 't'; did you mean 'price'?"),
        ("SELECT r.z FROM t", "Column 'r.z' not found in any table"),
        ("SELECT x.a FROM t", "Table 'x' not found"),
        ("SELECT a FROM nosuch", "column 15 to line 1, column 20: Object 'nosuch' not found"),
        ("SELECT a FROM t, t AS u", "Column 'a' is ambiguous"),
        (
            "SELECT lowr('a') FROM t",
            "No match found for function signature lowr(<CHAR(1) NOT NULL>); did you mean 'lower'?",
        ),
        ("SELECT a FROM t WHERE b", "WHERE clause must be a condition, not BIGINT"),
        ("SELECT a FROM t WHERE COUNT(*) > 1", "Aggregate expression is illegal in WHERE clause"),
        ("SELECT a, COUNT(*) FROM t", "At line 1, column 8: Expression 'a' is not being grouped"),
        ("SELECT MIN(b), BOOL_AND(b) FROM t", "No match found for function signature BOOL_AND(<BIGINT>)"),
        ("SELECT SUM(COUNT(*)) FROM t", "Aggregate expressions cannot be nested"),
        ("SELECT ROW_NUMBER() FROM t", "OVER clause is necessary for window functions: ROW_NUMBER"),
        ("SELECT a + r FROM t", "Cannot apply '+' to arguments of type '<INT> + <ROW<`x` INT, `y` STRING>>'"),
        ("SELECT a = r FROM t", "Cannot apply '=' to arguments of type"),
        ("SELECT a FROM t UNION ALL SELECT a, b FROM t", "Column count mismatch in UNION"),
        ("SELECT CASE WHEN a = 1 THEN 1 ELSE r END FROM t", "Illegal mixing of types in CASE or COALESCE statement"),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))",
            "requires the timecol is a time attribute",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(tss), INTERVAL '1' DAY))",
            "Unknown identifier 'tss'; did you mean 'ts'?",
        ),
        (
            "SELECT a FROM t GROUP BY a, TUMBLE(ts, INTERVAL '1' DAY)",
            "Window can only be defined over a time attribute",
        ),
        ("SELECT a FROM t ORDER BY 2", "Ordinal out of range"),
        ("INSERT INTO appends SELECT b FROM t", "Cause: Different number of columns"),
        ("INSERT INTO appends SELECT b, ts FROM t", "Incompatible types for sink column 'n' at position 1"),
        ("INSERT INTO appends (nn) SELECT b FROM t", "Unknown target column 'nn'; did you mean 'n'?"),
    ],
)
def test_invalid_query_is_refused(planner: PlannerFixture, query: str, message: str) -> None:
    with pytest.raises(ValidationError) as error:
        planner.plan(query)
    assert message in str(error.value)


def test_sink_that_cannot_take_updates_is_told_who_sends_them(planner: PlannerFixture) -> None:
    with pytest.raises(TableProgramError) as error:
        planner.plan("INSERT INTO appends SELECT b, COUNT(*) FROM t GROUP BY b")
    assert str(error.value).startswith(
        "Table sink 'default_catalog.default_database.appends' doesn't support consuming update changes which is "
        "produced by node GroupAggregate(groupBy=[b], select=[b, COUNT(*) AS EXPR$1])"
    )
    assert "Write to a table that takes such changes" in str(error.value)
    assert "group by a window of time" in str(error.value)


def test_stream_cannot_be_sorted_by_a_regular_column(planner: PlannerFixture) -> None:
    with pytest.raises(TableProgramError, match="Sort on a non-time-attribute field is not supported"):
        planner.plan("SELECT a FROM t ORDER BY a")


def test_upsert_sink_with_the_key_of_the_query_gets_no_update_before(planner: PlannerFixture) -> None:
    plan = planner.plan("INSERT INTO upserts SELECT b, COUNT(*) FROM t GROUP BY b")

    assert "upsertMaterialize" not in plan
    assert "COUNT(*) AS EXPR$1], changelogMode=[I,UA])" in plan


def test_upsert_sink_with_another_key_gets_whole_changes_and_is_materialised(planner: PlannerFixture) -> None:
    insert = "INSERT INTO upserts SELECT MAX(b), COUNT(*) FROM t GROUP BY a ON CONFLICT DO DEDUPLICATE"
    plan = planner.plan(insert)

    assert "upsertMaterialize=[true], conflictStrategy=[DEDUPLICATE]" in plan
    assert "changelogMode=[I,UB,UA])" in plan


def test_filter_above_an_aggregate_makes_it_send_the_old_row(planner: PlannerFixture) -> None:
    plan = planner.plan("INSERT INTO upserts SELECT b, COUNT(*) FROM t GROUP BY b HAVING COUNT(*) < 10")

    assert "COUNT(*) AS EXPR$1], changelogMode=[I,UB,UA])" in plan
