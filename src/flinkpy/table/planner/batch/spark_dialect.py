"""SparkDialect: types, literals and calls in the SQL of Spark, for sessions as `flinkpy.spark` makes them.

In these sessions integers wrap around, the time zone is UTC, and a decimal with too many digits is NULL, as in Flink.
The types of decimal arithmetic follow the same rules in both.
"""

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
from flinkpy.sql.types.merging import (
    find_addition_decimal_type,
    find_division_decimal_type,
    find_multiplication_decimal_type,
)
from flinkpy.table.planner.batch.common_calls import COMMON, COMPARISONS, exact_comparison, has_floats
from flinkpy.table.planner.batch.dialect import INTEGER_BITS, Dialect, LiteralWriter, Own
from flinkpy.table.planner.batch.engine_expressions import Operand
from flinkpy.table.planner.batch.exactness import MAX_DIGITS, is_lossless

R = lt.TypeRoot
_SIMPLE: dict[R, str] = {
    R.BOOLEAN: "BOOLEAN",
    R.TINYINT: "TINYINT",
    R.SMALLINT: "SMALLINT",
    R.INTEGER: "INT",
    R.BIGINT: "BIGINT",
    R.FLOAT: "FLOAT",
    R.DOUBLE: "DOUBLE",
    R.CHAR: "STRING",
    R.VARCHAR: "STRING",
    R.BINARY: "BINARY",
    R.VARBINARY: "BINARY",
    R.DATE: "DATE",
}
#: Names that begin so are those of columns that the Spark backend adds to streams.
_RESERVED_PREFIX = "__"
#: The digits that Spark adds to the type of a decimal for its sum.
_SUM_DIGITS = 10
#: The digits after the point to which Spark rounds a quotient, before it rounds it again to those of its type.
_QUOTIENT_SCALE = 39
#: The messages of flinkpy's kernels.
DIVISION_BY_ZERO = "Division by zero"
_TOO_LARGE = "A divisor is too large for Spark to round the quotient exactly: set table.exec.batch.engine to OPERATORS"


class SparkDialect(Dialect):
    """The SQL of Spark. Its Python workers compute all rows of a kernel, before the operator that needs them."""

    name = "Spark"
    joins = {
        JoinType.LEFT: "LEFT JOIN",
        JoinType.RIGHT: "RIGHT JOIN",
        JoinType.FULL: "FULL JOIN",
        JoinType.SEMI: "LEFT SEMI JOIN",
        JoinType.ANTI: "LEFT ANTI JOIN",
    }
    computes_lazily = False
    has_kernels_everywhere = False
    calls_user_functions = True
    gains_from = None

    def type_name(self, kind: lt.LogicalType) -> str | None:
        simple = _SIMPLE.get(kind.root)
        if simple is not None:
            return simple
        if isinstance(kind, lt.DecimalType):
            return f"DECIMAL({kind.precision}, {kind.scale})"
        if isinstance(kind, lt.TimestampType) and kind.precision <= 6:
            return "TIMESTAMP_NTZ"
        if isinstance(kind, lt.LocalZonedTimestampType) and kind.precision <= 6 and not is_proctime(kind):
            return "TIMESTAMP"
        return None

    def holds(self, row_type: lt.RowType) -> bool:
        return super().holds(row_type) and not any(name.startswith(_RESERVED_PREFIX) for name in row_type.names)

    def placeholder(self, name: str) -> str:
        # Literals have no braces, so nothing else is taken for a placeholder.
        return f"{{{name}}}"

    def failure(self, message: str) -> str:
        # flinkpy.spark.errors makes an error of this type of it.
        return f"raise_error({_quoted(f'TableRuntimeError: {message}')})"

    def integer_sum(self, total: str, kind: lt.LogicalType) -> str:
        return f"CAST({total} AS {self.type_name(kind)})"

    def summand(self, text: str, kind: lt.LogicalType) -> str:
        # Otherwise the sum of very many rows would have more digits than its type.
        assert isinstance(kind, lt.DecimalType)
        digits = max(kind.precision, MAX_DIGITS - _SUM_DIGITS)
        return text if digits == kind.precision else f"CAST({text} AS DECIMAL({digits}, {kind.scale}))"


# -- literals ----------------------------------------------------------------------------------------------------------

#: Characters that stand for themselves in a text of Spark. `$` and `{` begin a variable.
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !#%&()*+,-./:;<=>?@[]^_|~"  #
)


def _quoted(text: str) -> str:
    return "'" + "".join(each if each in _PLAIN else _escaped(each) for each in text) + "'"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _number(value: Any, name: str) -> str:
    return f"CAST({value} AS {name})"


def _double(value: Any, name: str) -> str:
    return f"CAST('{float(value)!r}' AS {name})"


def _decimal(value: Any, name: str) -> str:
    return f"CAST('{value:f}' AS {name})"


def _timestamp(value: dt.datetime, name: str) -> str:
    return f"{name} '{value.replace(tzinfo=None).isoformat(sep=' ')}'"


_WRITERS: dict[R, LiteralWriter] = {
    R.BOOLEAN: lambda value, _: "true" if value else "false",
    R.TINYINT: _number,
    R.SMALLINT: _number,
    R.INTEGER: _number,
    # The smallest BIGINT is no number without its sign.
    R.BIGINT: lambda value, name: f"CAST('{value}' AS {name})",
    R.FLOAT: _double,
    R.DOUBLE: _double,
    R.DECIMAL: _decimal,
    R.CHAR: lambda value, _: _quoted(value),
    R.VARCHAR: lambda value, _: _quoted(value),
    R.DATE: lambda value, _: f"DATE '{value.isoformat()}'",
    R.TIMESTAMP_WITHOUT_TIME_ZONE: _timestamp,
}


# -- comparisons -------------------------------------------------------------------------------------------------------


def _comparison(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if not has_floats(operands):
        return exact_comparison(node, operands)
    left, right = operands
    name = node.function
    if name.startswith("IS ") or left.type.root is not right.type.root:
        return None
    one, other = left.text, right.text
    plain = f"{one} {name} {other}"
    # For Spark NaN equals itself and is above all numbers. For Flink only <> is true for it, as in Java.
    if name == "<>":
        return f"({plain})" if _is_number(right) else f"({plain} OR (isnan({one}) AND {other} IS NOT NULL))"
    if name in ("=", "<", "<="):
        return f"({plain})" if _is_number(right) else f"({plain} AND (NOT isnan({other}) OR {one} IS NULL))"
    return f"({plain} AND (NOT isnan({one}) OR {other} IS NULL))"


def _is_number(operand: Operand) -> bool:
    """True for a literal that is not NaN."""
    value = operand.node.value if isinstance(operand.node, Literal) else None
    return value is not None and value == value


# -- arithmetic --------------------------------------------------------------------------------------------------------

_DECIMAL_TYPES = {
    "+": find_addition_decimal_type,
    "-": find_addition_decimal_type,
    "*": find_multiplication_decimal_type,
    "/": find_division_decimal_type,
}


def _arithmetic(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    if len(operands) != 2:
        return None
    left, right = operands
    roots = {left.type.root, right.type.root}
    if node.type.root in INTEGER_BITS and roots <= INTEGER_BITS.keys():
        return f"({left.text} {node.function} {right.text})"
    if isinstance(node.type, lt.DecimalType) and roots <= of.EXACT_NUMERIC:
        return _decimal_arithmetic(node, left, right)
    if node.type.root is R.DOUBLE and roots == {R.DOUBLE}:
        return f"({left.text} {node.function} {right.text})"
    return None


def _division(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    left, right = operands
    roots = {left.type.root, right.type.root}
    if isinstance(node.type, lt.DecimalType) and roots <= of.EXACT_NUMERIC:
        return _decimal_arithmetic(node, left, right)
    if node.type.root in INTEGER_BITS and roots <= INTEGER_BITS.keys():
        return f"CAST({_guarded(left, right, '({0} div {1})', None)} AS {dialect.type_name(node.type)})"
    return None


def _decimal_arithmetic(node: RexCall, left: Operand, right: Operand) -> str | None:
    assert isinstance(node.type, lt.DecimalType)
    if _DECIMAL_TYPES[node.function](left.type, right.type) != node.type.not_null():
        return None
    if node.function != "/":
        return f"({_as_decimal(left)} {node.function} {_as_decimal(right)})"
    # The double rounding of Spark is exact if a quotient that is no half differs from one by more than it rounds.
    digits = _QUOTIENT_SCALE - node.type.scale
    limit = None
    if precision_of(right.type) > digits:
        if digits < scale_of(right.type):
            return None
        limit = f"1{'0' * (digits - scale_of(right.type))}"
    return _guarded(left, right, f"({_as_decimal(left)} / {_as_decimal(right)})", limit)


def _guarded(left: Operand, right: Operand, quotient: str, limit: str | None) -> str:
    """Returns a quotient, or the failure of a division by zero, or by a number from `limit` on."""
    one, other = left.text, right.text
    quotient = quotient.format(one, other) if "{0}" in quotient else quotient
    if _is_number(right) and right.node.value != 0 and limit is None:  # type: ignore[attr-defined]
        return quotient
    failures = (
        f"WHEN {one} IS NULL OR {other} IS NULL THEN NULL WHEN {other} = 0 THEN {SPARK.failure(DIVISION_BY_ZERO)}"
    )
    if limit is not None:
        failures += f" WHEN abs({other}) >= {limit}BD THEN {SPARK.failure(_TOO_LARGE)}"
    return f"(CASE {failures} ELSE {quotient} END)"


def _as_decimal(operand: Operand) -> str:
    if isinstance(operand.type, lt.DecimalType):
        return operand.text
    return f"CAST({operand.text} AS DECIMAL({precision_of(operand.type)}, 0))"


# -- casts -------------------------------------------------------------------------------------------------------------


def _cast(dialect: Dialect, node: RexCall, operands: Sequence[Operand]) -> str | None:
    source = operands[0].type
    if not is_lossless(source, node.type) and not _is_alike(source, node.type):
        return None
    name = dialect.type_name(node.type)
    return operands[0].text if dialect.type_name(source) == name else f"CAST({operands[0].text} AS {name})"


def _is_alike(source: lt.LogicalType, target: lt.LogicalType) -> bool:
    """True for casts that lose something in the same way: integers wrap around, decimals are rounded half up."""
    if source.root in INTEGER_BITS and target.root in INTEGER_BITS:
        return True
    return isinstance(source, lt.DecimalType) and isinstance(target, lt.DecimalType)


_OWN: dict[str, Own] = {
    **COMMON,
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "/": _division,
    "CAST": _cast,
    **dict.fromkeys(COMPARISONS, _comparison),
}
SPARK = SparkDialect(_WRITERS, _OWN)
