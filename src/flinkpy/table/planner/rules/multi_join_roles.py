"""Marks the inner and left joins that a multi-way join may compute in one operator.

It runs before columns are pruned: then a projection between two joins is one that the query has written, which ends a
chain.

Source: org.apache.flink.table.planner.plan.rules.logical.JoinToMultiJoinRule.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.graph.table_specs import JoinType
from flinkpy.table.planner.logical import nodes as rel

HINT = "MULTI_JOIN"


def mark_multi_joins(plan: rel.RelNode, *, is_enabled: bool) -> rel.RelNode:
    """Returns the plan with the roles of its joins.

    Args:
        is_enabled: True for all joins; False for those with the hint MULTI_JOIN.
    """

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Join) or node.join_type not in (JoinType.INNER, JoinType.LEFT):
            return node
        if isinstance(node.right, rel.Snapshot) or not (is_enabled or any(name == HINT for name, _ in node.hints)):
            return node
        continues = isinstance(node.left, rel.Join) and node.left.chain is not rel.ChainRole.NONE
        return replace(node, chain=rel.ChainRole.NEXT if continues else rel.ChainRole.FIRST)

    return rel.transform(plan, change)
