"""CorrelateOperator: joins each row with the rows that a table function returns for it.

Output rows have the kind of their input row, so that a row that is taken back takes back its results.

Source: org.apache.flink.table.planner.codegen.CorrelateCodeGenerator,
org.apache.flink.table.runtime.operators.python.table.PythonTableFunctionOperator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.graph.table_specs import CorrelateSpec, JoinType
from flinkpy.records.batch import Batch
from flinkpy.sql.functions.table_functions import table_function_caller
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.conditions import expressions, pair_condition
from flinkpy.streaming.operators.table.table_inputs import (
    MAX_ROWS,
    columns_of,
    emit_columns,
    input_schema,
    take_or_null,
)
from flinkpy.streaming.operators.table.two_table_join import with_lonely

#: The rows for which the function is called at once. It bounds the results in memory if each row has many.
_ROWS_PER_CALL = 4_096


class CorrelateOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: CorrelateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        if spec.join_type not in (JoinType.INNER, JoinType.LEFT):
            raise UnsupportedOperationError(
                f"operator {context.name}: a table function is joined by INNER or LEFT JOIN, not {spec.join_type.value}"
            )
        self._is_left = spec.join_type is JoinType.LEFT
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._output_schema = input_schema(spec.output_type)
        self._arguments = expressions(spec.call.operands, spec.settings)
        self._function = table_function_caller(spec.call)
        self._condition = pair_condition(spec.condition, spec.settings)

    def open(self) -> None:
        super().open()
        context = StreamingRuntimeContext(self.context)
        self._arguments.open(FunctionContext(context))
        self._function.open(FunctionContext(context))
        if self._condition is not None:
            self._condition.open(context)

    def close(self) -> None:
        self._arguments.close()
        self._function.close()
        if self._condition is not None:
            self._condition.close()
        super().close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        for start in range(0, batch.num_rows, _ROWS_PER_CALL):
            self._process(batch.slice(start, min(_ROWS_PER_CALL, batch.num_rows - start)))

    def _process(self, batch: Batch) -> None:
        columns = columns_of(batch, self._input_type)
        arguments = self._arguments.evaluate(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        rows, results = self._function.call(arguments, batch.num_rows)
        found = np.arange(len(rows))
        if self._condition is not None and len(rows):
            mask = self._matches(columns, rows, results)
            rows, found = rows[mask], found[mask]
        if self._is_left:
            alone = np.ones(batch.num_rows, dtype=bool)
            alone[rows] = False
            rows, found = with_lonely(rows, found, np.flatnonzero(alone))
        for start in range(0, len(rows), MAX_ROWS):
            part, part_found = rows[start : start + MAX_ROWS], found[start : start + MAX_ROWS]
            indices = pa.array(part)
            values = [column.take(indices) for column in columns]
            values += [take_or_null(column, part_found) for column in results]
            kinds = None if batch.kinds is None else batch.kinds[part]
            emit_columns(self.output, self._output_schema, values, kinds)

    def _matches(self, columns: list[pa.Array], rows: np.ndarray, results: list[pa.Array]) -> np.ndarray:
        """Returns bool[m]: true for the results that meet the condition."""
        assert self._condition is not None
        width, indices = len(columns), pa.array(rows)
        values = [
            columns[place].take(indices) if place < width else results[place - width]
            for place in self._condition.columns
        ]
        return self._condition.mask(values, len(rows))
