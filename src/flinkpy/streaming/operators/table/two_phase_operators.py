"""The two phases of GROUP BY with mini-batches.

LocalGroupAggregateOperator aggregates each bundle before the exchange, and GlobalGroupAggregateOperator merges the
accumulators. An exchange then carries one row per group and bundle, also if all rows belong to a few groups.

The local output has the grouping columns, then the accumulators: of the aggregates with the distinct values left out,
of a hidden COUNT(*) if rows may be taken back, and of each distinct view the lists of its values and of their counts.

Source: org.apache.flink.table.runtime.operators.aggregate.MiniBatchLocalGroupAggFunction,
MiniBatchGlobalGroupAggFunction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import LocalGroupAggregateSpec, SplitLocalGroupAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.group_table import GroupTable
from flinkpy.state.row_groups import RowGroups, kernels
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.aggregate_handler import (
    AggregateHandler,
    key_columns,
    key_types,
    weights_of,
)
from flinkpy.streaming.operators.table.bundle import Bundle
from flinkpy.streaming.operators.table.group_aggregate_operator import GroupAggregateOperator


class LocalGroupAggregateOperator(StreamOperator):
    """The first phase. It has no state, because bundles end before barriers. Thread: task thread."""

    def __init__(
        self,
        spec: LocalGroupAggregateSpec | SplitLocalGroupAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._schema = schema_of(input_type.row_type)
        needs_retraction = isinstance(spec, LocalGroupAggregateSpec) and spec.needs_retraction
        self._handler = AggregateHandler(spec.aggregates, self._schema, needs_retraction, context.name)
        self._bundle = Bundle(spec.mini_batch, context.processing_time_service, self._process)
        kernels.warm_up()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._bundle.add(batch)

    def process_watermark(self, watermark: Watermark) -> None:
        self._bundle.finish()
        super().process_watermark(watermark)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._bundle.finish()

    def finish(self) -> None:
        self._bundle.finish()

    def _process(self, batch: Batch) -> None:
        assert isinstance(batch.values, pa.RecordBatch)
        self.output.emit(accumulated(self._handler, self._spec.grouping, batch.values, weights_of(batch.kinds)))


def accumulated(
    handler: AggregateHandler, grouping: tuple[int, ...], columns: pa.RecordBatch, weights: np.ndarray | None
) -> Batch:
    """Returns the local output for these rows: the grouping columns, then the accumulators."""
    table = GroupTable(TableLayout(tuple(key_types(columns.schema, grouping)), tuple(handler.columns)))
    slots = table.slots_of(key_columns(columns, grouping))
    number, first_rows = table.number_rows(slots)
    groups = RowGroups(number, slots.take(first_rows), np.ones(len(first_rows), dtype=bool))
    indices = pa.array(first_rows)
    output = [columns.column(position).take(indices) for position in grouping]
    output += handler.local_columns(table, groups, columns, weights)
    names = [columns.schema.names[position] for position in grouping]
    names += [f"${position}" for position in range(len(output) - len(names))]
    return Batch(pa.RecordBatch.from_arrays(output, names=names))


class GlobalGroupAggregateOperator(GroupAggregateOperator):
    """The second phase. Thread: task thread."""

    def _process(self, columns: pa.RecordBatch, weights: np.ndarray | None, is_running: bool) -> None:
        table = self._table
        slots = table.slots_of(key_columns(columns, self._grouping))
        if self._expiry is not None:
            self._expiry.expire(slots)
        number, first_rows = table.number_rows(slots)
        group_slots = slots.take(first_rows)
        groups = RowGroups(number, group_slots, ~table.is_live.take(group_slots))
        results = self._handler.merge(table, groups, columns.columns[len(self._grouping) :])
        is_deleted = None
        if self._spec.needs_retraction:
            is_deleted = results[self._count].slice(groups.num_groups).to_numpy() == 0
        self._note(groups, is_deleted, is_running=False)
        self._emit(columns, groups, first_rows, results, is_deleted, is_running=False)
