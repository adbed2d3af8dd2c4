"""Plans after the rules: grouping sets, push-down into sources, interval joins, mini-batches, reuse."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table.connectors.table_source import FilterPushDown
from tests.unit.table.planner import planning
from tests.unit.table.planner.planning import FakeScan, PlannerFixture


class PushingScan(FakeScan):
    """A source that takes over projections of nested fields, comparisons of the first column, and limits."""

    @property
    def supports_nested_projection(self) -> bool:
        return True

    def with_projection(self, paths: Any, produced_type: Any) -> PushingScan:
        return PushingScan(produced_type, self.mode)

    def with_filters(self, filters: Any) -> FilterPushDown:
        accepted = tuple(each for each in filters if "$0" in str(each))
        return FilterPushDown(self, accepted, tuple(each for each in filters if each not in accepted))

    def with_limit(self, limit: int) -> PushingScan:
        return self


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    fixture.table("t", "a INT", "b BIGINT", "r ROW<x INT, y STRING>", "ts TIMESTAMP(3)", watermark="ts AS ts")
    fixture.table("u", "a INT", "b BIGINT", "ts TIMESTAMP(3)", watermark="ts AS ts")
    fixture.table("v", "a INT", "r ROW<x INT, y STRING>", "c STRING")
    return fixture


@pytest.fixture
def pushing(planner: PlannerFixture, monkeypatch: pytest.MonkeyPatch) -> PlannerFixture:
    monkeypatch.setattr(planning, "FakeScan", PushingScan)
    return planner


def scan_of(plan: str) -> str:
    return plan.splitlines()[-1].partition("TableSourceScan")[2].partition(", changelogMode")[0]


def test_each_grouping_set_is_a_projection_of_an_expand(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT a, b, SUM(b), GROUPING(b) FROM t GROUP BY GROUPING SETS ((a), (a, b))")

    assert "projects=[{a, null AS b, b AS b_0, 1:BIGINT AS $e}, {a, b, b AS b_0, 0:BIGINT AS $e}]" in plan
    assert "groupBy=[a, b, $e], select=[a, b, $e, SUM(b_0) AS EXPR$2]" in plan


def test_windows_can_be_grouped_by_sets(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "SELECT a, window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY window_start, window_end, GROUPING SETS ((a), ())"
    )

    assert "LocalWindowAggregate(groupBy=[a, $e], window=[TUMBLE(win_start=[window_start]" in plan


def test_source_reads_only_the_fields_of_nested_rows_that_are_needed(pushing: PlannerFixture) -> None:
    assert "project=[r_x, c]]], fields=[r_x, c]" in scan_of(pushing.plan("SELECT r.x + 1, c FROM v"))


def test_fields_are_read_by_the_source_below_a_watermark(pushing: PlannerFixture) -> None:
    assert "fields=[a, r_y, ts]" in scan_of(pushing.plan("SELECT r.y, ts FROM t WHERE a = 1"))


def test_source_takes_over_the_filters_it_can(pushing: PlannerFixture) -> None:
    plan = pushing.plan("SELECT a FROM v WHERE a = 1 AND c = 'x'")

    assert "filter=[=(a, 1)]" in scan_of(plan)
    assert "where=[=(c, _UTF-16LE'x'" in plan


def test_filter_stays_above_a_watermark_assigner(pushing: PlannerFixture) -> None:
    assert "filter=" not in pushing.plan("SELECT a FROM t WHERE a = 1")


def test_source_stops_after_limit_and_offset(pushing: PlannerFixture) -> None:
    assert "limit=[15]" in scan_of(pushing.plan("SELECT a, c FROM v LIMIT 10 OFFSET 5"))


def test_bounded_distance_of_event_times_is_an_interval_join(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "SELECT t.a FROM t JOIN u ON t.a = u.a "
        "AND t.ts BETWEEN u.ts - INTERVAL '5' SECOND AND u.ts + INTERVAL '1' SECOND"
    )

    assert (
        "IntervalJoin(joinType=[InnerJoin], windowBounds=[isRowTime=true, leftLowerBound=-5000, leftUpperBound=1000"
        in plan
    )


def test_aggregate_of_updates_retracts_and_top_n_of_counts_updates_fast(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "SELECT a, n FROM (SELECT a, n, ROW_NUMBER() OVER (ORDER BY n DESC) AS p FROM "
        "(SELECT a, COUNT(*) AS n FROM t GROUP BY a)) WHERE p <= 3"
    )

    assert "Rank(strategy=[UpdateFastStrategy[0]]" in plan


def test_mini_batches_aggregate_before_and_after_the_exchange(planner: PlannerFixture) -> None:
    planner.configuration.set_string("table.exec.mini-batch.enabled", "true")
    planner.configuration.set_string("table.exec.mini-batch.allow-latency", "1 s")
    planner.configuration.set_string("table.exec.mini-batch.size", "100")

    plan = planner.plan("SELECT a, COUNT(*) AS n, AVG(b) AS m FROM t GROUP BY a")

    assert "GlobalGroupAggregate(groupBy=[a], select=[a, COUNT(count1$0) AS n, AVG((sum$1, count$2)) AS m]" in plan
    assert "LocalGroupAggregate(groupBy=[a], select=[a, COUNT(*) AS count1$0, AVG(b) AS (sum$1, count$2)]" in plan


def test_equal_parts_of_a_plan_are_computed_once(planner: PlannerFixture) -> None:
    text = planner.planner.explain([planner.operation("SELECT x.a FROM u x JOIN u y ON x.b = y.b")])

    assert text.partition("== Optimized Execution Plan ==")[2].count("TableSourceScan") == 1
    assert "Reused(reference_id=[1])" in text


def test_distinct_aggregates_are_split_by_buckets_of_their_values(planner: PlannerFixture) -> None:
    planner.configuration.set_string("table.optimizer.distinct-agg.split.enabled", "true")
    planner.configuration.set_string("table.optimizer.distinct-agg.split.bucket-num", "16")

    plan = planner.plan("SELECT a, COUNT(DISTINCT b) AS n, AVG(b) AS m FROM t GROUP BY a")

    assert "partialFinalType=[FINAL], select=[a, $SUM0_RETRACT($f2_0) AS n, " in plan
    assert "groupBy=[a, $f2], partialFinalType=[PARTIAL], select=[a, $f2, COUNT(DISTINCT b) AS $f2_0" in plan
    assert "MOD(HASH_CODE(b), 16) AS $f2" in plan
    assert "Expand" not in plan


def test_the_phases_between_the_exchanges_of_a_split_aggregation_are_one(planner: PlannerFixture) -> None:
    for option, value in [
        ("mini-batch.enabled", "true"),
        ("mini-batch.size", "9"),
        ("mini-batch.allow-latency", "1 s"),
    ]:
        planner.configuration.set_string(f"table.exec.{option}", value)
    planner.configuration.set_string("table.optimizer.distinct-agg.split.enabled", "true")
    query = "SELECT a, SUM(b) AS s, COUNT(DISTINCT b) AS n FROM u GROUP BY a"

    merged = planner.plan(query)
    planner.configuration.set_string("table.optimizer.incremental-agg-enabled", "false")

    assert "IncrementalGroupAggregate" not in planner.plan(query)
    assert (
        "IncrementalGroupAggregate(partialAggGrouping=[a, $f2], finalAggGrouping=[a], "
        "select=[a, SUM(sum$0) AS sum$0, COUNT(distinct$0 count$1) AS count$1]"
    ) in merged
    assert "partialFinalType=[FINAL], select=[a, SUM(sum$0) AS s, $SUM0(count$1) AS n]" in merged
    assert merged.count("Exchange") == 2


def test_each_distinct_column_has_rows_of_its_own(planner: PlannerFixture) -> None:
    planner.configuration.set_string("table.optimizer.distinct-agg.split.enabled", "true")

    plan = planner.plan("SELECT COUNT(DISTINCT a), COUNT(DISTINCT b) FILTER (WHERE a > 1) FROM t")

    assert "Expand(projects=[{a, b, $f2, $f3, null AS $f4, 1:BIGINT AS $e}" in plan
    assert "COUNT(DISTINCT a) FILTER $g_1" in plan


@pytest.mark.parametrize(
    ("option", "of_columns", "of_plans"),
    [(None, 1, 1), ("table.optimizer.reuse-source-enabled", 2, 1), ("table.optimizer.reuse-sub-plan-enabled", 2, 2)],
)
def test_reuse_follows_the_options(planner: PlannerFixture, option: str | None, of_columns: int, of_plans: int) -> None:
    if option is not None:
        planner.configuration.set_string(option, "false")

    def scans(query: str) -> int:
        text = planner.planner.explain([planner.operation(query)])
        return text.partition("== Optimized Execution Plan ==")[2].count("TableSourceScan")

    assert scans("SELECT x.a FROM v x JOIN v y ON x.c = y.c") == of_columns
    assert scans("SELECT a FROM v UNION ALL SELECT a FROM v") == of_plans


def test_scans_with_other_options_are_not_shared(planner: PlannerFixture) -> None:
    query = "SELECT a FROM v /*+ OPTIONS('mode'='{}') */ UNION ALL SELECT a FROM v /*+ OPTIONS('mode'='I') */"

    def scans(mode: str) -> int:
        text = planner.planner.explain([planner.operation(query.format(mode))])
        return text.partition("== Optimized Execution Plan ==")[2].count("TableSourceScan")

    assert scans("I") == 1
    assert scans("I,UB,UA,D") == 2


def test_inserts_into_one_table_share_its_sink(planner: PlannerFixture) -> None:
    planner.table("s", "a INT")
    operations = [
        planner.operation("INSERT INTO s SELECT a FROM t"),
        planner.operation("INSERT INTO s SELECT a FROM u"),
    ]

    def sinks() -> int:
        return planner.planner.explain(operations).partition("== Optimized Execution Plan ==")[2].count("Sink(")

    assert sinks() == 1
    planner.configuration.set_string("table.optimizer.reuse-sink-enabled", "false")
    assert sinks() == 2


def test_forced_delta_joins_are_refused(planner: PlannerFixture) -> None:
    planner.configuration.set_string("table.optimizer.delta-join.strategy", "FORCE")

    with pytest.raises(ValidationError, match="flinkpy has no delta joins"):
        planner.plan("SELECT t.a FROM t JOIN u ON t.a = u.a")


def test_common_factor_of_or_becomes_the_key_of_a_join(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "SELECT v.a FROM v, u WHERE (v.a = u.a AND v.c = 'x' AND u.b > 5) OR (v.a = u.a AND v.c = 'y' AND u.b < 3)"
    )

    join = next(line for line in plan.splitlines() if "Join(" in line)
    assert "where=[AND(=(a, a0), OR(" in join
    assert "Exchange(distribution=[hash[a]]" in plan


def test_or_over_both_inputs_filters_each_of_them_before_the_join(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "SELECT v.a FROM v JOIN u ON v.a = u.a WHERE (v.c = 'x' AND u.b = 5) OR (v.c = 'y' AND u.b = 3)"
    )

    assert "Calc(select=[a, b], where=[SEARCH(b, Sarg[3, 5])]" in plan
    assert "Calc(select=[a, c], where=[SEARCH(c, Sarg[_UTF-16LE'x'" in plan


def test_cross_join_with_equalities_in_where_has_keys_in_the_written_order(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT t.a FROM t, u, v WHERE t.a = u.a AND u.b = t.b AND v.a = u.a AND v.c <> 'q'")

    joins = [line for line in plan.splitlines() if " Join(" in line or "- Join(" in line]
    assert len(joins) == 2
    assert "where=[AND(=(a, a0), =(b0, b))]" in joins[1]
    assert "distribution=[single]" not in plan


@pytest.mark.parametrize(
    ("kind", "condition", "expected"),
    [
        ("LEFT", "v.a IS NOT NULL", "InnerJoin"),
        ("LEFT", "v.c = 'x' OR v.c = 'y'", "InnerJoin"),
        ("LEFT", "NOT (v.c = 'x')", "InnerJoin"),
        ("LEFT", "u.b < v.a + 1", "InnerJoin"),
        ("LEFT", "v.c IS NULL OR v.c = 'x'", "LeftOuterJoin"),
        ("LEFT", "COALESCE(v.c, 'x') = 'x'", "LeftOuterJoin"),
        ("LEFT", "u.b > 3", "LeftOuterJoin"),
        ("RIGHT", "u.b BETWEEN 1 AND 5", "InnerJoin"),
        ("FULL", "u.b > 3", "LeftOuterJoin"),
        ("FULL", "v.c LIKE 'x%'", "RightOuterJoin"),
        ("FULL", "u.b > 3 AND (v.c LIKE 'x%') IS TRUE", "InnerJoin"),
    ],
)
def test_a_filter_that_drops_padded_rows_makes_an_outer_join_inner(
    planner: PlannerFixture, kind: str, condition: str, expected: str
) -> None:
    plan = planner.plan(f"SELECT u.b, v.c FROM u {kind} JOIN v ON u.a = v.a WHERE {condition}")
    assert f"joinType=[{expected}]" in plan
