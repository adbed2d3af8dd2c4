"""Operators that keep one row per key: DeduplicateOperator and ChangelogNormalizeOperator.

Each change of a batch that counts is followed by the next one of its key, so the row before a change is that of the
previous change, or the stored row. The changelog is computed from these pairs, without a loop over rows. With a
mini-batch only the last change of each key counts.

Source: org.apache.flink.table.runtime.operators.deduplicate.{DeduplicateFunctionHelper,RowTimeDeduplicateFunction,
ProcTimeDeduplicateKeepFirstRowFunction,ProcTimeDeduplicateKeepLastRowFunction}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import ChangelogNormalizeSpec, DeduplicateSpec, MiniBatch
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.segments import Groups
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.bundle import Bundle
from flinkpy.streaming.operators.table.changelog import keyed_changelog
from flinkpy.streaming.operators.table.conditions import pair_condition
from flinkpy.streaming.operators.table.order_codes import exact_times
from flinkpy.streaming.operators.table.table_inputs import (
    MAX_ROWS,
    columns_of,
    emit_columns,
    input_schema,
    is_addition,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_STATE_NAME = "last-row"


class LastRowOperator(KeyedStateOperator):
    """The base class. Thread: task thread.

    Args:
        key: the columns of the key.
        keeps_unchanged: True to emit updates that change nothing.
    """

    def __init__(
        self,
        spec: DeduplicateSpec | ChangelogNormalizeSpec,
        key: tuple[int, ...],
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
        mini_batch: MiniBatch | None,
        keeps_unchanged: bool,
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._key = key
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._output_schema = self._schema if spec.output_type is None else input_schema(spec.output_type)
        self._ttl_ms = spec.state_ttl_ms
        self._generate_update_before = spec.generate_update_before
        self._keeps_unchanged = keeps_unchanged or spec.state_ttl_ms > 0
        self._bundle: Bundle | None = None
        if mini_batch is not None:
            self._bundle = Bundle(mini_batch, context.processing_time_service, self._process)
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[0], self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._table = self.backend.row_table(_STATE_NAME, self._layout())

    def _layout(self) -> RowLayout:
        return RowLayout(tuple(self._schema.types), self._key, (), ttl_ms=self._ttl_ms)

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._bundle is not None:
            self._bundle.add(batch)
        else:
            self._process(batch)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        if self._bundle is not None:
            self._bundle.finish()

    def process_watermark(self, watermark: Watermark) -> None:
        if self._bundle is not None:
            self._bundle.finish()
        super().process_watermark(watermark)

    def finish(self) -> None:
        if self._bundle is not None:
            self._bundle.finish()

    def _process(self, batch: Batch) -> None:
        columns = columns_of(batch, self._input_type)
        table = self._table
        slots = table.slots_of(table.layout.key_columns(columns))
        is_add = self._additions(batch, columns)
        rows = table.row_of(slots)
        counting = self._counting(columns, slots, rows)
        if counting is not None:
            table_slots, slots = slots, slots[counting]
            rows, is_add = rows[counting], is_add[counting]
            table.forget_empty(np.setdiff1d(table_slots, slots))
            columns = [column.take(pa.array(counting)) for column in columns]
        if len(slots):
            self._change(columns, slots, rows, is_add)

    def _additions(self, batch: Batch, columns: list[pa.Array]) -> np.ndarray:
        """Returns bool[n]: true for changes after which the row is there, false for those that remove it."""
        return is_addition(batch.kinds, batch.num_rows)

    def _counting(self, columns: list[pa.Array], slots: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Returns int64[m]: the changes that count, ascending; None for all.

        Args:
            slots, rows: the slot of each change's key, and its stored row; negative if there is none.
        """
        return None

    def _change(self, columns: list[pa.Array], slots: np.ndarray, rows: np.ndarray, is_add: np.ndarray) -> None:
        """Emits the changelog of changes of which all count, and stores the last row of each key."""
        groups = Groups(slots)
        known = np.unique(rows[groups.firsts])
        known = known[known >= 0]
        # Elements: the stored rows, then the changes. The row before the first change of a key is a stored one.
        before = np.empty(len(slots), dtype=np.int64)
        before[groups.order[1:]] = groups.order[:-1] + len(known)
        before[groups.firsts] = np.searchsorted(known, rows[groups.firsts])
        was_there = np.empty(len(slots), dtype=bool)
        was_there[groups.order[1:]] = is_add[groups.order[:-1]]
        was_there[groups.firsts] = rows[groups.firsts] >= 0
        changes = np.arange(len(slots))
        if self._bundle is not None:
            changes = groups.lasts
            before[changes], was_there[changes] = before[groups.firsts], was_there[groups.firsts]
            changes = np.sort(changes)
        results = columns
        if len(known):
            results = [pa.concat_arrays(pair) for pair in zip(self._table.take(known), columns)]
        self._emit(results, changes, before, was_there, is_add, len(known))
        lasts = np.sort(groups.lasts)
        indices = pa.array(lasts)
        kept = is_add[lasts]
        self._table.apply([column.take(indices) for column in columns], None if kept.all() else kept)

    def _emit(
        self,
        results: list[pa.Array],
        changes: np.ndarray,
        before: np.ndarray,
        was_there: np.ndarray,
        is_add: np.ndarray,
        num_stored: int,
    ) -> None:
        gone = ~is_add[changes]
        batch = keyed_changelog(
            [],
            results,
            before[changes],
            changes + num_stored,
            ~was_there[changes],
            gone if gone.any() else None,
            self._keeps_unchanged,
            self._generate_update_before,
            self._output_schema,
        )
        if batch is not None:
            for start in range(0, batch.num_rows, MAX_ROWS):
                self.output.emit(batch.slice(start, min(MAX_ROWS, batch.num_rows - start)))


class DeduplicateOperator(LastRowOperator):
    """Keeps the first or the last row of each key, by event time or by arrival."""

    def __init__(
        self,
        spec: DeduplicateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        # By event time each row that counts is an update, even if only its time differs from that of the row before.
        by_time = spec.time_column is not None
        super().__init__(spec, spec.key, input_type, context, output, side_outputs, spec.mini_batch, by_time)
        self._spec = spec
        #: True to keep the first row to arrive. Then it never changes, and only the keys are stored.
        self._keeps_first_arrival = spec.time_column is None and not spec.keep_last

    def _layout(self) -> RowLayout:
        if not self._keeps_first_arrival:
            return super()._layout()
        types = tuple(self._schema.types[column] for column in self._key)
        return RowLayout(types, tuple(range(len(types))), (), ttl_ms=self._ttl_ms)

    def _process(self, batch: Batch) -> None:
        takes_all = not self._spec.input_insert_only and self._spec.time_column is None
        if not takes_all and not is_addition(batch.kinds, batch.num_rows).all():
            raise UnsupportedOperationError(
                f"operator {self.context.name}: this deduplication takes no DELETE and no UPDATE_BEFORE rows"
            )
        if self._keeps_first_arrival:
            self._keep_first(batch)
        else:
            super()._process(batch)

    def _keep_first(self, batch: Batch) -> None:
        columns = columns_of(batch, self._input_type)
        keys = [columns[column] for column in self._key]
        table = self._table
        slots = table.slots_of(table.layout.key_columns(keys))
        new = Groups(slots).firsts
        new = np.sort(new[table.row_of(slots[new]) < 0])
        if not len(new):
            return
        indices = pa.array(new)
        table.apply([column.take(indices) for column in keys], None)
        emit_columns(self.output, self._output_schema, [column.take(indices) for column in columns], None)

    def _counting(self, columns: list[pa.Array], slots: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """A row counts if it is not before the last one so far, or if it is before the first one so far."""
        column = self._spec.time_column
        if column is None:
            return None
        times = exact_times(columns[column])
        groups = Groups(slots)
        firsts = rows[groups.firsts]
        known = firsts >= 0
        none = np.iinfo(np.int64).min
        if not self._spec.keep_last:
            times = ~times  # the first row is the last one in reverse order
        start = np.full(groups.count, none)
        if known.any():
            stored = exact_times(self._table.take(firsts[known], [column])[0])
            start[known] = stored if self._spec.keep_last else ~stored
        best = groups.running_maxima(times[groups.order])
        previous = np.empty_like(best)
        previous[1:] = best[:-1]
        previous[groups.starts] = none
        previous = np.maximum(previous, start[groups.group_of])
        in_order = times[groups.order]
        counts = in_order >= previous if self._spec.keep_last else (in_order > previous)
        if not self._spec.keep_last:
            is_first = np.zeros(len(slots), dtype=bool)
            is_first[groups.starts] = ~known
            counts |= is_first
        if counts.all():
            return None
        return np.sort(groups.order[counts])


class ChangelogNormalizeOperator(LastRowOperator):
    """Turns upserts into a changelog, in which a row that is there is not inserted again and what changes is named.

    A row that does not meet the condition counts as removed.
    """

    def __init__(
        self,
        spec: ChangelogNormalizeSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(
            spec, spec.unique_key, input_type, context, output, side_outputs, spec.mini_batch, keeps_unchanged=False
        )
        self._condition = pair_condition(spec.condition, spec.settings)

    def open(self) -> None:
        super().open()
        if self._condition is not None:
            self._condition.open(self.create_runtime_context())

    def close(self) -> None:
        if self._condition is not None:
            self._condition.close()
        super().close()

    def _additions(self, batch: Batch, columns: list[pa.Array]) -> np.ndarray:
        is_add = is_addition(batch.kinds, batch.num_rows)
        condition = self._condition
        if condition is None:
            return is_add
        return is_add & condition.mask([columns[column] for column in condition.columns], batch.num_rows)
