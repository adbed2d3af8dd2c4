"""TableEnvironment and StreamTableEnvironment: execute SQL, and hold its catalogs, functions and options.

Source: pyflink.table.table_environment, org.apache.flink.table.api.internal.TableEnvironmentImpl.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ValidationError
from flinkpy.common.types import Row
from flinkpy.configuration.execution_options import RUNTIME_MODE
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import DML_SYNC, MAX_COLUMN_WIDTH, PLAN_FORCE_RECOMPILE
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types.logical_types import BigIntType
from flinkpy.sql.types.logical_types import RowType as LogicalRowType
from flinkpy.table.catalog.catalog import Catalog
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_store import catalog_store
from flinkpy.table.catalog.catalog_tables import (
    CatalogFunction,
    CatalogTable,
    ContextResolvedTable,
    InlineTable,
    QueryView,
)
from flinkpy.table.catalog.function_catalog import FunctionCatalog
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.arrow_table import ArrowTableSource
from flinkpy.table.connectors.changelog_mode import ChangelogMode
from flinkpy.table.environment_settings import EnvironmentSettings
from flinkpy.table.explain_detail import ExplainDetail
from flinkpy.table.expressions import col
from flinkpy.table.materialized_table_manager import RefreshSession
from flinkpy.table.model_descriptor import ModelDescriptor
from flinkpy.table.module.module import Module, ModuleEntry
from flinkpy.table.plan_reference import PlanReference
from flinkpy.table.planner.errors import shown_in
from flinkpy.table.planner.row_level_changes import JOB_OPTIONS, check_mode
from flinkpy.table.schema import Schema, UnresolvedPhysicalColumn
from flinkpy.table.statements.analyze import analyze_table, check_analyze_mode
from flinkpy.table.statements.executor import Session, StatementExecutor
from flinkpy.table.statements.materialized_tables import MaterializedTableStatements
from flinkpy.table.statements.names import parse_path
from flinkpy.table.table import Table
from flinkpy.table.table_config import TableConfig, temporary_options
from flinkpy.table.table_descriptor import TableDescriptor
from flinkpy.table.table_result import MAX_LISTED_WIDTH, ResultKind, TableResult
from flinkpy.table.types import RowType

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from flinkpy.datastream.data_stream import DataStream
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkpy.graph.transformation import Transformation
    from flinkpy.table.compiled_plan import CompiledPlan
    from flinkpy.table.connectors.table_source import ScanTableSource
    from flinkpy.table.planner.planner import Planner
    from flinkpy.table.planner.plans.plan_graph import PlanGraph
    from flinkpy.table.statement_set import StatementSet

__all__ = ["StreamTableEnvironment", "TableEnvironment"]


class TableEnvironment:
    """The entry point of SQL and the Table API. Made by `create`.

    Thread: one thread at a time.

    Example:
        >>> environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        >>> environment.execute_sql("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen')")
        >>> environment.execute_sql("SELECT n FROM numbers WHERE n > 0").print()
    """

    def __init__(self, environment: StreamExecutionEnvironment, settings: EnvironmentSettings) -> None:
        from flinkpy.table.planner.planner import Planner

        self._environment = environment
        environment.configure(settings.get_configuration())
        self._config = TableConfig(environment.get_configuration())
        self._catalogs = CatalogManager(
            settings.get_built_in_catalog_name(),
            settings.get_built_in_database_name(),
            catalog_store(settings.get_configuration()),
        )
        self._functions = FunctionCatalog(self._catalogs)
        self._planner: Planner = Planner(
            self._catalogs, self._functions, self._config, parallelism=self._environment.get_parallelism
        )
        self._catalogs.schema_resolver = self._planner
        #: Numbers tables without a name.
        self._unnamed = itertools.count(1)
        self._statements = StatementExecutor(
            Session(
                self._catalogs,
                self._functions,
                self._config,
                self._planner.bind_type,
                self._bound_view,
                self._planner.constant,
                self._environment,
            )
        )

        refreshing = RefreshSession(
            self._catalogs, self._config.get_configuration(), self._submit_refresh, environment.cluster_client
        )
        self._materialized_tables = MaterializedTableStatements(
            refreshing, self._declared_as, self._stored_row_type, lambda query: self._bound_view(query)[1]
        )

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Returns a new environment.

        Args:
            environment_settings: the settings, or only the configuration.
        """
        from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

        settings = _settings(environment_settings)
        environment = StreamExecutionEnvironment.get_execution_environment(settings.get_configuration())
        return TableEnvironment(environment, settings)

    def get_config(self) -> TableConfig:
        """Returns the options, which can be changed at any time."""
        return self._config

    # -- SQL -----------------------------------------------------------------------------------------------------------

    def execute_sql(self, stmt: str) -> TableResult:
        """Executes one statement.

        A query and an INSERT become a job. The result of an INSERT is there when the job has been submitted, unless
        `table.dml-sync` is set.

        Raises:
            SqlParseError: the text is no statement of Flink SQL; the message shows the place.
            ValidationError, CatalogError: names or types are wrong.
            TableProgramError: the statement is valid, but cannot be planned.
            UnsupportedOperationError: flinkpy does not have that part of SQL.
        """
        from flinkpy.sql.parser import parse_statement

        with shown_in(stmt):
            return self._execute(parse_statement(stmt))

    def _execute(self, statement: ast.Statement) -> TableResult:
        match statement:
            case ast.CreateMaterializedTable():
                return self._materialized_tables.create(statement)
            case ast.Alter(kind="MATERIALIZED TABLE"):
                return self._materialized_tables.alter(statement)
            case ast.Drop(kind="MATERIALIZED TABLE"):
                return self._materialized_tables.drop(statement)
            case ast.QueryStatement(query=query):
                return self.execute_query(self._planner.bind(query))
            case ast.Insert() | ast.StatementSet():
                return self.execute_inserts(self._operations(statement))
            case ast.Execute(statement=inner):
                return self._execute(inner)
            case ast.Explain(statement=ast.ExecutePlan(path=path)):
                return TableResult.of_text(self.load_plan(PlanReference.from_file(path)).explain())
            case ast.Explain(statement=inner, details=details):
                return TableResult.of_text(self.explain_operations(self._operations(inner), details))
            case ast.Update() | ast.Delete():
                return self._change_rows(statement)
            case ast.TruncateTable():
                check_mode(statement, "TRUNCATE TABLE", self._planner.is_streaming)
                self._planner.truncate(statement)
                return TableResult.ok()
            case ast.AnalyzeTable():
                check_analyze_mode(statement, is_streaming=self._planner.is_streaming)
                return analyze_table(statement, self._catalogs, self._collected)
            case ast.CompilePlan():
                return self._compile_plan(statement)
            case ast.ExecutePlan(path=path):
                return self.execute_plan(PlanReference.from_file(path))
            case ast.CreateTable(query=query) if query is not None:
                return self._create_table_as(statement)
        return self._statements.execute(statement)

    def _collected(self, query: str) -> list[Any]:
        """Returns the rows of a query."""
        with self.execute_sql(query).collect() as rows:
            return [tuple(row) for row in rows]

    def _change_rows(self, statement: ast.Update | ast.Delete) -> TableResult:
        """Runs DELETE or UPDATE as a job."""
        check_mode(statement, type(statement).__name__.upper(), self._planner.is_streaming)
        with temporary_options(self._config.get_configuration(), JOB_OPTIONS):
            return self.execute_inserts([self._planner.bind_row_changes(statement)])

    def _operations(self, statement: ast.Statement) -> list[Any]:
        """Returns the plans of a query or of INSERTs, which can be executed and explained."""
        match statement:
            case ast.QueryStatement(query=query):
                return [self._planner.bind(query)]
            case ast.Insert():
                return [self._planner.bind_insert(statement)]
            case ast.StatementSet(inserts=inserts):
                return [self._planner.bind_insert(each) for each in inserts]
            case ast.Execute(statement=inner):
                return self._operations(inner)
            case ast.CreateTable(query=query) if query is not None:
                return [self._table_as(statement)[1]]
        raise ValidationError(f"EXPLAIN needs a query, an INSERT or a STATEMENT SET, not {type(statement).__name__}.")

    def _create_table_as(self, statement: ast.CreateTable) -> TableResult:
        """Creates or replaces the table of CREATE TABLE ... AS, then inserts the rows of its query."""
        table, insert = self._table_as(statement)
        identifier = table.identifier
        assert isinstance(table.table, CatalogTable)
        known = self._catalogs.get_table(identifier)
        if statement.mode != "CREATE":
            if known is None and statement.mode == "REPLACE":
                raise ValidationError(
                    f"The table {identifier.as_summary_string()} to be replaced doesn't exist. You can try to use "
                    "CREATE TABLE AS statement or CREATE OR REPLACE TABLE AS statement."
                )
            if known is not None:
                self._catalogs.drop_table(identifier, False)
        if statement.temporary:
            created = self._catalogs.create_temporary_table(identifier, table.table, statement.if_not_exists)
        else:
            created = self._catalogs.create_table(identifier, table.table, statement.if_not_exists)
        return self.execute_inserts([insert]) if created else TableResult.ok()

    def _table_as(self, statement: ast.CreateTable) -> tuple[ContextResolvedTable, Any]:
        """Returns the table that the statement makes, which no catalog has yet, and the plan of its INSERT."""
        assert statement.query is not None
        query = self._planner.bind(statement.query)
        table = self._declared_as(statement)
        identifier = self._catalogs.qualify(statement.name.parts)
        name = f"table '{identifier.as_summary_string()}'"
        resolved = ContextResolvedTable(identifier, table, self._catalogs.resolve_schema(table.schema, name))
        return resolved, self._planner.insert_by_name(resolved, query)

    def _declared_as(self, statement: ast.CreateTable) -> CatalogTable:
        """Returns the table that CREATE TABLE ... AS declares."""
        assert statement.query is not None
        return self._statements.table_as_query(statement, self._stored_row_type(statement.query))

    def _stored_row_type(self, query: ast.Query) -> LogicalRowType:
        return self._planner.stored_row_type(self._planner.bind(query))

    def sql_query(self, query: str) -> Table:
        """Returns the table of a query.

        Raises: as `execute_sql`; ValidationError if it is no query.
        """
        from flinkpy.sql.parser import parse_statement

        statement = parse_statement(query)
        if not isinstance(statement, ast.QueryStatement):
            raise ValidationError(
                "Unsupported SQL query! sql_query() only accepts a single SQL query of type SELECT, UNION, INTERSECT, "
                "EXCEPT, VALUES, and ORDER_BY."
            )
        with shown_in(query):
            return Table(self._planner.bind(statement.query), self)

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Returns the plan of a statement, as EXPLAIN does."""
        from flinkpy.sql.parser import parse_statement

        statement = parse_statement(stmt)
        if isinstance(statement, ast.Explain):
            raise ValidationError("explain_sql takes the statement without EXPLAIN.")
        with shown_in(stmt):
            return self.explain_operations(self._operations(statement), tuple(each.name for each in extra_details))

    # -- compiled plans ------------------------------------------------------------------------------------------------

    def _compile_plan(self, statement: ast.CompilePlan) -> TableResult:
        """Executes COMPILE PLAN, or COMPILE AND EXECUTE PLAN, which uses the plan that exists already."""
        path = Path(statement.path)
        is_reused = path.exists() and (statement.if_not_exists or (statement.execute and not self._recompiles()))
        if is_reused:
            return self.execute_plan(PlanReference.from_file(path)) if statement.execute else TableResult.ok()
        plan = self._compiled(statement.statement)
        plan.write_to_file(path)
        return plan.execute() if statement.execute else TableResult.ok()

    def _recompiles(self) -> bool:
        return read_option(self._config.get_configuration(), PLAN_FORCE_RECOMPILE)

    def _compiled(self, statement: ast.Statement) -> CompiledPlan:
        from flinkpy.table.compiled_plan import CompiledPlan

        return CompiledPlan(self._planner.compile_plan(self._operations(statement)), self)

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """Returns the compiled plan of an INSERT or a STATEMENT SET.

        Raises: as `execute_sql`; UnsupportedOperationError if a plan cannot hold what the statement uses.
        """
        from flinkpy.sql.parser import parse_statement

        with shown_in(stmt):
            return self._compiled(parse_statement(stmt))

    def load_plan(self, plan_reference: PlanReference) -> CompiledPlan:
        """Returns a plan that was compiled before. Raises: TableProgramError if this session cannot run it."""
        from flinkpy.table.compiled_plan import CompiledPlan

        return CompiledPlan(plan_reference.content(), self)

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Loads a compiled plan and runs it as a job."""
        return self.load_plan(plan_reference).execute()

    def execute_plan_graph(self, plan: PlanGraph) -> TableResult:
        """Runs the nodes of a compiled plan as a job. Not part of PyFlink's API."""
        return self._submit_inserts(self._planner.translate_plan(plan), [each.table_name for each in plan.sinks])

    def create_statement_set(self) -> StatementSet:
        """Returns a set of INSERTs that become one job."""
        from flinkpy.table.statement_set import StatementSet

        return StatementSet(self)

    def _bound_view(self, query: ast.Query) -> tuple[LogicalRowType, str]:
        """Returns the rows of a view's query, and its text with full names."""
        from flinkpy.sql.parser.unparse import unparse
        from flinkpy.table.planner.binder.full_names import FullNames

        row_type = self._planner.row_type(self._planner.bind(query))
        names = FullNames(lambda parts: self._catalogs.qualify(parts).parts, self._functions.full_name)
        return row_type, unparse(names.of(query))

    # -- execution -----------------------------------------------------------------------------------------------------

    @property
    def planner(self) -> Planner:
        """The planner of the session. Not part of PyFlink's API."""
        return self._planner

    @property
    def execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that runs the jobs. Not part of PyFlink's API."""
        return self._environment

    def explain_operations(self, operations: Sequence[Any], details: Sequence[str]) -> str:
        """Returns the text of EXPLAIN for queries or INSERTs. Not part of PyFlink's API."""
        from flinkpy.datastream.data_stream import DataStream

        text = self._planner.explain(operations, details)
        if "JSON_EXECUTION_PLAN" not in details:
            return text
        # The environment of the session may hold operators of the program, which are not part of the statement.
        scratch = type(self._environment).get_execution_environment(self._environment.get_configuration())
        scratch.set_parallelism(self._environment.get_parallelism())
        if all(self._planner.is_insert(each) for each in operations):
            for each in self._planner.translate(operations):
                self._add(each, scratch)
        else:
            for each in operations:
                transformation, _ = self._planner.translate_query(each)
                self._add(transformation, scratch)
                scratch.collect_later(DataStream(transformation, scratch))
        return f"{text}\n== Physical Execution Plan ==\n{scratch.get_execution_plan()}"

    def execute_query(self, operation: Any, job_name: str = "collect") -> TableResult:
        """Runs a query as a job whose rows this process reads. Not part of PyFlink's API."""
        from flinkpy.common.job_client import JobClient
        from flinkpy.datastream.collected_results import CollectedResults
        from flinkpy.datastream.data_stream import DataStream

        transformation, has_changes = self._planner.translate_query(operation)
        with self._environment.separate_program():
            self._add(transformation)
            results = self._environment.collect(DataStream(transformation, self._environment), job_name)
        assert isinstance(results, CollectedResults)
        return TableResult(
            self._planner.schema(operation),
            batches=results.batches,
            job_client=JobClient(results.job_client),
            max_column_width=read_option(self._config.get_configuration(), MAX_COLUMN_WIDTH),
            has_row_kinds=has_changes is not None,
            settings=self._planner.settings,
        )

    def execute_inserts(self, operations: Sequence[Any]) -> TableResult:
        """Runs INSERTs as one job. Not part of PyFlink's API.

        Returns: a row with -1 per table, as in Flink: the numbers of rows are not known when the job begins.
        """
        if not operations:
            raise ValidationError("No operators defined in the statement set: add an INSERT first.")
        names = [self._planner.sink_name(each) for each in operations]
        return self._submit_inserts(self._planner.translate(operations), names)

    def _submit_refresh(self, statement: str, job_name: str) -> str:
        """Runs the INSERT of a materialized table as a job. Returns the id of the job."""
        from flinkpy.sql.parser import parse_statement

        operations = self._operations(parse_statement(statement))
        names = [self._planner.sink_name(each) for each in operations]
        client = self._submit_inserts(self._planner.translate(operations), names, job_name).get_job_client()
        assert client is not None
        return str(client.get_job_id())

    def attach_inserts(self, operations: Sequence[Any]) -> None:
        """Adds INSERTs to the program of the StreamExecutionEnvironment. Not part of PyFlink's API."""
        for transformation in self._planner.translate(operations):
            self._add(transformation)

    def _submit_inserts(
        self, transformations: Sequence[Transformation], names: Sequence[str], job_name: str | None = None
    ) -> TableResult:
        with self._environment.separate_program():
            for transformation in transformations:
                self._add(transformation)
            client = self._environment.execute_async(job_name or f"insert-into_{','.join(dict.fromkeys(names))}")
        columns = [
            (name if names.count(name) == 1 else f"{name}_{place}", BigIntType()) for place, name in enumerate(names, 1)
        ]
        result = TableResult(
            ResolvedSchema.physical(*columns),
            lambda: iter([Row(*[-1] * len(columns))]),
            ResultKind.SUCCESS_WITH_CONTENT,
            client,
            max_column_width=MAX_LISTED_WIDTH,
        )
        if read_option(self._config.get_configuration(), DML_SYNC):
            result.wait()
        return result

    def _add(self, transformation: Any, environment: StreamExecutionEnvironment | None = None) -> None:
        """Adds the operators of a plan to the program of the session or of another environment, inputs first."""
        from flinkpy.graph.transformation import OperatorTransformation

        seen: set[int] = set()

        def add(node: Any) -> Iterator[Any]:
            if node.id in seen:
                return
            seen.add(node.id)
            for each in node.inputs:
                yield from add(each)
            if isinstance(node, OperatorTransformation):
                yield node

        program = environment or self._environment
        known = {operator.id for operator in program.get_transformations()}
        for operator in add(transformation):
            if operator.id not in known:
                program.add_operator(operator)

    # -- catalogs ------------------------------------------------------------------------------------------------------

    def register_catalog(self, catalog_name: str, catalog: Catalog) -> None:
        """Registers a catalog under a name. Raises: CatalogError if the name is taken."""
        self._catalogs.register_catalog(catalog_name, catalog)

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        return self._catalogs.catalog(catalog_name)

    def use_catalog(self, catalog_name: str) -> None:
        self._catalogs.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        self._catalogs.use_database(database_name)

    def get_current_catalog(self) -> str | None:
        return self._catalogs.current_catalog

    def get_current_database(self) -> str | None:
        return self._catalogs.current_database

    def list_catalogs(self) -> list[str]:
        return sorted(self._catalogs.catalog_names)

    def list_databases(self) -> list[str]:
        catalog = self._catalogs.current_catalog
        return [] if catalog is None else self._catalogs.catalog_or_error(catalog).list_databases()

    def list_tables(self, catalog_name: str | None = None, database_name: str | None = None) -> list[str]:
        """Returns the names of the tables and views of a database, by default the current one."""
        return self._catalogs.list_tables(catalog_name, database_name)

    def list_views(self) -> list[str]:
        return self._catalogs.list_views()

    def list_temporary_tables(self) -> list[str]:
        return self._catalogs.list_temporary_tables()

    def list_temporary_views(self) -> list[str]:
        return self._catalogs.list_temporary_views()

    def list_user_defined_functions(self) -> list[str]:
        return self._functions.user_functions()

    def list_functions(self) -> list[str]:
        return sorted({*self._functions.user_functions(), *self._planner.builtin_functions()})

    # -- modules -------------------------------------------------------------------------------------------------------

    def load_module(self, module_name: str, module: Module) -> None:
        """Loads a module of functions under a name, and uses it behind those in use.

        Raises: ValidationError if the name is taken.
        """
        self._functions.modules.load_module(module_name, module)

    def unload_module(self, module_name: str) -> None:
        """Raises: ValidationError if there is no such module."""
        self._functions.modules.unload_module(module_name)

    def use_modules(self, *module_names: str) -> None:
        """Uses these modules in this order. Raises: ValidationError if one is not loaded, or given twice."""
        self._functions.modules.use_modules(module_names)

    def list_modules(self) -> list[str]:
        """Returns the names of the used modules in the order of resolution."""
        return self._functions.modules.list_modules()

    def list_full_modules(self) -> list[ModuleEntry]:
        """Returns all loaded modules, used ones first."""
        return [ModuleEntry(*each) for each in self._functions.modules.list_full_modules()]

    # -- models --------------------------------------------------------------------------------------------------------

    def create_model(
        self, model_path: str, model_descriptor: ModelDescriptor, ignore_if_exists: bool | None = False
    ) -> None:
        """Creates a model in a catalog. Raises: ValidationError if the name is taken."""
        model = model_descriptor.to_catalog_model()
        self._catalogs.models.create_model(self._identifier(model_path), model, bool(ignore_if_exists))

    def create_temporary_model(
        self, model_path: str, model_descriptor: ModelDescriptor, ignore_if_exists: bool | None = False
    ) -> None:
        """Creates a model for this session, which hides one of a catalog. Raises: ValidationError as `create_model`."""
        model = model_descriptor.to_catalog_model()
        self._catalogs.models.create_model(
            self._identifier(model_path), model, bool(ignore_if_exists), is_temporary=True
        )

    def drop_model(self, model_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Drops a model of a catalog. Returns False if there was none."""
        return self._catalogs.models.drop_model(self._identifier(model_path), bool(ignore_if_not_exists))

    def drop_temporary_model(self, model_path: str) -> bool:
        """Drops a model of this session. Returns False if there was none."""
        return self._catalogs.models.drop_model(self._identifier(model_path), True, is_temporary=True)

    def list_models(self) -> list[str]:
        """Returns the names of the models of the current database, temporary ones included."""
        return self._catalogs.models.list_models()

    def list_temporary_models(self) -> list[str]:
        return self._catalogs.models.list_temporary_models()

    def _identifier(self, path: str) -> ObjectIdentifier:
        return self._catalogs.qualify(parse_path(path))

    # -- tables from rows ----------------------------------------------------------------------------------------------

    def from_arrow(self, rows: pa.Table | pa.RecordBatch, schema: Schema | None = None, splits_num: int = 1) -> Table:
        """Returns a table of the rows of an Arrow table. Beyond PyFlink.

        Args:
            rows: the rows. Their names and types are those of the table's columns, unless `schema` declares others.
            schema: declares the columns, in their order, and may add computed columns and a watermark.
            splits_num: how many subtasks may share the rows.

        Raises: ValidationError if the rows do not have the columns of the schema, or their types do not fit.
        """
        import pyarrow as pa

        from flinkpy.sql.types.arrow import row_type_of, schema_of

        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        declared = schema
        if declared is None:
            found = row_type_of(table.schema)
            declared = Schema.new_builder().from_fields(list(found.names), list(found.children)).build()
        resolved = self._catalogs.resolve_schema(declared, "the given table")
        row_type = resolved.to_physical_row_type()
        missing = [name for name in row_type.names if name not in table.column_names]
        if missing:
            raise ValidationError(f"The given rows have no column {missing[0]!r}, only {table.column_names}.")
        try:
            typed = table.select(list(row_type.names)).cast(schema_of(row_type))
        except pa.ArrowException as error:
            raise ValidationError(f"The given rows do not have the types of the schema: {error}") from error
        return self._inline_table(declared, resolved, ArrowTableSource(typed, row_type, splits_num))

    def from_pandas(self, pdf: pd.DataFrame, schema: Any = None, splits_num: int = 1) -> Table:
        """Returns a table of the rows of a DataFrame.

        Args:
            pdf: the rows.
            schema: a DataTypes.ROW, or a list of the names, or of the types, of all columns.
            splits_num: how many subtasks may share the rows.
        """
        import pyarrow as pa

        if not isinstance(splits_num, int) or splits_num <= 0:
            raise ValueError(f"splits_num must be a positive int, not {splits_num!r}")
        rows = pa.Table.from_pandas(pdf, preserve_index=False)
        return self.from_arrow(*_named(rows, schema), splits_num)

    def from_elements(self, elements: Iterable[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """Returns a table of rows: tuples, lists, Rows or dicts.

        Args:
            elements: the rows.
            schema: a DataTypes.ROW, or a list of the names of the columns, whose types are then those of the values.
            verify_schema: True to check that the values fit. Values that do not fit are never converted silently.
        """
        import pyarrow as pa

        listed = [list(row.values()) if isinstance(row, dict) else list(row) for row in elements]
        if not listed:
            raise ValidationError("from_elements needs at least one row.")
        widths = {len(row) for row in listed}
        if len(widths) > 1:
            raise ValidationError(f"The rows of from_elements have different numbers of values: {sorted(widths)}.")
        names = [f"_{place}" for place in range(1, len(listed[0]) + 1)]
        try:
            rows = pa.Table.from_arrays([pa.array(column) for column in zip(*listed)], names)
        except pa.ArrowException as error:
            raise ValidationError(f"The values of a column of from_elements have different types: {error}") from error
        return self.from_arrow(*_named(rows, schema))

    def _inline_table(self, schema: Schema, resolved: ResolvedSchema, source: ScanTableSource) -> Table:
        name = f"Unregistered_{source.summary}_{next(self._unnamed)}"
        identifier = ObjectIdentifier(*self._catalogs.qualify(("x",)).parts[:2], name)
        table = ContextResolvedTable(identifier, InlineTable(schema, source=source), resolved, is_anonymous=True)
        return Table(self._planner.scan(table), self)

    # -- tables, views and functions -----------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """Returns the table or view of a name such as `t` or `catalog.db.t`."""
        return Table(self._planner.bind(self._parse_query(f"TABLE {path}")), self)

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Returns the table of a descriptor, which gets no name. Raises: ValidationError if it has no schema."""
        return Table(self._planner.scan(self.described_table(descriptor)), self)

    def described_table(self, descriptor: TableDescriptor, schema: Schema | None = None) -> ContextResolvedTable:
        """Returns the table of a descriptor under a name that no catalog has. Not part of PyFlink's API.

        Args:
            schema: the columns where the descriptor has none.
        """
        table = descriptor.to_catalog_table(schema)
        name = f"*anonymous_{table.options['connector']}${next(self._unnamed)}*"
        identifier = ObjectIdentifier(*self._catalogs.qualify(("x",)).parts[:2], name)
        resolved = self._catalogs.resolve_schema(table.schema, f"table {name}")
        return ContextResolvedTable(identifier, table, resolved, is_anonymous=True)

    def create_temporary_table(
        self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool | None = False
    ) -> None:
        """Gives the table of a descriptor a name for this session. Raises: ValidationError if the name is taken."""
        table = descriptor.to_catalog_table()
        self._catalogs.create_temporary_table(self._identifier(path), table, bool(ignoreIfExists))

    def create_table(self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool | None = False) -> None:
        """Creates the table of a descriptor in its catalog. Raises: ValidationError if the name is taken."""
        self._catalogs.create_table(self._identifier(path), descriptor.to_catalog_table(), bool(ignoreIfExists))

    def drop_table(self, table_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Drops a table of a catalog. Returns False if there was none."""
        return self._catalogs.drop_table(self._identifier(table_path), bool(ignore_if_not_exists))

    def _parse_query(self, text: str) -> ast.Query:
        from flinkpy.sql.parser import parse_query

        return parse_query(text)

    def name_of(self, table: Table) -> str:
        """Returns a name that stands for a Table in SQL of this session. Not part of PyFlink's API."""
        name = f"UnnamedTable${next(self._unnamed)}"
        self.create_temporary_view(name, table)
        return name

    def create_temporary_view(self, view_path: str, table: Table) -> None:
        """Gives a Table a name for this session. Raises: ValidationError if the name is taken."""
        if not isinstance(table, Table):
            raise TypeError(f"create_temporary_view needs a Table, not {type(table).__name__}")
        identifier = self._catalogs.qualify(parse_path(view_path))
        view = QueryView(table.operation, self._planner.schema(table.operation))
        self._catalogs.create_temporary_table(identifier, view, False)

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drops a temporary view. Returns False if there was none."""
        identifier = self._catalogs.qualify(parse_path(view_path))
        return self._catalogs.drop_temporary_table(identifier, True, is_view=True)

    def drop_temporary_table(self, table_path: str) -> bool:
        return self._catalogs.drop_temporary_table(self._catalogs.qualify(parse_path(table_path)), True)

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Registers a user-defined function for this session, in all databases."""
        self._functions.create_temporary_system_function(name, _function(name, function), False)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Registers a user-defined function for this session, in one database."""
        self._functions.create_temporary_function(parse_path(path), _function(path, function), False)

    def drop_temporary_system_function(self, name: str) -> bool:
        return self._functions.drop_temporary_system_function(name, True)

    def drop_temporary_function(self, path: str) -> bool:
        return self._functions.drop_temporary_function(parse_path(path), True)


class StreamTableEnvironment(TableEnvironment):
    """A TableEnvironment that exchanges tables and DataStreams with a StreamExecutionEnvironment."""

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Returns a new environment.

        Args:
            stream_execution_environment: runs the jobs; by default a new one.
            environment_settings: by default streaming mode, or the mode of the environment.
        """
        from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

        settings = _settings(environment_settings or EnvironmentSettings.new_instance().build())
        environment = stream_execution_environment
        if environment is None:
            environment = StreamExecutionEnvironment.get_execution_environment(settings.get_configuration())
        return StreamTableEnvironment(environment, settings)

    def from_data_stream(self, data_stream: DataStream, *fields_or_schema: Any) -> Table:
        """Returns the records of a stream as a table that is only appended to.

        A ROW or TUPLE has a column per field, any other type the column `f0`.

        Args:
            data_stream: a stream with a declared type.
            fields_or_schema: a Schema, which may rename nothing but add computed columns, a watermark, and the
                timestamps as `column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")`; or names for all columns.

        Raises: ValidationError if the stream has no declared type, or the schema names columns that it does not have.
        """
        return self._from_stream(data_stream, fields_or_schema, ChangelogMode.insert_only())

    def from_changelog_stream(
        self, data_stream: DataStream, schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Table:
        """Returns the table that a stream of Rows with their kinds describes.

        Args:
            data_stream: the changes.
            schema: as in `from_data_stream`; needed with a primary key for an upsert stream.
            changelog_mode: the kinds that occur; by default all.
        """
        return self._from_stream(
            data_stream, () if schema is None else (schema,), changelog_mode or ChangelogMode.all()
        )

    def _from_stream(self, data_stream: DataStream, fields: tuple[Any, ...], mode: ChangelogMode) -> Table:
        from flinkpy.sql.types.type_infos import logical_type_of_type_info
        from flinkpy.table.connectors.stream_table import StreamTableSource

        transformation = data_stream._transformation
        if transformation.output_type is None:
            raise ValidationError(
                "The stream has no declared type, so its records have no columns: pass output_type to its function."
            )
        found = logical_type_of_type_info(transformation.output_type)
        row_type = found if isinstance(found, LogicalRowType) else LogicalRowType.of(("f0", found))
        schema = fields[0] if len(fields) == 1 and isinstance(fields[0], Schema) else None
        names = list(row_type.names)
        if fields and schema is None:
            names = [str(each) for each in fields]
            if len(names) != len(row_type.fields):
                raise ValidationError(
                    f"{len(names)} names are given for the {len(row_type.fields)} columns of the stream."
                )
        row_type = LogicalRowType.of(*zip(names, row_type.children), nullable=False)
        whole, chosen = _schema_of_stream(row_type, schema)
        resolved = self._catalogs.resolve_schema(whole, "the stream")
        source = StreamTableSource(transformation, resolved.to_physical_row_type(), mode)
        table = self._inline_table(whole, resolved, source)
        return table if chosen is None else table.select(*map(col, chosen))

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Table | DataStream, *fields_or_schema: Any
    ) -> None:
        """Gives a Table or a DataStream a name for this session."""
        table: Any = table_or_data_stream
        if not isinstance(table, Table):
            table = self.from_data_stream(table, *fields_or_schema)
        super().create_temporary_view(view_path, table)

    def to_data_stream(self, table: Table) -> DataStream:
        """Returns the rows of a table as a stream of Rows. Raises: ValidationError if the table has updates."""
        from flinkpy.datastream.data_stream import DataStream

        transformation, changes = self._planner.translate_query(table.operation)
        if changes is not None:
            raise ValidationError(
                "Table sink doesn't support consuming update and delete changes: to_data_stream needs a table that is "
                "only appended to; use to_changelog_stream."
            )
        return DataStream(transformation, self._environment)

    def to_changelog_stream(self, table: Table) -> DataStream:
        """Returns the changes of a table as a stream of Rows with their RowKind."""
        from flinkpy.datastream.data_stream import DataStream

        transformation, _ = self._planner.translate_query(table.operation)
        return DataStream(transformation, self._environment)


def _settings(settings: EnvironmentSettings | Configuration) -> EnvironmentSettings:
    if isinstance(settings, Configuration):
        return EnvironmentSettings.from_configuration(settings)
    if not isinstance(settings, EnvironmentSettings):
        raise TypeError(f"environment_settings must be EnvironmentSettings or a Configuration, not {settings!r}")
    configuration = settings.get_configuration()
    if read_option(configuration, RUNTIME_MODE) == "AUTOMATIC":
        raise ValidationError(
            "Unsupported mode 'AUTOMATIC' for 'execution.runtime-mode'. Only an explicit BATCH or "
            "STREAMING mode is supported in Table API."
        )
    return settings


def _schema_of_stream(row_type: LogicalRowType, declared: Schema | None) -> tuple[Schema, list[str] | None]:
    """Returns the schema of a stream's columns, with the types and further columns that a program declares.

    Returns: the schema, and the columns of the table if they are not those of the schema in its order.

    Raises: ValidationError if the declared schema has a physical column that the stream does not have.

    Source: org.apache.flink.table.catalog.SchemaTranslator.createConsumingResult.
    """
    names = list(row_type.names)
    columns = () if declared is None else declared.columns
    physical = {each.name: each for each in columns if isinstance(each, UnresolvedPhysicalColumn)}
    unknown = [name for name in physical if name not in names]
    if unknown:
        raise ValidationError(
            f"Unable to find a field named '{unknown[0]}' in the physical data type derived from the given type "
            f"information for schema declaration. The stream has the columns {names}."
        )
    derived = Schema.new_builder().from_fields(names, list(row_type.children)).build().columns
    if declared is None:
        return Schema(derived, (), None), None
    others = [each for each in columns if each.name not in physical]
    whole = Schema(
        (*(physical.get(each.name, each) for each in derived), *others), declared.watermarks, declared.primary_key
    )
    chosen = [each.name for each in columns]
    is_whole = not physical or chosen == [each.name for each in whole.columns]
    return whole, None if is_whole else chosen


def _named(rows: pa.Table, schema: Any) -> tuple[pa.Table, Schema | None]:
    """Returns rows with the names of a schema, and the schema, from the forms that PyFlink takes."""
    if schema is None or isinstance(schema, Schema):
        return rows, schema
    if isinstance(schema, RowType):
        names = list(schema.field_names())
        types: list[Any] | None = list(schema.field_types())
    else:
        given = list(schema)
        are_names = all(isinstance(each, str) for each in given)
        names, types = (given, None) if are_names else (rows.column_names, given)
    if len(names) != rows.num_columns or (types is not None and len(types) != len(names)):
        raise ValidationError(f"The schema has {len(types or names)} columns, the rows have {rows.num_columns}.")
    renamed = rows.rename_columns(names)
    return renamed, None if types is None else Schema.new_builder().from_fields(names, types).build()


def _function(name: str, function: Any) -> CatalogFunction:
    if isinstance(function, str):
        return CatalogFunction(function)
    return CatalogFunction(name, "PYTHON", function)
