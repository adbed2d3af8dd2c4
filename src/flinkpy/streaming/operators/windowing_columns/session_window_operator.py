"""SessionWindowOperator: session windows over columns.

The records of a batch and the open sessions of their keys are merged in one vectorised pass. If a record may be late,
or makes a session fire immediately, the result depends on the records before it. The records of such keys are processed
in turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.operator_specs import WindowAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.session_table import SessionTable
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.windowing_columns.column_window_operator import (
    TABLE_NAME,
    ColumnWindowOperator,
    turns_of,
)


class SessionWindowOperator(ColumnWindowOperator):
    """Runs session windows over columns. Thread: task thread."""

    def __init__(
        self,
        spec: WindowAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_type, context, output, side_outputs)
        assert spec.gap_ms is not None
        self._gap = spec.gap_ms
        self._lateness = spec.allowed_lateness_ms if spec.is_event_time else 0

    def create_table(self, key_types: list[pa.DataType], aggregates: list[AggregateColumn]) -> None:
        self._table: SessionTable = self.backend.session_table(TABLE_NAME, key_types, aggregates)

    # -- records -----------------------------------------------------------------------------------------------------

    def add(self, batch: Batch, key_columns: list[pa.Array], value_columns: list[pa.Array | None]) -> None:
        starts = batch.timestamps
        assert starts is not None
        numbers = self._table.numbers_of(key_columns)
        if int(starts.min()) + self._gap - 1 > self.latest_progress:
            self._table.add(numbers, starts, starts + self._gap, value_columns)
            return
        self._add_in_turns(batch, numbers, self.progress_of(key_columns))

    def _add_in_turns(self, batch: Batch, numbers: np.ndarray, progress: Any) -> None:
        """Adds a batch with records whose session, if it had only this record, would have ended already."""
        starts = batch.timestamps
        assert starts is not None
        is_over = starts + self._gap - 1 <= progress
        has_over = np.zeros(self._table.num_keys, dtype=bool)
        has_over[numbers[is_over]] = True
        in_turn = has_over.take(numbers)
        self._add_rows(batch, numbers, np.flatnonzero(~in_turn))
        # Drop late records whose key has no open session and no record in the batch that is on time.
        is_late = starts + self._gap - 1 + self._lateness <= progress
        has_place = np.zeros(self._table.num_keys, dtype=bool)
        has_place[numbers[~is_late]] = True
        is_dropped = is_late & ~has_place.take(numbers) & ~self._table.has_sessions(numbers)
        progress = np.broadcast_to(progress, len(numbers))
        fired: list[tuple[np.ndarray, ...]] = []
        rows = np.flatnonzero(in_turn & ~is_dropped)
        for turn in turns_of(numbers.take(rows), is_over.take(rows)):
            self._take_turn(batch, numbers, rows.take(turn), is_late, is_over, is_dropped, progress, fired)
        if is_dropped.any():
            self.late(batch, is_dropped)
        self._emit_fired(fired)

    def _take_turn(
        self,
        batch: Batch,
        numbers: np.ndarray,
        rows: np.ndarray,
        is_late: np.ndarray,
        is_over: np.ndarray,
        is_dropped: np.ndarray,
        progress: np.ndarray,
        fired: list[tuple[np.ndarray, ...]],
    ) -> None:
        """Adds the records of one turn. Only records that are on time may share their key with others."""
        table = self._table
        assert batch.timestamps is not None
        starts = batch.timestamps.take(rows)
        drops = is_late.take(rows) & ~table.touches(numbers.take(rows), starts, starts + self._gap)
        is_dropped[rows[drops]] = True
        rows = rows[~drops]
        slots = self._add_rows(batch, numbers, rows)
        if slots is None:
            return
        fires = is_over.take(rows) & (table.ends(slots) - 1 <= progress.take(rows))
        if fires.any():
            rows, slots = rows[fires], slots[fires]
            results = table.results(slots)
            fired.append((rows, table.key_numbers(slots), table.starts(slots), table.ends(slots), *results))

    def _emit_fired(self, fired: list[tuple[np.ndarray, ...]]) -> None:
        """Emits the fired sessions in the order of the records."""
        if not fired:
            return
        rows, keys, starts, ends = (np.concatenate([part[i] for part in fired]) for i in range(4))
        order = np.argsort(rows, kind="stable")
        results = [pa.concat_arrays(parts).take(pa.array(order)) for parts in list(zip(*fired))[4:]]
        key_columns = self._table.keys(keys.take(order))
        self.emit(key_columns, starts.take(order), ends.take(order), results, again=True)

    def _add_rows(self, batch: Batch, numbers: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        if not len(rows):
            return None
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch) and batch.timestamps is not None and self.inputs is not None
        starts = batch.timestamps.take(rows)
        values = self.inputs.value_columns(columns.take(pa.array(rows)))
        return self._table.add(numbers.take(rows), starts, starts + self._gap, values)

    # -- results -----------------------------------------------------------------------------------------------------

    def fire(self, time: int) -> None:
        table = self._table
        slots = table.take_ended(time)
        due = slots[table.ends(slots) - 1 > self.fired_until]
        # Emit sessions in the order of their ends, and of keys in the order of their first records.
        due = due[np.argsort(table.key_numbers(due), kind="stable")]
        due = due[np.argsort(table.ends(due), kind="stable")]
        if len(due):
            key_columns = table.keys(table.key_numbers(due))
            self.emit(key_columns, table.starts(due), table.ends(due), table.results(due), again=False)
        table.drop(table.take_expired(slots, time - self._lateness) if self._lateness else slots)

    def next_end(self) -> int | None:
        end = self._table.first_end
        return None if end is None else max(end - 1, self.fired_until + 1)
