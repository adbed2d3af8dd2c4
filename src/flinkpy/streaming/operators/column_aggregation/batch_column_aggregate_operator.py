"""BatchColumnAggregateOperator: keyed aggregates over columns in batch mode. Emits one row per key at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import ColumnAggregateSpec, FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.streaming.operators.aggregate_inputs import AggregateInputs, require_key_of_columns
from flinkpy.streaming.operators.batch.batch_operator import no_checkpoints
from flinkpy.streaming.operators.column_aggregation.grouped_aggregation import GroupedAggregation
from flinkpy.streaming.operators.column_aggregation.partials import PartialAggregates
from flinkpy.streaming.operators.column_aggregation.table_aggregation import TableAggregation
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator
from flinkpy.streaming.sort.memory import column_operator_bytes, spill_directory

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2


class BatchColumnAggregateOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: ColumnAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        require_key_of_columns(spec.key_selector, context)
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._input_type = input_type
        self._memory_bytes = column_operator_bytes(context)
        self._spills = spill_directory(context)
        self._watermark: Watermark | None = None
        self._inputs: AggregateInputs | None = None
        self._partials: PartialAggregates | None = None
        self._grouped: GroupedAggregation | None = None
        self._table: TableAggregation | None = None

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self._spec.key_type, self._input_type

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        raise no_checkpoints(self.context)

    def process_watermark(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kinds is not None and batch.kinds.any():
            raise UnsupportedOperationError(f"operator {self.context.name} accepts only inserts, no updates or deletes")
        columns = as_columnar(batch, self._input_type).values
        assert isinstance(columns, pa.RecordBatch)
        inputs = self._inputs
        if inputs is None:
            inputs = self._inputs = self._set_up(columns.schema)
        keys = inputs.key_columns(columns)
        if self._grouped is not None and self._partials is not None:
            self._grouped.add(self._partials.rows(keys, columns))
        elif self._table is not None:
            self._table.add(keys, inputs.value_columns(columns))

    def _set_up(self, schema: pa.Schema) -> AggregateInputs:
        selector = self._spec.key_selector
        assert isinstance(selector, FieldKeySelector)
        inputs = AggregateInputs(schema, selector, self._spec.aggregates, self.context.name)
        if PartialAggregates.can_group(inputs.key_types, inputs.aggregates):
            self._partials = PartialAggregates(inputs.key_types, inputs.aggregates, inputs.value_positions)
            self._grouped = GroupedAggregation(self._partials, self._spills, self._memory_bytes)
        else:
            layout = TableLayout(tuple(inputs.key_types), tuple(inputs.aggregates))
            self._table = TableAggregation(layout, self._spills, self._memory_bytes)
        return inputs

    def finish(self) -> None:
        inputs = self._inputs
        if inputs is not None:
            names = inputs.key_names + [aggregate.name for aggregate in self._spec.aggregates]
            num_keys = len(inputs.key_names)
            for keys, results in self._results():
                self.output.emit(Batch(pa.RecordBatch.from_arrays([*keys[:num_keys], *results], names=names)))
        if self._watermark is not None:
            self.emit_to_all(self._watermark)

    def _results(self) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
        if self._table is not None:
            yield from self._table.results()
        elif self._grouped is not None and self._partials is not None:
            width = len(self._partials.key_names)
            for batch in self._grouped.results():
                yield batch.columns[:width], self._partials.results(batch)

    def close(self) -> None:
        self._spills.close()
