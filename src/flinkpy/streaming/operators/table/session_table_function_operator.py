"""SessionTableFunctionOperator: SESSION in FROM without an aggregate: each row gets the bounds of its session.

Rows wait until their session is over, because later rows may extend it. A row is late, and is dropped and counted, if
the session that it would begin is over and it extends none that is not.

Source: org.apache.flink.table.runtime.operators.window.tvf.operator.UnalignedWindowTableFunctionOperator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import SessionTableFunctionSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot
from flinkpy.streaming.operators.table.late_rows import LateRows
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns
from flinkpy.streaming.operators.table.time_columns import ZoneShift, event_times
from flinkpy.streaming.operators.table.window_progress import WindowProgress
from flinkpy.streaming.operators.table.window_properties import property_column

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer

#: The number of a row that is its time in ms, in the time of the windows.
_TIME = "time"
_NO_END = np.iinfo(np.int64).max


class SessionTableFunctionOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: SessionTableFunctionSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._schema: pa.Schema = schema_of(input_type.row_type)
        self._output_schema: pa.Schema = schema_of(cast(Any, spec.output_type).row_type)
        self._gap = spec.window.size_ms
        self._clock = context.processing_time_service
        self._shift = ZoneShift.of(spec.window, spec.settings)
        self._late_rows = LateRows(context.metrics)
        self._progress = WindowProgress()
        #: No session ends before this time.
        self._first_end = _NO_END
        self._timer: ScheduledTimer | None = None
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    # -- state -------------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        layout = RowLayout(tuple(self._schema.types), self._spec.window.partition, ints=(_TIME,))
        self._table = self.backend.row_table("window-rows", layout)
        times = self._table.ints(_TIME, self._table.live_rows())
        self._first_end = int(times.min()) + self._gap if len(times) else _NO_END
        if restored is not None:
            self._progress.restore(self.operator_state)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        self._progress.store(self.operator_state)
        return super().snapshot_state(checkpoint_id, options)

    def open(self) -> None:
        super().open()
        self._schedule()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        times = self._row_times(columns, batch.num_rows)
        table = self._table
        slots = table.slots_of(table.layout.key_columns(columns))
        is_late = self._late(slots, times)
        columns, times = self._late_rows.without(is_late, columns, times)
        kept = slots[~is_late]
        if len(kept):
            table.add(kept, columns, {_TIME: times})
            self._first_end = min(self._first_end, int(times.min()) + self._gap)
            self._schedule()
        table.forget_empty(slots[is_late])

    def _row_times(self, columns: list[pa.Array], num_rows: int) -> np.ndarray:
        window = self._spec.window
        if not window.is_event_time:
            now = int(self._shift.to_local(np.array([self._clock.current_time_ms()]))[0])
            return np.full(num_rows, max(now, self._progress.ended_until + 1), dtype=np.int64)
        assert window.time_column is not None
        name = self._schema.names[window.time_column]
        return self._shift.to_local(event_times(columns[window.time_column], name, self.context))

    def _late(self, slots: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for late rows. Few rows come so late that their key's sessions must be looked at."""
        ended_until = self._progress.ended_until
        is_late = times + self._gap - 1 <= ended_until
        for row in np.flatnonzero(is_late).tolist():
            _, waiting = self._table.rows_of(slots[row : row + 1])
            before = np.flatnonzero((slots[:row] == slots[row]) & ~is_late[:row])
            known = np.sort(np.concatenate([self._table.ints(_TIME, waiting), times[before]]))
            if not len(known):
                continue
            breaks = np.flatnonzero(np.diff(known) > self._gap)
            starts, ends = known[np.append(0, breaks + 1)], known[np.append(breaks, len(known) - 1)] + self._gap
            extends = (starts <= times[row] + self._gap) & (times[row] <= ends) & (ends - 1 > ended_until)
            is_late[row] = not extends.any()
        return is_late

    def process_watermark(self, watermark: Watermark) -> None:
        if self._spec.window.is_event_time:
            self._end_sessions(self._shift.local_progress(watermark.timestamp))
        super().process_watermark(watermark)

    def _schedule(self) -> None:
        """Lets the clock end the next session, in processing time."""
        if self._spec.window.is_event_time or self._first_end == _NO_END:
            return
        time = int(self._shift.to_utc(np.array([self._first_end - 1]))[0])
        if self._timer is not None:
            if self._timer.timestamp_ms <= time:
                return
            self._timer.cancel()
        self._timer = self._clock.register_timer(time, self._on_timer)

    def _on_timer(self, time: int) -> None:
        self._timer = None
        self._end_sessions(self._shift.local_progress(time))
        self._schedule()

    def _end_sessions(self, time: int) -> None:
        """Emits the rows of the sessions whose last ms is at or before `time`."""
        self._progress.ended_until = max(self._progress.ended_until, time)
        if self._first_end - 1 > time:
            return
        table = self._table
        rows = table.live_rows()
        times, slots = table.ints(_TIME, rows), table.slots_of_rows(rows)
        order = np.lexsort((times, slots))
        rows, times, slots = rows[order], times[order], slots[order]
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = (slots[1:] != slots[:-1]) | (times[1:] - times[:-1] > self._gap)
        firsts = np.flatnonzero(begins)
        session = np.cumsum(begins) - 1
        starts = times[firsts]
        ends = times[np.append(firsts[1:], len(rows)) - 1] + self._gap if len(rows) else starts
        is_due = ends - 1 <= time
        self._first_end = int(ends[~is_due].min()) if not is_due.all() else _NO_END
        due = np.flatnonzero(is_due[session]) if len(rows) else session
        if not len(due):
            return
        # Sessions leave in the order of their ends, and their rows in the order in which they came.
        due = due[np.lexsort((table.sequence(rows[due]), session[due], ends[session[due]]))]
        columns = table.take(rows[due])
        bounds = starts[session[due]], ends[session[due]]
        for name in ("window_start", "window_end", "window_time"):
            kind = self._output_schema.field(len(columns)).type
            columns.append(property_column(name, *bounds, kind, self._shift, self._clock))
        emit_columns(self.output, self._output_schema, columns, None)
        table.remove(rows[due])
