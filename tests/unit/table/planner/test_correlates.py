"""Plans of table functions in FROM, and the calls that Flink rejects."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table.udf import udf, udtf
from tests.unit.table.planner.planning import PlannerFixture

FUNCTIONS = {
    "split": udtf(lambda text: text.split(","), result_types="STRING"),
    "pairs": udtf(lambda text: [(0, text)], result_types=["INT", "STRING"]),
    "shout": udf(lambda text: text + "!", result_type="STRING"),
}


class _Functions:
    def user_function(self, name: tuple[str, ...]) -> Any:
        return FUNCTIONS.get(name[-1])


@pytest.fixture
def planner() -> PlannerFixture:
    fixture = PlannerFixture(_Functions())
    fixture.table("t", "id INT", "s STRING", "arr ARRAY<INT>")
    fixture.table("changes", "id INT", "s STRING", key=("id",), mode="I,UB,UA,D")
    fixture.table("sink", "id INT", "w STRING", mode="I,UB,UA,D")
    return fixture


def test_conditions_are_computed_before_and_in_the_correlation_where_they_can(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT id, x FROM t CROSS JOIN UNNEST(arr) AS u(x) WHERE x > 2 AND id < 9 AND x > id")

    assert "Calc(select=[id, x], where=[>(x, id)]" in plan
    assert "correlate=[table($UNNEST_ROWS$1($cor0.arr))], select=[id,s,arr,x]" in plan
    assert "INTEGER ARRAY arr, INTEGER x)], joinType=[INNER], condition=[>($0, 2)]" in plan
    assert "Calc(select=[id, s, arr], where=[<(id, 9)]" in plan


def test_a_correlation_passes_the_changes_of_its_input_on(planner: PlannerFixture) -> None:
    plan = planner.plan(
        "INSERT INTO sink SELECT id, w FROM changes LEFT JOIN LATERAL TABLE(pairs(s)) AS u(k, w) ON TRUE"
    )

    assert "PythonCorrelate(invocation=[pairs($cor0.s)]" in plan
    assert "joinType=[LEFT], changelogMode=[I,UB,UA,D]" in plan


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT * FROM t, LATERAL TABLE(split(*))", r"Unknown identifier '\*'"),
        ("SELECT shout(*) FROM t", r"Unknown identifier '\*'"),
        ("SELECT * FROM TABLE(split(TABLE t))", "A table can only be an argument of a window function"),
        ("SELECT split(s) FROM t", "split is a table function and cannot be used here"),
        ("SELECT * FROM t, LATERAL TABLE(shout(s))", "No match found for table function shout"),
        ("SELECT * FROM t, LATERAL TABLE(splat(s))", "No match found for table function splat"),
        ("SELECT * FROM t RIGHT JOIN LATERAL TABLE(split(s)) ON TRUE", "use CROSS or LEFT JOIN"),
        ("SELECT * FROM t, LATERAL TABLE(pairs(s)) AS u(a, b, c)", "table has 2 columns, whereas alias list has 3"),
        ("SELECT * FROM t, UNNEST(s)", "Cannot apply 'UNNEST' to arguments of type 'UNNEST\\(<STRING>\\)'"),
        ("SELECT * FROM t, UNNEST(arr, arr)", "UNNEST of several collections is not supported"),
    ],
)
def test_wrong_calls_are_rejected(planner: PlannerFixture, query: str, error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        planner.plan(query)
