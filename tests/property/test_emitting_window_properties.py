"""Group windows with early and late results send the changes of a naive reference, for any batches and backend."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from changelogs import Change, TableSubtasks, aggregated, materialized, type_info
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import GroupWindowAggregateSpec, WindowSlices
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt

_EPOCH = dt.datetime(1970, 1, 1)
_TIME = lt.TimestampType(precision=3)
_INPUT = type_info(key=lt.VarCharType(), time=_TIME, number=lt.BigIntType())
_CALLS = [
    AggregateCall("COUNT", (), lt.BigIntType(), "rows"),
    AggregateCall("SUM", (2,), lt.BigIntType(), "sum"),
    AggregateCall("COUNT", (2,), lt.BigIntType(), "distinct", is_distinct=True),
]
_WINDOWS = [WindowSlices("TUMBLE", 10, time_column=1), WindowSlices("HOP", 10, 5, time_column=1)]
#: (early, late, lateness).
_EMIT = [(0, None, 0), (3, None, 0), (None, 0, 5), (None, 2, 5), (0, 2, 5), (3, 0, 5), (3, 2, 5)]
_ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 25), st.none() | st.integers(0, 3))
#: Rows, watermarks, and steps of the clock.
_EVENTS = st.lists(
    st.tuples(st.just("row"), _ROWS)
    | st.tuples(st.just("watermark"), st.integers(0, 25))
    | st.tuples(st.just("clock"), st.integers(1, 4)),
    max_size=30,
)


def _at(time_ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=time_ms)


def _by_window(change: Change) -> Change:
    """Returns the change with the key and the bounds of its window first."""
    kind, key, *values, start, end = change
    return (kind, key, start, end, *values)


class ReferenceWindows:
    """The windows of keys, each with its rows, the last result sent, and the end of its interval."""

    def __init__(self, window: WindowSlices, emit: tuple[int | None, int | None, int]) -> None:
        self._window = window
        self._early, self._late, self._lateness = emit
        self._rows: dict[Any, list[Any]] = {}
        self._sent: dict[Any, Any] = {}
        self._next: dict[Any, int] = {}
        self._watermark, self._clock = -1, 0
        self.output: dict[Any, list[Change]] = defaultdict(list)

    def row(self, row: tuple[Any, ...]) -> None:
        step = self._window.slide_ms or self._window.size_ms
        for start in range(row[1] - self._window.size_ms + 1, row[1] + 1):
            if start % step or start + self._window.size_ms - 1 + self._lateness <= self._watermark:
                continue
            place = (row[0], start)
            self._rows.setdefault(place, []).append(row)
            is_late = start + self._window.size_ms - 1 <= self._watermark
            interval = self._late if is_late else self._early
            if interval == 0:
                self._send(place)
            elif interval is not None and place not in self._next:
                self._next[place] = self._clock + interval

    def _send(self, place: Any) -> None:
        result = tuple(aggregated(call, self._rows[place], lt.BigIntType()) for call in _CALLS)
        before = self._sent.get(place)
        if before == result:
            return
        start, end = _at(place[1]), _at(place[1] + self._window.size_ms)
        kinds = [("+I", result)] if before is None else [("-U", before), ("+U", result)]
        self.output[place] += [(kind, place[0], *values, start, end) for kind, values in kinds]
        self._sent[place] = result

    def watermark(self, time: int) -> None:
        before, self._watermark = self._watermark, max(self._watermark, time)
        for place in list(self._rows):
            last = place[1] + self._window.size_ms - 1
            if before < last <= self._watermark:
                self._send(place)
                self._next.pop(place, None)
            if last + self._lateness <= self._watermark:
                self._send(place)
                del self._rows[place]
                self._next.pop(place, None)

    def clock(self, by_ms: int) -> None:
        for _ in range(by_ms):
            # A timer fires when the clock is past its time.
            self._clock += 1
            for place, time in list(self._next.items()):
                if time < self._clock:
                    self._send(place)
                    is_late = place[1] + self._window.size_ms - 1 <= self._watermark
                    interval = self._late if is_late else self._early
                    assert interval
                    self._next[place] = time + interval


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([{}] * 8 + [{"state.backend.type": "rocksdb"}]),
    st.sampled_from(_WINDOWS),
    st.sampled_from(_EMIT),
    _EVENTS,
    st.sets(st.integers(0, 30), max_size=5),
    st.integers(0, 60),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.booleans(),
)
def test_results_are_sent_early_and_late(
    configuration: dict[str, str],
    window: WindowSlices,
    emit: tuple[int | None, int | None, int],
    events: list[Any],
    cuts: set[int],
    restart_at: int,
    parallelism: tuple[int, int],
    generate_update_before: bool,
) -> None:
    spec = GroupWindowAggregateSpec(
        FieldKeySelector(("key",)),
        (0,),
        tuple(_CALLS),
        window,
        ("start", "end"),
        False,
        generate_update_before,
        *emit,
        input_types=(_INPUT,),
        output_type=type_info(key=lt.VarCharType(), **{call.name: call.type for call in _CALLS}, s=_TIME, e=_TIME),
    )
    reference, batch = ReferenceWindows(window, emit), []
    with TableSubtasks(spec, parallelism[0], configuration) as subtasks:
        for position, (kind, value) in enumerate(events):
            if batch and (kind != "row" or position in cuts or position == restart_at):
                subtasks.process(batch)
                batch = []
            if position == restart_at:
                subtasks.restart(parallelism[1])
            getattr(reference, kind)(value)
            if kind == "row":
                batch.append(("+I", value[0], _at(value[1]), value[2]))
            elif kind == "watermark":
                subtasks.watermark(value)
            else:
                for _ in range(value):
                    subtasks.advance(1)
        if batch:
            subtasks.process(batch)
        reference.watermark(MAX_WATERMARK)
        subtasks.watermark(MAX_WATERMARK)
        changes = subtasks.finish()

    actual: dict[Any, list[Change]] = defaultdict(list)
    for change in changes:
        actual[change[1], int((change[-2] - _EPOCH) / dt.timedelta(milliseconds=1))].append(change)
    if restart_at < len(events) and (emit[0] or emit[1]):
        # Intervals begin anew after a recovery.
        expected_changes = [each for part in reference.output.values() for each in part]
        assert materialized(map(_by_window, changes), 3) == materialized(map(_by_window, expected_changes), 3)
    else:
        expected = {
            place: [change for change in part if generate_update_before or change[0] != "-U"]
            for place, part in reference.output.items()
        }
        assert actual == expected


def test_a_window_whose_rows_are_taken_back_is_deleted() -> None:
    spec = GroupWindowAggregateSpec(
        FieldKeySelector(("key",)),
        (0,),
        tuple(_CALLS[:1]),
        _WINDOWS[0],
        ("end",),
        True,
        True,
        3,
        0,
        5,
        input_types=(_INPUT,),
        output_type=type_info(key=lt.VarCharType(), rows=lt.BigIntType(), e=_TIME),
    )
    with TableSubtasks(spec) as subtasks:
        row = ("a", _at(1), 1)
        subtasks.process([("+I", *row)])
        subtasks.advance(4)
        subtasks.process([("-D", *row)])
        subtasks.watermark(9)
        subtasks.process([("+I", *row), ("-D", *row)])
        assert subtasks.output == [("+I", "a", 1, _at(10)), ("-D", "a", 1, _at(10))] * 2
        subtasks.watermark(14)
        subtasks.process([("+I", *row)])
        assert len(subtasks.output) == 4
        assert subtasks.subtasks[0].context.metrics.counter("numLateRecordsDropped").get_count() == 1


def test_a_late_result_replaces_the_one_that_was_sent_at_once() -> None:
    spec = GroupWindowAggregateSpec(
        FieldKeySelector(("key",)),
        (0,),
        tuple(_CALLS[:1]),
        _WINDOWS[0],
        ("end",),
        True,
        True,
        0,
        2,
        50,
        input_types=(_INPUT,),
        output_type=type_info(key=lt.VarCharType(), rows=lt.BigIntType(), e=_TIME),
    )
    with TableSubtasks(spec) as subtasks:
        row, gone = ("a", _at(1), 1), ("b", _at(1), 1)
        subtasks.process([("+I", *row), ("+I", *row), ("+I", *gone), ("-D", *gone)])
        subtasks.watermark(12)
        del subtasks.output[:]
        subtasks.process([("+I", *row), ("+I", *gone)])
        subtasks.advance(3)
        assert subtasks.output == [
            ("-U", "a", 2, _at(10)),
            ("+U", "a", 3, _at(10)),
            ("+I", "b", 1, _at(10)),
        ]


def test_windows_of_the_clock_send_early_results() -> None:
    spec = GroupWindowAggregateSpec(
        FieldKeySelector(("key",)),
        (0,),
        tuple(_CALLS[:1]),
        WindowSlices("TUMBLE", 1_000, is_event_time=False, time_column=1),
        (),
        emit_early_ms=400,
        input_types=(_INPUT,),
        output_type=type_info(key=lt.VarCharType(), rows=lt.BigIntType()),
    )
    with TableSubtasks(spec) as subtasks:
        begin = subtasks.subtasks[0].clock.now_ms()
        subtasks.advance(1_000 - begin % 1_000)
        for step, kinds in ((401, ["+I"]), (400, ["+I", "+U"]), (250, ["+I", "+U", "+U"])):
            subtasks.process([("+I", "a", None, 1)])
            subtasks.advance(step)
            assert [change[0] for change in subtasks.output] == kinds
        assert [change[2] for change in subtasks.output] == [1, 2, 3]
        assert subtasks.subtasks[0].operator._windows.size == 0
