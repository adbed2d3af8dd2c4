"""WindowJoinOperator: joins the rows of one window of both inputs when the window ends.

The rows of both inputs wait in RowTables. `_Windows` knows which rows each window has. When the watermark (or the
clock) passes the end of a window, all its rows are joined at once, emitted and removed. Rows of a window that has ended
are late: they are dropped and counted.

Source: org.apache.flink.table.runtime.operators.join.window.WindowJoinOperator.
Differs: Flink emits the windows that end at one moment key by key in no given order; here window by window, in the
order of the left rows, then the rows without a partner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType, WindowJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.segments import Groups
from flinkpy.state.row_table import RowLayout
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.late_rows import LateRows
from flinkpy.streaming.operators.table.table_inputs import (
    MAX_ROWS,
    emit_columns,
    is_addition,
)
from flinkpy.streaming.operators.table.time_columns import ZoneShift, milliseconds
from flinkpy.streaming.operators.table.two_table_join import NO_ROWS, TABLE_NAMES, TwoTableJoinOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer


class _Windows:
    """The rows of each window of one input, by the end of the window in ms, in the time of the windows."""

    def __init__(self) -> None:
        self._rows: dict[int, list[np.ndarray]] = {}

    def add(self, rows: np.ndarray, ends: np.ndarray) -> None:
        groups = Groups(ends)
        for end, begin, stop in zip(groups.keys.tolist(), groups.starts.tolist(), groups.ends.tolist()):
            self._rows.setdefault(end, []).append(rows[groups.order[begin:stop]])

    def ends(self) -> set[int]:
        return set(self._rows)

    def pop(self, end: int) -> np.ndarray:
        pieces = self._rows.pop(end, None)
        return np.concatenate(pieces) if pieces else NO_ROWS


class WindowJoinOperator(TwoTableJoinOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: WindowJoinSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_types, context, output, side_outputs)
        self._end_columns = tuple(map(self._end_column, (spec.left_window, spec.right_window)))
        self._is_event_time = spec.left_window.is_event_time
        self._shift = ZoneShift.of(spec.left_window, spec.settings)
        self._late_rows = LateRows(context.metrics)
        self._windows = (_Windows(), _Windows())
        self._timer: ScheduledTimer | None = None

    def _end_column(self, window: Any) -> int:
        if window.end_column is None:
            raise UnsupportedOperationError(
                f"operator {self.context.name}: the inputs of a window join need the column of the window's end"
            )
        return int(window.end_column)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        left, right = (
            self.backend.row_table(TABLE_NAMES[side], RowLayout(tuple(self._schemas[side].types), self._keys[side]))
            for side in range(2)
        )
        self._tables = (left, right)
        for side, table in enumerate(self._tables):
            rows = table.live_rows()
            if len(rows):
                self._windows[side].add(rows, milliseconds(table.take(rows, [self._end_columns[side]])[0]))

    def open(self) -> None:
        super().open()
        self._schedule()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if not is_addition(batch.kinds, batch.num_rows).all():
            raise UnsupportedOperationError(
                f"operator {self.context.name}: a window join takes no DELETE and no UPDATE_BEFORE rows"
            )
        columns = self._columns_of(batch, input_index)
        ends = milliseconds(columns[self._end_columns[input_index]])
        if self._is_event_time:
            is_late = ends - 1 <= self._shift.local_progress(self.current_watermark)
            columns, ends = self._late_rows.without(is_late, columns, ends)
        if not len(ends):
            return
        table = self._tables[input_index]
        rows = table.add(table.slots_of(table.layout.key_columns(columns)), columns)
        self._windows[input_index].add(rows, ends)
        self._schedule()

    def process_watermark(self, watermark: Watermark) -> None:
        if self._is_event_time:
            self._fire_until(self._shift.local_progress(watermark.timestamp))
        super().process_watermark(watermark)

    def _schedule(self) -> None:
        """Lets the clock fire the next window, in processing time."""
        ends = self._windows[0].ends() | self._windows[1].ends()
        if self._is_event_time or not ends:
            return
        last_ms = int(self._shift.to_utc(np.array([min(ends) - 1]))[0])
        if self._timer is not None:
            if self._timer.timestamp_ms <= last_ms:
                return
            self._timer.cancel()
        self._timer = self.context.processing_time_service.register_timer(last_ms, self._on_timer)

    def _on_timer(self, _: int) -> None:
        self._timer = None
        self._fire_until(self._shift.local_progress(self.context.processing_time_service.current_time_ms()))
        self._schedule()

    def _fire_until(self, time_ms: int) -> None:
        ends = self._windows[0].ends() | self._windows[1].ends()
        for end in sorted(end for end in ends if end - 1 <= time_ms):
            rows = (self._windows[0].pop(end), self._windows[1].pop(end))
            self._fire(*rows)
            for table, gone in zip(self._tables, rows):
                table.remove(gone)

    # -- windows that end --------------------------------------------------------------------------------------------

    def _fire(self, left: np.ndarray, right: np.ndarray) -> None:
        """Joins the rows of one window."""
        join_type = self._spec.join_type
        lefts, rights = self._pairs(left, right)
        if self._is_semi_or_anti:
            matches = np.zeros(len(left), dtype=bool)
            matches[lefts] = True
            kept = left[matches if join_type is JoinType.SEMI else ~matches]
            for start in range(0, len(kept), MAX_ROWS):
                values = self._tables[0].take(kept[start : start + MAX_ROWS])
                emit_columns(self.output, self._output_schema, values, None)
            return
        self._emit_stored(left[lefts], right[rights])
        if join_type in (JoinType.LEFT, JoinType.FULL):
            alone = np.delete(left, np.unique(lefts))
            self._emit_stored(alone, np.full(len(alone), -1))
        if join_type in (JoinType.RIGHT, JoinType.FULL):
            alone = np.delete(right, np.unique(rights))
            self._emit_stored(np.full(len(alone), -1), alone)

    def _pairs(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs that match, as positions in `left`, ascending, and positions in `right`."""
        if not len(left) or not len(right):
            return NO_ROWS, NO_ROWS
        left_table, right_table = self._tables
        keys = right_table.take(right, self._keys[1])
        slots = left_table.find(keys or left_table.layout.key_columns([pa.nulls(len(right))]))
        is_null = self._unmatchable_keys(keys)
        if is_null is not None:
            slots[is_null] = -1
        groups = Groups(slots)
        wanted = left_table.slots_of_rows(left)
        place = np.searchsorted(groups.keys, wanted)
        place[place == groups.count] = 0
        counts = np.where(groups.keys[place] == wanted, groups.ends[place] - groups.starts[place], 0)
        lefts = np.repeat(np.arange(len(left)), counts)
        within = np.arange(len(lefts)) - np.repeat(np.cumsum(counts) - counts, counts)
        rights = groups.order[np.repeat(groups.starts[place], counts) + within]
        condition = self._condition
        if condition is None or not len(lefts):
            return lefts, rights
        mask = condition.mask_of(
            len(lefts), lambda part: self._stored_columns(left[lefts[part]], right[rights[part]], condition.columns)
        )
        return lefts[mask], rights[mask]
