"""Window Top-N and window deduplication equal a naive reference, for any batches, restarts, parallelism and backend."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from changelogs import TableSubtasks, type_info
from hypothesis import given, settings
from hypothesis import strategies as st
from table_subtasks import BACKEND

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import SortField, WindowDeduplicateSpec, WindowRankSpec, WindowSlices
from flinkpy.records.elements import MAX_WATERMARK
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt

_EPOCH = dt.datetime(1970, 1, 1)
_COLUMNS: dict[str, lt.LogicalType] = {
    "key": lt.VarCharType(),
    "time": lt.TimestampType(precision=3),
    "number": lt.BigIntType(),
    "window_start": lt.TimestampType(precision=3),
    "window_end": lt.TimestampType(precision=3),
}
_INPUT = type_info(**_COLUMNS)
#: (key, time, number); the windows are 10 ms long.
_ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 40), st.none() | st.integers(0, 3))
_EVENTS = st.lists(_ROWS | st.integers(-1, 40), max_size=30)
_RANKS = st.tuples(st.sampled_from([1, 2]), st.sampled_from([2, 3])) | st.just((1, 1))


def _at(time_ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=time_ms)


def _change(row: tuple[Any, ...]) -> tuple[Any, ...]:
    start = row[1] // 10 * 10
    return ("+I", row[0], _at(row[1]), row[2], _at(start), _at(start + 10))


def _run(
    spec: Any,
    backend: str,
    events: list[Any],
    cuts: set[int],
    restart_at: int,
    parallelism: tuple[int, int],
    lag_ms: int = 0,
) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Returns what was emitted, and the rows that were not late. The watermarks are `lag_ms` behind local time."""
    kind, _, is_incremental = backend.partition("-")
    configuration = {
        "state.backend.type": kind,
        "execution.checkpointing.incremental": str(bool(is_incremental)).lower(),
    }
    progress, kept, batch = -1, [], []
    with TableSubtasks(spec, parallelism[0], configuration) as subtasks:
        for position, event in enumerate(events):
            if batch and (isinstance(event, int) or position in cuts or position == restart_at):
                subtasks.process(batch)
                batch = []
            if position == restart_at:
                subtasks.restart(parallelism[1])
            if isinstance(event, int):
                progress = max(progress, event)
                subtasks.watermark(progress - lag_ms)
                continue
            if event[1] // 10 * 10 + 9 > progress:
                kept.append(event)
            batch.append(_change(event))
        if batch:
            subtasks.process(batch)
        before_end = len(subtasks.output)
        assert all(change[5] <= _at(progress + 1) for change in subtasks.output[:before_end])
        subtasks.watermark(MAX_WATERMARK)
        return subtasks.finish(), kept


def _groups(rows: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault((row[0], row[1] // 10), []).append(row)
    return list(groups.values())


_SETTINGS = settings(deadline=None, max_examples=25)
_PLACES = (BACKEND, _EVENTS, st.sets(st.integers(0, 30), max_size=5), st.integers(0, 30))
_PARALLELISM = st.tuples(st.integers(1, 2), st.integers(1, 2))


@_SETTINGS
@given(*_PLACES, _PARALLELISM, _RANKS, st.booleans(), st.booleans())
def test_a_window_has_the_rows_of_the_lowest_ranks(
    backend: str,
    events: list[Any],
    cuts: set[int],
    restart_at: int,
    parallelism: tuple[int, int],
    ranks: tuple[int, int],
    is_ascending: bool,
    has_zone: bool,
) -> None:
    window = WindowSlices("TUMBLE", 10, start_column=3, end_column=4, is_zoned=has_zone)
    spec = WindowRankSpec(
        FieldKeySelector(("key",)),
        window,
        (0,),
        (SortField(2, is_ascending, nulls_first=is_ascending),),
        *ranks,
        True,
        SessionSettings(time_zone="Etc/GMT-2"),
        input_types=(_INPUT,),
        output_type=type_info(**_COLUMNS, rank=lt.BigIntType()),
    )
    # With a zone, the bounds of windows are two hours ahead of the watermark.
    lag_ms = 7_200_000 if has_zone else 0
    actual, kept = _run(spec, backend, events, cuts, restart_at, parallelism, lag_ms)

    expected: Counter[Any] = Counter()
    for rows in _groups(kept):
        rows.sort(key=lambda row: -1 if row[2] is None else row[2], reverse=not is_ascending)
        chosen = list(enumerate(rows, 1))[ranks[0] - 1 : ranks[1]]
        expected.update((*_change(row), rank) for rank, row in chosen)
    assert Counter(actual) == expected


@_SETTINGS
@given(*_PLACES, _PARALLELISM, st.booleans())
def test_a_window_has_the_first_or_last_row_of_each_key(
    backend: str, events: list[Any], cuts: set[int], restart_at: int, parallelism: tuple[int, int], keep_last: bool
) -> None:
    window = WindowSlices("TUMBLE", 10, start_column=3, end_column=4)
    spec = WindowDeduplicateSpec(
        FieldKeySelector(("key",)), window, (0,), 1, keep_last, input_types=(_INPUT,), output_type=_INPUT
    )
    actual, kept = _run(spec, backend, events, cuts, restart_at, parallelism)

    expected: Counter[Any] = Counter()
    for rows in _groups(kept):
        # Rows with equal times are in the order in which they came.
        numbered = sorted(enumerate(rows), key=lambda each: (each[1][1], each[0]))
        expected[_change(numbered[-1 if keep_last else 0][1])] += 1
    assert Counter(actual) == expected
