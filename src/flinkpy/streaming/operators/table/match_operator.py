"""MatchOperator: MATCH_RECOGNIZE. Finds patterns in the rows of each key and emits one row per match.

By event time, rows wait in a RowTable until the watermark passes them; late rows are dropped and counted. Rows that
partial matches have taken stay. By processing time, rows are matched as they come, or, if further columns order them,
when their millisecond is over. Partial matches are a second table: state, number of the first row among the key's kept
rows, place in the heap, and rows per variable.

A watermark advances all keys with due rows, and those with partial matches that are too old, in one run of the loop in
`flinkpy.cep.match_kernel`. Matches leave in the order of the rows at which they were found.

Source: org.apache.flink.cep.operator.CepOperator.
Differs: a match that is found because older partial matches have timed out at the end of the input has the time of its
last row as MATCH_ROWTIME(), where Flink's is the largest time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.cep import match_kernel
from flinkpy.cep.nfa_compiler import TransitionAction, compile_pattern
from flinkpy.cep.pattern import SkipMode
from flinkpy.common.errors import TableProgramError
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.graph.table_specs import MatchSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.aggregate_handler import UserAggregates
from flinkpy.streaming.operators.table.late_rows import LateRows, behind_done_rows
from flinkpy.streaming.operators.table.match_conditions import MatchConditions
from flinkpy.streaming.operators.table.match_values import MatchRows, PatternValues
from flinkpy.streaming.operators.table.order_codes import order_codes
from flinkpy.streaming.operators.table.rows_by_time import RowsByTime
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema
from flinkpy.streaming.operators.table.time_columns import event_times

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer

#: The numbers of a row: its time in ms, and 1 once it has been matched or refused.
_TIME, _IS_DONE = "time", "is_done"
#: The numbers of a partial match, before the counts of its variables.
_STATE, _START, _PLACE, _BEGIN_TIME = "state", "start", "place", "begin_time"
_SKIP_MODES = {
    SkipMode.TO_NEXT: match_kernel.TO_NEXT,
    SkipMode.PAST_LAST: match_kernel.PAST_LAST,
    SkipMode.TO_FIRST: match_kernel.TO_FIRST,
    SkipMode.TO_LAST: match_kernel.TO_LAST,
}
_NO_ROWS = np.empty(0, dtype=np.int64)
#: The noted timeouts are built anew when there are twice as many as partial matches, and more than this.
_MIN_TIMEOUTS = 1 << 14
#: A bucket of timeouts spans this part of WITHIN.
_TIMEOUT_BUCKETS = 64


class MatchOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: MatchSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._output_schema = schema_of(spec.output_type.row_type)  # type: ignore[union-attr]
        self._time_column = spec.order[0].column
        self._others = spec.order[1:]
        self._clock = context.processing_time_service
        self._late_rows = LateRows(context.metrics)
        self._automaton = Automaton(spec)
        names = spec.pattern.names
        self._counts = tuple(f"count{place}" for place in range(len(names)))
        self._conditions = MatchConditions(names, spec.definitions, spec.settings)
        self._measures = PatternValues(spec.measures, names, spec.settings)
        self.function = UserAggregates([*self._conditions.aggregates, *self._measures.aggregates])
        self._window_ms = spec.pattern.within_ms or 0
        self._advance = match_kernel.match_kernel()
        self._advance_asking = match_kernel.python_kernel(self._conditions.answer)
        self._rows: RowTable
        self._partials: RowTable
        #: The rows that wait for the watermark.
        self._waiting: list[np.ndarray] = [_NO_ROWS]
        #: Partial matches by the time at which they are too old, and some that are gone.
        self._timeouts = RowsByTime(self._window_ms // _TIMEOUT_BUCKETS)
        self._max_timeouts = _MIN_TIMEOUTS
        self._timer: ScheduledTimer | None = None
        #: By event time, the latest time of a restored row that was matched: the watermark is behind it at first. By
        #: processing time, the time up to which rows have been matched: the clock may go back, or be another one.
        self._done_until = MIN_WATERMARK

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    # -- state -------------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        types, partition = tuple(self._schema.types), self._spec.partition
        self._rows = self.backend.row_table("rows", RowLayout(types, partition, None, (_TIME, _IS_DONE)))
        key_types = tuple(types[each] for each in partition) or (pa.int8(),)
        ints = (_STATE, _START, _PLACE, _BEGIN_TIME, *self._counts)
        key = tuple(range(len(partition))) or (0,)
        self._partials = self.backend.row_table("partialMatches", RowLayout(key_types, key, None, ints))
        rows = self._rows.live_rows()
        is_done = self._rows.ints(_IS_DONE, rows) == 1
        self._waiting = [rows[~is_done]]
        self._done_until = int(self._rows.ints(_TIME, rows[is_done]).max(initial=MIN_WATERMARK))
        self._note_timeouts(self._partials.live_rows())

    def open(self) -> None:
        super().open()
        context = FunctionContext(StreamingRuntimeContext(self.context))
        self._conditions.open(context)
        self._measures.open(context)
        if not self._spec.is_event_time and len(self._waiting[0]):
            self._schedule()

    def close(self) -> None:
        self._conditions.close()
        self._measures.close()
        super().close()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        if self._spec.is_event_time:
            times = event_times(columns[self._time_column], self._schema.names[self._time_column], self.context)
            columns, times = self._late_rows.without(self._late(columns, times), columns, times)
        else:
            times = np.full(batch.num_rows, self._now(), dtype=np.int64)
        if not len(times):
            return
        table = self._rows
        ints = {_TIME: times, _IS_DONE: np.zeros(len(times), dtype=np.int64)}
        rows = table.add(table.slots_of(table.layout.key_columns(columns)), columns, ints)
        self._waiting.append(rows)
        if not self._spec.is_event_time:
            if self._others:
                self._schedule()
            else:
                self._process_until(int(times[0]))

    def _late(self, columns: list[pa.Array], times: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for rows behind the watermark. After a restore, matched rows show where it was."""
        is_late: np.ndarray = times <= self.current_watermark
        if self.current_watermark < self._done_until:
            keys = self._rows.layout.key_columns(columns)
            is_late |= behind_done_rows(self._rows, keys, times, _TIME, _IS_DONE)
        return is_late

    def _now(self) -> int:
        """Returns the processing time of new rows, which have to be sorted behind those that have been matched."""
        return max(self._clock.current_time_ms(), self._done_until + (1 if self._others else 0))

    def process_watermark(self, watermark: Watermark) -> None:
        if self._spec.is_event_time:
            self._process_until(watermark.timestamp)
        super().process_watermark(watermark)

    def _schedule(self) -> None:
        """Lets the clock process the rows of this millisecond when it is over."""
        if self._timer is None:
            self._timer = self._clock.schedule_after(0, self._on_timer)

    def _on_timer(self, time: int) -> None:
        self._timer = None
        # The clock may have gone back since the rows came.
        times = self._waiting_times()
        self._process_until(max(time, int(times.min())) if len(times) else time)
        if len(self._waiting[0]):
            self._schedule()

    def finish(self) -> None:
        if not self._spec.is_event_time and self._others:
            self._process_until(int(self._waiting_times().max(initial=self._clock.current_time_ms())))

    def _waiting_times(self) -> np.ndarray:
        return self._rows.ints(_TIME, np.concatenate(self._waiting))

    def _process_until(self, now: int) -> None:
        """Matches all waiting rows up to a time, and drops partial matches that are too old by then."""
        if not self._spec.is_event_time:
            self._done_until = max(self._done_until, now)
        waiting, times = np.concatenate(self._waiting), self._waiting_times()
        is_due = times <= now
        due = waiting[is_due]
        self._waiting = [waiting[~is_due]]
        slots = self._rows.slots_of_rows(due)
        timed_out, _ = self._timeouts.pop_until(now)
        if len(timed_out):
            # The number of a partial match that is gone may be that of a later one.
            old = np.unique(timed_out[self._partials.exists(timed_out)])
            late_slots = self._rows.find(self._partials.take(old))
            slots = np.concatenate([slots, late_slots])
        if len(slots):
            self._match(due, np.unique(slots), now)

    def _note_timeouts(self, partials: np.ndarray) -> None:
        if not self._window_ms:
            return
        if len(self._timeouts) + len(partials) > self._max_timeouts:
            # A partial match that goes on is stored anew, so most of the noted ones may be gone.
            self._timeouts = RowsByTime(self._window_ms // _TIMEOUT_BUCKETS)
            partials = self._partials.live_rows()
            self._max_timeouts = max(_MIN_TIMEOUTS, 2 * len(partials))
        self._timeouts.add(partials, self._partials.ints(_BEGIN_TIME, partials) + self._window_ms)

    # -- matching ----------------------------------------------------------------------------------------------------

    def _match(self, due: np.ndarray, slots: np.ndarray, now: int) -> None:
        rows, key_of_row, first_new = self._sorted_rows(due, slots)
        table = self._rows
        times = table.ints(_TIME, rows)
        columns = pa.RecordBatch.from_arrays(table.take(rows), schema=self._schema)
        ends = np.searchsorted(key_of_row, np.arange(len(slots)), side="right")
        begins = np.append(0, ends[:-1])
        prepared = self._conditions.prepare(columns)
        can_begin = self._conditions.can_begin(self._automaton.first_takes, prepared)
        advance = self._advance_asking if prepared.has_external else self._advance
        first_rows = pa.array(begins)
        keys = [column.take(first_rows) for column in table.layout.key_columns(columns.columns)]
        stored, partial_ends, partials, counts = self._stored_partials(keys, begins)
        status, failed, found, matches, match_counts, num_left, left, left_counts, left_ends = advance(
            ends,
            first_new,
            times,
            can_begin,
            self._automaton.arrays,
            self._automaton.start,
            len(self._counts),
            prepared.kinds,
            prepared.masks,
            prepared.programs,
            partial_ends,
            partials,
            counts,
            self._window_ms,
            now,
            self._automaton.skip_mode,
            self._automaton.skip_variable,
        )
        if status != match_kernel.DONE:
            self._fail(status, [column[int(failed)].as_py() for column in keys])
        width = len(self._counts)
        kept = np.asarray(left[: 3 * num_left], dtype=np.int64).reshape(-1, 3)
        kept_counts = np.asarray(left_counts[: num_left * width], dtype=np.int64).reshape(-1, width)
        key_of_kept = np.searchsorted(left_ends, np.arange(num_left), side="right")
        self._partials.remove(stored)
        self._keep(rows, key_of_row, times, keys, ends, kept, kept_counts, key_of_kept)
        if found:
            pairs = np.asarray(matches[: 2 * found], dtype=np.int64).reshape(-1, 2)
            taken = np.asarray(match_counts[: found * width], dtype=np.int64).reshape(-1, width)
            self._emit(columns, times, pairs[:, 0], pairs[:, 1], taken, now, rows)

    def _sorted_rows(self, due: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the kept and the due rows of keys: those of one key together, in the order of matching.

        Returns: int64[n]: the rows; int64[n]: the place of each row's key in `slots`; int64[number of keys]: the place
            of the first due row of each key.
        """
        table = self._rows
        positions, all_rows = table.rows_of(slots)
        is_done = table.ints(_IS_DONE, all_rows) == 1
        rows = np.concatenate([all_rows[is_done], due])
        key_of_row = np.concatenate([positions[is_done], np.searchsorted(slots, table.slots_of_rows(due))])
        num_done = len(rows) - len(due)
        keys = [table.ints(_TIME, rows), key_of_row]
        if self._others and len(rows):
            keys.insert(0, order_codes(table.take(rows, [each.column for each in self._others]), self._others))
        order = np.lexsort((table.sequence(rows), *keys))
        done_per_key = np.bincount(key_of_row[:num_done], minlength=len(slots))
        rows, key_of_row = rows.take(order), key_of_row.take(order)
        begins = np.searchsorted(key_of_row, np.arange(len(slots)))
        return rows, key_of_row, begins + done_per_key

    def _stored_partials(
        self, keys: list[pa.Array], begins: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the partial matches of keys: their rows, where those of each key end, and their numbers."""
        table = self._partials
        slots = table.find(keys)
        known = np.flatnonzero(slots >= 0)
        positions, rows = table.rows_of(slots[known])
        key_of = known.take(positions)
        ends = np.searchsorted(key_of, np.arange(len(slots)), side="right")
        partials = np.empty((len(rows), 3), dtype=np.int64)
        partials[:, 0] = table.ints(_STATE, rows)
        partials[:, 1] = table.ints(_START, rows) + begins.take(key_of)
        partials[:, 2] = table.ints(_PLACE, rows)
        counts = np.empty((len(rows), len(self._counts)), dtype=np.int64)
        for place, name in enumerate(self._counts):
            counts[:, place] = table.ints(name, rows)
        return rows, ends, partials.reshape(-1), counts.reshape(-1)

    def _keep(
        self,
        rows: np.ndarray,
        key_of_row: np.ndarray,
        times: np.ndarray,
        keys: list[pa.Array],
        ends: np.ndarray,
        kept: np.ndarray,
        counts: np.ndarray,
        key_of_kept: np.ndarray,
    ) -> None:
        """Stores partial matches, marks the rows from the first one of them on, and removes the others."""
        first = ends.copy()
        np.minimum.at(first, key_of_kept, kept[:, 1])
        is_needed = np.arange(len(rows)) >= first.take(key_of_row)
        needed = rows[is_needed]
        self._rows.set_ints(_IS_DONE, needed, np.ones(len(needed), dtype=np.int64))
        self._rows.remove(rows[~is_needed])
        if not len(kept):
            return
        table = self._partials
        indices = pa.array(key_of_kept)
        columns = [column.take(indices) for column in keys]
        ints = {
            _STATE: kept[:, 0],
            _START: kept[:, 1] - first.take(key_of_kept),
            _PLACE: kept[:, 2],
            _BEGIN_TIME: times.take(kept[:, 1]),
        }
        ints.update({name: counts[:, place] for place, name in enumerate(self._counts)})
        self._note_timeouts(table.add(table.slots_of(table.layout.key_columns(columns)), columns, ints))

    def _emit(
        self,
        columns: pa.RecordBatch,
        times: np.ndarray,
        starts: np.ndarray,
        found_at: np.ndarray,
        counts: np.ndarray,
        now: int,
        rows: np.ndarray,
    ) -> None:
        last = starts + counts.sum(axis=1) - 1
        at_end = now if now < MAX_WATERMARK else 0
        rowtimes = np.where(found_at >= 0, times.take(found_at), np.maximum(times.take(last), at_end))
        order = np.lexsort((np.arange(len(starts)), found_at, rowtimes))
        matches = MatchRows(starts[order], counts[order], rowtimes[order], self._clock.current_time_ms())
        first_rows = pa.array(matches.starts)
        arrays = [columns.column(each).take(first_rows) for each in self._spec.partition]
        arrays += self._measures.evaluate(columns, matches)
        fitted = [array.cast(field.type) for array, field in zip(arrays, self._output_schema, strict=True)]
        emit_columns(self.output, self._output_schema, fitted, None)

    def _fail(self, status: int, key: list[Any]) -> None:
        skip = self._spec.pattern.skip
        where = f"{self.context.environment.task_name}, operator {self.context.name}, key {tuple(key)}"
        if status == match_kernel.NO_ELEMENT:
            raise TableProgramError(f"{where}: Could not skip to {skip.variable}. No such element in the found match.")
        raise TableProgramError(
            f"{where}: Could not skip to first element of a match. AFTER MATCH {skip.mode.value} {skip.variable} would "
            "find the same match again."
        )


class Automaton:
    """The arrays of an automaton for the loop.

    Attributes:
        first_takes: the conditions of each TAKE of a match's first row: the variable that accepts it, and those that
            must not.
    """

    def __init__(self, spec: MatchSpec) -> None:
        nfa = compile_pattern(spec.pattern)
        transitions = [each for state in nfa.states for each in state.transitions]
        firsts = np.cumsum([0, *(len(state.transitions) for state in nfa.states)])
        rejects = [variable for each in transitions for variable in each.rejects]
        self.arrays = tuple(
            np.array(values, dtype=np.int64)
            for values in (
                [state.variable for state in nfa.states],
                firsts,
                [int(each.action) for each in transitions],
                [each.target for each in transitions],
                [-1 if each.accepts is None else each.accepts for each in transitions],
                np.cumsum([0, *(len(each.rejects) for each in transitions)]),
                rejects or [0],
            )
        )
        self.start = nfa.start
        skip = spec.pattern.skip
        self.skip_mode = _SKIP_MODES[skip.mode]
        self.skip_variable = 0 if skip.variable is None else spec.pattern.names.index(skip.variable)
        self.first_takes: list[tuple[int | None, list[int]]] = []
        pending, seen = [nfa.start], set()
        while pending:
            number = pending.pop()
            seen.add(number)
            for each in nfa.states[number].transitions:
                if each.action is TransitionAction.TAKE:
                    self.first_takes.append((each.accepts, each.rejects))
                elif each.target not in seen:
                    pending.append(each.target)
