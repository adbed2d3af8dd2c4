"""Plans of windows and of order by time read as Flink's, and what Flink refuses is refused in its words."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import TableProgramError
from tests.unit.table.planner.planning import PlannerFixture


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    columns = ("a INT", "b BIGINT", "c STRING", "rowtime TIMESTAMP(3)", "proctime AS PROCTIME()")
    fixture.table("t", *columns, watermark="rowtime AS rowtime - INTERVAL '1' SECOND")
    return fixture


def top_n(
    planner: PlannerFixture, order: str, condition: str, keys: str = "a, ", table: str = "", rank: str = ""
) -> str:
    table = table or "TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '15' MINUTE))"
    return planner.plan(
        f"""
        SELECT a, n FROM (
          SELECT *, {rank or "ROW_NUMBER"}() OVER (PARTITION BY {keys}window_start, window_end ORDER BY {order}) AS n
          FROM {table})
        WHERE {condition}
        """
    )


def test_rank_of_windows_is_a_window_rank_that_only_inserts(planner: PlannerFixture) -> None:
    assert (
        "WindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[15 min])], "
        "rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=2], partitionBy=[a], orderBy=[rowtime DESC], "
    ) in top_n(planner, "rowtime DESC", "n < 3")
    assert "changelogMode=[I,UA" not in top_n(planner, "b", "n < 3")


def test_top_1_of_windows_by_event_time_is_a_deduplication(planner: PlannerFixture) -> None:
    dedup = (
        "WindowDeduplicate(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[15 min])], keep=[{}]"
    )
    assert dedup.format("LastRow") + ", partitionKeys=[a], orderKey=[rowtime], order=[ROWTIME]" in top_n(
        planner, "rowtime DESC", "n = 1"
    )
    assert dedup.format("FirstRow") in top_n(planner, "rowtime", "n <= 1")
    assert "WindowRank" in top_n(planner, "rowtime, b", "n = 1")


def test_rank_of_window_aggregates_takes_over_their_windows(planner: PlannerFixture) -> None:
    aggregates = """
        (SELECT a, window_start, window_end, window_time, COUNT(*) AS b FROM TABLE(
            CUMULATE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '10' MINUTE, INTERVAL '1' HOUR))
         GROUP BY a, window_start, window_end, window_time)
    """
    plan = top_n(planner, "b DESC", "n <= 3", "", aggregates)
    assert (
        "WindowRank(window=[CUMULATE(win_start=[window_start], win_end=[window_end], max_size=[1 h], step=[10 min])], "
        "rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=3], partitionBy=[], orderBy=[b DESC], "
    ) in plan
    assert "Exchange(distribution=[single]" in plan


def test_rank_without_both_bounds_of_windows_is_a_regular_one(planner: PlannerFixture) -> None:
    plan = planner.plan(
        """
        SELECT a FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY a, window_start ORDER BY b) AS n
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '15' MINUTE)))
        WHERE n = 1
        """
    )
    assert "Rank(strategy=[AppendFastStrategy]" in plan and "WindowRank" not in plan


@pytest.mark.parametrize(
    ("rank", "time", "order", "message"),
    [
        ("RANK", "rowtime", "b", "RANK() function is not supported on Window TopN currently"),
        ("DENSE_RANK", "rowtime", "b", "DENSE_RANK() function is not supported on Window TopN currently"),
        ("ROW_NUMBER", "proctime", "b", "Processing time Window TopN is not supported yet."),
        ("ROW_NUMBER", "proctime", "proctime DESC", "Processing time Window Deduplication is not supported yet."),
    ],
)
def test_ranks_of_windows_that_flink_refuses(
    planner: PlannerFixture, rank: str, time: str, order: str, message: str
) -> None:
    table = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR({time}), INTERVAL '15' MINUTE))"
    with pytest.raises(TableProgramError) as error:
        planner.plan(
            f"""
            SELECT a FROM (
              SELECT *, {rank}() OVER (PARTITION BY a, window_start, window_end ORDER BY {order}) AS n FROM {table})
            WHERE n = 1
            """
        )
    assert message in str(error.value)


def test_order_by_time_is_a_temporal_sort(planner: PlannerFixture) -> None:
    assert "TemporalSort(orderBy=[rowtime ASC, c DESC], changelogMode=[I])" in planner.plan(
        "SELECT a FROM t ORDER BY rowtime, c DESC"
    )
    assert "TemporalSort(orderBy=[proctime ASC, c ASC]" in planner.plan("SELECT a FROM t ORDER BY proctime, c")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("b", "Sort on a non-time-attribute field is not supported."),
        ("b, rowtime", "Sort on a non-time-attribute field is not supported."),
        ("rowtime DESC", "Sort: Primary sort order of a streaming table must be ascending on time."),
    ],
)
def test_other_orders_of_a_stream_are_refused(planner: PlannerFixture, order: str, message: str) -> None:
    with pytest.raises(TableProgramError) as error:
        planner.plan(f"SELECT a FROM t ORDER BY {order}")
    assert message in str(error.value)
