"""OVER: functions of the order, processing time, late rows, and windows that are refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from changelogs import TableSubtasks, type_info
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import OverAggregateSpec, OverWindow, SortField
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt

_LONG = lt.BigIntType()
_ROWTIME = lt.TimestampType(precision=3, time_attribute=lt.TimeAttribute.ROWTIME)
_PROCTIME = lt.LocalZonedTimestampType(precision=3, time_attribute=lt.TimeAttribute.PROCTIME)


def spec(
    order: lt.LogicalType, frame: tuple[bool, int | None, int | None], *calls: AggregateCall, **more: Any
) -> OverAggregateSpec:
    columns = {"key": lt.VarCharType(), "order": order, "value": _LONG, "one": _LONG, "default": _LONG}
    return OverAggregateSpec(
        FieldKeySelector(("key",)),
        input_types=(type_info(**columns),),
        output_type=type_info(**columns, **{call.name: call.type for call in calls}),
        windows=(OverWindow((0,), (SortField(1),), *frame, calls),),
        **more,
    )


def call(function: str, *arguments: int, kind: lt.LogicalType = _LONG) -> AggregateCall:
    return AggregateCall(function, arguments, kind, function.lower())


def at(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)


def test_ranks_follow_the_order_and_its_ties() -> None:
    ranks = [call(name) for name in ("ROW_NUMBER", "RANK", "DENSE_RANK")]
    shares = [call(name, kind=lt.DoubleType()) for name in ("PERCENT_RANK", "CUME_DIST")]
    with TableSubtasks(spec(_LONG, (False, None, 0), *ranks, *shares, call("NTILE", 3))) as subtasks:
        subtasks.process([("+I", "a", order, 0, 2, 0) for order in (10, 30, 10, 20)])
        assert sorted(change[2:3] + change[6:] for change in subtasks.output) == [
            (10, 1, 1, 1, 0.0, 0.5, 1),
            (10, 2, 1, 1, 0.0, 0.5, 1),
            (20, 3, 3, 2, 2 / 3, 0.75, 2),
            (30, 4, 4, 3, 1.0, 1.0, 2),
        ]


def test_lag_and_lead_have_offsets_and_defaults() -> None:
    with TableSubtasks(spec(_LONG, (True, None, 0), call("LAG", 2), call("LEAD", 2, 3, 4))) as subtasks:
        subtasks.process([("+I", "a", order, order * 10, 2, -1) for order in (1, 2, 3)])
        assert [change[6:] for change in subtasks.output] == [(None, 30), (10, -1), (20, -1)]


def test_ranks_and_lag_stand_beside_aggregates_in_event_time() -> None:
    ranks = [call(name) for name in ("ROW_NUMBER", "RANK", "DENSE_RANK", "SUM", "LAG")]
    ranks[3:] = [call("SUM", 2), call("LAG", 2)]
    one = spec(_ROWTIME, (False, None, 0), *ranks)
    window = one.windows[0]
    several = replace(
        one,
        windows=(
            replace(window, is_rows=True, aggregates=tuple(ranks[:1])),
            replace(window, aggregates=tuple(ranks[1:4])),
            replace(window, is_rows=True, aggregates=tuple(ranks[4:])),
        ),
    )
    with TableSubtasks(several) as subtasks:
        rows = [("+I", "a", at(time), value, 1, 0) for time, value in [(1, 5), (1, 6), (2, 7)]]
        subtasks.process(rows)
        subtasks.watermark(2)
        subtasks.restart(1)
        subtasks.process([("+I", "a", at(3), 8, 1, 0)])
        subtasks.watermark(3)
        assert [change[6:] for change in subtasks.output] == [
            (1, 1, 1, 11, None),
            (2, 1, 1, 11, 5),
            (3, 3, 2, 18, 6),
            (4, 4, 3, 26, 7),
        ]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_lag_in_event_time_remembers_as_many_rows_as_it_needs(backend: str) -> None:
    with TableSubtasks(
        spec(_ROWTIME, (False, None, 0), call("LAG", 2, 3)), configuration={"state.backend.type": backend}
    ) as subtasks:
        for time in (1, 2, 3, 4, 5):
            subtasks.process([("+I", "a", at(time), time, 2, 0)])
            subtasks.watermark(time)
            assert subtasks.subtasks[0].operator._rows.size <= 2
            subtasks.restart(1)
        assert [change[6] for change in subtasks.output] == [None, None, 1, 2, 3]


def test_late_rows_are_dropped_and_counted() -> None:
    with TableSubtasks(spec(_ROWTIME, (True, None, 0), call("COUNT"))) as subtasks:
        subtasks.watermark(10)
        subtasks.process([("+I", "a", at(10), 1, 1, 1), ("+I", "a", at(11), 1, 1, 1)])
        subtasks.watermark(11)
        assert [change[6] for change in subtasks.output] == [1]
        assert subtasks.subtasks[0].context.metrics.counter("numLateRecordsDropped").get_count() == 1


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ((True, -1, 0), [1, 3, 5, 7]),
        ((True, None, 0), [1, 3, 6, 10]),
        ((False, None, 0), [1, 3, 6, 10]),
        ((False, -500, 0), [1, 3, 3, 7]),
    ],
)
def test_rows_in_processing_time_are_emitted_as_they_come(frame: Any, expected: list[int]) -> None:
    with TableSubtasks(spec(_PROCTIME, frame, call("SUM", 2))) as subtasks:
        for value in (1, 2, 3, 4):
            subtasks.process([("+I", "a", None, value, 1, 1)])
            subtasks.advance(600 if value == 2 else 100)
        assert [change[6] for change in subtasks.output] == expected


def test_running_results_of_idle_partitions_begin_anew() -> None:
    with TableSubtasks(spec(_ROWTIME, (False, None, 0), call("SUM", 2), state_ttl_ms=100)) as subtasks:
        for time, step in ((1, 60), (2, 60), (3, 101), (4, 0)):
            subtasks.process([("+I", "a", at(time), 1, 1, 1)])
            subtasks.watermark(time)
            subtasks.advance(step)
        assert [change[6] for change in subtasks.output] == [1, 2, 3, 1]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("frame", "called"), [((True, -5, 0), call("SUM", 2)), ((False, None, 0), call("LAG", 2))], ids=["rows", "lag"]
)
def test_the_last_rows_of_idle_partitions_expire(frame: Any, called: AggregateCall, backend: str) -> None:
    is_lag = called.function == "LAG"
    expiring = spec(_ROWTIME, frame, called, state_ttl_ms=100)
    with TableSubtasks(expiring, configuration={"state.backend.type": backend}) as subtasks:

        def emit(key: str, time: int) -> Any:
            subtasks.process([("+I", key, at(time), time, 1, 1)])
            subtasks.watermark(time)
            return subtasks.output[-1][6]

        assert emit("a", 1) == (None if is_lag else 1)
        subtasks.advance(60)
        assert emit("a", 2) == (1 if is_lag else 3)
        subtasks.restart(1)
        subtasks.advance(60)
        assert emit("b", 3) == (None if is_lag else 3)
        # Rows that wait for the watermark keep their partition.
        subtasks.process([("+I", "a", at(5), 5, 1, 1)])
        subtasks.advance(200)
        subtasks.watermark(5)
        assert subtasks.output[-1][6] == (2 if is_lag else 8)
        subtasks.advance(100)
        assert emit("c", 6) == (None if is_lag else 6)
        assert subtasks.subtasks[0].operator._rows.size == 1
        assert emit("a", 7) == (None if is_lag else 7)


@pytest.mark.parametrize("frame", [(True, -5, 0), (False, -500, 0)], ids=["rows", "range"])
def test_rows_of_processing_time_expire_only_in_frames_of_rows(frame: Any) -> None:
    with TableSubtasks(spec(_PROCTIME, frame, call("SUM", 2), state_ttl_ms=100)) as subtasks:
        for step in (60, 100, 0):
            subtasks.process([("+I", "a", None, 1, 1, 1)])
            subtasks.advance(step)
        assert [change[6] for change in subtasks.output] == ([1, 2, 1] if frame[0] else [1, 2, 3])


def test_an_update_changes_the_results_of_other_rows() -> None:
    retracting = spec(_LONG, (True, -1, 0), call("SUM", 2), needs_retraction=True)
    with TableSubtasks(retracting) as subtasks:
        subtasks.process([("+I", "a", order, order, 0, 0) for order in (1, 2, 3)])
        subtasks.output.clear()
        subtasks.process([("-U", "a", 1, 1, 0, 0), ("+U", "a", 1, 5, 0, 0)])
        assert subtasks.output == [
            ("-D", "a", 1, 1, 0, 0, 1),
            ("-U", "a", 2, 2, 0, 0, 3),
            ("+U", "a", 2, 2, 0, 0, 7),
            ("+I", "a", 1, 5, 0, 0, 5),
        ]


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (spec(_ROWTIME, (True, -1, 1), call("COUNT")), "FOLLOWING"),
        (spec(_ROWTIME, (True, None, 0), call("NTILE", 3)), "NTILE Function is not supported in stream mode"),
        (spec(_ROWTIME, (True, None, 0), call("COUNT"), needs_retraction=True), "only inserts"),
    ],
    ids=["following", "rank", "retraction"],
)
def test_windows_that_cannot_run_are_refused(refused: OverAggregateSpec, message: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=message):
        OperatorHarness(refused)
