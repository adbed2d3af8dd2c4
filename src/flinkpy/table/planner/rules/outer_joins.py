"""Finds the outer joins whose padded rows no filter above them lets pass, so that they need not be padded.

Source: org.apache.flink.table.planner.plan.rules.logical.FlinkFilterJoinRule, org.apache.calcite.plan.Strong.
Differs: an OR of comparisons with one column counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode

#: Functions whose result is NULL if one of their arguments is.
_STRICT = frozenset({"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "MOD", "LIKE", "CAST"})
#: For an outer join, the join without the rows in which the left or the right columns are padded.
_WITHOUT_LEFT_PADDING = {JoinType.RIGHT: JoinType.INNER, JoinType.FULL: JoinType.LEFT}
_WITHOUT_RIGHT_PADDING = {JoinType.LEFT: JoinType.INNER, JoinType.FULL: JoinType.RIGHT}
#: More columns than a row has.
_END = 1 << 31


def without_padding(kind: JoinType, conditions: Sequence[RexNode], width: int) -> JoinType:
    """Returns the kind of join that has the same rows once they are filtered.

    Args:
        conditions: the filter, over the columns of both inputs.
        width: the number of columns of the left input.
    """
    if any(_is_never_true(each, range(width)) for each in conditions):
        kind = _WITHOUT_LEFT_PADDING.get(kind, kind)
    if any(_is_never_true(each, range(width, _END)) for each in conditions):
        kind = _WITHOUT_RIGHT_PADDING.get(kind, kind)
    return kind


def _is_never_true(condition: RexNode, nulls: range) -> bool:
    """True if the condition is false or unknown whenever these columns are NULL."""
    if isinstance(condition, Literal):
        return condition.value is not True
    if isinstance(condition, RexCall):
        match condition.function:
            case "AND":
                return any(_is_never_true(each, nulls) for each in condition.arguments)
            case "OR":
                return all(_is_never_true(each, nulls) for each in condition.arguments)
            case "IS TRUE":
                return _is_never_true(condition.arguments[0], nulls)
            case "IS NOT NULL" | "IS FALSE":
                return _is_null(condition.arguments[0], nulls)
    return _is_null(condition, nulls)


def _is_null(node: RexNode, nulls: range) -> bool:
    """True if the value is NULL whenever these columns are NULL."""
    if isinstance(node, InputRef):
        return node.index in nulls
    if isinstance(node, Literal):
        return node.value is None
    if isinstance(node, RexCall):
        if node.function in ("AND", "OR", "NOT"):
            return all(_is_null(each, nulls) for each in node.arguments)
        return node.function in _STRICT and any(_is_null(each, nulls) for each in node.arguments)
    return False
