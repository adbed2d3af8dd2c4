"""Errors of the planner that name a place of the statement."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flinkpy.common.errors import ValidationError

if TYPE_CHECKING:
    from flinkpy.sql.parser.nodes import Node

#: The names of the four numbers of a place, in `details` of an error.
_PLACE = ("line", "column", "end_line", "end_column")


def invalid(node: Node | None, message: str) -> ValidationError:
    """Returns the error for a part of a statement, with its lines and columns as Flink writes them."""
    if node is None or not node.position.line:
        return ValidationError(f"SQL validation failed. {message}")
    at = node.position
    start = f"line {at.line}, column {at.column}"
    details = {name: str(getattr(at, name)) for name in _PLACE}
    if (at.line, at.column) == (at.end_line, at.end_column):
        return ValidationError(f"SQL validation failed. At {start}: {message}", details=details)
    end = f"line {at.end_line}, column {at.end_column}"
    return ValidationError(f"SQL validation failed. From {start} to {end}: {message}", details=details)


@contextmanager
def shown_in(text: str, name: str = "") -> Iterator[None]:
    """Adds the line of the text, with carets below the culprit, to an error that names its place in the text.

    Args:
        text: the text that is bound in the block.
        name: what the text is, if it is not the statement of the user.
    """
    from flinkpy.sql.parser.errors import marked_line
    from flinkpy.sql.parser.nodes import Position

    try:
        yield
    except ValidationError as error:
        if _PLACE[0] in error.details and "text" not in error.details:
            error.details["text"] = text
            position = Position(*(int(error.details[each]) for each in _PLACE))
            lines = [error.message, *([f"In {name}:"] if name else []), marked_line(text, position)]
            error.message = "\n".join(filter(None, lines))
            error.args = (error.message,)
        raise


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` for a name that is close to a known one, else nothing."""
    names = list(known)
    same = [each for each in names if each.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, names, 1)
    return f"; did you mean '{close[0]}'?" if close else ""
