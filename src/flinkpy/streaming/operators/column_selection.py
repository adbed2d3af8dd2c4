"""SelectOperator and ExpressionFilterOperator: expressions over columns, computed with Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.expressions.arrow import Evaluator
from flinkpy.expressions.nodes import columns_in
from flinkpy.graph.operator_specs import FilterBatchesSpec, SelectSpec
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, type_info_of_arrow
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


class ExpressionFilterOperator(StreamOperator):
    """Keeps the records for which a condition holds; where it is null it does not. Thread: task thread."""

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
        self._condition = Evaluator([spec.expression], column_types(input_type, context))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = as_columnar(batch, self._input_type)
        kept = filtered(batch, self._condition.evaluate(batch.values)[0])
        if kept.num_rows:
            self.output.emit(kept)


class SelectOperator(StreamOperator):
    """A column per expression, of the records for which the predicate holds. Thread: task thread.

    The predicate sees all columns; what is filtered is only what the expressions need.
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
        self._needed = list(dict.fromkeys(name for each in spec.expressions for name in columns_in(each)))
        self._condition = None if spec.predicate is None else Evaluator([spec.predicate], columns)
        self._values = Evaluator(spec.expressions, columns)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = as_columnar(batch, self._input_type)
        values = batch.values
        assert isinstance(values, pa.RecordBatch)
        if self._condition is not None:
            condition = self._condition.evaluate(values)[0]
            if self._needed:
                batch = batch.with_values(values.select(self._needed))
            batch = filtered(batch, condition)
            if not batch.num_rows:
                return
            values = batch.values
        arrays = self._values.evaluate(values)
        self.output.emit(batch.with_values(pa.RecordBatch.from_arrays(arrays, schema=self._schema)))


def column_types(input_type: Any, context: OperatorContext) -> dict[str, TypeInformation]:
    """Names and types of the columns of an input."""
    schema = arrow_schema(input_type)
    if schema is None:
        raise UnsupportedOperationError(
            f"operator {context.name} computes expressions over columns: its input must be of a declared ROW or TUPLE "
            "type"
        )
    return dict(zip(schema.names, _types(input_type, schema)))


def filtered(batch: Batch, condition: pa.BooleanArray) -> Batch:
    """The records for which the condition is true."""
    columns = batch.values
    assert isinstance(columns, pa.RecordBatch)
    num_true = pc.sum(condition, min_count=0).as_py()
    if num_true == batch.num_rows:
        return batch
    kept = columns.filter(condition)
    if batch.timestamps is None and batch.kinds is None:
        return Batch(kept)
    keep = condition.fill_null(False).to_numpy(zero_copy_only=False)
    return Batch(
        kept,
        None if batch.timestamps is None else batch.timestamps[keep],
        None if batch.kinds is None else batch.kinds[keep],
    )


def _types(input_type: Any, schema: pa.Schema) -> list[TypeInformation]:
    fields = getattr(input_type, "get_field_types", None)
    if fields is not None:
        return list(fields())
    return [type_info_of_arrow(field.type, field.name) for field in schema]
