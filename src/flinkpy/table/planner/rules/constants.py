"""Replaces columns by the constants to which filters below compare them.

Source: org.apache.calcite.rel.rules.ReduceExpressionsRule with pulled up predicates.
"""

from __future__ import annotations

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import FieldAccess, InputRef, Literal, RexCall, RexNode, rewrite
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel


def propagate_constants(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan whose projections name constants instead of columns that have only one value."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Project):
            return node
        known = _constants(node.input)
        if not known:
            return node

        def replaced(each: RexNode) -> RexNode | None:
            literal = known.get(each)
            if literal is None:
                return None
            return RexCall(each.type, "CAST", (literal,)) if each.type.nullable else literal

        return rel.Project(node.input, tuple(rewrite(each, replaced) for each in node.expressions), node.field_names)

    return rel.transform(plan, change)


def _constants(node: rel.RelNode) -> dict[RexNode, Literal]:
    """Returns the columns, and fields of columns, that have one value in all rows."""
    match node:
        case rel.Filter():
            found = dict(_constants(node.input))
            for each in operators.conjuncts(node.condition):
                if isinstance(each, RexCall) and each.function == "=":
                    left, right = each.arguments
                    if isinstance(left, Literal):
                        left, right = right, left
                    if _is_column(left) and _fits(right, left.type):
                        assert isinstance(right, Literal)
                        found[left] = right
            return found
        case rel.Project():
            below = _constants(node.input)
            result: dict[RexNode, Literal] = {}
            for place, each in enumerate(node.expressions):
                literal = below.get(each)
                if isinstance(each, RexCall) and each.function == "CAST" and isinstance(each.arguments[0], Literal):
                    literal = each.arguments[0]
                if literal is not None and _fits(literal, each.type):
                    result[InputRef(each.type, place)] = literal
            return result
        case rel.Join() if node.join_type is JoinType.INNER:
            result = dict(_constants(node.left))
            for each, literal in _constants(node.right).items():
                if isinstance(each, InputRef):
                    result[InputRef(each.type, each.index + node.left.width)] = literal
            return result
        case rel.Join() if node.join_type in (JoinType.LEFT, JoinType.SEMI, JoinType.ANTI):
            return _constants(node.left)
        case rel.Sort() | rel.Rank() | rel.WindowTableFunction():
            return _constants(node.input)
    return {}


def _is_column(node: RexNode) -> bool:
    return isinstance(node, InputRef) or (isinstance(node, FieldAccess) and _is_column(node.operand))


def _fits(node: RexNode, kind: lt.LogicalType) -> bool:
    """True for a constant of the column's own type whose equality means the same value."""
    if not isinstance(node, Literal) or node.value is None or isinstance(node.value, (float, str)):
        return False
    return operators.same_type(node.type, kind)
