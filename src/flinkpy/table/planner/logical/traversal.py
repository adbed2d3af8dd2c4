"""Reads and changes the expressions of any logical node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flinkpy.sql.rex import RexNode, rewrite
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import SubQuery


def expressions_of(node: rel.RelNode) -> tuple[RexNode, ...]:
    """Returns the expressions of the node itself, not those of its inputs."""
    match node:
        case rel.Project():
            return node.expressions
        case rel.Filter():
            return (node.condition,)
        case rel.WatermarkAssigner():
            return (node.watermark,)
        case rel.Snapshot():
            return (node.period,)
        case rel.Join() | rel.LateralJoin():
            return (node.condition,)
        case rel.Correlate():
            return (node.call,) if node.condition is None else (node.call, node.condition)
        case rel.Expand():
            return tuple(each for projection in node.projections for each in projection)
        case rel.Match():
            return tuple(value for _, value in (*node.definitions, *node.measures))
    return ()


def with_expressions(node: rel.RelNode, change: Callable[[RexNode], RexNode]) -> rel.RelNode:
    """Returns the node with its own expressions changed."""
    match node:
        case rel.Project():
            return replace(node, expressions=tuple(change(each) for each in node.expressions))
        case rel.Filter():
            return replace(node, condition=change(node.condition))
        case rel.Snapshot():
            return replace(node, period=change(node.period))
        case rel.Join() | rel.LateralJoin():
            return replace(node, condition=change(node.condition))
        case rel.Correlate():
            condition = None if node.condition is None else change(node.condition)
            return replace(node, call=change(node.call), condition=condition)
        case rel.Match():
            definitions = tuple((name, change(value)) for name, value in node.definitions)
            return replace(node, definitions=definitions, measures=tuple((n, change(v)) for n, v in node.measures))
    return node


def rewrite_plan(plan: rel.RelNode, change: Callable[[RexNode], RexNode | None]) -> rel.RelNode:
    """Returns the plan with `rewrite` applied to all its expressions, those inside of subqueries included."""

    def visit(each: RexNode) -> RexNode | None:
        found = change(each)
        if found is None and isinstance(each, SubQuery):
            left = tuple(rewrite(value, visit) for value in each.left)
            return replace(each, plan=rewrite_plan(each.plan, change), left=left)
        return found

    return rel.transform(plan, lambda node: with_expressions(node, lambda each: rewrite(each, visit)))
