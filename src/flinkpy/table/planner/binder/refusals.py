"""Refuses parts of statements that the parser accepts and that have no meaning here, with their place in the text.

Without it, such a part would be ignored, or the error would not name it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.nodes.base import walk
from flinkpy.table.planner.errors import invalid

#: These functions ignore nulls in any case.
_WITHOUT_NULLS = ("FIRST_VALUE", "LAST_VALUE")
_TABLE_HINTS = ("OPTIONS",)


def check_supported(statement: ast.Node) -> None:
    """Raises: ValidationError if a query or an INSERT has a part that is not supported."""
    for node in walk(statement):
        check = _CHECKS.get(type(node))
        message = None if check is None else check(node)
        if message is not None:
            raise invalid(node, message)


def _function(node: ast.FunctionCall) -> str | None:
    if node.ignore_nulls is None:
        return None
    name = node.name.last.upper()
    if name not in _WITHOUT_NULLS:
        return f"Cannot specify IGNORE NULLS or RESPECT NULLS following '{name}'"
    return None if node.ignore_nulls else f"RESPECT NULLS is not supported: {name} ignores nulls"


def _window(node: ast.WindowSpecification) -> str | None:
    return "DISALLOW PARTIAL is not supported" if node.allow_partial is False else None


def _group_by(node: ast.GroupBy) -> str | None:
    has_sets = any(isinstance(each, ast.GroupingSets) for each in node.elements)
    if node.quantifier == "DISTINCT" and has_sets:
        return "GROUP BY DISTINCT is not supported with GROUPING SETS, ROLLUP and CUBE"
    return None


def _table(node: ast.NamedTable | ast.Insert) -> str | None:
    unknown = [hint.name for hint in node.hints if hint.name.upper() not in _TABLE_HINTS]
    if unknown:
        return (
            f"Hint: {unknown[0].upper()} should be registered in the HintStrategyTable. The only hint behind the name "
            f"of a table is {', '.join(_TABLE_HINTS)}"
        )
    return None


def _insert(node: ast.Insert) -> str | None:
    return "UPSERT INTO statement is not supported" if node.upsert else _table(node)


_CHECKS: dict[type[ast.Node], Callable[[Any], str | None]] = {
    ast.FunctionCall: _function,
    ast.WindowSpecification: _window,
    ast.GroupBy: _group_by,
    ast.NamedTable: _table,
    ast.Insert: _insert,
    ast.TableSample: lambda node: "TABLESAMPLE is not supported",
    ast.DynamicParameter: lambda node: "Dynamic parameters (?) are not supported; write the value",
    ast.UniquePredicate: lambda node: "UNIQUE is not supported",
    ast.CollectionSubquery: lambda node: "ARRAY, MAP and MULTISET of a subquery are not supported",
}
