"""Marks the joins that collect mini-batches.

Source: org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecJoin, ...plan.utils.MinibatchUtil.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.graph.table_specs import JoinType
from flinkpy.table.planner.physical import nodes as ph


def with_mini_batch_joins(node: ph.PhysicalNode) -> ph.PhysicalNode:
    """Returns the plan with each regular join in mini-batches, except semi and anti joins."""
    inputs = [with_mini_batch_joins(each) for each in node.inputs]
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = replace(node, inputs=inputs)
    if isinstance(node, ph.Join) and node.join_type not in (JoinType.SEMI, JoinType.ANTI):
        return replace(node, is_mini_batch=True)
    return node
