"""Tools for expressions of plans: substitution of columns, and simplification."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode, input_columns, rewrite, walk
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.expressions import is_deterministic
from flinkpy.table.planner.logical.rex_nodes import OuterRef, OverCall, SubQuery


def columns_of(*nodes: RexNode | None) -> set[int]:
    """Returns the input columns that the expressions use, those used inside of subqueries included."""
    found: set[int] = set()
    for node in nodes:
        if node is None:
            continue
        found.update(input_columns((node,)))
        for each in walk(node):
            if isinstance(each, SubQuery):
                found.update(outer_columns(each.plan, each.correlation))
    return found


def outer_columns(plan: object, correlation: int) -> set[int]:
    """Returns the columns of the query `correlation` that a plan below it refers to."""
    from flinkpy.table.planner.logical import nodes as rel
    from flinkpy.table.planner.logical.traversal import expressions_of

    assert isinstance(plan, rel.RelNode)
    found = set()
    for node in rel.walk(plan):
        for expression in expressions_of(node):
            for each in walk(expression):
                if isinstance(each, OuterRef) and each.correlation == correlation:
                    found.add(each.index)
                if isinstance(each, SubQuery):
                    found |= outer_columns(each.plan, correlation)
    return found


def substituted(node: RexNode, expressions: Sequence[RexNode]) -> RexNode:
    """Returns the expression with each column replaced by the expression that computes it."""

    def change(each: RexNode) -> RexNode | None:
        return expressions[each.index] if isinstance(each, InputRef) else None

    return rewrite(node, change)


def is_inlinable(expressions: Sequence[RexNode]) -> bool:
    """True if the expressions may be evaluated at another place, and more than once."""
    return all(is_deterministic(each) and not _has(each, OverCall, SubQuery) for each in expressions)


def _has(node: RexNode, *kinds: type[RexNode]) -> bool:
    return any(isinstance(each, kinds) for each in walk(node))


def has_subquery(node: RexNode) -> bool:
    return _has(node, SubQuery)


def simplified(node: RexNode) -> RexNode:
    """Returns the expression without parts that are constant or say the same twice."""
    operands = tuple(simplified(each) for each in node.operands)
    if any(new is not old for new, old in zip(operands, node.operands, strict=True)):
        node = node.with_operands(operands)
    if not isinstance(node, RexCall):
        return node
    if node.function == "AND":
        return operators.and_(node.arguments)
    if node.function == "OR":
        return operators.or_(node.arguments)
    if node.function == "NOT":
        return operators.not_(node.arguments[0])
    if node.function in ("IS NULL", "IS NOT NULL") and not node.arguments[0].type.nullable:
        return operators.FALSE if node.function == "IS NULL" else operators.TRUE
    if node.function in ("IS TRUE", "IS FALSE") and isinstance(node.arguments[0], Literal):
        wanted = node.function == "IS TRUE"
        return operators.TRUE if node.arguments[0].value is wanted else operators.FALSE
    if node.function == "CASE":
        return _simplified_case(node)
    if node.function in _COMPARE and all(isinstance(each, Literal) for each in node.arguments):
        return _compared(node)
    return node


_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


def _compared(node: RexCall) -> RexNode:
    left, right = node.arguments
    assert isinstance(left, Literal)
    assert isinstance(right, Literal)
    if left.value is None or right.value is None:
        return Literal(node.type.as_nullable(), None)
    if type(left.value) is not type(right.value):
        return node
    return operators.TRUE if _COMPARE[node.function](left.value, right.value) else operators.FALSE


def _simplified_case(node: RexCall) -> RexNode:
    operands: list[RexNode] = []
    *pairs, otherwise = node.arguments
    for condition, result in zip(pairs[0::2], pairs[1::2], strict=True):
        if isinstance(condition, Literal):
            if condition.value is not True:
                continue
            otherwise = result
            break
        operands += [condition, result]
    if not operands:
        return operators.cast(otherwise, node.type)
    return node if len(operands) + 1 == len(node.arguments) else node.with_operands((*operands, otherwise))
