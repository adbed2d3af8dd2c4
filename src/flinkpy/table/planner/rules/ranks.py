"""Recognises Top-N: a filter on ROW_NUMBER, RANK or DENSE_RANK.

Source: org.apache.flink.table.planner.plan.rules.logical.FlinkLogicalRankRule, RankUtil.
"""

from __future__ import annotations

from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel

_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")


def recognise_ranks(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with filtered rank functions as Rank nodes."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if isinstance(node, rel.Filter) and isinstance(node.input, rel.OverAggregate):
            return _rank(node, node.input)
        return node

    return rel.transform(plan, change)


def _rank(node: rel.Filter, over: rel.OverAggregate) -> rel.RelNode:
    # The rank function must be the last OVER group, and alone in it, so that Rank can take its place.
    group = over.groups[-1]
    call = group.aggregates[0]
    if len(group.aggregates) != 1 or call.function not in _RANKS or not group.order:
        return node
    column = over.width - 1
    start, end, end_column = 1, None, None
    rest: list[RexNode] = []
    for condition in operators.conjuncts(node.condition):
        bound = _bound(condition, column)
        if bound is None:
            rest.append(condition)
            continue
        operator, value = bound
        if isinstance(value, InputRef):
            if operator not in ("<=", "<") or end_column is not None or end is not None or operator == "<":
                rest.append(condition)
            else:
                end_column = value.index
            continue
        assert isinstance(value, Literal)
        number = int(value.value)
        if operator in ("=", "<=", "<"):
            limit = number - 1 if operator == "<" else number
            end = limit if end is None else min(end, limit)
        if operator in ("=", ">=", ">"):
            start = max(start, number + 1 if operator == ">" else number)
    if end is None and end_column is None:
        return node
    below: rel.RelNode = over.input
    if len(over.groups) > 1:
        below = rel.OverAggregate(over.input, over.groups[:-1])
    if end is not None and end < start:
        rest.append(operators.FALSE)
        end = start
    partition = tuple(sorted(set(group.partition)))
    rank: rel.RelNode = rel.Rank(
        below, call.function, partition, group.order, start, end, call.name, call.type, end_column
    )
    return rel.Filter(rank, operators.and_(rest)) if rest else rank


def _bound(condition: RexNode, column: int) -> tuple[str, RexNode] | None:
    """Returns the comparison of the rank with a number or a column; None for other conditions."""
    if not isinstance(condition, RexCall) or condition.function not in ("=", "<", "<=", ">", ">="):
        return None
    left, right = condition.arguments
    operator = condition.function
    if isinstance(right, InputRef) and right.index == column:
        left, right, operator = right, left, operators.MIRRORED[operator]
    if not (isinstance(left, InputRef) and left.index == column):
        return None
    if isinstance(right, Literal) and isinstance(right.value, int):
        return operator, right
    return (operator, right) if isinstance(right, InputRef) and right.index != column else None


def constant_ranks(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with the rank column of Top-1 by ROW_NUMBER as the constant that it is."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Rank) or node.rank_name is None or node.function != "ROW_NUMBER":
            return node
        if node.end is None or node.start != node.end:
            return node
        below = rel.Rank(
            node.input, node.function, node.partition, node.order, node.start, node.end, None, node.rank_type
        )
        constant = Literal(node.rank_type, node.end)
        return rel.Project(below, (*below.references(), constant), node.names)

    return rel.transform(plan, change)
