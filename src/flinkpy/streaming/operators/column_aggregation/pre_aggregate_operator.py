"""PreAggregateOperator: aggregates columns before their exchange, so that fewer rows cross it.

It holds a bounded number of partial results. It stops grouping if that hardly reduces the number of rows.

Source: org.apache.flink.table.runtime.operators.aggregate.LocalHashAggCodeGenerator (adaptive local aggregation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import PreAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.aggregate_inputs import AggregateInputs
from flinkpy.streaming.operators.batch.batch_operator import no_checkpoints
from flinkpy.streaming.operators.column_aggregation.partials import PartialAggregates
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator
from flinkpy.streaming.sort.memory import column_operator_bytes

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: The maximum number of rows that are grouped at once.
_CHUNK_ROWS = 1 << 18
_MAX_RESULT_ROWS = 65_536
#: Grouping continues while it reduces the rows by at least this factor.
_LEAST_REDUCTION = 2
#: 1/N of the memory is for rows, and the same for partial results.
_SHARE = 8


class PreAggregateOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: PreAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._input_type = input_type
        self._share_bytes = column_operator_bytes(context) // _SHARE
        self._inputs: AggregateInputs | None = None
        self._partials: PartialAggregates | None = None
        self._names: list[str] = []
        self._rows: list[pa.RecordBatch] = []
        self._num_rows = 0
        self._rows_bytes = 0
        self._table: pa.Table | None = None
        self._has_given_up = False

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        raise no_checkpoints(self.context)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = inserted_columns(batch, self._input_type, self.context.name)
        inputs = self._inputs
        if inputs is None:
            inputs = self._inputs = self._set_up(columns.schema)
        assert self._partials is not None
        rows = self._partials.rows(inputs.key_columns(columns), columns)
        if self._has_given_up:
            self._emit(self._partials.each(pa.Table.from_batches([rows])))
            return
        self._rows.append(rows)
        self._num_rows += rows.num_rows
        self._rows_bytes += rows.nbytes
        if self._num_rows >= _CHUNK_ROWS or self._rows_bytes >= self._share_bytes:
            self._group()

    def _set_up(self, schema: pa.Schema) -> AggregateInputs:
        inputs = AggregateInputs(schema, self._spec.key_selector, self._spec.aggregates, self.context.name)
        if not PartialAggregates.can_group(inputs.key_types, inputs.aggregates):
            raise UnsupportedOperationError(
                f"operator {self.context.name}: {[each.function for each in inputs.aggregates]} of "
                f"{[str(each.value_type) for each in inputs.aggregates]} cannot be aggregated before the exchange"
            )
        self._partials = PartialAggregates(inputs.key_types, inputs.aggregates, inputs.value_positions)
        self._names = inputs.key_names + [aggregate.name for aggregate in self._spec.aggregates]
        return inputs

    def _group(self) -> None:
        partials = self._partials
        rows, num_rows = self._rows, self._num_rows
        self._rows, self._num_rows, self._rows_bytes = [], 0, 0
        if partials is None or not rows:
            return
        grouped = partials.group(pa.Table.from_batches(rows))
        if grouped.num_rows * _LEAST_REDUCTION > num_rows:
            self._has_given_up = num_rows >= _CHUNK_ROWS
            self._emit(grouped)
            return
        table = grouped if self._table is None else partials.merge([self._table, grouped])
        self._table = table
        if table.nbytes >= self._share_bytes:
            self._table = None
            self._emit(table)

    def _emit(self, table: pa.Table) -> None:
        assert self._partials is not None and self._inputs is not None
        num_keys = len(self._inputs.key_names)
        for batch in table.combine_chunks().to_batches(max_chunksize=_MAX_RESULT_ROWS):
            columns = [*batch.columns[:num_keys], *self._partials.results(batch)]
            self.output.emit(Batch(pa.RecordBatch.from_arrays(columns, names=self._names)))

    def finish(self) -> None:
        self._group()
        table, self._table = self._table, None
        if table is not None:
            self._emit(table)
