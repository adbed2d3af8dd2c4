"""ORDER BY time equals a naive reference, for any batches, restarts and backend."""

from __future__ import annotations

import datetime as dt
from typing import Any

from changelogs import TableSubtasks, type_info
from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import SortField, TemporalSortSpec
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.types import logical_types as lt

_EPOCH = dt.datetime(1970, 1, 1)
_INPUT = type_info(time=lt.TimestampType(precision=3), number=lt.BigIntType(), id=lt.BigIntType())
_EVENTS = st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 2)) | st.integers(-1, 12), max_size=30)
_ORDERS = st.sampled_from([(SortField(0),), (SortField(0), SortField(1, ascending=False, nulls_first=False))])


def _sorted(rows: list[tuple[Any, ...]], order: tuple[SortField, ...]) -> list[tuple[Any, ...]]:
    """Sorts (time, number, id). Rows with equal keys keep their order."""
    if len(order) > 1:
        rows = sorted(rows, key=lambda row: -1 if row[1] is None else row[1], reverse=True)
    return sorted(rows, key=lambda row: row[0])


def _spec(order: tuple[SortField, ...], is_event_time: bool = True) -> TemporalSortSpec:
    return TemporalSortSpec(FieldKeySelector(()), order, is_event_time, input_types=(_INPUT,), output_type=_INPUT)


def _change(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return ("+I", _EPOCH + dt.timedelta(milliseconds=row[0]), *row[1:])


@settings(deadline=None, max_examples=30)
@given(BACKEND, _ORDERS, _EVENTS, st.sets(st.integers(0, 30), max_size=5), st.integers(0, 30))
def test_rows_leave_in_order_when_the_watermark_passes_them(
    backend: str, order: tuple[SortField, ...], events: list[Any], cuts: set[int], restart_at: int
) -> None:
    waiting: list[tuple[Any, ...]] = []
    expected: list[tuple[Any, ...]] = []
    last, batch = -1, []
    with TableSubtasks(_spec(order), 1, {"state.backend.type": backend.partition("-")[0]}) as subtasks:
        for position, event in enumerate([*events, MAX_WATERMARK]):
            if batch and (isinstance(event, int) or position in cuts or position == restart_at):
                subtasks.process(batch)
                batch = []
            if position == restart_at:
                subtasks.restart(1)
            if isinstance(event, int):
                subtasks.watermark(event)
                due = _sorted([row for row in waiting if row[0] <= event], order)
                waiting = [row for row in waiting if row[0] > event]
                last = due[-1][0] if due else last
                expected += due
                assert subtasks.output == [_change(row) for row in expected]
                continue
            row = (*event, position)
            # As in Flink, a row behind the watermark is not late as long as nothing after it has been emitted.
            if row[0] > last:
                waiting.append(row)
            batch.append(_change(row))


def test_rows_of_one_millisecond_of_processing_time_are_sorted_together() -> None:
    order = (SortField(0), SortField(1))
    rows = [(0, number, id) for id, number in enumerate([2, 0, 1, 0])]
    with TableSubtasks(_spec(order, is_event_time=False)) as subtasks:
        subtasks.process([_change(row) for row in rows], cuts=(1, 3))
        assert subtasks.output == []
        subtasks.restart(1)
        subtasks.advance(1)
        assert [(change[2], change[3]) for change in subtasks.output] == [(0, 1), (0, 3), (1, 2), (2, 0)]
        subtasks.process([_change(rows[0])])
        assert len(subtasks.finish()) == 5


def test_processing_time_alone_is_the_order_of_arrival() -> None:
    rows = [(0, number, id) for id, number in enumerate([2, 0, 1])]
    with TableSubtasks(_spec((SortField(0),), is_event_time=False)) as subtasks:
        subtasks.process([_change(row) for row in rows])
        assert subtasks.output == [_change(row) for row in rows]
