"""Grammar of MATCH_RECOGNIZE and of row patterns."""

from __future__ import annotations

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.expressions import ExpressionParser
from flinkpy.sql.parser.nodes import (
    AfterMatch,
    IntervalLiteral,
    MatchRecognize,
    Measure,
    Pattern,
    PatternAlternation,
    PatternConcatenation,
    PatternDefinition,
    PatternExclusion,
    PatternPermutation,
    PatternQuantifier,
    PatternSubset,
    PatternVariable,
    TableReference,
)
from flinkpy.sql.parser.tokens import IDENTIFIER, INTEGER, NAME_SYMBOLS, Token

_PATTERN_START = NAME_SYMBOLS | {"(", "{-", "PERMUTE"}


class MatchRecognizeParser:
    """Parses MATCH_RECOGNIZE (...) behind a table."""

    def __init__(self, cursor: TokenCursor, expressions: ExpressionParser) -> None:
        self._cursor = cursor
        self._expressions = expressions

    def match_recognize(self, table: TableReference, start: Token) -> MatchRecognize:
        """Parses the clause behind a table that began with `start`."""
        cursor = self._cursor
        cursor.expect_all("MATCH_RECOGNIZE", "(")
        partition_by = self._expressions.optional_partition_by()
        order_by = self._expressions.optional_order_by()
        measures = cursor.separated(self._measure) if cursor.accept("MEASURES") else ()
        all_rows = self._rows_per_match()
        after_match = self._after_match() if cursor.at("AFTER") else None
        cursor.expect_all("PATTERN", "(")
        strict_start = cursor.accept("^")
        pattern = self._alternation()
        strict_end = cursor.accept("$")
        cursor.expect(")")
        within = self._within() if cursor.accept("WITHIN") else None
        subsets = cursor.separated(self._subset) if cursor.accept("SUBSET") else ()
        cursor.expect("DEFINE")
        definitions = cursor.separated(self._definition)
        cursor.expect(")")
        return MatchRecognize(
            table,
            pattern,
            definitions,
            partition_by,
            order_by,
            measures,
            all_rows,
            after_match,
            strict_start,
            strict_end,
            within,
            subsets,
            position=cursor.since(start),
        )

    def _measure(self) -> Measure:
        cursor = self._cursor
        start = cursor.token
        expression = self._expressions.expression()
        cursor.expect("AS")
        return Measure(expression, cursor.simple_identifier(), position=cursor.since(start))

    def _rows_per_match(self) -> bool | None:
        cursor = self._cursor
        if cursor.accept("ONE"):
            cursor.expect_all("ROW", "PER", "MATCH")
            return False
        if cursor.accept("ALL"):
            cursor.expect_all("ROWS", "PER", "MATCH")
            return True
        return None

    def _after_match(self) -> AfterMatch:
        cursor = self._cursor
        start = cursor.token
        cursor.expect_all("AFTER", "MATCH", "SKIP")
        if cursor.accept("PAST"):
            cursor.expect_all("LAST", "ROW")
            return AfterMatch("PAST LAST ROW", position=cursor.since(start))
        cursor.expect("TO")
        if cursor.accept_all("NEXT", "ROW"):
            return AfterMatch("TO NEXT ROW", position=cursor.since(start))
        # FIRST and LAST may be left out, and may be names of variables themselves.
        mode = "TO LAST"
        if cursor.at_any(("FIRST", "LAST")) and cursor.peek() in NAME_SYMBOLS:
            mode = f"TO {cursor.advance().symbol}"
        return AfterMatch(mode, cursor.simple_identifier(), position=cursor.since(start))

    def _within(self) -> IntervalLiteral:
        cursor = self._cursor
        start = cursor.token
        if not cursor.at("INTERVAL"):
            raise cursor.unexpected()
        interval = self._expressions.literals.interval(start)
        if not isinstance(interval, IntervalLiteral):
            raise cursor.error_on(cursor.since(start), "WITHIN expects an interval with a literal string.")
        return interval

    def _subset(self) -> PatternSubset:
        cursor = self._cursor
        start = cursor.token
        name = cursor.simple_identifier()
        cursor.expect("=")
        variables = cursor.in_parentheses(cursor.simple_identifier)
        return PatternSubset(name, variables, position=cursor.since(start))

    def _definition(self) -> PatternDefinition:
        cursor = self._cursor
        start = cursor.token
        name = cursor.simple_identifier()
        cursor.expect("AS")
        return PatternDefinition(name, self._expressions.expression(), position=cursor.since(start))

    # Row patterns ----------------------------------------------------------------------------------------------------

    def _alternation(self) -> Pattern:
        cursor = self._cursor
        cursor.descend()
        start = cursor.token
        alternatives = [self._concatenation()]
        while cursor.accept("|"):
            alternatives.append(self._concatenation())
        cursor.ascend()
        if len(alternatives) == 1:
            return alternatives[0]
        return PatternAlternation(tuple(alternatives), position=cursor.since(start))

    def _concatenation(self) -> Pattern:
        cursor = self._cursor
        start = cursor.token
        elements = [self._quantified()]
        while cursor.symbol in _PATTERN_START:
            elements.append(self._quantified())
        if len(elements) == 1:
            return elements[0]
        return PatternConcatenation(tuple(elements), position=cursor.since(start))

    def _quantified(self) -> Pattern:
        cursor = self._cursor
        start = cursor.token
        pattern = self._primary(start)
        minimum: int
        maximum: int | None
        if cursor.accept("*"):
            minimum, maximum = 0, None
        elif cursor.accept("+"):
            minimum, maximum = 1, None
        elif cursor.accept("?"):
            minimum, maximum = 0, 1
        elif cursor.accept("{"):
            minimum, maximum = self._repetition()
        else:
            return pattern
        reluctant = cursor.accept("?")
        return PatternQuantifier(pattern, minimum, maximum, reluctant, position=cursor.since(start))

    def _repetition(self) -> tuple[int, int | None]:
        """Parses n}, n,}, n,m} or ,m}."""
        cursor = self._cursor
        if cursor.accept(","):
            maximum = cursor.unsigned_integer()
            cursor.expect("}")
            return 0, maximum
        place = cursor.token
        minimum = cursor.unsigned_integer()
        if not cursor.accept(","):
            cursor.expect("}")
            return minimum, minimum
        found = cursor.unsigned_integer() if cursor.at(INTEGER) else None
        cursor.expect("}")
        if found is not None and found < minimum:
            raise cursor.error_on(
                cursor.since(place), f"Pattern quantifier {{{minimum},{found}}} ends before it begins."
            )
        return minimum, found

    def _primary(self, start: Token) -> Pattern:
        cursor = self._cursor
        if cursor.at_name():
            return PatternVariable(cursor.simple_identifier(), position=start.position)
        if cursor.accept("("):
            pattern = self._alternation()
            cursor.expect(")")
            return pattern
        if cursor.accept("{-"):
            pattern = self._alternation()
            cursor.expect("-}")
            return PatternExclusion(pattern, position=cursor.since(start))
        if cursor.accept("PERMUTE"):
            elements = cursor.in_parentheses(self._alternation)
            return PatternPermutation(elements, position=cursor.since(start))
        raise cursor.unexpected(IDENTIFIER)
