"""Splits GROUP BY with mini-batches into two phases, so that exchanges carry one row per group and mini-batch.

Aggregates over windows are built in two phases, and become one here if their input has updates.

Source: org.apache.flink.table.planner.plan.rules.physical.stream.TwoStageOptimizedAggregateRule.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.sql.rex import AggregateCall
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, UpdateKind
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.accumulators import is_mergeable, local_group_type


def in_two_phases(node: ph.PhysicalNode) -> ph.PhysicalNode:
    """Returns the plan with each GroupAggregate whose aggregates can be merged as a local and a global one."""
    inputs = [in_two_phases(each) for each in node.inputs]
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = replace(node, inputs=inputs)
    if not isinstance(node, ph.GroupAggregate) or not isinstance(node.input, ph.Exchange):
        return node
    if not node.aggregates or not all(is_mergeable(call) for call in node.aggregates):
        return node
    below = node.input.input
    names = _accumulator_names(node.aggregates)
    row_type = local_group_type(below.row_type, node.grouping, node.aggregates, node.needs_retraction)
    sends = {"modify_kinds": INSERT_ONLY, "update_kind": UpdateKind.NONE}
    local = ph.LocalGroupAggregate(
        [below],
        row_type,
        node.grouping,
        node.aggregates,
        names,
        needs_retraction=node.needs_retraction,
        partial_final=node.partial_final,
        **sends,  # type: ignore[arg-type]
    )
    keys = tuple(range(len(node.grouping)))
    exchange = ph.Exchange([local], row_type, keys, **sends)  # type: ignore[arg-type]
    return ph.GlobalGroupAggregate(
        [exchange],
        node.row_type,
        keys,
        node.aggregates,
        names,
        below.row_type,
        needs_retraction=node.needs_retraction,
        state_ttl_ms=node.state_ttl_ms,
        partial_final=node.partial_final,
        modify_kinds=node.modify_kinds,
        update_kind=node.update_kind,
    )


def window_aggregate_in_one_phase(node: ph.GlobalWindowAggregate) -> ph.WindowAggregate:
    """Returns one operator instead of the two phases of an aggregate over windows."""
    local = node.input.input
    assert isinstance(local, ph.LocalWindowAggregate)
    return ph.WindowAggregate(
        [ph.Exchange([local.input], local.input.row_type, local.grouping)],
        node.row_type,
        local.grouping,
        local.aggregates,
        local.window,
        local.time_column,
        local.bounds,
        local.is_event_time,
        local.properties,
    )


def _accumulator_names(calls: tuple[AggregateCall, ...]) -> tuple[tuple[str, ...], ...]:
    """Returns the names that plans show for the accumulators of each aggregate."""
    names: list[tuple[str, ...]] = []
    number = 0
    for call in calls:
        function = call.function.lower()
        if function == "count":
            parts: tuple[str, ...] = ("count" if call.arguments else "count1",)
        elif function == "avg":
            parts = ("sum", "count")
        else:
            parts = (function.lstrip("$").replace("sum0", "sum"),)
        names.append(tuple(f"{part}${number + place}" for place, part in enumerate(parts)))
        number += len(parts)
    return tuple(names)
