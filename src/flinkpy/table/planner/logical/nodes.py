"""RelNode: the nodes of a logical plan, which say what rows a query has and not how they are computed.

Nodes are immutable. They are compared by identity, since one node may stand at several places of a plan.

Source: org.apache.calcite.rel.RelNode, org.apache.flink.table.planner.plan.nodes.logical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from flinkpy.cep.pattern import Pattern
from flinkpy.graph.table_specs import (
    DEFAULT_WATERMARK_PARAMS,
    EngineFiles,
    EngineFunction,
    EngineTable,
    JoinType,
    SortField,
    SourceWatermarks,
    WatermarkParams,
)
from flinkpy.sql.rex import AggregateCall, InputRef, Literal, RexNode
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType

#: A hint of a query: its name and its options. An option without a key is one of a list.
Hint = tuple[str, tuple[tuple[str | None, str], ...]]


@dataclass(frozen=True, eq=False)
class RelNode:
    """The base class."""

    @property
    def inputs(self) -> tuple[RelNode, ...]:
        return ()

    @cached_property
    def row_type(self) -> RowType:
        """The type of the rows. The names of its fields are unique."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        return self.row_type.names

    def type_of(self, column: int) -> LogicalType:
        return self.row_type.fields[column].type

    @property
    def width(self) -> int:
        return len(self.row_type.fields)

    def with_inputs(self, inputs: tuple[RelNode, ...]) -> RelNode:
        """Returns the node above other inputs."""
        return self

    def references(self) -> tuple[RexNode, ...]:
        """Returns one InputRef per column."""
        return tuple(InputRef(each.type, place) for place, each in enumerate(self.row_type.fields))


@dataclass(frozen=True, eq=False)
class _OneInput(RelNode):
    input: RelNode

    @property
    def inputs(self) -> tuple[RelNode, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[RelNode, ...]) -> RelNode:
        return self if inputs[0] is self.input else replace(self, input=inputs[0])

    @cached_property
    def row_type(self) -> RowType:
        return self.input.row_type


@dataclass(frozen=True, eq=False)
class Scan(RelNode):
    """Reads a table.

    Attributes:
        table: the ContextResolvedTable.
        source: the connector's DynamicTableSource, as far as rules have pushed something into it.
        type: the rows of the source.
        pushed: what was pushed into the source, for plans, such as `filter=[...]`.
        abilities: what was pushed into the source, as `flinkpy.table.connectors.abilities`.
        watermarks: those that the source makes; None if a WatermarkAssigner does, or nobody.
    """

    table: Any
    source: Any
    type: RowType
    pushed: tuple[str, ...] = ()
    abilities: tuple[Any, ...] = ()
    watermarks: SourceWatermarks | None = None

    @cached_property
    def row_type(self) -> RowType:
        return self.type


@dataclass(frozen=True, eq=False)
class Values(RelNode):
    """Literal rows."""

    rows: tuple[tuple[Literal, ...], ...]
    type: RowType

    @cached_property
    def row_type(self) -> RowType:
        return self.type


@dataclass(frozen=True, eq=False)
class Project(_OneInput):
    """Computes one column per expression."""

    expressions: tuple[RexNode, ...]
    field_names: tuple[str, ...]

    @cached_property
    def row_type(self) -> RowType:
        return row_of(self.field_names, tuple(each.type for each in self.expressions))


@dataclass(frozen=True, eq=False)
class Filter(_OneInput):
    """Keeps rows for which the condition is true."""

    condition: RexNode


@dataclass(frozen=True, eq=False)
class WatermarkAssigner(_OneInput):
    """Makes a column the event time attribute of the rows.

    Attributes:
        params: how watermarks are emitted.
    """

    rowtime: int
    watermark: RexNode
    params: WatermarkParams = DEFAULT_WATERMARK_PARAMS

    @cached_property
    def row_type(self) -> RowType:
        from flinkpy.table.planner.logical.time import as_rowtime

        fields = list(self.input.row_type.fields)
        fields[self.rowtime] = replace(fields[self.rowtime], type=as_rowtime(fields[self.rowtime].type))
        return RowType(tuple(fields), nullable=False)


@dataclass(frozen=True, eq=False)
class Snapshot(_OneInput):
    """FOR SYSTEM_TIME AS OF: the table as of the time that the other input of the join has.

    Attributes:
        period: the time, an OuterRef to the other input or a constant.
        key: of a temporal table function the column whose rows are versions of one another; None for a table that
            declares or has a key.
    """

    period: RexNode
    key: int | None = None


@dataclass(frozen=True, eq=False)
class _TwoInputs(RelNode):
    left: RelNode
    right: RelNode
    join_type: JoinType
    condition: RexNode

    @property
    def inputs(self) -> tuple[RelNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[RelNode, ...]) -> RelNode:
        if inputs[0] is self.left and inputs[1] is self.right:
            return self
        return replace(self, left=inputs[0], right=inputs[1])

    @cached_property
    def row_type(self) -> RowType:
        return join_row_type(self.left.row_type, self.right.row_type, self.join_type)


class ChainRole(Enum):
    """The part of a join in a chain of joins that one operator may compute."""

    NONE = "NONE"
    #: Its left input is the first input of a chain.
    FIRST = "FIRST"
    #: Its left input is a join of the same chain, if both have a common key.
    NEXT = "NEXT"


@dataclass(frozen=True, eq=False)
class Join(_TwoInputs):
    """A join. The condition is over the columns of both inputs.

    Attributes:
        hints: (name, options) of the hints that apply to it.
        chain: its role in a multi-way join.
    """

    hints: tuple[Hint, ...] = ()
    chain: ChainRole = ChainRole.NONE


@dataclass(frozen=True, eq=False)
class Correlate(_OneInput):
    """Joins each row with the rows that a table function returns for it.

    Attributes:
        call: over the columns of the input.
        function_type: the rows of the function.
        condition: over the columns of the input, then those of the function; None for none.
    """

    call: RexNode
    function_type: RowType
    join_type: JoinType = JoinType.INNER
    condition: RexNode | None = None

    @cached_property
    def row_type(self) -> RowType:
        return join_row_type(self.input.row_type, self.function_type, self.join_type)


@dataclass(frozen=True, eq=False)
class MLPredict(Correlate):
    """Adds the predictions of a model to each row. The model must not see a row twice, so rows are never taken back."""


@dataclass(frozen=True, eq=False)
class VectorSearch(Correlate):
    """Adds the most similar rows of a table to each row. Later searches may find others: rows are never taken back."""


@dataclass(frozen=True, eq=False)
class ProcessTableFunction(_OneInput):
    """Calls a process table function with row semantics.

    Attributes:
        function: what the operator calls.
        invocation: the call as plans show it.
        type: the rows of the result.
        takes_changes: True if the input may have updates, of which the function sees the rows before and after.
        emits_changes: True if the result has all kinds of changes.
    """

    function: Any
    invocation: str
    type: RowType
    takes_changes: bool
    emits_changes: bool

    @cached_property
    def row_type(self) -> RowType:
        return self.type


@dataclass(frozen=True, eq=False)
class RowLevelChange(ProcessTableFunction):
    """Makes deletions or updates of the rows of a batch query, when it has read all of them."""


@dataclass(frozen=True, eq=False)
class LateralJoin(_TwoInputs):
    """A join with a query that refers to the columns of the left input by OuterRef. A rule replaces it by joins.

    Attributes:
        correlation: the id of the OuterRefs.
    """

    correlation: int


@dataclass(frozen=True, eq=False)
class Aggregate(_OneInput):
    """GROUP BY. Emits the grouping columns, then one column per aggregate.

    Attributes:
        grouping: input columns.
        grouping_sets: for GROUPING SETS, CUBE and ROLLUP the sets, as parts of `grouping`; None for one set of all.
        state_ttl_ms: the time-to-live of a STATE_TTL hint; None for `table.exec.state.ttl`.
        partial_final: PARTIAL or FINAL for the parts of an aggregation of distinct values that was split.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    state_ttl_ms: int | None = None
    partial_final: str | None = None

    @cached_property
    def row_type(self) -> RowType:
        fields = self.input.row_type.fields
        names = [fields[place].name for place in self.grouping]
        types = [fields[place].type for place in self.grouping]
        if self.grouping_sets is not None:
            always = set.intersection(*(set(each) for each in self.grouping_sets)) if self.grouping_sets else set()
            types = [
                kind if place in always else kind.as_nullable()
                for place, kind in zip(self.grouping, types, strict=True)
            ]
        names += [each.name for each in self.aggregates]
        types += [each.type for each in self.aggregates]
        return row_of(tuple(names), tuple(types))


@dataclass(frozen=True, eq=False)
class TableAggregate(_OneInput):
    """A table aggregate function over groups. Emits the grouping columns, then the fields of the function's rows.

    Attributes:
        grouping: input columns.
        call: the function, whose type is the ARRAY of its rows.
        rows: the type of the rows.
    """

    grouping: tuple[int, ...]
    call: AggregateCall
    rows: RowType

    @cached_property
    def row_type(self) -> RowType:
        return table_aggregate_type(self.input.row_type, self.grouping, self.rows)


@dataclass(frozen=True, slots=True)
class Window:
    """A window function and its sizes.

    Attributes:
        kind: TUMBLE, HOP, CUMULATE or SESSION.
        size_ms, slide_ms, offset_ms: as in WindowSlices.
        partition: the PARTITION BY columns of SESSION.
        is_zoned: as in WindowSlices.
    """

    kind: str
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    partition: tuple[int, ...] = ()
    is_zoned: bool = False


@dataclass(frozen=True, eq=False)
class WindowTableFunction(_OneInput):
    """TUMBLE, HOP, CUMULATE or SESSION in FROM: appends window_start, window_end and window_time."""

    window: Window
    time_column: int

    @cached_property
    def row_type(self) -> RowType:
        from flinkpy.table.planner.logical.time import window_columns

        fields = self.input.row_type.fields
        added = window_columns(fields[self.time_column].type)
        names = unique_names((*(each.name for each in fields), *(name for name, _ in added)))
        return row_of(names, (*(each.type for each in fields), *(kind for _, kind in added)))


@dataclass(frozen=True, eq=False)
class GroupWindowAggregate(_OneInput):
    """A legacy group window: TUMBLE, HOP or SESSION in GROUP BY.

    Emits the grouping columns, the aggregates and the auxiliary columns.

    Attributes:
        properties: the auxiliary columns with their types: start, end, rowtime, proctime.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: Window
    time_column: int
    properties: tuple[tuple[str, LogicalType], ...]

    @cached_property
    def row_type(self) -> RowType:
        fields = self.input.row_type.fields
        names = [fields[place].name for place in self.grouping] + [each.name for each in self.aggregates]
        types = [fields[place].type for place in self.grouping] + [each.type for each in self.aggregates]
        names += [f"w${name}" for name, _ in self.properties]
        types += [kind for _, kind in self.properties]
        return row_of(tuple(names), tuple(types))


@dataclass(frozen=True, slots=True)
class OverGroup:
    """OVER aggregates with one window. Bounds are as in `OverWindow`."""

    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    is_rows: bool
    lower: int | None
    upper: int | None
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True, eq=False)
class OverAggregate(_OneInput):
    """OVER aggregates. Emits the input columns, then one column per aggregate of each group."""

    groups: tuple[OverGroup, ...]

    @cached_property
    def row_type(self) -> RowType:
        fields = self.input.row_type.fields
        calls = [call for group in self.groups for call in group.aggregates]
        names = [each.name for each in fields] + [each.name for each in calls]
        return row_of(unique_names(tuple(names)), (*(each.type for each in fields), *(each.type for each in calls)))


@dataclass(frozen=True, eq=False)
class Rank(_OneInput):
    """The rows of each partition with a rank from `start` to `end`, or to the value of the column `end_column`.

    Attributes:
        rank_name: the name of the rank column; None if it is not in the output.
    """

    function: str
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    start: int
    end: int | None
    rank_name: str | None
    rank_type: LogicalType
    end_column: int | None = None

    @cached_property
    def row_type(self) -> RowType:
        fields = self.input.row_type.fields
        if self.rank_name is None:
            return self.input.row_type
        names = unique_names((*(each.name for each in fields), self.rank_name))
        return row_of(names, (*(each.type for each in fields), self.rank_type))


@dataclass(frozen=True, eq=False)
class Match(_OneInput):
    """MATCH_RECOGNIZE with ONE ROW PER MATCH. Emits the partition columns, then the measures.

    Attributes:
        pattern: the variables, the time limit, and where to go on after a match.
        definitions: (variable, condition) pairs. A variable without one takes any row.
        measures: (name, value) pairs.
    """

    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    pattern: Pattern
    definitions: tuple[tuple[str, RexNode], ...]
    measures: tuple[tuple[str, RexNode], ...]

    @cached_property
    def row_type(self) -> RowType:
        names = (*(self.input.names[each] for each in self.partition), *(name for name, _ in self.measures))
        types = (*(self.input.type_of(each) for each in self.partition), *(value.type for _, value in self.measures))
        return row_of(names, types)


@dataclass(frozen=True, eq=False)
class Sort(_OneInput):
    """ORDER BY, OFFSET and LIMIT. `limit` None is all rows."""

    order: tuple[SortField, ...]
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, eq=False)
class SetOperation(RelNode):
    """UNION, INTERSECT or EXCEPT. Inputs have the same types; names are those of the first."""

    kind: str
    all: bool
    parts: tuple[RelNode, ...]

    @property
    def inputs(self) -> tuple[RelNode, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[RelNode, ...]) -> RelNode:
        if all(new is old for new, old in zip(inputs, self.parts, strict=True)):
            return self
        return replace(self, parts=inputs)

    @cached_property
    def row_type(self) -> RowType:
        first = self.parts[0].row_type
        nullable = [any(part.type_of(place).nullable for part in self.parts) for place in range(len(first.fields))]
        return RowType(
            tuple(replace(each, type=each.type.as_nullable(n)) for each, n in zip(first.fields, nullable, strict=True)),
            nullable=False,
        )


@dataclass(frozen=True, eq=False)
class Expand(_OneInput):
    """Emits each row once per projection, for GROUPING SETS and split DISTINCT aggregates."""

    projections: tuple[tuple[RexNode, ...], ...]
    type: RowType

    @cached_property
    def row_type(self) -> RowType:
        return self.type


@dataclass(frozen=True, eq=False)
class ReplicateRows(_OneInput):
    """Emits each row without its first column as often as this BIGINT says, for INTERSECT ALL and EXCEPT ALL."""

    @cached_property
    def row_type(self) -> RowType:
        return RowType(self.input.row_type.fields[1:], nullable=False)


@dataclass(frozen=True, eq=False)
class EngineQuery(RelNode):
    """A part of a batch query that an engine computes.

    Attributes:
        parts: the nodes whose rows the engine gets.
        engine: DuckDB or Spark.
        query: the text for the engine.
        tables, files, functions: as in EngineQuerySpec.
        scans: the names of the tables that the engine reads from files, for plans.
        is_ordered: True if the rows come in an order that the query asks for.
    """

    parts: tuple[RelNode, ...]
    type: RowType
    engine: str
    query: str
    tables: tuple[EngineTable, ...]
    files: tuple[EngineFiles, ...]
    functions: tuple[EngineFunction, ...]
    scans: tuple[str, ...] = ()
    is_ordered: bool = False

    @property
    def inputs(self) -> tuple[RelNode, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[RelNode, ...]) -> RelNode:
        if all(new is old for new, old in zip(inputs, self.parts, strict=True)):
            return self
        return replace(self, parts=inputs)

    @cached_property
    def row_type(self) -> RowType:
        return self.type


@dataclass(frozen=True, eq=False)
class Sink(_OneInput):
    """INSERT INTO a table.

    Attributes:
        table: the ContextResolvedTable of the sink; None for `collect()` and for conversion to a DataStream.
        sink: the connector's DynamicTableSink.
        name: the name of the table in plans.
        primary_key: columns of the sink's rows.
        on_conflict: DO NOTHING, ERROR or DEDUPLICATE of ON CONFLICT; None where the statement says nothing.
        abilities: what the sink was told, as `flinkpy.table.connectors.abilities`.
        static_partition: the constants of INSERT ... PARTITION.
    """

    table: Any
    sink: Any
    name: str
    primary_key: tuple[int, ...] = ()
    on_conflict: str | None = None
    sink_type: RowType = field(default=RowType((), nullable=False))
    abilities: tuple[Any, ...] = ()
    static_partition: tuple[tuple[str, Any], ...] = ()


# -- row types -------------------------------------------------------------------------------------------------------


def row_of(names: tuple[str, ...], types: tuple[LogicalType, ...]) -> RowType:
    """Returns a row type with names made unique."""
    unique = unique_names(names)
    return RowType(tuple(RowField(name, kind) for name, kind in zip(unique, types, strict=True)), nullable=False)


def table_aggregate_type(below: RowType, grouping: tuple[int, ...], rows: RowType) -> RowType:
    """Returns the rows of a table aggregation: the grouping columns of the input, then the function's columns."""
    keys = [below.fields[place] for place in grouping]
    fields = (*keys, *rows.fields)
    return row_of(tuple(each.name for each in fields), tuple(each.type for each in fields))


def unique_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names with a number appended to each that occurs before: `id`, `id0`, `id1`."""
    taken: set[str] = set()
    result = []
    for name in names:
        unique, number = name, 0
        while unique in taken:
            unique, number = f"{name}{number}", number + 1
        taken.add(unique)
        result.append(unique)
    return tuple(result)


def join_row_type(left: RowType, right: RowType, join_type: JoinType) -> RowType:
    """Returns the rows of a join: nullable on a side that may be missing, left columns only for semi and anti joins."""
    if join_type in (JoinType.SEMI, JoinType.ANTI):
        return left
    left_types = tuple(
        each.type.as_nullable() if join_type in (JoinType.RIGHT, JoinType.FULL) else each.type for each in left.fields
    )
    right_types = tuple(
        each.type.as_nullable() if join_type in (JoinType.LEFT, JoinType.FULL) else each.type for each in right.fields
    )
    return row_of((*left.names, *right.names), (*left_types, *right_types))


# -- trees -----------------------------------------------------------------------------------------------------------


def walk(node: RelNode) -> Iterator[RelNode]:
    """Yields the node and all nodes below it, parents first."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(current.inputs))


def transform(node: RelNode, change: Callable[[RelNode], RelNode]) -> RelNode:
    """Returns the plan with each node replaced by `change`, from the bottom up. A node is changed once."""
    done: dict[int, RelNode] = {}

    def visit(each: RelNode) -> RelNode:
        if id(each) not in done:
            inputs = tuple(visit(below) for below in each.inputs)
            done[id(each)] = change(each.with_inputs(inputs) if inputs else each)
        return done[id(each)]

    return visit(node)


@dataclass(frozen=True, eq=False)
class WindowAggregate(_OneInput):
    """GROUP BY of the windows of a window table function.

    Emits the grouping columns without window columns, the aggregates, then the columns `properties`.

    Attributes:
        time_column: the time attribute by which rows get windows; None if they have the columns `bounds`.
        time_type: the type of the time attribute.
        properties: window_start, window_end, window_time as far as needed.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: Window
    time_column: int | None
    bounds: tuple[int, int] | None
    time_type: LogicalType
    properties: tuple[str, ...]

    @cached_property
    def row_type(self) -> RowType:
        from flinkpy.table.planner.logical.time import window_columns

        fields = self.input.row_type.fields
        added = dict(window_columns(self.time_type))
        names = [fields[place].name for place in self.grouping] + [each.name for each in self.aggregates]
        types = [fields[place].type for place in self.grouping] + [each.type for each in self.aggregates]
        return row_of((*names, *self.properties), (*types, *(added[each] for each in self.properties)))
