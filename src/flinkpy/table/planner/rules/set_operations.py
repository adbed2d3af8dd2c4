"""Replaces INTERSECT and EXCEPT by joins.

Source: org.apache.flink.table.planner.plan.rules.logical.{ReplaceIntersectWithSemiJoinRule,
ReplaceMinusWithAntiJoinRule}.
"""

from __future__ import annotations

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, RexCall, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel


def replace_set_operations(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan without INTERSECT and EXCEPT. Raises: UnsupportedOperationError for those with ALL."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.SetOperation) or node.kind == "UNION":
            return node
        if node.all:
            raise UnsupportedOperationError(f"{node.kind} ALL is not supported yet")
        left, right = node.parts
        width = left.width
        equal: list[RexNode] = []
        for place, each in enumerate(left.references()):
            other = InputRef(right.type_of(place), width + place)
            equal.append(RexCall(lt.BooleanType(nullable=False), "IS NOT DISTINCT FROM", (each, other)))
        kind = JoinType.SEMI if node.kind == "INTERSECT" else JoinType.ANTI
        joined = rel.Join(left, right, kind, operators.and_(equal))
        return rel.Aggregate(joined, tuple(range(width)), ())

    return rel.transform(plan, change)
