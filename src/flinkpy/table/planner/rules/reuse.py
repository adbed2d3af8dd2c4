"""Shares equal parts of physical plans, so that each is computed once: sources, and all that is computed from them.

Source: org.apache.flink.table.planner.plan.reuse.SubplanReuser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import REUSE_SINK_ENABLED, REUSE_SOURCE_ENABLED, REUSE_SUB_PLAN_ENABLED
from flinkpy.sql.rex import RexNode
from flinkpy.table.planner.binder.expressions import is_deterministic
from flinkpy.table.planner.physical import nodes as ph


@dataclass(frozen=True, slots=True)
class Reuse:
    """The options that say what is shared.

    Attributes:
        sub_plans: `table.optimizer.reuse-sub-plan-enabled`; without it nothing is shared.
        sources: `table.optimizer.reuse-source-enabled`.
        sinks: `table.optimizer.reuse-sink-enabled`.
    """

    sub_plans: bool = True
    sources: bool = True
    sinks: bool = True

    @classmethod
    def of(cls, configuration: Any) -> Reuse:
        """Reads the options."""
        options = (REUSE_SUB_PLAN_ENABLED, REUSE_SOURCE_ENABLED, REUSE_SINK_ENABLED)
        return cls(*(read_option(configuration, each) for each in options))


def share_equal_parts(plans: Sequence[ph.PhysicalNode], reuse: Reuse) -> list[ph.PhysicalNode]:
    """Returns the plans with equal subtrees as one node. Parts that are not deterministic are not shared.

    Plans whose sinks are equal become one plan, whose sink takes the rows of all of them.
    """
    if not reuse.sub_plans:
        return list(plans)
    if reuse.sinks:
        plans = _with_one_sink(plans)
    known: dict[str, ph.PhysicalNode] = {}
    names: dict[str, str] = {}

    def visit(node: ph.PhysicalNode) -> tuple[ph.PhysicalNode, str]:
        below = [visit(each) for each in node.inputs]
        inputs = [each for each, _ in below]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            node = replace(node, inputs=inputs)
        digest = f"{_digest(node)}({','.join(each for _, each in below)})"
        if isinstance(node, ph.Sink) or not _is_sharable(node):
            digest += f"#{id(node)}"
        name = names.setdefault(digest, f"@{len(names)}")
        if isinstance(node, ph.TableSourceScan) and not reuse.sources:
            # Operators on top of equal sources still run once, as in Flink.
            return node, name
        return known.setdefault(digest, node), name

    return [visit(each)[0] for each in plans]


def _with_one_sink(plans: Sequence[ph.PhysicalNode]) -> list[ph.PhysicalNode]:
    """Returns the plans with those whose sinks are equal as one, which writes the rows of all of them."""
    groups: dict[str, list[ph.PhysicalNode]] = {}
    for plan in plans:
        digest = str(id(plan))
        if isinstance(plan, ph.Sink):
            digest = f"{_digest(plan)}{ph.changelog_text(plan.input)}{plan.input.row_type}{plan.abilities}"
        groups.setdefault(digest, []).append(plan)
    result: list[ph.PhysicalNode] = []
    for first, *others in groups.values():
        if others:
            inputs = [each.input for each in (first, *others)]
            kinds = frozenset().union(*(each.modify_kinds for each in inputs))
            union = ph.Union(inputs, inputs[0].row_type, modify_kinds=kinds, update_kind=inputs[0].update_kind)
            first = replace(first, inputs=[union])
        result.append(first)
    return result


def _digest(node: ph.PhysicalNode) -> str:
    """Returns a text that is equal for nodes that do the same with equal inputs."""
    values = [f"{each.name}={value}" for each in fields(node) if _is_plain(value := getattr(node, each.name))]
    options = getattr(getattr(node, "table", None), "options", None)
    return f"{node.description()}{ph.changelog_text(node)}{node.row_type}{values}{options}"


def _is_plain(value: object) -> bool:
    """True for values that descriptions may leave out, such as the time-to-live of a STATE_TTL hint."""
    if isinstance(value, tuple):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, (bool, int, str))


def _is_sharable(node: ph.PhysicalNode) -> bool:
    expressions: tuple[RexNode, ...] = ()
    if isinstance(node, ph.Calc):
        expressions = node.projection if node.condition is None else (*node.projection, node.condition)
    if isinstance(node, ph.AsyncCalc):
        expressions = node.calls
    if isinstance(node, ph.Correlate):
        expressions = (node.call,)
    return all(is_deterministic(each) for each in expressions)
