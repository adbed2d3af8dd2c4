"""Hints of queries: which joins and aggregations they apply to, and errors of wrong ones."""

from __future__ import annotations

import pytest
from planning import PlannerFixture

from flinkpy.common.errors import ValidationError
from flinkpy.table.planner.hints import LookupHint
from flinkpy.table.planner.physical import nodes as ph

DAY = 86_400_000


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    for number in (1, 2, 3):
        fixture.table(f"t{number}", f"a{number} BIGINT", f"b{number} STRING")
    fixture.view("v", "SELECT t1.* FROM t1 JOIN t2 ON a1 = a2")
    return fixture


def nodes(planner: PlannerFixture, text: str, kind: type[ph.PhysicalNode]) -> list:
    return [each for each in ph.walk(planner.planner._physical([planner.operation(text)])[0]) if isinstance(each, kind)]


def times(planner: PlannerFixture, text: str) -> list[tuple[int | None, int | None]]:
    return [(each.left_ttl_ms, each.right_ttl_ms) for each in nodes(planner, text, ph.Join)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT /*+ STATE_TTL('t2' = '2d', 't1' = '1d') */ * FROM t1 JOIN t2 ON a1 = a2", [(DAY, 2 * DAY)]),
        ("SELECT /*+ STATE_TTL('y' = '2d') */ * FROM t1 AS x JOIN t2 AS y ON a1 = a2", [(None, 2 * DAY)]),
        (
            (
                "SELECT /*+ state_ttl('t1' = '1d', 't2' = '2d', 't3' = '3d') */ * FROM t1, t2, t3 "
                "WHERE a1 = a2 AND b2 = b3"
            ),
            [(None, 3 * DAY), (DAY, 2 * DAY)],
        ),
        ("SELECT /*+ STATE_TTL('t1' = '2d', 't1' = '1d') */ * FROM t1 JOIN t2 ON a1 = a2", [(DAY, None)]),
        # A hint does not reach into a view.
        ("SELECT /*+ STATE_TTL('t1' = '1d') */ t1.* FROM t1 JOIN v ON t1.a1 = v.a1", [(DAY, None), (None, None)]),
        (
            "SELECT /*+ STATE_TTL('t1' = '1d'), BROADCAST(t2) */ b1, SUM(a1) FROM t1 JOIN t2 ON b1 = b2 GROUP BY b1",
            [(DAY, None)],
        ),
    ],
)
def test_state_ttl_is_that_of_the_tables_a_join_names(
    planner: PlannerFixture, query: str, expected: list[tuple[int | None, int | None]]
) -> None:
    assert times(planner, query) == expected


def test_state_ttl_of_an_aggregation_is_that_of_its_input(planner: PlannerFixture) -> None:
    query = (
        "SELECT /*+ STATE_TTL('x' = '2d') */ MAX(b1) FROM "
        "(SELECT /*+ STATE_TTL('t1' = '4d') */ a1, b1, COUNT(*) FROM t1 GROUP BY a1, b1) x GROUP BY a1"
    )
    found = nodes(planner, query, ph.GroupAggregate)

    assert [each.state_ttl_ms for each in found] == [2 * DAY, 4 * DAY]


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("STATE_TTL('t5' = '2d', 't1' = '1d', 't6' = '1 d')", r"cannot match .* \n`t5, t6` in `STATE_TTL`"),
        ("BROADCAST(t9)", r"cannot match .* \n`t9` in `BROADCAST`"),
        ("STATE_TTL()", "Invalid STATE_TTL hint, expecting at least one key-value options specified"),
        ("STATE_TTL('t1' = 'soon')", "Invalid duration 'soon'"),
        ("SHUFFLE_HASH", "expecting at least one table or view specified in hint SHUFFLE_HASH"),
        ("SPEED_UP('t1')", "SPEED_UP should be registered in the HintStrategyTable"),
        ("LOOKUP('async' = 'true')", r"incomplete required option\(s\): \[table\]"),
        ("LOOKUP('table' = 't9')", r"`t9` in `LOOKUP`"),
    ],
)
def test_wrong_hints_are_refused(planner: PlannerFixture, hint: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        planner.plan(f"SELECT /*+ {hint} */ * FROM t1 JOIN t2 ON a1 = a2")


def test_options_of_a_lookup_hint_are_read_without_regard_to_case() -> None:
    options = {
        "table": "d",
        "async": "TRUE",
        "output-mode": "allow_unordered",
        "capacity": "7",
        "timeout": "20 s",
        "retry-predicate": "lookup_miss",
        "retry-strategy": "fixed_delay",
        "fixed-delay": "10s",
        "max-attempts": "3",
    }

    assert LookupHint.of(list(options.items())) == LookupHint(True, False, 7, 20_000, (10_000, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": "0"}, "capacity value should be positive integer but was 0"),
        ({"output-mode": "fast"}, "'output-mode' is 'ordered' or 'allow_unordered'"),
        ({"async": "yes"}, "'async' is true or false"),
        ({"max-attempts": "3"}, "retry options can be both null or all not null"),
        ({"speed": "3"}, "unsupported 'speed'"),
        (
            {"retry-predicate": "x", "retry-strategy": "fixed_delay", "fixed-delay": "1s", "max-attempts": "3"},
            "unsupported retry-predicate 'x', only 'lookup_miss'",
        ),
    ],
)
def test_wrong_options_of_a_lookup_hint_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LookupHint.of([("table", "d"), *options.items()])
