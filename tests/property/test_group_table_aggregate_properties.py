"""Table aggregates over changelogs equal a naive record-at-a-time reference, for any batches, restarts, parallelism."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from changelogs import Change, TableSubtasks, type_info
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import GroupTableAggregateSpec
from flinkpy.sql.functions.user_aggregates import UserTableAggregateFunction
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.udf import TableAggregateFunction

_TTL_MS = 100
_INPUT = type_info(key=lt.VarCharType(), number=lt.BigIntType())
_ROW = lt.RowType.of(("number", lt.BigIntType()), ("place", lt.IntType()), nullable=False)
_BACKENDS = [{}, {"state.backend.type": "rocksdb"}]


class Smallest(TableAggregateFunction[Any, list[int]]):
    """Emits the two smallest numbers with their places: no row for a group that has nulls only."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], number: int | None) -> None:  # type: ignore[override]
        if number is not None:
            accumulator.append(number)

    def retract(self, accumulator: list[int], number: int | None) -> None:  # type: ignore[override]
        if number is not None:
            accumulator.remove(number)

    def emit_value(self, accumulator: list[int]) -> Iterator[tuple[int, int]]:
        for place, number in enumerate(sorted(accumulator)[:2], 1):
            yield number, place


def _spec(**more: Any) -> GroupTableAggregateSpec:
    function = UserTableAggregateFunction(
        "smallest", Smallest(), "general", (lt.BigIntType(),), lt.ArrayType(_ROW, nullable=False)
    )
    call = AggregateCall("SMALLEST", (1,), function.result_type, "rows", user_function=function)
    return GroupTableAggregateSpec(
        FieldKeySelector(("key",)),
        grouping=(0,),
        aggregates=(call,),
        generate_update_before=True,
        input_types=(_INPUT,),
        output_type=type_info(key=lt.VarCharType(), number=lt.BigIntType(), place=lt.IntType()),
        **more,
    )


def _expected(changes: Iterable[Change]) -> dict[Any, list[Change]]:
    """Returns the changes of each key: after each row all old results go, and all new ones come."""
    groups: dict[Any, list[int | None]] = {}
    emitted: dict[Any, list[Change]] = {}
    for kind, key, number in changes:
        output = emitted.setdefault(key, [])
        output += [("-D", *row) for row in _results(key, groups.get(key, []))]
        numbers = groups.setdefault(key, [])
        if kind in ("+I", "+U"):
            numbers.append(number)
        else:
            numbers.remove(number)
        output += [("+I", *row) for row in _results(key, numbers)]
    return {key: output for key, output in emitted.items() if output}


def _results(key: Any, numbers: list[int | None]) -> list[tuple[Any, ...]]:
    present = sorted(each for each in numbers if each is not None)
    return [(key, number, place) for place, number in enumerate(present[:2], 1)]


def _per_key(changes: Iterable[Change]) -> dict[Any, list[Change]]:
    found: dict[Any, list[Change]] = {}
    for change in changes:
        found.setdefault(change[1], []).append(change)
    return found


_ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 4))


@st.composite
def changelogs(draw: st.DrawFn) -> list[Change]:
    changes: list[Change] = []
    present: list[Any] = []
    for _ in range(draw(st.integers(0, 25))):
        if present and draw(st.integers(0, 2)) == 0:
            changes.append(("-D", *present.pop(draw(st.integers(0, len(present) - 1)))))
        else:
            present.append(draw(_ROWS))
            changes.append(("+I", *present[-1]))
    return changes


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@settings(deadline=None, max_examples=6)
@given(
    changelogs(),
    st.lists(st.integers(0, 30), max_size=5),
    st.integers(0, 25),
    st.tuples(st.integers(1, 2), st.integers(1, 3)),
)
def test_the_changelog_is_that_of_a_record_at_a_time_engine(
    configuration: dict[str, str], changes: list[Change], cuts: list[int], restart_at: int, parallelism: tuple[int, int]
) -> None:
    with TableSubtasks(_spec(needs_retraction=True), parallelism[0], configuration) as subtasks:
        subtasks.process(changes[:restart_at], cuts)
        subtasks.restart(parallelism[1])
        subtasks.process(changes[restart_at:], cuts)
        actual = _per_key(subtasks.finish())

    assert actual == _expected(changes)


@pytest.mark.parametrize("configuration", _BACKENDS, ids=["heap", "rocksdb"])
@settings(deadline=None, max_examples=6)
@given(st.lists(st.tuples(st.sampled_from([0, 60, 130]), st.lists(_ROWS, min_size=1, max_size=5)), max_size=8))
def test_a_group_begins_anew_after_its_time_to_live(configuration: dict[str, str], steps: list[Any]) -> None:
    with TableSubtasks(_spec(needs_retraction=False, state_ttl_ms=_TTL_MS), 1, configuration) as subtasks:
        for passed, rows in steps:
            subtasks.advance(passed)
            subtasks.process([("+I", *row) for row in rows])
        actual = _per_key(subtasks.finish())

    lives: dict[Any, list[list[Change]]] = {}
    last: dict[Any, int] = {}
    now = 0
    for passed, rows in steps:
        now += passed
        for key, number in rows:
            if key not in last or last[key] + _TTL_MS <= now:
                lives.setdefault(key, []).append([])
            lives[key][-1].append(("+I", key, number))
            last[key] = now
    expected = {
        key: [change for life in of_key for change in _expected(life).get(key, [])] for key, of_key in lives.items()
    }
    assert actual == {key: changes for key, changes in expected.items() if changes}
