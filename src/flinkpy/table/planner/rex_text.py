"""Writes expressions as Flink's plans do.

Source: org.apache.flink.table.planner.plan.utils.{FlinkRexUtil, RelTreeWriterImpl}, org.apache.calcite.rex.RexLiteral.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from flinkpy.sql.rex import (
    FieldAccess,
    InputRef,
    Literal,
    PatternAggregate,
    PatternNavigation,
    RexCall,
    RexNode,
    UserFunctionCall,
)
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.operators import MIRRORED
from flinkpy.table.planner.logical.rex_nodes import OuterRef

CHARSET = ' CHARACTER SET "UTF-16LE"'
_INFIX = {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "AND", "OR", "LIKE"}


def rex_text(node: RexNode, names: Sequence[str], *, infix: bool = False, variable: str | None = None) -> str:
    """Returns the expression with columns by name: `=(a, 1)`, or `(a = 1)` with `infix`.

    Args:
        variable: the pattern variable that the expression defines; None for other expressions.
    """
    return _Writer(names, infix, variable).write(node)


class _Writer:
    def __init__(self, names: Sequence[str], infix: bool, variable: str | None = None) -> None:
        self._names = names
        self._infix = infix
        self._variable = variable

    def write(self, node: RexNode) -> str:
        match node:
            case InputRef():
                return self._names[node.index]
            case OuterRef():
                return f"$cor{node.correlation}.${node.index}"
            case Literal():
                return literal_text(node)
            case FieldAccess():
                return f"{self.write(node.operand)}.{node.name}"
            case UserFunctionCall():
                return f"{node.name}({self._list(node.arguments)})"
            case RexCall():
                return self._call(node)
            case PatternNavigation():
                return self._navigation(node)
            case PatternAggregate():
                return f"{node.function}({', '.join(self._row_value(each, node.variable) for each in node.arguments)})"
        return str(node)

    def _navigation(self, node: PatternNavigation) -> str:
        """Writes a column of a row of a pattern. Flink's plans say which row, but not the last one in MEASURES."""
        column = f"{node.variable}.{self.write(node.column)}"
        if self._variable is not None and node.variable == self._variable and not (node.is_first or node.offset):
            return f"PREV({column}, 0)"
        if self._variable is None and not (node.is_first or node.offset):
            return column
        return f"{'FIRST' if node.is_first else 'LAST'}({column}, {node.offset})"

    def _row_value(self, node: RexNode, variable: str) -> str:
        names = [f"{variable}.{name}" for name in self._names]
        return rex_text(node, names, infix=self._infix)

    def _list(self, nodes: Sequence[RexNode]) -> str:
        return ", ".join(self.write(each) for each in nodes)

    def _call(self, node: RexCall) -> str:
        if node.function in ("CAST", "TRY_CAST"):
            return f"{node.function}({self.write(node.arguments[0])} AS {type_text(node.type)})"
        if node.function in ("AND", "OR"):
            return self._junction(node)
        if node.function == "NEGATE":
            return f"-({self.write(node.arguments[0])})"
        if self._infix and node.function in _INFIX:
            return f"({f' {node.function} '.join(self.write(each) for each in node.arguments)})"
        if self._infix and node.function.startswith("IS ") and len(node.arguments) == 1:
            return f"{self.write(node.arguments[0])} {node.function}"
        if node.function == "EXTRACT":
            unit, operand = node.arguments
            return f"EXTRACT({self.write(unit)}, {self.write(operand)})"
        return f"{node.function}({self._list(node.arguments)})"

    # -- comparisons with constants, as a search in a set of values --------------------------------------------------

    def _junction(self, node: RexCall) -> str:
        parts = self._searches(node)
        if len(parts) == 1:
            return parts[0]
        if self._infix:
            return f"({f' {node.function} '.join(parts)})"
        return f"{node.function}({', '.join(parts)})"

    def _searches(self, node: RexCall) -> list[str]:
        """Returns the texts of the operands, with comparisons of one value with constants as one SEARCH."""
        groups: dict[RexNode, list[tuple[str, Literal]]] = {}
        for each in node.arguments:
            found = _comparison(each)
            if found is not None:
                groups.setdefault(found[0], []).append(found[1:])
        texts: list[str] = []
        written: set[RexNode] = set()
        for each in node.arguments:
            found = _comparison(each)
            sarg = None
            if found is not None:
                if found[0] in written:
                    continue
                sarg = _sarg(node.function, found[0], groups[found[0]])
            if found is None or sarg is None:
                texts.append(self.write(each))
                continue
            written.add(found[0])
            texts.append(f"SEARCH({self.write(found[0])}, {sarg})")
        return texts


def _comparison(node: RexNode) -> tuple[RexNode, str, Literal] | None:
    if isinstance(node, RexCall) and node.function in MIRRORED:
        left, right = node.arguments
        if isinstance(right, Literal) and not isinstance(left, Literal) and right.value is not None:
            return left, node.function, right
        if isinstance(left, Literal) and not isinstance(right, Literal) and left.value is not None:
            return right, MIRRORED[node.function], left
    return None


def _sarg(function: str, operand: RexNode, tests: list[tuple[str, Literal]]) -> str | None:
    """Returns the set of values for which the tests hold, or None if Flink writes the tests one by one."""
    if len(tests) < 2:
        return None
    operators = [operator for operator, _ in tests]
    values = [value for _, value in tests]
    if function == "OR" and set(operators) == {"="}:
        ordered = sorted(dict.fromkeys(values), key=lambda each: each.value)
        return f"Sarg[{', '.join(_sarg_value(each) for each in ordered)}]{_sarg_type(values[0])}"
    is_column = isinstance(operand, InputRef) or (
        isinstance(operand, FieldAccess) and isinstance(operand.operand, (InputRef, FieldAccess))
    )
    lower = [(value, operator) for operator, value in tests if operator in (">", ">=")]
    upper = [(value, operator) for operator, value in tests if operator in ("<", "<=")]
    if function == "AND" and is_column and len(tests) == 2 and lower and upper:
        opening = "[" if lower[0][1] == ">=" else "("
        closing = "]" if upper[0][1] == "<=" else ")"
        range_text = f"{opening}{_sarg_value(lower[0][0])}..{_sarg_value(upper[0][0])}{closing}"
        return f"Sarg[{range_text}]{_sarg_type(values[0])}"
    return None


def _sarg_value(node: Literal) -> str:
    return literal_text(node) if isinstance(node.value, str) else str(node.value)


def _sarg_type(node: Literal) -> str:
    return f":{type_text(node.type)}" if isinstance(node.value, str) else ""


# -- literals and types ----------------------------------------------------------------------------------------------


def literal_text(node: Literal) -> str:
    """Returns the constant, with its type where the text alone does not say it: `10:BIGINT`."""
    value, kind = node.value, node.type
    if value is None:
        return f"null:{type_text(kind)}"
    if isinstance(kind, lt.SymbolType):
        return f"FLAG({value})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        quoted = f"_UTF-16LE'{value.replace(chr(39), chr(39) * 2)}'"
        if isinstance(kind, lt.CharType) and kind.length == len(value):
            return quoted
        return f"{quoted}:{type_text(kind)}"
    if isinstance(kind, lt.IntType):
        return str(value)
    if isinstance(kind, lt.DayTimeIntervalType):
        return f"{value}:INTERVAL {kind.resolution.replace('_', ' ')}"
    if isinstance(kind, lt.YearMonthIntervalType):
        return f"{value}:INTERVAL {kind.resolution.replace('_', ' ')}"
    return f"{_value_text(value)}:{type_text(kind)}" if not isinstance(value, (date, time)) else _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        mantissa, _, exponent = f"{value:E}".partition("E")
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}E{int(exponent)}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, (date, time, Decimal)):
        return str(value)
    return str(value)


def type_text(kind: lt.LogicalType) -> str:
    """Returns the type as Calcite writes it in CAST."""
    match kind:
        case lt.VarCharType() | lt.CharType():
            return f"{kind.root.value}({kind.length}){CHARSET}"
        case lt.IntType():
            return "INTEGER"
        case lt.VarBinaryType():
            return f"VARBINARY({kind.length})"
        case lt.TimestampType():
            return f"TIMESTAMP({kind.precision})"
        case lt.LocalZonedTimestampType():
            return f"TIMESTAMP_WITH_LOCAL_TIME_ZONE({kind.precision})"
        case lt.ArrayType():
            return f"{type_text(kind.element)} ARRAY"
        case lt.MultisetType():
            return f"{type_text(kind.element)} MULTISET"
        case lt.MapType():
            return f"({type_text(kind.key)}, {type_text(kind.value)}) MAP"
        case lt.RowType():
            fields = ", ".join(f"{type_text(each.type)} {each.name}" for each in kind.fields)
            return f"RecordType({fields})"
    return kind.as_nullable().as_sql()
