"""OverAggregateOperator: aggregates that are computed for each row from the rows around it.

The order decides how it works.

| order | emits |
|---|---|
| event time | rows when the watermark passes them, in the order of time; late rows are dropped and counted |
| processing time | rows as they come |
| other columns | a changelog: after each batch, the rows of its partitions whose results have changed |

In the order of time, the state of unbounded frames and ranks is an accumulator per partition. Bounded frames and LAG
keep the rows that later frames need.

Source: org.apache.flink.table.runtime.operators.over.RowTimeRowsUnboundedPrecedingFunction,
RowTimeRangeBoundedPrecedingFunction, ProcTimeRowsBoundedPrecedingFunction, NonTimeRowsUnboundedPrecedingFunction, ...
Differs: for other columns the changelog is folded per batch, and bounded frames are allowed, which Flink refuses. Rows
of one millisecond of processing time that come in different batches are not in the RANGE of the earlier ones. For
bounded RANGE a row behind the watermark is late; Flink takes it until a later row of its partition has been emitted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import OverAggregateSpec, OverWindow, SortField
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK, Watermark
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
    UserAggregates,
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
from flinkpy.streaming.operators.table.group_expiry import UPDATED, GroupExpiry
from flinkpy.streaming.operators.table.late_rows import LateRows, behind_done_rows
from flinkpy.streaming.operators.table.over_frames import lag_offset, over_results
from flinkpy.streaming.operators.table.partition_expiry import USED, PartitionExpiry
from flinkpy.streaming.operators.table.time_columns import event_times

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_TIME, _IS_DONE = "time", "is_done"
_NO_ROWS = np.empty(0, dtype=np.int64)
#: How often rows that have left all frames of RANGE are looked for in the time of one frame. A quarter more rows stay.
_SWEEPS_PER_RANGE = 4
#: Functions of the order that need all rows of a partition, or those behind the current one.
_NEED_PARTITION = frozenset({"PERCENT_RANK", "CUME_DIST", "NTILE", "LEAD"})
#: Functions whose results are counts of rows, or of times.
_RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
#: A hidden column: true for the first row of each partition and time.
_IS_FIRST = "$first"


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
        self.function = UserAggregates(call for window in spec.windows for call in window.aggregates)
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
        self._calls: list[tuple[OverWindow, AggregateCall]] = [
            (window, call) for window in spec.windows for call in window.aggregates
        ]
        #: In the order of time: which calls are running results of their partition, whose state is an accumulator.
        self._running = [] if self._is_updating else [i for i, each in enumerate(self._calls) if _is_running(*each)]
        #: The other ones, whose frames need their rows.
        self._framed = [] if self._is_updating else [i for i in range(len(self._calls)) if i not in self._running]
        self._handler: AggregateHandler | None = None
        self._expiry: GroupExpiry | None = None
        self._partition_expiry: PartitionExpiry | None = None
        #: The number of rows that LAG looks back.
        self._look_back = 0
        #: True if a partition always has the last row that was emitted, and only rows up to it are late.
        self._late_by_partition = not self._running and all(
            window.is_rows and window.lower and call.function.upper() != "LAG" for window, call in self._calls
        )
        #: No row after this time had been emitted in the restored snapshot.
        self._emitted_until = MIN_WATERMARK
        #: The rows that wait for the watermark, in event time.
        self._waiting: list[np.ndarray] = []
        #: Rows that are in no frame are looked for when this time is in no frame.
        self._next_sweep = MIN_WATERMARK
        if not self._is_updating:
            self._check_stream_windows()
        if self._running:
            calls = [_as_aggregate(self._calls[i][1], len(self._schema)) for i in self._running]
            schema = self._schema.append(pa.field(_IS_FIRST, pa.bool_()))
            self._handler = AggregateHandler(calls, schema, False, context.name)
        self._late_rows = LateRows(context.metrics)

    def _check_stream_windows(self) -> None:
        spec, name = self._spec, self.context.name
        if any(window.order != spec.windows[0].order for window in spec.windows):
            raise UnsupportedOperationError(f"operator {name}: its OVER windows have different ORDER BY")
        if spec.needs_retraction:
            raise UnsupportedOperationError(f"operator {name}: OVER in the order of time needs input that only inserts")
        if any(window.upper != 0 for window in spec.windows):
            raise UnsupportedOperationError(f"operator {name}: OVER RANGE FOLLOWING windows are not supported yet.")
        functions = {call.function.upper() for _, call in self._calls}
        if wrong := sorted(functions & _NEED_PARTITION):
            raise UnsupportedOperationError(f"operator {name}: {wrong[0]} Function is not supported in stream mode.")

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        ints: tuple[str, ...] = () if self._is_updating else (_TIME, _IS_DONE)
        ttl_ms = self._spec.state_ttl_ms
        # Rows that only frames of RANGE keep are removed when they have left them.
        has_idle_partitions = bool(ttl_ms) and any(_keeps_last_rows(*self._calls[place]) for place in self._framed)
        if has_idle_partitions:
            ints = (*ints, USED)
        layout = RowLayout(tuple(self._schema.types), self._partition, None, ints, ttl_ms if self._is_updating else 0)
        self._rows = self.backend.row_table("rows", layout)
        if has_idle_partitions:
            clock = self.context.processing_time_service
            self._partition_expiry = PartitionExpiry(self._rows, _IS_DONE, ttl_ms, clock)
        if self._is_event_time:
            rows = self._rows.live_rows()
            is_done = self._rows.ints(_IS_DONE, rows) == 1
            self._waiting = [rows[~is_done]]
            self._emitted_until = int(self._rows.ints(_TIME, rows[is_done]).max(initial=MIN_WATERMARK))
        if self._handler is not None:
            types = key_types(self._schema, self._partition)
            columns = [*self._handler.columns, *([UPDATED] if self._spec.state_ttl_ms else [])]
            self._groups = self.backend.group_table("groups", types, columns)
            if self._spec.state_ttl_ms:
                clock = self.context.processing_time_service
                self._expiry = GroupExpiry(self._groups, self._spec.state_ttl_ms, clock)
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
        self._expire_partitions(columns)
        arrays, times = self._late_rows.without(self._late(columns, times), columns.columns, times)
        self._waiting.append(self._add(arrays, times, is_done=False))

    def _late(self, columns: pa.RecordBatch, times: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for rows that come too late.

        For bounded ROWS these are rows at or before the last one of their partition that was emitted, otherwise rows
        behind the watermark.
        """
        if not self._late_by_partition:
            return times <= self.current_watermark
        is_late = times <= max(self.current_watermark, self._emitted_until)
        behind = np.flatnonzero(is_late)
        if not len(behind):
            return is_late
        indices = pa.array(behind)
        keys = self._rows.layout.key_columns([column.take(indices) for column in columns.columns])
        is_late[behind] = behind_done_rows(self._rows, keys, times[behind], _TIME, _IS_DONE)
        return is_late

    def _add(self, arrays: list[pa.Array], times: np.ndarray, is_done: bool) -> np.ndarray:
        slots = self._rows.slots_of(self._rows.layout.key_columns(arrays))
        ints = {_TIME: times, _IS_DONE: np.full(len(times), int(is_done), dtype=np.int64)}
        if self._partition_expiry is not None:
            ints[USED] = self._partition_expiry.now(len(times))
        return self._rows.add(slots, arrays, ints)

    def _expire_partitions(self, columns: pa.RecordBatch) -> None:
        if self._partition_expiry is not None:
            self._partition_expiry.expire(self._rows.layout.key_columns(columns.columns))

    def process_watermark(self, watermark: Watermark) -> None:
        if self._is_event_time:
            rows = np.concatenate(self._waiting)
            times = self._rows.ints(_TIME, rows)
            is_due = times <= watermark.timestamp
            due, due_times = rows[is_due], times[is_due]
            self._waiting = [rows[~is_due]]
            if len(due):
                order = np.lexsort((self._rows.sequence(due), due_times))
                self._emit_due(due.take(order), due_times.take(order), watermark.timestamp)
        super().process_watermark(watermark)

    def _emit_due(self, due: np.ndarray, times: np.ndarray, now: int) -> None:
        columns = self._taken(due)
        if self._framed:
            self._rows.set_ints(_IS_DONE, due, np.ones(len(due), dtype=np.int64))
            if self._partition_expiry is not None:
                self._rows.set_ints(USED, due, self._partition_expiry.now(len(due)))
        else:
            self._rows.remove(due)
        self._emit_results(columns, times, due, now)

    def _emit_now(self, columns: pa.RecordBatch, times: np.ndarray) -> None:
        self._expire_partitions(columns)
        rows = self._add(columns.columns, times, is_done=True) if self._framed else _NO_ROWS
        self._emit_results(columns, times, rows, int(times[0]))

    def _emit_results(self, columns: pa.RecordBatch, times: np.ndarray, rows: np.ndarray, now: int) -> None:
        """Emits rows, which are in the order of time, with the results of all calls.

        Args:
            rows: their numbers in the table, if calls need frames.
        """
        results: dict[int, pa.Array] = {}
        if self._running:
            results.update(zip(self._running, self._running_results(columns, times)))
        if self._framed:
            results.update(zip(self._framed, self._framed_results(rows, now)))
        self._emit(columns, [results[number] for number in range(len(self._calls))], None)

    def _running_results(self, columns: pa.RecordBatch, times: np.ndarray) -> list[pa.Array]:
        """Returns the results of all rows of each row's partition so far. They become part of the accumulators.

        In processing time, as in Flink, a row's frame ends with the row, also for RANGE.
        """
        handler, table = self._handler, self._groups
        assert handler is not None
        slots = table.slots_of(key_columns(columns, self._partition))
        if self._expiry is not None:
            self._expiry.expire(slots)
        number, first_rows = table.number_rows(slots)
        group_slots = slots.take(first_rows)
        groups = RowGroups(number, group_slots, ~table.is_live.take(group_slots))
        first, last = _peers(number, times)
        is_first = first == np.arange(len(first))
        results = handler.update(table, groups, columns.append_column(_IS_FIRST, pa.array(is_first)), None, True)
        table.set_live(group_slots)
        if self._expiry is not None:
            self._expiry.note_updated(group_slots)
        taken = []
        for place, result in zip(self._running, results):
            window, call = self._calls[place]
            running = result.slice(groups.num_groups)
            if call.function.upper() == "RANK":
                running = running.take(pa.array(first))
            elif self._is_event_time and not window.is_rows and call.function.upper() not in _RANKS:
                running = running.take(pa.array(last))
            taken.append(running)
        return taken

    def _framed_results(self, rows: np.ndarray, now: int) -> list[pa.Array]:
        """Returns the results of the frames of rows, and removes the rows that are in no frame of later ones."""
        table = self._rows
        slots = table.slots_of_rows(rows)
        positions, known = table.rows_of(np.unique(slots))
        is_done = table.ints(_IS_DONE, known) == 1
        positions, known = positions[is_done], known[is_done]
        # The order of time is that of a hidden last column, since processing time is not in the rows.
        columns = self._taken(known).append_column("$time", pa.array(table.ints(_TIME, known)))
        order = (SortField(columns.num_columns - 1),)
        calls = [self._calls[place] for place in self._framed]
        hidden = [replace(window, order=order, aggregates=(call,)) for window, call in calls]
        results = over_results(positions, columns, hidden)
        place = np.full(int(known.max()) + 1, -1, dtype=np.int64)
        place[known] = np.arange(len(known))
        indices = pa.array(place.take(rows))
        self._forget(columns, known, positions, now)
        return [result.take(indices) for result in results]

    def _forget(self, columns: pa.RecordBatch, known: np.ndarray, positions: np.ndarray, now: int) -> None:
        """Removes rows that are in no frame of later rows."""
        table = self._rows
        look_back, lowest = self._look_back, 0
        for window, call in (self._calls[place] for place in self._framed):
            if call.function.upper() == "LAG":
                look_back = max(look_back, lag_offset(call, columns))
            elif window.is_rows:
                assert window.lower is not None
                look_back = max(look_back, -window.lower)
            else:
                assert window.lower is not None
                lowest = min(lowest, window.lower)
        self._look_back = look_back
        first_time = now + 1 + lowest
        if not look_back:
            # Looking at all rows now and then keeps those of idle partitions from staying for ever.
            if first_time < self._next_sweep:
                return
            self._next_sweep = first_time - lowest // _SWEEPS_PER_RANGE
            rows = table.live_rows()
            is_over = (table.ints(_IS_DONE, rows) == 1) & (table.ints(_TIME, rows) < first_time)
            table.remove(rows[is_over])
            return
        times = table.ints(_TIME, known)
        order = np.lexsort((table.sequence(known), times, positions))
        in_order = positions.take(order)
        ends = np.searchsorted(in_order, in_order, side="right")
        is_over = np.arange(len(order)) < ends - look_back
        if lowest:
            is_over &= times.take(order) < first_time
        table.remove(known.take(order[is_over]))

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


def _is_running(window: OverWindow, call: AggregateCall) -> bool:
    """True if the result of a row in the order of time is a running result of its partition."""
    function = call.function.upper()
    return function in _RANKS or (window.lower is None and function != "LAG")


def _keeps_last_rows(window: OverWindow, call: AggregateCall) -> bool:
    """True if the last rows of each partition are in a frame of its next row, however old they are."""
    return window.is_rows or call.function.upper() == "LAG"


def _as_aggregate(call: AggregateCall, is_first: int) -> AggregateCall:
    """Returns the aggregate that computes a call row by row: ranks are counts.

    Args:
        is_first: the column that is true for the first row of each time.
    """
    function = call.function.upper()
    if function not in _RANKS:
        return call
    return replace(call, function="COUNT", arguments=(), filter_index=is_first if function == "DENSE_RANK" else None)


def _peers(number: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n], int64[n]: for each row, the first and the last row of the same group and time. Times ascend."""
    order = np.lexsort((times, number))
    in_order, times_in_order = number.take(order), times.take(order)
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (in_order[1:] != in_order[:-1]) | (times_in_order[1:] != times_in_order[:-1])
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order)) - 1
    run = np.cumsum(begins) - 1
    first, last = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    first[order], last[order] = order.take(starts.take(run)), order.take(ends.take(run))
    return first, last
