"""Watermarks of tables, and the operators that emit a row several times."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from changelogs import to_batch, to_changes, type_info
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import FunctionError
from flinkpy.graph.table_specs import (
    ExpandSpec,
    ReplicateRowsSpec,
    WatermarkAssignerSpec,
    WindowSlices,
    WindowTableFunctionSpec,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark, WatermarkStatus
from flinkpy.sql.rex import InputRef, Literal, RexCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.streaming.operators.table import expand_operators

_TIME = lt.TimestampType(precision=3)
_INPUT = type_info(time=_TIME, number=lt.BigIntType())


def at(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)


def assigner(**more: Any) -> OperatorHarness:
    spec = WatermarkAssignerSpec(0, InputRef(_TIME, 0), input_types=(_INPUT,), output_type=_INPUT, **more)
    return OperatorHarness(spec)


def feed(harness: OperatorHarness, *times: int | None) -> None:
    changes = [("+I", None if time is None else at(time), 1) for time in times]
    harness.operator.process_batch(to_batch(changes, _INPUT))


def shown(harness: OperatorHarness) -> list[Any]:
    """Returns the numbers of rows of batches, and the elements."""
    return [item.num_rows if isinstance(item, Batch) else item for item in harness.output.items]


def test_watermarks_are_emitted_periodically_or_when_event_time_jumps() -> None:
    harness = assigner()
    feed(harness, 5, 3)
    feed(harness, 100)
    harness.advance(200)
    harness.advance(200)
    feed(harness, 1_000)
    assert shown(harness) == [2, Watermark(5), 1, Watermark(100), 1, Watermark(1_000)]


def test_watermarks_on_events_follow_the_rows_that_advance_time() -> None:
    harness = assigner(emit_on_event=True)
    feed(harness, 5, 3, 7, 7)
    assert shown(harness) == [1, Watermark(5), 2, Watermark(7), 1]


def test_a_silent_input_becomes_idle_and_the_next_row_active() -> None:
    harness = assigner(idle_timeout_ms=500)
    feed(harness, 5)
    harness.advance(200)
    harness.advance(400)
    feed(harness, 6)
    assert shown(harness)[-3:] == [WatermarkStatus(is_idle=True), WatermarkStatus(is_idle=False), 1]


def test_only_the_last_watermark_of_the_input_passes() -> None:
    harness = assigner()
    harness.watermark(50)
    harness.watermark(MAX_WATERMARK)
    assert shown(harness) == [Watermark(MAX_WATERMARK)]


def test_a_row_without_event_time_fails() -> None:
    with pytest.raises(FunctionError, match="rowtime column 'time' is NULL"):
        feed(assigner(), 5, None)


def test_expand_emits_each_row_once_per_projection() -> None:
    number = InputRef(lt.BigIntType(), 1)
    output = type_info(number=lt.BigIntType(), which=lt.IntType())
    projections = (
        (number, Literal(lt.IntType(), 1)),
        (RexCall(lt.BigIntType(), "CAST", (Literal(lt.BigIntType(), None),)), Literal(lt.IntType(), 2)),
    )
    harness = OperatorHarness(ExpandSpec(projections, input_types=(_INPUT,), output_type=output))
    harness.operator.process_batch(to_batch([("+I", at(0), 7), ("-D", at(0), 8)], _INPUT))
    (batch,) = harness.output.items
    assert to_changes(batch) == [("+I", 7, 1), ("+I", None, 2), ("-D", 8, 1), ("-D", None, 2)]


def test_replicate_rows_repeats_each_row_with_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand_operators, "MAX_ROWS", 3)
    rows, output = type_info(count=lt.BigIntType(), name=lt.VarCharType()), type_info(name=lt.VarCharType())
    harness = OperatorHarness(ReplicateRowsSpec(input_types=(rows,), output_type=output))
    harness.operator.process_batch(to_batch([("+I", 2, "a"), ("-U", 1, "b"), ("+U", 4, "b"), ("-D", 1, "c")], rows))
    changes = [change for batch in harness.output.items for change in to_changes(batch)]
    assert changes == [("+I", "a")] * 2 + [("-U", "b")] + [("+U", "b")] * 4 + [("-D", "c")]


@pytest.mark.parametrize(
    ("window", "bounds"),
    [
        (WindowSlices("TUMBLE", 10, time_column=0), [(10, 20)]),
        (WindowSlices("HOP", 10, 5, time_column=0), [(10, 20), (5, 15)]),
        (WindowSlices("HOP", 10, 5, offset_ms=1, time_column=0), [(11, 21), (6, 16)]),
        (WindowSlices("CUMULATE", 15, 5, time_column=0), [(0, 15)]),
        (WindowSlices("CUMULATE", 20, 5, time_column=0), [(0, 15), (0, 20)]),
    ],
    ids=str,
)
def test_window_functions_append_the_bounds_of_all_windows(window: WindowSlices, bounds: list[Any]) -> None:
    output = type_info(time=_TIME, number=lt.BigIntType(), start=_TIME, end=_TIME, last=_TIME)
    harness = OperatorHarness(WindowTableFunctionSpec(window, input_types=(_INPUT,), output_type=output))
    harness.operator.process_batch(to_batch([("+I", at(12), 7)], _INPUT))
    (batch,) = harness.output.items
    assert to_changes(batch) == [("+I", at(12), 7, at(start), at(end), at(end - 1)) for start, end in bounds]
