"""ProcessOperator: runs a ProcessFunction on a stream without keys.

Source: org.apache.flink.streaming.api.operators.ProcessOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import OperatorContext, UserFunctionOperator
from flinkpy.streaming.operators.timer_service import UnkeyedTimerService


class ProcessContext:
    """The context that `process_element` gets. One object serves all records."""

    __slots__ = ("_timer_service", "timestamp_ms")

    def __init__(self, timer_service: UnkeyedTimerService) -> None:
        self._timer_service = timer_service
        self.timestamp_ms: int | None = None

    def timer_service(self) -> UnkeyedTimerService:
        return self._timer_service

    def timestamp(self) -> int | None:
        return self.timestamp_ms


class ProcessOperator(UserFunctionOperator):
    def __init__(
        self, function: Any, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, function)
        self._input_type = input_type
        self._timer_service = UnkeyedTimerService(context.processing_time_service)
        self._context = ProcessContext(self._timer_service)
        self._emitter = RowEmitter(output, side)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_type)
        try:
            out, timestamps = process_rows(self.function.process_element, rows, batch.timestamps, self._context)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self._emitter.emit(out, timestamps)

    def process_watermark(self, watermark: Watermark) -> None:
        self._timer_service.watermark = watermark.timestamp
        super().process_watermark(watermark)


def process_rows(
    process: Callable[..., Any], rows: list[Any], timestamps: np.ndarray | None, context: Any
) -> tuple[list[Any], np.ndarray | None]:
    """Calls `process(value, context)` for each row, with `context.timestamp_ms` set to the row's timestamp or None.

    Args:
        process: a generator function, or a function that returns an iterable or None.
        timestamps: int64[n] in milliseconds, or None if the rows have no timestamps.

    Returns:
        All results, and their timestamps: each result has the timestamp of its input row.
    """
    if timestamps is None:
        context.timestamp_ms = None
        return _collect(process, rows, context), None
    return _collect_with_timestamps(process, rows, timestamps, context)


def _collect(process: Callable[..., Any], rows: list[Any], context: Any) -> list[Any]:
    if isgeneratorfunction(process):
        return [result for value in rows for result in process(value, context)]
    out: list[Any] = []
    extend = out.extend
    for value in rows:
        results = process(value, context)
        if results is not None:
            extend(results)
    return out


def _collect_with_timestamps(
    process: Callable[..., Any], rows: list[Any], timestamps: np.ndarray, context: Any
) -> tuple[list[Any], np.ndarray]:
    out: list[Any] = []
    ends: list[int] = []
    for value, timestamp in zip(rows, timestamps.tolist()):
        context.timestamp_ms = timestamp
        results = process(value, context)
        if results is not None:
            out.extend(results)
        ends.append(len(out))
    return out, repeat_timestamps(timestamps, ends)


def repeat_timestamps(timestamps: np.ndarray, ends: list[int]) -> np.ndarray:
    """Returns one timestamp per result: that of its input record. `ends[i]` is the number of results after record i."""
    ends_after = np.array(ends, dtype=np.int64)
    counts = ends_after.copy()
    counts[1:] -= ends_after[:-1]
    return np.repeat(timestamps, counts)
