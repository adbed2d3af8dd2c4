"""create_operator: creates the operator that runs a spec of the job graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph import operator_specs as specs
from flinkpy.streaming.operators.batch_mode import is_batch_mode
from flinkpy.streaming.operators.fused_code import RowStep
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

_Side = dict[str, Output]
_Factory = Callable[[Any, OperatorContext, Output, _Side], StreamOperator]

#: Specs that FusedRowOperator runs together with their neighbours in one loop.
ROW_STEPS: dict[type, RowStep] = {
    specs.MapSpec: RowStep.MAP,
    specs.FilterSpec: RowStep.FILTER,
    specs.FlatMapSpec: RowStep.FLAT_MAP,
}


def register_operator(spec_type: type, factory: _Factory) -> None:
    """Registers the operator of a spec type that another package defines."""
    _FACTORIES[spec_type] = factory


def create_operator(
    spec: specs.OperatorSpec, context: OperatorContext, output: Output, side_outputs: _Side
) -> StreamOperator:
    """Creates the operator for `spec`. Raises: UnsupportedOperationError if this release does not know the spec."""
    factory = _FACTORIES.get(type(spec))
    if factory is None:
        raise UnsupportedOperationError(
            f"operator {context.name}: this release cannot run a {type(spec).__name__} operator"
        )
    return factory(spec, context, output, side_outputs)


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

    return BatchSinkWriterOperator(spec.sink, input_type(spec), context, output, side)


def _sink_committer(
    spec: specs.SinkCommitterSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.batch_sink_operators import BatchSinkCommitterOperator

    return BatchSinkCommitterOperator(spec.sink, context, output, side)


def _process(spec: specs.ProcessSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.process_operator import ProcessOperator

    return ProcessOperator(spec.function, input_type(spec), context, output, side)


def _keyed_process(
    spec: specs.KeyedProcessSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.keyed_process_operator import KeyedProcessOperator

    return KeyedProcessOperator(spec, input_type(spec), context, output, side)


def _keyed_map(spec: specs.KeyedMapSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.keyed_map_operator import KeyedMapOperator

    return KeyedMapOperator(spec, input_type(spec), context, output, side)


def _reduce(spec: specs.ReduceSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.reduce_operator import ReduceOperator

    return ReduceOperator(spec, spec.function.reduce, input_type(spec), context, output, side)


def _rolling(spec: specs.RollingAggregateSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.reduce_operator import ReduceOperator
    from flinkpy.streaming.operators.rolling_functions import RollingReduce

    return ReduceOperator(spec, RollingReduce(spec.kind, spec.position), input_type(spec), context, output, side)


def _window(spec: specs.WindowSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.windowing.factory import create_window_operator

    return create_window_operator(spec, input_type(spec), context, output, side)


def _map_batches(spec: specs.MapBatchesSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.column_operators import MapBatchesOperator

    return MapBatchesOperator(spec.function, input_type(spec), context, output, side)


def _flat_map_batches(
    spec: specs.FlatMapBatchesSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.column_operators import FlatMapBatchesOperator

    return FlatMapBatchesOperator(spec.function, input_type(spec), context, output, side)


def _filter_batches(
    spec: specs.FilterBatchesSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    if spec.expression is not None:
        from flinkpy.streaming.operators.column_selection import ExpressionFilterOperator

        return ExpressionFilterOperator(spec, input_type(spec), context, output, side)
    from flinkpy.streaming.operators.column_operators import FilterBatchesOperator

    return FilterBatchesOperator(spec.function, input_type(spec), context, output, side)


def _select(spec: specs.SelectSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.column_selection import SelectOperator

    return SelectOperator(spec, input_type(spec), context, output, side)


def _sort_columns(spec: specs.SortColumnsSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.sort_columns_operator import SortColumnsOperator

    return SortColumnsOperator(spec, input_type(spec), context, output, side)


def _global_aggregate(
    spec: specs.GlobalColumnAggregateSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.global_aggregate_operator import GlobalAggregateOperator

    return GlobalAggregateOperator(spec, input_type(spec), context, output, side)


def _project(spec: specs.ProjectSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.column_operators import ProjectOperator

    return ProjectOperator(spec.fields, context, output, side)


def _column_aggregate(
    spec: specs.ColumnAggregateSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    if spec.emit == "FINAL" and is_batch_mode(context):
        from flinkpy.streaming.operators.column_aggregation.batch_column_aggregate_operator import (
            BatchColumnAggregateOperator,
        )

        return BatchColumnAggregateOperator(spec, input_type(spec), context, output, side)
    from flinkpy.streaming.operators.column_aggregate_operator import ColumnAggregateOperator

    return ColumnAggregateOperator(spec, input_type(spec), context, output, side)


def _pre_aggregate(
    spec: specs.PreAggregateSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.column_aggregation.pre_aggregate_operator import PreAggregateOperator

    return PreAggregateOperator(spec, input_type(spec), context, output, side)


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
    from flinkpy.streaming.operators.timestamps_and_watermarks import TimestampsAndWatermarksOperator

    return TimestampsAndWatermarksOperator(spec.watermark_strategy, input_type(spec), context, output, side)


def _co_process(spec: specs.CoProcessSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.co_process_operator import CoProcessOperator

    return CoProcessOperator(spec, _two_input_types(spec), context, output, side)


def _keyed_co_process(
    spec: specs.KeyedCoProcessSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.co_process_operator import KeyedCoProcessOperator

    return KeyedCoProcessOperator(spec, _two_input_types(spec), context, output, side)


def _broadcast_process(
    spec: specs.BroadcastProcessSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.broadcast_process_operator import BroadcastProcessOperator

    return BroadcastProcessOperator(spec, _two_input_types(spec), context, output, side)


def _keyed_broadcast_process(
    spec: specs.KeyedBroadcastProcessSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.broadcast_process_operator import KeyedBroadcastProcessOperator

    return KeyedBroadcastProcessOperator(spec, _two_input_types(spec), context, output, side)


def _interval_join(
    spec: specs.IntervalJoinSpec, context: OperatorContext, output: Output, side: _Side
) -> StreamOperator:
    from flinkpy.streaming.operators.interval_join_operator import IntervalJoinOperator

    return IntervalJoinOperator(spec, _two_input_types(spec), context, output, side)


def _column_join(spec: specs.ColumnJoinSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.column_join.column_join_operator import ColumnJoinOperator

    return ColumnJoinOperator(spec, _two_input_types(spec), context, output, side)


def _co_group(spec: specs.CoGroupSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.co_group_operator import CoGroupOperator

    return CoGroupOperator(spec, _two_input_types(spec), context, output, side)


def _partition(spec: specs.PartitionSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.partition_window.factory import create_partition_operator

    return create_partition_operator(spec, input_type(spec), context, output, side)


def _async_wait(spec: specs.AsyncWaitSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.async_io.async_wait_operator import AsyncWaitOperator

    return AsyncWaitOperator(spec, input_type(spec), context, output, side)


def _batch(spec: specs.BatchSpec, context: OperatorContext, output: Output, side: _Side) -> StreamOperator:
    from flinkpy.streaming.operators.batch.factory import create_batch_operator

    return create_batch_operator(spec.operator, context, output, side)


def _two_input_types(spec: specs.OperatorSpec) -> tuple[Any, Any]:
    return input_type(spec, 0), input_type(spec, 1)


def input_type(spec: specs.OperatorSpec, index: int = 0) -> Any:
    """Returns the TypeInformation of an input, or None if it is not declared."""
    return spec.input_types[index] if index < len(spec.input_types) else None


_FACTORIES: dict[type, _Factory] = {
    specs.SourceSpec: _source,
    specs.SinkSpec: _sink,
    specs.SinkWriterSpec: _sink_writer,
    specs.SinkCommitterSpec: _sink_committer,
    specs.ProcessSpec: _process,
    specs.KeyedProcessSpec: _keyed_process,
    specs.KeyedMapSpec: _keyed_map,
    specs.ReduceSpec: _reduce,
    specs.RollingAggregateSpec: _rolling,
    specs.WindowSpec: _window,
    specs.MapBatchesSpec: _map_batches,
    specs.FlatMapBatchesSpec: _flat_map_batches,
    specs.FilterBatchesSpec: _filter_batches,
    specs.ProjectSpec: _project,
    specs.SelectSpec: _select,
    specs.SortColumnsSpec: _sort_columns,
    specs.GlobalColumnAggregateSpec: _global_aggregate,
    specs.ColumnAggregateSpec: _column_aggregate,
    specs.PreAggregateSpec: _pre_aggregate,
    specs.WindowAggregateSpec: _window_aggregate,
    specs.TimestampsAndWatermarksSpec: _timestamps,
    specs.CoProcessSpec: _co_process,
    specs.KeyedCoProcessSpec: _keyed_co_process,
    specs.BroadcastProcessSpec: _broadcast_process,
    specs.KeyedBroadcastProcessSpec: _keyed_broadcast_process,
    specs.BatchSpec: _batch,
    specs.AsyncWaitSpec: _async_wait,
    specs.IntervalJoinSpec: _interval_join,
    specs.ColumnJoinSpec: _column_join,
    specs.CoGroupSpec: _co_group,
    specs.PartitionSpec: _partition,
}
