"""Plans of chains of joins in one operator. Expected texts are those of Flink 2.3.0 for the same statements."""

from __future__ import annotations

import pytest
from planning import PlannerFixture

from flinkpy.configuration.table_options import MULTI_JOIN_ENABLED
from flinkpy.table.planner.physical import nodes as ph


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture()
    fixture.table("users", "user_id STRING NOT NULL", "name STRING", "cash INT", key=("user_id",))
    fixture.table("orders", "order_id STRING NOT NULL", "user_id STRING", "product STRING", key=("order_id",))
    fixture.table("payments", "payment_id STRING", "user_id STRING", "price INT")
    fixture.table("l", "k STRING", "ts TIMESTAMP(3)", watermark="ts AS ts")
    fixture.configuration.set_string(MULTI_JOIN_ENABLED.key, "true")
    return fixture


def multi_joins(planner: PlannerFixture, query: str) -> list[ph.MultiJoin]:
    """Returns the multi-way joins of a query, the last one first."""
    plan = planner.planner._physical([planner.operation(query)])[0]
    return [each for each in ph.walk(plan) if isinstance(each, ph.MultiJoin)]


def chains(planner: PlannerFixture, query: str) -> list[tuple[str, str]]:
    """Returns the common key and the join types of each."""
    return [
        (dict(each.terms())["commonJoinKey"], dict(each.terms())["joinTypes"]) for each in multi_joins(planner, query)
    ]


def test_a_chain_of_joins_over_one_key_is_one_operator(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "SELECT u.user_id, u.name, o.order_id, p.payment_id FROM users u LEFT JOIN orders o ON u.user_id = o.user_id "
        "JOIN payments p ON u.user_id = p.user_id AND p.price > u.cash"
    )
    assert plan.splitlines()[:3] == [
        "Calc(select=[user_id, name, order_id, payment_id], changelogMode=[I,UA,D])",
        (
            "+- MultiJoin(commonJoinKey=[user_id], joinTypes=[LEFT, INNER], inputUniqueKeys=[(user_id), (order_id), "
            "noUniqueKey], joinConditions=[=(user_id, user_id0), AND(=(user_id, user_id1), >(price, cash))], "
            "select=[user_id,name,cash,order_id,user_id0,payment_id,user_id1,price], rowType=[RecordType("
            "VARCHAR(2147483647) user_id, VARCHAR(2147483647) name, INTEGER cash, VARCHAR(2147483647) order_id, "
            "VARCHAR(2147483647) user_id0, VARCHAR(2147483647) payment_id, VARCHAR(2147483647) user_id1, INTEGER price)"
            "], changelogMode=[I,UA,D])"
        ),
        "   :- Exchange(distribution=[hash[user_id]], changelogMode=[I])",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM users u JOIN orders o ON u.user_id = o.user_id", [("[user_id]", "[INNER]")]),
        # All equalities that reach each input are the key.
        (
            (
                "SELECT * FROM users u JOIN orders o ON u.user_id = o.user_id AND o.product = u.name "
                "JOIN payments p ON p.user_id = o.user_id AND p.payment_id = u.name"
            ),
            [("[user_id, name]", "[INNER, INNER]")],
        ),
        (
            (
                "SELECT * FROM users u JOIN orders o ON u.user_id = o.user_id AND o.product = u.name "
                "JOIN payments p ON p.payment_id = u.name"
            ),
            [("[name]", "[INNER, INNER]")],
        ),
        # Another key, or a projection or filter of the query, ends a chain.
        (
            "SELECT * FROM users u JOIN orders o ON u.user_id = o.user_id JOIN payments p ON p.user_id = u.name",
            [("[name]", "[INNER]"), ("[user_id]", "[INNER]")],
        ),
        (
            (
                "SELECT x.user_id FROM (SELECT u.user_id FROM users u JOIN orders o ON u.user_id = o.user_id) x "
                "JOIN payments p ON p.user_id = x.user_id"
            ),
            [("[user_id]", "[INNER]"), ("[user_id]", "[INNER]")],
        ),
        ("SELECT * FROM users, payments", [("[noCommonJoinKey]", "[INNER]")]),
        (
            (
                "SELECT * FROM users u LEFT JOIN (orders o JOIN payments p ON p.user_id = o.user_id) "
                "ON o.user_id = u.user_id"
            ),
            [("[user_id]", "[LEFT]"), ("[user_id]", "[INNER]")],
        ),
        # Other joins stay as they are.
        (
            (
                "SELECT * FROM users u FULL JOIN orders o ON u.user_id = o.user_id "
                "JOIN payments p ON p.user_id = u.user_id"
            ),
            [("[user_id]", "[INNER]")],
        ),
        ("SELECT * FROM users u RIGHT JOIN orders o ON u.user_id = o.user_id", []),
        ("SELECT * FROM users WHERE EXISTS (SELECT 1 FROM payments p WHERE p.user_id = users.user_id)", []),
        ("SELECT a.k FROM l a JOIN l b ON a.k = b.k AND a.ts = b.ts", []),
    ],
)
def test_a_chain_ends_where_flink_ends_it(planner: PlannerFixture, query: str, expected: list[tuple[str, str]]) -> None:
    assert chains(planner, query) == expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ("u, o, p", [("[user_id]", "[INNER, LEFT]")]),
        ("u, p", [("[user_id]", "[INNER, LEFT]")]),
        ("o", [("[user_id]", "[INNER]")]),
    ],
)
def test_a_hint_asks_for_the_joins_of_its_tables(
    planner: PlannerFixture, tables: str, expected: list[tuple[str, str]]
) -> None:
    planner.configuration.set_string(MULTI_JOIN_ENABLED.key, "false")
    query = f"""
        SELECT /*+ MULTI_JOIN({tables}) */ u.user_id FROM users u JOIN orders o ON u.user_id = o.user_id
        LEFT JOIN payments p ON p.user_id = u.user_id
    """
    assert chains(planner, query) == expected


def test_each_input_has_the_time_to_live_of_its_hint(planner: PlannerFixture) -> None:
    (join,) = multi_joins(
        planner,
        "SELECT /*+ STATE_TTL('o' = '2d') */ u.user_id FROM users u JOIN orders o ON u.user_id = o.user_id "
        "LEFT JOIN payments p ON p.user_id = o.user_id",
    )
    assert join.ttls == (None, "2d", None)
    assert ("stateTtlHints", "[[[STATE_TTL options:[0s, 2d, 0s]]]]") in join.terms()


def test_a_padded_row_meets_no_equality_of_its_key(planner: PlannerFixture) -> None:
    (join,) = multi_joins(
        planner,
        "SELECT * FROM users u LEFT JOIN orders o ON u.user_id = o.user_id "
        "LEFT JOIN payments p ON p.user_id = o.user_id",
    )
    assert [each.requires for each in join.steps] == [(0,), (1,)]
    assert [each.condition for each in join.steps] == [None, None]


@pytest.mark.parametrize("join", ["LEFT JOIN", "JOIN"])
def test_a_column_that_only_a_partner_makes_equal_to_the_key_does_not_stand_for_it(
    planner: PlannerFixture, join: str
) -> None:
    found = chains(
        planner,
        "SELECT * FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND u.name = o.user_id "
        f"{join} payments p ON p.user_id = u.name",
    )
    # Rows of users without an order have different names and ids: payments cannot be distributed with them by the id.
    assert len(found) == 2
    assert found[0][1] == f"[{'LEFT' if join == 'LEFT JOIN' else 'INNER'}]"
