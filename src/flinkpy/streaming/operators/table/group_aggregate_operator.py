"""GroupAggregateOperator: GROUP BY without windows, over a changelog.

Without a mini-batch it emits what a record-at-a-time engine emits: the change of a group's result after each row. With
a mini-batch it emits one change per group and bundle. A group whose last row is taken back is deleted. Rows that are
taken back from a group without rows are ignored.

Source: org.apache.flink.table.runtime.operators.aggregate.GroupAggFunction, MiniBatchGroupAggFunction.
Differs: the time-to-live of a group is also that of its distinct values. In Flink each distinct value has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import GlobalGroupAggregateSpec, GroupAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_groups import RowGroups, kernels, running_counts, running_sums
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
from flinkpy.streaming.operators.table.bundle import Bundle
from flinkpy.streaming.operators.table.changelog import keyed_changelog
from flinkpy.streaming.operators.table.group_expiry import UPDATED, GroupExpiry

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

TABLE_NAME = "groups"


class GroupAggregateOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: GroupAggregateSpec | GlobalGroupAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self.function = UserAggregates(spec.aggregates)
        self._spec = spec
        self._input_type = input_type
        self._input_schema: pa.Schema = schema_of(input_type.row_type)
        self._output_schema: pa.Schema = schema_of(spec.output_type.row_type)
        self._arguments_schema = self._input_schema
        self._grouping = spec.grouping
        if isinstance(spec, GlobalGroupAggregateSpec):
            self._arguments_schema = schema_of(spec.local_input_type.row_type)
            self._grouping = tuple(range(len(spec.grouping)))
        self._handler = AggregateHandler(spec.aggregates, self._arguments_schema, spec.needs_retraction, context.name)
        self._ttl_ms = spec.state_ttl_ms
        self._expiry: GroupExpiry | None = None
        self._bundle: Bundle | None = None
        if spec.mini_batch is not None:
            self._bundle = Bundle(spec.mini_batch, context.processing_time_service, self._process_bundle)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        columns = self._table_columns()
        if self._ttl_ms:
            columns.append(UPDATED)
        self._table = self.backend.group_table(TABLE_NAME, key_types(self._input_schema, self._grouping), columns)
        if self._ttl_ms:
            self._expiry = GroupExpiry(self._table, self._ttl_ms, self.context.processing_time_service)
        self._handler.create_maps(self.backend, self._table, self._arguments_schema)
        kernels.warm_up()

    def _table_columns(self) -> list[AggregateColumn]:
        """Returns the accumulators that the state has for each group."""
        return list(self._handler.columns)

    # -- data ----------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._bundle is not None:
            self._bundle.add(batch)
            return
        assert isinstance(batch.values, pa.RecordBatch)
        self._process(batch.values, weights_of(batch.kinds), is_running=True)

    def process_watermark(self, watermark: Watermark) -> None:
        if self._bundle is not None:
            self._bundle.finish()
        super().process_watermark(watermark)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        if self._bundle is not None:
            self._bundle.finish()

    def finish(self) -> None:
        if self._bundle is not None:
            self._bundle.finish()

    def _process_bundle(self, batch: Batch) -> None:
        assert isinstance(batch.values, pa.RecordBatch)
        self._process(batch.values, weights_of(batch.kinds), is_running=False)

    def _process(self, columns: pa.RecordBatch, weights: np.ndarray | None, is_running: bool) -> None:
        table = self._table
        slots = table.slots_of(key_columns(columns, self._grouping))
        if self._expiry is not None:
            self._expiry.expire(slots)
        number, first_rows = table.number_rows(slots)
        group_slots = slots.take(first_rows)
        groups = RowGroups(number, group_slots, ~table.is_live.take(group_slots))
        is_deleted = None
        if weights is not None:
            is_ignored = self._ignored(groups, weights, is_running)
            if is_ignored.any():
                rows = np.flatnonzero(~is_ignored)
                if len(rows):
                    self._process(columns.take(pa.array(rows)), weights.take(rows), is_running)
                return
            if is_running:
                groups, is_deleted = self._lives(groups, weights)
        results = self._handler.update(table, groups, columns, weights, is_running)
        if weights is not None and not is_running:
            counts = results[self._count].slice(groups.num_groups).to_numpy()
            is_deleted = counts == 0
        self._note(groups, is_deleted, is_running)
        self._emit(columns, groups, first_rows, results, is_deleted, is_running)

    @property
    def _count(self) -> int:
        position = self._handler.count
        assert position is not None, "rows are taken back although the input was declared as insert-only"
        return position

    # -- lives of groups -----------------------------------------------------------------------------------------

    def _ignored(self, groups: RowGroups, weights: np.ndarray, is_running: bool) -> np.ndarray:
        """Returns bool[n]: true for rows that are taken back from a group without rows.

        In a bundle these are only the rows before the first one that is added.
        """
        takes_back = weights < 0
        if not is_running:
            none = np.zeros(groups.num_groups, dtype=np.int64)
            added = running_sums(groups, none, (~takes_back).astype(np.int64))
            return takes_back & (added == 0) & groups.is_fresh.take(groups.group)
        before = self._counts_before(groups)
        counts = running_counts(groups, before, weights)
        previous = groups.previous
        was = np.where(previous < 0, before.take(groups.group), counts.take(previous))
        return takes_back & (was == 0)

    def _counts_before(self, groups: RowGroups) -> np.ndarray:
        return groups.before(self._table.accumulators[self._count].arrays[0], 0)

    def _lives(self, groups: RowGroups, weights: np.ndarray) -> tuple[RowGroups, np.ndarray]:
        """Splits groups that are deleted and begin again.

        Returns: the groups, and bool[n]: true for the rows that delete their group.
        """
        is_deleted = running_counts(groups, self._counts_before(groups), weights) == 0
        if not is_deleted.any():
            return groups, is_deleted
        none = np.zeros(groups.num_groups, dtype=np.int64)
        deaths = is_deleted.astype(np.int64)
        life = running_sums(groups, none, deaths) - deaths
        lives = life.take(groups.last_rows)
        if not lives.any():
            return groups, is_deleted
        offsets = np.cumsum(lives + 1) - (lives + 1)
        number = offsets.take(groups.group) + life
        parents = np.repeat(np.arange(groups.num_groups), lives + 1)
        of_parent = np.arange(len(parents)) - np.repeat(offsets, lives + 1)
        split = RowGroups(
            number,
            groups.slots.take(parents),
            groups.is_fresh.take(parents) | (of_parent > 0),
            of_parent == lives.take(parents),
        )
        return split, is_deleted

    def _note(self, groups: RowGroups, is_deleted: np.ndarray | None, is_running: bool) -> None:
        """Notes which groups exist after the batch."""
        slots = groups.slots
        if is_deleted is None or not is_deleted.any():
            self._table.set_live(slots)
        else:
            is_gone = is_deleted.take(groups.last_rows) if is_running else is_deleted
            if groups.is_last is not None:
                slots, is_gone = slots[groups.is_last], is_gone[groups.is_last]
            self._table.set_live(slots[~is_gone])
            self._table.remove(slots[is_gone])
        if self._expiry is not None:
            self._expiry.note_updated(slots)

    # -- results -------------------------------------------------------------------------------------------------

    def _emit(
        self,
        columns: pa.RecordBatch,
        groups: RowGroups,
        first_rows: np.ndarray,
        results: list[pa.Array],
        is_deleted: np.ndarray | None,
        is_running: bool,
    ) -> None:
        num_groups = groups.num_groups
        keys = [columns.column(position) for position in self._grouping]
        if is_running:
            previous = groups.previous
            is_at_start = previous < 0
            old = np.where(is_at_start, groups.group, num_groups + previous)
            new = np.arange(num_groups, num_groups + groups.num_rows)
            is_first = is_at_start & groups.is_fresh.take(groups.group)
        else:
            old, new, is_first = np.arange(num_groups), np.arange(num_groups, 2 * num_groups), groups.is_fresh
            indices = pa.array(first_rows)
            keys = [key.take(indices) for key in keys]
        changelog = keyed_changelog(
            keys,
            results[: len(self._spec.aggregates)],
            old,
            new,
            is_first,
            is_deleted,
            self._ttl_ms > 0,
            self._spec.generate_update_before,
            self._output_schema,
        )
        if changelog is not None:
            self.output.emit(changelog)
