"""OVER equals a naive reference, for any order, frame, batches, restarts and parallelism."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from typing import Any

from changelogs import Change, TableSubtasks, aggregated, materialized, type_info
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import OverAggregateSpec, OverWindow, SortField
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt

_EPOCH = dt.datetime(1970, 1, 1)
_ROWTIME = lt.TimestampType(precision=3, time_attribute=lt.TimeAttribute.ROWTIME)
_COLUMNS: dict[str, lt.LogicalType] = {
    "key": lt.VarCharType(),
    "time": _ROWTIME,
    "number": lt.BigIntType(),
    "text": lt.VarCharType(),
    "flag": lt.BooleanType(),
    "id": lt.BigIntType(),
}
_TYPES = list(_COLUMNS.values())
_CALLS = [
    AggregateCall("COUNT", (), lt.BigIntType(), "rows"),
    AggregateCall("SUM", (2,), lt.BigIntType(), "sum"),
    AggregateCall("AVG", (2,), lt.BigIntType(), "avg", filter_index=4),
    AggregateCall("MAX", (2,), lt.BigIntType(), "max"),
    AggregateCall("MIN", (3,), lt.VarCharType(), "min"),
    AggregateCall("FIRST_VALUE", (2,), lt.BigIntType(), "first"),
    AggregateCall("LAST_VALUE", (3,), lt.VarCharType(), "last"),
    AggregateCall("COUNT", (2,), lt.BigIntType(), "distinct", is_distinct=True),
    AggregateCall("LISTAGG", (3,), lt.VarCharType(), "list"),
]
_FRAMES = [(True, None, 0), (True, -2, 0), (False, None, 0), (False, -5, 0)]
_MORE_FRAMES = [*_FRAMES, (True, -1, 1), (False, -3, 4), (True, None, None), (False, 1, 5)]
_ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(0, 20),
    st.none() | st.integers(-9, 9),
    st.none() | st.sampled_from(["x", "yy", "Z"]),
    st.none() | st.booleans(),
)
_CUTS = st.lists(st.integers(0, 30), max_size=5)
#: Databases are slow to open, so few examples have one.
_CONFIGURATIONS = st.sampled_from([{}] * 8 + [{"state.backend.type": "rocksdb"}])


def _spec(frame: Any, calls: list[AggregateCall], order: tuple[SortField, ...], **more: Any) -> OverAggregateSpec:
    time = more.pop("time", _ROWTIME)
    columns = {**_COLUMNS, "time": time}
    return OverAggregateSpec(
        FieldKeySelector(("key",)),
        input_types=(type_info(**columns),),
        output_type=type_info(**columns, **{call.name: call.type for call in calls}),
        windows=(OverWindow((0,), order, *frame, tuple(calls)),),
        **more,
    )


def _with_results(rows: list[tuple[Any, ...]], frame: Any, calls: list[AggregateCall], column: int) -> list[Any]:
    """Returns the rows, sorted by the column, with the results of their frames."""
    is_rows, lower, upper = frame
    results = []
    for key in {row[0] for row in rows}:
        own = sorted((row for row in rows if row[0] == key), key=lambda row: row[column])
        for place, row in enumerate(own):
            at = place if is_rows else row[column]
            inside = [
                other
                for position, other in enumerate(own)
                if (lower is None or (position if is_rows else other[column]) >= at + lower)
                and (upper is None or (position if is_rows else other[column]) <= at + upper)
            ]
            values = [aggregated(call, inside, _TYPES[call.arguments[0]] if call.arguments else None) for call in calls]
            results.append((*row, *values))
    return results


def _parts(frames: list[Any]) -> list[tuple[Any, list[AggregateCall]]]:
    """Returns the calls of each window."""
    half = len(_CALLS) // len(frames)
    return [(frame, _CALLS[half * i :][: half if i + 1 < len(frames) else None]) for i, frame in enumerate(frames)]


def _at(time: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=time)


def _shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[0], _at(row[1]), *row[2:])


@settings(deadline=None, max_examples=20)
@given(
    _CONFIGURATIONS,
    st.lists(st.sampled_from(_FRAMES), min_size=1, max_size=2, unique=True),
    st.lists(_ROWS | st.integers(0, 20), max_size=30),
    _CUTS,
    st.integers(0, 30),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_rows_in_event_time_follow_the_watermark(
    configuration: dict[str, str],
    frames: list[Any],
    events: list[Any],
    cuts: list[int],
    restart_at: int,
    parallelism: tuple[int, int],
) -> None:
    spec = _spec(frames[0], _CALLS, (SortField(1),))
    windows = [OverWindow((0,), (SortField(1),), *frame, tuple(calls)) for frame, calls in _parts(frames)]
    spec = replace(spec, windows=tuple(windows))
    kept, progress = [], -1
    # With bounded ROWS, a row behind the watermark counts until a later row of its partition has been emitted.
    by_partition = all(is_rows and lower is not None for is_rows, lower, _ in frames)
    emitted: dict[Any, int] = {}
    with TableSubtasks(spec, parallelism[0], configuration) as subtasks:
        for position, event in enumerate(events):
            if position == restart_at:
                subtasks.restart(parallelism[1])
                subtasks.watermark(progress)
            if isinstance(event, int):
                progress = max(progress, event)
                subtasks.watermark(progress)
                for row in kept:
                    if row[1] <= progress:
                        emitted[row[0]] = max(row[1], emitted.get(row[0], -1))
            else:
                if event[1] > (emitted.get(event[0], -1) if by_partition else progress):
                    kept.append((*event, position))
                subtasks.process([("+I", *_shown((*event, position)))])
        subtasks.watermark(MAX_WATERMARK)
        actual = subtasks.finish()

    results = [_with_results(kept, frame, calls, 1) for frame, calls in _parts(frames)]
    values = [{row[5]: row[6:] for row in part} for part in results]
    expected = [("+I", *_shown(row), *(each for part in values for each in part[row[5]])) for row in kept]
    assert Counter(actual) == Counter(expected)
    for key in {row[0] for row in kept}:
        times = [change[2] for change in actual if change[1] == key]
        assert times == sorted(times)


@st.composite
def _changes(draw: st.DrawFn) -> tuple[list[Change], list[Any]]:
    changes: list[Change] = []
    present: list[Any] = []
    for number in range(draw(st.integers(0, 25))):
        action = draw(st.integers(0, 3))
        if action and present:
            row = present.pop(draw(st.integers(0, len(present) - 1)))
            changes.append(("-D" if action == 1 else "-U", *row))
            if action == 1:
                continue
            row = (row[0], *draw(_ROWS)[1:], number)
            changes.append(("+U", *row))
        else:
            row = (*draw(_ROWS), number)
            changes.append(("+I", *row))
        present.append(row)
    return changes, present


@settings(deadline=None, max_examples=20)
@given(
    _CONFIGURATIONS,
    st.sampled_from(_MORE_FRAMES),
    _changes(),
    _CUTS,
    st.integers(0, 30),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_rows_in_another_order_are_updated(
    configuration: dict[str, str],
    frame: Any,
    drawn: tuple[list[Change], list[Any]],
    cuts: list[int],
    restart_at: int,
    parallelism: tuple[int, int],
) -> None:
    changes, present = drawn
    order = (SortField(1),) if not frame[0] else (SortField(1), SortField(5))
    spec = _spec(frame, _CALLS[:-2] if not frame[0] else _CALLS, order, time=lt.BigIntType(), needs_retraction=True)
    calls = list(spec.windows[0].aggregates)
    with TableSubtasks(spec, parallelism[0], configuration) as subtasks:
        subtasks.process(changes[:restart_at], cuts)
        subtasks.restart(parallelism[1])
        subtasks.process(changes[restart_at:], cuts)
        actual = subtasks.finish()

    present = sorted(present, key=lambda row: row[5])
    assert materialized(actual) == _without_ties(_with_results(present, frame, calls, 1), frame, materialized(actual))


def _without_ties(rows: list[Any], frame: Any, actual: Counter[Any]) -> Counter[Any]:
    """Returns the expected rows. FIRST_VALUE and LAST_VALUE of equal times depend on arrival: they are taken over."""
    if frame[0]:
        return Counter(rows)
    first = {row[:6]: row[11:13] for row in actual}
    return Counter((*row[:11], *first.get(row[:6], ()), *row[13:]) for row in rows)
