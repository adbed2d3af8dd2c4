"""MATCH_RECOGNIZE finds the matches that Flink finds, for any batches, watermarks, restarts, parallelism and backend.

The reference is Flink itself: `tests/recorded/flink_matches.json` has its answers to generated queries.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from changelogs import TableSubtasks
from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND

from flinkpy.cep import match_kernel
from flinkpy.common.errors import TableProgramError, TableRuntimeError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import MatchSpec
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import is_rowtime
from flinkpy.table.planner.logical import nodes as rel
from tests.unit.table.planner.planning import PlannerFixture

_EPOCH = dt.datetime(1970, 1, 1)
_RECORDED = json.loads((Path(__file__).parents[1] / "recorded" / "flink_matches.json").read_text())
_CASES: list[dict[str, Any]] = _RECORDED["cases"]


@cache
def _planner() -> PlannerFixture:
    fixture = PlannerFixture()
    columns = ("id INT", "k STRING", "price INT", "tax INT", "amount DOUBLE", "name STRING", "ts TIMESTAMP(3)")
    fixture.table("e", *columns, "pt AS PROCTIME()", watermark="ts AS ts - INTERVAL '2' SECOND")
    return fixture


def _spec(sql: str) -> MatchSpec:
    node = next(each for each in rel.walk(_planner().operation(sql)) if isinstance(each, rel.Match))
    below = node.input.row_type
    return MatchSpec(
        FieldKeySelector(tuple(below.names[each] for each in node.partition)),
        node.partition,
        node.order,
        node.pattern,
        node.definitions,
        tuple(value for _, value in node.measures),
        is_rowtime(below.fields[node.order[0].column].type),
        input_types=(InternalTypeInfo(below),),
        output_type=InternalTypeInfo(node.row_type),
    )


def _changes(rows: list[list[Any]]) -> list[tuple[Any, ...]]:
    return [("+I", *row[:6], dt.datetime.fromisoformat(row[6]), None) for row in rows]


def _time(row: list[Any]) -> int:
    return int((dt.datetime.fromisoformat(row[6]) - _EPOCH).total_seconds() * 1_000)


def _shown(value: Any) -> str:
    """Returns a value as Row.toString of Java writes it."""
    if value is None:
        return "null"
    if isinstance(value, dt.datetime):
        return value.isoformat().removesuffix(":00") if value.second == 0 else value.isoformat()
    return str(value)


def _found(
    spec: MatchSpec, backend: str, cuts: set[int], watermarks: set[int], restarts: dict[int, int], parallelism: int = 1
) -> Counter[str]:
    """Returns the emitted rows for the recorded input. `restarts`: position to the new parallelism."""
    rows = _RECORDED["rows"]
    changes = _changes(rows)
    is_parallel = bool(spec.partition)
    configuration = {"state.backend.type": backend.partition("-")[0]}
    with TableSubtasks(spec, parallelism if is_parallel else 1, configuration) as subtasks:
        start = 0
        for position in [*sorted(cuts | watermarks | set(restarts)), len(rows)]:
            subtasks.process(changes[start:position])
            start = position
            if position in restarts:
                subtasks.restart(restarts[position] if is_parallel else 1)
            if position in watermarks and position < len(rows):
                subtasks.watermark(_time(rows[position]) - 1)
        subtasks.watermark(MAX_WATERMARK)
        return Counter(f"{kind}[{', '.join(map(_shown, values))}]" for kind, *values in subtasks.output)


def _depends_on_watermarks(sql: str) -> bool:
    """True if MATCH_ROWTIME() may be the watermark that lets an older partial match time out."""
    return "WITHIN" in sql and "MATCH_ROWTIME" in sql


@pytest.mark.parametrize("number", range(len(_CASES)))
def test_matches_are_those_of_flink(number: int) -> None:
    case, chosen = _CASES[number], random.Random(number)
    places = range(1, len(_RECORDED["rows"]))
    watermarks = set() if _depends_on_watermarks(case["sql"]) else set(chosen.sample(places, 4))
    restarts = {chosen.choice(places): chosen.choice((1, 2))} if number % 3 == 0 else {}
    found = _found(_spec(case["sql"]), "hashmap", set(chosen.sample(places, 3)), watermarks, restarts, 1 + number % 2)
    assert found == Counter(case["rows"])


_PLACES = st.sets(st.integers(1, len(_RECORDED["rows"]) - 1), max_size=6)


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from([each for each in _CASES if not _depends_on_watermarks(each["sql"])]),
    BACKEND,
    _PLACES,
    _PLACES,
    st.dictionaries(st.integers(1, len(_RECORDED["rows"]) - 1), st.integers(1, 3), max_size=2),
    st.integers(1, 3),
)
def test_batches_watermarks_restarts_and_backends_change_no_match(
    case: dict[str, Any], backend: str, cuts: set[int], watermarks: set[int], restarts: dict[int, int], parallelism: int
) -> None:
    assert _found(_spec(case["sql"]), backend, cuts, watermarks, restarts, parallelism) == Counter(case["rows"])


def test_the_loop_in_python_finds_the_same_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_kernel, "match_kernel", lambda: match_kernel.python_kernel(match_kernel._ask))
    for case in _CASES[::9]:
        assert _found(_spec(case["sql"]), "hashmap", set(), set(), {}) == Counter(case["rows"])


def _query(pattern: str, define: str, order: str = "ts", after: str = "PAST LAST ROW", within: str = "") -> str:
    return (
        f"SELECT * FROM e MATCH_RECOGNIZE (ORDER BY {order} MEASURES FIRST(id) AS f, LAST(id) AS l "
        f"AFTER MATCH SKIP {after} PATTERN ({pattern}) {within} DEFINE {define})"
    )


def _row(number: int, price: int, second: int) -> tuple[Any, ...]:
    return ("+I", number, "a", price, 0, 0.0, "x", _EPOCH + dt.timedelta(seconds=second), None)


def test_rows_behind_the_watermark_are_dropped_and_counted() -> None:
    with TableSubtasks(_spec(_query("A B", "A AS A.price = 1, B AS B.price = 2"))) as subtasks:
        subtasks.watermark(5_000)
        subtasks.process([_row(0, 1, 5), _row(1, 1, 6), _row(2, 2, 7)])
        subtasks.watermark(MAX_WATERMARK)
        assert subtasks.output == [("+I", 1, 2)]
        assert subtasks.subtasks[0].context.metrics.counter("numLateRecordsDropped").get_count() == 1


def test_rows_behind_matched_rows_are_late_after_a_restore() -> None:
    define = "A AS A.price = 1, B AS B.price = 2, C AS C.price = 3"
    with TableSubtasks(_spec(_query("A B C", define))) as subtasks:
        subtasks.process([_row(0, 1, 10), _row(1, 2, 11)])
        subtasks.watermark(11_000)
        subtasks.restart(1)
        subtasks.process([_row(2, 7, 1), _row(3, 3, 12)])
        subtasks.watermark(MAX_WATERMARK)
        assert subtasks.output == [("+I", 0, 3)]


def test_rows_that_no_partial_match_needs_leave_the_state() -> None:
    define = "A AS A.price = 1, B AS B.price = 2, C AS C.price = 3"
    spec = _spec(_query("A B+ C", define, within="WITHIN INTERVAL '9' SECOND"))
    with TableSubtasks(spec) as subtasks:
        subtasks.process([_row(0, 5, 1), _row(1, 1, 2), _row(2, 2, 3), _row(3, 7, 30)])
        operator: Any = subtasks.subtasks[0].operator
        subtasks.watermark(4_000)
        assert (operator._rows.size, operator._partials.size) == (3, 1)
        subtasks.watermark(11_000)
        assert (operator._rows.size, operator._partials.size) == (1, 0)
        subtasks.watermark(30_000)
        assert (operator._rows.size, operator._partials.size) == (0, 0)


def test_rows_of_processing_time_are_matched_as_they_come() -> None:
    with TableSubtasks(_spec(_query("A B", "A AS A.price = 1, B AS B.price = 2", order="pt"))) as subtasks:
        subtasks.process([_row(0, 1, 9), _row(1, 2, 5), _row(2, 1, 1)], cuts=(1,))
        assert subtasks.output == [("+I", 0, 1)]
        subtasks.restart(1)
        subtasks.process([_row(3, 2, 0)])
        assert subtasks.output == [("+I", 0, 1), ("+I", 2, 3)]


def test_rows_of_one_millisecond_of_processing_time_are_sorted_by_other_columns() -> None:
    with TableSubtasks(_spec(_query("A B", "A AS A.price = 1, B AS B.price = 2", order="pt, price"))) as subtasks:
        subtasks.process([_row(0, 2, 0), _row(1, 1, 0)])
        assert subtasks.output == []
        subtasks.advance(1)
        assert subtasks.output == [("+I", 1, 0)]


@pytest.mark.parametrize("order", ["pt", "pt, price"])
def test_a_clock_that_goes_back_does_not_change_the_order_of_matched_rows(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    define = "A AS A.price = 1, B AS B.price = 2, C AS C.price = 3"
    with TableSubtasks(_spec(_query("A B C", define, order=order))) as subtasks:
        clock, back_ms = subtasks.subtasks[0].clock, 0
        monkeypatch.setattr(clock, "now_ms", lambda: clock.monotonic_ms() - back_ms)
        for number in range(3):
            subtasks.process([_row(number, number + 1, 0)])
            subtasks.advance(5)
            back_ms += 20
        assert subtasks.output == [("+I", 0, 2)]


def test_rows_that_come_before_a_late_timer_are_matched_without_further_rows() -> None:
    with TableSubtasks(_spec(_query("A B", "A AS A.price = 1, B AS B.price = 2", order="pt, price"))) as subtasks:
        subtasks.process([_row(0, 1, 0)])
        subtasks.subtasks[0].clock.advance(3)
        subtasks.process([_row(1, 2, 0)])
        subtasks.advance(0)
        subtasks.advance(1)
        assert subtasks.output == [("+I", 0, 1)]


def test_skip_to_the_first_row_of_a_match_fails() -> None:
    with TableSubtasks(_spec(_query("A B", "A AS A.price = 1", after="TO FIRST A"))) as subtasks:
        subtasks.process([_row(0, 1, 1), _row(1, 1, 2)])
        with pytest.raises(TableProgramError, match="Could not skip to first element of a match"):
            subtasks.watermark(MAX_WATERMARK)


def test_skip_to_a_variable_without_rows_fails() -> None:
    with TableSubtasks(_spec(_query("A B? C", "A AS A.price = 1, B AS B.price = 2", after="TO LAST B"))) as subtasks:
        subtasks.process([_row(0, 1, 1), _row(1, 3, 2)])
        with pytest.raises(TableProgramError, match="Could not skip to B"):
            subtasks.watermark(MAX_WATERMARK)


@pytest.mark.parametrize(
    "condition",
    ["12 / B.tax > 1", "12 / B.tax > A.price", "SUM(12 / B.tax) > A.price", "CAST(B.name AS INT) > A.price"],
)
def test_a_condition_may_have_no_value_for_a_row_that_the_pattern_does_not_try(condition: str) -> None:
    spec = _spec(
        "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.id AS a, B.id AS b "
        f"PATTERN (A B) DEFINE A AS A.name = 'first', B AS {condition}) AS m"
    )
    first, second = (1, "k", 1, 0, 0.0, "first", "2024-01-01T00:00:01"), (2, "k", 1, 3, 0.0, "4", "2024-01-01T00:00:02")
    with TableSubtasks(spec, 1, {}) as subtasks:
        subtasks.process(_changes([list(first), list(second)]))
        subtasks.watermark(MAX_WATERMARK)
        assert subtasks.output == [("+I", "k", 1, 2)]
    third = (3, "k", 1, 0, 0.0, "none", "2024-01-01T00:00:02")
    with (
        TableSubtasks(spec, 1, {}) as subtasks,
        pytest.raises(TableRuntimeError, match=r"Division by zero|input string"),
    ):
        subtasks.process(_changes([list(first), list(third)]))
        subtasks.watermark(MAX_WATERMARK)
