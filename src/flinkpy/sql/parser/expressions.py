"""Grammar of expressions: literals, operators by their binding power, and calls of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkpy.common.errors import SqlParseError
from flinkpy.sql.parser.calls import CallParser
from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.literals import LITERAL_START, LiteralParser
from flinkpy.sql.parser.nodes import (
    Between,
    BinaryOperation,
    Case,
    Cast,
    CollectionConstructor,
    CollectionSubquery,
    ElementAccess,
    Exists,
    Expression,
    FieldAccess,
    Identifier,
    InList,
    InSubquery,
    IntervalDifference,
    IsPredicate,
    Like,
    LogicalOperation,
    OrderItem,
    QuantifiedComparison,
    Query,
    RowConstructor,
    ScalarSubquery,
    Star,
    UnaryOperation,
    UniquePredicate,
    WhenBranch,
)
from flinkpy.sql.parser.operators import AND, COMPARISON, IS, NOT, POWERS, RANGE, SIGN
from flinkpy.sql.parser.tokens import NAME_SYMBOLS, Token
from flinkpy.sql.parser.types import RESERVED_INTERVAL_UNITS, TypeParser

if TYPE_CHECKING:
    from flinkpy.sql.parser.queries import QueryParser

_OPERATOR_SYMBOLS = frozenset(POWERS)
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "||"})
_PERIOD_PREDICATES = frozenset({"CONTAINS", "OVERLAPS", "EQUALS", "PRECEDES", "SUCCEEDS"})
_AFTER_NOT = ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "SIMILAR", "SUBMULTISET")
_QUANTIFIERS = {"SOME": "SOME", "ANY": "SOME", "ALL": "ALL"}

#: Tokens that begin a query where an expression in parentheses might stand as well.
QUERY_START = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
#: Tokens that continue a query in parentheses.
_QUERY_CONTINUES = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH"})
_CONSTRUCTORS = ("ARRAY", "MAP", "MULTISET")


class ExpressionParser:
    """Parses expressions. Subqueries are parsed by the QueryParser in `queries`, which is set after construction."""

    queries: QueryParser

    def __init__(self, cursor: TokenCursor, types: TypeParser) -> None:
        self._cursor = cursor
        self._types = types
        self.literals = LiteralParser(cursor, types, self)
        self.calls = CallParser(cursor, types, self)
        self._primaries: dict[str, Callable[[Token], Expression]] = {
            "(": self._parenthesised,
            "CASE": self._case,
            "CAST": self._cast,
            "TRY_CAST": self._cast,
            "ROW": self._row,
            "PERIOD": self._period,
            **dict.fromkeys(LITERAL_START, self.literals.literal),
        }

    def expression(self, minimum: int = 0) -> Expression:
        """Parses an expression whose operators bind tighter than `minimum`."""
        cursor = self._cursor
        cursor.descend()
        start = cursor.token
        left = self._prefixed(start)
        while True:
            cursor.considered(_OPERATOR_SYMBOLS)
            symbol = cursor.symbol
            power = POWERS.get(symbol)
            if power is None:
                if symbol == "!=":
                    raise self._bang_equal()
                break
            if symbol in _ARITHMETIC:
                if power <= minimum:
                    break
                cursor.advance()
                left = BinaryOperation(symbol, left, self.expression(power), position=cursor.since(start))
                continue
            found = self._infix(left, start, symbol, power, minimum)
            if found is None:
                break
            left = found
        cursor.ascend()
        return left

    def _infix(self, left: Expression, start: Token, symbol: str, power: int, minimum: int) -> Expression | None:
        """Parses the operator at the cursor with what follows; None if it is none here or binds too loosely."""
        cursor = self._cursor
        following = cursor.peek()
        if symbol == "IS":
            return self._is(left, start, minimum)
        if (
            power <= minimum
            or (symbol == "NOT" and following not in _AFTER_NOT)
            or (symbol == "FORMAT" and following != "JSON")
            or (symbol == "IMMEDIATELY" and following not in ("PRECEDES", "SUCCEEDS"))
            or (symbol == "MULTISET" and following not in ("UNION", "INTERSECT", "EXCEPT"))
        ):
            return None
        if symbol in ("AND", "OR"):
            operands = [left]
            while cursor.accept(symbol):
                operands.append(self.expression(power))
            return LogicalOperation(symbol, tuple(operands), position=cursor.since(start))
        if symbol in _COMPARISONS:
            return self._comparison(left, start)
        negated = cursor.accept("NOT")
        symbol = cursor.advance().symbol
        if symbol == "IN":
            return self._in(left, start, negated)
        if symbol == "BETWEEN":
            symmetric = cursor.accept("SYMMETRIC")
            if not symmetric:
                cursor.accept("ASYMMETRIC")
            low = self.expression(AND)
            cursor.expect("AND")
            high = self.expression(RANGE)
            return Between(left, low, high, negated, symmetric, position=cursor.since(start))
        if symbol in ("LIKE", "ILIKE", "RLIKE", "SIMILAR"):
            if symbol == "SIMILAR":
                cursor.expect("TO")
                symbol = "SIMILAR TO"
            pattern = self.expression(RANGE)
            escape = self.expression(RANGE) if cursor.accept("ESCAPE") else None
            return Like(left, pattern, escape, negated, symbol, position=cursor.since(start))
        if symbol == "FORMAT":
            cursor.expect("JSON")
            return IsPredicate(left, "FORMAT JSON", position=cursor.since(start))
        operator = self._word_operator(symbol, negated)
        return BinaryOperation(operator, left, self.expression(power), position=cursor.since(start))

    def _bang_equal(self) -> SqlParseError:
        message = "Bang equal '!=' is not allowed under the current SQL conformance level."
        return self._cursor.error_on(self._cursor.token.position, message, "Write <>.")

    def _word_operator(self, symbol: str, negated: bool) -> str:
        cursor = self._cursor
        if symbol in ("MEMBER", "SUBMULTISET"):
            cursor.expect("OF")
            return f"NOT {symbol} OF" if negated else f"{symbol} OF"
        if symbol == "IMMEDIATELY":
            return f"IMMEDIATELY {cursor.expect_any('PRECEDES', 'SUCCEEDS')}"
        if symbol == "MULTISET":
            operator = f"MULTISET {cursor.expect_any('UNION', 'INTERSECT', 'EXCEPT')}"
            if cursor.accept("DISTINCT"):
                return f"{operator} DISTINCT"
            cursor.accept("ALL")
            return operator
        return symbol

    def _comparison(self, left: Expression, start: Token) -> Expression:
        cursor = self._cursor
        operator = cursor.advance().symbol
        if cursor.at_any(_QUANTIFIERS) and cursor.peek() == "(":
            quantifier = _QUANTIFIERS[cursor.advance().symbol]
            query, values = self._query_or_values()
            return QuantifiedComparison(left, operator, quantifier, query, values, position=cursor.since(start))
        return BinaryOperation(operator, left, self.expression(COMPARISON), position=cursor.since(start))

    def _in(self, left: Expression, start: Token, negated: bool) -> Expression:
        query, values = self._query_or_values()
        if query is not None:
            return InSubquery(left, query, negated, position=self._cursor.since(start))
        return InList(left, values, negated, position=self._cursor.since(start))

    def _query_or_values(self) -> tuple[Query | None, tuple[Expression, ...]]:
        """Parses (query) or (value, ...)."""
        cursor = self._cursor
        cursor.expect("(")
        if cursor.at_any(QUERY_START):
            query = self.queries.query()
            cursor.expect(")")
            return query, ()
        values = self._expressions_or_query()
        cursor.expect(")")
        if len(values) == 1 and isinstance(values[0], ScalarSubquery):
            return values[0].query, ()
        return None, values

    def _expressions_or_query(self) -> tuple[Expression, ...]:
        """Parses expressions with commas between them, or a query that begins with one in parentheses."""
        cursor = self._cursor
        start = cursor.token
        values = cursor.separated(self.expression)
        if len(values) == 1 and isinstance(values[0], ScalarSubquery) and cursor.at_any(_QUERY_CONTINUES):
            query = self.queries.continued(values[0].query, start)
            return (ScalarSubquery(query, position=query.position),)
        return values

    def _is(self, left: Expression, start: Token, minimum: int) -> Expression | None:
        cursor = self._cursor
        negated = cursor.peek() == "NOT"
        if cursor.peek(1 + negated) == "DISTINCT":
            if minimum >= COMPARISON:
                return None
            cursor.expect("IS")
            operator = "IS NOT DISTINCT FROM" if cursor.accept("NOT") else "IS DISTINCT FROM"
            cursor.expect_all("DISTINCT", "FROM")
            return BinaryOperation(operator, left, self.expression(COMPARISON), position=cursor.since(start))
        if minimum >= IS:
            return None
        cursor.expect("IS")
        cursor.accept("NOT")
        if cursor.accept("A"):
            cursor.expect("SET")
            test = "A SET"
        elif cursor.accept("JSON"):
            kinds = ("VALUE", "OBJECT", "ARRAY", "SCALAR")
            test = f"JSON {cursor.advance().symbol}" if cursor.at_any(kinds) else "JSON VALUE"
        else:
            cursor.considered(("A", "JSON", "DISTINCT"))
            test = cursor.expect_any("NULL", "TRUE", "FALSE", "UNKNOWN", "EMPTY")
        return IsPredicate(left, test, negated, position=cursor.since(start))

    def _prefixed(self, start: Token) -> Expression:
        cursor = self._cursor
        symbol = start.symbol
        if symbol in ("-", "+"):
            cursor.advance()
            return UnaryOperation(symbol, self.expression(SIGN), position=cursor.since(start))
        if symbol == "NOT":
            cursor.advance()
            return UnaryOperation("NOT", self.expression(NOT), position=cursor.since(start))
        if symbol in ("EXISTS", "UNIQUE"):
            cursor.advance()
            query = self.query_in_parentheses()
            node = Exists if symbol == "EXISTS" else UniquePredicate
            return node(query, position=cursor.since(start))
        primary = self._primaries.get(symbol)
        if symbol == "ARRAY" or symbol == "MULTISET" or (symbol == "MAP" and cursor.peek() in ("[", "(")):
            left = self._collection(start)
        elif primary is not None:
            left = primary(start)
        else:
            left = self.calls.name_or_call(start)
        # Nearly all expressions end here.
        return self._with_accesses(left, start) if cursor.symbol in ("[", ".") else left

    def _with_accesses(self, left: Expression, start: Token) -> Expression:
        cursor = self._cursor
        while True:
            if cursor.accept("["):
                index = self.expression()
                cursor.expect("]")
                left = ElementAccess(left, index, position=cursor.since(start))
            elif cursor.at(".") and cursor.peek() in NAME_SYMBOLS:
                cursor.advance()
                left = FieldAccess(left, cursor.simple_identifier(), position=cursor.since(start))
            else:
                return left

    # Primary expressions ---------------------------------------------------------------------------------------------

    def query_in_parentheses(self) -> Query:
        """Parses (query)."""
        cursor = self._cursor
        cursor.expect("(")
        query = self.queries.query()
        cursor.expect(")")
        return query

    def _parenthesised(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect("(")
        if cursor.at_any(QUERY_START):
            query = self.queries.query()
            cursor.expect(")")
            return ScalarSubquery(query, position=cursor.since(start))
        values = self._expressions_or_query()
        cursor.expect(")")
        if len(values) == 1:
            value = values[0]
            if (
                cursor.symbol in RESERVED_INTERVAL_UNITS
                and isinstance(value, BinaryOperation)
                and value.operator == "-"
            ):
                qualifier = self._types.interval_qualifier()
                return IntervalDifference(value.left, value.right, qualifier, position=cursor.since(start))
            return value
        return RowConstructor(values, explicit=False, position=cursor.since(start))

    def _row(self, start: Token) -> Expression:
        self._cursor.expect("ROW")
        values = self._cursor.in_parentheses(self.expression)
        return RowConstructor(values, position=self._cursor.since(start))

    def _period(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect_all("PERIOD", "(")
        first = self.expression()
        cursor.expect(",")
        last = self.expression()
        cursor.expect(")")
        return RowConstructor((first, last), position=cursor.since(start))

    def _collection(self, start: Token) -> Expression:
        cursor = self._cursor
        kind = cursor.expect_any(*_CONSTRUCTORS)
        if cursor.at("("):
            return CollectionSubquery(kind, self.query_in_parentheses(), position=cursor.since(start))
        cursor.expect("[")
        values = () if cursor.at("]") and kind != "MULTISET" else cursor.separated(self.expression)
        cursor.expect("]")
        return CollectionConstructor(kind, values, position=cursor.since(start))

    def _case(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect("CASE")
        operand = None if cursor.at("WHEN") else self.expression()
        branches = [self._when()]
        while cursor.at("WHEN"):
            branches.append(self._when())
        otherwise = self.expression() if cursor.accept("ELSE") else None
        cursor.expect("END")
        return Case(operand, tuple(branches), otherwise, position=cursor.since(start))

    def _when(self) -> WhenBranch:
        cursor = self._cursor
        start = cursor.expect("WHEN")
        conditions = cursor.separated(self.expression)
        cursor.expect("THEN")
        result = self.expression()
        return WhenBranch(conditions, result, position=cursor.since(start))

    def _cast(self, start: Token) -> Expression:
        cursor = self._cursor
        is_try = cursor.advance().symbol == "TRY_CAST"
        cursor.expect("(")
        operand = self.expression()
        cursor.expect("AS")
        target = self._types.type()
        cursor.expect(")")
        return Cast(operand, target, is_try, position=cursor.since(start))

    # Parts that queries and calls share ------------------------------------------------------------------------------

    def star(self, start: Token, qualifier: Identifier | None = None) -> Star:
        """Parses `*`, behind a qualifier if there is one."""
        self._cursor.expect("*")
        return Star(qualifier, position=self._cursor.since(start))

    def order_by(self) -> tuple[OrderItem, ...]:
        """Parses ORDER BY item, ..."""
        self._cursor.expect_all("ORDER", "BY")
        return self._cursor.separated(self.order_item)

    def optional_order_by(self) -> tuple[OrderItem, ...]:
        """Parses [ORDER BY item, ...]."""
        return self.order_by() if self._cursor.at("ORDER") else ()

    def optional_partition_by(self) -> tuple[Expression, ...]:
        """Parses [PARTITION BY expression, ...]. Parentheses around all expressions are left out."""
        cursor = self._cursor
        if not cursor.accept("PARTITION"):
            return ()
        cursor.expect("BY")
        values = cursor.separated(self.expression)
        if len(values) == 1 and isinstance(values[0], RowConstructor) and not values[0].explicit:
            return values[0].values
        return values

    def order_item(self) -> OrderItem:
        """Parses expression [ASC | DESC] [NULLS FIRST | NULLS LAST]."""
        cursor = self._cursor
        start = cursor.token
        expression = self.expression()
        descending = False if cursor.accept("ASC") else True if cursor.accept("DESC") else None
        nulls_first = None
        if cursor.accept("NULLS"):
            nulls_first = cursor.expect_any("FIRST", "LAST") == "FIRST"
        return OrderItem(expression, descending, nulls_first, position=cursor.since(start))
