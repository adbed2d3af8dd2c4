"""Conditions of queries as SQL of a database, so that it sends fewer rows.

The query evaluates all conditions again. So a condition is handed over only if the database keeps at least the rows for
which it is true: texts are compared for equality only, because databases order them by their collations.

Source: org.apache.flink.connector.jdbc.core.table.source.JdbcFilterPushdownPreparedStatementVisitor. Differs: it hands
over LIKE and the order of texts, too, and rows may then be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.connectors.jdbc.dialects import JdbcDialect
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType, RowType

_NUMBERS = (types.TinyIntType, types.SmallIntType, types.IntType, types.BigIntType)
_FRACTIONS = (types.FloatType, types.DoubleType)
_TEXTS = (types.CharType, types.VarCharType)
#: Types that some drivers have as text only, whose order and equality then differ.
_TEXT_IN_SOME = (types.DecimalType, types.DateType, types.TimestampType)
#: Comparison -> the same one with its operands exchanged.
_COMPARISONS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class JdbcCondition:
    """A condition with a `?` for each parameter."""

    sql: str
    parameters: tuple[Any, ...] = ()


def condition_of(node: RexNode, row_type: RowType, dialect: JdbcDialect) -> JdbcCondition | None:
    """Returns the SQL of a condition; None if the database cannot evaluate it with the same result.

    Args:
        row_type: the columns that it refers to.
    """
    if not isinstance(node, RexCall):
        return None
    if node.function in ("AND", "OR"):
        parts = [condition_of(each, row_type, dialect) for each in node.arguments]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        sql = f" {node.function} ".join(f"({part.sql})" for part in known)
        return JdbcCondition(sql, tuple(value for part in known for value in part.parameters))
    if node.function in ("IS NULL", "IS NOT NULL"):
        (operand,) = node.arguments
        return JdbcCondition(f"{_column(operand, row_type, dialect)} {node.function}") if _is_column(operand) else None
    return _comparison(node, row_type, dialect) if node.function in _COMPARISONS else None


def _comparison(node: RexCall, row_type: RowType, dialect: JdbcDialect) -> JdbcCondition | None:
    left, right = node.arguments
    operator = node.function
    if isinstance(left, Literal):
        left, right, operator = right, left, _COMPARISONS[operator]
    if not _is_column(left) or not _are_comparable(left.type, right.type, operator, dialect):
        return None
    column = _column(left, row_type, dialect)
    if _is_column(right):
        return JdbcCondition(f"{column} {operator} {_column(right, row_type, dialect)}")
    if isinstance(right, Literal) and right.value is not None:
        return JdbcCondition(f"{column} {operator} ?", (right.value,))
    return None


def _is_column(node: RexNode) -> bool:
    return isinstance(node, InputRef)


def _column(node: RexNode, row_type: RowType, dialect: JdbcDialect) -> str:
    assert isinstance(node, InputRef)
    return dialect.quoted(row_type.names[node.index])


def _are_comparable(left: LogicalType, right: LogicalType, operator: str, dialect: JdbcDialect) -> bool:
    if isinstance(left, _TEXTS) and isinstance(right, _TEXTS):
        return operator == "="
    if isinstance(left, _TEXT_IN_SOME):
        return type(left) is type(right) and not dialect.stores_times_as_text
    numbers = (*_NUMBERS, *_FRACTIONS) if isinstance(left, _FRACTIONS) else _NUMBERS
    return isinstance(left, (*_NUMBERS, *_FRACTIONS)) and isinstance(right, numbers)
