"""The cursor that grammar rules share: the current token, tests of it, and the error where none of them held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from flinkpy.common.errors import SqlParseError
from flinkpy.sql.parser.errors import error_at, unexpected_token
from flinkpy.sql.parser.lexer import tokenize
from flinkpy.sql.parser.nodes import Identifier, Node, Position
from flinkpy.sql.parser.tokens import (
    IDENTIFIER,
    INTEGER,
    NAME_SYMBOLS,
    QUOTED_IDENTIFIER,
    STRING,
    Token,
)

#: Expressions, queries, types and patterns may be nested this deep. Each level takes up to seven of the 1,000 frames
#: that Python allows by default.
MAX_DEPTH = 100

T = TypeVar("T")


class UnexpectedTokenError(Exception):
    """No rule allows the current token. Never leaves this package: `parsed` makes a SqlParseError of it."""


class TokenCursor:
    """Walks through the tokens of a text.

    Attributes:
        symbol: symbol of the current token; see `tokens`.
        token: the current token.
        parameters: number of question marks so far.
    """

    __slots__ = ("_depth", "index", "parameters", "symbol", "text", "token", "tokens")

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.index = 0
        self.token = tokens[0]
        self.symbol = tokens[0].symbol
        self.parameters = 0
        self._depth = 0

    # Tests and steps -------------------------------------------------------------------------------------------------

    def at(self, symbol: str) -> bool:
        """True if the current token is this one."""
        return self.symbol == symbol

    def at_any(self, symbols: Iterable[str]) -> bool:
        """True if the current token is one of these. Pass a set where there are many."""
        return self.symbol in symbols

    def at_name(self) -> bool:
        """True if the current token is a part of a name."""
        return self.symbol in NAME_SYMBOLS

    def peek(self, count: int = 1) -> str:
        """Returns the symbol of a later token; that of the end if there are fewer."""
        index = self.index + count
        return self.tokens[index].symbol if index < len(self.tokens) else self.tokens[-1].symbol

    def advance(self) -> Token:
        """Steps over the current token and returns it."""
        token = self.token
        if self.index < len(self.tokens) - 1:
            self.index += 1
        self.token = self.tokens[self.index]
        self.symbol = self.token.symbol
        return token

    def rewind(self, index: int) -> None:
        """Goes back to an earlier token."""
        self.index = index
        self.token = self.tokens[index]
        self.symbol = self.token.symbol

    def accept(self, symbol: str) -> bool:
        """Steps over the current token if it is this one."""
        if self.symbol == symbol:
            self.advance()
            return True
        return False

    def expect(self, symbol: str) -> Token:
        """Steps over the current token, which must be this one, and returns it."""
        if self.symbol != symbol:
            raise self.unexpected(symbol)
        return self.advance()

    def accept_all(self, *symbols: str) -> bool:
        """Steps over these tokens if they come next, all of them."""
        if not self.at(symbols[0]):
            return False
        if all(self.peek(count) == symbol for count, symbol in enumerate(symbols[1:], 1)):
            for _ in symbols:
                self.advance()
            return True
        return False

    def expect_all(self, *symbols: str) -> None:
        """Steps over these tokens, which must come next."""
        for symbol in symbols:
            self.expect(symbol)

    def expect_any(self, *symbols: str) -> str:
        """Steps over the current token, which must be one of these, and returns its symbol."""
        if self.symbol not in symbols:
            raise self.unexpected(*symbols)
        return self.advance().symbol

    def considered(self, symbols: Iterable[str]) -> None:
        """Tells the error message, if there will be one, that these tokens are allowed here."""

    # Names and literals that many rules share ------------------------------------------------------------------------

    def simple_identifier(self) -> Identifier:
        """Parses a name of one part."""
        if self.symbol not in NAME_SYMBOLS:
            raise self.unexpected(IDENTIFIER)
        token = self.advance()
        return Identifier((token.value,), (token.symbol == QUOTED_IDENTIFIER,), position=token.position)

    def keyword_identifier(self) -> Identifier:
        """Takes the current token as a name although it is a keyword, as in calls of COUNT."""
        token = self.advance()
        return Identifier((token.value,), (False,), position=token.position)

    def identifier(self) -> Identifier:
        """Parses a name of one or more parts."""
        if self.symbol not in NAME_SYMBOLS:
            raise self.unexpected(IDENTIFIER)
        first = self.token
        parts, quoted = [], []
        while True:
            token = self.advance()
            parts.append(token.value)
            quoted.append(token.symbol == QUOTED_IDENTIFIER)
            if not (self.at(".") and self.peek() in NAME_SYMBOLS):
                return Identifier(tuple(parts), tuple(quoted), position=self.since(first))
            self.advance()

    def string(self) -> str:
        """Parses a string in single quotes without any prefix."""
        return self.expect(STRING).value

    def comment(self) -> str | None:
        """Parses [COMMENT '...']."""
        return self.string() if self.accept("COMMENT") else None

    def unsigned_integer(self) -> int:
        """Parses a number without a decimal point, which must fit Java's int."""
        token = self.expect(INTEGER)
        value = int(token.text) if len(token.text) < 20 else 1 << 64
        if value > 0x7FFFFFFF:
            raise self.error_on(token.position, f"Invalid literal '{token.text[:40]}' for 'java.lang.Integer'.")
        return value

    def in_parentheses(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """Parses (item, ...) with at least one item."""
        self.expect("(")
        items = self.separated(parse)
        self.expect(")")
        return items

    def separated(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """Parses items with commas between them, at least one."""
        items = [parse()]
        while self.accept(","):
            items.append(parse())
        return tuple(items)

    # Places and errors -----------------------------------------------------------------------------------------------

    def since(self, start: Token | Node) -> Position:
        """Returns the range from a token or node up to the token before the current one."""
        end = self.tokens[self.index - 1] if self.index else self.token
        if isinstance(start, Token):
            return Position(start.line, start.column, end.end_line, end.end_column)
        return Position(start.position.line, start.position.column, end.end_line, end.end_column)

    def unexpected(self, *symbols: str) -> UnexpectedTokenError:
        """Returns the error that the current token is none of these, nor of those that were tested here before."""
        return UnexpectedTokenError()

    def error_on(self, position: Position, message: str, advice: str = "") -> SqlParseError:
        """Returns the error of a text that the grammar allows, but a rule of Flink's does not."""
        place = f"At line {position.line}, column {position.column}: "
        return error_at(self.text, position, place + message, advice)

    def descend(self) -> None:
        """Counts a level of nesting; each call needs an `ascend`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.too_deep()

    def ascend(self) -> None:
        self._depth -= 1

    def too_deep(self) -> SqlParseError:
        """Returns the error of a text with more levels of nesting than allowed, at the current token."""
        return self.error_on(self.token.position, f"The text is nested deeper than {MAX_DEPTH} levels.")


class RecordingCursor(TokenCursor):
    """A cursor that remembers which symbols were tested at a token and at the one before it.

    A text that does not parse is parsed a second time with it, so that correct texts pay nothing for good errors.
    """

    __slots__ = ("_failing", "expected", "expected_before")

    def __init__(self, text: str, tokens: list[Token], failing: int) -> None:
        super().__init__(text, tokens)
        self._failing = failing
        self.expected: set[str] = set()
        self.expected_before: set[str] = set()

    def at(self, symbol: str) -> bool:
        self.considered((symbol,))
        return super().at(symbol)

    def at_any(self, symbols: Iterable[str]) -> bool:
        self.considered(symbols)
        return super().at_any(symbols)

    def at_name(self) -> bool:
        self.considered((IDENTIFIER,))
        return super().at_name()

    def accept(self, symbol: str) -> bool:
        self.considered((symbol,))
        return super().accept(symbol)

    def unexpected(self, *symbols: str) -> UnexpectedTokenError:
        self.considered(symbols)
        return super().unexpected(*symbols)

    def considered(self, symbols: Iterable[str]) -> None:
        if self.index == self._failing:
            self.expected.update(symbols)
        elif self.index == self._failing - 1:
            self.expected_before.update(symbols)


def parsed(text: str, parse: Callable[[TokenCursor], T]) -> T:
    """Tokenizes the text, applies a rule to it, and returns the result.

    Raises:
        SqlParseError: the text is not in Flink's dialect, or nested too deeply.
    """
    tokens = tokenize(text)
    cursor = TokenCursor(text, tokens)
    try:
        return parse(cursor)
    except UnexpectedTokenError:
        failing = cursor.index
    except RecursionError:
        raise cursor.too_deep() from None
    recorder = RecordingCursor(text, tokens, failing)
    try:
        parse(recorder)
    except UnexpectedTokenError:
        previous = tokens[failing - 1] if failing else None
        following = tokens[min(failing + 1, len(tokens) - 1)].symbol
        raise unexpected_token(
            text, tokens[failing], following, recorder.expected, previous, recorder.expected_before
        ) from None
    raise AssertionError("a text that did not parse has parsed when it was parsed again")
