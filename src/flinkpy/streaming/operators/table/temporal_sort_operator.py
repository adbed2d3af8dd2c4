"""TemporalSortOperator: ORDER BY a time attribute, then by other columns, of a stream.

By event time, rows wait until the watermark passes them. A row is late, and is dropped and counted, if a row of its
time or of a later one has been emitted. By processing time, rows wait until their millisecond is over, and are sorted
by the other columns; without other columns they are in order as they come.

Source: org.apache.flink.table.runtime.operators.sort.{RowTimeSortOperator,ProcTimeSortOperator}.
Differs: Flink loses the rows that wait for the clock when the input ends; here they are emitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.graph.table_specs import TemporalSortSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK, Watermark
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, OperatorStateDescriptor
from flinkpy.streaming.operators.table.late_rows import LateRows
from flinkpy.streaming.operators.table.order_codes import order_codes
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema
from flinkpy.streaming.operators.table.time_columns import event_times

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer

#: The number of a row that is its time in ms.
_TIME = "time"
#: Element: the time of the last row that was emitted.
_LAST_TIME = OperatorStateDescriptor("lastTriggeringTsState")


class TemporalSortOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: TemporalSortSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._time_column = spec.order[0].column
        self._others = spec.order[1:]
        self._clock = context.processing_time_service
        self._late_rows = LateRows(context.metrics)
        self._last_time = MIN_WATERMARK
        self._timer: ScheduledTimer | None = None
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    # -- state -------------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._table = self.backend.row_table("dataState", RowLayout(tuple(self._schema.types), (), ints=(_TIME,)))
        if restored is not None:
            stored = self.operator_state.get_union_list_state(_LAST_TIME).get()
            self._last_time = max(stored, default=MIN_WATERMARK)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        self.operator_state.get_union_list_state(_LAST_TIME).update([self._last_time])
        return super().snapshot_state(checkpoint_id, options)

    def open(self) -> None:
        super().open()
        if self._table.size:
            self._schedule()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if not self._spec.is_event_time and not self._others:
            self.output.emit(batch)
            return
        columns = columns_of(batch, self._input_type)
        if self._spec.is_event_time:
            times = event_times(columns[self._time_column], self._schema.names[self._time_column], self.context)
            columns, times = self._late_rows.without(times <= self._last_time, columns, times)
        else:
            times = np.full(batch.num_rows, self._clock.current_time_ms(), dtype=np.int64)
        if not len(times):
            return
        table = self._table
        table.add(table.slots_of(table.layout.key_columns(columns)), columns, {_TIME: times})
        self._schedule()

    def process_watermark(self, watermark: Watermark) -> None:
        if self._spec.is_event_time:
            self._emit_until(watermark.timestamp)
        super().process_watermark(watermark)

    def _schedule(self) -> None:
        """Lets the clock emit the rows of this millisecond when it is over."""
        if not self._spec.is_event_time and self._timer is None:
            self._timer = self._clock.schedule_after(0, self._on_timer)

    def _on_timer(self, time: int) -> None:
        self._timer = None
        self._emit_until(time)

    def finish(self) -> None:
        if not self._spec.is_event_time:
            self._emit_until(self._clock.current_time_ms())

    def _emit_until(self, time: int) -> None:
        table = self._table
        rows = table.live_rows()
        times = table.ints(_TIME, rows)
        if self._spec.is_event_time:
            is_due = times <= time
            rows, times = rows[is_due], times[is_due]
            keys = [times]
        else:
            # All rows that wait are sorted together.
            keys = []
        if not len(rows):
            return
        if self._others:
            columns = table.take(rows, [field.column for field in self._others])
            keys.insert(0, order_codes(columns, self._others))
        rows = rows[np.lexsort((table.sequence(rows), *keys))]
        emit_columns(self.output, self._schema, table.take(rows), None)
        if self._spec.is_event_time:
            self._last_time = int(times.max())
        table.remove(rows)
