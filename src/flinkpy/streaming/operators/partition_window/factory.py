"""create_partition_operator: creates the operator that runs a PartitionSpec."""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import PartitionSpec
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.partition_window.folding_operator import (
    PartitionAggregateOperator,
    PartitionReduceOperator,
)
from flinkpy.streaming.operators.partition_window.gathering_operator import MapPartitionOperator, PartitionSortOperator
from flinkpy.streaming.operators.partition_window.partition_operator import PartitionOperator
from flinkpy.streaming.operators.stream_operator import OperatorContext

_OPERATORS: dict[str, type[PartitionOperator]] = {
    "MAP": MapPartitionOperator,
    "SORT": PartitionSortOperator,
    "REDUCE": PartitionReduceOperator,
    "AGGREGATE": PartitionAggregateOperator,
}


def create_partition_operator(
    spec: PartitionSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
) -> PartitionOperator:
    operator = _OPERATORS.get(spec.kind)
    if operator is None:
        raise UnsupportedOperationError(f"operator {context.name}: unknown kind {spec.kind!r}")
    return operator(spec, input_type, context, output, side)
