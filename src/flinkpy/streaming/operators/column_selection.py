"""SelectOperator and ExpressionFilterOperator: compute expressions over columns with Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.expressions.arrow import Evaluator
from flinkpy.expressions.nodes import columns_in
from flinkpy.graph.operator_specs import FilterBatchesSpec, SelectSpec
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, type_info_of_arrow
from flinkpy.streaming.operators.column_condition import ColumnCondition
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


class ExpressionFilterOperator(StreamOperator):
    """Keeps the records for which a condition is true. A null counts as false. Thread: task thread."""

    def __init__(
        self,
        spec: FilterBatchesSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._input_type = input_type
        assert spec.expression is not None
        self._condition = ColumnCondition(spec.expression, column_types(input_type, context), None)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        kept = self._condition.holding(as_columnar(batch, self._input_type))
        if kept.num_rows:
            self.output.emit(kept)


class SelectOperator(StreamOperator):
    """Computes one column per expression, for the records that fulfil the predicate. Thread: task thread.

    The predicate sees all columns. Only the columns that the expressions need are filtered.
    """

    def __init__(
        self,
        spec: SelectSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._input_type = input_type
        columns = column_types(input_type, context)
        schema = arrow_schema(spec.output_type)
        assert schema is not None
        self._schema = schema
        needed = [name for each in spec.expressions for name in columns_in(each)]
        self._condition = None if spec.predicate is None else ColumnCondition(spec.predicate, columns, needed)
        self._values = Evaluator(spec.expressions, columns)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = as_columnar(batch, self._input_type)
        if self._condition is not None:
            batch = self._condition.holding(batch)
            if not batch.num_rows:
                return
        arrays = self._values.evaluate(batch.values)
        self.output.emit(batch.with_values(pa.RecordBatch.from_arrays(arrays, schema=self._schema)))


def column_types(input_type: Any, context: OperatorContext) -> dict[str, TypeInformation]:
    """Returns the types of the columns of an input, by name."""
    schema = arrow_schema(input_type)
    if schema is None:
        raise UnsupportedOperationError(
            f"operator {context.name} computes expressions over columns, so its input needs a declared ROW or TUPLE "
            "type"
        )
    return dict(zip(schema.names, _types(input_type, schema)))


def _types(input_type: Any, schema: pa.Schema) -> list[TypeInformation]:
    fields = getattr(input_type, "get_field_types", None)
    if fields is not None:
        return list(fields())
    return [type_info_of_arrow(field.type, field.name) for field in schema]
