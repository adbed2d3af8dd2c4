"""The phases in which rules rewrite a logical plan.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkStreamProgram.
"""

from __future__ import annotations

from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.constants import propagate_constants
from flinkpy.table.planner.rules.filters import merge_projections, push_filters, push_join_keys
from flinkpy.table.planner.rules.grouping_sets import expand_grouping_sets
from flinkpy.table.planner.rules.join_conditions import derive_join_filters, factor_conditions
from flinkpy.table.planner.rules.multi_join_roles import mark_multi_joins
from flinkpy.table.planner.rules.optimizer_settings import OptimizerSettings
from flinkpy.table.planner.rules.partitions import push_partitions
from flinkpy.table.planner.rules.pruning import prune_columns
from flinkpy.table.planner.rules.ranks import constant_ranks, recognise_ranks
from flinkpy.table.planner.rules.set_operations import replace_set_operations
from flinkpy.table.planner.rules.sources import push_into_sources
from flinkpy.table.planner.rules.split_distinct import split_distinct_aggregates
from flinkpy.table.planner.rules.subqueries import expand_subqueries
from flinkpy.table.planner.rules.watermarks import push_watermarks
from flinkpy.table.planner.rules.windows import recognise_window_aggregates


def optimise(plan: rel.RelNode, settings: OptimizerSettings) -> rel.RelNode:
    """Returns a plan of the same rows in the form from which physical nodes are made."""
    plan = expand_subqueries(plan)
    plan = replace_set_operations(plan)
    plan = expand_grouping_sets(plan)
    plan = merge_projections(plan)
    plan = factor_conditions(plan)
    plan = push_filters(plan)
    derived = derive_join_filters(plan)
    if derived is not plan:
        plan = push_filters(derived)
    plan = recognise_ranks(plan)
    plan = push_join_keys(plan)
    plan = merge_projections(plan)
    if settings.is_streaming:
        plan = mark_multi_joins(plan, is_enabled=settings.multi_joins)
    plan = propagate_constants(plan)
    plan = prune_columns(plan)
    plan = merge_projections(plan)
    plan = recognise_window_aggregates(plan)
    plan = merge_projections(plan)
    plan = constant_ranks(plan)
    if settings.distinct_buckets is not None:
        plan = split_distinct_aggregates(plan, settings.distinct_buckets)
    plan = prune_columns(plan)
    plan = merge_projections(plan)
    plan = push_partitions(plan, settings.session)
    plan = push_into_sources(plan)
    return push_watermarks(plan) if settings.is_streaming else plan
