"""Replaces expressions of the Table API that stand for several columns: `*`, with_columns, without_columns, flatten.

Source: org.apache.flink.table.expressions.resolver.rules.{StarReferenceFlatteningRule, ExpandColumnFunctionsRule,
FlattenCallRule}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flinkpy.common.errors import ValidationError
from flinkpy.sql.rex import RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.expression_nodes import ExpressionNode, UnresolvedCall, UnresolvedReference, ValueLiteral
from flinkpy.table.planner.errors import did_you_mean


def expanded(nodes: Sequence[ExpressionNode], names: Sequence[str]) -> list[ExpressionNode]:
    """Returns expressions with a reference per column for those that select columns, in arguments of calls, too.

    Args:
        names: the columns of the table.
    """
    found: list[ExpressionNode] = []
    for node in nodes:
        chosen = _chosen(node, names)
        if chosen is not None:
            found += [UnresolvedReference(name) for name in chosen]
        elif isinstance(node, UnresolvedCall) and _selects_below(node):
            found.append(replace(node, arguments=tuple(expanded(node.arguments, names))))
        else:
            found.append(node)
    return found


def _selects_below(node: UnresolvedCall) -> bool:
    return any(
        _is_selection(each) or (isinstance(each, UnresolvedCall) and _selects_below(each)) for each in node.arguments
    )


def _is_selection(node: ExpressionNode) -> bool:
    if isinstance(node, UnresolvedCall):
        return node.function in ("withColumns", "withoutColumns") and not node.is_lookup
    return isinstance(node, UnresolvedReference) and node.name == "*"


def _chosen(node: ExpressionNode, names: Sequence[str]) -> list[str] | None:
    if not _is_selection(node):
        return None
    if isinstance(node, UnresolvedReference):
        return list(names)
    assert isinstance(node, UnresolvedCall)
    places = [place for each in node.arguments for place in _places(each, names, str(node))]
    if node.function == "withColumns":
        return [names[place] for place in places]
    return [name for place, name in enumerate(names) if place not in places]


def _places(node: ExpressionNode, names: Sequence[str], call: str) -> list[int]:
    """Returns the places of the columns that an argument of with_columns stands for."""
    if isinstance(node, UnresolvedReference) and node.name == "*":
        return list(range(len(names)))
    if isinstance(node, UnresolvedCall) and node.function == "rangeTo":
        start, end = (_place(each, names, call) for each in node.arguments)
        if end < start:
            raise ValidationError(f"The start:{start + 1} of {node} is larger than the end:{end + 1}.")
        return list(range(start, end + 1))
    return [_place(node, names, call)]


def _place(node: ExpressionNode, names: Sequence[str], call: str) -> int:
    if isinstance(node, ValueLiteral) and isinstance(node.value, int):
        if not 1 <= node.value <= len(names):
            raise ValidationError(f"{call} names column {node.value} of a table with {len(names)} columns.")
        return node.value - 1
    if isinstance(node, UnresolvedReference):
        if node.name in names:
            return list(names).index(node.name)
        raise ValidationError(
            f"Cannot resolve field [{node.name}], input field list:[{', '.join(names)}]{did_you_mean(node.name, names)}"
        )
    raise ValidationError(
        f"The parameters of withColumns() or withoutColumns() only accept column names or column indices, not {node}."
    )


def flattened(nodes: Sequence[ExpressionNode], bind: Callable[[ExpressionNode], RexNode]) -> list[ExpressionNode]:
    """Returns expressions with a call of `get` per field for those that flatten rows.

    Args:
        bind: returns a bound expression.
    """
    found: list[ExpressionNode] = []
    for node in nodes:
        if not (isinstance(node, UnresolvedCall) and node.function == "flatten" and not node.is_lookup):
            found.append(node)
            continue
        row = node.arguments[0]
        kind = bind(row).type
        if isinstance(kind, lt.RowType):
            found += [UnresolvedCall("get", (row, ValueLiteral(name))) for name in kind.names]
        else:
            found.append(row)
    return found
