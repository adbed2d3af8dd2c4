"""Errors of the planner that name a place of the statement."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flinkpy.common.errors import ValidationError

if TYPE_CHECKING:
    from flinkpy.sql.parser.nodes import Node


def invalid(node: Node | None, message: str) -> ValidationError:
    """Returns the error for a part of a statement, with its lines and columns as Flink writes them."""
    if node is None or not node.position.line:
        return ValidationError(f"SQL validation failed. {message}")
    at = node.position
    start = f"line {at.line}, column {at.column}"
    if (at.line, at.column) == (at.end_line, at.end_column):
        return ValidationError(f"SQL validation failed. At {start}: {message}")
    return ValidationError(
        f"SQL validation failed. From {start} to line {at.end_line}, column {at.end_column}: {message}"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` for a name that is close to a known one, else nothing."""
    names = list(known)
    same = [each for each in names if each.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, names, 1)
    return f"; did you mean '{close[0]}'?" if close else ""
