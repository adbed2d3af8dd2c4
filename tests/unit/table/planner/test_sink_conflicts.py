"""Which rows reach a sink with a primary key: ON CONFLICT, and the operators before a sink."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from tests.unit.table.planner.planning import PlannerFixture


@pytest.fixture
def tables() -> PlannerFixture:
    made = PlannerFixture()
    made.table("source", "a BIGINT", "b BIGINT", "ts TIMESTAMP(3)")
    made.table("timed", "a BIGINT", "b BIGINT", "ts TIMESTAMP(3)", watermark="ts AS ts - INTERVAL '1' SECOND")
    made.table("keyed", "a BIGINT", "b BIGINT", key=("a",), mode="I,UA,D")
    made.table("keyed_by_b", "a BIGINT", "b BIGINT", key=("b",), mode="I,UA,D")
    made.table("appended", "a BIGINT", "b BIGINT", key=("a",), mode="I")
    made.table("retracted", "a BIGINT", "b BIGINT", key=("a",), mode="I,UB,UA,D")
    return made


GROUPED = "SELECT a, COUNT(*) FROM {} GROUP BY a"


def test_a_query_with_the_key_of_the_sink_needs_no_clause(tables: PlannerFixture) -> None:
    plan = tables.plan(f"INSERT INTO keyed {GROUPED.format('source')}")
    assert "upsertMaterialize" not in plan and "conflictStrategy" not in plan


def test_a_query_with_another_key_needs_a_clause(tables: PlannerFixture) -> None:
    with pytest.raises(
        ValidationError,
        match=r"upsert key that differs from the primary key of the sink table '.*keyed_by_b'\. Primary key: \[b\], "
        r"upsert key: \[a\]\..*ON CONFLICT DO DEDUPLICATE",
    ):
        tables.plan(f"INSERT INTO keyed_by_b {GROUPED.format('source')}")


def test_rows_without_a_key_need_a_clause(tables: PlannerFixture) -> None:
    with pytest.raises(ValidationError, match=r"Primary key: \[a\], upsert key: none"):
        tables.plan("INSERT INTO keyed SELECT a, b FROM source")


def test_no_clause_is_needed_if_the_option_says_so(tables: PlannerFixture) -> None:
    tables.configuration.set_string("table.exec.sink.require-on-conflict", "false")
    assert "upsertMaterialize=[true]" in tables.plan(f"INSERT INTO keyed_by_b {GROUPED.format('source')}")
    assert "upsertMaterialize" not in tables.plan("INSERT INTO keyed SELECT a, b FROM source")


def test_inserts_that_deduplicate_are_left_to_the_sink(tables: PlannerFixture) -> None:
    plan = tables.plan("INSERT INTO keyed SELECT a, b FROM source ON CONFLICT DO DEDUPLICATE")
    assert "upsertMaterialize" not in plan and "conflictStrategy=[DEDUPLICATE]" in plan


@pytest.mark.parametrize("behaviour", ["ERROR", "NOTHING"])
def test_inserts_are_compared_if_conflicts_matter(tables: PlannerFixture, behaviour: str) -> None:
    plan = tables.plan(f"INSERT INTO keyed SELECT a, b FROM timed ON CONFLICT DO {behaviour}")
    assert f"upsertMaterialize=[true], conflictStrategy=[{behaviour}]" in plan


@pytest.mark.parametrize("behaviour", ["ERROR", "NOTHING"])
def test_sources_without_watermarks_are_named(tables: PlannerFixture, behaviour: str) -> None:
    with pytest.raises(
        ValidationError,
        match=rf"ON CONFLICT DO {behaviour} requires all source tables to define watermarks.*source\(s\) do not: "
        r"default_catalog\.default_database\.source\. Please add a WATERMARK",
    ):
        tables.plan(f"INSERT INTO keyed SELECT a, b FROM source ON CONFLICT DO {behaviour}")


@pytest.mark.parametrize(
    ("sink", "reason"),
    [
        ("appended", r"it only accepts INSERT \(append-only\) changes"),
        ("retracted", r"it requires UPDATE_BEFORE \(retract mode\)"),
    ],
)
def test_only_upsert_sinks_have_conflicts(tables: PlannerFixture, sink: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=f"ON CONFLICT clause is only allowed for upsert sinks.*{reason}"):
        tables.plan(f"INSERT INTO {sink} SELECT a, b FROM timed ON CONFLICT DO DEDUPLICATE")


def test_a_retract_sink_gets_its_changes_as_they_are(tables: PlannerFixture) -> None:
    tables.configuration.set_string("table.exec.sink.upsert-materialize", "FORCE")
    assert "upsertMaterialize" not in tables.plan(f"INSERT INTO retracted {GROUPED.format('source')}")
    assert "upsertMaterialize=[true]" in tables.plan(f"INSERT INTO keyed {GROUPED.format('source')}")
