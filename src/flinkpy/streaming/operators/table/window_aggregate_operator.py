"""The operators of aggregates over windows: of window table-valued functions, and of legacy group windows.

Each row is aggregated once, into its slice of time. Windows merge the slices that they share. A row is late, and is
dropped and counted, if the last of its windows has ended.

Windows of a TIMESTAMP_LTZ column or of processing time are cut in the time of the session's zone, and their bounds are
TIMESTAMP values of that zone.

Source: org.apache.flink.table.runtime.operators.aggregate.window.SlicingWindowOperator,
org.apache.flink.table.runtime.operators.window.groupwindow.operator.AggregateWindowOperator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph import operator_specs
from flinkpy.graph.table_specs import (
    GlobalWindowAggregateSpec,
    GroupWindowAggregateSpec,
    WindowAggregateSpec,
    WindowSlices,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.aggregate_handler import UserAggregates, weights_of
from flinkpy.streaming.operators.table.changelog import fitted
from flinkpy.streaming.operators.table.emitting_window_operator import EmittingWindowOperator
from flinkpy.streaming.operators.table.late_rows import LateRows
from flinkpy.streaming.operators.table.time_columns import ZoneShift, event_times, milliseconds
from flinkpy.streaming.operators.table.window_inputs import WEIGHTS, AccumulatorInputs, TableWindowInputs
from flinkpy.streaming.operators.table.window_panes import panes_of
from flinkpy.streaming.operators.table.window_properties import property_column
from flinkpy.streaming.operators.windowing_columns.column_window_operator import ColumnWindowOperator
from flinkpy.streaming.operators.windowing_columns.pane_window_operator import PaneWindowOperator
from flinkpy.streaming.operators.windowing_columns.panes import Panes
from flinkpy.streaming.operators.windowing_columns.session_window_operator import SessionWindowOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

WindowSpec = WindowAggregateSpec | GlobalWindowAggregateSpec | GroupWindowAggregateSpec


def create_window_aggregate_operator(
    spec: WindowSpec, input_type: Any, context: OperatorContext, output: Output, side_outputs: dict[str, Output]
) -> StreamOperator:
    """Creates the operator. Raises: UnsupportedOperationError for windows that this release cannot run."""
    if isinstance(spec, GroupWindowAggregateSpec) and (spec.emit_early_ms is not None or spec.emit_late_ms is not None):
        return EmittingWindowOperator(spec, input_type, context, output, side_outputs)
    if spec.window.kind == "SESSION" and spec.window.end_column is None:
        return TableSessionWindowOperator(spec, input_type, context, output, side_outputs)
    return TablePaneWindowOperator(spec, input_type, context, output, side_outputs)


def _column_spec(spec: WindowSpec) -> operator_specs.WindowAggregateSpec:
    """Returns the spec of the windows for the base classes. Its aggregates are not used."""
    window = spec.window
    return operator_specs.WindowAggregateSpec(
        spec.key_selector,
        key_type=spec.key_type,
        aggregates=(),
        size_ms=window.size_ms,
        slide_ms=window.slide_ms or window.size_ms,
        offset_ms=window.offset_ms,
        gap_ms=window.size_ms if window.kind == "SESSION" and window.end_column is None else None,
        is_event_time=window.is_event_time,
    )


class _TableWindowOperator(ColumnWindowOperator):
    """The base class of operators of windows: the columns of the input and the output, and time zones."""

    def _prepare(self, spec: WindowSpec, input_type: Any) -> None:
        self._table_spec = spec
        self._schema: pa.Schema = schema_of(input_type.row_type)
        self._output_schema: pa.Schema = schema_of(cast(Any, spec.output_type).row_type)
        self._window: WindowSlices = spec.window
        self._has_changes = not isinstance(spec, GlobalWindowAggregateSpec) and spec.needs_retraction
        self._shift = ZoneShift.of(spec.window, spec.settings)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        self.function = UserAggregates(self._table_spec.aggregates)
        super().initialize_state(restored)
        self._late_rows = LateRows(self.context.metrics)
        if self.inputs is None:
            self._set_up(self._schema)

    def _set_up(self, schema: pa.Schema) -> Any:
        spec = self._table_spec
        inputs: TableWindowInputs
        if isinstance(spec, GlobalWindowAggregateSpec):
            inputs = AccumulatorInputs(
                schema_of(spec.local_input_type.row_type),
                schema,
                len(spec.grouping),
                spec.aggregates,
                self.context.name,
            )
        else:
            inputs = TableWindowInputs(schema, spec.grouping, spec.aggregates, self._has_changes, self.context.name)
        self.create_table(inputs.key_types, inputs.aggregates)
        self.inputs = inputs
        return inputs

    # -- data ----------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        times = self._row_times(columns)
        if self._has_changes:
            weights = weights_of(batch.kinds)
            if weights is None:
                weights = np.ones(batch.num_rows, dtype=np.int8)
            columns = columns.append_column(WEIGHTS, pa.array(weights))
        self.add(Batch(columns, times), self.inputs.key_columns(columns), self.inputs.value_columns(columns))
        if not self.spec.is_event_time:
            self._set_timer()

    def late(self, batch: Batch, rows: np.ndarray) -> None:
        self._late_rows.drop(int(rows.sum()))

    def _row_times(self, columns: pa.RecordBatch) -> np.ndarray:
        """Returns the time of each row in the zone of the windows. A row with a window has its last ms."""
        window = self._window
        if isinstance(self._table_spec, GlobalWindowAggregateSpec):
            ends: np.ndarray = columns.column(columns.num_columns - 1).to_numpy()
            return ends - 1
        if window.time_column is None and window.end_column is not None:
            return milliseconds(columns.column(window.end_column)) - 1
        if not window.is_event_time:
            now = self._shift.to_local(np.array([self._clock.current_time_ms()]))[0]
            # The clock may have been set back. Windows that have fired are over nevertheless.
            return np.full(columns.num_rows, max(int(now), self.fired_until + 1), dtype=np.int64)
        assert window.time_column is not None
        name = columns.schema.names[window.time_column]
        times = event_times(columns.column(window.time_column), name, self.context)
        return self._shift.to_local(times)

    def process_watermark(self, watermark: Watermark) -> None:
        if self.spec.is_event_time:
            self._fire_until(self._shift.local_progress(watermark.timestamp))
        StreamOperator.process_watermark(self, watermark)

    def _set_timer(self) -> None:
        end = self.next_end()
        if end is None:
            return
        end = int(self._shift.to_utc(np.array([end]))[0])
        if self._timer is not None and self._timer.timestamp_ms <= end:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.register_timer(end, self._on_timer)

    def _on_timer(self, time: int) -> None:
        self._timer = None
        self._fire_until(self._shift.local_progress(time))
        self._set_timer()

    # -- results -------------------------------------------------------------------------------------------------

    def emit(
        self, key_columns: list[pa.Array], starts: np.ndarray, ends: np.ndarray, results: list[pa.Array], again: bool
    ) -> None:
        count = self.inputs.count
        if count is not None:
            # All rows of such a window have been taken back.
            rows = np.flatnonzero(results[count].to_numpy() != 0)
            if len(rows) < len(ends):
                indices = pa.array(rows)
                key_columns = [column.take(indices) for column in key_columns]
                results = [column.take(indices) for column in results]
                starts, ends = starts.take(rows), ends.take(rows)
        if len(ends):
            super().emit(key_columns, starts, ends, results, again)

    def result_batch(
        self, key_columns: list[pa.Array], starts: np.ndarray, ends: np.ndarray, results: list[pa.Array]
    ) -> Batch:
        spec, schema = self._table_spec, self._output_schema
        columns = key_columns if spec.grouping else []
        columns = [*columns, *results[: len(spec.aggregates)]]
        for name in spec.properties:
            kind = schema.field(len(columns)).type
            columns.append(property_column(name, starts, ends, kind, self._shift, self._clock))
        columns = [fitted(column, field.type) for column, field in zip(columns, schema, strict=True)]
        if not columns:
            raise UnsupportedOperationError(f"operator {self.context.name}: its output has no columns")
        return Batch(pa.RecordBatch.from_arrays(columns, schema=schema))


class TablePaneWindowOperator(_TableWindowOperator, PaneWindowOperator):
    """Runs TUMBLE, HOP and CUMULATE. Thread: task thread."""

    def __init__(
        self,
        spec: WindowSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        self._prepare(spec, input_type)
        PaneWindowOperator.__init__(self, _column_spec(spec), input_type, context, output, side_outputs)

    def create_panes(self) -> Panes:
        return panes_of(self._window)


class TableSessionWindowOperator(_TableWindowOperator, SessionWindowOperator):
    """Runs SESSION. Thread: task thread."""

    def __init__(
        self,
        spec: WindowSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        self._prepare(spec, input_type)
        SessionWindowOperator.__init__(self, _column_spec(spec), input_type, context, output, side_outputs)
