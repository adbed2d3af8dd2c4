"""create_batch_operator: creates the operator that runs a spec in batch mode."""

from __future__ import annotations

from flinkpy.graph import operator_specs as specs
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


def create_batch_operator(
    spec: specs.OperatorSpec, context: OperatorContext, output: Output, side: dict[str, Output]
) -> StreamOperator:
    """Creates the operator for `spec` on bounded inputs."""
    from flinkpy.streaming.operators.factory import create_operator, input_type

    if isinstance(spec, (specs.ReduceSpec, specs.RollingAggregateSpec)):
        from flinkpy.streaming.operators.batch.batch_reduce_operator import BatchReduceOperator
        from flinkpy.streaming.operators.rolling_functions import RollingReduce

        reduce = spec.function.reduce if isinstance(spec, specs.ReduceSpec) else RollingReduce(spec.kind, spec.position)
        return BatchReduceOperator(spec, reduce, input_type(spec), context, output, side)
    if isinstance(spec, specs.ColumnJoinSpec):
        return create_operator(spec, context, output, side)
    if isinstance(spec, specs.BroadcastProcessSpec):
        from flinkpy.streaming.operators.batch.broadcast_first_operator import BroadcastFirstOperator

        return BroadcastFirstOperator(create_operator(spec, context, output, side), context, output, side)
    from flinkpy.streaming.operators.batch.keyed_batch_operator import KeyedBatchOperator

    two_inputs = (specs.KeyedCoProcessSpec, specs.KeyedBroadcastProcessSpec, specs.KeyedTwoInputSpec)
    return KeyedBatchOperator(
        lambda *outputs: create_operator(spec, context, *outputs),
        context,
        output,
        side,
        2 if isinstance(spec, two_inputs) else 1,
    )
