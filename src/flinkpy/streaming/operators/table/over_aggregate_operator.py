"""OverAggregateOperator: aggregates that are computed for each row from the rows around it.

The order decides how it works.

| order | emits |
|---|---|
| event time | rows when the watermark passes them, in the order of time; late rows are dropped and counted |
| processing time | rows as they come |
| other columns | a changelog: after each batch, the rows of its partitions whose results have changed |

For an unbounded frame of an ordered stream the state is one accumulator per partition, otherwise the rows.

Source: org.apache.flink.table.runtime.operators.over.RowTimeRowsUnboundedPrecedingFunction,
RowTimeRangeBoundedPrecedingFunction, ProcTimeRowsBoundedPrecedingFunction, NonTimeRowsUnboundedPrecedingFunction, ...
Differs: for other columns the changelog is folded per batch, and bounded frames are allowed, which Flink refuses. Rows
of one millisecond of processing time that come in different batches are not in the RANGE of the earlier ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import OverAggregateSpec, OverWindow, SortField
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.logical_types import is_proctime, is_rowtime
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_groups import RowGroups
from flinkpy.state.row_table import RowLayout
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.aggregate_handler import (
    AggregateHandler,
    key_columns,
    key_types,
    weights_of,
)
from flinkpy.streaming.operators.table.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    fitted,
    has_changed,
)
from flinkpy.streaming.operators.table.over_frames import lag_offset, over_results
from flinkpy.streaming.operators.table.time_columns import event_times

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_TIME, _IS_DONE = "time", "is_done"
#: Functions of the order that need all rows of a partition, or those behind the current one.
_NEED_PARTITION = frozenset({"RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LEAD"})


class OverAggregateOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: OverAggregateSpec,
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
        self._partition = spec.windows[0].partition
        if any(window.partition != self._partition for window in spec.windows):
            raise UnsupportedOperationError(f"operator {context.name}: its OVER windows have different PARTITION BY")
        order = spec.windows[0].order
        kind = input_type.row_type.fields[order[0].column].type if order else None
        self._is_event_time = kind is not None and is_rowtime(kind)
        self._is_processing_time = kind is not None and is_proctime(kind)
        self._is_updating = not (self._is_event_time or self._is_processing_time)
        #: The accumulators of frames without a lower bound; None if the frame needs its rows.
        self._handler: AggregateHandler | None = None
        #: The number of rows that LAG looks back.
        self._look_back = 0
        if not self._is_updating:
            self._check_stream_window()
        self._late_records_dropped = context.metrics.counter("numLateRecordsDropped")

    def _check_stream_window(self) -> None:
        spec, name = self._spec, self.context.name
        window = spec.windows[0]
        if len(spec.windows) > 1:
            raise UnsupportedOperationError(
                f"operator {name}: all OVER aggregates of a stream in the order of time must have the same window"
            )
        if spec.needs_retraction:
            raise UnsupportedOperationError(f"operator {name}: OVER in the order of time needs input that only inserts")
        if window.upper != 0:
            raise UnsupportedOperationError(
                f"operator {name}: OVER in the order of time must end at CURRENT ROW; FOLLOWING is not supported"
            )
        functions = {call.function.upper() for call in window.aggregates}
        if wrong := sorted(functions & _NEED_PARTITION):
            raise UnsupportedOperationError(
                f"operator {name}: {', '.join(wrong)} OVER the order of time is not supported"
            )
        if functions == {"LAG"}:
            return
        if "LAG" in functions:
            raise UnsupportedOperationError(
                f"operator {name}: LAG beside other aggregates of the same OVER is not supported; use two queries"
            )
        if window.lower is None:
            calls = [_as_aggregate(call) for call in window.aggregates]
            self._handler = AggregateHandler(calls, self._schema, False, name)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        ints = () if self._is_updating else (_TIME, _IS_DONE)
        ttl_ms = self._spec.state_ttl_ms if self._is_updating else 0
        layout = RowLayout(tuple(self._schema.types), self._partition, None, ints, ttl_ms)
        self._rows = self.backend.row_table("rows", layout)
        if self._handler is not None:
            types = key_types(self._schema, self._partition)
            self._groups = self.backend.group_table("groups", types, self._handler.columns)
            self._handler.create_maps(self.backend, self._groups, self._schema)

    # -- data ----------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        if self._is_updating:
            self._update(columns, weights_of(batch.kinds))
        elif self._is_event_time:
            self._hold(columns)
        else:
            now = self.context.processing_time_service.current_time_ms()
            self._emit_now(columns, np.full(columns.num_rows, now, dtype=np.int64))

    # -- in the order of time --------------------------------------------------------------------------------------

    def _hold(self, columns: pa.RecordBatch) -> None:
        """Keeps rows until the watermark passes them."""
        position = self._spec.windows[0].order[0].column
        times = event_times(columns.column(position), columns.schema.names[position], self.context)
        is_late = times <= self.current_watermark
        if is_late.any():
            self._late_records_dropped.inc(int(is_late.sum()))
            rows = np.flatnonzero(~is_late)
            columns, times = columns.take(pa.array(rows)), times.take(rows)
        self._add(columns, times, is_done=False)

    def _add(self, columns: pa.RecordBatch, times: np.ndarray, is_done: bool) -> np.ndarray:
        arrays = columns.columns
        slots = self._rows.slots_of(self._rows.layout.key_columns(arrays))
        done = np.full(len(times), int(is_done), dtype=np.int64)
        return self._rows.add(slots, arrays, {_TIME: times, _IS_DONE: done})

    def process_watermark(self, watermark: Watermark) -> None:
        if self._is_event_time:
            rows = self._rows.live_rows()
            times = self._rows.ints(_TIME, rows)
            is_due = (self._rows.ints(_IS_DONE, rows) == 0) & (times <= watermark.timestamp)
            due, due_times = rows[is_due], times[is_due]
            if len(due):
                order = np.lexsort((self._rows.sequence(due), due_times))
                self._emit_due(due.take(order), due_times.take(order), watermark.timestamp)
        super().process_watermark(watermark)

    def _emit_due(self, due: np.ndarray, times: np.ndarray, now: int) -> None:
        if self._handler is not None:
            columns = self._taken(due)
            self._rows.remove(due)
            self._emit_accumulated(columns, times)
            return
        self._rows.set_ints(_IS_DONE, due, np.ones(len(due), dtype=np.int64))
        self._emit_framed(due, now)

    def _emit_now(self, columns: pa.RecordBatch, times: np.ndarray) -> None:
        if self._handler is not None:
            self._emit_accumulated(columns, times)
        else:
            self._emit_framed(self._add(columns, times, is_done=True), int(times[0]))

    def _emit_accumulated(self, columns: pa.RecordBatch, times: np.ndarray) -> None:
        """Emits rows, which are in the order of time, with the results of all rows of their partition so far."""
        handler, table = self._handler, self._groups
        assert handler is not None
        slots = table.slots_of(key_columns(columns, self._partition))
        number, first_rows = table.number_rows(slots)
        group_slots = slots.take(first_rows)
        groups = RowGroups(number, group_slots, ~table.is_live.take(group_slots))
        results = handler.update(table, groups, columns, None, is_running=True)
        table.set_live(group_slots)
        results = [result.slice(groups.num_groups) for result in results]
        if not self._spec.windows[0].is_rows:
            last = pa.array(_last_peers(number, times))
            results = [result.take(last) for result in results]
        self._emit(columns, results[: len(self._spec.windows[0].aggregates)], None)

    def _emit_framed(self, rows: np.ndarray, now: int) -> None:
        """Emits these rows, which are in the order of time, with the results of their frames."""
        table, window = self._rows, self._spec.windows[0]
        slots = table.slots_of_rows(rows)
        positions, known = table.rows_of(np.unique(slots))
        is_done = table.ints(_IS_DONE, known) == 1
        positions, known = positions[is_done], known[is_done]
        # The order of time is that of a hidden last column, since processing time is not in the rows.
        columns = self._taken(known).append_column("$time", pa.array(table.ints(_TIME, known)))
        hidden = replace(window, order=(SortField(columns.num_columns - 1),))
        results = over_results(positions, columns, (hidden,))
        place = np.full(int(known.max()) + 1, -1, dtype=np.int64)
        place[known] = np.arange(len(known))
        indices = pa.array(place.take(rows))
        self._emit(self._taken(rows), [result.take(indices) for result in results], None)
        self._forget(window, columns, known, positions, now)

    def _forget(
        self, window: OverWindow, columns: pa.RecordBatch, known: np.ndarray, positions: np.ndarray, now: int
    ) -> None:
        """Removes rows that are in no frame of later rows."""
        table = self._rows
        is_lag = window.aggregates[0].function.upper() == "LAG"
        if not window.is_rows and not is_lag:
            assert window.lower is not None
            rows = table.live_rows()
            is_over = (table.ints(_IS_DONE, rows) == 1) & (table.ints(_TIME, rows) < now + 1 + window.lower)
            table.remove(rows[is_over])
            return
        if is_lag:
            self._look_back = max(self._look_back, *(lag_offset(call, columns) for call in window.aggregates))
            look_back = self._look_back
        else:
            assert window.lower is not None
            look_back = -window.lower
        order = np.lexsort((table.sequence(known), table.ints(_TIME, known), positions))
        in_order = positions.take(order)
        ends = np.searchsorted(in_order, in_order, side="right")
        table.remove(known.take(order[np.arange(len(order)) < ends - look_back]))

    # -- in any order, over changes --------------------------------------------------------------------------------

    def _update(self, columns: pa.RecordBatch, weights: np.ndarray | None) -> None:
        """Applies changes, and emits the rows of their partitions that have changed, or whose results have."""
        table = self._rows
        keys = table.layout.key_columns(columns.columns)
        before, old = self._evaluated(keys)
        table.apply(columns.columns, None if weights is None else weights > 0)
        after, new = self._evaluated(keys)
        width = len(self._schema)
        # A row is the same if it has the same number and the same columns: numbers are used again.
        place = np.full(max(int(before.max(initial=-1)), int(after.max(initial=-1))) + 2, -1, dtype=np.int64)
        place[before] = np.arange(len(before))
        pair = place.take(after)
        joined = [pa.concat_arrays([left, right]) for left, right in zip(old, new)]
        moved = np.arange(len(after)) + len(before)
        is_kept = pair >= 0
        kept = np.flatnonzero(is_kept)
        differs = has_changed(joined[:width], pair.take(kept), moved.take(kept))
        is_kept[kept[differs]] = False
        kept = np.flatnonzero(is_kept)
        updated = kept[has_changed(joined[width:], pair.take(kept), moved.take(kept))]
        is_gone = np.ones(len(before), dtype=bool)
        is_gone[pair.take(kept)] = False
        gone, added = np.flatnonzero(is_gone), np.flatnonzero(~is_kept)
        if self._spec.generate_update_before:
            pairs = np.stack([pair.take(updated), moved.take(updated)], axis=1).ravel()
            pair_kinds = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER]), len(updated))
        else:
            pairs, pair_kinds = moved.take(updated), np.full(len(updated), UPDATE_AFTER)
        source = np.concatenate([gone, pairs, moved.take(added)])
        kinds = np.concatenate([np.full(len(gone), DELETE), pair_kinds, np.full(len(added), INSERT)]).astype(np.int8)
        if len(source):
            indices = pa.array(source)
            arrays = [column.take(indices) for column in joined]
            changed = pa.RecordBatch.from_arrays(arrays[:width], schema=self._schema)
            self._emit(changed, arrays[width:], kinds if kinds.any() else None)

    def _evaluated(self, keys: list[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        """Returns all rows of the partitions of these keys, and their columns and results."""
        slots = self._rows.find(keys)
        positions, rows = self._rows.rows_of(np.unique(slots[slots >= 0]))
        columns = self._taken(rows)
        return rows, [*columns.columns, *over_results(positions, columns, self._spec.windows)]

    # -- results -------------------------------------------------------------------------------------------------

    def _taken(self, rows: np.ndarray) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self._rows.take(rows), schema=self._schema)

    def _emit(self, columns: pa.RecordBatch, results: list[pa.Array], kinds: np.ndarray | None) -> None:
        if not columns.num_rows:
            return
        arrays = [fitted(each, field.type) for each, field in zip([*columns.columns, *results], self._output_schema)]
        self.output.emit(Batch(pa.RecordBatch.from_arrays(arrays, schema=self._output_schema), None, kinds))


def _as_aggregate(call: AggregateCall) -> AggregateCall:
    """Returns the aggregate that computes a function of the order, row by row."""
    return replace(call, function="COUNT", arguments=()) if call.function.upper() == "ROW_NUMBER" else call


def _last_peers(number: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Returns int64[n]: for each row, the last row of the same group and time. Times ascend."""
    order = np.lexsort((times, number))
    in_order, times_in_order = number.take(order), times.take(order)
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = (in_order[1:] != in_order[:-1]) | (times_in_order[1:] != times_in_order[:-1])
    lasts = np.flatnonzero(is_last)
    last_of = np.empty(len(order), dtype=np.int64)
    last_of[order] = order.take(lasts.take(np.searchsorted(lasts, np.arange(len(order)))))
    return last_of
