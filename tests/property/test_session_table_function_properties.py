"""SESSION in FROM equals a naive reference, for any batches, restarts, parallelism and backend."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from changelogs import TableSubtasks, type_info
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import SessionTableFunctionSpec, WindowSlices
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.types import logical_types as lt

_EPOCH = dt.datetime(1970, 1, 1)
_TIME = lt.TimestampType(precision=3)
_COLUMNS: dict[str, lt.LogicalType] = {"key": lt.VarCharType(), "time": _TIME, "id": lt.BigIntType()}
_INPUT = type_info(**_COLUMNS)
_OUTPUT = type_info(**_COLUMNS, window_start=_TIME, window_end=_TIME, window_time=_TIME)
_GAP = 4
_ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 30))


def _at(time_ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=time_ms)


def _spec(**window: Any) -> SessionTableFunctionSpec:
    slices = WindowSlices("SESSION", _GAP, time_column=1, partition=(0,), **window)
    return SessionTableFunctionSpec(FieldKeySelector(("key",)), slices, input_types=(_INPUT,), output_type=_OUTPUT)


class ReferenceSessions:
    """Merges the sessions of a key record by record: [first ms, first ms after it, rows]."""

    def __init__(self) -> None:
        self._sessions: dict[Any, list[list[Any]]] = {}
        self._watermark = -1
        self.output: list[Any] = []

    def row(self, key: Any, time: int, number: int) -> None:
        merged: list[Any] = [time, time + _GAP, [(key, time, number)]]
        others = []
        for session in self._sessions.setdefault(key, []):
            if session[0] <= merged[1] and merged[0] <= session[1]:
                bounds = min(merged[0], session[0]), max(merged[1], session[1])
                merged = [*bounds, session[2] + merged[2]]
            else:
                others.append(session)
        if merged[1] - 1 > self._watermark:
            self._sessions[key] = [*others, merged]

    def watermark(self, time: int) -> None:
        self._watermark = max(self._watermark, time)
        for key, sessions in self._sessions.items():
            for start, end, rows in sessions:
                if end - 1 <= self._watermark:
                    self.output += [("+I", key, _at(t), n, _at(start), _at(end), _at(end - 1)) for _, t, n in rows]
            self._sessions[key] = [each for each in sessions if each[1] - 1 > self._watermark]


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([{}] * 8 + [{"state.backend.type": "rocksdb"}]),
    st.lists(_ROWS | st.integers(-1, 30), max_size=30),
    st.sets(st.integers(0, 30), max_size=5),
    st.integers(0, 30),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_rows_get_the_bounds_of_their_session_when_it_is_over(
    configuration: dict[str, str],
    events: list[Any],
    cuts: set[int],
    restart_at: int,
    parallelism: tuple[int, int],
) -> None:
    reference, batch = ReferenceSessions(), []
    with TableSubtasks(_spec(), parallelism[0], configuration) as subtasks:
        for position, event in enumerate([*events, MAX_WATERMARK]):
            if batch and (isinstance(event, int) or position in cuts or position == restart_at):
                subtasks.process(batch)
                batch = []
            if position == restart_at:
                subtasks.restart(parallelism[1])
            if isinstance(event, int):
                reference.watermark(event)
                subtasks.watermark(event)
                assert Counter(subtasks.output) == Counter(reference.output)
            else:
                reference.row(*event, position)
                batch.append(("+I", event[0], _at(event[1]), position))


def test_sessions_of_the_clock_end_a_gap_after_their_last_row() -> None:
    with TableSubtasks(_spec(is_event_time=False)) as subtasks:
        begin = subtasks.subtasks[0].clock.now_ms()
        for number in range(2):
            subtasks.process([("+I", "a", None, number)])
            subtasks.advance(3)
        subtasks.advance(1)
        assert [(change[3], change[4], change[5]) for change in subtasks.output] == [
            (number, _at(begin), _at(begin + 3 + _GAP)) for number in range(2)
        ]
