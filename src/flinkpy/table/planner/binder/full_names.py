"""Writes the names of tables, functions and models in a query in full, so that it means the same after USE.

Source: org.apache.flink.table.planner.utils.Expander. Differs: Flink also lists the columns of `*`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast

from flinkpy.sql.parser import nodes as ast

_N = TypeVar("_N", bound=ast.Node)
Parts = tuple[str, ...]


class FullNames:
    """Rewrites the syntax trees of queries.

    Args:
        table: returns the full name of a table, view or model.
        function: returns the full name of a function of a catalog; None for other functions.
    """

    def __init__(self, table: Callable[[Parts], Parts], function: Callable[[Parts], Parts | None]) -> None:
        self._table = table
        self._function = function

    def of(self, query: ast.Query) -> ast.Query:
        """Returns the query with full names. Names of WITH stay: they belong to the query."""
        return self._rewritten(query, frozenset())

    def _rewritten(self, node: _N, common: frozenset[str]) -> _N:
        """Returns a node below queries of WITH with these names."""
        if isinstance(node, ast.With):
            return cast(_N, self._with(node, common))
        changes = {
            each.name: changed
            for each in dataclasses.fields(node)
            if each.name != "position"
            and (changed := self._value(value := getattr(node, each.name), common)) is not value
        }
        name = self._name(node, common)
        if name is not None:
            changes["name"] = ast.Identifier(name, (True,) * len(name))
        return dataclasses.replace(node, **changes) if changes else node

    def _with(self, node: ast.With, common: frozenset[str]) -> ast.With:
        tables = []
        for each in node.tables:
            tables.append(dataclasses.replace(each, query=self._rewritten(each.query, common)))
            common |= {each.name.last}
        return dataclasses.replace(node, tables=tuple(tables), query=self._rewritten(node.query, common))

    def _value(self, value: Any, common: frozenset[str]) -> Any:
        if isinstance(value, ast.Node):
            return self._rewritten(value, common)
        if isinstance(value, tuple):
            items = [self._value(each, common) for each in value]
            return value if all(new is old for new, old in zip(items, value)) else tuple(items)
        return value

    def _name(self, node: ast.Node, common: frozenset[str]) -> Parts | None:
        """Returns the full name of the object that the node names; None if it names none."""
        if isinstance(node, (ast.NamedTable, ast.ExplicitTable)):
            parts = node.name.parts
            return None if len(parts) == 1 and parts[0] in common else self._table(parts)
        if isinstance(node, ast.ModelReference):
            return self._table(node.name.parts)
        return self._function(node.name.parts) if isinstance(node, ast.FunctionCall) else None
