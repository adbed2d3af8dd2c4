"""ExpandOperator, ReplicateRowsOperator, WindowTableFunctionOperator: emit each row several times, without state.

Source: org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecExpand,
org.apache.flink.table.runtime.functions.table.ReplicateRowsFunction,
org.apache.flink.table.runtime.operators.window.tvf.operator.AlignedWindowTableFunctionOperator.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import ExpandSpec, ReplicateRowsSpec, WindowTableFunctionSpec
from flinkpy.records.batch import Batch
from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.changelog import fitted
from flinkpy.streaming.operators.table.table_inputs import MAX_ROWS
from flinkpy.streaming.operators.table.time_columns import ZoneShift, event_times, timestamps


class ExpandOperator(StreamOperator):
    """Emits each row once per projection, one after the other. Thread: task thread."""

    def __init__(
        self,
        spec: ExpandSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._projections = [compile_expressions(list(nodes), spec.settings) for nodes in spec.projections]
        self._schema = schema_of(cast(Any, spec.output_type).row_type)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        parts = [projection.evaluate(columns) for projection in self._projections]
        num_parts, num_rows = len(parts), batch.num_rows
        # Row after row: the results of the first projection are at 0, those of the second at n, ...
        order = (np.arange(num_rows)[:, None] + np.arange(num_parts) * num_rows).ravel()
        indices = pa.array(order)
        arrays = [
            pa.concat_arrays([fitted(part[position], field.type) for part in parts]).take(indices)
            for position, field in enumerate(self._schema)
        ]
        kinds = None if batch.kinds is None else np.repeat(batch.kinds, num_parts)
        self.output.emit(Batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), None, kinds))


class ReplicateRowsOperator(StreamOperator):
    """Emits each row without its first column as often as that column says. Thread: task thread."""

    def __init__(
        self,
        spec: ReplicateRowsSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._schema = schema_of(cast(Any, spec.output_type).row_type)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        counts = columns.column(0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(counts)
        first = 0
        # A batch holds at most MAX_ROWS rows, but a single row may be repeated more often.
        while first < len(counts):
            done = 0 if first == 0 else ends[first - 1]
            last = max(int(np.searchsorted(ends, done + MAX_ROWS, side="right")), first + 1)
            self._emit(batch, columns, np.repeat(np.arange(first, last), counts[first:last]))
            first = last

    def _emit(self, batch: Batch, columns: pa.RecordBatch, rows: np.ndarray) -> None:
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
            arrays = [column.take(pa.array(part)) for column in columns.columns[1:]]
            kinds = None if batch.kinds is None else batch.kinds.take(part)
            self.output.emit(Batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), None, kinds))


class WindowTableFunctionOperator(StreamOperator):
    """Appends the bounds of the row's windows: window_start, window_end and window_time. Thread: task thread."""

    def __init__(
        self,
        spec: WindowTableFunctionSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        if spec.window.kind not in ("TUMBLE", "HOP", "CUMULATE"):
            raise UnsupportedOperationError(
                f"operator {context.name}: {spec.window.kind} is no window function that assigns windows to single rows"
            )
        self._window = spec.window
        self._schema = schema_of(cast(Any, spec.output_type).row_type)
        self._clock = context.processing_time_service
        self._shift = ZoneShift.of(spec.window, spec.settings)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns, window = batch.values, self._window
        assert isinstance(columns, pa.RecordBatch)
        shift = self._shift
        times = shift.to_local(self._times(columns))
        rows, starts, ends = window_bounds(times, window.kind, window.size_ms, window.slide_ms, window.offset_ms)
        indices = None if len(rows) == batch.num_rows and window.kind == "TUMBLE" else pa.array(rows)
        arrays = [column if indices is None else column.take(indices) for column in columns.columns]
        kinds_of_time = [self._schema.field(len(arrays) + number).type for number in range(3)]
        last = ends - 1
        arrays += [
            timestamps(starts, kinds_of_time[0]),
            timestamps(ends, kinds_of_time[1]),
            timestamps(shift.to_utc(last) if kinds_of_time[2].tz else last, kinds_of_time[2]),
        ]
        kinds = batch.kinds if batch.kinds is None else batch.kinds.take(rows)
        self.output.emit(Batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), None, kinds))

    def _times(self, columns: pa.RecordBatch) -> np.ndarray:
        window = self._window
        if not window.is_event_time:
            return np.full(columns.num_rows, self._clock.current_time_ms(), dtype=np.int64)
        assert window.time_column is not None
        name = columns.schema.names[window.time_column]
        return event_times(columns.column(window.time_column), name, self.context)


def window_bounds(
    times: np.ndarray, kind: str, size: int, slide: int, offset: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the windows of rows: the row, the first ms, and the first ms after each window.

    The windows of a row follow each other: those of HOP from the last to the first, those of CUMULATE from the
    smallest to the largest.
    """
    rows = np.arange(len(times))
    if kind == "TUMBLE":
        starts = times - (times - offset) % size
        return rows, starts, starts + size
    if kind == "HOP":
        last = times - (times - offset) % slide
        counts = (last - (times - size) + slide - 1) // slide
        every = np.repeat(rows, counts)
        back = np.arange(len(every)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = last.take(every) - back * slide
        return every, starts, starts + size
    start = times - (times - offset) % size
    first = (times - start) // slide + 1
    counts = size // slide - first + 1
    every = np.repeat(rows, counts)
    more = np.arange(len(every)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = start.take(every)
    return every, starts, starts + (first.take(every) + more) * slide
