"""Uids: the uids of the operators of a plan, by which a restored job finds their state.

Source: org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext.generateUid.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkpy.graph.transformation import OperatorTransformation, Transformation
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.plans.plan_graph import PlanGraph, kebab, node_type


class Uids:
    """Sets uids.

    Args:
        graph: numbers the nodes.
        pattern: `table.exec.uid.format`.
    """

    def __init__(self, graph: PlanGraph, pattern: str) -> None:
        self._graph = graph
        self._pattern = pattern

    def assign(self, node: ph.PhysicalNode, made: Transformation, below: Iterable[Transformation]) -> None:
        """Sets the uids of the operators of a node: those from `made` down to the operators of its inputs."""
        seen = {each.id for each in below}
        pending = [made]
        while pending:
            each = pending.pop()
            if each.id in seen:
                continue
            seen.add(each.id)
            pending.extend(each.inputs)
            if isinstance(each, OperatorTransformation):
                each.set_uid(self._uid(node, each))

    def _uid(self, node: ph.PhysicalNode, operator: OperatorTransformation) -> str:
        number = self._graph.ids[id(node)]
        values = {
            "<id>": str(number),
            "<type>": node_type(node, is_streaming=self._graph.is_streaming),
            "<version>": str(node.plan_version),
            "<transformation>": _operator_name(operator),
        }
        uid = self._pattern
        for placeholder, value in values.items():
            uid = uid.replace(placeholder, value)
        return uid


def _operator_name(operator: OperatorTransformation) -> str:
    if operator.is_source:
        return "source"
    return "writer" if operator.is_sink else kebab(operator.name)
