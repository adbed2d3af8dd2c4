"""Nodes of statements that define, change and drop objects of a catalog."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.sql.parser.nodes.base import DataType, Expression, Identifier, Node, Query, Statement
from flinkpy.sql.parser.nodes.expressions import IntervalLiteral, Star

# Parts of definitions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option(Node):
    """'key' = 'value', in WITH and SET."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class OptionKey(Node):
    """'key', in RESET."""

    key: str


@dataclass(frozen=True, slots=True)
class PartitionColumn(Node):
    """column = literal, in PARTITION. `value` is None where only the column is named."""

    column: Identifier
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class TableConstraint(Node):
    """A key of a table, or of one column if it stands behind that column."""

    #: PRIMARY KEY or UNIQUE.
    kind: str
    #: Empty behind a column.
    columns: tuple[Identifier, ...] = ()
    name: Identifier | None = None
    #: True for ENFORCED, False for NOT ENFORCED, None where the text says neither.
    enforced: bool | None = None


@dataclass(frozen=True, slots=True)
class ColumnDefinition(Node):
    """Base class of the three kinds of columns."""


@dataclass(frozen=True, slots=True)
class PhysicalColumn(ColumnDefinition):
    """name type [constraint] [COMMENT '...']. ALTER TABLE may name a field of a row by a name of several parts."""

    name: Identifier
    type: DataType
    constraint: TableConstraint | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataColumn(ColumnDefinition):
    """name type METADATA [FROM 'key'] [VIRTUAL] [COMMENT '...']."""

    name: Identifier
    type: DataType
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn(ColumnDefinition):
    """name AS expression [COMMENT '...']."""

    name: Identifier
    expression: Expression
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Watermark(Node):
    """WATERMARK FOR column AS expression."""

    column: Identifier
    expression: Expression


@dataclass(frozen=True, slots=True)
class Distribution(Node):
    """BY [HASH | RANGE] (column, ...) [INTO n BUCKETS], or INTO n BUCKETS."""

    #: HASH, RANGE, or None where the text says neither.
    kind: str | None = None
    columns: tuple[Identifier, ...] = ()
    buckets: int | None = None


@dataclass(frozen=True, slots=True)
class LikeOption(Node):
    """INCLUDING, EXCLUDING or OVERWRITING a feature of the other table."""

    strategy: str
    #: ALL, CONSTRAINTS, DISTRIBUTION, GENERATED, METADATA, OPTIONS, PARTITIONS or WATERMARKS.
    feature: str


@dataclass(frozen=True, slots=True)
class TableLike(Node):
    """LIKE table [(option ...)]."""

    table: Identifier
    options: tuple[LikeOption, ...] = ()


# CREATE --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE TABLE, with LIKE or AS, and [CREATE OR] REPLACE TABLE ... AS."""

    name: Identifier
    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()
    watermark: Watermark | None = None
    comment: str | None = None
    distribution: Distribution | None = None
    partitioned_by: tuple[Identifier, ...] = ()
    options: tuple[Option, ...] = ()
    like: TableLike | None = None
    query: Query | None = None
    #: Names in parentheses without types, which reorder the columns of the query.
    column_names: tuple[Identifier, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False
    #: "CREATE", "CREATE OR REPLACE" or "REPLACE".
    mode: str = "CREATE"


@dataclass(frozen=True, slots=True)
class CreateMaterializedTable(Statement):
    """CREATE [OR ALTER] MATERIALIZED TABLE."""

    name: Identifier
    query: Query
    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()
    watermark: Watermark | None = None
    column_names: tuple[Identifier, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None
    partitioned_by: tuple[Identifier, ...] = ()
    options: tuple[Option, ...] = ()
    freshness: IntervalLiteral | None = None
    #: FULL or CONTINUOUS.
    refresh_mode: str | None = None
    start_mode: StartMode | None = None
    or_alter: bool = False


@dataclass(frozen=True, slots=True)
class StartMode(Node):
    """START_MODE of a materialized table: the point in the history of its sources where its pipeline begins."""

    #: FROM_BEGINNING, FROM_NOW or FROM_TIMESTAMP, or one of these behind RESUME_OR_.
    kind: str
    #: The time for FROM_TIMESTAMP; an optional interval for FROM_NOW.
    argument: Expression | None = None


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] [TEMPORARY] VIEW."""

    name: Identifier
    query: Query
    columns: tuple[Identifier, ...] = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """CREATE DATABASE."""

    name: Identifier
    comment: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateCatalog(Statement):
    """CREATE CATALOG."""

    name: Identifier
    comment: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Resource(Node):
    """JAR '...' or ARTIFACT '...', in USING."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION."""

    name: Identifier
    class_name: str
    #: JAVA, SCALA, SQL or PYTHON, or None where the text does not say.
    language: str | None = None
    resources: tuple[Resource, ...] = ()
    options: tuple[Option, ...] = ()
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateModel(Statement):
    """CREATE [TEMPORARY] MODEL."""

    name: Identifier
    inputs: tuple[ColumnDefinition, ...] = ()
    outputs: tuple[ColumnDefinition, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    query: Query | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnection(Statement):
    """CREATE [TEMPORARY [SYSTEM]] CONNECTION."""

    name: Identifier
    options: tuple[Option, ...]
    comment: str | None = None
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False


# DROP ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP of an object of any kind."""

    #: TABLE, VIEW, MATERIALIZED TABLE, DATABASE, CATALOG, FUNCTION, MODEL or CONNECTION.
    kind: str
    name: Identifier
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    #: For databases: True for CASCADE, False for RESTRICT, None where the text says neither.
    cascade: bool | None = None


# ALTER ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterAction(Node):
    """Base class of the changes that ALTER makes to an object."""


@dataclass(frozen=True, slots=True)
class Alter(Statement):
    """ALTER of an object of any kind but a function."""

    #: TABLE, VIEW, MATERIALIZED TABLE, DATABASE, CATALOG, MODEL or CONNECTION.
    kind: str
    name: Identifier
    action: AlterAction
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTo(AlterAction):
    """RENAME TO name."""

    new_name: Identifier


@dataclass(frozen=True, slots=True)
class RenameColumn(AlterAction):
    """RENAME column TO name."""

    column: Identifier
    new_name: Identifier


@dataclass(frozen=True, slots=True)
class SetOptions(AlterAction):
    """SET ('key' = 'value', ...)."""

    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class ResetOptions(AlterAction):
    """RESET ('key', ...)."""

    keys: tuple[OptionKey, ...]


@dataclass(frozen=True, slots=True)
class SetComment(AlterAction):
    """COMMENT '...', of a catalog."""

    comment: str


@dataclass(frozen=True, slots=True)
class AlterColumn(Node):
    """A column of ADD or MODIFY, with FIRST or AFTER another one."""

    column: ColumnDefinition
    first: bool = False
    after: Identifier | None = None


@dataclass(frozen=True, slots=True)
class AlterSchema(AlterAction):
    """ADD or MODIFY of columns, constraints and the watermark, or of the distribution."""

    #: ADD or MODIFY.
    verb: str
    columns: tuple[AlterColumn, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()
    watermark: Watermark | None = None
    distribution: Distribution | None = None


@dataclass(frozen=True, slots=True)
class DropColumns(AlterAction):
    """DROP column, or DROP (column, ...)."""

    columns: tuple[Identifier, ...]


@dataclass(frozen=True, slots=True)
class DropPrimaryKey(AlterAction):
    """DROP PRIMARY KEY."""


@dataclass(frozen=True, slots=True)
class DropConstraint(AlterAction):
    """DROP CONSTRAINT name."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class DropWatermark(AlterAction):
    """DROP WATERMARK."""


@dataclass(frozen=True, slots=True)
class DropDistribution(AlterAction):
    """DROP DISTRIBUTION."""


@dataclass(frozen=True, slots=True)
class PartitionDefinition(Node):
    """PARTITION (column = literal, ...) [WITH (...)]."""

    partition: tuple[PartitionColumn, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class AddPartitions(AlterAction):
    """ADD [IF NOT EXISTS] PARTITION ..."""

    partitions: tuple[PartitionDefinition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions(AlterAction):
    """DROP [IF EXISTS] PARTITION ..., PARTITION ..."""

    partitions: tuple[PartitionDefinition, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeQuery(AlterAction):
    """AS query, of a view or a materialized table."""

    query: Query


@dataclass(frozen=True, slots=True)
class SuspendRefresh(AlterAction):
    """SUSPEND, of a materialized table."""


@dataclass(frozen=True, slots=True)
class ResumeRefresh(AlterAction):
    """RESUME [WITH (...)], of a materialized table."""

    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Refresh(AlterAction):
    """REFRESH [PARTITION (...)], of a materialized table."""

    partition: tuple[PartitionColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class SetFreshness(AlterAction):
    """SET FRESHNESS = INTERVAL ..., of a materialized table."""

    freshness: IntervalLiteral


@dataclass(frozen=True, slots=True)
class SetRefreshMode(AlterAction):
    """SET REFRESH_MODE = FULL or CONTINUOUS, of a materialized table."""

    refresh_mode: str


@dataclass(frozen=True, slots=True)
class AlterFunction(Statement):
    """ALTER [TEMPORARY [SYSTEM]] FUNCTION."""

    name: Identifier
    class_name: str
    language: str | None = None
    temporary: bool = False
    system: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AnalyzeTable(Statement):
    """ANALYZE TABLE ... COMPUTE STATISTICS."""

    table: Identifier
    partition: tuple[PartitionColumn, ...] = ()
    #: FOR COLUMNS a, b; FOR ALL COLUMNS is a `Star`.
    columns: tuple[Identifier | Star, ...] = ()
