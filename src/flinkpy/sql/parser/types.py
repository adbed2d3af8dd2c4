"""Grammar of data types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.nodes import (
    CollectionType,
    DataType,
    IntervalQualifier,
    IntervalType,
    MapType,
    NamedType,
    Position,
    RawType,
    RowField,
    RowType,
    SimpleType,
    StructuredType,
)
from flinkpy.sql.parser.tokens import RESERVED_KEYWORDS, STRING, Token

#: Names of types without parameters, by the keyword.
_PLAIN = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DATE": "DATE",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "VARIANT": "VARIANT",
    "BITMAP": "BITMAP",
}
_DECIMALS = {"DECIMAL", "DEC", "NUMERIC"}
#: Names of types with one parameter, by the keyword.
_WITH_LENGTH = {"BINARY": "BINARY", "VARBINARY": "VARBINARY", "VARCHAR": "VARCHAR", "CHAR": "CHAR", "CHARACTER": "CHAR"}

_SINGULAR = {
    "YEARS": "YEAR",
    "QUARTERS": "QUARTER",
    "MONTHS": "MONTH",
    "WEEKS": "WEEK",
    "DAYS": "DAY",
    "HOURS": "HOUR",
    "MINUTES": "MINUTE",
    "SECONDS": "SECOND",
}
_INTERVAL_UNITS = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}
#: Units that may stand behind TO, by the unit before it.
_END_UNITS = {
    "YEAR": ("MONTH",),
    "DAY": ("HOUR", "MINUTE", "SECOND"),
    "HOUR": ("MINUTE", "SECOND"),
    "MINUTE": ("SECOND",),
}
INTERVAL_UNIT_SYMBOLS = frozenset(_INTERVAL_UNITS | set(_SINGULAR))
RESERVED_INTERVAL_UNITS = INTERVAL_UNIT_SYMBOLS & RESERVED_KEYWORDS
TYPE_SYMBOLS = frozenset(
    {*_PLAIN, *_DECIMALS, *_WITH_LENGTH, "DOUBLE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY", "MAP"}
)


class TypeParser:
    """Parses data types and the units of intervals."""

    def __init__(self, cursor: TokenCursor) -> None:
        self._cursor = cursor

    def nullable_type(self) -> DataType:
        """Parses a type with [NULL | NOT NULL], as in column definitions and inside other types."""
        cursor = self._cursor
        start = cursor.token
        found = self._collections(self._type(), start, with_nullability=True)
        nullable = self._nullability()
        return found if nullable is None else _with_nullability(found, nullable, cursor.since(start))

    def type(self) -> DataType:
        """Parses a type without a word on nullability, as in CAST, where it may be an interval."""
        start = self._cursor.token
        if self._cursor.accept("INTERVAL"):
            return IntervalType(self.interval_qualifier(), position=self._cursor.since(start))
        return self._collections(self._type(), start, with_nullability=False)

    def interval_qualifier(self, *, allow_range: bool = True) -> IntervalQualifier:
        """Parses units such as DAY(3) TO SECOND(6), or one unit only."""
        cursor = self._cursor
        start_token = cursor.token
        start = self._unit(INTERVAL_UNIT_SYMBOLS)
        start_precision = end = fraction_precision = None
        if cursor.accept("("):
            start_precision = cursor.unsigned_integer()
            if start == "SECOND" and cursor.accept(","):
                fraction_precision = cursor.unsigned_integer()
            cursor.expect(")")
        if allow_range and start in _END_UNITS and cursor.accept("TO"):
            ends = _END_UNITS[start]
            end = self._unit(frozenset({*ends, *(f"{unit}S" for unit in ends)}))
            if end == "SECOND" and cursor.accept("("):
                fraction_precision = cursor.unsigned_integer()
                cursor.expect(")")
        return IntervalQualifier(start, start_precision, end, fraction_precision, position=cursor.since(start_token))

    def _unit(self, symbols: frozenset[str]) -> str:
        if not self._cursor.at_any(symbols):
            raise self._cursor.unexpected()
        symbol = self._cursor.advance().symbol
        return _SINGULAR.get(symbol, symbol)

    def _nullability(self) -> bool | None:
        cursor = self._cursor
        if cursor.accept("NULL"):
            return True
        if cursor.accept_all("NOT", "NULL"):
            return False
        return None

    def _collections(self, element: DataType, start: Token, *, with_nullability: bool) -> DataType:
        """Parses the suffixes ARRAY and MULTISET of an element type."""
        cursor = self._cursor
        while True:
            suffix = cursor.index
            nullable = self._nullability() if with_nullability else None
            if not cursor.at_any(("ARRAY", "MULTISET")):
                cursor.rewind(suffix)
                return element
            if nullable is not None:
                element = _with_nullability(element, nullable, element.position)
            element = CollectionType(cursor.advance().symbol, element, position=cursor.since(start))

    def _type(self) -> DataType:
        cursor = self._cursor
        cursor.descend()
        start = cursor.token
        symbol = start.symbol
        cursor.considered(TYPE_SYMBOLS)
        if symbol in _PLAIN:
            cursor.advance()
            found: DataType = SimpleType(_PLAIN[symbol], position=start.position)
        elif symbol in _DECIMALS:
            cursor.advance()
            found = SimpleType("DECIMAL", self._parameters(2), position=cursor.since(start))
        elif symbol in _WITH_LENGTH:
            found = self._character_or_binary(start)
        elif symbol == "DOUBLE":
            cursor.advance()
            cursor.accept("PRECISION")
            found = SimpleType("DOUBLE", position=cursor.since(start))
        elif symbol in ("TIME", "TIMESTAMP"):
            cursor.advance()
            parameters = self._parameters(1)
            found = SimpleType(symbol + self._time_zone(), parameters, position=cursor.since(start))
        elif symbol == "TIMESTAMP_LTZ":
            cursor.advance()
            found = SimpleType("TIMESTAMP WITH LOCAL TIME ZONE", self._parameters(1), position=cursor.since(start))
        else:
            found = self._composite(start)
        cursor.ascend()
        return found

    def _composite(self, start: Token) -> DataType:
        cursor = self._cursor
        symbol, following = start.symbol, cursor.peek()
        if symbol in ("ARRAY", "MULTISET"):
            cursor.advance()
            cursor.expect("<")
            element = self.nullable_type()
            cursor.expect(">")
            return CollectionType(symbol, element, position=cursor.since(start))
        if symbol == "MAP" and following == "<":
            cursor.advance()
            cursor.expect("<")
            key = self.nullable_type()
            cursor.expect(",")
            value = self.nullable_type()
            cursor.expect(">")
            return MapType(key, value, position=cursor.since(start))
        if symbol == "ROW":
            cursor.advance()
            return RowType(self._row_fields(), position=cursor.since(start))
        if symbol == "STRUCTURED":
            cursor.advance()
            cursor.expect("<")
            class_name = cursor.string()
            fields = cursor.separated(self._field) if cursor.accept(",") else ()
            cursor.expect(">")
            return StructuredType(class_name, fields, position=cursor.since(start))
        if symbol == "RAW":
            cursor.advance()
            cursor.expect("(")
            class_name = cursor.string()
            cursor.expect(",")
            serializer = cursor.string()
            cursor.expect(")")
            return RawType(class_name, serializer, position=cursor.since(start))
        name = cursor.identifier()
        return NamedType(name, position=name.position)

    def _row_fields(self) -> tuple[RowField, ...]:
        cursor = self._cursor
        if cursor.accept("<>"):
            return ()
        close = ")" if cursor.expect_any("<", "(") == "(" else ">"
        if cursor.accept(close):
            return ()
        fields = cursor.separated(self._field)
        cursor.expect(close)
        return fields

    def _field(self) -> RowField:
        cursor = self._cursor
        start = cursor.token
        name = cursor.simple_identifier()
        field_type = self.nullable_type()
        comment = cursor.advance().value if cursor.at(STRING) else None
        return RowField(name, field_type, comment, position=cursor.since(start))

    def _character_or_binary(self, start: Token) -> DataType:
        cursor = self._cursor
        name = _WITH_LENGTH[cursor.advance().symbol]
        if start.symbol in ("CHAR", "CHARACTER", "BINARY") and cursor.accept("VARYING"):
            name = f"VAR{name}"
        return SimpleType(name, self._parameters(1), position=cursor.since(start))

    def _parameters(self, most: int) -> tuple[int, ...]:
        cursor = self._cursor
        if not cursor.accept("("):
            return ()
        parameters = [cursor.unsigned_integer()]
        while len(parameters) < most and cursor.accept(","):
            parameters.append(cursor.unsigned_integer())
        cursor.expect(")")
        return tuple(parameters)

    def _time_zone(self) -> str:
        cursor = self._cursor
        if cursor.accept_all("WITHOUT", "TIME", "ZONE"):
            return ""
        if cursor.at("WITH") and cursor.peek() in ("LOCAL", "TIME"):
            cursor.advance()
            cursor.expect_all("LOCAL", "TIME", "ZONE")
            return " WITH LOCAL TIME ZONE"
        return ""


def _with_nullability(found: DataType, nullable: bool, position: Position) -> DataType:
    changed: Any = found
    return replace(changed, nullable=nullable, position=position)
