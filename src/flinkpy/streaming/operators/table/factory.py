"""create_table_operator: creates the operator that runs a spec of a table operator.

Operators are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph import table_specs as specs
from flinkpy.graph.operator_specs import KeyedMultipleInputSpec, KeyedTwoInputSpec, OperatorSpec
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

#: The operator classes, or functions that choose one, as `module:name`; the module is relative to this package. They
#: are called with (spec, input type, context, output, side outputs). Joins of streams get the types of all inputs.
TABLE_OPERATORS: dict[type[OperatorSpec], str] = {
    specs.StreamInputSpec: "stream_input_operator:StreamInputOperator",
    specs.CalcSpec: "calc_operator:CalcOperator",
    specs.WatermarkAssignerSpec: "watermark_assigner_operator:WatermarkAssignerOperator",
    specs.AsyncCalcSpec: "..async_io.async_calc_operator:AsyncCalcOperator",
    specs.CorrelateSpec: "correlate_operator:CorrelateOperator",
    specs.ProcessTableFunctionSpec: "process_table_function_operator:ProcessTableFunctionOperator",
    specs.ExpandSpec: "expand_operators:ExpandOperator",
    specs.ReplicateRowsSpec: "expand_operators:ReplicateRowsOperator",
    specs.SessionTableFunctionSpec: "session_table_function_operator:SessionTableFunctionOperator",
    specs.WindowTableFunctionSpec: "expand_operators:WindowTableFunctionOperator",
    specs.LocalGroupAggregateSpec: "two_phase_operators:LocalGroupAggregateOperator",
    specs.SplitLocalGroupAggregateSpec: "split_local_operator:SplitLocalGroupAggregateOperator",
    specs.GlobalGroupAggregateSpec: "two_phase_operators:GlobalGroupAggregateOperator",
    specs.IncrementalGroupAggregateSpec: "incremental_aggregate_operator:IncrementalGroupAggregateOperator",
    specs.OverAggregateSpec: "over_aggregate_operator:OverAggregateOperator",
    specs.GlobalWindowAggregateSpec: "window_aggregate_operator:create_window_aggregate_operator",
    specs.WindowAggregateSpec: "window_aggregate_operator:create_window_aggregate_operator",
    specs.GroupWindowAggregateSpec: "window_aggregate_operator:create_window_aggregate_operator",
    specs.LocalWindowAggregateSpec: "local_window_operator:LocalWindowAggregateOperator",
    specs.GroupAggregateSpec: "group_aggregate_operator:GroupAggregateOperator",
    specs.GroupTableAggregateSpec: "group_table_aggregate_operator:GroupTableAggregateOperator",
    specs.EngineQuerySpec: "engine_query_operator:EngineQueryOperator",
    specs.FinalRowsSpec: "final_rows_operator:FinalRowsOperator",
    specs.ChangelogNormalizeSpec: "last_row_operators:ChangelogNormalizeOperator",
    specs.DeduplicateSpec: "last_row_operators:DeduplicateOperator",
    specs.DropUpdateBeforeSpec: "drop_update_before_operator:DropUpdateBeforeOperator",
    specs.KeyedLookupJoinSpec: "keyed_lookup_join_operator:KeyedLookupJoinOperator",
    specs.LookupJoinSpec: "lookup_join_operator:LookupJoinOperator",
    specs.RankSpec: "rank_operator:RankOperator",
    specs.SinkMaterializeSpec: "sink_materialize_operator:SinkUpsertMaterializer",
    specs.WatermarkTimestampSpec: "conflict_operators:WatermarkTimestampAssigner",
    specs.ConflictMaterializeSpec: "conflict_operators:ConflictMaterializer",
    specs.ConstraintEnforcerSpec: "constraint_enforcer_operator:ConstraintEnforcerOperator",
    specs.SortLimitSpec: "rank_operator:create_sort_limit_operator",
    specs.JoinSpec: "join_operator:StreamingJoinOperator",
    specs.MultiJoinSpec: "multi_join_operator:StreamingMultiJoinOperator",
    specs.TableIntervalJoinSpec: "table_interval_join_operator:TableIntervalJoinOperator",
    specs.MatchSpec: "match_operator:MatchOperator",
    specs.TemporalSortSpec: "temporal_sort_operator:TemporalSortOperator",
    specs.WindowRankSpec: "window_rank_operator:WindowRankOperator",
    specs.WindowDeduplicateSpec: "window_rank_operator:create_window_deduplicate_operator",
    specs.TemporalJoinSpec: "temporal_join_operator:TemporalJoinOperator",
    specs.ProcessTimeTemporalJoinSpec: "process_time_temporal_join_operator:ProcessTimeTemporalJoinOperator",
    specs.WindowJoinSpec: "window_join_operator:WindowJoinOperator",
}

#: The operator of a LookupJoinSpec that asks for many rows at the same time.
ASYNC_LOOKUP_JOIN = "..async_io.async_lookup_join_operator:AsyncLookupJoinOperator"


def create_table_operator(
    spec: OperatorSpec, context: OperatorContext, output: Output, side_outputs: dict[str, Output]
) -> StreamOperator:
    """Creates the operator for `spec`. Raises: UnsupportedOperationError if this release has none."""
    is_async_lookup = isinstance(spec, specs.LookupJoinSpec) and spec.asynchronous is not None
    path = ASYNC_LOOKUP_JOIN if is_async_lookup else TABLE_OPERATORS.get(type(spec))
    if path is None:
        raise UnsupportedOperationError(f"operator {context.name}: flinkpy has no {type(spec).__name__} operator yet")
    input_types: Any = spec.input_types
    if isinstance(spec, KeyedTwoInputSpec):
        input_types = (*input_types, None, None)[:2]
    elif not isinstance(spec, KeyedMultipleInputSpec):
        input_types = (*input_types, None)[0]
    operator: StreamOperator = table_operator_class(path)(spec, input_types, context, output, side_outputs)
    return operator


def table_operator_class(path: str) -> Any:
    """Imports and returns an operator class, or the function that chooses one."""
    module, _, name = path.partition(":")
    return getattr(import_module(f".{module}", __package__), name)
