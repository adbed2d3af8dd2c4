"""ProcessTableFunctionOperator: calls a process table function with row semantics and without state.

Source: org.apache.flink.table.runtime.operators.process.ProcessRowTableOperator.
"""

from __future__ import annotations

from typing import Any

from flinkpy.graph.table_specs import ProcessTableFunctionSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.changelog import fitted
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema


class ProcessTableFunctionOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: ProcessTableFunctionSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._function = spec.function
        self._input_type = input_type
        self._schema = input_schema(spec.output_type)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns, kinds = self._function.process(list(columns_of(batch, self._input_type)), batch.kinds)
        typed = [fitted(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        emit_columns(self.output, self._schema, typed, kinds)
