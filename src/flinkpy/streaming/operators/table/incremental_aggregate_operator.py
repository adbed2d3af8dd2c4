"""IncrementalGroupAggregateOperator: the phases between the two exchanges of a split aggregation of distinct values.

The partial aggregation groups by a bucket of the distinct values, too. Its state has these values, and nothing else:
what a mini-batch adds to COUNT, SUM, MIN and MAX does not depend on what came before. So the operator emits, per group
of the final aggregation, the accumulators of the mini-batch, in which a value counts that its bucket has not seen.

Rows may not be taken back.

Source: org.apache.flink.table.runtime.operators.aggregate.MiniBatchIncrementalGroupAggFunction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import IncrementalGroupAggregateSpec
from flinkpy.sql.types.arrow import schema_of
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.group_table import GroupTable, TableLayout
from flinkpy.state.row_groups import RowGroups
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.aggregate_handler import AggregateHandler, key_columns
from flinkpy.streaming.operators.table.changelog import fitted
from flinkpy.streaming.operators.table.group_aggregate_operator import GroupAggregateOperator
from flinkpy.streaming.operators.table.two_phase_operators import accumulated


class IncrementalGroupAggregateOperator(GroupAggregateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: IncrementalGroupAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_type, context, output, side_outputs)
        self._partial_schema = schema_of(spec.partial_type.row_type)
        self._final_grouping = spec.final_grouping
        self._final = AggregateHandler(spec.final_aggregates, self._partial_schema, False, context.name)

    def _table_columns(self) -> list[AggregateColumn]:
        return []

    def _process(self, columns: pa.RecordBatch, weights: np.ndarray | None, is_running: bool) -> None:
        width = len(self._grouping)
        table = self._table
        slots = table.slots_of(key_columns(columns, self._grouping))
        if self._expiry is not None:
            self._expiry.expire(slots)
        number, first_rows = table.number_rows(slots)
        in_state = RowGroups(number, slots.take(first_rows), ~table.is_live.take(slots.take(first_rows)))
        partial = self._partial_of_batch(columns.columns[width:], in_state)
        has_values = self._has_values(columns, number, len(first_rows))
        table.set_live(in_state.slots[has_values])
        if self._expiry is not None:
            self._expiry.note_updated(in_state.slots[has_values])
        indices = pa.array(first_rows)
        made = [columns.column(each).take(indices) for each in self._grouping] + partial
        arrays = [fitted(each, of.type) for each, of in zip(made, self._partial_schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._partial_schema)
        self.output.emit(accumulated(self._final, self._final_grouping, rows, None))

    def _partial_of_batch(self, accumulators: list[pa.Array], in_state: RowGroups) -> list[pa.Array]:
        """Returns the aggregates of each partial group over the mini-batch, without values that it had before."""
        count = in_state.num_groups
        table = GroupTable(TableLayout((pa.int64(),), tuple(self._handler.columns)))
        slots = table.slots_of([pa.array(np.arange(count))])
        groups = RowGroups(in_state.group, slots, np.ones(count, dtype=bool))
        results = self._handler.merge(table, groups, accumulators, in_state)
        return [each.slice(count) for each in results]

    def _has_values(self, columns: pa.RecordBatch, number: np.ndarray, count: int) -> np.ndarray:
        """Returns bool[m]: true for the groups that have distinct values. The others need no state."""
        found = np.zeros(count, dtype=bool)
        num_lists = sum(len(view.arguments) + len(view.filters) for view in self._handler.views)
        for each in columns.columns[columns.num_columns - num_lists :]:
            found[number[each.value_lengths().to_numpy(zero_copy_only=False) > 0]] = True
        return found
