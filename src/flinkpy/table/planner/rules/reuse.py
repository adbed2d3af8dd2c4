"""Shares equal parts of physical plans, so that each is computed once: sources, and all that is computed from them.

Source: org.apache.flink.table.planner.plan.reuse.SubplanReuser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.sql.rex import RexNode
from flinkpy.table.planner.binder.expressions import is_deterministic
from flinkpy.table.planner.physical import nodes as ph


def share_equal_parts(plans: Sequence[ph.PhysicalNode]) -> list[ph.PhysicalNode]:
    """Returns the plans with equal subtrees as one node. Sinks and parts that are not deterministic are not shared."""
    known: dict[str, ph.PhysicalNode] = {}
    names: dict[int, str] = {}

    def visit(node: ph.PhysicalNode) -> tuple[ph.PhysicalNode, str]:
        below = [visit(each) for each in node.inputs]
        inputs = [each for each, _ in below]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            node = replace(node, inputs=inputs)
        digest = f"{node.description()}{ph.changelog_text(node)}{node.row_type}({','.join(each for _, each in below)})"
        if isinstance(node, ph.Sink) or not _is_sharable(node):
            digest += f"#{id(node)}"
        shared = known.setdefault(digest, node)
        names.setdefault(id(shared), f"@{len(names)}")
        return shared, names[id(shared)]

    return [visit(each)[0] for each in plans]


def _is_sharable(node: ph.PhysicalNode) -> bool:
    expressions: tuple[RexNode, ...] = ()
    if isinstance(node, ph.Calc):
        expressions = node.projection if node.condition is None else (*node.projection, node.condition)
    if isinstance(node, ph.Correlate):
        expressions = (node.call,)
    return all(is_deterministic(each) for each in expressions)
