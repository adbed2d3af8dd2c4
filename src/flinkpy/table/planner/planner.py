"""Planner: from syntax trees to logical plans, and from logical plans to Transformations and texts.

Source: org.apache.flink.table.planner.delegation.{PlannerBase, StreamPlanner, BatchPlanner}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.configuration.execution_options import RUNTIME_MODE
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import (
    AGG_PHASE_STRATEGY,
    ASYNC_SCALAR_CAPACITY,
    ASYNC_SCALAR_MAX_ATTEMPTS,
    ASYNC_SCALAR_RETRY_DELAY,
    ASYNC_SCALAR_RETRY_STRATEGY,
    ASYNC_SCALAR_TIMEOUT,
    IDLE_TIMEOUT,
    INCREMENTAL_AGG_ENABLED,
    INTERVAL_JOIN_MIN_CLEANUP_INTERVAL,
    LOCAL_TIME_ZONE,
    MINI_BATCH_ALLOW_LATENCY,
    MINI_BATCH_ENABLED,
    MINI_BATCH_SIZE,
    NONDETERMINISTIC_UPDATE_STRATEGY,
    RESOURCE_DEFAULT_PARALLELISM,
    SINK_KEYED_SHUFFLE,
    SINK_NOT_NULL_ENFORCER,
    SINK_REQUIRE_ON_CONFLICT,
    SINK_TYPE_LENGTH_ENFORCER,
    STATE_TTL,
    UID_FORMAT,
    UID_GENERATION,
    UPSERT_MATERIALIZE,
)
from flinkpy.graph.table_specs import MiniBatch, SessionSettings
from flinkpy.graph.transformation import Transformation
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import RexNode
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.abilities import Overwrite, WritingMetadata
from flinkpy.table.connectors.changelog_mode import ChangelogMode
from flinkpy.table.planner import explain as texts
from flinkpy.table.planner import row_level_changes as row_changes
from flinkpy.table.planner.advice import advice_texts, advised_nodes
from flinkpy.table.planner.batch.final_rows import with_final_rows
from flinkpy.table.planner.batch.program import plan_batch
from flinkpy.table.planner.binder.data_types import logical_type
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.functions import FunctionCatalog, FunctionResolver
from flinkpy.table.planner.binder.queries import QueryBinder
from flinkpy.table.planner.binder.refusals import check_supported
from flinkpy.table.planner.binder.scans import TableExpansion
from flinkpy.table.planner.binder.schemas import SchemaBinder
from flinkpy.table.planner.changelog.determinism import checked_for_determinism
from flinkpy.table.planner.changelog.inference import infer_changelog_modes
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, changelog_mode
from flinkpy.table.planner.constant_values import constant_value
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_regular
from flinkpy.table.planner.operation_tree_builder import OperationTreeBuilder
from flinkpy.table.planner.overwrites import check_overwrites
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.builder import PhysicalBuilder
from flinkpy.table.planner.physical.incremental_aggregates import with_incremental_aggregates
from flinkpy.table.planner.physical.mini_batch_joins import with_mini_batch_joins
from flinkpy.table.planner.physical.translation import (
    AsyncScalarSettings,
    TranslationSettings,
    Translator,
)
from flinkpy.table.planner.physical.two_phase import in_two_phases
from flinkpy.table.planner.plans.compiler import PlanCompiler
from flinkpy.table.planner.plans.plan_graph import PlanGraph
from flinkpy.table.planner.plans.uids import Uids
from flinkpy.table.planner.rules.optimizer_settings import OptimizerSettings
from flinkpy.table.planner.rules.program import optimise
from flinkpy.table.planner.rules.reuse import Reuse, share_equal_parts
from flinkpy.table.planner.sink_rows import check_targets, fitted_to_sink
from flinkpy.table.schema import Schema


class Planner:
    """The planner of one TableEnvironment.

    Args:
        catalog_manager: finds tables and views.
        functions: finds user-defined functions; None for built-in ones only.
        table_config: the TableConfig of the session. Options are read for each statement.
        create_source, create_sink: make a connector from (ContextResolvedTable, configuration, is bounded);
            None for the factories that are installed.
        parallelism: returns the parallelism of the next job.
    """

    def __init__(
        self,
        catalog_manager: Any,
        functions: FunctionCatalog | None,
        table_config: Any,
        create_source: Callable[..., Any] | None = None,
        create_sink: Callable[..., Any] | None = None,
        parallelism: Callable[[], int] = lambda: 1,
    ) -> None:
        self._parallelism = parallelism
        self._create_source = create_source
        self._create_sink = create_sink
        self._catalogs = catalog_manager
        self._functions = FunctionResolver(functions)
        self._config = table_config

    # -- settings ----------------------------------------------------------------------------------------------------

    @property
    def _configuration(self) -> Any:
        return self._config.get_configuration()

    @property
    def settings(self) -> SessionSettings:
        """The session's settings, on which values of expressions depend."""
        return SessionSettings(self._config.get_local_timezone())

    @property
    def is_streaming(self) -> bool:
        return bool(read_option(self._configuration, RUNTIME_MODE) != "BATCH")

    def _context(self) -> PlannerContext:
        from flinkpy.sql.parser import parse_query
        from flinkpy.table.connectors.registry import create_sink, create_source

        configuration, is_bounded = self._configuration, not self.is_streaming
        make_source = self._create_source or create_source
        make_sink = self._create_sink or create_sink
        return PlannerContext(
            self._catalogs,
            self._functions,
            self.settings,
            configuration,
            lambda table: make_source(table, configuration, is_bounded),
            lambda table: make_sink(table, configuration, is_bounded),
            parse_query,
            self.is_streaming,
        )

    def _translation_settings(self, planned: dict[str, str] | None = None) -> TranslationSettings:
        """Returns the settings of operators: those of the session, or those that a compiled plan was made with."""
        configuration, zone = self._configuration, self._config.get_local_timezone()
        if planned is not None:
            configuration = Configuration(configuration)
            for key in filter(_is_of_operators, configuration.key_set()):
                configuration.remove_config(key)
            for key, value in planned.items():
                configuration.set_string(key, value)
            zone = planned.get(LOCAL_TIME_ZONE.key, zone)
        mini_batch = None
        threads = read_option(configuration, RESOURCE_DEFAULT_PARALLELISM)
        if self.is_streaming and read_option(configuration, MINI_BATCH_ENABLED):
            size = read_option(configuration, MINI_BATCH_SIZE)
            latency = read_option(configuration, MINI_BATCH_ALLOW_LATENCY)
            if size <= 0 or latency <= 0:
                raise ValidationError(
                    f"{MINI_BATCH_ENABLED.key} needs {MINI_BATCH_SIZE.key} and {MINI_BATCH_ALLOW_LATENCY.key} above 0."
                )
            mini_batch = MiniBatch(size, latency)
        return TranslationSettings(
            SessionSettings(zone),
            mini_batch,
            read_option(configuration, STATE_TTL),
            read_option(configuration, IDLE_TIMEOUT),
            read_option(configuration, INTERVAL_JOIN_MIN_CLEANUP_INTERVAL),
            max(threads if threads > 0 else self._parallelism(), 1),
            not self.is_streaming,
            self._parallelism(),
            read_option(configuration, SINK_NOT_NULL_ENFORCER),
            read_option(configuration, SINK_TYPE_LENGTH_ENFORCER),
            read_option(configuration, SINK_KEYED_SHUFFLE),
            AsyncScalarSettings(
                read_option(configuration, ASYNC_SCALAR_CAPACITY),
                read_option(configuration, ASYNC_SCALAR_TIMEOUT),
                read_option(configuration, ASYNC_SCALAR_MAX_ATTEMPTS)
                if read_option(configuration, ASYNC_SCALAR_RETRY_STRATEGY) == "FIXED_DELAY"
                else 0,
                read_option(configuration, ASYNC_SCALAR_RETRY_DELAY),
            ),
        )

    # -- schemas -----------------------------------------------------------------------------------------------------

    def resolve_schema(self, schema: Schema, description: str) -> ResolvedSchema:
        """Returns the schema with types and bound expressions. Raises: ValidationError, which names the column."""
        return SchemaBinder(self._context()).resolve(schema, description)

    def bind_type(self, node: ast.DataType) -> LogicalType:
        """Returns the type of a column definition."""
        return logical_type(node)

    def bind_view(self, query: ast.Query) -> ResolvedSchema:
        """Returns the schema of a view's query."""
        return self.schema(self.bind(query))

    def row_type(self, operation: rel.RelNode) -> RowType:
        """Returns the rows of a query."""
        return operation.row_type

    def schema(self, operation: rel.RelNode) -> ResolvedSchema:
        """Returns the rows of a query as a schema."""
        return ResolvedSchema.of_row(operation.row_type)

    def builtin_functions(self) -> list[str]:
        """Returns the names of built-in functions, in order."""
        return self._functions.builtin_names()

    # -- binding -----------------------------------------------------------------------------------------------------

    def bind(self, query: ast.Query) -> rel.RelNode:
        """Returns the logical plan of a query. Raises: ValidationError, with the place of the culprit."""
        check_supported(query)
        return QueryBinder(self._context()).bind(query)

    def constant(self, node: ast.Expression) -> Any:
        """Returns the Python value of an expression without columns. Raises: ValidationError if it has some."""
        queries = QueryBinder(self._context())
        return constant_value(ExpressionBinder(queries, queries.scope([], None)).bind(node), self.settings)

    def operation_tree_builder(self) -> OperationTreeBuilder:
        """Returns what makes plans of the methods of Table."""
        return OperationTreeBuilder(self._context())

    def scan(self, table: ContextResolvedTable) -> rel.RelNode:
        """Returns the plan that reads a table, which need not be in a catalog."""
        return TableExpansion(QueryBinder(self._context())).scan(table)

    def bind_insert(self, statement: ast.Insert) -> rel.Sink:
        """Returns the logical plan of INSERT. Raises: ValidationError if the query does not fit the table."""
        check_supported(statement)
        context = self._context()
        table = self._table(statement.table, statement.table.parts)
        query = QueryBinder(context).bind(statement.query)
        options = {
            option.key: option.value
            for hint in statement.hints
            if hint.name.upper() == "OPTIONS"
            for option in hint.options
            if option.key is not None
        }
        if options and isinstance(table.table, CatalogTable):
            table = replace(table, table=replace(table.table, options={**table.options, **options}))
        partition: dict[str, RexNode] = {}
        binder = ExpressionBinder(QueryBinder(context), QueryBinder(context).scope([], None))
        for given in statement.partition:
            if given.value is not None:
                partition[given.column.last] = binder.bind(given.value)
        if statement.on_conflict is not None and not self.is_streaming:
            raise invalid(statement, "ON CONFLICT is supported in streaming mode only")
        columns = tuple(each.last for each in statement.columns)
        check_targets(statement, table)
        return self._sink(
            table, query, columns, partition, overwrite=statement.overwrite, on_conflict=statement.on_conflict
        )

    def bind_row_changes(self, statement: ast.Update | ast.Delete) -> rel.Sink:
        """Returns the plan of DELETE or UPDATE. Raises: ValidationError, UnsupportedOperationError."""
        check_supported(statement)
        table = self.table_of_changes(statement, row_changes.target_of(statement).name)
        changes = row_changes.changes_of(statement, table)
        # A table that cannot be changed is refused before its rows are asked for.
        row_changes.sink_of(self._context().create_sink(table), changes.action, table)
        plan = changes.plan(self.bind(changes.query))
        found = self._sink(table, plan, (), {}, overwrite=False)
        return replace(found, sink=row_changes.sink_of(found.sink, changes.action, table))

    def table_of_changes(self, statement: ast.Statement, name: ast.Identifier) -> ContextResolvedTable:
        """Returns the table whose rows a statement changes. Raises: ValidationError if there is none."""
        table = self._table(name, name.parts)
        row_changes.check_no_view(table, statement)
        return table

    def truncate(self, statement: ast.TruncateTable) -> None:
        """Deletes all rows of a table. Raises: UnsupportedOperationError if its connector cannot."""
        table = self.table_of_changes(statement, statement.table)
        row_changes.truncate(self._context().create_sink(table), table)

    def insert_into(self, parts: tuple[str, ...], query: rel.RelNode, *, overwrite: bool = False) -> rel.Sink:
        """Returns the plan that writes a query to a table."""
        return self._sink(self._table(None, parts), query, (), {}, overwrite=overwrite)

    def insert_into_table(
        self, table: ContextResolvedTable, query: rel.RelNode, *, overwrite: bool = False
    ) -> rel.Sink:
        """Returns the plan that writes a query to a table, which need not be in a catalog."""
        return self._sink(table, query, (), {}, overwrite=overwrite)

    def stored_row_type(self, operation: rel.RelNode) -> RowType:
        """Returns the rows of a query as a table can store them: event and processing times are plain timestamps."""
        fields = operation.row_type.fields
        return RowType(tuple(replace(each, type=as_regular(each.type)) for each in fields), nullable=False)

    def insert_by_name(self, table: ContextResolvedTable, query: rel.RelNode) -> rel.Sink:
        """Returns the plan that writes the columns of a query to those of the same names, and NULL to the others."""
        written = table.resolved_schema.to_sink_row_type().names
        places = [place for place, name in enumerate(query.names) if name in written]
        chosen = query
        if len(places) < query.width:
            references = query.references()
            chosen = rel.Project(
                query, tuple(references[each] for each in places), tuple(query.names[each] for each in places)
            )
        return self._sink(table, chosen, chosen.names, {}, overwrite=False)

    def is_insert(self, operation: rel.RelNode) -> bool:
        """True for the plan of an INSERT."""
        return isinstance(operation, rel.Sink)

    def sink_name(self, operation: rel.Sink) -> str:
        """Returns the full name of the table that an INSERT writes to."""
        return operation.name

    def _table(self, node: ast.Node | None, parts: tuple[str, ...]) -> ContextResolvedTable:
        try:
            table: ContextResolvedTable = self._catalogs.get_table_or_error(parts)
        except ValidationError as error:
            if node is None:
                raise
            raise invalid(node, error.message) from error
        return table

    def _sink(
        self,
        table: ContextResolvedTable,
        query: rel.RelNode,
        columns: tuple[str, ...],
        partition: dict[str, RexNode],
        *,
        overwrite: bool,
        on_conflict: str | None = None,
    ) -> rel.Sink:
        name = table.identifier.as_summary_string()
        sink = self._context().create_sink(table)
        metadata = tuple(
            column.key  # type: ignore[attr-defined]
            for column in table.resolved_schema.columns
            if column.is_persisted and not column.is_physical
        )
        abilities: tuple[Any, ...] = ()
        if metadata:
            abilities += (WritingMetadata(metadata),)
            sink = sink.with_metadata(metadata)
            if sink is None:
                raise ValidationError(f"The sink of table '{name}' does not support metadata columns.")
        if overwrite:
            abilities += (Overwrite(),)
            sink = sink.with_overwrite()
            if sink is None:
                raise ValidationError(
                    f"INSERT OVERWRITE requires that the underlying DynamicTableSink of table '{name}' supports it."
                )
        row_type = table.resolved_schema.to_sink_row_type()
        # The statement names columns in the order of their declaration; connectors get metadata columns last.
        declared = tuple(column.name for column in table.resolved_schema.columns if column.is_persisted)
        plan = fitted_to_sink(query, row_type, name, columns or declared, partition)
        key = table.resolved_schema.primary_key
        places = () if key is None else tuple(row_type.names.index(each) for each in key.columns)
        static = tuple(partition.items())
        return rel.Sink(plan, table, sink, name, places, on_conflict, row_type, abilities, static)

    # -- planning ----------------------------------------------------------------------------------------------------

    def _physical(self, operations: Sequence[rel.RelNode], **options: Any) -> list[ph.PhysicalNode]:
        context = self._context()
        materialize = read_option(self._configuration, UPSERT_MATERIALIZE)
        check_overwrites(operations)
        requires_clause = self.is_streaming and read_option(self._configuration, SINK_REQUIRE_ON_CONFLICT)
        settings = OptimizerSettings.of(self._configuration, context.settings, is_streaming=self.is_streaming)
        plans = []
        for operation in operations:
            optimised = optimise(operation, settings)
            if not context.is_streaming:
                optimised = plan_batch(optimised, context)
            built = PhysicalBuilder(context).build(optimised)
            if not context.is_streaming:
                built = with_final_rows(built)
            plan = infer_changelog_modes(
                built, upsert_materialize=materialize, require_on_conflict=requires_clause, **options
            )
            if self.is_streaming:
                plan = self._checked(plan)
            if self._uses_mini_batches():
                plan = with_mini_batch_joins(plan)
            if self._uses_two_phases():
                plan = in_two_phases(plan)
                if read_option(self._configuration, INCREMENTAL_AGG_ENABLED):
                    plan = with_incremental_aggregates(plan)
            plans.append(plan)
        return plans

    def _checked(self, plan: ph.PhysicalNode) -> ph.PhysicalNode:
        """Returns the plan, mended if the session asks for it, or warns of updates that may be wrong."""
        if read_option(self._configuration, NONDETERMINISTIC_UPDATE_STRATEGY) == "TRY_RESOLVE":
            return checked_for_determinism(plan)
        try:
            mended = checked_for_determinism(plan)
        except TableProgramError as error:
            _LOG.warning("%s\n%s", error.message, _STRATEGY_HINT)
        else:
            if mended is not plan:
                _LOG.warning(
                    "A lookup join gets updates and may find other rows for them than it has sent before.\n%s\n%s",
                    _STRATEGY_HINT,
                    texts.physical_text(mended, changelog=True),
                )
        return plan

    def _uses_mini_batches(self) -> bool:
        return self.is_streaming and bool(read_option(self._configuration, MINI_BATCH_ENABLED))

    def _shared(self, plans: Sequence[ph.PhysicalNode]) -> list[ph.PhysicalNode]:
        """Returns the plans with equal parts as one, as far as the options allow it."""
        return share_equal_parts(plans, Reuse.of(self._configuration))

    def _uses_two_phases(self) -> bool:
        return self._uses_mini_batches() and read_option(self._configuration, AGG_PHASE_STRATEGY) != "ONE_PHASE"

    def translate(self, operations: Sequence[rel.RelNode]) -> list[Transformation]:
        """Returns the sinks of INSERTs as Transformations.

        Raises:
            TableProgramError: a query cannot be run as a stream, or its sink cannot take the changes.
        """
        plans = self._shared(self._physical(operations))
        uids = None
        if read_option(self._configuration, UID_GENERATION) == "ALWAYS":
            uids = self._uids(PlanGraph.of(plans, is_streaming=self.is_streaming, options={}))
        translator = Translator(self._translation_settings(), uids)
        return [translator.translate(each) for each in plans]

    def _uids(self, graph: PlanGraph) -> Uids:
        return Uids(graph, read_option(self._configuration, UID_FORMAT))

    # -- compiled plans ----------------------------------------------------------------------------------------------

    def compile_plan(self, operations: Sequence[rel.RelNode]) -> str:
        """Returns the compiled plan of INSERTs as JSON text.

        Raises: UnsupportedOperationError if a plan cannot hold what the INSERTs use.
        """
        if not self.is_streaming:
            raise TableProgramError("The compiled plan feature is not supported in batch mode.")
        options = {key: value for key, value in self._configuration.to_dict().items() if _is_of_operators(key)}
        options[LOCAL_TIME_ZONE.key] = self._config.get_local_timezone()
        return PlanCompiler(self._context()).compile(self._shared(self._physical(operations)), options)

    def load_plan(self, text: str) -> PlanGraph:
        """Returns the plan of a JSON text. Raises: TableProgramError if it cannot be run in this session."""
        return PlanCompiler(self._context()).load(text)

    def translate_plan(self, plan: PlanGraph) -> list[Transformation]:
        """Returns the sinks of a compiled plan as Transformations, with the options that were set for it."""
        is_disabled = read_option(self._configuration, UID_GENERATION) == "DISABLED"
        translator = Translator(self._translation_settings(plan.options), None if is_disabled else self._uids(plan))
        return [translator.translate(each) for each in plan.roots]

    def explain_plan(self, plan: PlanGraph) -> str:
        """Returns the operators of a compiled plan."""
        return "== Optimized Execution Plan ==\n" + texts.execution_text(plan.roots)

    def translate_query(self, operation: rel.RelNode) -> tuple[Transformation, ChangelogMode | None]:
        """Returns the rows of a query, and their changes; None for the changes of a table that is only appended to."""
        plan = self._shared(self._physical([operation], requires_update_before=True))[0]
        transformation = Translator(self._translation_settings()).renamed(plan, operation.names)
        if plan.modify_kinds == INSERT_ONLY:
            return transformation, None
        return transformation, changelog_mode(plan.modify_kinds, plan.update_kind)

    def explain(self, operations: Sequence[rel.RelNode], details: Sequence[str] = ()) -> str:
        """Returns the plans as EXPLAIN writes them, without JSON_EXECUTION_PLAN, which needs a job."""
        is_changelog, has_advice = "CHANGELOG_MODE" in details, "PLAN_ADVICE" in details
        plans = self._physical(operations)
        parts = ["== Abstract Syntax Tree =="]
        parts += [texts.logical_text(each) for each in operations]
        parts.append(f"== Optimized Physical Plan{' With Advice' if has_advice else ''} ==")
        advised = advised_nodes(plans) if has_advice else set()
        parts += [texts.physical_text(each, changelog=is_changelog, advised=advised) for each in plans]
        if has_advice:
            parts += [*advice_texts(plans, self._configuration), ""]
        if "ESTIMATED_COST" in details:
            parts.append("The planner applies rules in a fixed order and estimates no row counts and costs.\n")
        parts.append("== Optimized Execution Plan ==")
        parts.append(texts.execution_text(self._shared(plans)))
        return "\n".join(parts)

    def physical_text(self, operations: Sequence[rel.RelNode], *, changelog: bool = True) -> str:
        """Returns the optimised physical plans alone."""
        return "\n".join(texts.physical_text(each, changelog=changelog) for each in self._physical(operations))


_LOG = logging.getLogger(__name__)
_STRATEGY_HINT = (
    f"Set '{NONDETERMINISTIC_UPDATE_STRATEGY.key}' to 'TRY_RESOLVE' to have such a query mended where that is "
    "possible, and refused otherwise."
)


def _is_of_operators(key: str) -> bool:
    """True for an option that operators depend on, which a compiled plan therefore keeps."""
    return key.startswith("table.exec.") and not key.startswith("table.exec.uid.")
