"""The errors of statements that the parser accepts and that are not executed: why, and what to do instead."""

from __future__ import annotations

from flinkpy.common.errors import FlinkError, UnsupportedOperationError
from flinkpy.sql.parser import nodes as ast

#: The words of the statement, and the advice.
_REFUSED: dict[type[ast.Statement], tuple[str, str]] = {
    ast.BeginStatementSet: (
        "BEGIN STATEMENT SET",
        "Write EXECUTE STATEMENT SET BEGIN ... END as one statement, or use create_statement_set().",
    ),
    ast.EndStatementSet: ("END", "It belongs to EXECUTE STATEMENT SET BEGIN ... END, which is one statement."),
}


def refusal(statement: ast.Statement) -> FlinkError:
    """Returns the error for a statement that is not executed, with its place in the text."""
    if isinstance(statement, ast.CreateConnection):
        return no_connections(statement)
    place = _place(statement)
    words, advice = _REFUSED.get(type(statement), (type(statement).__name__, ""))
    return UnsupportedOperationError(f"flinkpy does not execute {words}{place}. {advice}".rstrip())


def no_connections(statement: ast.Statement) -> UnsupportedOperationError:
    """Returns the error of a statement about connections, which Flink 2.3 parses and does not execute either."""
    return UnsupportedOperationError(
        f"Statements about connections need a store of connections, and there is none{_place(statement)}. Give the "
        "options of the connection to each table."
    )


def _place(statement: ast.Statement) -> str:
    at = statement.position
    return f" (at line {at.line}, column {at.column})" if at.line else ""
