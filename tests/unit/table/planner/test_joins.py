"""Plans of joins of streams by time."""

from __future__ import annotations

import pytest
from planning import PlannerFixture

from flinkpy.common.errors import TableProgramError


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    columns = ("k BIGINT", "v STRING", "ts TIMESTAMP(3)")
    fixture.table("l", *columns, watermark="ts AS ts")
    fixture.table("r", *columns, watermark="ts AS ts")
    fixture.table("p", "k BIGINT", "v STRING", "pt AS PROCTIME()")
    fixture.table("pr", *columns, "pt AS PROCTIME()", watermark="ts AS ts")
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
