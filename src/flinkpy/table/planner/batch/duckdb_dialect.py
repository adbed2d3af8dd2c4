"""DuckDbDialect: types, literals and calls in the SQL of DuckDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import Literal, RexCall
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.families import precision_of, scale_of
from flinkpy.sql.types.logical_types import is_proctime
from flinkpy.table.planner.batch.common_calls import COMMON, COMPARISONS, exact_comparison, has_floats
from flinkpy.table.planner.batch.dialect import INTEGER_BITS, Dialect, LiteralWriter, Own
from flinkpy.table.planner.batch.engine_expressions import Operand
from flinkpy.table.planner.batch.exactness import is_lossless
from flinkpy.table.planner.logical import nodes as rel

R = lt.TypeRoot
_SIMPLE: dict[R, str] = {
    R.BOOLEAN: "BOOLEAN",
    R.TINYINT: "TINYINT",
    R.SMALLINT: "SMALLINT",
    R.INTEGER: "INTEGER",
    R.BIGINT: "BIGINT",
    R.FLOAT: "FLOAT",
    R.DOUBLE: "DOUBLE",
    R.CHAR: "VARCHAR",
    R.VARCHAR: "VARCHAR",
    R.BINARY: "BLOB",
    R.VARBINARY: "BLOB",
    R.DATE: "DATE",
}
#: Decimals with more digits are computed with 128 bits.
_MAX_SHORT_DIGITS = 18


class DuckDbDialect(Dialect):
    """The SQL of DuckDB."""

    name = "DuckDB"
    joins = {
        JoinType.LEFT: "LEFT JOIN",
        JoinType.RIGHT: "RIGHT JOIN",
        JoinType.FULL: "FULL JOIN",
        JoinType.SEMI: "SEMI JOIN",
        JoinType.ANTI: "ANTI JOIN",
    }
    computes_lazily = True
    has_kernels_everywhere = True
    calls_user_functions = False
    # Rows that are only filtered and computed flow through parallel operators, without waiting.
    gains_from = (rel.Join, rel.Aggregate, rel.Sort, rel.OverAggregate, rel.Rank)

    def type_name(self, kind: lt.LogicalType) -> str | None:
        simple = _SIMPLE.get(kind.root)
        if simple is not None:
            return simple
        if isinstance(kind, lt.DecimalType):
            return f"DECIMAL({kind.precision}, {kind.scale})"
        if isinstance(kind, lt.TimestampType):
            return "TIMESTAMP" if kind.precision <= 6 else "TIMESTAMP_NS"
        if isinstance(kind, lt.LocalZonedTimestampType) and kind.precision <= 6 and not is_proctime(kind):
            return "TIMESTAMPTZ"
        return None

    def failure(self, message: str) -> str:
        return f"error({_quoted(message)})"

    def integer_sum(self, total: str, kind: lt.LogicalType) -> str:
        return _wrapped(total, INTEGER_BITS[kind.root])

    def summand(self, text: str, kind: lt.LogicalType) -> str:
        return text


# -- literals ----------------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _number(value: Any, name: str) -> str:
    return f"CAST({value} AS {name})"


def _double(value: Any, name: str) -> str:
    return f"CAST({_quoted(repr(float(value)))} AS {name})"


def _text(value: Any, _: str) -> str | None:
    return None if "\0" in value else _quoted(value)


def _decimal(value: Any, name: str) -> str:
    return f"CAST({_quoted(format(value, 'f'))} AS {name})"


def _timestamp(value: dt.datetime, name: str) -> str:
    return f"{name} {_quoted(value.replace(tzinfo=None).isoformat(sep=' '))}"


_WRITERS: dict[R, LiteralWriter] = {
    R.BOOLEAN: lambda value, _: "true" if value else "false",
    R.TINYINT: _number,
    R.SMALLINT: _number,
    R.INTEGER: _number,
    R.BIGINT: _number,
    R.FLOAT: _double,
    R.DOUBLE: _double,
    R.DECIMAL: _decimal,
    R.CHAR: _text,
    R.VARCHAR: _text,
    R.DATE: lambda value, _: f"DATE '{value.isoformat()}'",
    R.TIMESTAMP_WITHOUT_TIME_ZONE: _timestamp,
}


# -- calls -------------------------------------------------------------------------------------------------------------


def _comparison(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if not has_floats(operands):
        return exact_comparison(node, operands)
    left, right = operands
    name = node.function
    if name.startswith("IS ") or left.type.root is not right.type.root:
        return None
    # For the engine NaN equals itself and is above all numbers. For Flink comparisons with it are false, as in Java.
    if isinstance(right.node, Literal) and right.node.value is not None and right.node.value == right.node.value:
        if name in ("<", "<=", "=", "<>"):
            return f"({left.text} {name} {right.text})"
        return f"({left.text} {name} {right.text} AND NOT isnan({left.text}))"
    return None


def _wrapped(text: str, bits: int) -> str:
    """Returns a HUGEINT as an integer with this number of bits. Values that are too large wrap around, as in Java."""
    half = 1 << (bits - 1)
    name = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[bits]
    return f"CAST((({text} + {half}::HUGEINT) & {(1 << bits) - 1}::HUGEINT) - {half}::HUGEINT AS {name})"


def _arithmetic(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if len(operands) != 2:
        return None
    left, right = operands
    roots = {left.type.root, right.type.root}
    if node.type.root in INTEGER_BITS and roots <= INTEGER_BITS.keys():
        text = f"(CAST({left.text} AS HUGEINT) {node.function} CAST({right.text} AS HUGEINT))"
        return _wrapped(text, INTEGER_BITS[node.type.root])
    if isinstance(node.type, lt.DecimalType) and roots <= of.EXACT_NUMERIC:
        return _decimal_arithmetic(node, left, right, node.type)
    if node.type.root is R.DOUBLE and roots == {R.DOUBLE}:
        return f"({left.text} {node.function} {right.text})"
    return None


def _decimal_arithmetic(node: RexCall, left: Operand, right: Operand, kind: lt.DecimalType) -> str | None:
    """Returns exact arithmetic; None if the result is rounded. As in Flink an overflow is NULL."""
    p1, s1, p2, s2 = precision_of(left.type), scale_of(left.type), precision_of(right.type), scale_of(right.type)
    if node.function == "*":
        digits, scale = p1 + p2, s1 + s2
    else:
        scale = max(s1, s2)
        digits = max(p1 - s1, p2 - s2) + scale + 1
    if scale != kind.scale:
        return None
    first = _as_decimal(left)
    if digits > _MAX_SHORT_DIGITS and max(p1, p2) <= _MAX_SHORT_DIGITS:
        # Otherwise the engine computes with 64 bits, and fails where the result needs more.
        first = f"CAST({first} AS DECIMAL({_MAX_SHORT_DIGITS + 1}, {s1}))"
    text = f"CAST({first} {node.function} {_as_decimal(right)} AS DECIMAL({kind.precision}, {kind.scale}))"
    if digits <= kind.precision:
        return text
    return None if left.may_fail or right.may_fail else f"TRY({text})"


def _as_decimal(operand: Operand) -> str:
    if isinstance(operand.type, lt.DecimalType):
        return operand.text
    return f"CAST({operand.text} AS DECIMAL({precision_of(operand.type)}, 0))"


def _cast(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    source = operands[0].type
    if not is_lossless(source, node.type):
        return None
    name = dialect.type_name(node.type)
    return operands[0].text if dialect.type_name(source) == name else f"CAST({operands[0].text} AS {name})"


_OWN: dict[str, Own] = {
    **COMMON,
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "CAST": _cast,
    **dict.fromkeys(COMPARISONS, _comparison),
}
DUCKDB = DuckDbDialect(_WRITERS, _OWN)
