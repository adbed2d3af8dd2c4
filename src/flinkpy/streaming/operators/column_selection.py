"""SelectOperator and ExpressionFilterOperator: compute expressions and conditions over columns with Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.expressions.arrow import Evaluator
from flinkpy.expressions.nodes import Call, Expression, columns_in, conjunction, conjuncts, walk
from flinkpy.graph.operator_specs import FilterBatchesSpec, SelectSpec
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, type_info_of_arrow
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

#: After a part of the condition, the other records are removed only if at most 1/N of the records remain. Copying more
#: of them costs more than it saves.
_LEFT_OUT_FROM = 2


class _Step(NamedTuple):
    condition: Evaluator
    #: The columns needed after this step; None for all.
    needed: list[str] | None


class ColumnCondition:
    """Filters batches by a condition over their columns. Thread: task thread.

    The parts of a conjunction are computed one after the other. If few records are left, only these go to the next
    part, with only the columns that are still needed. So if most records fail the first part, the other parts cost
    almost nothing.

    Args:
        columns: the types of the columns of the batches, by name.
        needed: the columns that the remaining records must have; None for all.

    Raises: UserError, see `flinkpy.expressions.types.result_type`.
    """

    def __init__(
        self, condition: Expression, columns: Mapping[str, TypeInformation], needed: Iterable[str] | None
    ) -> None:
        later = None if needed is None else list(dict.fromkeys(needed))
        steps: list[_Step] = []
        for part in reversed(_independent_parts(condition)):
            steps.append(_Step(Evaluator([part], columns), later))
            later = None if later is None else list(dict.fromkeys([*columns_in(part), *later]))
        self._steps = steps[::-1]

    def holding(self, batch: Batch) -> Batch:
        """Returns the records for which the condition is true, in their order."""
        so_far: pa.BooleanArray | None = None
        last = self._steps[-1]
        for step in self._steps:
            condition = step.condition.evaluate(batch.values)[0]
            if so_far is not None:
                condition = pc.and_(so_far, condition)
            num_true = condition.true_count
            if step is not last and num_true * _LEFT_OUT_FROM > batch.num_rows:
                so_far = condition
                continue
            so_far = None
            columns = batch.values
            assert isinstance(columns, pa.RecordBatch)
            if step.needed:
                batch = batch.with_values(columns.select(step.needed))
            batch = _filtered(batch, condition, num_true)
            if not num_true:
                break
        return batch


def _filtered(batch: Batch, condition: pa.BooleanArray, num_true: int) -> Batch:
    columns = batch.values
    assert isinstance(columns, pa.RecordBatch)
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


def _independent_parts(condition: Expression) -> list[Expression]:
    """Returns the parts of a conjunction, in their order. Parts that share a computation form one part."""
    groups: list[tuple[set[object], list[Expression]]] = []
    for part in conjuncts(condition):
        calls: set[object] = {node.key() for node in walk(part) if isinstance(node, Call)}
        related = [group for group in groups if not group[0].isdisjoint(calls)]
        if not related:
            groups.append((calls, [part]))
            continue
        first = related[0]
        for group in related[1:]:
            groups.remove(group)
            first[0].update(group[0])
            first[1].extend(group[1])
        first[0].update(calls)
        first[1].append(part)
    joined = [conjunction(parts) for _, parts in groups]
    return [part for part in joined if part is not None]


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
