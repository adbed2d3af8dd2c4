"""Plans of windows and of order by time read as Flink's, and what Flink refuses is refused in its words."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import TableProgramError
from flinkpy.table.planner import explain
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


GROUP_WINDOW = "SELECT b, COUNT(*) FROM t GROUP BY b, {}(rowtime, INTERVAL '10' SECOND)"
EARLY = {"table.exec.emit.early-fire.enabled": "true"}
LATE = {"table.exec.emit.late-fire.enabled": "true"}


def configured(planner: PlannerFixture, **options: str) -> PlannerFixture:
    for key, value in options.items():
        planner.configuration.set_string(key, value)
    return planner


def test_group_windows_send_updates_if_they_send_early_or_late_results(planner: PlannerFixture) -> None:
    plan = configured(planner, **EARLY, **{"table.exec.emit.early-fire.delay": "1 s"}).plan(
        GROUP_WINDOW.format("TUMBLE")
    )
    assert "emit=[early delay 1000 millisecond], changelogMode=[I,UA])" in plan
    late = {"table.exec.emit.late-fire.delay": "0 s", "table.exec.emit.allow-lateness": "1 min"}
    plan = configured(planner, **LATE, **late).plan(GROUP_WINDOW.format("TUMBLE"))
    assert "emit=[early delay 1000 millisecond, late no delay], changelogMode=[I,UA])" in plan


@pytest.mark.parametrize(
    ("options", "query", "message"),
    [
        (EARLY, GROUP_WINDOW.format("SESSION"), "Session window doesn't support EMIT strategy currently."),
        (EARLY, GROUP_WINDOW.format("TUMBLE"), "Early-fire delay should not be null"),
        (LATE, GROUP_WINDOW.format("TUMBLE"), "The 'AFTER WATERMARK' emit strategy requires set 'allow-lateness'"),
        (
            {**LATE, "table.exec.emit.late-fire.delay": "2 s", "table.exec.state.ttl": "1 s"},
            GROUP_WINDOW.format("TUMBLE"),
            "Allow-lateness [1000ms] should not be smaller than Late-fire delay [2000ms]",
        ),
        (
            EARLY,
            """
            SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))
            GROUP BY window_start, window_end
            """,
            "window table function based aggregate doesn't support early-fire and late-fire configuration",
        ),
    ],
)
def test_emit_strategies_that_flink_refuses(
    planner: PlannerFixture, options: dict[str, str], query: str, message: str
) -> None:
    with pytest.raises(TableProgramError) as error:
        configured(planner, **options).plan(query)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("SUM(b) OVER (ORDER BY rowtime DESC)", "The window can only be ordered in ASCENDING mode."),
        ("SUM(b) OVER (ORDER BY rowtime, b)", "The window can only be ordered by a single time column."),
        ("LEAD(b) OVER (ORDER BY rowtime)", "LEAD Function is not supported in stream mode."),
        ("NTILE(2) OVER (ORDER BY proctime)", "NTILE Function is not supported in stream mode."),
        ("SUM(b) OVER (ORDER BY rowtime), SUM(b) OVER (ORDER BY proctime)", "must be computed on the same window."),
        (
            "SUM(b) OVER (ORDER BY rowtime ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
            "OVER RANGE FOLLOWING windows are not supported yet.",
        ),
    ],
)
def test_over_by_time_that_flink_refuses(planner: PlannerFixture, call: str, message: str) -> None:
    with pytest.raises(TableProgramError) as error:
        planner.plan(f"SELECT {call} FROM t")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "query",
    [
        GROUP_WINDOW.format("TUMBLE"),
        "SELECT a, b FROM t ORDER BY rowtime, c",
        """
        SELECT a, b FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY a, window_start, window_end ORDER BY rowtime DESC) AS n
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '15' MINUTE)))
        WHERE n <= 3
        """,
    ],
)
def test_windows_are_the_same_in_a_compiled_plan(planner: PlannerFixture, query: str) -> None:
    configured(planner, **EARLY, **{"table.exec.emit.early-fire.delay": "1 s"})
    planner.table("out", "x BIGINT", "y BIGINT", key=("x",), mode="I,UA,D")
    insert = planner.operation(f"INSERT INTO `out` {query} ON CONFLICT DO DEDUPLICATE")
    (root,) = planner.planner.load_plan(planner.planner.compile_plan([insert])).roots
    assert explain.physical_text(root, changelog=True) == planner.planner.physical_text([insert], changelog=True)


def test_windows_of_updates_are_aggregated_in_one_phase_that_takes_rows_back(planner: PlannerFixture) -> None:
    query = """
        SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end
    """
    assert "LocalWindowAggregate" in planner.plan(query.format("t"))
    last = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY rowtime DESC) AS n FROM t) WHERE n = 1"
    planner.view("latest", last)
    plan = planner.plan(query.format("latest"))
    assert "WindowAggregate(window=[TUMBLE(time_col=[rowtime], size=[1 min])], select=[COUNT_RETRACT(*)" in plan
    assert "LocalWindowAggregate" not in plan and "changelogMode=[I,UB,UA,D]" in plan


def test_offset_of_windows_may_be_negative(planner: PlannerFixture) -> None:
    window = "TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '10' MINUTE, INTERVAL '-3' MINUTE)"
    assert "size=[10 min], offset=[-3 min]" in planner.plan(f"SELECT a FROM TABLE({window})")


def test_rank_functions_of_top_n_that_flink_refuses(planner: PlannerFixture) -> None:
    with pytest.raises(TableProgramError, match=r"DENSE_RANK\(\) on streaming table is not supported currently"):
        planner.plan("SELECT a FROM (SELECT a, DENSE_RANK() OVER (PARTITION BY a ORDER BY b) AS n FROM t) WHERE n <= 3")


SESSION = "TABLE(SESSION(TABLE t PARTITION BY a, DESCRIPTOR(rowtime), INTERVAL '5' MINUTE))"


def test_sessions_are_assigned_behind_an_exchange_by_their_keys(planner: PlannerFixture) -> None:
    plan = planner.plan(f"SELECT window_start, b FROM {SESSION}")
    text = (
        "WindowTableFunction(window=[SESSION(time_col=[rowtime], gap=[5 min], partition keys=[a])], changelogMode=[I])"
    )
    assert text in plan and plan.index(text) < plan.index("Exchange(distribution=[hash[a]]")


@pytest.mark.parametrize(
    ("keys", "condition", "is_one_operator"),
    [("a, ", "", True), ("", "", False), ("a, b, ", "", False), ("a, ", "WHERE b > 1", False)],
)
def test_an_aggregate_assigns_sessions_if_it_has_their_keys(
    planner: PlannerFixture, keys: str, condition: str, is_one_operator: bool
) -> None:
    plan = planner.plan(f"SELECT COUNT(*) FROM {SESSION} {condition} GROUP BY {keys}window_start, window_end")
    assert ("WindowTableFunction" not in plan) == is_one_operator
    if not is_one_operator:
        # The start of a session is a key, because sessions that end together may begin apart.
        assert f"Exchange(distribution=[hash[{keys}window_start]]" in plan
