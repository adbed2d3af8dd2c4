"""Replaces INTERSECT and EXCEPT: by joins, and those with ALL by counts of equal rows on both sides.

Source: org.apache.flink.table.planner.plan.rules.logical.{ReplaceIntersectWithSemiJoinRule,
ReplaceMinusWithAntiJoinRule, RewriteIntersectAllRule, RewriteMinusAllRule}.
"""

from __future__ import annotations

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import AggregateCall, InputRef, Literal, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.dependent_joins import same_values

_BIGINT = lt.BigIntType(nullable=False)


def replace_set_operations(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with UNION ALL as its only set operation."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.SetOperation) or node.kind == "UNION":
            return node
        if node.all:
            return _intersect_all(node) if node.kind == "INTERSECT" else _except_all(node)
        left, right = node.parts
        others = [InputRef(each.type, left.width + place) for place, each in enumerate(right.references())]
        kind = JoinType.SEMI if node.kind == "INTERSECT" else JoinType.ANTI
        joined = rel.Join(left, right, kind, same_values(left.references(), others))
        return rel.Aggregate(joined, tuple(range(left.width)), ())

    return rel.transform(plan, change)


def _intersect_all(node: rel.SetOperation) -> rel.RelNode:
    """Returns each row as often as the side that has it less often."""
    marker, none = Literal(lt.BooleanType(), True), Literal(lt.BooleanType(), None)
    names = ("vcol_left_marker", "vcol_right_marker")
    both = _union(node, names, ((marker, none), (none, marker)))
    calls = tuple(
        AggregateCall("COUNT", (place,), _BIGINT, name)
        for place, name in enumerate(("vcol_left_cnt", "vcol_right_cnt"))
    )
    counted = rel.Aggregate(both, tuple(range(2, both.width)), calls)
    *row, left, right = counted.references()
    one = Literal(_BIGINT, 1)
    on_both = operators.and_([operators.comparison(">=", each, one) for each in (left, right)])
    less = operators.case([(operators.comparison(">", left, right), right)], left)
    return _replicated(node, rel.Filter(counted, on_both), less, row)


def _except_all(node: rel.SetOperation) -> rel.RelNode:
    """Returns each row as often as the left side has it more often."""
    both = _union(node, ("vcol_marker",), ((Literal(_BIGINT, 1),), (Literal(_BIGINT, -1),)))
    total = AggregateCall("SUM", (0,), _BIGINT, "sum_vcol_marker")
    summed = rel.Aggregate(both, tuple(range(1, both.width)), (total,))
    *row, surplus = summed.references()
    more = rel.Filter(summed, operators.comparison(">", surplus, Literal(_BIGINT, 0)))
    return _replicated(node, more, surplus, row)


def _union(
    node: rel.SetOperation, names: tuple[str, ...], markers: tuple[tuple[RexNode, ...], tuple[RexNode, ...]]
) -> rel.RelNode:
    """Returns the rows of both sides, each after the markers of its side."""
    parts = [
        rel.Project(part, (*marker, *part.references()), rel.unique_names((*names, *node.names)))
        for part, marker in zip(node.parts, markers, strict=True)
    ]
    return rel.SetOperation("UNION", True, tuple(parts))


def _replicated(node: rel.SetOperation, plan: rel.RelNode, count: RexNode, row: list[RexNode]) -> rel.RelNode:
    names = rel.unique_names(("$f0", *node.names))
    replicated = rel.ReplicateRows(rel.Project(plan, (count, *row), names))
    return rel.Project(replicated, replicated.references(), node.names)
