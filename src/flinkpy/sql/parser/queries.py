"""Grammar of queries and of the tables in FROM."""

from __future__ import annotations

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.expressions import QUERY_START, ExpressionParser
from flinkpy.sql.parser.match_recognize import MatchRecognizeParser
from flinkpy.sql.parser.nodes import (
    AliasedTable,
    CommonTable,
    DerivedTable,
    ExplicitTable,
    Expression,
    GroupBy,
    GroupingSets,
    Hint,
    HintOption,
    Identifier,
    Join,
    NamedTable,
    NamedWindow,
    OrderedQuery,
    Query,
    RowConstructor,
    Select,
    SelectItem,
    SetOperation,
    Snapshot,
    TableFunction,
    TableReference,
    TableSample,
    Unnest,
    Values,
    With,
)
from flinkpy.sql.parser.tokens import DECIMAL, IDENTIFIER, INTEGER, NAME_SYMBOLS, STRING, Token

_SET_OPERATIONS = {"UNION": 1, "EXCEPT": 1, "MINUS": 1, "INTERSECT": 2}
_JOIN_START = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")
_GROUPING_SETS = ("GROUPING", "CUBE", "ROLLUP")


class QueryParser:
    """Parses queries. It gives itself to the ExpressionParser, for subqueries."""

    def __init__(self, cursor: TokenCursor, expressions: ExpressionParser) -> None:
        self._cursor = cursor
        self._expressions = expressions
        expressions.queries = self
        self._match_recognize = MatchRecognizeParser(cursor, expressions)

    # Queries ---------------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        """Parses a query with WITH, set operations, ORDER BY and LIMIT."""
        cursor = self._cursor
        cursor.descend()
        start = cursor.token
        if cursor.accept("WITH"):
            recursive = cursor.accept("RECURSIVE")
            tables = cursor.separated(self._common_table)
            body = self._set_operations(self._term(), start, 0)
            query: Query = With(tables, body, recursive, position=cursor.since(start))
        else:
            query = self._set_operations(self._term(), start, 0)
        query = self._ordered(query, start)
        cursor.ascend()
        return query

    def continued(self, first: Query, start: Token) -> Query:
        """Parses what follows a query in parentheses that has been parsed already."""
        return self._ordered(self._set_operations(first, start, 0), start)

    def _common_table(self) -> CommonTable:
        cursor = self._cursor
        start = cursor.token
        name = cursor.simple_identifier()
        columns = cursor.in_parentheses(cursor.simple_identifier) if cursor.at("(") else ()
        cursor.expect("AS")
        query = self._expressions.query_in_parentheses()
        return CommonTable(name, query, columns, position=cursor.since(start))

    def _set_operations(self, left: Query, start: Token, minimum: int) -> Query:
        cursor = self._cursor
        while True:
            cursor.considered(_SET_OPERATIONS)
            kind = cursor.symbol
            power = _SET_OPERATIONS.get(kind, 0)
            if power <= minimum:
                return left
            if kind == "MINUS":
                raise cursor.error_on(
                    cursor.token.position,
                    "MINUS is not allowed under the current SQL conformance level.",
                    "Use EXCEPT.",
                )
            cursor.advance()
            keep_all = cursor.accept("ALL")
            if not keep_all:
                cursor.accept("DISTINCT")
            right_start = cursor.token
            right = self._set_operations(self._term(), right_start, power)
            left = SetOperation(kind, keep_all, left, right, position=cursor.since(start))

    def _term(self) -> Query:
        """Parses SELECT, VALUES, TABLE, or a query in parentheses."""
        cursor = self._cursor
        if cursor.at("SELECT"):
            return self._select()
        if cursor.at("("):
            return self._expressions.query_in_parentheses()
        if cursor.at("VALUES"):
            start = cursor.advance()
            rows = cursor.separated(self._values_row)
            return Values(rows, position=cursor.since(start))
        if cursor.at("TABLE"):
            return self.explicit_table()
        raise cursor.unexpected("SELECT", "VALUES", "TABLE", "WITH", "(")

    def _values_row(self) -> Expression:
        return self._expressions.expression()

    def explicit_table(self) -> ExplicitTable:
        """Parses TABLE name."""
        start = self._cursor.expect("TABLE")
        return ExplicitTable(self._cursor.identifier(), position=self._cursor.since(start))

    def _ordered(self, query: Query, start: Token) -> Query:
        """Parses [ORDER BY ...] [LIMIT n] [OFFSET n] [FETCH NEXT n ROWS ONLY]."""
        cursor = self._cursor
        order_by = self._expressions.optional_order_by()
        limit: Expression | None = None
        offset: Expression | None = None
        has_limit = False
        if cursor.accept("LIMIT"):
            has_limit = True
            if not cursor.accept("ALL"):
                limit = self._row_count()
        if cursor.accept("OFFSET"):
            offset = self._row_count()
            if not cursor.accept("ROWS"):
                cursor.accept("ROW")
            if not has_limit and cursor.at("LIMIT"):
                raise cursor.error_on(
                    cursor.token.position,
                    "'OFFSET start LIMIT count' is not allowed under the current SQL conformance level.",
                    "Write LIMIT count OFFSET start.",
                )
        if not has_limit and cursor.accept("FETCH"):
            cursor.expect_any("FIRST", "NEXT")
            limit = self._row_count()
            cursor.expect_any("ROW", "ROWS")
            cursor.expect("ONLY")
        if order_by or limit is not None or offset is not None:
            return OrderedQuery(query, order_by, offset, limit, position=cursor.since(start))
        return query

    def _row_count(self) -> Expression:
        """Parses a number or a question mark."""
        cursor = self._cursor
        if not cursor.at_any((INTEGER, DECIMAL, "?")):
            raise cursor.unexpected()
        return self._expressions.literals.literal(cursor.token)

    # SELECT ----------------------------------------------------------------------------------------------------------

    def _select(self) -> Select:
        cursor = self._cursor
        start = cursor.expect("SELECT")
        hints = self.hints()
        quantifier = cursor.advance().symbol if cursor.at_any(("DISTINCT", "ALL")) else None
        items = cursor.separated(self._select_item)
        if not cursor.accept("FROM"):
            return Select(items, quantifier=quantifier, hints=hints, position=cursor.since(start))
        expression = self._expressions.expression
        from_ = self.table_references()
        where = expression() if cursor.accept("WHERE") else None
        group_by = self._group_by() if cursor.at("GROUP") else None
        having = expression() if cursor.accept("HAVING") else None
        windows = cursor.separated(self._named_window) if cursor.accept("WINDOW") else ()
        qualify = expression() if cursor.accept("QUALIFY") else None
        return Select(
            items,
            from_,
            where,
            group_by,
            having,
            windows,
            qualify,
            quantifier,
            hints,
            position=cursor.since(start),
        )

    def _select_item(self) -> SelectItem:
        cursor = self._cursor
        start = cursor.token
        expression: Expression = self._expressions.star(start) if cursor.at("*") else self._expressions.expression()
        alias = self._alias()
        return SelectItem(expression, alias, position=cursor.since(start))

    def _alias(self) -> Identifier | None:
        cursor = self._cursor
        if cursor.accept("AS") or cursor.at_name():
            return cursor.simple_identifier()
        return None

    def _group_by(self) -> GroupBy:
        cursor = self._cursor
        start = cursor.token
        cursor.expect_all("GROUP", "BY")
        quantifier = None
        if cursor.at_any(("DISTINCT", "ALL")):
            quantifier = cursor.advance().symbol
        return GroupBy(cursor.separated(self._grouping_element), quantifier, position=cursor.since(start))

    def _grouping_element(self) -> Expression:
        cursor = self._cursor
        start = cursor.token
        if cursor.at("GROUPING") and cursor.peek() == "SETS":
            cursor.expect_all("GROUPING", "SETS")
            elements = cursor.in_parentheses(self._grouping_element)
            return GroupingSets("GROUPING SETS", elements, position=cursor.since(start))
        if cursor.at_any(("ROLLUP", "CUBE")):
            kind = cursor.advance().symbol
            elements = cursor.in_parentheses(self._expressions.expression)
            return GroupingSets(kind, elements, position=cursor.since(start))
        if cursor.accept_all("(", ")"):
            return RowConstructor((), explicit=False, position=cursor.since(start))
        return self._expressions.expression()

    def _named_window(self) -> NamedWindow:
        cursor = self._cursor
        start = cursor.token
        name = cursor.simple_identifier()
        cursor.expect("AS")
        return NamedWindow(name, self._expressions.calls.window_specification(), position=cursor.since(start))

    # Hints -----------------------------------------------------------------------------------------------------------

    def hints(self) -> tuple[Hint, ...]:
        """Parses [/*+ hint, ... */]."""
        cursor = self._cursor
        if not cursor.accept("/*+"):
            return ()
        hints = cursor.separated(self._hint)
        cursor.expect("*/")
        return hints

    def _hint(self) -> Hint:
        cursor = self._cursor
        start = cursor.token
        name = cursor.simple_identifier()
        options: tuple[HintOption, ...] = ()
        if cursor.accept("("):
            if not cursor.at(")"):
                options = cursor.separated(self._hint_option)
            cursor.expect(")")
        return Hint(name.last.upper(), options, position=cursor.since(start))

    def _hint_option(self) -> HintOption:
        cursor = self._cursor
        start = cursor.token
        if cursor.at(STRING) or cursor.at_name():
            key = self._expressions.literals.plain_string() if cursor.at(STRING) else cursor.advance().value
            if not cursor.accept("="):
                return HintOption(None, key, position=cursor.since(start))
            return HintOption(key, self._expressions.literals.plain_string(), position=cursor.since(start))
        return HintOption(None, cursor.expect(INTEGER).text, position=cursor.since(start))

    # Tables in FROM --------------------------------------------------------------------------------------------------

    def table_references(self) -> TableReference:
        """Parses tables with commas and joins between them."""
        cursor = self._cursor
        cursor.descend()
        start = cursor.token
        left = self._joined(self._table())
        while cursor.accept(","):
            # A comma binds looser than JOIN.
            right = self._joined(self._table())
            left = Join("COMMA", left, right, position=cursor.since(start))
        cursor.ascend()
        return left

    def _joined(self, left: TableReference) -> TableReference:
        cursor = self._cursor
        while cursor.at_any(_JOIN_START):
            natural = cursor.accept("NATURAL")
            kind = cursor.expect_any("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS")
            if kind in ("LEFT", "RIGHT", "FULL"):
                cursor.accept("OUTER")
            if kind == "JOIN":
                kind = "INNER"
            else:
                cursor.expect("JOIN")
            right = self._table()
            condition: Expression | None = None
            using: tuple[Identifier, ...] = ()
            if cursor.accept("ON"):
                condition = self._expressions.expression()
            elif cursor.accept("USING"):
                using = cursor.in_parentheses(cursor.simple_identifier)
            left = Join(kind, left, right, condition, using, natural, position=cursor.since(left))
        return left

    def _table(self) -> TableReference:
        """Parses one table with FOR SYSTEM_TIME, MATCH_RECOGNIZE, alias and TABLESAMPLE."""
        cursor = self._cursor
        start = cursor.token
        table = self._primary_table(start)
        if cursor.at("MATCH_RECOGNIZE"):
            table = self._match_recognize.match_recognize(table, start)
        alias = self._alias()
        if alias is not None:
            columns = cursor.in_parentheses(cursor.simple_identifier) if cursor.at("(") else ()
            table = AliasedTable(table, alias, columns, position=cursor.since(start))
            if cursor.at("MATCH_RECOGNIZE"):
                table = self._match_recognize.match_recognize(table, start)
        if cursor.accept("TABLESAMPLE"):
            table = self._sampled(table, start)
        return table

    def _sampled(self, table: TableReference, start: Token) -> TableReference:
        cursor = self._cursor
        method = cursor.expect_any("BERNOULLI", "SYSTEM")
        cursor.expect("(")
        percentage = self._expressions.literals.number()
        cursor.expect(")")
        seed = None
        if cursor.accept("REPEATABLE"):
            cursor.expect("(")
            seed = self._expressions.literals.number()
            cursor.expect(")")
        return TableSample(table, method, percentage, seed, position=cursor.since(start))

    def _primary_table(self, start: Token) -> TableReference:
        cursor = self._cursor
        lateral = cursor.accept("LATERAL")
        if cursor.at("("):
            return self._in_parentheses(start, lateral)
        if cursor.accept("UNNEST"):
            collections = cursor.in_parentheses(self._expressions.expression)
            with_ordinality = cursor.accept_all("WITH", "ORDINALITY")
            return Unnest(collections, with_ordinality, lateral, position=cursor.since(start))
        if cursor.at("TABLE") and cursor.peek() == "(":
            cursor.expect_all("TABLE", "(")
            call_start = cursor.token
            call = self._expressions.calls.call(cursor.identifier(), call_start)
            cursor.expect(")")
            return TableFunction(call, lateral, self.hints(), position=cursor.since(start))
        if lateral:
            raise cursor.unexpected("(", "TABLE", "UNNEST")
        if not cursor.at_name():
            raise cursor.unexpected(IDENTIFIER, "(", "TABLE", "UNNEST", "LATERAL")
        name = cursor.identifier()
        if cursor.at("("):
            call = self._expressions.calls.call(name, start)
            return TableFunction(call, hints=self.hints(), position=cursor.since(start))
        table: TableReference = NamedTable(name, self.hints(), position=cursor.since(start))
        if cursor.accept_all("FOR", "SYSTEM_TIME"):
            cursor.expect_all("AS", "OF")
            time = self._expressions.expression()
            table = Snapshot(table, time, position=cursor.since(start))
        return table

    def _in_parentheses(self, start: Token, lateral: bool) -> TableReference:
        """Parses (query), or (table), which may be a join."""
        cursor = self._cursor
        cursor.expect("(")
        if cursor.at_any(QUERY_START - {"TABLE"}) or (cursor.at("TABLE") and cursor.peek() in NAME_SYMBOLS):
            query = self.query()
        else:
            inner_start = cursor.token
            cursor.descend()
            table = self._joined(self._table())
            cursor.ascend()
            if not (isinstance(table, DerivedTable) and not table.lateral):
                if lateral:
                    raise cursor.unexpected("SELECT")
                if not isinstance(table, Join):
                    raise cursor.error_on(table.position, "Expected query or join.", "Leave the parentheses out.")
                cursor.expect(")")
                return table
            # The query in parentheses may be the first of a set operation.
            query = self.continued(table.query, inner_start)
        cursor.expect(")")
        return DerivedTable(query, lateral, position=cursor.since(start))
