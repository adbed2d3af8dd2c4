"""The way back from syntax trees to SQL text.

The text parses to an equal tree. It is one line, without comments, with keywords in capitals, and with parentheses only
where the tree needs them. Views are stored in this form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.sql.parser.nodes import (
    AddPartitions,
    AfterMatch,
    AliasedTable,
    Alter,
    AlterColumn,
    AlterFunction,
    AlterSchema,
    AnalyzeTable,
    Assignment,
    BeginStatementSet,
    Call,
    ChangeQuery,
    CommonTable,
    CompilePlan,
    ComputedColumn,
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Delete,
    DerivedTable,
    Describe,
    DescribeJob,
    Distribution,
    Drop,
    DropColumns,
    DropConstraint,
    DropDistribution,
    DropPartitions,
    DropPrimaryKey,
    DropWatermark,
    EndStatementSet,
    Execute,
    ExecutePlan,
    Explain,
    ExplicitTable,
    GroupBy,
    GroupingSets,
    Hint,
    HintOption,
    Insert,
    Jar,
    Join,
    LikeOption,
    LoadModule,
    MatchRecognize,
    Measure,
    MetadataColumn,
    NamedTable,
    NamedWindow,
    Node,
    Option,
    OptionKey,
    OrderedQuery,
    PartitionColumn,
    PartitionDefinition,
    PatternAlternation,
    PatternConcatenation,
    PatternDefinition,
    PatternExclusion,
    PatternPermutation,
    PatternQuantifier,
    PatternSubset,
    PatternVariable,
    PhysicalColumn,
    Query,
    QueryStatement,
    Refresh,
    RenameColumn,
    RenameTo,
    ResetOption,
    ResetOptions,
    Resource,
    ResumeRefresh,
    Select,
    SelectItem,
    SetComment,
    SetFreshness,
    SetOperation,
    SetOption,
    SetOptions,
    SetRefreshMode,
    Show,
    ShowCreate,
    ShowLike,
    Snapshot,
    Star,
    StartMode,
    StatementSet,
    StopJob,
    SuspendRefresh,
    TableConstraint,
    TableFunction,
    TableLike,
    TableReference,
    TableSample,
    TruncateTable,
    UnloadModule,
    Unnest,
    Update,
    Use,
    UseModules,
    Values,
    Watermark,
    With,
)
from flinkpy.sql.parser.unparse_expressions import WRITERS, is_plain_name, quoted_string, spaced, unparse

_PLAIN_OPTION = re.compile(r"[0-9]+")
_SET_POWERS = {"UNION": 1, "EXCEPT": 1, "INTERSECT": 2}


def _all(nodes: Iterable[Node]) -> str:
    return ", ".join(unparse(node) for node in nodes)


def _optional(keyword: str, node: Node | None) -> str:
    return f"{keyword} {unparse(node)}" if node is not None else ""


def _listed(keyword: str, nodes: tuple[Node, ...]) -> str:
    return f"{keyword} ({_all(nodes)})" if nodes else ""


def _comment(comment: str | None) -> str:
    return f"COMMENT {quoted_string(comment)}" if comment is not None else ""


__all__ = ["unparse"]

# Queries -------------------------------------------------------------------------------------------------------------


def _set_operation(node: SetOperation) -> str:
    # Long chains are deep on the left, so that side is a loop.
    parts: list[str] = []
    query: Query = node
    power = _SET_POWERS[node.kind]
    while isinstance(query, SetOperation) and _SET_POWERS[query.kind] >= power:
        power = _SET_POWERS[query.kind]
        parts.append(_operand(query.right, power + 1))
        parts.append(query.kind + (" ALL" if query.all else ""))
        query = query.left
    parts.append(_operand(query, power))
    return " ".join(reversed(parts))


def _operand(query: Query, power: int) -> str:
    if isinstance(query, (With, OrderedQuery)) or (isinstance(query, SetOperation) and _SET_POWERS[query.kind] < power):
        return f"({unparse(query)})"
    return unparse(query)


def _ordered_query(node: OrderedQuery) -> str:
    query = unparse(node.query)
    return spaced(
        f"({query})" if isinstance(node.query, OrderedQuery) else query,
        f"ORDER BY {_all(node.order_by)}" if node.order_by else "",
        _optional("LIMIT", node.limit),
        _optional("OFFSET", node.offset),
    )


def _with(node: With) -> str:
    keyword = "WITH RECURSIVE" if node.recursive else "WITH"
    return f"{keyword} {_all(node.tables)} {_operand(node.query, 0)}"


def _select(node: Select) -> str:
    return spaced(
        "SELECT",
        _hints(node.hints),
        node.quantifier or "",
        _all(node.items),
        _optional("FROM", node.from_),
        _optional("WHERE", node.where),
        _optional("GROUP BY", node.group_by),
        _optional("HAVING", node.having),
        f"WINDOW {_all(node.windows)}" if node.windows else "",
        _optional("QUALIFY", node.qualify),
    )


def _hints(hints: tuple[Hint, ...]) -> str:
    return f"/*+ {_all(hints)} */" if hints else ""


def _hint_option(node: HintOption) -> str:
    if node.key is None:
        return _hint_word(node.value)
    return (
        f"{_hint_word(node.key) if is_plain_name(node.key) else quoted_string(node.key)} = {quoted_string(node.value)}"
    )


def _hint_word(word: str) -> str:
    return word if is_plain_name(word) or _PLAIN_OPTION.fullmatch(word) else quoted_string(word)


# Tables in FROM ------------------------------------------------------------------------------------------------------


def _join(node: Join) -> str:
    parts: list[str] = []
    table: TableReference = node
    while isinstance(table, Join):
        if table.kind == "COMMA":
            parts.append(f", {unparse(table.right)}")
        else:
            right = unparse(table.right)
            natural = "NATURAL " if table.natural else ""
            parts.append(
                spaced(
                    f" {natural}{table.kind} JOIN",
                    f"({right})" if isinstance(table.right, Join) else right,
                    _optional("ON", table.condition),
                    _listed("USING", table.using),
                )
            )
        table = table.left
    return unparse(table) + "".join(reversed(parts))


def _table_function(node: TableFunction) -> str:
    call = unparse(node.call)
    # LATERAL needs TABLE; elsewhere it may be left out, unless a keyword is the name.
    return spaced("LATERAL" if node.lateral else "", f"TABLE({call})", _hints(node.hints))


def _match_recognize(node: MatchRecognize) -> str:
    rows = "" if node.all_rows is None else "ALL ROWS PER MATCH" if node.all_rows else "ONE ROW PER MATCH"
    pattern = spaced("^" if node.strict_start else "", unparse(node.pattern), "$" if node.strict_end else "")
    body = spaced(
        f"PARTITION BY {_all(node.partition_by)}" if node.partition_by else "",
        f"ORDER BY {_all(node.order_by)}" if node.order_by else "",
        f"MEASURES {_all(node.measures)}" if node.measures else "",
        rows,
        unparse(node.after_match) if node.after_match else "",
        f"PATTERN ({pattern})",
        _optional("WITHIN", node.within),
        f"SUBSET {_all(node.subsets)}" if node.subsets else "",
        f"DEFINE {_all(node.definitions)}",
    )
    return f"{unparse(node.table)} MATCH_RECOGNIZE ({body})"


def _pattern_part(node: Node) -> str:
    text = unparse(node)
    simple = (PatternVariable, PatternExclusion, PatternPermutation)
    return text if isinstance(node, simple) else f"({text})"


def _concatenation(node: PatternConcatenation) -> str:
    return " ".join(
        unparse(each) if isinstance(each, PatternQuantifier) else _pattern_part(each) for each in node.elements
    )


def _alternation(node: PatternAlternation) -> str:
    return " | ".join(
        f"({unparse(each)})" if isinstance(each, PatternAlternation) else unparse(each) for each in node.alternatives
    )


def _quantifier(node: PatternQuantifier) -> str:
    bounds = (node.minimum, node.maximum)
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(bounds)
    if short is None:
        upper = "" if node.maximum is None else str(node.maximum)
        short = f"{{{node.minimum}}}" if node.minimum == node.maximum else f"{{{node.minimum},{upper}}}"
    return f"{_pattern_part(node.pattern)}{short}{'?' if node.reluctant else ''}"


# Parts of tables -----------------------------------------------------------------------------------------------------


def _enforcement(enforced: bool | None) -> str:
    return "" if enforced is None else "ENFORCED" if enforced else "NOT ENFORCED"


def _constraint(node: TableConstraint) -> str:
    columns = f"({_all(node.columns)})" if node.columns else ""
    return spaced(_optional("CONSTRAINT", node.name), node.kind, columns, _enforcement(node.enforced))


def _physical_column(node: PhysicalColumn) -> str:
    constraint = unparse(node.constraint) if node.constraint else ""
    return spaced(unparse(node.name), unparse(node.type), constraint, _comment(node.comment))


def _metadata_column(node: MetadataColumn) -> str:
    return spaced(
        unparse(node.name),
        unparse(node.type),
        "METADATA",
        f"FROM {quoted_string(node.metadata_key)}" if node.metadata_key is not None else "",
        "VIRTUAL" if node.virtual else "",
        _comment(node.comment),
    )


def _distribution(node: Distribution) -> str:
    buckets = f"INTO {node.buckets} BUCKETS" if node.buckets is not None else ""
    if not node.columns:
        return buckets
    return spaced("BY", node.kind or "", f"({_all(node.columns)})", buckets)


def _schema(node: CreateTable | CreateMaterializedTable) -> str:
    elements = [*node.columns, *([node.watermark] if node.watermark else []), *node.constraints]
    return f"({_all(elements or node.column_names)})" if elements or node.column_names else ""


def _table_clauses(node: CreateTable | CreateMaterializedTable) -> str:
    return spaced(
        unparse(node.name),
        _schema(node),
        _comment(node.comment),
        _optional("DISTRIBUTED", node.distribution),
        _listed("PARTITIONED BY", node.partitioned_by),
        _listed("WITH", node.options),
    )


# Statements ----------------------------------------------------------------------------------------------------------


def _create_table(node: CreateTable) -> str:
    return spaced(
        node.mode,
        "TEMPORARY" if node.temporary else "",
        "TABLE",
        "IF NOT EXISTS" if node.if_not_exists else "",
        _table_clauses(node),
        _optional("LIKE", node.like),
        _optional("AS", node.query),
    )


def _create_materialized_table(node: CreateMaterializedTable) -> str:
    return spaced(
        "CREATE OR ALTER MATERIALIZED TABLE" if node.or_alter else "CREATE MATERIALIZED TABLE",
        _table_clauses(node),
        _optional("START_MODE =", node.start_mode),
        _optional("FRESHNESS =", node.freshness),
        f"REFRESH_MODE = {node.refresh_mode}" if node.refresh_mode else "",
        f"AS {unparse(node.query)}",
    )


def _create_view(node: CreateView) -> str:
    return spaced(
        "CREATE OR REPLACE" if node.or_replace else "CREATE",
        "TEMPORARY" if node.temporary else "",
        "VIEW",
        "IF NOT EXISTS" if node.if_not_exists else "",
        unparse(node.name),
        f"({_all(node.columns)})" if node.columns else "",
        _comment(node.comment),
        f"AS {unparse(node.query)}",
    )


def _create_object(kind: str) -> Callable[[CreateDatabase | CreateCatalog], str]:
    def write(node: CreateDatabase | CreateCatalog) -> str:
        return spaced(
            f"CREATE {kind}",
            "IF NOT EXISTS" if node.if_not_exists else "",
            unparse(node.name),
            _comment(node.comment),
            _listed("WITH", node.options),
        )

    return write


def _scope(temporary: bool, system: bool) -> str:
    return spaced("TEMPORARY" if temporary else "", "SYSTEM" if system else "")


def _create_function(node: CreateFunction) -> str:
    return spaced(
        "CREATE",
        _scope(node.temporary, node.system),
        "FUNCTION",
        "IF NOT EXISTS" if node.if_not_exists else "",
        unparse(node.name),
        f"AS {quoted_string(node.class_name)}",
        f"LANGUAGE {node.language}" if node.language else "",
        f"USING {_all(node.resources)}" if node.resources else "",
        _listed("WITH", node.options),
    )


def _create_model(node: CreateModel) -> str:
    return spaced(
        "CREATE",
        _scope(node.temporary, False),
        "MODEL",
        "IF NOT EXISTS" if node.if_not_exists else "",
        unparse(node.name),
        _listed("INPUT", node.inputs),
        _listed("OUTPUT", node.outputs),
        _comment(node.comment),
        _listed("WITH", node.options),
        _optional("AS", node.query),
    )


def _create_connection(node: CreateConnection) -> str:
    return spaced(
        "CREATE",
        _scope(node.temporary, node.system),
        "CONNECTION",
        "IF NOT EXISTS" if node.if_not_exists else "",
        unparse(node.name),
        _comment(node.comment),
        f"WITH ({_all(node.options)})",
    )


def _drop(node: Drop) -> str:
    cascade = "" if node.cascade is None else "CASCADE" if node.cascade else "RESTRICT"
    exists = "IF EXISTS" if node.if_exists else ""
    return spaced("DROP", _scope(node.temporary, node.system), node.kind, exists, unparse(node.name), cascade)


def _alter(node: Alter) -> str:
    exists = "IF EXISTS" if node.if_exists else ""
    return spaced("ALTER", node.kind, exists, unparse(node.name), unparse(node.action))


def _alter_schema(node: AlterSchema) -> str:
    elements = [unparse(each) for each in (*node.columns, *node.constraints)]
    if node.watermark is not None:
        elements.append(unparse(node.watermark))
    if node.distribution is not None:
        elements.append(f"DISTRIBUTION {unparse(node.distribution)}")
    text = ", ".join(elements)
    return f"{node.verb} {text}" if len(elements) == 1 else f"{node.verb} ({text})"


def _alter_column(node: AlterColumn) -> str:
    return spaced(unparse(node.column), "FIRST" if node.first else "", _optional("AFTER", node.after))


def _alter_function(node: AlterFunction) -> str:
    return spaced(
        "ALTER",
        _scope(node.temporary, node.system),
        "FUNCTION",
        "IF EXISTS" if node.if_exists else "",
        unparse(node.name),
        f"AS {quoted_string(node.class_name)}",
        f"LANGUAGE {node.language}" if node.language else "",
    )


def _partitions(node: AddPartitions | DropPartitions) -> str:
    if isinstance(node, AddPartitions):
        partitions = " ".join(unparse(each) for each in node.partitions)
        return spaced("ADD", "IF NOT EXISTS" if node.if_not_exists else "", partitions)
    return spaced("DROP", "IF EXISTS" if node.if_exists else "", _all(node.partitions))


def _analyze(node: AnalyzeTable) -> str:
    columns = ""
    if node.columns:
        columns = "FOR ALL COLUMNS" if isinstance(node.columns[0], Star) else f"FOR COLUMNS {_all(node.columns)}"
    return spaced(
        f"ANALYZE TABLE {unparse(node.table)}",
        _listed("PARTITION", node.partition),
        "COMPUTE STATISTICS",
        columns,
    )


def _insert(node: Insert) -> str:
    return spaced(
        "UPSERT" if node.upsert else "INSERT",
        "OVERWRITE" if node.overwrite else "INTO",
        unparse(node.table),
        _hints(node.hints),
        _listed("PARTITION", node.partition),
        f"({_all(node.columns)})" if node.columns else "",
        unparse(node.query),
        f"ON CONFLICT DO {node.on_conflict}" if node.on_conflict else "",
    )


def _update(node: Update) -> str:
    where = _optional("WHERE", node.where)
    return spaced(f"UPDATE {unparse(node.table)} SET {_all(node.assignments)}", where)


def _compile_plan(node: CompilePlan) -> str:
    return spaced(
        "COMPILE AND EXECUTE PLAN" if node.execute else "COMPILE PLAN",
        quoted_string(node.path),
        "IF NOT EXISTS" if node.if_not_exists else "",
        f"FOR {unparse(node.statement)}",
    )


def _explain(node: Explain) -> str:
    return spaced("EXPLAIN", ", ".join(node.details), unparse(node.statement))


def _describe(node: Describe) -> str:
    kind = "" if node.kind == "TABLE" else node.kind
    return spaced("DESCRIBE", kind, "EXTENDED" if node.extended else "", unparse(node.name))


def _show(node: Show) -> str:
    container = unparse(node.container) if node.container else ""
    if container and node.kind != "PARTITIONS":
        container = f"FROM {container}"
    like = unparse(node.like) if node.like else ""
    return spaced(f"SHOW {node.kind}", container, _listed("PARTITION", node.partition), like)


def _show_like(node: ShowLike) -> str:
    keyword = "ILIKE" if node.ignore_case else "LIKE"
    return spaced("NOT" if node.negated else "", keyword, quoted_string(node.pattern))


def _use(node: Use) -> str:
    return spaced("USE", "CATALOG" if node.kind == "CATALOG" else "", unparse(node.name))


def _set(node: SetOption) -> str:
    if node.key is None or node.value is None:
        return "SET"
    return f"SET {quoted_string(node.key)} = {quoted_string(node.value)}"


def _stop_job(node: StopJob) -> str:
    return spaced(
        f"STOP JOB {quoted_string(node.job_id)}",
        "WITH SAVEPOINT" if node.with_savepoint else "",
        "WITH DRAIN" if node.with_drain else "",
    )


def _explicit(node: ExplicitTable) -> str:
    return f"TABLE {unparse(node.name)}"


_STATEMENT_WRITERS: dict[type, Callable[[Any], str]] = {
    # Queries
    SetOperation: _set_operation,
    OrderedQuery: _ordered_query,
    With: _with,
    CommonTable: lambda node: spaced(
        unparse(node.name), f"({_all(node.columns)})" if node.columns else "", f"AS ({unparse(node.query)})"
    ),
    Select: _select,
    SelectItem: lambda node: spaced(unparse(node.expression), _optional("AS", node.alias)),
    GroupBy: lambda node: spaced(node.quantifier or "", _all(node.elements)),
    GroupingSets: lambda node: f"{node.kind} ({_all(node.elements)})",
    NamedWindow: lambda node: f"{unparse(node.name)} AS {unparse(node.specification)}",
    Hint: lambda node: node.name + (f"({_all(node.options)})" if node.options else ""),
    HintOption: _hint_option,
    Values: lambda node: f"VALUES {_all(node.rows)}",
    ExplicitTable: _explicit,
    # Tables in FROM
    NamedTable: lambda node: spaced(unparse(node.name), _hints(node.hints)),
    DerivedTable: lambda node: spaced("LATERAL" if node.lateral else "", f"({unparse(node.query)})"),
    TableFunction: _table_function,
    Unnest: lambda node: spaced(
        "LATERAL" if node.lateral else "",
        f"UNNEST({_all(node.collections)})",
        "WITH ORDINALITY" if node.with_ordinality else "",
    ),
    AliasedTable: lambda node: spaced(
        unparse(node.table), f"AS {unparse(node.alias)}", f"({_all(node.columns)})" if node.columns else ""
    ),
    Snapshot: lambda node: f"{unparse(node.table)} FOR SYSTEM_TIME AS OF {unparse(node.time)}",
    TableSample: lambda node: spaced(
        f"{unparse(node.table)} TABLESAMPLE {node.method}({unparse(node.percentage)})",
        f"REPEATABLE({unparse(node.seed)})" if node.seed is not None else "",
    ),
    Join: _join,
    MatchRecognize: _match_recognize,
    Measure: lambda node: f"{unparse(node.expression)} AS {unparse(node.name)}",
    AfterMatch: lambda node: spaced(f"AFTER MATCH SKIP {node.mode}", unparse(node.variable) if node.variable else ""),
    PatternSubset: lambda node: f"{unparse(node.name)} = ({_all(node.variables)})",
    PatternDefinition: lambda node: f"{unparse(node.name)} AS {unparse(node.condition)}",
    PatternVariable: lambda node: unparse(node.name),
    PatternConcatenation: _concatenation,
    PatternAlternation: _alternation,
    PatternQuantifier: _quantifier,
    PatternPermutation: lambda node: f"PERMUTE({_all(node.elements)})",
    PatternExclusion: lambda node: f"{{- {unparse(node.pattern)} -}}",
    # Parts of tables
    Option: lambda node: f"{quoted_string(node.key)} = {quoted_string(node.value)}",
    OptionKey: lambda node: quoted_string(node.key),
    PartitionColumn: lambda node: spaced(unparse(node.column), _optional("=", node.value)),
    PartitionDefinition: lambda node: spaced(_listed("PARTITION", node.partition), _listed("WITH", node.options)),
    TableConstraint: _constraint,
    PhysicalColumn: _physical_column,
    MetadataColumn: _metadata_column,
    ComputedColumn: lambda node: spaced(f"{unparse(node.name)} AS {unparse(node.expression)}", _comment(node.comment)),
    Watermark: lambda node: f"WATERMARK FOR {unparse(node.column)} AS {unparse(node.expression)}",
    Distribution: _distribution,
    TableLike: lambda node: spaced(
        unparse(node.table), f"({' '.join(unparse(each) for each in node.options)})" if node.options else ""
    ),
    LikeOption: lambda node: f"{node.strategy} {node.feature}",
    StartMode: lambda node: node.kind + (f"({unparse(node.argument)})" if node.argument is not None else ""),
    Resource: lambda node: f"{node.kind} {quoted_string(node.path)}",
    # Definitions
    CreateTable: _create_table,
    CreateMaterializedTable: _create_materialized_table,
    CreateView: _create_view,
    CreateDatabase: _create_object("DATABASE"),
    CreateCatalog: _create_object("CATALOG"),
    CreateFunction: _create_function,
    CreateModel: _create_model,
    CreateConnection: _create_connection,
    Drop: _drop,
    Alter: _alter,
    AlterFunction: _alter_function,
    RenameTo: lambda node: f"RENAME TO {unparse(node.new_name)}",
    RenameColumn: lambda node: f"RENAME {unparse(node.column)} TO {unparse(node.new_name)}",
    SetOptions: lambda node: f"SET ({_all(node.options)})",
    ResetOptions: lambda node: f"RESET ({_all(node.keys)})",
    SetComment: lambda node: f"COMMENT {quoted_string(node.comment)}",
    AlterSchema: _alter_schema,
    AlterColumn: _alter_column,
    DropColumns: lambda node: f"DROP ({_all(node.columns)})",
    DropPrimaryKey: lambda node: "DROP PRIMARY KEY",
    DropConstraint: lambda node: f"DROP CONSTRAINT {unparse(node.name)}",
    DropWatermark: lambda node: "DROP WATERMARK",
    DropDistribution: lambda node: "DROP DISTRIBUTION",
    AddPartitions: _partitions,
    DropPartitions: _partitions,
    ChangeQuery: lambda node: f"AS {unparse(node.query)}",
    SuspendRefresh: lambda node: "SUSPEND",
    ResumeRefresh: lambda node: spaced("RESUME", _listed("WITH", node.options)),
    Refresh: lambda node: spaced("REFRESH", _listed("PARTITION", node.partition)),
    SetFreshness: lambda node: f"SET FRESHNESS = {unparse(node.freshness)}",
    SetRefreshMode: lambda node: f"SET REFRESH_MODE = {node.refresh_mode}",
    AnalyzeTable: _analyze,
    # Other statements
    QueryStatement: lambda node: unparse(node.query),
    Insert: _insert,
    Assignment: lambda node: f"{unparse(node.column)} = {unparse(node.value)}",
    Update: _update,
    Delete: lambda node: spaced(f"DELETE FROM {unparse(node.table)}", _optional("WHERE", node.where)),
    TruncateTable: lambda node: f"TRUNCATE TABLE {unparse(node.table)}",
    StatementSet: lambda node: f"STATEMENT SET BEGIN {' '.join(f'{unparse(each)};' for each in node.inserts)} END",
    BeginStatementSet: lambda node: "BEGIN STATEMENT SET",
    EndStatementSet: lambda node: "END",
    Execute: lambda node: f"EXECUTE {unparse(node.statement)}",
    ExecutePlan: lambda node: f"EXECUTE PLAN {quoted_string(node.path)}",
    CompilePlan: _compile_plan,
    Call: lambda node: f"CALL {unparse(node.call)}",
    Explain: _explain,
    Describe: _describe,
    DescribeJob: lambda node: f"DESCRIBE JOB {quoted_string(node.job_id)}",
    Show: _show,
    ShowLike: _show_like,
    ShowCreate: lambda node: f"SHOW CREATE {node.kind} {unparse(node.name)}",
    Use: _use,
    UseModules: lambda node: f"USE MODULES {_all(node.names)}",
    LoadModule: lambda node: spaced(f"LOAD MODULE {unparse(node.name)}", _listed("WITH", node.options)),
    UnloadModule: lambda node: f"UNLOAD MODULE {unparse(node.name)}",
    SetOption: _set,
    ResetOption: lambda node: f"RESET {quoted_string(node.key)}" if node.key is not None else "RESET",
    Jar: lambda node: f"{node.verb} JAR {quoted_string(node.path)}",
    StopJob: _stop_job,
}

WRITERS.update(_STATEMENT_WRITERS)
