"""Messages of parse errors: Flink's words first, then the line with a caret, then advice."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from difflib import get_close_matches

from flinkpy.common.errors import SqlParseError
from flinkpy.sql.parser.nodes import Position
from flinkpy.sql.parser.tokens import END, IDENTIFIER, KEYWORDS, RESERVED_KEYWORDS, Token, words

#: Longest part of a line that a message shows, around the culprit.
_MAX_LINE_CHARS = 160

#: Keywords that nobody means as a name where a name is expected.
_NO_NAMES = words(
    """
    ALL AND AS BETWEEN BY CASE CREATE DISTINCT ELSE END EXISTS FETCH FOR FROM GROUP HAVING IN INTERVAL INTO IS JOIN LIKE
    LIMIT NOT NULL OFFSET ON OR ORDER OVER SELECT SET TABLE THEN UNION USING VALUES WHEN WHERE WITH
    """
)
#: Tokens of JDBC's escapes, which are left out of lists of what was expected.
_JDBC_ESCAPES = frozenset({"{D", "{T", "{TS", "{FN"})


def error_at(text: str, position: Position, message: str, advice: str = "") -> SqlParseError:
    """Returns the error with a message, the line of the text with a caret under the culprit, and advice."""
    parts = [f"SQL parse failed. {message}", marked_line(text, position)]
    if advice:
        parts.append(advice)
    return SqlParseError(
        "\n".join(part for part in parts if part),
        details={"line": str(position.line), "column": str(position.column)},
    )


def unexpected_token(
    text: str,
    token: Token,
    following: str,
    expected: Iterable[str],
    previous: Token | None,
    expected_before: Iterable[str],
) -> SqlParseError:
    """Returns the error of a token that the grammar does not allow in its place.

    Args:
        following: symbol of the token behind it.
        expected: symbols that the grammar allows there.
        previous: the token before, which may be the mistyped one: an unknown word is often read as an alias.
        expected_before: symbols that the grammar allows in the place of `previous`.
    """
    expected = set(expected) - _JDBC_ESCAPES
    shown = "<EOF>" if token.symbol == END else token.text
    if token.symbol in RESERVED_KEYWORDS and IDENTIFIER in expected:
        message = f"Incorrect syntax near the keyword '{shown}' at line {token.line}, column {token.column}."
    else:
        message = f'Encountered "{shown}" at line {token.line}, column {token.column}.'
    listed = " ".join(f"{_quoted(symbol)} ..." for symbol in sorted(expected, key=_order))
    if listed:
        words = "Was expecting one of:" if len(expected) > 1 else "Was expecting:"
        lines = textwrap.wrap(listed, 100, break_long_words=False, break_on_hyphens=False)
        message += f"\n{words}\n" + "\n".join(f"    {line}" for line in lines)
    return error_at(text, token.position, message, _advice(token, following, expected, previous, set(expected_before)))


def _advice(token: Token, following: str, expected: set[str], previous: Token | None, expected_before: set[str]) -> str:
    meant = _similar_keyword(token, expected)
    if meant:
        return f'Did you mean "{meant}"?'
    if previous is not None:
        meant = _similar_keyword(previous, expected | expected_before)
        if meant:
            return f'Did you mean "{meant}" instead of "{previous.text}"?'
    if token.symbol == "COLUMN":
        return "Leave COLUMN out: behind ADD, MODIFY, DROP or RENAME stands the name of the column."
    is_name = token.symbol not in _NO_NAMES or (token.symbol in ("GROUP", "ORDER") and following != "BY")
    if token.symbol in RESERVED_KEYWORDS and is_name and IDENTIFIER in expected:
        return f'"{token.text}" is a reserved keyword. To use it as a name, write it in backticks: `{token.text}`'
    if token.symbol == '"':
        return "Strings are written in single quotes, names in backticks."
    return ""


def _similar_keyword(token: Token, expected: set[str]) -> str:
    word = token.text.upper()
    if token.symbol != IDENTIFIER or len(word) < 3:
        return ""
    candidates = sorted(symbol for symbol in expected if symbol in KEYWORDS)
    # Two letters in the wrong order are the most frequent mistake, and not what the library takes for a small one.
    swapped = [candidate for candidate in candidates if sorted(candidate) == sorted(word)]
    matches = swapped or get_close_matches(word, candidates, 1, 0.75)
    return matches[0] if matches else ""


def _quoted(symbol: str) -> str:
    return symbol if symbol.startswith("<") and len(symbol) > 2 else f'"{symbol}"'


def _order(symbol: str) -> tuple[int, str]:
    """Orders kinds of tokens before keywords before punctuation."""
    return (0 if symbol.startswith("<") and len(symbol) > 2 else 1 if symbol[0].isalpha() else 2, symbol)


def marked_line(text: str, position: Position) -> str:
    """Returns the line at the position and a line below with carets; nothing if the text ends before it."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not 1 <= position.line <= len(lines):
        return ""
    line = lines[position.line - 1].replace("\t", " ")
    begin = position.column - 1
    end = position.end_column if position.end_line == position.line else len(line)
    first = max(0, begin - _MAX_LINE_CHARS // 2)
    last = first + _MAX_LINE_CHARS
    prefix = "..." if first else ""
    suffix = "..." if last < len(line) else ""
    number = f"{position.line:>4} | "
    margin = " " * (len(number) - 2) + "| "
    carets = "^" * max(1, min(end, last) - begin)
    return f"{number}{prefix}{line[first:last]}{suffix}\n{margin}{' ' * (len(prefix) + begin - first)}{carets}"
