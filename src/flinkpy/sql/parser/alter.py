"""Grammar of ALTER."""

from __future__ import annotations

from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.definitions import DefinitionParser
from flinkpy.sql.parser.nodes import (
    AddPartitions,
    Alter,
    AlterAction,
    AlterFunction,
    AlterSchema,
    ChangeQuery,
    DropColumns,
    DropConstraint,
    DropDistribution,
    DropPartitions,
    DropPrimaryKey,
    DropWatermark,
    PartitionDefinition,
    Refresh,
    RenameColumn,
    RenameTo,
    ResetOptions,
    ResumeRefresh,
    SetComment,
    SetFreshness,
    SetOptions,
    SetRefreshMode,
    Statement,
    SuspendRefresh,
)
from flinkpy.sql.parser.queries import QueryParser
from flinkpy.sql.parser.tables import TableParser
from flinkpy.sql.parser.tokens import Token


class AlterParser:
    """Parses ALTER of any object."""

    def __init__(
        self, cursor: TokenCursor, queries: QueryParser, tables: TableParser, definitions: DefinitionParser
    ) -> None:
        self._cursor = cursor
        self._queries = queries
        self._tables = tables
        self._definitions = definitions

    def alter(self) -> Statement:
        """Parses the statement at ALTER."""
        cursor = self._cursor
        start = cursor.expect("ALTER")
        if cursor.at_any(("TEMPORARY", "FUNCTION")):
            return self._alter_function(start)
        kinds = ("TABLE", "VIEW", "MATERIALIZED", "DATABASE", "CATALOG", "MODEL", "CONNECTION")
        kind = cursor.expect_any(*kinds)
        if kind == "MATERIALIZED":
            cursor.expect("TABLE")
            kind = "MATERIALIZED TABLE"
        if_exists = kind in ("TABLE", "MODEL", "CONNECTION") and cursor.accept_all("IF", "EXISTS")
        name = cursor.simple_identifier() if kind == "CATALOG" else cursor.identifier()
        action_start = cursor.token
        action = {
            "TABLE": self._table,
            "MATERIALIZED TABLE": self._materialized_table,
            "VIEW": self._view,
            "DATABASE": self._database,
            "CATALOG": self._catalog,
            "MODEL": self._model_or_connection,
            "CONNECTION": self._model_or_connection,
        }[kind](action_start)
        return Alter(kind, name, action, if_exists, position=cursor.since(start))

    def _alter_function(self, start: Token) -> Statement:
        cursor = self._cursor
        temporary = cursor.accept("TEMPORARY")
        system = temporary and cursor.accept("SYSTEM")
        cursor.expect("FUNCTION")
        if_exists = cursor.accept_all("IF", "EXISTS")
        name = cursor.identifier()
        cursor.expect("AS")
        class_name = cursor.string()
        language = self._definitions.language()
        return AlterFunction(name, class_name, language, temporary, system, if_exists, position=cursor.since(start))

    # Actions that several kinds of objects have ----------------------------------------------------------------------

    def _set_options(self, start: Token) -> AlterAction:
        self._cursor.expect("SET")
        return SetOptions(self._tables.options(), position=self._cursor.since(start))

    def _reset_options(self, start: Token) -> AlterAction:
        self._cursor.expect("RESET")
        return ResetOptions(self._tables.option_keys(), position=self._cursor.since(start))

    def _rename_to(self, start: Token) -> AlterAction:
        self._cursor.expect_all("RENAME", "TO")
        return RenameTo(self._cursor.identifier(), position=self._cursor.since(start))

    def _model_or_connection(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if cursor.at("RENAME"):
            return self._rename_to(start)
        return self._reset_options(start) if cursor.at("RESET") else self._set_options(start)

    def _database(self, start: Token) -> AlterAction:
        return self._set_options(start)

    def _catalog(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if cursor.accept("COMMENT"):
            return SetComment(cursor.string(), position=cursor.since(start))
        return self._reset_options(start) if cursor.at("RESET") else self._set_options(start)

    def _view(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if cursor.at("RENAME"):
            return self._rename_to(start)
        cursor.expect("AS")
        return ChangeQuery(self._queries.query(), position=cursor.since(start))

    # Tables ----------------------------------------------------------------------------------------------------------

    def _table(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if cursor.at("RENAME"):
            if cursor.peek() == "TO":
                return self._rename_to(start)
            cursor.advance()
            column = cursor.identifier()
            cursor.expect("TO")
            return RenameColumn(column, cursor.identifier(), position=cursor.since(start))
        if cursor.at("SET"):
            return self._set_options(start)
        if cursor.at("RESET"):
            return self._reset_options(start)
        if cursor.accept("ADD"):
            if cursor.at("PARTITION") or (cursor.at("IF") and cursor.peek() == "NOT"):
                return self._add_partitions(start)
            return self._schema("ADD", start)
        if cursor.accept("MODIFY"):
            return self._schema("MODIFY", start)
        if cursor.accept("DROP"):
            if cursor.at("PARTITION") or (cursor.at("IF") and cursor.peek() == "EXISTS"):
                return self._drop_partitions(start)
            return self._drop(start)
        raise cursor.unexpected()

    def _schema(self, verb: str, start: Token) -> AlterAction:
        schema = self._tables.altered_schema()
        return AlterSchema(
            verb,
            tuple(schema.columns),
            tuple(schema.constraints),
            schema.watermark,
            schema.distribution,
            position=self._cursor.since(start),
        )

    def _drop(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if cursor.accept("PRIMARY"):
            cursor.expect("KEY")
            return DropPrimaryKey(position=cursor.since(start))
        if cursor.accept("CONSTRAINT"):
            return DropConstraint(cursor.simple_identifier(), position=cursor.since(start))
        if cursor.accept("WATERMARK"):
            return DropWatermark(position=cursor.since(start))
        if cursor.accept("DISTRIBUTION"):
            return DropDistribution(position=cursor.since(start))
        if cursor.at("("):
            return DropColumns(cursor.in_parentheses(cursor.identifier), position=cursor.since(start))
        return DropColumns((cursor.identifier(),), position=cursor.since(start))

    def _add_partitions(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if_not_exists = cursor.accept_all("IF", "NOT", "EXISTS")
        partitions = [self._partition_definition()]
        while cursor.at("PARTITION"):
            partitions.append(self._partition_definition())
        return AddPartitions(tuple(partitions), if_not_exists, position=cursor.since(start))

    def _partition_definition(self) -> PartitionDefinition:
        cursor = self._cursor
        start = cursor.expect("PARTITION")
        partition = self._tables.partition()
        return PartitionDefinition(partition, self._tables.optional_options(), position=cursor.since(start))

    def _drop_partitions(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if_exists = cursor.accept_all("IF", "EXISTS")
        partitions = cursor.separated(self._dropped_partition)
        return DropPartitions(partitions, if_exists, position=cursor.since(start))

    def _dropped_partition(self) -> PartitionDefinition:
        start = self._cursor.expect("PARTITION")
        return PartitionDefinition(self._tables.partition(), position=self._cursor.since(start))

    # Materialized tables ---------------------------------------------------------------------------------------------

    def _materialized_table(self, start: Token) -> AlterAction:
        cursor = self._cursor
        if cursor.accept("SUSPEND"):
            return SuspendRefresh(position=cursor.since(start))
        if cursor.accept("RESUME"):
            return ResumeRefresh(self._tables.optional_options(), position=cursor.since(start))
        if cursor.accept("REFRESH"):
            partition = self._tables.partition() if cursor.accept("PARTITION") else ()
            return Refresh(partition, position=cursor.since(start))
        if cursor.at("SET"):
            if cursor.accept_all("SET", "FRESHNESS"):
                return SetFreshness(self._tables.freshness(), position=cursor.since(start))
            if cursor.accept_all("SET", "REFRESH_MODE"):
                return SetRefreshMode(self._tables.refresh_mode(), position=cursor.since(start))
            return self._set_options(start)
        if cursor.at("RESET"):
            return self._reset_options(start)
        if cursor.accept("AS"):
            return ChangeQuery(self._queries.query(), position=cursor.since(start))
        if cursor.accept("ADD"):
            return self._schema("ADD", start)
        if cursor.accept("MODIFY"):
            return self._schema("MODIFY", start)
        if cursor.accept("DROP"):
            return self._drop(start)
        raise cursor.unexpected()
