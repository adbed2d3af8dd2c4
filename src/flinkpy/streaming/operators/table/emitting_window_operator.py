"""EmittingWindowOperator: group windows that send results before they end, and again for late rows.

A window of a key has three phases. Its emit strategy says when results are sent in the first and the last one.

| phase | from | results are sent |
|---|---|---|
| early | its first row | at intervals of `table.exec.emit.early-fire.delay` from the first row; with 0 for each row |
| on time | the watermark, or the clock, passes its end | once, if they have changed |
| late | then, by event time, while `table.exec.emit.allow-lateness` lasts | as early, by the late-fire delay |

A GroupTable has the accumulators of each key and window. A RowTable has a row for each of them, by which the operator
finds the windows that are due, and their last results, if results are sent at intervals.

Source: org.apache.flink.table.runtime.operators.window.groupwindow.operator.AggregateWindowOperator,
org.apache.flink.table.runtime.operators.window.groupwindow.triggers.{EventTimeTriggers,ProcessingTimeTriggers}.
Differs: after a recovery, intervals begin anew. Results that wait for the end of an interval when no more rows are
allowed are sent; Flink loses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import GroupAggregateSpec, GroupWindowAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types.arrow import row_type_of, schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.state.row_groups import RowGroups
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    OperatorSnapshot,
    StreamOperator,
)
from flinkpy.streaming.operators.table.aggregate_handler import weights_of
from flinkpy.streaming.operators.table.changelog import fitted, keyed_changelog
from flinkpy.streaming.operators.table.expand_operators import window_bounds
from flinkpy.streaming.operators.table.group_aggregate_operator import GroupAggregateOperator
from flinkpy.streaming.operators.table.late_rows import LateRows
from flinkpy.streaming.operators.table.table_inputs import MAX_ROWS
from flinkpy.streaming.operators.table.time_columns import ZoneShift, event_times
from flinkpy.streaming.operators.table.window_progress import WindowProgress
from flinkpy.streaming.operators.table.window_properties import property_column

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer

#: The numbers of a window of a key: 1 if its results have been sent; 1 if its results may have changed since; when its
#: results are sent next, in ms of the clock.
_IS_SENT, _IS_CHANGED, _NEXT_SEND = "is_sent", "is_changed", "next_send"
_NEVER = -1
#: The hidden column with the start of a row's window, the last one of the key.
_START = "$window_start"


class EmittingWindowOperator(GroupAggregateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: GroupWindowAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        self._window_spec = spec
        schema = schema_of(input_type.row_type).append(pa.field(_START, pa.int64()))
        groups = GroupAggregateSpec(
            spec.key_selector,
            (*spec.grouping, len(schema) - 1),
            spec.aggregates,
            spec.needs_retraction,
            spec.generate_update_before,
            key_type=spec.key_type,
            input_types=spec.input_types,
            output_type=spec.output_type,
        )
        with_start = InternalTypeInfo(row_type_of(schema))
        super().__init__(groups, with_start, context, output, side_outputs)
        self._rows_type = input_type
        self._clock = context.processing_time_service
        self._shift = ZoneShift.of(spec.window, spec.settings)
        self._early_ms, self._late_ms = spec.emit_early_ms, spec.emit_late_ms
        self._lateness_ms = spec.allow_lateness_ms if spec.window.is_event_time else 0
        #: True if results are compared with the last ones that were sent.
        self._keeps_results = bool(self._early_ms or self._late_ms)
        num_keys = len(spec.grouping)
        fields = list(self._output_schema)
        self._key_fields = fields[:num_keys]
        self._result_fields = fields[num_keys : num_keys + len(spec.aggregates)]
        self._property_fields = fields[num_keys + len(spec.aggregates) :]
        self._changelog_schema = pa.schema([*self._key_fields, *self._property_fields, *self._result_fields])
        self._late_rows = LateRows(context.metrics)
        self._progress = WindowProgress()
        self._timer: ScheduledTimer | None = None
        self._windows: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._window_spec.key_selector, self.key_type, self._rows_type

    # -- state -------------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        num_keys = len(self._key_fields)
        types = [*(field.type for field in self._key_fields), pa.int64()]
        if self._keeps_results:
            types += [field.type for field in self._result_fields]
        ints = (_IS_SENT, _IS_CHANGED, _NEXT_SEND)
        layout = RowLayout(tuple(types), tuple(range(num_keys)), (num_keys,), ints)
        self._windows = self.backend.row_table("windows", layout)
        if restored is not None:
            self._progress.restore(self.operator_state)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        self._progress.store(self.operator_state)
        return super().snapshot_state(checkpoint_id, options)

    def open(self) -> None:
        super().open()
        rows = self._windows.live_rows()
        changed = rows[self._windows.ints(_IS_CHANGED, rows) == 1]
        self._windows.set_ints(_NEXT_SEND, changed, np.full(len(changed), _NEVER))
        self._note_changed(changed)
        self._schedule_next()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        window = self._window_spec.window
        times = self._row_times(columns)
        rows, starts, ends = window_bounds(times, window.kind, window.size_ms, window.slide_ms, window.offset_ms)
        kept = np.flatnonzero(ends - 1 + self._lateness_ms > self._progress.ended_until)
        if len(kept) < len(rows):
            rows, starts, ends = rows[kept], starts[kept], ends[kept]
            self._late_rows.drop(batch.num_rows - len(np.unique(rows)))
        if not len(rows):
            return
        columns = columns.take(pa.array(rows)).append_column(_START, pa.array(starts))
        weights = weights_of(batch.kinds)
        weights = None if weights is None else weights.take(rows)
        self._note_windows(columns)
        self._process(columns, weights, is_running=True)
        if not window.is_event_time:
            self._schedule(int(self._shift.to_utc(ends.min(keepdims=True) - 1)[0]))

    def _row_times(self, columns: pa.RecordBatch) -> np.ndarray:
        window = self._window_spec.window
        if not window.is_event_time:
            now = int(self._shift.to_local(np.array([self._clock.current_time_ms()]))[0])
            return np.full(columns.num_rows, max(now, self._progress.ended_until + 1), dtype=np.int64)
        assert window.time_column is not None
        name = columns.schema.names[window.time_column]
        return self._shift.to_local(event_times(columns.column(window.time_column), name, self.context))

    def _ends_of(self, starts: np.ndarray) -> np.ndarray:
        return starts + self._window_spec.window.size_ms

    def _window_columns(self, columns: pa.RecordBatch) -> list[pa.Array]:
        """Returns the key columns and the start of the windows of rows."""
        return [columns.column(position) for position in self._grouping]

    def _note_windows(self, columns: pa.RecordBatch) -> None:
        """Adds windows that are new to the table."""
        keys = self._window_columns(columns)
        none = [pa.nulls(columns.num_rows, kind) for kind in self._windows.layout.types[len(keys) :]]
        new = np.flatnonzero(self._windows.find_identified([*keys, *none]) < 0)
        if len(new):
            indices = pa.array(new)
            values = [column.take(indices) for column in (*keys, *none)]
            zeros = np.zeros(len(new), dtype=np.int64)
            ints = {_IS_SENT: zeros, _IS_CHANGED: zeros, _NEXT_SEND: np.full(len(new), _NEVER)}
            self._windows.apply(values, None, ints)

    # -- results of rows ---------------------------------------------------------------------------------------------

    def _emit(
        self,
        columns: pa.RecordBatch,
        groups: RowGroups,
        first_rows: np.ndarray,
        results: list[pa.Array],
        is_deleted: np.ndarray | None,
        is_running: bool,
    ) -> None:
        """Emits the changes of windows that are sent for each row, and notes that those of others have changed."""
        keys = self._window_columns(columns)
        none = [pa.nulls(columns.num_rows, kind) for kind in self._windows.layout.types[len(keys) :]]
        rows = self._windows.find_identified([*keys, *none])
        starts = keys[-1].to_numpy()
        # A window that was sent only when it ended has ended, also if the watermark begins anew after a recovery.
        is_late = self._ends_of(starts) - 1 <= self._progress.ended_until
        if self._early_ms is None:
            is_late |= self._windows.ints(_IS_SENT, rows) == 1
        at_once = np.where(is_late, self._late_ms == 0 or self._late_ms is None, self._early_ms == 0)
        chosen = np.flatnonzero(at_once)
        self._note_changed(np.unique(rows[~at_once]))
        if not len(chosen):
            return
        num_groups, previous = groups.num_groups, groups.previous
        old = np.where(previous < 0, groups.group, num_groups + previous)[chosen]
        is_first = ((previous < 0) & groups.is_fresh.take(groups.group))[chosen]
        gone = None if is_deleted is None else is_deleted[chosen]
        key_columns = [column.take(pa.array(chosen)) for column in keys]
        results = results[: len(self._result_fields)]
        self._send(key_columns, results, old, num_groups + chosen, is_first, gone)
        windows, place = np.unique(rows[chosen][::-1], return_index=True)
        last = len(chosen) - 1 - place
        if self._keeps_results:
            sent = self._results_at(results, num_groups + chosen[last])
            self._windows.replace(windows, [*(column.take(pa.array(last)) for column in key_columns), *sent])
        is_sent = np.ones(len(windows), dtype=np.int64) if gone is None else (~gone[last]).astype(np.int64)
        self._windows.set_ints(_IS_SENT, windows, is_sent)

    def _results_at(self, results: list[pa.Array], places: np.ndarray) -> list[pa.Array]:
        indices = pa.array(places)
        return [fitted(column.take(indices), field.type) for column, field in zip(results, self._result_fields)]

    def _send(
        self,
        keys: list[pa.Array],
        results: list[pa.Array],
        old: np.ndarray,
        new: np.ndarray,
        is_first: np.ndarray,
        is_deleted: np.ndarray | None,
    ) -> None:
        starts = keys[-1].to_numpy()
        spec = self._window_spec
        properties = [
            property_column(name, starts, self._ends_of(starts), field.type, self._shift, self._clock)
            for name, field in zip(spec.properties, self._property_fields, strict=True)
        ]
        changelog = keyed_changelog(
            [*keys[:-1], *properties],
            results,
            old,
            new,
            is_first,
            is_deleted,
            False,
            spec.generate_update_before,
            self._changelog_schema,
        )
        if changelog is not None:
            values = cast(pa.RecordBatch, changelog.values).select(self._output_schema.names)
            changelog = Batch(values, None, changelog.kinds)
            for start in range(0, changelog.num_rows, MAX_ROWS):
                self.output.emit(changelog.slice(start, min(MAX_ROWS, changelog.num_rows - start)))

    # -- results of windows that are due -----------------------------------------------------------------------------

    def _fire(self, rows: np.ndarray) -> None:
        """Sends the results of windows where they differ from those that were sent last."""
        table, groups = self._windows, self._table
        if not len(rows):
            return
        num_keys = len(self._key_fields) + 1
        keys = table.take(rows, list(range(num_keys)))
        slots = groups.slots_of(keys)
        is_gone = ~groups.is_live.take(slots)
        results = [accumulator.results(slots) for accumulator in groups.accumulators[: len(self._result_fields)]]
        results = [fitted(each, field.type) for each, field in zip(results, self._result_fields, strict=True)]
        was_sent = table.ints(_IS_SENT, rows) == 1
        count = len(rows)
        before = results
        if self._keeps_results:
            before = table.take(rows, list(range(num_keys, num_keys + len(results))))
        both = [pa.concat_arrays(pair) for pair in zip(before, results)]
        self._send(
            keys, both, np.arange(count), count + np.arange(count), ~was_sent, is_gone if is_gone.any() else None
        )
        if self._keeps_results:
            table.replace(rows, [*keys, *results])
        table.set_ints(_IS_SENT, rows, (~is_gone).astype(np.int64))
        table.set_ints(_IS_CHANGED, rows, np.zeros(count, dtype=np.int64))

    def _starts(self, rows: np.ndarray) -> np.ndarray:
        starts: np.ndarray = self._windows.take(rows, [len(self._key_fields)])[0].to_numpy()
        return starts

    def process_watermark(self, watermark: Watermark) -> None:
        if self._window_spec.window.is_event_time:
            self._end_windows(self._shift.local_progress(watermark.timestamp))
        StreamOperator.process_watermark(self, watermark)

    def _end_windows(self, time: int) -> None:
        """Sends the results of windows that end at or before `time`, and forgets those that get no more rows."""
        if time <= self._progress.ended_until:
            return
        before, self._progress.ended_until = self._progress.ended_until, time
        if not self._ends_window(before, time):
            return
        table = self._windows
        rows = table.live_rows()
        starts = self._starts(rows)
        last_ms = self._ends_of(starts) - 1
        is_due = (last_ms <= time) & (last_ms > before) & (table.ints(_IS_CHANGED, rows) == 1)
        order = np.lexsort((rows, starts))
        due = rows[order[is_due[order]]]
        self._fire(due)
        table.set_ints(_NEXT_SEND, due, np.full(len(due), _NEVER))
        over = rows[last_ms <= time - self._lateness_ms]
        if len(over):
            self._fire(over[table.ints(_IS_CHANGED, over) == 1])
            keys = table.take(over, list(range(len(self._key_fields) + 1)))
            self._table.remove(np.unique(self._table.slots_of(keys)))
            table.remove(over)

    def _ends_window(self, before: int, time: int) -> bool:
        """True if a window may end, or get its last row, after `before` and at or before `time`."""
        window = self._window_spec.window
        slide = window.slide_ms or window.size_ms

        def ended(last_ms: int) -> int:
            return (last_ms + 1 - window.offset_ms - window.size_ms) // slide

        lateness = self._lateness_ms
        return ended(time) > ended(before) or ended(time - lateness) > ended(before - lateness)

    # -- intervals ---------------------------------------------------------------------------------------------------

    def _note_changed(self, rows: np.ndarray) -> None:
        """Notes that the results of these windows have changed and are sent at the end of their interval."""
        table = self._windows
        if not len(rows):
            return
        table.set_ints(_IS_CHANGED, rows, np.ones(len(rows), dtype=np.int64))
        is_late = self._ends_of(self._starts(rows)) - 1 <= self._progress.ended_until
        intervals = np.where(is_late, self._late_ms or 0, self._early_ms or 0)
        rows, intervals = rows[intervals > 0], intervals[intervals > 0]
        now = self._clock.current_time_ms()
        known = table.ints(_NEXT_SEND, rows)
        first = np.where(known == _NEVER, now + intervals, known)
        passed = np.maximum(now - first, -1) // np.maximum(intervals, 1) + 1
        following = first + np.where(first <= now, passed, 0) * intervals
        table.set_ints(_NEXT_SEND, rows, following)
        if len(rows):
            self._schedule(int(following.min()))

    def _waiting(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the windows that wait for the end of an interval, and when it is."""
        table = self._windows
        rows = table.live_rows()
        rows = rows[(table.ints(_IS_CHANGED, rows) == 1) & (table.ints(_NEXT_SEND, rows) != _NEVER)]
        return rows, table.ints(_NEXT_SEND, rows)

    def _schedule(self, time: int) -> None:
        """Lets the clock end an interval or, in processing time, a window."""
        if self._timer is not None:
            if self._timer.timestamp_ms <= time:
                return
            self._timer.cancel()
        self._timer = self._clock.register_timer(time, self._on_timer)

    def _on_timer(self, time: int) -> None:
        self._timer = None
        rows, times = self._waiting()
        self._fire(rows[times <= time])
        if not self._window_spec.window.is_event_time:
            self._end_windows(self._shift.local_progress(time))
        self._schedule_next()

    def _schedule_next(self) -> None:
        _, times = self._waiting()
        wanted = times.tolist()
        if not self._window_spec.window.is_event_time and self._windows.size:
            last_ms = self._ends_of(self._starts(self._windows.live_rows())) - 1
            wanted += self._shift.to_utc(last_ms.min(keepdims=True)).tolist()
        if wanted:
            self._schedule(min(wanted))
