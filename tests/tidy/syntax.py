"""Nodes of syntax trees."""

from __future__ import annotations

import ast
from functools import cache


@cache
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """Returns all nodes of a module. Many tests look at all modules, and finding the nodes takes most of their time."""
    return list(ast.walk(tree))
