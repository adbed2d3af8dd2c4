"""Grammar of CREATE, REPLACE, DROP and ANALYZE."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.nodes import (
    AnalyzeTable,
    ColumnDefinition,
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Drop,
    Identifier,
    IntervalLiteral,
    Query,
    Resource,
    Star,
    StartMode,
    Statement,
    TableLike,
)
from flinkpy.sql.parser.queries import QueryParser
from flinkpy.sql.parser.tables import TableParser, TableSchema
from flinkpy.sql.parser.tokens import Token

_LANGUAGES = ("JAVA", "SCALA", "SQL", "PYTHON")


class DefinitionParser:
    """Parses statements that create and drop objects of a catalog."""

    def __init__(self, cursor: TokenCursor, queries: QueryParser, tables: TableParser) -> None:
        self._cursor = cursor
        self._queries = queries
        self._tables = tables

    # CREATE ----------------------------------------------------------------------------------------------------------

    def create(self) -> Statement:
        """Parses CREATE of any object."""
        cursor = self._cursor
        start = cursor.expect("CREATE")
        or_replace = or_alter = False
        if cursor.accept("OR"):
            or_alter = cursor.expect_any("REPLACE", "ALTER") == "ALTER"
            or_replace = not or_alter
        temporary = cursor.accept("TEMPORARY")
        if cursor.at("MATERIALIZED"):
            return self._create_materialized_table(start, temporary, or_replace, or_alter)
        if or_alter:
            raise cursor.unexpected("MATERIALIZED")
        if cursor.at("TABLE"):
            return self._create_table(start, temporary, "CREATE OR REPLACE" if or_replace else "CREATE")
        if cursor.at("VIEW"):
            return self._create_view(start, temporary, or_replace)
        system = cursor.at("SYSTEM")
        if system:
            place = cursor.advance()
            if cursor.at_any(("FUNCTION", "CONNECTION")) and not temporary:
                kind = cursor.symbol
                raise cursor.error_on(
                    place.position,
                    f"CREATE SYSTEM {kind} is not supported, "
                    f"system {kind.lower()}s can only be registered as temporary "
                    f"{kind.lower()}, you can use CREATE TEMPORARY SYSTEM {kind} instead.",
                )
        if cursor.at("FUNCTION"):
            return self._create_function(start, temporary, system)
        if cursor.at("CONNECTION"):
            return self._create_connection(start, temporary, system)
        if system:
            raise cursor.unexpected()
        if cursor.at("MODEL"):
            return self._create_model(start, temporary)
        if cursor.at("CATALOG"):
            return self._create_catalog(start)
        if cursor.at("DATABASE"):
            return self._create_database(start)
        raise cursor.unexpected()

    def replace_table(self) -> Statement:
        """Parses REPLACE TABLE ... AS."""
        start = self._cursor.expect("REPLACE")
        temporary = self._cursor.accept("TEMPORARY")
        return self._create_table(start, temporary, "REPLACE")

    def _create_table(self, start: Token, temporary: bool, mode: str) -> Statement:
        cursor = self._cursor
        cursor.expect("TABLE")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.identifier()
        place = cursor.token
        schema = self._tables.schema() if cursor.at("(") else TableSchema()
        names_place = cursor.since(place) if schema.column_names else None
        comment = cursor.comment()
        distribution_start = cursor.token
        distribution = self._tables.distribution(distribution_start) if cursor.accept("DISTRIBUTED") else None
        partitioned_by = self._partitioned_by()
        options = self._tables.optional_options()
        like: TableLike | None = None
        query: Query | None = None
        if mode != "REPLACE" and cursor.accept("LIKE"):
            like = self._tables.like()
        elif mode == "REPLACE" or cursor.at("AS"):
            cursor.expect("AS")
            query = self._queries.query()
        if names_place is not None and query is None:
            raise cursor.error_on(
                names_place,
                "Columns identifiers without types in the schema are supported on CTAS/RTAS statements only.",
            )
        return CreateTable(
            name,
            schema.column_definitions,
            tuple(schema.constraints),
            schema.watermark,
            comment,
            distribution,
            partitioned_by,
            options,
            like,
            query,
            tuple(schema.column_names),
            temporary,
            if_not_exists,
            mode,
            position=cursor.since(start),
        )

    def _partitioned_by(self) -> tuple[Identifier, ...]:
        cursor = self._cursor
        if not cursor.accept("PARTITIONED"):
            return ()
        cursor.expect("BY")
        return cursor.in_parentheses(cursor.simple_identifier)

    def _create_materialized_table(self, start: Token, temporary: bool, or_replace: bool, or_alter: bool) -> Statement:
        cursor = self._cursor
        place = cursor.expect("MATERIALIZED")
        if temporary:
            raise cursor.error_on(place.position, "CREATE TEMPORARY MATERIALIZED TABLE is not supported.")
        if or_replace:
            raise cursor.error_on(place.position, "REPLACE MATERIALIZED TABLE is not supported.")
        cursor.expect("TABLE")
        name = cursor.identifier()
        schema = self._tables.schema() if cursor.at("(") else TableSchema()
        comment = cursor.comment()
        distribution_start = cursor.token
        distribution = self._tables.distribution(distribution_start) if cursor.accept("DISTRIBUTED") else None
        partitioned_by = self._partitioned_by()
        options = self._tables.optional_options()
        mode_start = cursor.token
        start_mode: StartMode | None = self._tables.start_mode(mode_start) if cursor.accept("START_MODE") else None
        freshness: IntervalLiteral | None = self._tables.freshness() if cursor.accept("FRESHNESS") else None
        refresh_mode = self._tables.refresh_mode() if cursor.accept("REFRESH_MODE") else None
        cursor.expect("AS")
        query = self._queries.query()
        return CreateMaterializedTable(
            name,
            query,
            schema.column_definitions,
            tuple(schema.constraints),
            schema.watermark,
            tuple(schema.column_names),
            comment,
            distribution,
            partitioned_by,
            options,
            freshness,
            refresh_mode,
            start_mode,
            or_alter,
            position=cursor.since(start),
        )

    def _create_view(self, start: Token, temporary: bool, or_replace: bool) -> Statement:
        cursor = self._cursor
        cursor.expect("VIEW")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.identifier()
        columns = cursor.in_parentheses(cursor.simple_identifier) if cursor.at("(") else ()
        comment = cursor.comment()
        cursor.expect("AS")
        query = self._queries.query()
        return CreateView(
            name, query, columns, comment, temporary, if_not_exists, or_replace, position=cursor.since(start)
        )

    def _create_catalog(self, start: Token) -> Statement:
        cursor = self._cursor
        cursor.expect("CATALOG")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.simple_identifier()
        comment = cursor.comment()
        options = self._tables.optional_options()
        return CreateCatalog(name, comment, options, if_not_exists, position=cursor.since(start))

    def _create_database(self, start: Token) -> Statement:
        cursor = self._cursor
        cursor.expect("DATABASE")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.identifier()
        comment = cursor.comment()
        options = self._tables.optional_options()
        return CreateDatabase(name, comment, options, if_not_exists, position=cursor.since(start))

    def _create_function(self, start: Token, temporary: bool, system: bool) -> Statement:
        cursor = self._cursor
        cursor.expect("FUNCTION")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.simple_identifier() if system else cursor.identifier()
        cursor.expect("AS")
        class_name = cursor.string()
        place = cursor.token
        language = self.language()
        resources: tuple[Resource, ...] = ()
        if cursor.accept("USING"):
            if language in ("SQL", "PYTHON"):
                raise cursor.error_on(
                    cursor.since(place),
                    f"CREATE FUNCTION USING JAR/ARTIFACT syntax is not applicable to {language} language.",
                )
            resources = cursor.separated(self._resource)
        options = self._tables.optional_options()
        return CreateFunction(
            name,
            class_name,
            language,
            resources,
            options,
            temporary,
            system,
            if_not_exists,
            position=cursor.since(start),
        )

    def language(self) -> str | None:
        """Parses [LANGUAGE name]."""
        return self._cursor.expect_any(*_LANGUAGES) if self._cursor.accept("LANGUAGE") else None

    def _resource(self) -> Resource:
        cursor = self._cursor
        start = cursor.token
        kind = cursor.expect_any("JAR", "ARTIFACT")
        return Resource(kind, cursor.string(), position=cursor.since(start))

    def _create_model(self, start: Token, temporary: bool) -> Statement:
        cursor = self._cursor
        cursor.expect("MODEL")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.identifier()
        inputs = self._model_columns() if cursor.accept("INPUT") else ()
        outputs = self._model_columns() if cursor.accept("OUTPUT") else ()
        comment = cursor.comment()
        options = self._tables.optional_options()
        query = self._queries.query() if cursor.accept("AS") else None
        return CreateModel(
            name, inputs, outputs, comment, options, query, temporary, if_not_exists, position=cursor.since(start)
        )

    def _model_columns(self) -> tuple[ColumnDefinition, ...]:
        return self._cursor.in_parentheses(self._tables.column)

    def _create_connection(self, start: Token, temporary: bool, system: bool) -> Statement:
        cursor = self._cursor
        cursor.expect("CONNECTION")
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        name = cursor.identifier()
        comment = cursor.comment()
        cursor.expect("WITH")
        options = self._tables.options()
        return CreateConnection(name, options, comment, temporary, system, if_not_exists, position=cursor.since(start))

    # DROP and ANALYZE ------------------------------------------------------------------------------------------------

    def drop(self) -> Statement:
        """Parses DROP of any object."""
        cursor = self._cursor
        start = cursor.expect("DROP")
        temporary = cursor.accept("TEMPORARY")
        place = cursor.token
        system = cursor.accept("SYSTEM")
        if system:
            kind = cursor.expect_any("FUNCTION", "CONNECTION")
            if kind == "CONNECTION" and not temporary:
                raise cursor.error_on(
                    place.position,
                    "DROP SYSTEM CONNECTION is not supported, system connections can only be dropped as temporary "
                    "connection, you can use DROP TEMPORARY SYSTEM CONNECTION instead.",
                )
        else:
            kinds = ("TABLE", "VIEW", "MATERIALIZED", "FUNCTION", "MODEL", "CONNECTION", "DATABASE", "CATALOG")
            kind = cursor.expect_any(*kinds)
        if kind == "MATERIALIZED":
            if temporary:
                raise cursor.error_on(place.position, "DROP TEMPORARY MATERIALIZED TABLE is not supported.")
            cursor.expect("TABLE")
            kind = "MATERIALIZED TABLE"
        if_exists = cursor.accept_all("IF", "EXISTS")
        name = cursor.identifier()
        cascade = None
        if kind == "DATABASE" and cursor.at_any(("RESTRICT", "CASCADE")):
            cascade = cursor.advance().symbol == "CASCADE"
        return Drop(kind, name, if_exists, temporary, system, cascade, position=cursor.since(start))

    def analyze(self) -> Statement:
        """Parses ANALYZE TABLE ... COMPUTE STATISTICS."""
        cursor = self._cursor
        start = cursor.expect("ANALYZE")
        cursor.expect("TABLE")
        table = cursor.identifier()
        partition = self._tables.partition(values_required=False) if cursor.accept("PARTITION") else ()
        cursor.expect_all("COMPUTE", "STATISTICS")
        columns: tuple[Identifier | Star, ...] = ()
        if cursor.accept("FOR"):
            place = cursor.token
            if cursor.accept("ALL"):
                cursor.expect("COLUMNS")
                columns = (Star(position=cursor.since(place)),)
            else:
                cursor.expect("COLUMNS")
                columns = cursor.separated(cursor.simple_identifier)
        return AnalyzeTable(table, partition, columns, position=cursor.since(start))

    #: Statements by the keyword they begin with.
    @property
    def statements(self) -> dict[str, Callable[[], Statement]]:
        return {
            "CREATE": self.create,
            "REPLACE": self.replace_table,
            "DROP": self.drop,
            "ANALYZE": self.analyze,
        }
