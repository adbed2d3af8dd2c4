"""Operators of expressions, and how tightly they bind: as in Flink, `||` binds like `*`, and IS looser than `=`."""

from __future__ import annotations

from flinkpy.sql.parser.literals import LITERAL_START
from flinkpy.sql.parser.tokens import IDENTIFIER

# How tightly operators bind, from loose to tight.
MULTISET, OR, AND, NOT, IS, COMPARISON, RANGE, SUM, PRODUCT, SIGN, ATOM = range(1, 12)

POWERS = {
    "MULTISET": MULTISET,
    "OR": OR,
    "AND": AND,
    "IS": IS,
    "FORMAT": IS,
    "=": COMPARISON,
    "<>": COMPARISON,
    "<": COMPARISON,
    "<=": COMPARISON,
    ">": COMPARISON,
    ">=": COMPARISON,
    "MEMBER": COMPARISON,
    "SUBMULTISET": COMPARISON,
    "CONTAINS": COMPARISON,
    "OVERLAPS": COMPARISON,
    "EQUALS": COMPARISON,
    "PRECEDES": COMPARISON,
    "SUCCEEDS": COMPARISON,
    "IMMEDIATELY": COMPARISON,
    "NOT": RANGE,
    "IN": RANGE,
    "BETWEEN": RANGE,
    "LIKE": RANGE,
    "ILIKE": RANGE,
    "RLIKE": RANGE,
    "SIMILAR": RANGE,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "%": PRODUCT,
    "||": PRODUCT,
}
#: Tokens that may begin an expression, for error messages.
EXPRESSION_START = LITERAL_START | {IDENTIFIER, "(", "+", "-", "NOT", "EXISTS", "CASE", "CAST", "ROW"}
