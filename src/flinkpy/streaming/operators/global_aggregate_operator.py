"""GlobalAggregateOperator: aggregates all records of a subtask, over columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector, GlobalColumnAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema
from flinkpy.state.accumulators import Accumulator, DecimalSumAccumulator
from flinkpy.streaming.operators.aggregate_inputs import AggregateInputs
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    OperatorSnapshot,
    OperatorStateDescriptor,
    StreamOperator,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_SLOT = np.zeros(1, dtype=np.int64)


#: The accumulators: one element, an Arrow batch with one row.
_ACCUMULATORS = OperatorStateDescriptor("accumulators")


class GlobalAggregateOperator(StreamOperator):
    """Emits one row at the end of the input, even if there were no records. Thread: task thread."""

    def __init__(
        self,
        spec: GlobalColumnAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        schema, result = arrow_schema(input_type), arrow_schema(spec.output_type)
        if schema is None or result is None:
            raise UnsupportedOperationError(
                f"operator {context.name} aggregates columns, so its input and output need declared types"
            )
        self._input_type = input_type
        self._result_schema = result
        self._inputs = AggregateInputs(schema, FieldKeySelector(()), spec.aggregates, context.name)
        self._accumulators = self._new_accumulators()
        self._has_emitted = False

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is None:
            return
        # After a restore with fewer subtasks, one subtask gets the accumulators of several.
        for stored in self.operator_state.get_list_state(_ACCUMULATORS).get():
            columns = pa.ipc.open_stream(stored).read_next_batch().columns
            for accumulator, other in zip(self._accumulators, self._new_accumulators(), strict=True):
                other.restore(_SLOT, columns[: other.num_columns])
                columns = columns[other.num_columns :]
                accumulator.merge(_SLOT, other, _SLOT)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        if self._has_emitted:
            # The results have been emitted. They must not be emitted again after a recovery.
            return OperatorSnapshot()
        columns = [column for accumulator in self._accumulators for column in accumulator.freeze(1)()]
        batch = pa.RecordBatch.from_arrays(columns, names=[f"a{i}" for i in range(len(columns))])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        self.operator_state.get_list_state(_ACCUMULATORS).update([sink.getvalue().to_pybytes()])
        return super().snapshot_state(checkpoint_id, options)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = inserted_columns(batch, self._input_type, self.context.name)
        slots = np.zeros(columns.num_rows, dtype=np.int64)
        for accumulator, values in zip(self._accumulators, self._inputs.value_columns(columns), strict=True):
            if isinstance(accumulator, DecimalSumAccumulator) and values is not None:
                # There is only one slot, so one sum replaces the grouping.
                accumulator.add(_SLOT, pa.array([pc.sum(values).as_py()], pa.decimal128(38, values.type.scale)))
            else:
                accumulator.add(slots, values)

    def finish(self) -> None:
        results = [accumulator.results(_SLOT) for accumulator in self._accumulators]
        columns = [each.cast(kind) for each, kind in zip(results, self._result_schema.types, strict=True)]
        self.output.emit(Batch(pa.RecordBatch.from_arrays(columns, schema=self._result_schema)))
        self._has_emitted = True

    def _new_accumulators(self) -> list[Accumulator]:
        accumulators = [aggregate.create_accumulator() for aggregate in self._inputs.aggregates]
        for accumulator in accumulators:
            accumulator.grow(1)
        return accumulators
