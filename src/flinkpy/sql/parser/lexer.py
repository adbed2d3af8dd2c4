"""Lexer: cuts SQL text into tokens.

Names are quoted with backticks, strings with single quotes; a quote inside is doubled. `--` and `//` begin comments up
to the end of the line, `/* */` encloses them, and `/*+ */` encloses hints. Keywords are not case-sensitive.
"""

from __future__ import annotations

import re

from flinkpy.common.errors import SqlParseError
from flinkpy.sql.parser.errors import error_at
from flinkpy.sql.parser.nodes import Position
from flinkpy.sql.parser.tokens import (
    BINARY_STRING,
    DECIMAL,
    DOUBLE,
    END,
    ESCAPED_STRING,
    IDENTIFIER,
    INTEGER,
    KEYWORDS,
    PREFIXED_STRING,
    QUOTED_IDENTIFIER,
    STRING,
    UNICODE_STRING,
    Token,
)

_LETTERS = (
    "$A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u3040-\u318f\u3300-\u337f\u3400-\u3d2d\u4e00-\u9fff\uf900-\ufaff"
)
#: A keyword, or a name without backticks.
WORD = re.compile(rf"[{_LETTERS}][{_LETTERS}0-9\u0660-\u0669\u06f0-\u06f9]*")
_QUOTED = r"'[^']*+(?:''[^']*+)*+'"

# The first alternative that matches wins, so longer forms stand before their prefixes. Possessive quantifiers keep the
# time linear in the length of a token that is not what it began like.
_TOKEN = re.compile(
    rf"""
    (?P<blank> [ \t\n\r\f]+ | (?:--|//)[^\n\r]* | /\*(?!\+)[^*]*+(?:\*(?!/)[^*]*+)*+\*/ )
  | (?P<binary> [xX]{_QUOTED} )
  | (?P<unicode> [uU]&{_QUOTED} )
  | (?P<escaped> [eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+' )
  | (?P<prefixed> (?:_[A-Za-z0-9][A-Za-z0-9:.\-_]*|[nN]){_QUOTED} )
  | (?P<word> {WORD.pattern} )
  | (?P<double> (?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)[eE][+-]?[0-9]+ )
  | (?P<decimal> [0-9]++\.(?!\.)[0-9]* | \.[0-9]+ )
  | (?P<integer> [0-9]+ )
  | (?P<string> {_QUOTED} )
  | (?P<quoted> `(?:[^`\n\r]++|``)++` )
  | (?P<braced> \{{\ *(?:[tT][sS]|[fF][nN]|[dDtT])(?=[ '\n\t]) )
  | (?P<punctuation> /\*\+ | \*/ | \{{- | -\}} | <> | != | <= | >= | => | \|\| | \.\. | /(?!\*)
      | [()\[\]{{}};.,=<>?:+\-*%|^$"] )
    """,
    re.VERBOSE | re.DOTALL,
)

_LINE_BREAK = re.compile(r"\r\n|\r|\n")

#: Symbols of groups of the expression above whose value is the text between quotes.
_STRINGS = {
    "string": STRING,
    "binary": BINARY_STRING,
    "unicode": UNICODE_STRING,
    "prefixed": PREFIXED_STRING,
}
_NUMBERS = {"integer": INTEGER, "decimal": DECIMAL, "double": DOUBLE}

_C_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_C_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)


def tokenize(text: str) -> list[Token]:
    """Returns the tokens of the text, and a token END behind them.

    Raises:
        SqlParseError: the text has a character that begins no token, or a string, name or comment without an end.
    """
    tokens: list[Token] = []
    append = tokens.append
    match = _TOKEN.match
    offset, size = 0, len(text)
    # Lines are counted only where a token can span them: in blanks, strings and comments.
    line, line_start = 1, 0
    while offset < size:
        found = match(text, offset)
        if found is None:
            raise _no_token(text, offset, line, offset - line_start + 1)
        end = found.end()
        group = found.lastgroup
        if group == "word":
            word = found.group()
            symbol = word.upper()
            column = offset - line_start + 1
            if symbol not in KEYWORDS:
                symbol = IDENTIFIER
            append(Token(symbol, word, word, line, column, line, column + end - offset - 1, end))
        elif group == "blank":
            breaks = list(_LINE_BREAK.finditer(text, offset, end))
            if breaks:
                line += len(breaks)
                line_start = breaks[-1].end()
        elif group == "punctuation":
            symbol = found.group()
            column = offset - line_start + 1
            append(Token(symbol, symbol, symbol, line, column, line, column + end - offset - 1, end))
        else:
            column, first_line = offset - line_start + 1, line
            image = found.group()
            breaks = list(_LINE_BREAK.finditer(text, offset, end))
            if breaks:
                line += len(breaks)
                line_start = breaks[-1].end()
            symbol, value = _literal(str(group), image, text, Position(first_line, column, line, end - line_start))
            append(Token(symbol, image, value, first_line, column, line, end - line_start, end))
        offset = end
    column = size - line_start + 1
    append(Token(END, "", "", line, column, line, column, size))
    return tokens


def _literal(group: str, image: str, text: str, position: Position) -> tuple[str, str]:
    if group in _NUMBERS:
        return _NUMBERS[group], image
    if group == "quoted":
        return QUOTED_IDENTIFIER, image[1:-1].replace("``", "`")
    if group == "braced":
        return "{" + image[1:].strip().upper(), image
    if group == "escaped":
        return ESCAPED_STRING, _resolve_c_escapes(image[2:-1], text, position)
    return _STRINGS[group], image[image.index("'") + 1 : -1].replace("''", "'")


def _resolve_c_escapes(body: str, text: str, position: Position) -> str:
    place = f"At line {position.line}, column {position.column}: "

    def replaced(found: re.Match[str]) -> str:
        unicode4, unicode8, hexadecimal, octal, other = found.groups()
        code = unicode4 or unicode8 or hexadecimal
        if code or octal:
            number = int(code, 16) if code else int(octal, 8)
            if number > 0x10FFFF:
                raise error_at(text, position, f"{place}Unicode escape {found.group()} is no character.")
            return chr(number)
        if other is None:
            return "'"
        if other in "uU":
            raise error_at(text, position, f"{place}Unicode escape \\{other} needs {4 if other == 'u' else 8} digits.")
        return _C_ESCAPES.get(other, other)

    return _C_ESCAPE.sub(replaced, body)


def _no_token(text: str, offset: int, line: int, column: int) -> SqlParseError:
    character = text[offset]
    position = Position(line, column, line, column)
    if character == "'" or text[offset : offset + 2].lower() in ("x'", "n'", "e'"):
        return error_at(text, position, _lexical(line, column, "<EOF>"), "The string that begins here has no end.")
    if text.startswith("/*", offset):
        return error_at(text, position, _lexical(line, column, "<EOF>"), "The comment that begins here has no end.")
    if character == "`":
        message = _lexical(line, column, "`")
        return error_at(text, position, message, "A name in backticks ends in the same line and is not empty.")
    return error_at(text, position, _lexical(line, column, character))


def _lexical(line: int, column: int, character: str) -> str:
    shown = f'"{character}" ({ord(character)})' if len(character) == 1 else character
    return f"Lexical error at line {line}, column {column}. Encountered: {shown}."
