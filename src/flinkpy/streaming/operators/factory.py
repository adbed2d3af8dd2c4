"""create_operator: creates the operator that runs a spec of the job graph.

Operators are imported on first use, because a task needs only a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph import operator_specs as specs
from flinkpy.streaming.operators.fused_code import RowStep
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

_Side = dict[str, Output]
_Factory = Callable[[Any, OperatorContext, Output, _Side], StreamOperator]

#: The module of the specs of table operators, which a process imports when it gets the first one.
_TABLE_SPECS = "flinkpy.graph.table_specs"

#: Specs that FusedRowOperator runs together with their neighbours in one loop.
ROW_STEPS: dict[type, RowStep] = {
    specs.MapSpec: RowStep.MAP,
    specs.FilterSpec: RowStep.FILTER,
    specs.FlatMapSpec: RowStep.FLAT_MAP,
}

#: The operator classes that are called with (spec, input type, context, output, side outputs), as `module:class` below
#: `flinkpy.streaming`.
ONE_INPUT_OPERATORS: dict[type, str] = {
    specs.AsyncWaitSpec: "async_io.async_wait_operator:AsyncWaitOperator",
    specs.GlobalColumnAggregateSpec: "operators.global_aggregate_operator:GlobalAggregateOperator",
    specs.KeyedMapSpec: "operators.keyed_map_operator:KeyedMapOperator",
    specs.KeyedProcessSpec: "operators.keyed_process_operator:KeyedProcessOperator",
    specs.PreAggregateSpec: "operators.column_aggregation.pre_aggregate_operator:PreAggregateOperator",
    specs.SelectSpec: "operators.column_selection:SelectOperator",
    specs.SortColumnsSpec: "operators.sort_columns_operator:SortColumnsOperator",
}

#: The operator classes that are called with (spec, pair of input types, context, output, side outputs).
TWO_INPUT_OPERATORS: dict[type, str] = {
    specs.BroadcastProcessSpec: "operators.broadcast_process_operator:BroadcastProcessOperator",
    specs.CoGroupSpec: "operators.co_group_operator:CoGroupOperator",
    specs.ColumnJoinSpec: "operators.column_join.column_join_operator:ColumnJoinOperator",
    specs.CoProcessSpec: "operators.co_process_operator:CoProcessOperator",
    specs.IntervalJoinSpec: "operators.interval_join_operator:IntervalJoinOperator",
    specs.KeyedBroadcastProcessSpec: "operators.broadcast_process_operator:KeyedBroadcastProcessOperator",
    specs.KeyedCoProcessSpec: "operators.co_process_operator:KeyedCoProcessOperator",
}

#: The operator classes that are called with (function, input type, context, output, side outputs).
FUNCTION_OPERATORS: dict[type, str] = {
    specs.FlatMapBatchesSpec: "operators.column_operators:FlatMapBatchesOperator",
    specs.MapBatchesSpec: "operators.column_operators:MapBatchesOperator",
    specs.ProcessSpec: "operators.process_operator:ProcessOperator",
}

#: The operators of a PartitionSpec by its kind.
PARTITION_OPERATORS: dict[str, str] = {
    "MAP": "operators.partition_window_operators:MapPartitionOperator",
    "SORT": "operators.partition_window_operators:PartitionSortOperator",
    "REDUCE": "operators.partition_window_operators:PartitionReduceOperator",
    "AGGREGATE": "operators.partition_window_operators:PartitionAggregateOperator",
}


def register_operator(spec_type: type, factory: _Factory) -> None:
    """Registers the operator of a spec type that another package defines."""
    _FACTORIES[spec_type] = factory


def create_operator(
    spec: specs.OperatorSpec, context: OperatorContext, output: Output, side_outputs: _Side
) -> StreamOperator:
    """Creates the operator for `spec`. Raises: UnsupportedOperationError if this release does not know the spec."""
    kind = type(spec)
    operator: StreamOperator
    if kind in ONE_INPUT_OPERATORS:
        operator = operator_class(ONE_INPUT_OPERATORS[kind])(spec, input_type(spec), context, output, side_outputs)
    elif kind in TWO_INPUT_OPERATORS:
        input_types = (input_type(spec, 0), input_type(spec, 1))
        operator = operator_class(TWO_INPUT_OPERATORS[kind])(spec, input_types, context, output, side_outputs)
    elif kind in FUNCTION_OPERATORS:
        function: Any = spec.function  # type: ignore[attr-defined]
        operator = operator_class(FUNCTION_OPERATORS[kind])(function, input_type(spec), context, output, side_outputs)
    elif kind in _FACTORIES:
        operator = _FACTORIES[kind](spec, context, output, side_outputs)
    elif kind.__module__ == _TABLE_SPECS:
        from flinkpy.streaming.operators.table.factory import create_table_operator

        operator = create_table_operator(spec, context, output, side_outputs)
    else:
        raise UnsupportedOperationError(f"operator {context.name}: this release cannot run a {kind.__name__} operator")
    return operator


def operator_class(path: str) -> Any:
    """Imports and returns an operator class, given as `module:class` below `flinkpy.streaming`."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"flinkpy.streaming.{module}"), name)


def input_type(spec: specs.OperatorSpec, index: int = 0) -> Any:
    """Returns the TypeInformation of an input, or None if it is not declared."""
    return spec.input_types[index] if index < len(spec.input_types) else None


def _source(spec: specs.SourceSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.function_source_sink import SourceFunctionOperator
    from flinkpy.streaming.operators.source_operator import SourceOperator

    produced_type = spec.output_type or spec.source.produced_type
    operator = SourceOperator if spec.source.source_function is None else SourceFunctionOperator
    return operator(spec.source, spec.watermark_strategy, produced_type, context, output, side)


def _sink(spec: specs.SinkSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.function_source_sink import SinkFunctionOperator
    from flinkpy.streaming.operators.sink_operator import SinkOperator

    operator = SinkOperator if spec.sink.sink_function is None else SinkFunctionOperator
    return operator(spec.sink, input_type(spec), context, output, side)


def _sink_writer(spec: specs.SinkWriterSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.batch_sink_operators import BatchSinkWriterOperator
    from flinkpy.streaming.operators.global_sink_operators import GlobalSinkWriterOperator

    operator = GlobalSinkWriterOperator if spec.at_checkpoints else BatchSinkWriterOperator
    return operator(spec.sink, input_type(spec), context, output, side)


def _sink_committer(
    spec: specs.SinkCommitterSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.batch_sink_operators import BatchSinkCommitterOperator
    from flinkpy.streaming.operators.global_sink_operators import GlobalSinkCommitterOperator

    operator = GlobalSinkCommitterOperator if spec.at_checkpoints else BatchSinkCommitterOperator
    return operator(spec.sink, context, output, side)


def _reduce(spec: specs.ReduceSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.reduce_operator import ReduceOperator

    return ReduceOperator(spec, spec.function.reduce, input_type(spec), context, output, side)


def _rolling(spec: specs.RollingAggregateSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.reduce_operator import ReduceOperator
    from flinkpy.streaming.operators.rolling_functions import RollingReduce

    return ReduceOperator(spec, RollingReduce(spec.kind, spec.position), input_type(spec), context, output, side)


def _window(spec: specs.WindowSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.windowing.fixed_window_operator import FixedWindowOperator, is_fixed
    from flinkpy.streaming.operators.windowing.session_window_operator import SessionWindowOperator, is_session
    from flinkpy.streaming.operators.windowing.window_operator import WindowOperator

    operator: type[WindowOperator] = WindowOperator
    if is_fixed(spec):
        operator = FixedWindowOperator
    elif is_session(spec):
        operator = SessionWindowOperator
    return operator(spec, input_type(spec), context, output, side)


def _filter_batches(
    spec: specs.FilterBatchesSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    if spec.expression is not None:
        from flinkpy.streaming.operators.column_selection import ExpressionFilterOperator

        return ExpressionFilterOperator(spec, input_type(spec), context, output, side)
    from flinkpy.streaming.operators.column_operators import FilterBatchesOperator

    return FilterBatchesOperator(spec.function, input_type(spec), context, output, side)


def _project(spec: specs.ProjectSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.column_operators import ProjectOperator

    return ProjectOperator(spec.fields, context, output, side)


def _column_aggregate(
    spec: specs.ColumnAggregateSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    if spec.emit == "FINAL" and context.is_batch_mode:
        from flinkpy.streaming.operators.column_aggregation.batch_column_aggregate_operator import (
            BatchColumnAggregateOperator,
        )

        return BatchColumnAggregateOperator(spec, input_type(spec), context, output, side)
    from flinkpy.streaming.operators.column_aggregate_operator import ColumnAggregateOperator

    return ColumnAggregateOperator(spec, input_type(spec), context, output, side)


def _window_aggregate(
    spec: specs.WindowAggregateSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.windowing_columns.pane_window_operator import PaneWindowOperator
    from flinkpy.streaming.operators.windowing_columns.session_window_operator import SessionWindowOperator

    if spec.gap_ms is not None:
        return SessionWindowOperator(spec, input_type(spec), context, output, side)
    return PaneWindowOperator(spec, input_type(spec), context, output, side)


def _timestamps(
    spec: specs.TimestampsAndWatermarksSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.watermark_assigner import TimestampsAndWatermarksOperator

    return TimestampsAndWatermarksOperator(spec.watermark_strategy, input_type(spec), context, output, side)


def _partition(spec: specs.PartitionSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    path = PARTITION_OPERATORS.get(spec.kind)
    if path is None:
        raise UnsupportedOperationError(f"operator {context.name}: unknown kind {spec.kind!r}")
    operator: StreamOperator = operator_class(path)(spec, input_type(spec), context, output, side)
    return operator


def _batch(batch_spec: specs.BatchSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    """Creates the operator for the inner spec in batch mode."""
    spec = batch_spec.operator
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


#: Creates the operators that need more than their spec and input types.
_FACTORIES: dict[type, _Factory] = {
    specs.SourceSpec: _source,
    specs.SinkSpec: _sink,
    specs.SinkWriterSpec: _sink_writer,
    specs.SinkCommitterSpec: _sink_committer,
    specs.ReduceSpec: _reduce,
    specs.RollingAggregateSpec: _rolling,
    specs.WindowSpec: _window,
    specs.FilterBatchesSpec: _filter_batches,
    specs.ProjectSpec: _project,
    specs.ColumnAggregateSpec: _column_aggregate,
    specs.WindowAggregateSpec: _window_aggregate,
    specs.TimestampsAndWatermarksSpec: _timestamps,
    specs.BatchSpec: _batch,
    specs.PartitionSpec: _partition,
}
