"""Calls that have the same text in the languages of all engines."""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.sql.rex import Literal, RexCall, RexNode
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.batch.dialect import Dialect, NotInEngine, Own
from flinkpy.table.planner.batch.engine_expressions import Operand
from flinkpy.table.planner.batch.exactness import are_comparable

R = lt.TypeRoot

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_TESTS = ("IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE")
#: Units of EXTRACT that are the same numbers, for dates and timestamps.
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "DAY"})


def _junction(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str:
    if any(each.may_fail for each in operands[1:]):
        # The engine computes all operands for all rows, or in another order.
        raise NotInEngine(f"an operand of {node.function} may fail, and one before it may exclude that")
    as_list = _in_list(dialect, node, operands) if node.function == "OR" else None
    return as_list or "(" + f" {node.function} ".join(each.text for each in operands) + ")"


def _in_list(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    """Returns `a IN (1, 2)` for `a = 1 OR a = 2`; None for other conditions."""
    left: RexNode | None = None
    values = []
    for each in node.arguments:
        if not isinstance(each, RexCall) or each.function != "=" or not isinstance(each.arguments[1], Literal):
            return None
        if each.arguments[0].type.root in of.APPROXIMATE_NUMERIC or left not in (None, each.arguments[0]):
            return None
        text = dialect.literal(each.arguments[1])
        if text is None:
            return None
        left = each.arguments[0]
        values.append(text)
    assert left is not None
    return f"({operands[0].of(left).text} IN ({', '.join(values)}))"


def _test(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str:
    return f"({operands[0].text} {node.function})"


def exact_comparison(node: RexCall, operands: Sequence[Operand]) -> str | None:
    """Returns a comparison of values that are not approximate numbers."""
    left, right = operands
    return f"({left.text} {node.function} {right.text})" if are_comparable(left.type, right.type) else None


def has_floats(operands: Sequence[Operand]) -> bool:
    """True if an operand is an approximate number, which may be NaN."""
    return any(each.type.root in of.APPROXIMATE_NUMERIC for each in operands)


def _case(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if not dialect.computes_lazily and any(each.may_fail for each in operands[1:]):
        return None
    *pairs, otherwise = operands
    branches = [
        f"WHEN {condition.text} THEN {result.text}" for condition, result in zip(pairs[0::2], pairs[1::2], strict=True)
    ]
    return f"CAST(CASE {' '.join(branches)} ELSE {otherwise.text} END AS {dialect.type_name(node.type)})"


def _coalesce(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if not dialect.computes_lazily and any(each.may_fail for each in operands[1:]):
        return None
    return f"CAST(COALESCE({', '.join(each.text for each in operands)}) AS {dialect.type_name(node.type)})"


def _like(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if len(operands) != 2 or not isinstance(node.arguments[1], Literal):
        return None
    pattern = node.arguments[1].value
    if pattern is None or "\\" in pattern or "\0" in pattern:
        return None
    return f"({operands[0].text} {node.function} {operands[1].text})"


def _extract(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    unit = node.arguments[0]
    if not isinstance(unit, Literal) or unit.value not in _UNITS:
        return None
    if operands[1].type.root not in (R.DATE, R.TIMESTAMP_WITHOUT_TIME_ZONE):
        return None
    return f"CAST({str(unit.value).lower()}({operands[1].text}) AS BIGINT)"


def _substring(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if operands[0].type.root not in of.CHARACTER_STRING:
        return None
    for each, least in zip(node.arguments[1:], (1, 0)):
        if not isinstance(each, Literal) or not isinstance(each.value, int) or each.value < least:
            return None
    return f"substring({', '.join(each.text for each in operands)})"


def _concat(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if any(each.type.root not in of.CHARACTER_STRING for each in operands):
        return None
    return "(" + " || ".join(each.text for each in operands) + ")"


COMMON: dict[str, Own] = {
    "AND": _junction,
    "OR": _junction,
    "NOT": lambda dialect, node, operands: f"(NOT {operands[0].text})",
    "CASE": _case,
    "IF": _case,
    "COALESCE": _coalesce,
    "IFNULL": _coalesce,
    "LIKE": _like,
    "NOT LIKE": _like,
    "EXTRACT": _extract,
    "SUBSTRING": _substring,
    "CHAR_LENGTH": lambda dialect, node, operands: f"CAST(length({operands[0].text}) AS INTEGER)",
    "||": _concat,
    **dict.fromkeys(_TESTS, _test),
}
