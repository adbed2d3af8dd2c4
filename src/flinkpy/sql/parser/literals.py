"""Grammar of literals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.nodes import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    DynamicParameter,
    Expression,
    FunctionCall,
    IntegerLiteral,
    IntervalExpression,
    IntervalLiteral,
    NullLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
    UnaryOperation,
)
from flinkpy.sql.parser.tokens import (
    BINARY_STRING,
    DECIMAL,
    DOUBLE,
    ESCAPED_STRING,
    INTEGER,
    PREFIXED_STRING,
    STRING,
    UNICODE_STRING,
    Token,
)
from flinkpy.sql.parser.types import TypeParser

if TYPE_CHECKING:
    from flinkpy.sql.parser.expressions import ExpressionParser

_NUMBERS = frozenset({INTEGER, DECIMAL, DOUBLE})
_STRINGS = frozenset({STRING, ESCAPED_STRING, UNICODE_STRING, PREFIXED_STRING})
_DATE_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "DATETIME"})
_BRACES = frozenset({"{D", "{T", "{TS", "{FN"})
LITERAL_START = frozenset(
    {*_NUMBERS, *_STRINGS, *_DATE_TIMES, *_BRACES, BINARY_STRING, "TRUE", "FALSE", "UNKNOWN", "NULL", "INTERVAL", "?"}
)
#: Longest text of a number: far more digits than DECIMAL has, and less than Python takes long to convert.
_MAX_DIGITS = 1000


class LiteralParser:
    """Parses literals, and calls of DATE, TIME and TIMESTAMP, which begin with the same words."""

    def __init__(self, cursor: TokenCursor, types: TypeParser, expressions: ExpressionParser) -> None:
        self._cursor = cursor
        self._types = types
        self._expressions = expressions

    def literal(self, start: Token) -> Expression:
        """Parses the literal at the cursor, whose token is passed."""
        cursor = self._cursor
        symbol = start.symbol
        if symbol == STRING:
            return self._string(start)
        if symbol in _NUMBERS:
            return self.number()
        if symbol == "NULL":
            return NullLiteral(position=cursor.advance().position)
        if symbol in ("TRUE", "FALSE", "UNKNOWN"):
            value = None if symbol == "UNKNOWN" else symbol == "TRUE"
            return BooleanLiteral(value, position=cursor.advance().position)
        if symbol == "INTERVAL":
            return self.interval(start)
        if symbol in _DATE_TIMES:
            return self._date_time(start)
        if symbol == "?":
            cursor.advance()
            cursor.parameters += 1
            return DynamicParameter(cursor.parameters - 1, position=start.position)
        if symbol in _BRACES:
            return self._braced(start)
        if symbol == BINARY_STRING:
            return self._binary(start)
        return self._string(start)

    def number(self) -> Expression:
        """Parses a number without a sign."""
        cursor = self._cursor
        if not cursor.at_any(_NUMBERS):
            raise cursor.unexpected()
        token = cursor.advance()
        if len(token.text) > _MAX_DIGITS:
            raise cursor.error_on(token.position, f"Numeric literal '{token.text[:40]}...' out of range.")
        if token.symbol == INTEGER:
            return IntegerLiteral(int(token.text), position=token.position)
        if token.symbol == DECIMAL:
            return DecimalLiteral(token.text, position=token.position)
        return DoubleLiteral(token.text, position=token.position)

    def literal_with_sign(self) -> Expression:
        """Parses a literal, and a sign before a number, where no other expression is allowed."""
        cursor = self._cursor
        start = cursor.token
        cursor.considered(LITERAL_START)
        if cursor.at_any(("-", "+")):
            operator = cursor.advance().symbol
            number = self.number()
            return number if operator == "+" else UnaryOperation("-", number, position=cursor.since(start))
        if start.symbol not in LITERAL_START - {"?", "{FN"}:
            raise cursor.unexpected()
        return self.literal(start)

    def plain_string(self) -> str:
        """Parses a string of any form and returns its value."""
        if not self._cursor.at_any(_STRINGS):
            raise self._cursor.unexpected(STRING)
        return self._string(self._cursor.token).value

    def _string(self, start: Token) -> StringLiteral:
        """Parses a string; strings that follow it continue it."""
        cursor = self._cursor
        symbol = cursor.advance().symbol
        if symbol == ESCAPED_STRING:
            return StringLiteral(start.value, position=start.position)
        values = [start.value]
        while cursor.at(STRING):
            values.append(cursor.advance().value)
        value = "".join(values)
        charset = None
        if symbol == UNICODE_STRING:
            escape = "\\"
            if cursor.accept("UESCAPE"):
                token = cursor.token
                escape = cursor.string()
                if len(escape) != 1 or escape in "0123456789abcdefABCDEF+\"' \t\n\r\f":
                    raise cursor.error_on(
                        token.position, "Unicode escape character must be one character, no hex digit."
                    )
            value = self._unescaped(value, escape, start)
        elif symbol == PREFIXED_STRING:
            prefix = start.text[: start.text.index("'")].upper()
            charset = "N" if prefix == "N" else prefix[1:]
        return StringLiteral(value, charset, position=cursor.since(start))

    def _unescaped(self, value: str, escape: str, start: Token) -> str:
        mark = re.escape(escape)

        def character(found: re.Match[str]) -> str:
            digits = found.group(1) or found.group(2)
            if digits is None and found.group(3) is None:
                raise self._cursor.error_on(
                    start.position, f"Unicode escape '{escape}' needs 4 digits, or + and 6 digits."
                )
            if digits is None:
                return escape
            code = int(digits, 16)
            if code > 0x10FFFF:
                raise self._cursor.error_on(start.position, f"Unicode escape '{found.group()}' is no character.")
            return chr(code)

        return re.sub(rf"{mark}(?:([0-9A-Fa-f]{{4}})|\+([0-9A-Fa-f]{{6}})|({mark}))?", character, value)

    def _binary(self, start: Token) -> BinaryLiteral:
        cursor = self._cursor
        cursor.advance()
        digits = start.value
        while cursor.at(STRING):
            digits += cursor.advance().value
        if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise cursor.error_on(start.position, f"Illegal binary string {start.text[:80]}")
        if len(digits) % 2:
            message = "Binary literal string must contain an even number of hexits"
            raise cursor.error_on(start.position, message)
        return BinaryLiteral(bytes.fromhex(digits), position=cursor.since(start))

    def interval(self, start: Token) -> Expression:
        """Parses INTERVAL '...' with its units, or INTERVAL of a number, name or (expression) with one unit."""
        cursor = self._cursor
        cursor.expect("INTERVAL")
        negative = cursor.accept("-")
        if not negative:
            cursor.accept("+")
        if cursor.at(STRING):
            text = cursor.advance().value
            qualifier = self._types.interval_qualifier()
            return IntervalLiteral(text, qualifier, negative, position=cursor.since(start))
        if cursor.accept("("):
            operand = self._expressions.expression()
            cursor.expect(")")
        elif cursor.at_any(_NUMBERS):
            operand = self.number()
        else:
            operand = cursor.identifier()
        if negative:
            operand = UnaryOperation("-", operand, position=operand.position)
        qualifier = self._types.interval_qualifier(allow_range=False)
        return IntervalExpression(operand, qualifier, position=cursor.since(start))

    def _date_time(self, start: Token) -> Expression:
        cursor = self._cursor
        if cursor.peek() == "(":
            return self._expressions.calls.call(cursor.keyword_identifier(), start)
        symbol = cursor.advance().symbol
        if symbol == "TIMESTAMP" and cursor.accept("WITH"):
            cursor.expect_all("LOCAL", "TIME", "ZONE")
            return TimestampLiteral(cursor.string(), "LOCAL", position=cursor.since(start))
        text = cursor.string()
        kind = {"DATE": DateLiteral, "TIME": TimeLiteral}.get(symbol, TimestampLiteral)
        return kind(text, position=cursor.since(start))

    def _braced(self, start: Token) -> Expression:
        """Parses JDBC's {d '...'}, {t '...'}, {ts '...'} and {fn f(...)}."""
        cursor = self._cursor
        symbol = cursor.advance().symbol
        if symbol == "{FN":
            name = cursor.identifier() if cursor.at_name() else cursor.keyword_identifier()
            found: Expression = self._expressions.calls.call(name, cursor.token)
            if not isinstance(found, FunctionCall):
                raise cursor.unexpected()
        else:
            kind = {"{D": DateLiteral, "{T": TimeLiteral, "{TS": TimestampLiteral}[symbol]
            found = kind(cursor.string(), position=start.position)
        cursor.expect("}")
        return found
