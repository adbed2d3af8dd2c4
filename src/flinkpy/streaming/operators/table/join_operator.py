"""StreamingJoinOperator: the join of two changelogs, whose rows are kept in two RowTables.

The rows of a batch come from one input, so the other side does not change while the batch is processed. Its pairs are
found together:

1. find the pairs of rows with equal keys, and keep those that meet the rest of the condition;
2. bring this side's table up to date;
3. emit the pairs. If the other side is outer, or the left side of a semi or anti join, then each of its rows has a
   number of associations. A row whose number leaves or reaches 0 is taken back or emitted padded with NULL.

The changelog is that of a join that processes one record after the other. With mini-batches, the changes of each side
are collected and folded first, and the resulting table is the same. Rows with NULL in a key that filters NULL
match nothing, so they are never stored.

Source: org.apache.flink.table.runtime.operators.join.stream.{StreamingJoinOperator,StreamingSemiAntiJoinOperator,
MiniBatchStreamingJoinOperator}.
Differs: Flink gives no order of the rows that match one record; here it is the order in which they were added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import JoinSpec, JoinType
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.segments import Groups
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.bundle import Bundle
from flinkpy.streaming.operators.table.bundle_folding import folded_identities, folded_rows
from flinkpy.streaming.operators.table.table_inputs import (
    DELETE,
    INSERT,
    MAX_ROWS,
    emit_columns,
    is_addition,
)
from flinkpy.streaming.operators.table.two_table_join import TABLE_NAMES, TwoTableJoinOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_ASSOCIATIONS = "associations"


class StreamingJoinOperator(TwoTableJoinOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: JoinSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_types, context, output, side_outputs)
        #: For each side: true if its rows have numbers of associations.
        self._counts = (self._is_outer[0] or self._is_semi_or_anti, self._is_outer[1])
        self._bundle: Bundle | None = None
        if spec.mini_batch is not None and not self._is_semi_or_anti:
            self._bundle = Bundle(spec.mini_batch, context.processing_time_service, self._process_bundle, num_inputs=2)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._tables = (self._create_table(0), self._create_table(1))

    def _create_table(self, side: int) -> RowTable:
        spec = self._spec
        input_spec = (spec.left_input, spec.right_input)[side]
        row_key = () if input_spec.join_key_is_unique else input_spec.unique_key
        layout = RowLayout(
            tuple(self._schemas[side].types),
            self._keys[side],
            row_key,
            (_ASSOCIATIONS,) if self._counts[side] else (),
            (spec.left_state_ttl_ms, spec.right_state_ttl_ms)[side],
        )
        return self.backend.row_table(TABLE_NAMES[side], layout)

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._bundle is None:
            self._process(batch, input_index)
        else:
            self._bundle.add(as_columnar(batch, self._input_types[input_index]), input_index)

    def process_watermark(self, watermark: Watermark) -> None:
        self._finish_bundle()
        super().process_watermark(watermark)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._finish_bundle()

    def finish(self) -> None:
        self._finish_bundle()

    def _finish_bundle(self) -> None:
        if self._bundle is not None:
            self._bundle.finish()

    def _process_bundle(self, *batches: Batch | None) -> None:
        """Joins the rows of a mini-batch. The side without padding comes first, so that less is padded in between."""
        for side in (0, 1) if self._spec.join_type is JoinType.RIGHT else (1, 0):
            batch = batches[side]
            batch = None if batch is None else self._folded(batch, side)
            if batch is not None and batch.num_rows:
                self._process(batch, side)

    def _folded(self, batch: Batch, side: int) -> Batch:
        """Returns the changes of one side without those that cancel each other out."""
        kinds = batch.kinds
        if kinds is None:
            return batch
        table = self._tables[side]
        words, is_add = table.identity_words(self._columns_of(batch, side)), is_addition(kinds, batch.num_rows)
        if table.layout.row_key is None:
            return batch.take(folded_rows(words, is_add))
        kept, kinds = folded_identities(words, is_add, kinds)
        folded = batch.take(kept)
        folded.kinds = kinds
        return folded

    def _process(self, batch: Batch, side: int) -> None:
        other = 1 - side
        columns = self._columns_of(batch, side)
        is_add = is_addition(batch.kinds, len(columns[0]))
        unmatchable = self._unmatchable(columns, side)
        positions, partners = self._pairs(columns, side, unmatchable)
        replaced = self._store(columns, side, is_add, unmatchable, positions)
        if self._is_semi_or_anti:
            if side == 0:
                self._emit_left(batch, columns, positions)
            else:
                self._emit_changed_left(batch, is_add, replaced, positions, partners)
        elif self._is_outer[side] or self._is_outer[other]:
            self._emit_outer(batch, columns, side, is_add, replaced, positions, partners)
        else:
            kinds = None if batch.kinds is None else batch.kinds[positions]
            self._emit_pairs(columns, side, positions, partners, kinds)

    def _pairs(
        self, columns: list[pa.Array], side: int, unmatchable: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds the pairs that meet the condition. Returns positions in the batch, ascending, and rows of the table."""
        positions, rows = self._tables[1 - side].rows_of(self._partner_slots(columns, side, unmatchable))
        return self._meeting(columns, side, positions, rows)

    def _store(
        self,
        columns: list[pa.Array],
        side: int,
        is_add: np.ndarray,
        unmatchable: np.ndarray | None,
        positions: np.ndarray,
    ) -> np.ndarray:
        """Brings the table of this side up to date. Returns a mask of the additions that replaced a row."""
        ints = {}
        if self._counts[side]:
            ints[_ASSOCIATIONS] = np.bincount(positions, minlength=len(is_add))
        changes = None if is_add.all() else is_add
        if unmatchable is None:
            return self._tables[side].apply(columns, changes, ints)
        kept = np.flatnonzero(~unmatchable)
        indices = pa.array(kept)
        replaced = np.zeros(len(is_add), dtype=bool)
        replaced[kept] = self._tables[side].apply(
            [column.take(indices) for column in columns],
            None if changes is None else changes[kept],
            {name: values[kept] for name, values in ints.items()},
        )
        return replaced

    # -- emission ----------------------------------------------------------------------------------------------------

    def _emit_outer(
        self,
        batch: Batch,
        columns: list[pa.Array],
        side: int,
        is_add: np.ndarray,
        replaced: np.ndarray,
        positions: np.ndarray,
        rows: np.ndarray,
    ) -> None:
        """Emits pairs, rows padded with NULL, and the changes of those of the other side."""
        pair_adds = is_add[positions]
        retracted = DELETE if self._is_outer[side] or batch.kinds is None else batch.kinds[positions]
        kinds = np.where(pair_adds, INSERT, retracted)
        entries = [(positions, rows, kinds, 4 * np.arange(len(rows)) + 1)]
        if self._is_outer[side]:
            alone = np.ones(len(is_add), dtype=bool)
            alone[positions] = False
            lonely = np.flatnonzero(alone)
            places = 4 * np.searchsorted(positions, lonely) - 1
            entries.append(
                (lonely, np.full(len(lonely), -1), np.where(is_add[lonely], INSERT, DELETE), places),
            )
        if self._is_outer[1 - side] and len(rows):
            before = self._associate(1 - side, rows, pair_adds, replaced[positions])
            revoked = np.flatnonzero(pair_adds & (before == 0))
            padded = np.flatnonzero(~pair_adds & (before == 1))
            nothing = np.full(len(revoked), -1)
            entries.append((nothing, rows[revoked], np.full(len(revoked), DELETE), 4 * revoked))
            nothing = np.full(len(padded), -1)
            entries.append((nothing, rows[padded], np.full(len(padded), INSERT), 4 * padded + 2))
        if len(entries) > 1:
            order = np.argsort(np.concatenate([entry[3] for entry in entries]), kind="stable")
            positions, rows, kinds = (
                np.concatenate([entry[part] for entry in entries])[order]
                for part in range(3)  # type: ignore[misc]
            )
        self._emit_pairs(columns, side, positions, rows, kinds.astype(np.int8))

    def _associate(self, side: int, rows: np.ndarray, is_add: np.ndarray, replaced: np.ndarray) -> np.ndarray:
        """Counts the associations of rows of a side. Returns int64[n]: for each pair, the number before it.

        A record that replaces one with the same unique key is no further association.
        """
        table = self._tables[side]
        groups = Groups(rows)
        base = table.ints(_ASSOCIATIONS, groups.keys)[groups.group_of]
        steps = np.where(is_add, np.where(replaced, 0, 1), -1)[groups.order]
        while True:
            after = base + groups.running_sums(steps)
            before = after - steps
            missing = (before == 0) & (steps == 0)
            if not missing.any():
                break
            # The replaced record was no association, so this one is the first. Only the first of each row is certain.
            first = np.flatnonzero(missing)
            first = first[np.append(True, groups.group_of[first[1:]] != groups.group_of[first[:-1]])]
            steps[first] = 1
        table.set_ints(_ASSOCIATIONS, groups.keys, after[groups.ends - 1])
        table.touch(groups.keys)
        by_pair = np.empty(len(rows), dtype=np.int64)
        by_pair[groups.order] = before
        return by_pair

    # -- semi and anti joins -----------------------------------------------------------------------------------------

    def _emit_left(self, batch: Batch, columns: list[pa.Array], positions: np.ndarray) -> None:
        matches = np.zeros(len(columns[0]), dtype=bool)
        matches[positions] = True
        emitted = np.flatnonzero(matches if self._spec.join_type is JoinType.SEMI else ~matches)
        if not len(emitted):
            return
        kinds = None if batch.kinds is None else batch.kinds[emitted]
        indices = pa.array(emitted)
        emit_columns(self.output, self._output_schema, [column.take(indices) for column in columns], kinds)

    def _emit_changed_left(
        self, batch: Batch, is_add: np.ndarray, replaced: np.ndarray, positions: np.ndarray, rows: np.ndarray
    ) -> None:
        if not len(rows):
            return
        pair_adds = is_add[positions]
        before = self._associate(0, rows, pair_adds, replaced[positions])
        changed = np.flatnonzero(np.where(pair_adds, before == 0, before == 1))
        kinds = np.full(len(is_add), INSERT) if batch.kinds is None else batch.kinds
        if self._spec.join_type is JoinType.ANTI:
            kinds = np.where(is_add, DELETE, INSERT)
        every = list(range(len(self._schemas[0])))
        for start in range(0, len(changed), MAX_ROWS):
            part = changed[start : start + MAX_ROWS]
            values = self._tables[0].take(rows[part], every)
            emit_columns(self.output, self._output_schema, values, kinds[positions[part]].astype(np.int8))
