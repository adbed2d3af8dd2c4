"""Aggregates over windows equal a naive reference, for any batches, restarts, parallelism and number of phases."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from typing import Any

from changelogs import Change, TableSubtasks, aggregated, to_batch, type_info
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import (
    GlobalWindowAggregateSpec,
    LocalWindowAggregateSpec,
    WindowAggregateSpec,
    WindowSlices,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import row_type_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo

_EPOCH = dt.datetime(1970, 1, 1)
_TIME = lt.TimestampType(precision=3)
_INPUT = type_info(
    key=lt.VarCharType(), time=_TIME, number=lt.BigIntType(), text=lt.VarCharType(), flag=lt.BooleanType()
)
_TYPES = [field.type for field in _INPUT.row_type.fields]
_CALLS = [
    AggregateCall("COUNT", (), lt.BigIntType(), "rows"),
    AggregateCall("COUNT", (), lt.BigIntType(), "flagged", filter_index=4),
    AggregateCall("SUM", (2,), lt.BigIntType(), "sum"),
    AggregateCall("AVG", (2,), lt.BigIntType(), "avg", filter_index=4),
    AggregateCall("MAX", (2,), lt.BigIntType(), "max"),
    AggregateCall("MIN", (3,), lt.VarCharType(), "min"),
    AggregateCall("COUNT", (3,), lt.BigIntType(), "distinct", is_distinct=True, filter_index=4),
    AggregateCall("SUM", (2,), lt.BigIntType(), "distinct_sum", is_distinct=True, filter_index=4),
]
_WINDOWS = [
    WindowSlices("TUMBLE", 10, time_column=1),
    WindowSlices("TUMBLE", 10, offset_ms=-3, time_column=1),
    WindowSlices("HOP", 10, 2, offset_ms=1, time_column=1),
    WindowSlices("CUMULATE", 12, 4, time_column=1),
    WindowSlices("SESSION", 4, time_column=1),
]
_PROPERTIES = ("window_start", "window_end", "window_time")
_ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(-20, 60),
    st.none() | st.integers(-9, 9),
    st.none() | st.sampled_from(["x", "yy", "Z"]),
    st.none() | st.booleans(),
)
#: Rows, and watermarks.
_EVENTS = st.lists(_ROWS | st.integers(-20, 60), max_size=30)


def _at(time_ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=time_ms)


def _bounds(window: WindowSlices, time: int) -> list[tuple[int, int]]:
    """Returns the windows of a row, by trying all."""
    size, offset = window.size_ms, window.offset_ms
    if window.kind == "CUMULATE":
        start = time - (time - offset) % size
        ends = [start + step for step in range(window.slide_ms, size + 1, window.slide_ms)]
        return [(start, end) for end in ends if end > time]
    slide = window.slide_ms or size
    starts = range(time - size + 1, time + 1)
    return [(start, start + size) for start in starts if (start - offset) % slide == 0]


def _sessions(times: list[int], gap: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for time in sorted(times):
        if spans and time <= spans[-1][1]:
            spans[-1] = (spans[-1][0], time + gap)
        else:
            spans.append((time, time + gap))
    return spans


def _expected(window: WindowSlices, rows: list[tuple[Any, ...]]) -> Counter[Any]:
    """Returns the results for rows of which none is late."""
    results: Counter[Any] = Counter()
    for key in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == key]
        if window.kind == "SESSION":
            spans = set(_sessions([row[1] for row in own], window.size_ms))
        else:
            spans = {bounds for row in own for bounds in _bounds(window, row[1])}
        for start, end in spans:
            inside = [row for row in own if start <= row[1] < end]
            values = [
                aggregated(call, inside, _TYPES[call.arguments[0]] if call.arguments else None) for call in _CALLS
            ]
            results[("+I", key, *values, _at(start), _at(end), _at(end - 1))] += 1
    return results


def _kept(window: WindowSlices, events: list[Any]) -> list[tuple[Any, ...]]:
    """Returns the rows that are not late when they arrive; for windows other than SESSION."""
    progress, kept = -(1 << 60), []
    for event in events:
        if isinstance(event, int):
            progress = max(progress, event)
        elif max(end for _, end in _bounds(window, event[1])) - 1 > progress:
            kept.append(event)
    return kept


def _output() -> InternalTypeInfo:
    return type_info(
        key=lt.VarCharType(), **{call.name: call.type for call in _CALLS}, **dict.fromkeys(_PROPERTIES, _TIME)
    )


def _spec(window: WindowSlices) -> WindowAggregateSpec:
    return WindowAggregateSpec(
        FieldKeySelector(("key",)),
        input_types=(_INPUT,),
        output_type=_output(),
        grouping=(0,),
        aggregates=tuple(_CALLS),
        window=window,
        properties=_PROPERTIES,
    )


def _change(row: tuple[Any, ...]) -> Change:
    return ("+I", row[0], _at(row[1]), *row[2:])


def _feed(subtasks: TableSubtasks, events: list[Any], cuts: set[int]) -> None:
    batch: list[Change] = []
    for position, event in enumerate(events):
        if batch and (isinstance(event, int) or position in cuts):
            subtasks.process(batch)
            batch = []
        if isinstance(event, int):
            subtasks.watermark(event)
        else:
            batch.append(_change(event))
    if batch:
        subtasks.process(batch)


#: Databases are slow to open, so few examples have one.
_CONFIGURATIONS = st.sampled_from([{}] * 6 + [{"state.backend.type": "rocksdb"}])


@settings(deadline=None, max_examples=25)
@given(
    _CONFIGURATIONS,
    st.sampled_from(_WINDOWS[:-1]),
    _EVENTS,
    st.sets(st.integers(0, 30), max_size=5),
    st.integers(0, 30),
    st.tuples(st.integers(1, 2), st.integers(1, 3)),
)
def test_windows_contain_the_rows_that_are_not_late(
    configuration: dict[str, str],
    window: WindowSlices,
    events: list[Any],
    cuts: set[int],
    restart_at: int,
    parallelism: tuple[int, int],
) -> None:
    watermarks = [event for event in events[:restart_at] if isinstance(event, int)]
    with TableSubtasks(_spec(window), parallelism[0], configuration) as subtasks:
        _feed(subtasks, events[:restart_at], cuts)
        subtasks.restart(parallelism[1])
        if watermarks:
            subtasks.watermark(max(watermarks))
        _feed(subtasks, events[restart_at:], cuts)
        subtasks.watermark(MAX_WATERMARK)
        actual = Counter(subtasks.finish())

    if window.kind == "CUMULATE":
        # A window that has fired is not corrected by rows that only later windows contain.
        assert {row[:2] + row[-3:] for row in actual} >= {
            row[:2] + row[-3:] for row in _expected(window, _kept(window, events)) if _is_never_late(window, events)
        }
    if _is_never_late(window, events):
        assert actual == _expected(window, _kept(window, events))


def _is_never_late(window: WindowSlices, events: list[Any]) -> bool:
    """True if no row comes after one of its windows has fired."""
    progress = -(1 << 60)
    for event in events:
        if isinstance(event, int):
            progress = max(progress, event)
        elif min(end for _, end in _bounds(window, event[1])) - 1 <= progress:
            return window.kind == "TUMBLE"
    return True


@settings(deadline=None, max_examples=25)
@given(
    _CONFIGURATIONS,
    st.lists(_ROWS, max_size=30),
    st.sets(st.integers(0, 30), max_size=5),
    st.integers(0, 30),
    st.integers(1, 3),
)
def test_sessions_end_after_a_gap(
    configuration: dict[str, str], rows: list[Any], cuts: set[int], restart_at: int, parallelism: int
) -> None:
    window = _WINDOWS[-1]
    with TableSubtasks(_spec(window), 1, configuration) as subtasks:
        _feed(subtasks, rows[:restart_at], cuts)
        subtasks.restart(parallelism)
        _feed(subtasks, rows[restart_at:], cuts)
        subtasks.watermark(MAX_WATERMARK)
        actual = Counter(subtasks.finish())

    assert actual == _expected(window, rows)


@settings(deadline=None, max_examples=20)
@given(
    _CONFIGURATIONS,
    st.sampled_from(_WINDOWS[:-1]),
    st.lists(st.tuples(_ROWS, st.integers(0, 3)), max_size=30),
    st.sets(st.integers(0, 30), max_size=5),
    st.integers(0, 30),
    st.integers(1, 3),
)
def test_rows_of_windows_are_taken_back(
    configuration: dict[str, str],
    window: WindowSlices,
    steps: list[Any],
    cuts: set[int],
    restart_at: int,
    parallelism: int,
) -> None:
    changes: list[Change] = []
    present: list[tuple[Any, ...]] = []
    for row, action in steps:
        if action == 0 and present:
            changes.append(("-D", *_change(present.pop(len(present) // 2))[1:]))
        else:
            present.append(row)
            changes.append(_change(row))
    with TableSubtasks(replace(_spec(window), needs_retraction=True), 1, configuration) as subtasks:
        subtasks.process(changes[:restart_at], cuts)
        subtasks.restart(parallelism)
        subtasks.process(changes[restart_at:], cuts)
        subtasks.watermark(MAX_WATERMARK)
        actual = Counter(subtasks.finish())

    assert actual == _expected(window, present)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(_WINDOWS[:-1]), _EVENTS, st.sets(st.integers(0, 30), max_size=5), st.booleans())
def test_two_phases_give_the_results_of_one(
    window: WindowSlices, events: list[Any], cuts: set[int], has_keys: bool
) -> None:
    grouping = (0,) if has_keys else ()
    local = OperatorHarness(
        LocalWindowAggregateSpec(
            input_types=(_INPUT,), output_type=None, grouping=grouping, aggregates=tuple(_CALLS), window=window
        )
    )
    rows = [event for event in events if not isinstance(event, int)]
    for start in range(0, len(rows), 7):
        local.operator.process_batch(to_batch([_change(row) for row in rows[start : start + 7]], _INPUT))
        if start in cuts:
            local.operator.prepare_snapshot_pre_barrier(1)
    local.operator.process_element(Watermark(MAX_WATERMARK))
    batches = [item for item in local.output.items if isinstance(item, Batch)]
    if not batches:
        return
    output = _output()
    if not has_keys:
        output = InternalTypeInfo(lt.RowType(output.row_type.fields[1:]))
    spec = GlobalWindowAggregateSpec(
        FieldKeySelector(("key",) if has_keys else ()),
        input_types=(InternalTypeInfo(row_type_of(batches[0].values.schema)),),
        output_type=output,
        grouping=grouping,
        aggregates=tuple(_CALLS),
        local_input_type=_INPUT,
        window=window,
        properties=_PROPERTIES,
    )
    with TableSubtasks(spec) as subtasks:
        for batch in batches:
            subtasks.process_batch(batch)
        subtasks.watermark(MAX_WATERMARK)
        actual = Counter(subtasks.finish())

    if has_keys:
        assert actual == _expected(window, rows)
    else:
        alike = [("a", *row[1:]) for row in rows]
        assert actual == Counter({(row[0], *row[2:]): n for row, n in _expected(window, alike).items()})
