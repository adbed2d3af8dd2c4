"""Writes bound expressions for errors of jobs, with the names of columns."""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.sql.rex import FieldAccess, InputRef, Literal, RexCall, RexNode, UserFunctionCall

#: A longer expression is cut off: an error is a line or two.
_LONGEST = 200


def expression_text(node: RexNode, names: Sequence[str]) -> str:
    """Returns an expression such as `(price / amount)`.

    Args:
        names: the columns of the rows that it is computed for; a column without a name is shown as `$` and its number.
    """
    text = _text(node, names)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _text(node: RexNode, names: Sequence[str]) -> str:
    if isinstance(node, InputRef):
        return names[node.index] if node.index < len(names) else str(node)
    if isinstance(node, Literal):
        return str(node)
    if isinstance(node, FieldAccess):
        return f"{_text(node.operand, names)}.{node.name}"
    operands = [_text(each, names) for each in node.operands]
    if isinstance(node, UserFunctionCall):
        return f"{node.name}({', '.join(operands)})"
    if not isinstance(node, RexCall):
        return str(node)
    if node.function in ("CAST", "TRY_CAST"):
        return f"{node.function}({operands[0]} AS {node.type.as_nullable()})"
    if len(operands) == 2 and not node.function[:1].isalpha():
        return f"({operands[0]} {node.function} {operands[1]})"
    return f"{node.function}({', '.join(operands)})"
