"""CalcOperator: computes expressions over the rows for which a condition is true.

Source: org.apache.flink.table.planner.codegen.CalcCodeGenerator.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.functions.table_functions import FunctionContext
from flinkpy.graph.table_specs import CalcSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.rex import InputRef, input_columns, moved
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


class CalcOperator(StreamOperator):
    """Computes one column per projection for the rows for which the condition is true. Row kinds stay.

    Only the columns that projections need are filtered. Thread: task thread.
    """

    def __init__(
        self,
        spec: CalcSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._input_type = input_type
        self._schema = schema_of(spec.output_type.row_type)
        self._condition = None if spec.condition is None else compile_expressions([spec.condition], spec.settings)
        self._needed = input_columns(spec.projection)
        #: The names of the needed columns, for errors.
        self._names = [input_type.row_type.names[column] for column in self._needed]
        places = {column: place for place, column in enumerate(self._needed)}
        projection = [moved(node, places) for node in spec.projection]
        self._values = compile_expressions(projection, spec.settings)
        #: The columns that are passed on as they are; None if others are computed.
        self._passed_on = (
            [node.index for node in projection if isinstance(node, InputRef)]
            if all(isinstance(node, InputRef) for node in projection)
            else None
        )

    def open(self) -> None:
        super().open()
        context = FunctionContext(StreamingRuntimeContext(self.context))
        for each in self._compiled():
            each.open(context)

    def close(self) -> None:
        for each in self._compiled():
            each.close()
        super().close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = as_columnar(batch, self._input_type)
        columns, kinds = batch.values, batch.kinds
        assert isinstance(columns, pa.RecordBatch)
        num_rows = columns.num_rows
        if self.current_output_watermark > MIN_WATERMARK:
            for each in self._compiled():
                each.set_watermark(self.current_output_watermark)
        needed = pa.RecordBatch.from_arrays([columns.column(index) for index in self._needed], self._names)
        if self._condition is not None:
            mask = self._condition.evaluate_condition(columns)
            kept = mask.true_count
            if not kept:
                return
            if kept < num_rows:
                if self._needed:
                    needed = needed.filter(mask)
                if kinds is not None:
                    kinds = kinds[mask.to_numpy(zero_copy_only=False)]
                num_rows = kept
        if not self._needed:
            needed = _without_columns(num_rows)
        if self._passed_on is not None:
            arrays = [needed.column(index) for index in self._passed_on]
        else:
            arrays = self._values.evaluate(needed)
        if not arrays:
            self.output.emit(Batch(_without_columns(num_rows), None, kinds))
            return
        self.output.emit(Batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), None, kinds))

    def _compiled(self) -> list[Any]:
        return [each for each in (self._condition, self._values) if each is not None]


def _without_columns(num_rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, pa.struct([])))
