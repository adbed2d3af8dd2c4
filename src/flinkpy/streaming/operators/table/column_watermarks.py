"""ColumnWatermarks: makes the watermarks of one split of a table's source from an expression over its columns.

Source: org.apache.flink.table.planner.codegen.WatermarkGeneratorCodeGenerator,
org.apache.flink.table.runtime.generated.GeneratedWatermarkGeneratorSupplier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flinkpy.common.watermark_strategy import Watermark, WatermarkOutput
from flinkpy.graph.table_specs import SourceWatermarks
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.sql.functions import compile_expressions
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.time_columns import event_times, milliseconds


class ColumnWatermarks:
    """Thread: task thread."""

    #: As in `BatchGenerator`: it sees batches only.
    on_event: Callable[[Any, int, WatermarkOutput], None] | None = None

    def __init__(self, watermarks: SourceWatermarks, context: OperatorContext) -> None:
        self._rowtime = watermarks.rowtime_column
        self._expression = compile_expressions([watermarks.watermark], watermarks.settings)
        self._context = context
        self._current = MIN_WATERMARK

    def on_batch(self, batch: Batch) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        # A NULL fails the task as it does in a WatermarkAssigner.
        event_times(columns.column(self._rowtime), columns.schema.names[self._rowtime], self._context)
        newest = int(milliseconds(self._expression.evaluate(columns)[0]).max())
        self._current = max(self._current, newest)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._current > MIN_WATERMARK:
            output.emit_watermark(Watermark(self._current))
