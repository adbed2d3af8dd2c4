"""Physical nodes: the operators of a plan, named as Flink's exec nodes.

Each has the specs of its operator except key selectors and types of streams, which `translate` adds. The changelog
program sets `modify_kinds` and `update_kind`; until then they are empty.

Source: org.apache.flink.table.planner.plan.nodes.physical.stream, ...plan.nodes.exec.stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from flinkpy.cep.pattern import ONCE, Pattern
from flinkpy.graph.table_specs import (
    DEFAULT_WATERMARK_PARAMS,
    AsyncLookupOptions,
    EngineFiles,
    EngineFunction,
    EngineTable,
    JoinType,
    MultiJoinStep,
    SortField,
    SourceWatermarks,
    WatermarkParams,
)
from flinkpy.sql.rex import UNNEST, UNNEST_WITH_ORDINALITY, AggregateCall, Literal, RexNode, UserFunctionCall
from flinkpy.sql.types.logical_types import RowType, is_rowtime
from flinkpy.table.planner.binder.operators import conjuncts
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, ModifyKind, UpdateKind, mode_text
from flinkpy.table.planner.logical.nodes import Window
from flinkpy.table.planner.physical.emit_strategy import NO_EMIT, EmitStrategy
from flinkpy.table.planner.physical.texts import call_text, distinct_views, window_text
from flinkpy.table.planner.rex_text import CHARSET, rex_text, type_text

#: A part of a node's description, such as ("groupBy", "[a]").
Term = tuple[str, str]


@dataclass(eq=False)
class PhysicalNode:
    """The base class.

    Attributes:
        inputs: the nodes that rows come from.
        row_type: the rows of the output.
        modify_kinds: the changes that it sends.
        update_kind: how it sends updates.
    """

    inputs: list[PhysicalNode]
    row_type: RowType
    modify_kinds: frozenset[ModifyKind] = field(default=frozenset(), kw_only=True)
    update_kind: UpdateKind = field(default=UpdateKind.NONE, kw_only=True)
    #: The name of the node in errors about its input; None for the name of its class.
    requester: ClassVar[str | None] = None
    #: The version in compiled plans. It rises when a field gets another meaning or goes; new fields have defaults.
    plan_version: ClassVar[int] = 1

    @property
    def input(self) -> PhysicalNode:
        return self.inputs[0]

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def names(self) -> tuple[str, ...]:
        return self.row_type.names

    def terms(self, *, infix: bool = False) -> list[Term]:
        """Returns the description of the node. `infix` is for execution plans."""
        return []

    def description(self, *, infix: bool = False) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.terms(infix=infix))})"

    def _columns(self, columns: tuple[int, ...] | list[int], place: int = 0) -> str:
        names = self.inputs[place].names
        return ", ".join(names[each] for each in columns)

    def _order(self, order: tuple[SortField, ...]) -> str:
        fields = self.input.row_type.fields
        parts = []
        for each in order:
            parts.append(f"{fields[each.column].name} {'ASC' if each.ascending else 'DESC'}")
        return ", ".join(parts)

    def _select(self) -> Term:
        return "select", f"[{', '.join(self.names)}]"


def walk(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """Yields the node and all nodes below it, parents first; a shared node once per consumer."""
    yield node
    for each in node.inputs:
        yield from walk(each)


@dataclass(eq=False)
class TableSourceScan(PhysicalNode):
    table: Any
    source: Any
    pushed: tuple[str, ...] = ()
    abilities: tuple[Any, ...] = ()
    watermarks: SourceWatermarks | None = None

    def terms(self, *, infix: bool = False) -> list[Term]:
        identifier = self.table.identifier
        path = ", ".join((*identifier.parts, *self.pushed))
        return [("table", f"[[{path}]]"), ("fields", f"[{', '.join(self.names)}]")]


@dataclass(eq=False)
class Values(PhysicalNode):
    rows: tuple[tuple[Literal, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        rows = ", ".join("{ " + ", ".join(rex_text(each, ()) for each in row) + " }" for row in self.rows)
        return [("tuples", f"[[{rows}]]")]


@dataclass(eq=False)
class Calc(PhysicalNode):
    projection: tuple[RexNode, ...]
    condition: RexNode | None = None
    #: The names of the input's columns where the query renamed them; None for those of the input.
    shown_names: tuple[str, ...] | None = None

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.shown_names or self.input.names
        parts = []
        for name, expression in zip(self.names, self.projection, strict=True):
            text = rex_text(expression, names, infix=infix)
            parts.append(text if text == name else f"{text} AS {name}")
        terms = [("select", f"[{', '.join(parts)}]")]
        if self.condition is not None:
            terms.append(("where", f"[{rex_text(self.condition, names, infix=infix)}]"))
        return terms


@dataclass(eq=False)
class AsyncCalc(PhysicalNode):
    """Appends the results of asynchronous functions to the columns of its input."""

    calls: tuple[UserFunctionCall, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        added = zip(self.calls, self.names[len(names) :], strict=True)
        shown = [*names, *(f"{rex_text(call, names, infix=infix)} AS {name}" for call, name in added)]
        return [("select", f"[{', '.join(shown)}]")]


@dataclass(eq=False)
class WatermarkAssigner(PhysicalNode):
    rowtime: int
    watermark: RexNode
    params: WatermarkParams = DEFAULT_WATERMARK_PARAMS

    def terms(self, *, infix: bool = False) -> list[Term]:
        text = rex_text(self.watermark, self.input.names, infix=infix)
        return [("rowtime", f"[{self.names[self.rowtime]}]"), ("watermark", f"[{text}]")]


@dataclass(eq=False)
class MiniBatchAssigner(PhysicalNode):
    interval_ms: int
    is_event_time: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        mode = "RowTime" if self.is_event_time else "ProcTime"
        return [("interval", f"[{self.interval_ms}ms]"), ("mode", f"[{mode}]")]


@dataclass(eq=False)
class Exchange(PhysicalNode):
    """Sends rows with one key to one subtask. No keys: all rows to a single subtask. None: to all subtasks."""

    keys: tuple[int, ...] | None

    def terms(self, *, infix: bool = False) -> list[Term]:
        if self.keys is None:
            return [("distribution", "[broadcast]")]
        return [("distribution", f"[hash[{self._columns(self.keys)}]]" if self.keys else "[single]")]


@dataclass(eq=False)
class DropUpdateBefore(PhysicalNode):
    pass


@dataclass(eq=False)
class ChangelogNormalize(PhysicalNode):
    unique_key: tuple[int, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("key", f"[{self._columns(self.unique_key)}]")]


@dataclass(eq=False)
class Union(PhysicalNode):
    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("all", "[true]"), ("union", f"[{', '.join(self.names)}]")]


@dataclass(eq=False)
class Expand(PhysicalNode):
    projections: tuple[tuple[RexNode, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        shown = []
        for projection in self.projections:
            parts = []
            for name, expression in zip(self.names, projection, strict=True):
                text = "null" if _is_null(expression) else rex_text(expression, self.input.names, infix=infix)
                parts.append(text if text == name else f"{text} AS {name}")
            shown.append("{" + ", ".join(parts) + "}")
        return [("projects", f"[{', '.join(shown)}]")]


def _is_null(node: RexNode) -> bool:
    return isinstance(node, Literal) and node.value is None


#: The names that plans show for UNNEST.
_UNNEST_NAMES = {UNNEST: "$UNNEST_ROWS$1", UNNEST_WITH_ORDINALITY: "$UNNEST_ROWS_WITH_ORDINALITY$1"}


@dataclass(eq=False)
class Correlate(PhysicalNode):
    call: RexNode
    join_type: JoinType
    function_type: RowType
    condition: RexNode | None = None

    @property
    def name(self) -> str:
        return "PythonCorrelate" if isinstance(self.call, UserFunctionCall) else "Correlate"

    def terms(self, *, infix: bool = False) -> list[Term]:
        call = rex_text(self.call, [f"$cor0.{name}" for name in self.input.names])
        for function, shown in _UNNEST_NAMES.items():
            call = call.replace(f"{function}(", f"{shown}(") if call.startswith(f"{function}(") else call
        fields = ", ".join(f"{type_text(each.type)} {each.name}".replace(CHARSET, "") for each in self.row_type.fields)
        terms = [
            ("invocation", f"[{call}]"),
            ("correlate", f"[table({call})]"),
            ("select", f"[{','.join(self.names)}]"),
            ("rowType", f"[RecordType({fields})]"),
            ("joinType", f"[{'INNER' if self.join_type is JoinType.INNER else 'LEFT'}]"),
        ]
        if self.condition is not None:
            # The columns of the function count from 0.
            width = len(self.input.names)
            columns = [f"${place - width}" if place >= width else name for place, name in enumerate(self.names)]
            terms.append(("condition", f"[{rex_text(self.condition, columns)}]"))
        return terms


@dataclass(eq=False)
class MLPredictTableFunction(Correlate):
    @property
    def name(self) -> str:
        return type(self).__name__


@dataclass(eq=False)
class ProcessTableFunction(PhysicalNode):
    function: Any
    invocation: str
    takes_changes: bool
    emits_changes: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("invocation", f"[{self.invocation}]"), self._select()]


@dataclass(eq=False)
class RowLevelChange(ProcessTableFunction):
    pass


@dataclass(eq=False)
class ReplicateRows(PhysicalNode):
    """Emits each row without its first column as often as this column says."""

    @property
    def name(self) -> str:
        return "Correlate"

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        call = f"[$REPLICATE_ROWS$1({', '.join(names)})]"
        return [
            ("invocation", call),
            ("select", f"[{', '.join(joined_names(names, names[1:]))}]"),
            ("joinType", "[INNER]"),
        ]


# -- batch mode ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class EngineQuery(PhysicalNode):
    """A part of the query that an engine computes."""

    engine: str
    query: str
    tables: tuple[EngineTable, ...]
    files: tuple[EngineFiles, ...]
    functions: tuple[EngineFunction, ...]
    scans: tuple[str, ...]
    is_ordered: bool = False

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("engine", f"[{self.engine}]")]
        if self.files:
            files = [f"{files.name}={scan}" for files, scan in zip(self.files, self.scans, strict=True)]
            terms.append(("files", f"[{', '.join(files)}]"))
        if self.functions:
            kernels = [f"{each.name}={each.expression}" for each in self.functions]
            terms.append(("kernels", f"[{', '.join(kernels)}]"))
        # Placeholders of inputs and kernels are in braces.
        query = self.query.replace("{", "").replace("}", "") if self.engine == "Spark" else self.query
        return [*terms, ("query", f"[{query}]"), self._select()]


@dataclass(eq=False)
class FinalRows(PhysicalNode):
    """Emits the rows of the table that a changelog describes when it has ended."""

    #: The only row of a table without rows; None for none.
    if_empty: tuple[Any, ...] | None = None


# -- joins -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _JoinNode(PhysicalNode):
    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    #: The whole condition, for plans; and the part that is no equality of keys.
    condition: RexNode
    rest: RexNode | None

    def _where(self, infix: bool) -> Term:
        names = joined_names(self.inputs[0].names, self.inputs[1].names)
        if not conjuncts(self.condition):
            return "where", "[true]"
        return "where", f"[{rex_text(self.condition, names, infix=infix)}]"


def joined_names(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the columns of both inputs of a join."""
    from flinkpy.table.planner.logical.nodes import unique_names

    return unique_names((*left, *right))


@dataclass(eq=False)
class Join(_JoinNode):
    left_unique: tuple[int, ...] | None = None
    right_unique: tuple[int, ...] | None = None
    left_key_is_unique: bool = False
    right_key_is_unique: bool = False
    left_ttl_ms: int | None = None
    right_ttl_ms: int | None = None
    is_mini_batch: bool = False

    def key_contains_unique_key(self, place: int) -> bool:
        return (self.left_key_is_unique, self.right_key_is_unique)[place]

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("joinType", f"[{self.join_type.value}]"), self._where(infix), self._select()]
        terms.append(("leftInputSpec", f"[{_input_text(self.left_unique, self.left_key_is_unique)}]"))
        terms.append(("rightInputSpec", f"[{_input_text(self.right_unique, self.right_key_is_unique)}]"))
        if self.is_mini_batch:
            terms.append(("miniBatch", "[true]"))
        return terms


@dataclass(eq=False)
class MultiJoin(PhysicalNode):
    """A chain of inner and left joins over one key, in one operator.

    Attributes:
        keys: for each input, the columns of the key.
        steps: how inputs 1, 2, ... are joined.
        conditions: their whole conditions, for plans.
        unique: for each input, columns that are unique; None if there are none.
        upsert: for each input, columns that identify the row that a change belongs to; None if there are none.
        ttls: for each input, the time-to-live of its state as a hint gives it.
    """

    keys: tuple[tuple[int, ...], ...]
    steps: tuple[MultiJoinStep, ...]
    conditions: tuple[RexNode, ...]
    unique: tuple[tuple[int, ...] | None, ...]
    upsert: tuple[tuple[int, ...] | None, ...]
    ttls: tuple[str | None, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        unique = [
            "noUniqueKey" if key is None else f"({self._columns(key, place)})" for place, key in enumerate(self.unique)
        ]
        conditions = [
            rex_text(each, self.names, infix=infix) if conjuncts(each) else "true" for each in self.conditions
        ]
        fields = ", ".join(f"{type_text(each.type)} {each.name}".replace(CHARSET, "") for each in self.row_type.fields)
        terms = [
            ("commonJoinKey", f"[{self._columns(self.keys[0]) or 'noCommonJoinKey'}]"),
            ("joinTypes", f"[{', '.join(each.join_type.name for each in self.steps)}]"),
            ("inputUniqueKeys", f"[{', '.join(unique)}]"),
        ]
        if any(self.ttls):
            shown = ", ".join(each or "0s" for each in self.ttls)
            terms.append(("stateTtlHints", f"[[[STATE_TTL options:[{shown}]]]]"))
        return [
            *terms,
            ("joinConditions", f"[{', '.join(conditions)}]"),
            ("select", f"[{','.join(self.names)}]"),
            ("rowType", f"[RecordType({fields})]"),
        ]


def _input_text(unique: tuple[int, ...] | None, is_join_key: bool) -> str:
    if unique is None:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if is_join_key else "HasUniqueKey"


@dataclass(eq=False)
class IntervalJoin(_JoinNode):
    is_event_time: bool
    lower_ms: int
    upper_ms: int
    left_time: int
    right_time: int

    def terms(self, *, infix: bool = False) -> list[Term]:
        bounds = (
            f"isRowTime={str(self.is_event_time).lower()}, leftLowerBound={self.lower_ms}, "
            f"leftUpperBound={self.upper_ms}, leftTimeIndex={self.left_time}, rightTimeIndex={self.right_time}"
        )
        return [
            ("joinType", f"[{self.join_type.value}]"),
            ("windowBounds", f"[{bounds}]"),
            self._where(infix),
            self._select(),
        ]


@dataclass(eq=False)
class TemporalJoin(_JoinNode):
    left_time: int
    right_time: int

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("joinType", f"[{self.join_type.value}]"), self._where(infix), self._select()]


@dataclass(eq=False)
class WindowJoin(_JoinNode):
    left_window: Window
    right_window: Window
    left_bounds: tuple[int, int]
    right_bounds: tuple[int, int]
    is_event_time: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [
            ("leftWindow", f"[{self._window(0, self.left_window, self.left_bounds)}]"),
            ("rightWindow", f"[{self._window(1, self.right_window, self.right_bounds)}]"),
            ("joinType", f"[{self.join_type.value}]"),
            self._where(infix),
            self._select(),
        ]

    def _window(self, place: int, window: Window, bounds: tuple[int, int]) -> str:
        names = self.inputs[place].names
        return window_text(window, f"win_start=[{names[bounds[0]]}], win_end=[{names[bounds[1]]}]")


@dataclass(eq=False)
class LookupJoin(PhysicalNode):
    table: Any
    source: Any
    join_type: JoinType
    #: (column of the table, expression over the input).
    keys: tuple[tuple[int, RexNode], ...]
    lookup_type: RowType
    lookup_condition: RexNode | None = None
    condition: RexNode | None = None
    #: None if rows are looked up one after the other.
    asynchronous: AsyncLookupOptions | None = None
    #: The delay in ms and the number of retries for keys that find nothing.
    retry: tuple[int, int] | None = None
    #: True if an exchange by the lookup's key is below.
    shuffle: bool = False
    #: True to keep the rows that were found, so that an update takes back what was sent.
    upsert_materialize: bool = False

    def terms(self, *, infix: bool = False) -> list[Term]:
        keys = ", ".join(
            f"{self.lookup_type.names[column]}={rex_text(value, self.input.names, infix=infix)}"
            for column, value in self.keys
        )
        terms = [
            ("table", f"[{self.table.identifier.as_summary_string()}]"),
            ("joinType", f"[{self.join_type.value}]"),
        ]
        options = self.async_options
        if options is not None:
            order = "ORDERED" if options.ordered else "UNORDERED"
            terms.append(("async", f"[{order}, KEY_ORDERED: false, {options.timeout_ms}ms, {options.capacity}]"))
        terms.append(("lookup", f"[{keys}]"))
        if self.lookup_condition is not None:
            terms.append(("where", f"[{rex_text(self.lookup_condition, self.lookup_type.names, infix=infix)}]"))
        terms.append(self._select())
        if self.upsert_materialize:
            terms.append(("upsertMaterialize", "[true]"))
        if self.retry is not None:
            terms.append(("retry", f"[lookup_miss, FIXED_DELAY, {self.retry[0]}ms, {self.retry[1]}]"))
        if self.shuffle:
            terms.append(("shuffle", "[true]"))
        return terms

    @property
    def async_options(self) -> AsyncLookupOptions | None:
        """How rows are looked up side by side. The changes of a row must not overtake each other."""
        if self.asynchronous is None or self.upsert_materialize:
            return None
        has_updates = bool(self.input.modify_kinds - INSERT_ONLY)
        return replace(self.asynchronous, ordered=self.asynchronous.ordered or has_updates)


# -- aggregates ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _AggregateNode(PhysicalNode):
    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]

    #: True if the input may retract rows; the changelog program sets it.
    needs_retraction: bool = field(default=False, kw_only=True)
    #: The time-to-live of a STATE_TTL hint; None for `table.exec.state.ttl`.
    state_ttl_ms: int | None = field(default=None, kw_only=True)
    #: PARTIAL or FINAL for the parts of an aggregation of distinct values that was split.
    partial_final: str | None = field(default=None, kw_only=True)

    def _group_by(self) -> list[Term]:
        terms = [("groupBy", f"[{self._columns(self.grouping)}]")] if self.grouping else []
        return terms if self.partial_final is None else [*terms, ("partialFinalType", f"[{self.partial_final}]")]

    def _calls(self) -> list[str]:
        return [
            f"{call_text(call, self.input.names, self.needs_retraction)} AS {call.name}" for call in self.aggregates
        ]


@dataclass(eq=False)
class GroupAggregate(_AggregateNode):
    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping] + self._calls()
        return [*self._group_by(), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GroupTableAggregate(_AggregateNode):
    """A table aggregate function over groups. `aggregates` is its call, whose type is the ARRAY of its rows."""

    def terms(self, *, infix: bool = False) -> list[Term]:
        keys = [self.input.names[each] for each in self.grouping]
        (call,) = self.aggregates
        columns = ", ".join(self.names[len(keys) :])
        text = f"{call_text(call, self.input.names)} AS ({columns})"
        return [*self._group_by(), ("select", f"[{', '.join([*keys, text])}]")]


@dataclass(eq=False)
class LocalGroupAggregate(_AggregateNode):
    #: The names of the accumulators of each aggregate.
    accumulators: tuple[tuple[str, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        columns, views = self.input.names, distinct_views(self.aggregates)
        parts = [columns[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            parts.append(f"{call_text(call, columns, self.needs_retraction, views)} AS {_together(names)}")
        for number, view in enumerate(views):
            parts.append(f"DISTINCT({', '.join(columns[each] for each in view)}) AS distinct${number}")
        return [*self._group_by(), ("select", f"[{', '.join(parts)}]")]


def _together(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


@dataclass(eq=False)
class GlobalGroupAggregate(_AggregateNode):
    accumulators: tuple[tuple[str, ...], ...]
    local_input_type: RowType

    def terms(self, *, infix: bool = False) -> list[Term]:
        views = distinct_views(self.aggregates)
        parts = [self.input.names[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            function = f"{call.function}_RETRACT" if self.needs_retraction else call.function
            view = f"distinct${views.index(call.arguments)} " if call.is_distinct else ""
            parts.append(f"{function}({view}{_together(names)}) AS {call.name}")
        return [*self._group_by(), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class IncrementalGroupAggregate(PhysicalNode):
    """The partial aggregation of distinct values after its exchange, and the first phase of the final one.

    Attributes:
        grouping: the keys of the partial aggregation.
        aggregates: its aggregates, over `local_input_type`.
        accumulators: the names of their accumulators.
        local_input_type: the input of its first phase.
        partial_type: its results.
        final_grouping: the keys of the final aggregation, in the results of the partial one.
        final_aggregates: its aggregates, over these results.
        state_ttl_ms: the time-to-live of a STATE_TTL hint; None for `table.exec.state.ttl`.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    accumulators: tuple[tuple[str, ...], ...]
    local_input_type: RowType
    partial_type: RowType
    final_grouping: tuple[int, ...]
    final_aggregates: tuple[AggregateCall, ...]
    state_ttl_ms: int | None = field(default=None, kw_only=True)

    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.final_grouping]
        views = distinct_views(self.aggregates)
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            view = f"distinct${views.index(call.arguments)} " if call.is_distinct else ""
            parts.append(f"{call.function}({view}{_together(names)}) AS {_together(names)}")
        return [
            ("partialAggGrouping", f"[{self._columns(self.grouping)}]"),
            ("finalAggGrouping", f"[{self._columns(self.final_grouping)}]"),
            ("select", f"[{', '.join(parts)}]"),
        ]


@dataclass(eq=False)
class WindowTableFunction(PhysicalNode):
    window: Window
    time_column: int
    is_event_time: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        return [("window", f"[{window_text(self.window, f'time_col=[{names[self.time_column]}]', names)}]")]


@dataclass(eq=False)
class _WindowAggregateNode(_AggregateNode):
    window: Window
    #: The time attribute by which rows get windows; None if they have the columns `bounds`.
    time_column: int | None
    bounds: tuple[int, int] | None
    is_event_time: bool
    #: window_start, window_end, window_time as far as they are in the output.
    properties: tuple[str, ...]

    @property
    def slice_end_name(self) -> str:
        """The name that plans show for the column that ends the slices of the first phase."""
        return "$slice_end" if self.time_column is not None else "$window_end"

    def _window_text(self) -> str:
        names = self.input.names
        if self.time_column is not None:
            return window_text(self.window, f"time_col=[{names[self.time_column]}]", names)
        assert self.bounds is not None
        return window_text(self.window, f"win_start=[{names[self.bounds[0]]}], win_end=[{names[self.bounds[1]]}]")

    def _properties_text(self) -> list[str]:
        first = len(self.grouping) + len(self.aggregates)
        short = {"window_start": "start", "window_end": "end", "window_time": "rowtime"}
        if not self.is_event_time:
            short["window_time"] = "proctime"
        return [f"{short[each]}('w$) AS {self.names[first + place]}" for place, each in enumerate(self.properties)]


@dataclass(eq=False)
class WindowAggregate(_WindowAggregateNode):
    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping] + self._calls() + self._properties_text()
        window = ("window", f"[{self._window_text()}]")
        return [*self._group_by(), window, ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class LocalWindowAggregate(_WindowAggregateNode):
    accumulators: tuple[tuple[str, ...], ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            parts.append(f"{call_text(call, self.input.names)} AS {_together(names)}")
        parts.append(f"slice_end('w$) AS {self.slice_end_name}")
        window = ("window", f"[{self._window_text()}]")
        return [*self._group_by(), window, ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GlobalWindowAggregate(_WindowAggregateNode):
    accumulators: tuple[tuple[str, ...], ...]
    local_input_type: RowType

    def terms(self, *, infix: bool = False) -> list[Term]:
        parts = [self.input.names[each] for each in self.grouping]
        for call, names in zip(self.aggregates, self.accumulators, strict=True):
            parts.append(f"{call.function}({_together(names)}) AS {call.name}")
        parts += self._properties_text()
        column = "slice_end" if self.time_column is not None else "win_end"
        window = window_text(self.window, f"{column}=[{self.slice_end_name}]")
        return [*self._group_by(), ("window", f"[{window}]"), ("select", f"[{', '.join(parts)}]")]


@dataclass(eq=False)
class GroupWindowAggregate(_AggregateNode):
    window: Window
    time_column: int
    is_event_time: bool
    properties: tuple[str, ...]
    #: When results are sent before and after the end of windows.
    emit: EmitStrategy = NO_EMIT

    @property
    def produces_updates(self) -> bool:
        """True if windows send results early or late, which updates them."""
        return self.emit.early_ms is not None or (self.is_event_time and self.emit.late_ms is not None)

    def terms(self, *, infix: bool = False) -> list[Term]:
        time, window = self.input.names[self.time_column], self.window
        sizes = f"{window.size_ms}" if window.kind != "HOP" else f"{window.size_ms}, {window.slide_ms}"
        kind = {"TUMBLE": "TumblingGroupWindow", "HOP": "SlidingGroupWindow", "SESSION": "SessionGroupWindow"}
        parts = [self.input.names[each] for each in self.grouping] + self._calls()
        parts += [f"{each}('w$) AS w${each}" for each in self.properties]
        return [
            *self._group_by(),
            ("window", f"[{kind[window.kind]}('w$, {time}, {sizes})]"),
            ("properties", f"[{', '.join(f'w${each}' for each in self.properties)}]"),
            ("select", f"[{', '.join(parts)}]"),
            *([("emit", f"[{self.emit}]")] if str(self.emit) else []),
        ]


@dataclass(eq=False)
class OverAggregate(PhysicalNode):
    groups: tuple[Any, ...]
    needs_retraction: bool = field(default=False, kw_only=True)

    def terms(self, *, infix: bool = False) -> list[Term]:
        group = self.groups[0]
        terms = []
        if group.partition:
            terms.append(("partitionBy", f"[{self._columns(group.partition)}]"))
        if group.order:
            terms.append(("orderBy", f"[{self._order(group.order)}]"))
        for each in self.groups:
            terms.append(("window", f"[{_frame_text(each)}]"))
        calls = [call for each in self.groups for call in each.aggregates]
        parts = list(self.input.names) + [f"{call_text(call, self.input.names)} AS {call.name}" for call in calls]
        terms.append(("select", f"[{', '.join(parts)}]"))
        return terms


def _frame_text(group: Any) -> str:
    def bound(value: int | None, unbounded: str) -> str:
        if value is None:
            return unbounded
        if value == 0:
            return "CURRENT ROW"
        return f"{abs(value)} {'PRECEDING' if value < 0 else 'FOLLOWING'}"

    unit = "ROWS" if group.is_rows else "RANG"
    lower, upper = bound(group.lower, "UNBOUNDED PRECEDING"), bound(group.upper, "UNBOUNDED FOLLOWING")
    return f" {unit} BETWEEN {lower} AND {upper}"


# -- ranks, order, sinks ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Rank(PhysicalNode):
    function: str
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    start: int
    end: int | None
    end_column: int | None
    outputs_rank: bool
    #: AppendFastStrategy, UpdateFastStrategy or RetractStrategy; the changelog program sets it.
    strategy: str = "AppendFastStrategy"
    primary_key: tuple[int, ...] = ()

    @property
    def strategy_text(self) -> str:
        if self.strategy == "UpdateFastStrategy":
            return f"UpdateFastStrategy[{','.join(map(str, self.primary_key))}]"
        return self.strategy

    def terms(self, *, infix: bool = False) -> list[Term]:
        end = f"rankEnd={self.end}" if self.end_column is None else f"rankEnd={self.input.names[self.end_column]}"
        terms = [
            ("strategy", f"[{self.strategy_text}]"),
            ("rankType", f"[{self.function}]"),
            ("rankRange", f"[rankStart={self.start}, {end}]"),
        ]
        if self.partition:
            terms.append(("partitionBy", f"[{self._columns(self.partition)}]"))
        fields = self.input.row_type.fields
        role = "ROWTIME " if any(is_rowtime(fields[each.column].type) for each in self.order) else ""
        return [*terms, ("orderBy", f"[{role}{self._order(self.order)}]"), self._select()]


@dataclass(eq=False)
class WindowRank(PhysicalNode):
    window: Window
    bounds: tuple[int, int]
    function: str
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    start: int
    end: int
    outputs_rank: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        window = window_text(self.window, f"win_start=[{names[self.bounds[0]]}], win_end=[{names[self.bounds[1]]}]")
        terms = [
            ("window", f"[{window}]"),
            ("rankType", f"[{self.function}]"),
            ("rankRange", f"[rankStart={self.start}, rankEnd={self.end}]"),
            ("partitionBy", f"[{self._columns(self.partition)}]"),
        ]
        return [*terms, ("orderBy", f"[{self._order(self.order)}]"), self._select()]


@dataclass(eq=False)
class WindowDeduplicate(PhysicalNode):
    window: Window
    bounds: tuple[int, int]
    key: tuple[int, ...]
    time_column: int
    keep_last: bool

    def terms(self, *, infix: bool = False) -> list[Term]:
        names = self.input.names
        window = window_text(self.window, f"win_start=[{names[self.bounds[0]]}], win_end=[{names[self.bounds[1]]}]")
        return [
            ("window", f"[{window}]"),
            ("keep", f"[{'LastRow' if self.keep_last else 'FirstRow'}]"),
            ("partitionKeys", f"[{self._columns(self.key)}]"),
            ("orderKey", f"[{names[self.time_column]}]"),
            ("order", "[ROWTIME]"),
        ]


@dataclass(eq=False)
class Sort(PhysicalNode):
    order: tuple[SortField, ...]

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("orderBy", f"[{self._order(self.order)}]")]


@dataclass(eq=False)
class TemporalSort(Sort):
    is_event_time: bool


@dataclass(eq=False)
class SortLimit(PhysicalNode):
    order: tuple[SortField, ...]
    offset: int
    limit: int
    strategy: str = "AppendFastStrategy"
    primary_key: tuple[int, ...] = ()

    def terms(self, *, infix: bool = False) -> list[Term]:
        strategy = Rank.strategy_text.fget(self)  # type: ignore[attr-defined]
        return [
            ("orderBy", f"[{self._order(self.order)}]"),
            ("offset", f"[{self.offset}]"),
            ("fetch", f"[{self.limit}]"),
            ("strategy", f"[{strategy}]"),
        ]


@dataclass(eq=False)
class Limit(PhysicalNode):
    offset: int
    limit: int | None

    def terms(self, *, infix: bool = False) -> list[Term]:
        return [("offset", f"[{self.offset}]"), ("fetch", f"[{'all' if self.limit is None else self.limit}]")]


@dataclass(eq=False)
class Match(PhysicalNode):
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    pattern: Pattern
    definitions: tuple[tuple[str, RexNode], ...]
    measures: tuple[tuple[str, RexNode], ...]
    is_event_time: bool
    requester: ClassVar[str | None] = "Match Recognize"

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("partitionBy", f"[{self._columns(self.partition)}]")] if self.partition else []
        measures = [f"FINAL({rex_text(value, self.input.names)}) AS {name}" for name, value in self.measures]
        places = [f"${place}" for place in range(len(self.input.names))]
        definitions = [f"{name}={rex_text(value, places, variable=name)}" for name, value in self.definitions]
        return [
            *terms,
            ("orderBy", f"[{self._order(self.order)}]"),
            ("measures", f"[{', '.join(measures)}]"),
            ("rowsPerMatch", "[ONE ROW PER MATCH]"),
            ("after", f"[{_skip_text(self.pattern)}]"),
            ("pattern", f"[{_pattern_text(self.pattern)}]"),
            *([("within interval", f"[{self.pattern.within_ms}]")] if self.pattern.within_ms else []),
            ("define", f"[{{{', '.join(definitions)}}}]"),
        ]


def _skip_text(pattern: Pattern) -> str:
    variable = pattern.skip.variable
    return pattern.skip.mode.value + ("" if variable is None else f" _UTF-16LE'{variable}'")


def _pattern_text(pattern: Pattern) -> str:
    text = ""
    for each in pattern.variables:
        part, quantifier = f"_UTF-16LE'{each.name}'", each.quantifier
        if quantifier != ONCE:
            minimum = 0 if quantifier.is_optional else quantifier.minimum
            maximum = -1 if quantifier.maximum is None else quantifier.maximum
            is_reluctant = quantifier.maximum is None and not quantifier.is_greedy
            part = f"PATTERN_QUANTIFIER({part}, {minimum}, {maximum}, {str(is_reluctant).lower()})"
        text = f"({text}, {part})" if text else part
    return text


@dataclass(eq=False)
class Sink(PhysicalNode):
    table: Any
    sink: Any
    table_name: str
    primary_key: tuple[int, ...] = ()
    upsert_materialize: bool = False
    on_conflict: str | None = None
    #: The rows of the table; None for those of the input.
    sink_row_type: RowType | None = None
    abilities: tuple[Any, ...] = ()

    def terms(self, *, infix: bool = False) -> list[Term]:
        terms = [("table", f"[{self.table_name}]"), ("fields", f"[{', '.join(self.input.names)}]")]
        if self.upsert_materialize:
            terms.append(("upsertMaterialize", "[true]"))
        if self.on_conflict is not None:
            terms.append(("conflictStrategy", f"[{self.on_conflict}]"))
        return terms


def changelog_text(node: PhysicalNode) -> str:
    """Returns the changes that a node sends, such as `I,UA,D`; NONE for sinks."""
    return "NONE" if isinstance(node, Sink) else mode_text(node.modify_kinds, node.update_kind)
