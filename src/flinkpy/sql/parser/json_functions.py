"""Grammar of the JSON functions of standard SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.nodes import (
    DataType,
    Expression,
    JsonArray,
    JsonBehavior,
    JsonEntry,
    JsonExists,
    JsonObject,
    JsonQuery,
    JsonValue,
    OrderItem,
)
from flinkpy.sql.parser.tokens import Token
from flinkpy.sql.parser.types import TypeParser

if TYPE_CHECKING:
    from flinkpy.sql.parser.calls import CallParser
    from flinkpy.sql.parser.expressions import ExpressionParser


class JsonFunctionParser:
    """Parses the functions in `functions`, by their keywords."""

    def __init__(
        self, cursor: TokenCursor, types: TypeParser, expressions: ExpressionParser, calls: CallParser
    ) -> None:
        self._cursor = cursor
        self._types = types
        self._expressions = expressions
        self._calls = calls
        self.functions: dict[str, Callable[[Token], Expression]] = {
            "JSON_EXISTS": self._exists,
            "JSON_VALUE": self._value,
            "JSON_QUERY": self._query,
            "JSON_OBJECT": self._object,
            "JSON_OBJECTAGG": self._object_aggregate,
            "JSON_ARRAY": self._array,
            "JSON_ARRAYAGG": self._array_aggregate,
        }

    def _document_and_path(self) -> tuple[Expression, Expression]:
        cursor = self._cursor
        cursor.advance()
        cursor.expect("(")
        document = self._expressions.expression()
        cursor.expect(",")
        return document, self._expressions.expression()

    def _exists(self, start: Token) -> Expression:
        cursor = self._cursor
        document, path = self._document_and_path()
        on_error = None
        kinds = ("TRUE", "FALSE", "UNKNOWN", "ERROR")
        if cursor.at_any(kinds):
            begin = cursor.token
            kind = cursor.advance().symbol
            cursor.expect_all("ON", "ERROR")
            on_error = JsonBehavior(kind, position=cursor.since(begin))
        cursor.expect(")")
        return JsonExists(document, path, on_error, position=cursor.since(start))

    def _value(self, start: Token) -> Expression:
        cursor = self._cursor
        document, path = self._document_and_path()
        returning = self._returning()
        on_empty, on_error = self._behaviors(("NULL", "ERROR", "DEFAULT"))
        cursor.expect(")")
        return JsonValue(document, path, returning, on_empty, on_error, position=cursor.since(start))

    def _query(self, start: Token) -> Expression:
        cursor = self._cursor
        document, path = self._document_and_path()
        returning = self._returning()
        wrapper = None
        if cursor.accept("WITHOUT"):
            wrapper = "WITHOUT"
        elif cursor.accept("WITH"):
            wrapper = "CONDITIONAL" if cursor.accept("CONDITIONAL") else "UNCONDITIONAL"
            cursor.accept("UNCONDITIONAL")
        if wrapper is not None:
            cursor.accept("ARRAY")
            cursor.expect("WRAPPER")
        on_empty, on_error = self._behaviors(("NULL", "ERROR", "EMPTY"))
        cursor.expect(")")
        return JsonQuery(document, path, returning, wrapper, on_empty, on_error, position=cursor.since(start))

    def _returning(self) -> DataType | None:
        return self._types.type() if self._cursor.accept("RETURNING") else None

    def _behaviors(self, kinds: tuple[str, ...]) -> tuple[JsonBehavior | None, JsonBehavior | None]:
        """Parses [behavior ON EMPTY] [behavior ON ERROR], in any order."""
        cursor = self._cursor
        found: dict[str, JsonBehavior] = {}
        while cursor.at_any(kinds):
            start = cursor.token
            kind = cursor.advance().symbol
            value = self._expressions.expression() if kind == "DEFAULT" else None
            if kind == "EMPTY":
                kind = f"EMPTY {cursor.expect_any('ARRAY', 'OBJECT')}"
            cursor.expect("ON")
            moment = cursor.expect_any("EMPTY", "ERROR")
            found[moment] = JsonBehavior(kind, value, position=cursor.since(start))
        return found.get("EMPTY"), found.get("ERROR")

    def _object(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect_all("JSON_OBJECT", "(")
        entries = () if self._at_null_clause() or cursor.at(")") else cursor.separated(self._entry)
        absent = self._null_clause()
        cursor.expect(")")
        return JsonObject(entries, absent, position=cursor.since(start))

    def _object_aggregate(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect_all("JSON_OBJECTAGG", "(")
        entry = self._entry()
        absent = self._null_clause()
        cursor.expect(")")
        filtered, over = self._calls.filter_and_over()
        return JsonObject((entry,), absent, True, filtered, over, position=cursor.since(start))

    def _array(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect_all("JSON_ARRAY", "(")
        values: tuple[Expression, ...] = ()
        if not (self._at_null_clause() or cursor.at(")")):
            values = cursor.separated(self._expressions.expression)
        absent = self._null_clause()
        cursor.expect(")")
        return JsonArray(values, absent, position=cursor.since(start))

    def _array_aggregate(self, start: Token) -> Expression:
        cursor = self._cursor
        cursor.expect_all("JSON_ARRAYAGG", "(")
        value = self._expressions.expression()
        order_by: tuple[OrderItem, ...] = self._expressions.optional_order_by()
        absent = self._null_clause()
        cursor.expect(")")
        if cursor.at("WITHIN"):
            place = cursor.token
            cursor.expect_all("WITHIN", "GROUP", "(")
            if order_by:
                raise cursor.error_on(
                    place.position, "Including both WITHIN GROUP(...) and inside ORDER BY is not allowed."
                )
            order_by = self._expressions.order_by()
            cursor.expect(")")
        filtered, over = self._calls.filter_and_over()
        return JsonArray((value,), absent, True, order_by, filtered, over, position=cursor.since(start))

    def _entry(self) -> JsonEntry:
        """Parses [KEY] key VALUE value, or key : value."""
        cursor = self._cursor
        start = cursor.token
        with_key = cursor.at("KEY") and cursor.peek() not in ("VALUE", ":", ".")
        if with_key:
            cursor.advance()
        key = self._expressions.expression()
        if with_key:
            cursor.expect("VALUE")
        else:
            cursor.expect_any("VALUE", ":")
        value = self._expressions.expression()
        return JsonEntry(key, value, position=cursor.since(start))

    def _at_null_clause(self) -> bool:
        cursor = self._cursor
        return cursor.at_any(("NULL", "ABSENT")) and cursor.peek() == "ON"

    def _null_clause(self) -> bool | None:
        """Parses [NULL ON NULL | ABSENT ON NULL]."""
        cursor = self._cursor
        if not self._at_null_clause():
            return None
        absent = cursor.advance().symbol == "ABSENT"
        cursor.expect_all("ON", "NULL")
        return absent
