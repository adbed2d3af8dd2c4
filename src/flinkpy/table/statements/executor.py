"""StatementExecutor: executes statements that define, change, choose and list objects of catalogs.

Queries, INSERT and EXPLAIN belong to the TableEnvironment.

Source: org.apache.flink.table.api.internal.TableEnvironmentImpl.executeInternal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import CatalogError, UnsupportedOperationError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.unparse import unparse
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_tables import (
    CatalogDatabase,
    CatalogFunction,
    CatalogTable,
    CatalogView,
    QueryView,
)
from flinkpy.table.catalog.function_catalog import FunctionCatalog
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.materialized_table import CatalogMaterializedTable
from flinkpy.table.catalog.procedure import ProcedureContext
from flinkpy.table.schema import Schema
from flinkpy.table.statements import alterations, listings, modules
from flinkpy.table.statements.declarations import merged_like, options_of, table_of
from flinkpy.table.statements.jobs import JobStatements
from flinkpy.table.statements.models import ModelStatements
from flinkpy.table.statements.procedures import call_procedure
from flinkpy.table.statements.refusals import no_connections, refusal
from flinkpy.table.statements.resources import ResourceManager
from flinkpy.table.statements.table_as_query import schema_as_query
from flinkpy.table.table_config import TableConfig
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment


@dataclass(frozen=True)
class Session:
    """The parts of a TableEnvironment that statements read and change.

    Attributes:
        bind_type: makes a logical type from a parsed one.
        bind_query: returns the row type of a query and its text with all names in full.
        constant: returns the value of an expression without columns.
        environment: runs the jobs.
    """

    catalogs: CatalogManager
    functions: FunctionCatalog
    config: TableConfig
    bind_type: Callable[[ast.DataType], LogicalType]
    bind_query: Callable[[ast.Query], tuple[RowType, str]]
    constant: Callable[[ast.Expression], Any]
    environment: StreamExecutionEnvironment


class StatementExecutor:
    """Executes one statement at a time. Thread: that of the program."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._catalogs = session.catalogs
        self._functions = session.functions
        self._jobs = JobStatements(session.environment, session.config.get_local_timezone)
        self._models = ModelStatements(session.catalogs, session.bind_type)
        self._resources = ResourceManager(session.environment)
        #: The options with which the session began. RESET returns to them.
        self._first_options = session.config.get_configuration().to_dict()

    @singledispatchmethod
    def execute(self, statement: ast.Statement) -> TableResult:
        """Executes a statement.

        Raises:
            ValidationError, CatalogError: an object does not exist, exists already, or a definition is wrong.
            UnsupportedOperationError: flinkpy does not have the statement.
        """
        raise refusal(statement)

    # -- CREATE --------------------------------------------------------------------------------------------------------

    @execute.register
    def _(self, statement: ast.CreateTable) -> TableResult:
        table = self.declared_table(statement)
        identifier = self._catalogs.qualify(statement.name.parts)
        if statement.temporary:
            self._catalogs.create_temporary_table(identifier, table, statement.if_not_exists)
        else:
            self._catalogs.create_table(identifier, table, statement.if_not_exists)
        return TableResult.ok()

    def declared_table(self, statement: ast.CreateTable) -> CatalogTable:
        """Returns the table that the statement declares, with the parts of LIKE. Raises: ValidationError."""
        if statement.mode != "CREATE":
            raise ValidationError(f"{statement.mode} TABLE needs a query: {statement.mode} TABLE ... AS SELECT ...")
        table = table_of(statement, self._session.bind_type)
        if statement.like is not None:
            source = self._catalogs.get_table_or_error(statement.like.table.parts)
            if not isinstance(source.table, CatalogTable):
                raise ValidationError(f"LIKE needs a table, and {source.identifier} is a view.")
            table = merged_like(source.table, table, statement.like.options)
        return self._checked(table)

    @staticmethod
    def _checked(table: CatalogTable) -> CatalogTable:
        """Returns the table. Raises: ValidationError if it is partitioned by a column that it does not have."""
        columns = {column.name for column in table.schema.columns}
        for kind, names in (("partition", table.partition_keys), ("bucket", (table.distribution or (0, 0, ()))[2])):
            unknown = [name for name in names if name not in columns]
            if unknown:
                raise ValidationError(
                    f"{kind.capitalize()} column '{unknown[0]}' not defined in the table schema. Available columns: "
                    f"[{', '.join(repr(each) for each in sorted(columns))}]"
                )
        return table

    def table_as_query(self, statement: ast.CreateTable, query: RowType) -> CatalogTable:
        """Returns the table that CREATE TABLE ... AS makes for the rows of its query. Raises: ValidationError."""
        table = table_of(statement, self._session.bind_type)
        schema = schema_as_query(query, table.schema, [each.last for each in statement.column_names])
        return self._checked(replace(table, schema=schema))

    @execute.register
    def _(self, statement: ast.CreateView) -> TableResult:
        identifier = self._catalogs.qualify(statement.name.parts)
        view = self._view(statement.query, statement.columns, statement.comment or "")
        if statement.temporary:
            self._catalogs.create_temporary_table(
                identifier, view, statement.if_not_exists, replace=statement.or_replace
            )
            return TableResult.ok()
        if statement.or_replace and self._catalogs.get_table(identifier) is not None:
            self._catalogs.alter_table(identifier, view)
        else:
            self._catalogs.create_table(identifier, view, statement.if_not_exists)
        return TableResult.ok()

    def _view(self, query: ast.Query, names: tuple[ast.Identifier, ...], comment: str) -> CatalogView:
        row_type, expanded = self._session.bind_query(query)
        if names:
            if len(names) != len(row_type.fields):
                raise ValidationError(
                    "VIEW definition and input fields not match:\n"
                    f"\tDef fields: [{', '.join(each.last for each in names)}].\n"
                    f"\tInput fields: [{', '.join(row_type.names)}]."
                )
            fields = (replace(each, name=name.last) for each, name in zip(row_type.fields, names))
            row_type = RowType(tuple(fields), nullable=False)
        builder = Schema.new_builder()
        for each in row_type.fields:
            builder.column(each.name, each.type)
        return CatalogView(builder.build(), unparse(query), expanded, comment)

    @execute.register
    def _(self, statement: ast.CreateDatabase) -> TableResult:
        catalog, name = self._database(statement.name)
        database = CatalogDatabase(options_of(statement.options), statement.comment or "")
        self._catalogs.catalog_or_error(catalog).create_database(name, database, statement.if_not_exists)
        return TableResult.ok()

    @execute.register
    def _(self, statement: ast.CreateCatalog) -> TableResult:
        options = options_of(statement.options)
        self._catalogs.create_catalog(statement.name.last, options, statement.if_not_exists, statement.comment or "")
        return TableResult.ok()

    @execute.register
    def _(self, statement: ast.CreateFunction) -> TableResult:
        for each in statement.resources:
            self._resources.add(each.path)
        function = CatalogFunction(statement.class_name, statement.language or "JAVA")
        parts, exists = statement.name.parts, statement.if_not_exists
        if statement.system:
            self._functions.create_temporary_system_function(statement.name.last, function, exists)
        elif statement.temporary:
            self._functions.create_temporary_function(parts, function, exists)
        else:
            self._functions.create_function(parts, function, exists)
        return TableResult.ok()

    # -- DROP ----------------------------------------------------------------------------------------------------------

    @execute.register
    def _(self, statement: ast.Drop) -> TableResult:
        parts, exists = statement.name.parts, statement.if_exists
        match statement.kind:
            case "TABLE" | "VIEW" as kind:
                identifier = self._catalogs.qualify(parts)
                self._check_not_materialized(identifier, "DROP")
                drop = self._catalogs.drop_temporary_table if statement.temporary else self._catalogs.drop_table
                drop(identifier, exists, is_view=kind == "VIEW")
            case "DATABASE":
                catalog, name = self._database(statement.name)
                if (catalog, name) == (self._catalogs.current_catalog, self._catalogs.current_database):
                    raise ValidationError("Cannot drop a database which is currently in use.")
                self._catalogs.catalog_or_error(catalog).drop_database(name, exists, statement.cascade is True)
            case "CATALOG":
                self._catalogs.unregister_catalog(statement.name.last, exists)
            case "FUNCTION":
                if statement.system:
                    self._functions.drop_temporary_system_function(statement.name.last, exists)
                elif statement.temporary:
                    self._functions.drop_temporary_function(parts, exists)
                else:
                    self._functions.drop_function(parts, exists)
            case "MODEL":
                return self._models.drop(statement)
            case "CONNECTION":
                raise no_connections(statement)
            case kind:
                raise UnsupportedOperationError(f"flinkpy does not have objects of the kind {kind} yet")
        return TableResult.ok()

    def _check_not_materialized(self, identifier: ObjectIdentifier, verb: str) -> None:
        found = self._catalogs.get_table(identifier)
        if found is not None and isinstance(found.table, CatalogMaterializedTable):
            raise ValidationError(
                f"{verb} TABLE is not allowed for the materialized table {identifier}: use {verb} MATERIALIZED TABLE."
            )

    def _database(self, name: ast.Identifier) -> tuple[str, str]:
        """Returns the catalog and the name of a database."""
        if len(name.parts) > 2:
            raise ValidationError("Invalid database name: it has one or two parts.")
        if len(name.parts) == 2:
            return name.parts[0], name.parts[1]
        catalog = self._catalogs.current_catalog
        if catalog is None:
            raise ValidationError("A current catalog has not been set: name the database as catalog.database.")
        return catalog, name.last

    # -- ALTER ---------------------------------------------------------------------------------------------------------

    @execute.register
    def _(self, statement: ast.Alter) -> TableResult:
        match statement.kind:
            case "TABLE":
                return self._alter_table(statement)
            case "VIEW":
                return self._alter_view(statement)
            case "DATABASE":
                catalog_name, name = self._database(statement.name)
                catalog = self._catalogs.catalog_or_error(catalog_name)
                if not isinstance(statement.action, ast.SetOptions):
                    raise UnsupportedOperationError("ALTER DATABASE can only SET options")
                known = catalog.get_database(name)
                changed = replace(known, properties=known.properties | options_of(statement.action.options))
                catalog.alter_database(name, changed, statement.if_exists)
                return TableResult.ok()
            case "CATALOG":
                return self._alter_catalog(statement)
            case "MODEL":
                return self._models.alter(statement)
            case "CONNECTION":
                raise no_connections(statement)
        raise UnsupportedOperationError(f"flinkpy does not have ALTER {statement.kind} yet")

    def _alter_catalog(self, statement: ast.Alter) -> TableResult:
        name = statement.name.last
        match statement.action:
            case ast.SetOptions(options):
                changed = self._catalogs.catalog_options(name) | options_of(options)
                self._catalogs.alter_catalog(name, changed)
            case ast.ResetOptions(keys):
                removed = {each.key for each in keys}
                if not removed:
                    raise ValidationError("ALTER CATALOG RESET does not support empty key.")
                if "type" in removed:
                    raise ValidationError("ALTER CATALOG RESET does not support changing 'type'.")
                known = self._catalogs.catalog_options(name)
                kept = {key: value for key, value in known.items() if key not in removed}
                self._catalogs.alter_catalog(name, kept)
            case ast.SetComment(comment):
                self._catalogs.alter_catalog(name, comment=comment)
        return TableResult.ok()

    @execute.register
    def _(self, statement: ast.AlterFunction) -> TableResult:
        if statement.system:
            raise ValidationError("Alter temporary system function is not supported")
        if statement.temporary:
            raise ValidationError("Alter temporary catalog function is not supported")
        function = CatalogFunction(statement.class_name, statement.language or "JAVA")
        self._functions.alter_function(statement.name.parts, function, statement.if_exists)
        return TableResult.ok()

    def _alter_table(self, statement: ast.Alter) -> TableResult:
        identifier = self._catalogs.qualify(statement.name.parts)
        self._check_not_materialized(identifier, "ALTER")
        found = self._catalogs.get_table(identifier)
        if found is None:
            if statement.if_exists:
                return TableResult.ok()
            raise ValidationError(f"Table {identifier} doesn't exist or is a temporary table.")
        if not isinstance(found.table, CatalogTable):
            raise ValidationError("ALTER TABLE for a view is not allowed")
        action = statement.action
        if isinstance(action, ast.RenameTo):
            self._rename(identifier.parts, action.new_name, found.is_temporary)
            return TableResult.ok()
        if alterations.alter_partitions(self._catalogs, found, action):
            return TableResult.ok()
        changed = alterations.altered_table(found.table, action, self._session.bind_type)
        self._catalogs.alter_table(identifier, changed)
        return TableResult.ok()

    def _alter_view(self, statement: ast.Alter) -> TableResult:
        identifier = self._catalogs.qualify(statement.name.parts)
        found = self._catalogs.get_table(identifier)
        if found is None:
            if statement.if_exists:
                return TableResult.ok()
            raise ValidationError(f"View {identifier} does not exist or is a temporary view.")
        if isinstance(found.table, (CatalogTable, QueryView)):
            raise ValidationError(f"ALTER VIEW for {identifier}, which is no view of a query, is not allowed")
        match statement.action:
            case ast.RenameTo(new_name):
                self._rename(identifier.parts, new_name, found.is_temporary)
            case ast.ChangeQuery(query):
                self._catalogs.alter_table(identifier, self._view(query, (), found.table.comment))
            case action:
                raise UnsupportedOperationError(f"ALTER VIEW cannot {type(action).__name__}")
        return TableResult.ok()

    def _rename(self, old: tuple[str, str, str], new_name: ast.Identifier, is_temporary: bool) -> None:
        if is_temporary:
            raise ValidationError(f"A temporary table or view cannot be renamed: {'.'.join(old)}")
        new = self._catalogs.qualify(new_name.parts)
        if new.parts[:2] != old[:2]:
            raise ValidationError(
                "The catalog name and database name of the new table name must be those of the old one."
            )
        identifier = self._catalogs.qualify(old)
        self._catalogs.catalog_or_error(old[0]).rename_table(identifier.to_object_path(), new.object_name, False)

    # -- USE, SET ------------------------------------------------------------------------------------------------------

    @execute.register
    def _(self, statement: ast.Use) -> TableResult:
        if statement.kind == "CATALOG":
            self._catalogs.use_catalog(statement.name.last)
            return TableResult.ok()
        catalog, database = self._database(statement.name)
        if not self._catalogs.catalog_or_error(catalog).database_exists(database):
            raise CatalogError(f"A database with name [{database}] does not exist in the catalog: [{catalog}].")
        if catalog != self._catalogs.current_catalog:
            self._catalogs.use_catalog(catalog)
        self._catalogs.use_database(database)
        return TableResult.ok()

    @execute.register
    def _(self, statement: ast.SetOption) -> TableResult:
        if statement.key is None:
            options = sorted(self._session.config.get_configuration().to_dict().items())
            return listings.listed(("key", "value"), options)
        self._session.config.set(statement.key, statement.value or "")
        return TableResult.ok()

    @execute.register
    def _(self, statement: ast.ResetOption) -> TableResult:
        configuration = self._session.config.get_configuration()
        first = self._first_options
        keys = {*configuration.to_dict(), *first} if statement.key is None else {statement.key}
        for key in keys:
            if key in first:
                configuration.set_string(key, first[key])
            else:
                configuration.remove_config(key)
        return TableResult.ok()

    # -- SHOW, DESCRIBE ------------------------------------------------------------------------------------------------

    @execute.register
    def _(self, statement: ast.Show) -> TableResult:
        match statement.kind:
            case "MODULES":
                return modules.show_modules(self._functions.modules)
            case "FULL MODULES":
                return modules.show_full_modules(self._functions.modules)
            case "JARS":
                return listings.listed(("jars",), [(each,) for each in self._resources.list()])
            case "JOBS":
                return self._jobs.show()
            case "MODELS":
                return self._models.show(statement)
        return listings.show(statement, self._catalogs, self._functions)

    @execute.register
    def _(self, statement: ast.ShowCreate) -> TableResult:
        if statement.kind == "MODEL":
            return self._models.show_create(statement)
        return listings.show_create(statement, self._catalogs)

    @execute.register
    def _(self, statement: ast.Describe) -> TableResult:
        if statement.kind == "MODEL":
            return self._models.describe(statement)
        return listings.describe(statement, self._catalogs, self._functions)

    # -- models, modules, resources, jobs, procedures ------------------------------------------------------------------

    @execute.register
    def _(self, statement: ast.CreateModel) -> TableResult:
        return self._models.create(statement)

    @execute.register
    def _(self, statement: ast.LoadModule) -> TableResult:
        return modules.load_module(statement, self._functions.modules)

    @execute.register
    def _(self, statement: ast.UnloadModule) -> TableResult:
        return modules.unload_module(statement, self._functions.modules)

    @execute.register
    def _(self, statement: ast.UseModules) -> TableResult:
        return modules.use_modules(statement, self._functions.modules)

    @execute.register
    def _(self, statement: ast.Jar) -> TableResult:
        if statement.verb == "ADD":
            self._resources.add(statement.path)
        else:
            self._resources.remove(statement.path)
        return TableResult.ok()

    @execute.register
    def _(self, statement: ast.DescribeJob) -> TableResult:
        return self._jobs.describe(statement)

    @execute.register
    def _(self, statement: ast.StopJob) -> TableResult:
        return self._jobs.stop(statement)

    @execute.register
    def _(self, statement: ast.Call) -> TableResult:
        context = ProcedureContext(self._session.environment)
        return call_procedure(statement, self._catalogs, self._session.constant, context)
