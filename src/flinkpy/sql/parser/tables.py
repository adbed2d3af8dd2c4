"""Grammar of the parts of tables that CREATE and ALTER share: columns, constraints, options, distribution."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.expressions import ExpressionParser
from flinkpy.sql.parser.nodes import (
    AlterColumn,
    ColumnDefinition,
    ComputedColumn,
    Distribution,
    Identifier,
    IntervalLiteral,
    LikeOption,
    MetadataColumn,
    Option,
    OptionKey,
    PartitionColumn,
    PhysicalColumn,
    StartMode,
    TableConstraint,
    TableLike,
    Watermark,
)
from flinkpy.sql.parser.tokens import IDENTIFIER, INTEGER, Token
from flinkpy.sql.parser.types import TypeParser

_CONSTRAINT_START = ("CONSTRAINT", "PRIMARY", "UNIQUE")
_LIKE_FEATURES = (
    "ALL",
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)

_START_MODES = (
    "FROM_BEGINNING",
    "FROM_NOW",
    "FROM_TIMESTAMP",
    "RESUME_OR_FROM_BEGINNING",
    "RESUME_OR_FROM_NOW",
    "RESUME_OR_FROM_TIMESTAMP",
)


@dataclass(slots=True)
class TableSchema:
    """Collects the elements in the parentheses of a table definition."""

    columns: list[AlterColumn] = field(default_factory=list)
    constraints: list[TableConstraint] = field(default_factory=list)
    watermark: Watermark | None = None
    distribution: Distribution | None = None
    #: Names without types.
    column_names: list[Identifier] = field(default_factory=list)

    @property
    def column_definitions(self) -> tuple[ColumnDefinition, ...]:
        return tuple(each.column for each in self.columns)


class TableParser:
    """Parses parts of tables."""

    def __init__(self, cursor: TokenCursor, types: TypeParser, expressions: ExpressionParser) -> None:
        self._cursor = cursor
        self._types = types
        self._expressions = expressions

    def schema(self) -> TableSchema:
        """Parses (column | constraint | watermark, ...), or names of columns without types."""
        cursor = self._cursor
        schema = TableSchema()
        cursor.expect("(")
        if self._at_names_only():
            schema.column_names.extend(cursor.separated(cursor.identifier))
        else:
            cursor.separated(lambda: self._element(schema))
        cursor.expect(")")
        return schema

    def _at_names_only(self) -> bool:
        cursor = self._cursor
        if not cursor.at_name():
            return False
        count = 1
        while cursor.peek(count) == ".":
            count += 2
        return cursor.peek(count) in (",", ")")

    def _element(self, schema: TableSchema) -> None:
        cursor = self._cursor
        if cursor.at_any(_CONSTRAINT_START):
            schema.constraints.append(self.constraint())
        elif cursor.at("WATERMARK"):
            self._watermark(schema)
        else:
            start = cursor.token
            column = self.column()
            schema.columns.append(AlterColumn(column, position=cursor.since(start)))

    def altered_schema(self) -> TableSchema:
        """Parses what stands behind ADD or MODIFY: one element, or several in parentheses."""
        cursor = self._cursor
        schema = TableSchema()
        start = cursor.token
        if cursor.accept("("):
            cursor.separated(lambda: self._altered_element(schema))
            cursor.expect(")")
        elif cursor.accept("DISTRIBUTION"):
            schema.distribution = self.distribution(start)
        else:
            self._altered_element(schema)
        return schema

    def _altered_element(self, schema: TableSchema) -> None:
        cursor = self._cursor
        start = cursor.token
        if cursor.at_any(_CONSTRAINT_START):
            schema.constraints.append(self.constraint())
        elif cursor.at("WATERMARK"):
            self._watermark(schema)
        else:
            column = self.column()
            after = None
            first = cursor.accept("FIRST")
            if not first and cursor.accept("AFTER"):
                after = cursor.identifier()
            schema.columns.append(AlterColumn(column, first, after, position=cursor.since(start)))

    def column(self) -> ColumnDefinition:
        """Parses a physical, metadata or computed column."""
        cursor = self._cursor
        start = cursor.token
        if not cursor.at_name():
            raise cursor.unexpected(IDENTIFIER, *_CONSTRAINT_START, "WATERMARK")
        name = cursor.identifier()
        if len(name.parts) == 1 and cursor.accept("AS"):
            expression = self._expressions.expression()
            comment = cursor.comment()
            return ComputedColumn(name, expression, comment, position=cursor.since(start))
        column_type = self._types.nullable_type()
        if cursor.accept("METADATA"):
            key = cursor.string() if cursor.accept("FROM") else None
            virtual = cursor.accept("VIRTUAL")
            comment = cursor.comment()
            return MetadataColumn(name, column_type, key, virtual, comment, position=cursor.since(start))
        constraint = self._column_constraint() if cursor.at_any(_CONSTRAINT_START) else None
        comment = cursor.comment()
        return PhysicalColumn(name, column_type, constraint, comment, position=cursor.since(start))

    def _watermark(self, schema: TableSchema) -> None:
        cursor = self._cursor
        start = cursor.expect("WATERMARK")
        if schema.watermark is not None:
            raise cursor.error_on(
                start.position, "Multiple WATERMARK declarations are not supported yet.", "Keep one of them."
            )
        cursor.expect("FOR")
        column = cursor.identifier()
        cursor.expect("AS")
        expression = self._expressions.expression()
        schema.watermark = Watermark(column, expression, position=cursor.since(start))

    def constraint(self) -> TableConstraint:
        """Parses [CONSTRAINT name] PRIMARY KEY (column, ...) [[NOT] ENFORCED]."""
        cursor = self._cursor
        start = cursor.token
        name, kind = self._constraint_kind()
        columns = cursor.in_parentheses(cursor.simple_identifier)
        return TableConstraint(kind, columns, name, self._enforcement(), position=cursor.since(start))

    def _column_constraint(self) -> TableConstraint:
        cursor = self._cursor
        start = cursor.token
        name, kind = self._constraint_kind()
        return TableConstraint(kind, (), name, self._enforcement(), position=cursor.since(start))

    def _constraint_kind(self) -> tuple[Identifier | None, str]:
        cursor = self._cursor
        name = cursor.simple_identifier() if cursor.accept("CONSTRAINT") else None
        if cursor.expect_any("PRIMARY", "UNIQUE") == "UNIQUE":
            return name, "UNIQUE"
        cursor.expect("KEY")
        return name, "PRIMARY KEY"

    def _enforcement(self) -> bool | None:
        cursor = self._cursor
        if cursor.accept("ENFORCED"):
            return True
        return False if cursor.accept_all("NOT", "ENFORCED") else None

    def distribution(self, start: Token) -> Distribution:
        """Parses what stands behind DISTRIBUTED or DISTRIBUTION."""
        cursor = self._cursor
        if cursor.at("INTO"):
            return Distribution(buckets=self._buckets(), position=cursor.since(start))
        if not cursor.accept("BY"):
            raise cursor.unexpected()
        kind = cursor.advance().symbol if cursor.at_any(("HASH", "RANGE")) else None
        columns = cursor.in_parentheses(cursor.simple_identifier)
        buckets = self._buckets() if cursor.at("INTO") else None
        return Distribution(kind, columns, buckets, position=cursor.since(start))

    def _buckets(self) -> int:
        cursor = self._cursor
        cursor.expect("INTO")
        if not cursor.at(INTEGER):
            number = self._expressions.literals.number()
            raise cursor.error_on(number.position, "Bucket count must be a positive integer.")
        count = cursor.unsigned_integer()
        cursor.expect("BUCKETS")
        return count

    def like(self) -> TableLike:
        """Parses what stands behind LIKE."""
        cursor = self._cursor
        start = cursor.token
        table = cursor.identifier()
        options = []
        if cursor.accept("("):
            options.append(self._like_option())
            while not cursor.at(")"):
                options.append(self._like_option())
            cursor.expect(")")
        return TableLike(table, tuple(options), position=cursor.since(start))

    def _like_option(self) -> LikeOption:
        cursor = self._cursor
        start = cursor.token
        strategy = cursor.expect_any("INCLUDING", "EXCLUDING", "OVERWRITING")
        return LikeOption(strategy, cursor.expect_any(*_LIKE_FEATURES), position=cursor.since(start))

    # Options and partitions ------------------------------------------------------------------------------------------

    def optional_options(self) -> tuple[Option, ...]:
        """Parses [WITH ('key' = 'value', ...)]."""
        return self.options() if self._cursor.accept("WITH") else ()

    def options(self) -> tuple[Option, ...]:
        """Parses ('key' = 'value', ...), which may be empty."""
        cursor = self._cursor
        cursor.expect("(")
        options = () if cursor.at(")") else cursor.separated(self._option)
        cursor.expect(")")
        return options

    def _option(self) -> Option:
        cursor = self._cursor
        start = cursor.token
        key = self._expressions.literals.plain_string()
        cursor.expect("=")
        return Option(key, self._expressions.literals.plain_string(), position=cursor.since(start))

    def option_keys(self) -> tuple[OptionKey, ...]:
        """Parses ('key', ...), which may be empty."""
        cursor = self._cursor
        cursor.expect("(")
        keys = () if cursor.at(")") else cursor.separated(self._option_key)
        cursor.expect(")")
        return keys

    def _option_key(self) -> OptionKey:
        start = self._cursor.token
        return OptionKey(self._expressions.literals.plain_string(), position=self._cursor.since(start))

    def partition(self, *, values_required: bool = True) -> tuple[PartitionColumn, ...]:
        """Parses (column = literal, ...); a column may stand alone if values are not required."""

        def column() -> PartitionColumn:
            cursor = self._cursor
            start = cursor.token
            name = cursor.simple_identifier()
            value = None
            if values_required:
                cursor.expect("=")
                value = self._expressions.literals.literal_with_sign()
            elif cursor.accept("="):
                value = self._expressions.literals.literal_with_sign()
            return PartitionColumn(name, value, position=cursor.since(start))

        return self._cursor.in_parentheses(column)

    # Materialized tables ---------------------------------------------------------------------------------------------

    def freshness(self) -> IntervalLiteral:
        """Parses = INTERVAL '...' unit, behind FRESHNESS."""
        cursor = self._cursor
        cursor.expect("=")
        expression = self._expressions.expression()
        if not isinstance(expression, IntervalLiteral):
            raise cursor.error_on(
                expression.position,
                "CREATE MATERIALIZED TABLE only supports define interval type FRESHNESS, "
                "please refer to the materialized table document.",
            )
        return expression

    def refresh_mode(self) -> str:
        """Parses = FULL or = CONTINUOUS, behind REFRESH_MODE."""
        self._cursor.expect("=")
        return self._cursor.expect_any("FULL", "CONTINUOUS")

    def start_mode(self, start: Token) -> StartMode:
        """Parses = mode, or = mode(argument), behind START_MODE."""
        cursor = self._cursor
        cursor.expect("=")
        kind = cursor.expect_any(*_START_MODES)
        argument = None
        if kind.endswith("TIMESTAMP"):
            cursor.expect("(")
            if not cursor.at("TIMESTAMP"):
                raise cursor.unexpected()
            argument = self._expressions.literals.literal(cursor.token)
            cursor.expect(")")
        elif kind.endswith("NOW") and cursor.accept("("):
            if not cursor.at("INTERVAL"):
                raise cursor.unexpected()
            argument = self._expressions.literals.interval(cursor.token)
            cursor.expect(")")
        return StartMode(kind, argument, position=cursor.since(start))
