"""Merges the second and the third of the four phases of a split aggregation of distinct values.

Source: org.apache.flink.table.planner.plan.rules.physical.stream.IncrementalAggregateRule.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.sql.rex import InputRef
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, ModifyKind, UpdateKind
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.accumulators import local_group_type


def with_incremental_aggregates(node: ph.PhysicalNode) -> ph.PhysicalNode:
    """Returns the plan with an IncrementalGroupAggregate wherever the partial aggregation takes no rows back."""
    inputs = [with_incremental_aggregates(each) for each in node.inputs]
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = replace(node, inputs=inputs)
    if not isinstance(node, ph.GlobalGroupAggregate) or node.partial_final != "FINAL":
        return node
    local = node.input.input
    assert isinstance(local, ph.LocalGroupAggregate)
    below, places = _partial(local.input)
    if below is None or below.needs_retraction:
        return node
    calls = tuple(replace(call, arguments=tuple(places[each] for each in call.arguments)) for call in local.aggregates)
    grouping = tuple(places[each] for each in local.grouping)
    row_type = local_group_type(below.row_type, grouping, calls, False)
    sends = {"modify_kinds": INSERT_ONLY, "update_kind": UpdateKind.NONE}
    incremental = ph.IncrementalGroupAggregate(
        [below.input],
        row_type,
        below.grouping,
        below.aggregates,
        below.accumulators,
        below.local_input_type,
        below.row_type,
        grouping,
        calls,
        state_ttl_ms=below.state_ttl_ms,
        **sends,  # type: ignore[arg-type]
    )
    return replace(
        node,
        inputs=[ph.Exchange([incremental], row_type, node.grouping, **sends)],  # type: ignore[arg-type]
        aggregates=calls,
        accumulators=tuple(below.accumulators[call.arguments[0] - len(below.grouping)] for call in calls),
        local_input_type=below.row_type,
        needs_retraction=False,
        modify_kinds=node.modify_kinds - {ModifyKind.DELETE},
    )


def _partial(node: ph.PhysicalNode) -> tuple[ph.GlobalGroupAggregate | None, tuple[int, ...]]:
    """Returns the partial aggregation below columns that are passed on, and the place of each column in its results."""
    places = tuple(range(len(node.names)))
    if isinstance(node, ph.Calc) and node.condition is None:
        references = [each.index for each in node.projection if isinstance(each, InputRef)]
        if len(references) == len(node.projection):
            places, node = tuple(references), node.input
    if isinstance(node, ph.GlobalGroupAggregate) and node.partial_final == "PARTIAL":
        return node, places
    return None, ()
