"""Nodes of queries and of what stands in FROM."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.sql.parser.nodes.base import Expression, Identifier, Node, Query, TableReference
from flinkpy.sql.parser.nodes.expressions import FunctionCall, IntervalLiteral, OrderItem, WindowSpecification


@dataclass(frozen=True, slots=True)
class HintOption(Node):
    """An option of a hint: `'key' = 'value'`, or a value alone where `key` is None."""

    key: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Hint(Node):
    """One hint of `/*+ ... */`."""

    name: str
    options: tuple[HintOption, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    """An expression of SELECT with its alias."""

    expression: Expression
    alias: Identifier | None = None


@dataclass(frozen=True, slots=True)
class GroupingSets(Expression):
    """GROUPING SETS, CUBE or ROLLUP in GROUP BY. Each element is an expression, a row of them, or another of these."""

    kind: str
    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class GroupBy(Node):
    """GROUP BY. `()`, the group of all rows, is an empty `RowConstructor`."""

    elements: tuple[Expression, ...]
    #: DISTINCT or ALL, or None where the text says neither.
    quantifier: str | None = None


@dataclass(frozen=True, slots=True)
class NamedWindow(Node):
    """WINDOW name AS (...)."""

    name: Identifier
    specification: WindowSpecification


@dataclass(frozen=True, slots=True)
class Select(Query):
    """SELECT ... FROM ... up to QUALIFY. ORDER BY and LIMIT are an `OrderedQuery` around it."""

    items: tuple[SelectItem, ...]
    from_: TableReference | None = None
    where: Expression | None = None
    group_by: GroupBy | None = None
    having: Expression | None = None
    windows: tuple[NamedWindow, ...] = ()
    qualify: Expression | None = None
    #: DISTINCT or ALL, or None where the text says neither.
    quantifier: str | None = None
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True, slots=True)
class Values(Query):
    """VALUES row, ... ; a row of one column may be written without parentheses."""

    rows: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ExplicitTable(Query):
    """TABLE t, as a query."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class SetOperation(Query):
    """UNION, INTERSECT or EXCEPT of two queries."""

    kind: str
    all: bool
    left: Query
    right: Query


@dataclass(frozen=True, slots=True)
class OrderedQuery(Query):
    """A query with ORDER BY, OFFSET or LIMIT. FETCH NEXT n ROWS ONLY is the same as LIMIT n."""

    query: Query
    order_by: tuple[OrderItem, ...] = ()
    offset: Expression | None = None
    limit: Expression | None = None


@dataclass(frozen=True, slots=True)
class CommonTable(Node):
    """name [(column, ...)] AS (query), in WITH."""

    name: Identifier
    query: Query
    columns: tuple[Identifier, ...] = ()


@dataclass(frozen=True, slots=True)
class With(Query):
    """WITH ... before a query."""

    tables: tuple[CommonTable, ...]
    query: Query
    recursive: bool = False


# References to tables ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedTable(TableReference):
    """A table or view by its name, with hints."""

    name: Identifier
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedTable(TableReference):
    """[LATERAL] (query)."""

    query: Query
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class TableFunction(TableReference):
    """[LATERAL] TABLE(f(...)), or f(...) directly in FROM."""

    call: FunctionCall
    lateral: bool = False
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True, slots=True)
class Unnest(TableReference):
    """UNNEST(collection, ...) [WITH ORDINALITY]."""

    collections: tuple[Expression, ...]
    with_ordinality: bool = False
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class AliasedTable(TableReference):
    """table [AS] alias [(column, ...)]."""

    table: TableReference
    alias: Identifier
    columns: tuple[Identifier, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot(TableReference):
    """table FOR SYSTEM_TIME AS OF time."""

    table: TableReference
    time: Expression


@dataclass(frozen=True, slots=True)
class TableSample(TableReference):
    """table TABLESAMPLE BERNOULLI or SYSTEM (percentage) [REPEATABLE (seed)]."""

    table: TableReference
    method: str
    percentage: Expression
    seed: Expression | None = None


@dataclass(frozen=True, slots=True)
class Join(TableReference):
    """A join of two tables. At most one of `condition` and `using` is set."""

    #: INNER, LEFT, RIGHT, FULL, LEFT SEMI, LEFT ANTI, CROSS, or COMMA for `a, b`.
    kind: str
    left: TableReference
    right: TableReference
    condition: Expression | None = None
    using: tuple[Identifier, ...] = ()
    natural: bool = False


# MATCH_RECOGNIZE -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    """Base class of row patterns."""


@dataclass(frozen=True, slots=True)
class PatternVariable(Pattern):
    """A pattern variable by its name."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class PatternConcatenation(Pattern):
    """Patterns one after the other."""

    elements: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class PatternAlternation(Pattern):
    """Patterns of which one must match, the first preferred."""

    alternatives: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class PatternQuantifier(Pattern):
    """A pattern repeated from `minimum` to `maximum` times; None is without a bound. `?` is 0 to 1, `{3}` is 3 to 3."""

    pattern: Pattern
    minimum: int
    maximum: int | None
    reluctant: bool = False


@dataclass(frozen=True, slots=True)
class PatternPermutation(Pattern):
    """PERMUTE(...): the patterns in any order."""

    elements: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class PatternExclusion(Pattern):
    """{- pattern -}: rows that are matched but not in the result."""

    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Measure(Node):
    """expression AS name, in MEASURES."""

    expression: Expression
    name: Identifier


@dataclass(frozen=True, slots=True)
class PatternSubset(Node):
    """name = (variable, ...), in SUBSET."""

    name: Identifier
    variables: tuple[Identifier, ...]


@dataclass(frozen=True, slots=True)
class PatternDefinition(Node):
    """variable AS condition, in DEFINE."""

    name: Identifier
    condition: Expression


@dataclass(frozen=True, slots=True)
class AfterMatch(Node):
    """AFTER MATCH SKIP."""

    #: TO NEXT ROW, PAST LAST ROW, TO FIRST or TO LAST.
    mode: str
    #: For TO FIRST and TO LAST.
    variable: Identifier | None = None


@dataclass(frozen=True, slots=True)
class MatchRecognize(TableReference):
    """table MATCH_RECOGNIZE (...)."""

    table: TableReference
    pattern: Pattern
    definitions: tuple[PatternDefinition, ...]
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    measures: tuple[Measure, ...] = ()
    #: True for ALL ROWS PER MATCH, False for ONE ROW PER MATCH, None where the text says neither.
    all_rows: bool | None = None
    after_match: AfterMatch | None = None
    #: Whether the pattern begins with `^` and ends with `$`.
    strict_start: bool = False
    strict_end: bool = False
    within: IntervalLiteral | None = None
    subsets: tuple[PatternSubset, ...] = ()
