"""Nodes of statements that run queries, change rows, and look at or configure the session."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.sql.parser.nodes.base import Expression, Identifier, Node, Query, Statement, TableReference
from flinkpy.sql.parser.nodes.definitions import Option, PartitionColumn
from flinkpy.sql.parser.nodes.expressions import FunctionCall
from flinkpy.sql.parser.nodes.queries import Hint


@dataclass(frozen=True, slots=True)
class QueryStatement(Statement):
    """A query by itself."""

    query: Query


# Statements that change rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO or INSERT OVERWRITE."""

    table: Identifier
    query: Query
    columns: tuple[Identifier, ...] = ()
    partition: tuple[PartitionColumn, ...] = ()
    overwrite: bool = False
    hints: tuple[Hint, ...] = ()
    #: ON CONFLICT DO: NOTHING, ERROR or DEDUPLICATE.
    on_conflict: str | None = None
    #: True for UPSERT INTO, which the planner refuses as Flink's does.
    upsert: bool = False


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    """column = expression, in UPDATE."""

    column: Identifier
    value: Expression


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE."""

    table: TableReference
    assignments: tuple[Assignment, ...]
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM."""

    table: TableReference
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class TruncateTable(Statement):
    """TRUNCATE TABLE."""

    table: Identifier


@dataclass(frozen=True, slots=True)
class StatementSet(Statement):
    """STATEMENT SET BEGIN insert; ... END."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class BeginStatementSet(Statement):
    """BEGIN STATEMENT SET, of the SQL client: the inserts follow as statements of their own."""


@dataclass(frozen=True, slots=True)
class EndStatementSet(Statement):
    """END, of the SQL client."""


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    """EXECUTE of a query, an insert or a statement set."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class ExecutePlan(Statement):
    """EXECUTE PLAN 'path'."""

    path: str


@dataclass(frozen=True, slots=True)
class CompilePlan(Statement):
    """COMPILE PLAN 'path' [IF NOT EXISTS] FOR ..., and COMPILE AND EXECUTE PLAN 'path' FOR ..."""

    path: str
    statement: Statement
    if_not_exists: bool = False
    execute: bool = False


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """CALL procedure(...)."""

    call: FunctionCall


# Statements that look at things --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN [PLAN FOR | detail, ...] of a statement."""

    statement: Statement
    #: ESTIMATED_COST, CHANGELOG_MODE, JSON_EXECUTION_PLAN and PLAN_ADVICE, in the order as written.
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE or DESC of an object."""

    #: TABLE, CATALOG, DATABASE, FUNCTION, MODEL or CONNECTION.
    kind: str
    name: Identifier
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeJob(Statement):
    """DESCRIBE JOB 'id'."""

    job_id: str


@dataclass(frozen=True, slots=True)
class ShowLike(Node):
    """[NOT] LIKE or ILIKE 'pattern'."""

    pattern: str
    negated: bool = False
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW of a list of objects."""

    #: CATALOGS, CURRENT CATALOG, DATABASES, CURRENT DATABASE, TABLES, VIEWS, MATERIALIZED TABLES, FUNCTIONS,
    #: USER FUNCTIONS, PROCEDURES, MODELS, CONNECTIONS, COLUMNS, PARTITIONS, MODULES, FULL MODULES, JARS or JOBS.
    kind: str
    #: The catalog, database or table whose objects are asked for.
    container: Identifier | None = None
    like: ShowLike | None = None
    #: For PARTITIONS.
    partition: tuple[PartitionColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowCreate(Statement):
    """SHOW CREATE of an object."""

    #: TABLE, VIEW, MATERIALIZED TABLE, CATALOG, MODEL or CONNECTION.
    kind: str
    name: Identifier


# Statements that configure the session -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE [CATALOG] name."""

    #: CATALOG or DATABASE.
    kind: str
    name: Identifier


@dataclass(frozen=True, slots=True)
class UseModules(Statement):
    """USE MODULES name, ..."""

    names: tuple[Identifier, ...]


@dataclass(frozen=True, slots=True)
class LoadModule(Statement):
    """LOAD MODULE name [WITH (...)]."""

    name: Identifier
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class UnloadModule(Statement):
    """UNLOAD MODULE name."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """SET 'key' = 'value'; without a key it lists the options."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetOption(Statement):
    """RESET 'key'; without a key it resets all options."""

    key: str | None = None


@dataclass(frozen=True, slots=True)
class Jar(Statement):
    """ADD JAR or REMOVE JAR 'path'."""

    #: ADD or REMOVE.
    verb: str
    path: str


@dataclass(frozen=True, slots=True)
class StopJob(Statement):
    """STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]."""

    job_id: str
    with_savepoint: bool = False
    with_drain: bool = False
