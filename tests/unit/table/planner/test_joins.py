"""Plans of joins of streams by time."""

from __future__ import annotations

import pytest
from planning import PlannerFixture

from flinkpy.common.errors import TableProgramError, ValidationError


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    columns = ("k BIGINT", "v STRING", "ts TIMESTAMP(3)")
    fixture.table("l", *columns, watermark="ts AS ts")
    fixture.table("r", *columns, watermark="ts AS ts")
    fixture.table("p", "k BIGINT", "v STRING", "pt AS PROCTIME()")
    fixture.table("pr", *columns, "pt AS PROCTIME()", watermark="ts AS ts")
    fixture.table("rates", "rate INT", *columns, watermark="ts AS ts", key=("k",), mode="I,UA,D")
    fixture.table("history", "rate INT", *columns, watermark="ts AS ts")
    fixture.view(
        "last_rates",
        "SELECT rate, k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM history) "
        "WHERE n = 1",
    )
    return fixture


def test_equal_event_times_are_an_interval(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT l.v FROM l JOIN r ON l.k = r.k AND l.ts = r.ts AND l.v < r.v")

    assert (
        "windowBounds=[isRowTime=true, leftLowerBound=0, leftUpperBound=0, leftTimeIndex=2, rightTimeIndex=2]" in plan
    )
    assert plan.count("Exchange(distribution=[hash[k]]") == 2


def test_both_times_of_an_interval_join_stay_time_attributes(planner: PlannerFixture) -> None:
    planner.view(
        "j",
        "SELECT l.k, l.ts AS lt, r.ts AS rt FROM l LEFT JOIN r "
        "ON l.k = r.k AND l.ts BETWEEN r.ts AND r.ts + INTERVAL '1' MINUTE",
    )
    for time in ("lt", "rt"):
        plan = planner.plan(
            f"SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR({time}), INTERVAL '1' HOUR)) "
            "GROUP BY window_start, window_end"
        )
        assert "IntervalJoin(joinType=[LeftOuterJoin]" in plan


def test_semi_joins_and_open_intervals_are_regular_joins(planner: PlannerFixture) -> None:
    semi = "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND l.ts = r.ts)"
    half_open = "SELECT l.k FROM l JOIN r ON l.k = r.k AND l.ts > r.ts"

    assert "Join(joinType=[LeftSemiJoin]" in planner.plan(semi)
    assert "IntervalJoin" not in planner.plan(half_open)


def test_processing_times_are_joined_without_event_times(planner: PlannerFixture) -> None:
    on = "ON x.k = y.k AND x.pt BETWEEN y.pt - INTERVAL '5' SECOND AND y.pt"

    assert "isRowTime=false, leftLowerBound=-5000, leftUpperBound=0" in planner.plan(
        f"SELECT x.v FROM p AS x JOIN p AS y {on}"
    )
    with pytest.raises(TableProgramError, match="requires no event-time attributes are in the join inputs"):
        planner.plan(f"SELECT x.v, x.ts FROM pr AS x JOIN p AS y {on}")


# -- temporal joins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", ["rates", "last_rates"])
def test_a_table_with_key_and_event_time_is_joined_as_of_the_time_of_the_left_row(
    planner: PlannerFixture, rates: str
) -> None:
    plan = planner.plan(f"SELECT l.v, r.rate FROM l LEFT JOIN {rates} FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k")

    assert "TemporalJoin(joinType=[LeftOuterJoin], where=[=(k, k0)], select=[k, v, ts, rate, k0, " in plan
    assert "changelogMode=[I]" in plan.partition("TemporalJoin")[2].partition("\n")[0]
    # The right side sends no UPDATE_BEFORE: a version replaces the one before it.
    assert "UB" not in plan


def test_a_temporal_join_passes_the_changes_of_its_left_input_on(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT l.rate, r.rate FROM rates l JOIN last_rates FOR SYSTEM_TIME AS OF l.ts r ON l.k = r.k")

    assert "[I,UA,D]" in plan.partition("TemporalJoin(")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("FROM l JOIN rates FOR SYSTEM_TIME AS OF l.ts AS r ON l.v = r.v", r"primary key \[k\] must be included"),
        ("FROM l JOIN rates FOR SYSTEM_TIME AS OF l.ts AS r ON TRUE", "join key .* can not be empty"),
        ("FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k", "no primary key can be found"),
        ("FROM l JOIN p FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k", "no row time attribute can be found"),
        ("FROM l JOIN zoned FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k", "requires same rowtime type"),
        (
            "FROM plain AS l JOIN rates FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k",
            "left table's time attribute field",
        ),
        ("FROM l RIGHT JOIN rates FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k", "only support INNER JOIN and LEFT"),
        ("FROM p AS l JOIN rates FOR SYSTEM_TIME AS OF l.pt AS r ON l.k = r.k", "Processing-time temporal join"),
    ],
)
def test_a_table_that_is_not_versioned_is_refused(planner: PlannerFixture, join: str, message: str) -> None:
    planner.table("plain", "k BIGINT", "v STRING", "ts TIMESTAMP(3)")
    planner.table("zoned", "k BIGINT", "ts TIMESTAMP_LTZ(3)", watermark="ts AS ts", key=("k",))
    with pytest.raises((ValidationError, TableProgramError), match=message):
        planner.plan(f"SELECT l.v {join}")


# -- mini-batches ----------------------------------------------------------------------------------------------------


def test_regular_joins_collect_mini_batches_but_semi_joins_do_not(planner: PlannerFixture) -> None:
    for option, value in (("enabled", "true"), ("allow-latency", "1 s"), ("size", "100")):
        planner.configuration.set_string(f"table.exec.mini-batch.{option}", value)

    assert "miniBatch=[true]" in planner.plan("SELECT l.v, r.v FROM l LEFT JOIN r ON l.k = r.k")
    assert "miniBatch" not in planner.plan("SELECT v FROM l WHERE k IN (SELECT k FROM r)")


# -- lookup joins ----------------------------------------------------------------------------------------------------


def lookup_of(planner: PlannerFixture, hint: str, left: str = "p") -> str:
    planner.table("d", "k BIGINT", "name STRING", lookup="async")
    plan = planner.plan(
        f"SELECT {hint} o.k, d.name FROM {left} AS o JOIN d FOR SYSTEM_TIME AS OF o.pt ON o.k = d.k", changelog=False
    )
    return next(line for line in plan.splitlines() if "LookupJoin(" in line)


def test_asynchronous_lookups_are_preferred_and_follow_options_and_hint(planner: PlannerFixture) -> None:
    planner.configuration.set_string("table.exec.async-lookup.buffer-capacity", "7")
    plan = lookup_of(planner, "/*+ LOOKUP('table' = 'd', 'output-mode' = 'allow_unordered', 'timeout' = '20 s') */")

    assert "joinType=[InnerJoin], async=[UNORDERED, KEY_ORDERED: false, 20000ms, 7], lookup=[k=k]" in plan


def test_results_of_lookups_for_updates_stay_in_order(planner: PlannerFixture) -> None:
    planner.table("u", "k BIGINT", "pt AS PROCTIME()", key=("k",), mode="I,UA,D")
    plan = lookup_of(planner, "/*+ LOOKUP('table' = 'd', 'output-mode' = 'allow_unordered') */", "u")

    assert "async=[ORDERED, KEY_ORDERED: false, 180000ms, 100]" in plan


def test_a_hint_turns_asynchronous_lookups_off_and_retries_on(planner: PlannerFixture) -> None:
    plan = lookup_of(
        planner,
        "/*+ LOOKUP('table' = 'd', 'async' = 'false', 'retry-predicate' = 'lookup_miss', "
        "'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10 s', 'max-attempts' = '3') */",
    )

    assert "async=" not in plan
    assert "retry=[lookup_miss, FIXED_DELAY, 10000ms, 3]" in plan


def test_a_hint_sends_the_rows_of_a_key_to_one_subtask(planner: PlannerFixture) -> None:
    planner.table("d", "k BIGINT", "name STRING", lookup="sync")
    plan = planner.plan(
        "SELECT /*+ LOOKUP('table' = 'd', 'shuffle' = 'true') */ o.v, d.name FROM p AS o "
        "JOIN d FOR SYSTEM_TIME AS OF o.pt ON o.k = d.k"
    )

    assert "Exchange(distribution=[hash[k]]" in plan.partition("LookupJoin(")[2]
    assert "shuffle=[true]" in plan
