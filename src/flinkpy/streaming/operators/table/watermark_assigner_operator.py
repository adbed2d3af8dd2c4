"""WatermarkAssignerOperator: emits watermarks from the WATERMARK expression of a table.

Source: org.apache.flink.table.runtime.operators.wmassigners.WatermarkAssignerOperator.
Differs: with periodic watermarks Flink also emits one in the middle of the input, when event time has advanced by more
than the interval. Here it follows the batch. With on-event watermarks both emit after each row that advances event
time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import FunctionError
from flinkpy.configuration import read_option
from flinkpy.configuration.pipeline_options import AUTO_WATERMARK_INTERVAL
from flinkpy.graph.table_specs import WatermarkAssignerSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Element, Watermark, WatermarkStatus
from flinkpy.sql.functions import compile_expressions
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.time_columns import NO_TIME, milliseconds


class WatermarkAssignerOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: WatermarkAssignerSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._clock = context.processing_time_service
        self._interval_ms = read_option(context.environment.configuration, AUTO_WATERMARK_INTERVAL)
        self._expression = compile_expressions([spec.watermark], spec.settings)
        self._current = MIN_WATERMARK
        self._last_emitted = MIN_WATERMARK
        self._last_active_ns = 0
        self._is_idle = False

    def open(self) -> None:
        super().open()
        self._last_active_ns = self._clock.active_time_ns()
        interval_ms = self._interval_ms or self._spec.idle_timeout_ms
        if interval_ms > 0:
            self._clock.schedule_after(interval_ms, self._on_interval)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        if columns.column(self._spec.rowtime_column).null_count:
            name = columns.schema.names[self._spec.rowtime_column]
            raise FunctionError(
                f"{self.context.environment.task_name}, operator {self.context.name}: the rowtime column {name!r} is "
                "NULL in a row; event time needs a value: filter such rows, or replace NULL in the column's expression"
            )
        self._activate()
        watermarks = milliseconds(self._expression.evaluate(columns)[0])
        if self._spec.emit_on_event:
            self._emit_with_watermarks(batch, watermarks)
        else:
            self.output.emit(batch)
            self._current = max(self._current, int(watermarks.max()))
            if self._interval_ms <= 0 or self._has_passed_interval:
                self._advance()
        if self._spec.idle_timeout_ms:
            self._last_active_ns = self._clock.active_time_ns()

    @property
    def _has_passed_interval(self) -> bool:
        return self._current - self._last_emitted > self._interval_ms

    def _emit_with_watermarks(self, batch: Batch, watermarks: np.ndarray) -> None:
        """Emits a watermark after each row that advances event time."""
        latest = np.maximum.accumulate(np.maximum(watermarks, self._current))
        advances = np.flatnonzero(latest > np.append(max(self._current, NO_TIME), latest[:-1]))
        start = 0
        for row in advances.tolist():
            self.output.emit(batch.slice(start, row + 1 - start))
            start = row + 1
            self._current = int(latest[row])
            self._advance()
        if start < batch.num_rows:
            self.output.emit(batch.slice(start, batch.num_rows - start))

    def _advance(self) -> None:
        if self._current > self._last_emitted:
            self._last_emitted = self._current
            self.emit_to_all(Watermark(self._current))

    def _on_interval(self, _: int) -> None:
        self._advance()
        timeout_ms = self._spec.idle_timeout_ms
        if timeout_ms and not self._is_idle:
            silent_ns = self._clock.active_time_ns() - self._last_active_ns
            if silent_ns >= timeout_ms * 1_000_000:
                self._is_idle = True
                self.emit_to_all(WatermarkStatus(is_idle=True))
        self._clock.schedule_after(self._interval_ms or timeout_ms, self._on_interval)

    def _activate(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self.emit_to_all(WatermarkStatus(is_idle=False))

    def process_element(self, element: Element) -> None:
        # The idleness of the input says nothing about the watermarks that are assigned here.
        if not isinstance(element, WatermarkStatus):
            super().process_element(element)

    def process_watermark(self, watermark: Watermark) -> None:
        """Drops the watermarks of the input, except the one that ends event time."""
        if watermark.timestamp == MAX_WATERMARK and self._current != MAX_WATERMARK:
            self._activate()
            self._current = MAX_WATERMARK
            self._advance()

    def finish(self) -> None:
        self._advance()
