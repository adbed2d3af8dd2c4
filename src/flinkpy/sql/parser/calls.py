"""Grammar of names and of calls of functions, with the functions that have a syntax of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.json_functions import JsonFunctionParser
from flinkpy.sql.parser.nodes import (
    DefaultValue,
    Descriptor,
    DescriptorColumn,
    Expression,
    FrameBound,
    FunctionCall,
    Identifier,
    ModelReference,
    NamedArgument,
    OrderItem,
    Query,
    ScalarSubquery,
    TableArgument,
    TimeUnit,
    Trim,
    WindowFrame,
    WindowSpecification,
)
from flinkpy.sql.parser.operators import EXPRESSION_START, SIGN
from flinkpy.sql.parser.tokens import IDENTIFIER, NAME_SYMBOLS, Token, words
from flinkpy.sql.parser.types import TypeParser

if TYPE_CHECKING:
    from flinkpy.sql.parser.expressions import ExpressionParser

#: Reserved keywords that are names of functions before a parenthesis.
_RESERVED_FUNCTIONS = words(
    """
    ABS AVG CARDINALITY CEILING CHAR CHARACTER_LENGTH CHAR_LENGTH CLASSIFIER COALESCE COLLECT COUNT COVAR_POP
    COVAR_SAMP CUME_DIST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DENSE_RANK ELEMENT EVERY EXP FIRST_VALUE
    FUSION GROUPING HOUR INTERSECTION LAG LAST_VALUE LEAD LEFT LN
    LOCALTIME LOCALTIMESTAMP LOWER MATCH_NUMBER MAX MIN MINUTE MOD MONTH NEXT NTH_VALUE NTILE NULLIF
    OCTET_LENGTH PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK POWER PREV RANK REGR_COUNT REGR_SXX REGR_SYY RIGHT
    ROW_NUMBER SECOND SOME SQRT STDDEV_POP STDDEV_SAMP SUM TRANSLATE TRUNCATE UPPER USER VAR_POP VAR_SAMP YEAR
    """
)
#: Keywords that are calls without parentheses.
_CONTEXT_VARIABLES = words(
    """
    CURRENT_CATALOG CURRENT_DATE CURRENT_DEFAULT_TRANSFORM_GROUP CURRENT_PATH CURRENT_ROLE CURRENT_SCHEMA
    CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER LOCALTIME LOCALTIMESTAMP SESSION_USER SYSTEM_USER USER
    """
)
_UNIT_FIRST = frozenset({"TIMESTAMPADD", "TIMESTAMPDIFF"})
_TIME_UNITS = words(
    """
    NANOSECOND MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY DOW DOY ISODOW ISOYEAR WEEK MONTH QUARTER YEAR
    EPOCH DECADE CENTURY MILLENNIUM
    """
)


class CallParser:
    """Parses names of columns and calls of functions."""

    def __init__(self, cursor: TokenCursor, types: TypeParser, expressions: ExpressionParser) -> None:
        self._cursor = cursor
        self._expressions = expressions
        json = JsonFunctionParser(cursor, types, expressions, self)
        #: Functions with a syntax of their own. Those that are not reserved are names unless a parenthesis follows.
        self._special: dict[str, Callable[[Token], Expression]] = {
            "EXTRACT": self._extract,
            "POSITION": self._position,
            "SUBSTRING": self._substring,
            "OVERLAY": self._overlay,
            "TRIM": self._trim,
            "FLOOR": self._floor_or_ceil,
            "CEIL": self._floor_or_ceil,
            "CEILING": self._floor_or_ceil,
            "TIMESTAMPADD": self._unit_first,
            "TIMESTAMPDIFF": self._unit_first,
            "DESCRIPTOR": self._descriptor,
            **json.functions,
        }

    def name_or_call(self, start: Token) -> Expression:
        """Parses a column, a call, or a qualified star."""
        cursor = self._cursor
        symbol = start.symbol
        following = cursor.peek()
        if following == "(" and symbol in self._special:
            return self._special[symbol](start)
        if symbol in NAME_SYMBOLS:
            if symbol == "MODEL" and following in NAME_SYMBOLS and following != "AS":
                cursor.advance()
                return ModelReference(cursor.identifier(), position=cursor.since(start))
            if symbol == "FINAL" and following not in (".", "(") and self._is_call_at(1):
                return self._modified(start)
            name = cursor.identifier()
            if cursor.symbol == "(":
                return self.call(name, start)
            if cursor.symbol == "." and cursor.peek() == "*":
                cursor.advance()
                return self._expressions.star(start, name)
            return name
        if symbol in _RESERVED_FUNCTIONS and following == "(":
            return self.call(cursor.keyword_identifier(), start)
        if symbol in _CONTEXT_VARIABLES:
            return FunctionCall(cursor.keyword_identifier(), has_parentheses=False, position=start.position)
        if symbol == "RUNNING":
            return self._modified(start)
        cursor.considered((IDENTIFIER,))
        cursor.considered(EXPRESSION_START)
        raise cursor.unexpected()

    def _is_call_at(self, count: int) -> bool:
        """True if a name of one part and a parenthesis stand this far behind the cursor."""
        symbol = self._cursor.peek(count)
        return (symbol in NAME_SYMBOLS or symbol in _RESERVED_FUNCTIONS) and self._cursor.peek(count + 1) == "("

    def _modified(self, start: Token) -> FunctionCall:
        """Parses RUNNING or FINAL before a call, in MATCH_RECOGNIZE."""
        cursor = self._cursor
        modifier = cursor.keyword_identifier()
        if not self._is_call_at(0):
            raise cursor.unexpected(IDENTIFIER)
        operand = self.name_or_call(cursor.token)
        return FunctionCall(modifier, (operand,), position=cursor.since(start))

    # Calls with the common syntax ------------------------------------------------------------------------------------

    def call(self, name: Identifier, start: Token) -> FunctionCall:
        """Parses the arguments behind a name, and the clauses behind them."""
        cursor = self._cursor
        quantifier = None
        arguments: tuple[Expression, ...] = ()
        order_by: tuple[OrderItem, ...] = ()
        ignore_nulls = None
        cursor.expect("(")
        if cursor.at("*"):
            arguments = (self._expressions.star(cursor.token),)
        elif not cursor.at(")"):
            if cursor.at_any(("DISTINCT", "ALL")):
                quantifier = cursor.advance().symbol
            arguments = cursor.separated(self._argument)
            # The one aggregate that takes these among its arguments.
            if len(name.parts) == 1 and name.parts[0].upper() == "ARRAY_AGG":
                ignore_nulls = self._null_treatment()
                order_by = self._expressions.optional_order_by()
        cursor.expect(")")
        found = FunctionCall(
            name, arguments, quantifier, order_by, ignore_nulls=ignore_nulls, position=cursor.since(start)
        )
        return self._with_clauses(found, start)

    def _with_clauses(self, found: FunctionCall, start: Token) -> FunctionCall:
        """Parses [IGNORE NULLS] [WITHIN GROUP (...)] [FILTER (...)] [OVER ...]."""
        cursor = self._cursor
        cursor.considered(("WITHIN", "FILTER", "OVER"))
        if cursor.symbol not in ("IGNORE", "RESPECT", "WITHIN", "FILTER", "OVER"):
            return found
        ignore_nulls = found.ignore_nulls if found.ignore_nulls is not None else self._null_treatment()
        within_group: tuple[OrderItem, ...] = ()
        if cursor.accept("WITHIN"):
            cursor.expect_all("GROUP", "(")
            within_group = self._expressions.order_by()
            cursor.expect(")")
        filtered, over = self.filter_and_over()
        return replace(
            found,
            ignore_nulls=ignore_nulls,
            within_group=within_group,
            filter=filtered,
            over=over,
            position=cursor.since(start),
        )

    def _null_treatment(self) -> bool | None:
        cursor = self._cursor
        if cursor.accept_all("IGNORE", "NULLS"):
            return True
        return False if cursor.accept_all("RESPECT", "NULLS") else None

    def filter_and_over(self) -> tuple[Expression | None, Identifier | WindowSpecification | None]:
        """Parses [FILTER (WHERE condition)] [OVER name | OVER (...)]."""
        cursor = self._cursor
        filtered = None
        over: Identifier | WindowSpecification | None = None
        if cursor.accept("FILTER"):
            cursor.expect_all("(", "WHERE")
            filtered = self._expressions.expression()
            cursor.expect(")")
        if cursor.accept("OVER"):
            over = self.window_specification() if cursor.at("(") else cursor.simple_identifier()
        return filtered, over

    def _argument(self) -> Expression:
        cursor = self._cursor
        start = cursor.token
        if start.symbol in NAME_SYMBOLS and cursor.peek() == "=>":
            name = cursor.simple_identifier()
            cursor.expect("=>")
            return NamedArgument(name, self._argument_value(), position=cursor.since(start))
        return self._argument_value()

    def _argument_value(self) -> Expression:
        cursor = self._cursor
        start = cursor.token
        if cursor.at("DEFAULT"):
            return DefaultValue(position=cursor.advance().position)
        query: Query
        if cursor.at("TABLE"):
            query = self._expressions.queries.explicit_table()
        elif cursor.at_any(("SELECT", "WITH", "VALUES")):
            query = self._expressions.queries.query()
            if not cursor.at_any(("PARTITION", "ORDER")):
                return ScalarSubquery(query, position=query.position)
        else:
            value = self._expressions.expression()
            if not (isinstance(value, ScalarSubquery) and cursor.at_any(("PARTITION", "ORDER"))):
                return value
            query = value.query
        partition_by = self._table_partition_by() if cursor.at("PARTITION") else ()
        order_by = self._table_order_by() if cursor.at("ORDER") else ()
        return TableArgument(query, partition_by, order_by, position=cursor.since(start))

    def _table_partition_by(self) -> tuple[Expression, ...]:
        """Parses PARTITION BY column, or PARTITION BY (column, ...): a comma without parentheses ends the argument."""
        cursor = self._cursor
        cursor.expect_all("PARTITION", "BY")
        if cursor.accept_all("(", ")"):
            return ()
        if cursor.at("("):
            return cursor.in_parentheses(cursor.simple_identifier)
        return (cursor.simple_identifier(),)

    def _table_order_by(self) -> tuple[OrderItem, ...]:
        """Parses ORDER BY item, or ORDER BY (item, ...)."""
        cursor = self._cursor
        cursor.expect_all("ORDER", "BY")
        if cursor.at("("):
            return cursor.in_parentheses(self._expressions.order_item)
        return (self._expressions.order_item(),)

    # Windows of OVER -------------------------------------------------------------------------------------------------

    def window_specification(self) -> WindowSpecification:
        """Parses ([name] [PARTITION BY ...] [ORDER BY ...] [frame] [ALLOW PARTIAL | DISALLOW PARTIAL])."""
        cursor = self._cursor
        start = cursor.expect("(")
        reference = cursor.simple_identifier() if cursor.at_name() else None
        partition_by = self._expressions.optional_partition_by()
        order_by = self._expressions.optional_order_by()
        frame = self._frame() if cursor.at_any(("ROWS", "RANGE")) else None
        allow_partial = None
        if cursor.at_any(("ALLOW", "DISALLOW")):
            allow_partial = cursor.advance().symbol == "ALLOW"
            cursor.expect("PARTIAL")
        cursor.expect(")")
        return WindowSpecification(
            reference, partition_by, order_by, frame, allow_partial, position=cursor.since(start)
        )

    def _frame(self) -> WindowFrame:
        cursor = self._cursor
        start = cursor.token
        unit = cursor.expect_any("ROWS", "RANGE")
        if not cursor.accept("BETWEEN"):
            return WindowFrame(unit, self._bound(), position=cursor.since(start))
        first = self._bound()
        cursor.expect("AND")
        last = self._bound()
        return WindowFrame(unit, first, last, position=cursor.since(start))

    def _bound(self) -> FrameBound:
        cursor = self._cursor
        start = cursor.token
        if cursor.accept_all("CURRENT", "ROW"):
            return FrameBound("CURRENT ROW", position=cursor.since(start))
        if cursor.at("UNBOUNDED") and cursor.peek() in ("PRECEDING", "FOLLOWING"):
            cursor.advance()
            return FrameBound(f"UNBOUNDED {cursor.advance().symbol}", position=cursor.since(start))
        offset = self._expressions.expression()
        kind = cursor.expect_any("PRECEDING", "FOLLOWING")
        return FrameBound(kind, offset, position=cursor.since(start))

    # Functions with a syntax of their own ----------------------------------------------------------------------------

    def _begin(self) -> Identifier:
        name = self._cursor.keyword_identifier()
        self._cursor.expect("(")
        return name

    def _end(self, name: Identifier, start: Token, *arguments: Expression) -> FunctionCall:
        self._cursor.expect(")")
        return FunctionCall(name, arguments, position=self._cursor.since(start))

    def _time_unit(self) -> TimeUnit:
        """Parses a unit of time, or the name of a time frame."""
        cursor = self._cursor
        if cursor.at_any(_TIME_UNITS):
            token = cursor.advance()
            return TimeUnit(token.symbol, position=token.position)
        name = cursor.simple_identifier()
        return TimeUnit(name.last.upper(), position=name.position)

    def _extract(self, start: Token) -> Expression:
        name = self._begin()
        unit = self._time_unit()
        self._cursor.expect("FROM")
        return self._end(name, start, unit, self._expressions.expression())

    def _position(self, start: Token) -> Expression:
        name = self._begin()
        arguments = [self._expressions.expression(SIGN)]
        self._cursor.expect("IN")
        arguments.append(self._expressions.expression())
        if self._cursor.accept("FROM"):
            arguments.append(self._expressions.expression())
        return self._end(name, start, *arguments)

    def _substring(self, start: Token) -> Expression:
        cursor = self._cursor
        name = self._begin()
        arguments = [self._expressions.expression()]
        cursor.expect_any("FROM", ",")
        arguments.append(self._expressions.expression())
        if cursor.accept("FOR") or cursor.accept(","):
            arguments.append(self._expressions.expression())
        return self._end(name, start, *arguments)

    def _overlay(self, start: Token) -> Expression:
        cursor = self._cursor
        name = self._begin()
        arguments = [self._expressions.expression()]
        cursor.expect("PLACING")
        arguments.append(self._expressions.expression())
        cursor.expect("FROM")
        arguments.append(self._expressions.expression())
        if cursor.accept("FOR"):
            arguments.append(self._expressions.expression())
        return self._end(name, start, *arguments)

    def _trim(self, start: Token) -> Expression:
        cursor = self._cursor
        self._begin()
        mode = cursor.advance().symbol if cursor.at_any(("BOTH", "LEADING", "TRAILING")) else None
        characters = None
        if mode is None or not cursor.at("FROM"):
            characters = self._expressions.expression()
        if cursor.accept("FROM"):
            operand = self._expressions.expression()
        else:
            # Without FROM, the expression was the operand itself.
            if characters is None:
                raise cursor.unexpected("FROM")
            operand, characters = characters, None
        cursor.expect(")")
        return Trim(operand, mode or "BOTH", characters, position=cursor.since(start))

    def _floor_or_ceil(self, start: Token) -> Expression:
        name = self._begin()
        if name.parts[0].upper() == "CEILING":
            name = replace(name, parts=("CEIL",))
        arguments: list[Expression] = [self._expressions.expression()]
        if self._cursor.accept("TO"):
            arguments.append(self._time_unit())
        return self._end(name, start, *arguments)

    def _unit_first(self, start: Token) -> Expression:
        cursor = self._cursor
        name = self._begin()
        unit = self._time_unit()
        cursor.expect(",")
        first = self._expressions.expression()
        cursor.expect(",")
        return self._end(name, start, unit, first, self._expressions.expression())

    def _descriptor(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect("DESCRIPTOR")
        columns = () if cursor.accept_all("(", ")") else cursor.in_parentheses(self._descriptor_column)
        return Descriptor(columns, position=cursor.since(start))

    def _descriptor_column(self) -> DescriptorColumn:
        cursor = self._cursor
        start = cursor.token
        name = cursor.identifier()
        return DescriptorColumn(name, position=cursor.since(start))
