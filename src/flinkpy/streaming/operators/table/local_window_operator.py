"""LocalWindowAggregateOperator: the first phase of a window aggregate, before the exchange.

It aggregates rows by grouping columns and slice, and emits accumulators before the watermark that ends their slice,
before barriers, and when it holds too many. So it has no state.

Source: org.apache.flink.table.runtime.operators.aggregate.window.LocalSlicingWindowAggOperator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import LocalWindowAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.state.key_slots import KeySlots
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.time_columns import ZoneShift, event_times, milliseconds
from flinkpy.streaming.operators.table.window_inputs import TableWindowInputs, accumulator_columns
from flinkpy.streaming.operators.table.window_panes import AttachedPanes, panes_of

#: The number of accumulators at which they are emitted.
_MAX_ENTRIES = 1 << 17
SLICE_END = "$slice_end"


class LocalWindowAggregateOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: LocalWindowAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        schema = schema_of(input_type.row_type)
        self._window = spec.window
        self._panes = panes_of(spec.window)
        self._inputs = TableWindowInputs(schema, spec.grouping, spec.aggregates, False, context.name)
        self._has_keys = bool(spec.grouping)
        self._names = [schema.names[position] for position in spec.grouping]
        self._shift = ZoneShift.of(spec.window, spec.settings)
        self._begin()

    def _begin(self) -> None:
        self._keys = KeySlots([*self._inputs.key_types, pa.int64()])
        self._accumulators: list[Any] = [each.create_accumulator() for each in self._inputs.aggregates]
        self._first_end = MAX_WATERMARK

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        ends = self._slice_ends(columns)
        slots = self._keys.slots_of([*self._inputs.key_columns(columns), pa.array(ends)])
        for accumulator, values in zip(self._accumulators, self._inputs.value_columns(columns), strict=True):
            accumulator.grow(self._keys.size)
            accumulator.add(slots, values)
        self._first_end = min(self._first_end, int(ends.min()))
        if self._keys.size >= _MAX_ENTRIES:
            self._emit()

    def _slice_ends(self, columns: pa.RecordBatch) -> np.ndarray:
        window, panes = self._window, self._panes
        if isinstance(panes, AttachedPanes):
            assert window.end_column is not None
            return milliseconds(columns.column(window.end_column))
        assert window.time_column is not None
        name = columns.schema.names[window.time_column]
        times = event_times(columns.column(window.time_column), name, self.context)
        ends: np.ndarray = panes.end_of_pane(panes.pane_at(self._shift.to_local(times)))
        return ends

    def process_watermark(self, watermark: Watermark) -> None:
        if self._first_end - 1 <= self._shift.local_progress(watermark.timestamp):
            self._emit()
        super().process_watermark(watermark)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._emit()

    def finish(self) -> None:
        self._emit()

    def _emit(self) -> None:
        size = self._keys.size
        if not size:
            return
        *keys, ends = self._keys.keys()
        columns = [*accumulator_columns(keys if self._has_keys else [], self._accumulators, size), ends]
        numbers = range(len(columns) - len(self._names) - 1)
        names = [*self._names, *(f"${number}" for number in numbers), SLICE_END]
        self._begin()
        self.output.emit(Batch(pa.RecordBatch.from_arrays(columns, names=names)))
