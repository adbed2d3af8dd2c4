"""Plans of table functions in FROM and of asynchronous functions, and the calls that Flink rejects."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.udf import udaf, udf, udtf
from tests.unit.table.planner.planning import PlannerFixture

FUNCTIONS: dict[str, Any] = {
    "split": udtf(lambda text: text.split(","), result_types="STRING"),
    "pairs": udtf(lambda text: [(0, text)], result_types=["INT", "STRING"]),
    "longest": udaf(lambda texts: max(texts, key=len), result_type="STRING", func_type="pandas"),
    "shout": udf(lambda text: text + "!", result_type="STRING"),
}


async def found(key: int) -> str:
    return str(key)


FUNCTIONS["found"] = udf(found, result_type="STRING")


class _Functions:
    def is_builtin(self, name: str) -> bool:
        return True

    def builtin_names(self) -> list[str]:
        return []

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


def test_asynchronous_functions_are_called_by_an_operator_of_their_own(planner: PlannerFixture) -> None:
    plan = planner.plan("SELECT s, UPPER(found(id + 1)) FROM t WHERE id > 3 AND found(id + 1) <> s")

    assert [line.partition("(")[0].strip("+- ") for line in plan.splitlines()[:4]] == [
        "Calc",
        "AsyncCalc",
        "Calc",
        "TableSourceScan",
    ]
    assert "Calc(select=[s, UPPER(async$0) AS EXPR$1], where=[<>(async$0, s)]" in plan
    assert "AsyncCalc(select=[s, arg$2, found(arg$2) AS async$0]" in plan
    assert "Calc(select=[s, +(id, 1) AS arg$2], where=[>(id, 3)]" in plan


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


def test_compiled_plans_find_the_functions_of_users_by_name(planner: PlannerFixture) -> None:
    statement = "INSERT INTO sink SELECT MAX(x), longest(shout(found(x))) FROM t, LATERAL TABLE(pairs(s)) AS p(x, w)"
    text = planner.planner.compile_plan([planner.operation(statement)])

    (root,) = planner.planner.load_plan(text).roots
    aggregate = next(each for each in ph.walk(root) if isinstance(each, ph.GroupAggregate))
    bound = aggregate.aggregates[1].user_function
    assert bound.function is FUNCTIONS["longest"].function
    assert [str(each) for each in bound.argument_types] == ["STRING"]
    kinds = {type(each).__name__ for each in ph.walk(root)}
    assert {"AsyncCalc", "Correlate"} <= kinds
