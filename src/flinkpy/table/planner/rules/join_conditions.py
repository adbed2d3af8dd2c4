"""Derives conditions that filters can be pushed down by: common factors of OR, and what OR says about each input.

Source: org.apache.flink.table.planner.plan.rules.logical.{SimplifyFilterConditionRule, SimplifyJoinConditionRule,
JoinDependentConditionDerivationRule}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, RexCall, RexNode, moved, walk
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef, SubQuery
from flinkpy.table.planner.rules.expressions import columns_of, is_inlinable, simplified
from flinkpy.table.planner.rules.windows import equal_columns


def factor_conditions(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with `(a AND b) OR (a AND c)` as `a AND (b OR c)` in filters and joins."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, (rel.Filter, rel.Join)):
            return node
        condition = factored(node.condition)
        return node if condition is node.condition else replace(node, condition=condition)

    return rel.transform(plan, change)


def factored(condition: RexNode) -> RexNode:
    """Returns the condition with what all operands of an OR have in common outside of the OR."""
    own = operators.conjuncts(condition)
    parts = [part for each in own for part in _factored_or(each)]
    return condition if parts == own else operators.and_(parts)


def _factored_or(condition: RexNode) -> list[RexNode]:
    if not isinstance(condition, RexCall) or condition.function != "OR" or not is_inlinable((condition,)):
        return [condition]
    branches = [operators.conjuncts(factored(each)) for each in condition.arguments]
    common = [each for each in branches[0] if all(each in branch for branch in branches[1:])]
    if not common:
        return [condition]
    rest = [operators.and_([each for each in branch if each not in common]) for branch in branches]
    remaining = operators.or_(rest)
    return common if remaining == operators.TRUE else [*common, remaining]


def derive_join_filters(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan whose inner joins also say what an OR over both inputs implies for each of them.

    `(a = 1 AND x = 2) OR (a = 3 AND x = 4)` implies `a = 1 OR a = 3` and `x = 2 OR x = 4`.
    """

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Join) or node.join_type is not JoinType.INNER:
            return node
        own = operators.conjuncts(node.condition)
        width = node.left.width
        sides = [range(width), range(width, width + node.right.width)]
        derived = [found for each in own for side in sides if (found := _implied(each, side)) is not None]
        derived = [each for each in derived if each not in own]
        return replace(node, condition=operators.and_([*own, *derived])) if derived else node

    return rel.transform(plan, change)


def _implied(condition: RexNode, side: range) -> RexNode | None:
    """Returns what an OR over both inputs implies for the columns of one; None if that is nothing."""
    if not isinstance(condition, RexCall) or condition.function != "OR" or not is_inlinable((condition,)):
        return None
    if columns_of(condition) <= set(side):
        return None
    branches = []
    for each in condition.arguments:
        own = [part for part in operators.conjuncts(each) if (used := columns_of(part)) and used <= set(side)]
        if not own:
            return None
        branches.append(operators.and_(own))
    return simplified(operators.or_(branches))


def conditions_on_partner(plan: rel.RelNode, conditions: Sequence[RexNode]) -> list[RexNode]:
    """Returns what filters of a plan say about the right input of a join with it, over the columns of that input.

    Args:
        conditions: the conditions of the join. Their equalities of columns carry the filters over.
    """
    pairs = [pair for each in conditions if (pair := equal_columns(each, plan.width)) is not None]
    partner = dict(pairs)
    return [
        moved(each, partner)
        for each in _filters_of(plan)
        if is_inlinable((each,)) and (used := columns_of(each)) and used <= set(partner)
    ]


def _filters_of(plan: rel.RelNode) -> list[RexNode]:
    """Returns the conditions that all rows of a plan meet, as far as filters on top of it say so."""
    match plan:
        case rel.Filter():
            own = [each for each in operators.conjuncts(plan.condition) if not _is_open(each)]
            return [*own, *_filters_of(plan.input)]
        case rel.Join() if plan.join_type in (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI):
            return _filters_of(plan.left)
        case rel.Project():
            places = {each.index: at for at, each in enumerate(plan.expressions) if isinstance(each, InputRef)}
            return [moved(each, places) for each in _filters_of(plan.input) if columns_of(each) <= set(places)]
    return []


def _is_open(condition: RexNode) -> bool:
    """True for a condition with a subquery, or over the columns of a query around it."""
    return any(isinstance(each, (OuterRef, SubQuery)) for each in walk(condition))
