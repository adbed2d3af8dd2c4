"""WindowRankOperator: Top-N and deduplication of the rows of each window, emitted when the window ends.

A RowTable keeps, for each key and window, the rows that have a rank up to the last one that is asked for; a batch
removes those that its rows push out. When the watermark passes the end of a window, its rows are sorted, emitted and
removed. Rows of a window that has ended are late: they are dropped and counted.

Deduplication is a Top-1 in the order of time. The first of rows with equal times keeps its place if the first row
is wanted, and the last one takes it if the last row is wanted.

Source: org.apache.flink.table.runtime.operators.rank.window.processors.WindowRankProcessor,
org.apache.flink.table.runtime.operators.deduplicate.window.processors.RowTimeWindowDeduplicateProcessor.
Differs: Flink emits the windows that end at one moment key by key in no given order; here window by window, and within
a window key by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import SortField, WindowDeduplicateSpec, WindowRankSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot
from flinkpy.streaming.operators.table.late_rows import LateRows
from flinkpy.streaming.operators.table.order_codes import order_codes
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema, is_addition
from flinkpy.streaming.operators.table.time_columns import ZoneShift, milliseconds
from flinkpy.streaming.operators.table.window_progress import WindowProgress

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: The numbers of a row that say when its window ends and begins. Sessions that end together may begin apart.
_END, _START = "end", "start"


class WindowRankOperator(KeyedStateOperator):
    """Thread: task thread.

    Args:
        is_last_first: True if, of rows with equal sort keys, the one that came last has the first rank.
    """

    def __init__(
        self,
        spec: WindowRankSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
        is_last_first: bool = False,
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        if spec.window.end_column is None or spec.window.start_column is None:
            raise UnsupportedOperationError(
                f"operator {context.name}: the input of a window Top-N needs the columns of the window's bounds"
            )
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        fields = list(self._schema) + ([pa.field("rank", pa.int64())] if spec.output_rank_number else [])
        self._output_schema = pa.schema(fields) if spec.output_type is None else input_schema(spec.output_type)
        self._bounds = (spec.window.start_column, spec.window.end_column)
        self._order_columns = [field.column for field in spec.order]
        self._is_last_first = is_last_first
        self._shift = ZoneShift.of(spec.window, spec.settings)
        self._late_rows = LateRows(context.metrics)
        #: The ends of the windows that have rows.
        self._ends: set[int] = set()
        self._progress = WindowProgress()
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    # -- state -------------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        layout = RowLayout(tuple(self._schema.types), self._spec.partition, ints=(_END, _START))
        self._table = self.backend.row_table("window-rows", layout)
        self._ends = set(np.unique(self._table.ints(_END, self._table.live_rows())).tolist())
        if restored is not None:
            self._progress.restore(self.operator_state)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        self._progress.store(self.operator_state)
        return super().snapshot_state(checkpoint_id, options)

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if not is_addition(batch.kinds, batch.num_rows).all():
            raise UnsupportedOperationError(
                f"operator {self.context.name}: a window Top-N takes no DELETE and no UPDATE_BEFORE rows"
            )
        columns = columns_of(batch, self._input_type)
        start_column, end_column = self._bounds
        ends = milliseconds(columns[end_column])
        columns, ends = self._late_rows.without(ends - 1 <= self._progress.ended_until, columns, ends)
        if not len(ends):
            return
        table = self._table
        slots = table.slots_of(table.layout.key_columns(columns))
        starts = milliseconds(columns[start_column])
        codes = order_codes([columns[column] for column in self._order_columns], self._spec.order)
        order, ranks = self._ranked([slots, starts, ends], codes, np.arange(len(ends)))
        kept = np.sort(order[ranks <= self._spec.rank_end])
        indices = pa.array(kept)
        ints = {_END: ends[kept], _START: starts[kept]}
        table.add(slots[kept], [column.take(indices) for column in columns], ints)
        self._ends.update(np.unique(ends).tolist())
        self._remove_outranked(np.unique(slots[kept]), np.unique(ends[kept]))

    def _ranked(
        self, groups: list[np.ndarray], codes: np.ndarray, sequence: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n], int64[n]: the rows by window, key and rank, and the rank of each, from 1.

        Args:
            groups: the slot of each row's key, and the start and the end of its window.
            sequence: numbers that order rows by when they came.
        """
        order = np.lexsort((-sequence if self._is_last_first else sequence, codes, *groups))
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = False
        for each in groups:
            in_order = each[order]
            is_first[1:] |= in_order[1:] != in_order[:-1]
        firsts = np.flatnonzero(is_first)
        return order, np.arange(len(order)) - firsts[np.cumsum(is_first) - 1] + 1

    def _ranked_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns these rows of the table by window, key and rank, and the rank of each."""
        table = self._table
        codes = order_codes(table.take(rows, self._order_columns), self._spec.order)
        groups = [table.slots_of_rows(rows), table.ints(_START, rows), table.ints(_END, rows)]
        order, ranks = self._ranked(groups, codes, table.sequence(rows))
        return rows[order], ranks

    def _remove_outranked(self, slots: np.ndarray, ends: np.ndarray) -> None:
        """Removes the rows of these keys and windows that are behind the last rank."""
        table = self._table
        _, rows = table.rows_of(slots)
        rows = rows[np.isin(table.ints(_END, rows), ends)]
        rows, ranks = self._ranked_rows(rows)
        table.remove(rows[ranks > self._spec.rank_end])

    def process_watermark(self, watermark: Watermark) -> None:
        self._end_windows(max(self._shift.local_progress(watermark.timestamp), self._progress.ended_until))
        super().process_watermark(watermark)

    def _end_windows(self, time: int) -> None:
        """Emits the windows whose last ms is at or before `time`."""
        self._progress.ended_until = time
        due = {end for end in self._ends if end - 1 <= time}
        if not due:
            return
        self._ends -= due
        rows = self._table.live_rows()
        rows, ranks = self._ranked_rows(rows[self._table.ints(_END, rows) - 1 <= time])
        chosen = ranks >= self._spec.rank_start
        columns = self._table.take(rows[chosen])
        if self._spec.output_rank_number:
            columns.append(pa.array(ranks[chosen]))
        emit_columns(self.output, self._output_schema, columns, None)
        self._table.remove(rows)


def create_window_deduplicate_operator(
    spec: WindowDeduplicateSpec,
    input_type: Any,
    context: OperatorContext,
    output: Output,
    side_outputs: dict[str, Output],
) -> WindowRankOperator:
    """Returns the operator that keeps the first or the last row of each key and window."""
    rank = WindowRankSpec(
        spec.key_selector,
        spec.window,
        spec.key,
        (SortField(spec.time_column, ascending=not spec.keep_last),),
        settings=spec.settings,
        key_type=spec.key_type,
        input_types=spec.input_types,
        output_type=spec.output_type,
    )
    return WindowRankOperator(rank, input_type, context, output, side_outputs, is_last_first=spec.keep_last)
