"""The plans of Nexmark's queries.

Each file of `plans/` has the columns of a sink, an INSERT, and the optimised plan with changelog modes. Operators,
keys, expressions and modes are those that Flink 2.3 shows for these queries, except: columns that a query does not
need are dropped before Top-N and joins, projections keep their own names below Top-N and group windows, a user-defined
function is called in the Calc itself, q9 sends updates and deletions, and q6 runs.

Run with `REWRITE_PLANS=1` to write the plans anew, and commit only what you understand.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flinkpy.sql.types import logical_types as lt
from tests.unit.table.planner.planning import PlannerFixture

FILES = sorted((Path(__file__).parent / "plans").glob("q*.txt"))
PERSON = "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING"
AUCTION = "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT"
BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING"
REST = "expires TIMESTAMP(3), seller BIGINT, category BIGINT"
DATETIME = (
    "dateTime AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime` "
    "ELSE bid.`dateTime` END"
)


class CountChar:
    """The user-defined function of q14."""

    kind = "SCALAR"
    mode = "general"
    is_deterministic = True

    @staticmethod
    def function(text: str, character: str) -> int:
        return text.count(character)

    def result_type(self, arguments: tuple[lt.LogicalType, ...]) -> lt.LogicalType:
        return lt.BigIntType()


class Functions:
    def is_builtin(self, name: str) -> bool:
        return True

    def builtin_names(self) -> list[str]:
        return []

    def user_function(self, name: tuple[str, ...]) -> Any:
        return CountChar() if name == ("count_char",) else None


def nexmark() -> PlannerFixture:
    """Returns a planner over Nexmark's tables and views."""
    fixture = PlannerFixture(Functions())
    fixture.table(
        "datagen",
        "event_type INT",
        f"person ROW<{PERSON}, `dateTime` TIMESTAMP(3), extra STRING>",
        f"auction ROW<{AUCTION}, `dateTime` TIMESTAMP(3), {REST}, extra STRING>",
        f"bid ROW<{BID}, `dateTime` TIMESTAMP(3), extra STRING>",
        DATETIME,
        watermark="dateTime AS `dateTime` - INTERVAL '4' SECOND",
    )
    for number, (name, columns, tail) in enumerate(
        [("person", PERSON, ""), ("auction", AUCTION, REST), ("bid", BID, "")]
    ):
        first = ", ".join(f"{name}.{each.split()[0]}" for each in columns.split(", "))
        last = "".join(f"{name}.{each.split()[0]}, " for each in tail.split(", ") if each)
        query = f"SELECT {first}, `dateTime`, {last}{name}.extra FROM datagen WHERE event_type = {number}"
        fixture.view(name, query)
    fixture.view("bid_p", "SELECT *, PROCTIME() AS p_time FROM bid")
    fixture.table("side_input", "key BIGINT", "value STRING", lookup="yes")
    return fixture


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plan_of_a_nexmark_query(path: Path) -> None:
    fixture = nexmark()
    given, _, expected = path.read_text().partition("\n----\n")
    sink, _, statement = given.partition("\n\n")
    columns = sink.removeprefix("sink ").replace(", 3)", ",3)").split(", ")
    fixture.table(path.stem, *columns)

    plan = fixture.plan(statement)

    if os.environ.get("REWRITE_PLANS"):
        path.write_text(f"{given}\n----\n{plan}")
        return
    assert plan == expected


def test_there_is_a_plan_for_each_query() -> None:
    assert {path.stem for path in FILES} == {f"q{number}" for number in range(24)}
