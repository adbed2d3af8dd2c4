"""Parser of Flink's SQL dialect: text in, immutable syntax trees out. It resolves no names.

`parse_statements` and its like return nodes of `flinkpy.sql.parser.nodes`, and raise `SqlParseError` with the place of
what they do not understand. `unparse` is the way back.
"""

from __future__ import annotations

from flinkpy.common.errors import SqlParseError
from flinkpy.sql.parser.cursor import TokenCursor, parsed
from flinkpy.sql.parser.nodes import Expression, Query, Statement
from flinkpy.sql.parser.statements import StatementParser
from flinkpy.sql.parser.tokens import END
from flinkpy.sql.parser.unparse import unparse

__all__ = ["SqlParseError", "parse_expression", "parse_query", "parse_statement", "parse_statements", "unparse"]


def parse_statements(text: str) -> list[Statement]:
    """Parses statements with semicolons between them. Empty statements are left out.

    Raises:
        SqlParseError: the text is not in Flink's dialect.
    """
    return parsed(text, lambda cursor: StatementParser(cursor).statements())


def parse_statement(text: str) -> Statement:
    """Parses one statement. A semicolon may follow it.

    Raises:
        SqlParseError: the text is not exactly one statement of Flink's dialect.
    """

    def statement(cursor: TokenCursor) -> Statement:
        found = StatementParser(cursor).statement()
        _expect_end(cursor)
        return found

    return parsed(text, statement)


def parse_query(text: str) -> Query:
    """Parses one query. A semicolon may follow it.

    Raises:
        SqlParseError: the text is not exactly one query.
    """

    def query(cursor: TokenCursor) -> Query:
        found = StatementParser(cursor).queries.query()
        _expect_end(cursor)
        return found

    return parsed(text, query)


def parse_expression(text: str) -> Expression:
    """Parses one expression.

    Raises:
        SqlParseError: the text is not exactly one expression.
    """

    def expression(cursor: TokenCursor) -> Expression:
        found = StatementParser(cursor).expressions.expression()
        cursor.expect(END)
        return found

    return parsed(text, expression)


def _expect_end(cursor: TokenCursor) -> None:
    while cursor.accept(";"):
        continue
    cursor.expect(END)
