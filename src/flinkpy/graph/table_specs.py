"""Specs of the table operators, which the planner of SQL and the Table API creates.

Inputs and outputs are in columns. `input_types` and `output_type` are InternalTypeInfo; the names of its fields are
unique. Columns are given by position. Rows carry their RowKind in `Batch.kinds` (None: all INSERT), and their times in
columns: `Batch.timestamps` is None. "single" distribution is a key selector without fields.

Source: org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExec*.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flinkpy.graph.operator_specs import KeyedMultipleInputSpec, KeyedSpec, KeyedTwoInputSpec, OperatorSpec
from flinkpy.sql.rex import AggregateCall, RexNode, UserFunctionCall
from flinkpy.sql.session_settings import DEFAULT_SETTINGS
from flinkpy.sql.session_settings import SessionSettings as SessionSettings

# -- parts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SortField:
    column: int
    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Fold the changes of a key while at most `size` rows and `latency_ms` have come since the last output."""

    size: int
    latency_ms: int


@dataclass(frozen=True, slots=True)
class WindowSlices:
    """How a window function cuts time.

    Attributes:
        kind: TUMBLE, HOP, CUMULATE or SESSION.
        size_ms: the size; the largest one of CUMULATE; the gap of SESSION.
        slide_ms: the slide of HOP, the step of CUMULATE.
        offset_ms: the offset of the windows from the epoch.
        is_event_time: False for processing time.
        time_column: the time attribute, if windows are assigned here; else None.
        start_column, end_column: where the input already has the window's bounds; else None.
        partition: the PARTITION BY columns of SESSION.
        is_zoned: True if windows are cut in the wall-clock time of the session's zone, and their bounds are in it:
            those of TIMESTAMP_LTZ columns and of processing time.

    The columns are those of the input of the first phase. A second phase has the same windows as its first.
    """

    kind: str
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    is_event_time: bool = True
    time_column: int | None = None
    start_column: int | None = None
    end_column: int | None = None
    partition: tuple[int, ...] = ()
    is_zoned: bool = False


class JoinType(enum.Enum):
    INNER = "InnerJoin"
    LEFT = "LeftOuterJoin"
    RIGHT = "RightOuterJoin"
    FULL = "FullOuterJoin"
    SEMI = "LeftSemiJoin"
    ANTI = "LeftAntiJoin"


# -- without state ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CalcSpec(OperatorSpec):
    """Computes one column per projection for the rows for which the condition is true."""

    projection: tuple[RexNode, ...]
    condition: RexNode | None = None
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class AsyncCalcSpec(OperatorSpec):
    """Appends one column per call of an asynchronous scalar function.

    Attributes:
        calls: UserFunctionCalls whose arguments are input columns.
        capacity, timeout_ms, max_attempts, retry_delay_ms: the options `table.exec.async-scalar.*`. No attempts
            are no retries.
    """

    calls: tuple[UserFunctionCall, ...]
    capacity: int = 10
    timeout_ms: int = 180_000
    max_attempts: int = 3
    retry_delay_ms: int = 100


@dataclass(frozen=True, slots=True)
class StreamInputSpec(OperatorSpec):
    """Turns the records of a DataStream into rows of a table. The input has the type of the DataStream.

    Attributes:
        has_rowtime: True to append the records' timestamps as a TIMESTAMP_LTZ(3) column.
    """

    has_rowtime: bool = False


@dataclass(frozen=True, slots=True)
class WatermarkAssignerSpec(OperatorSpec):
    """Emits the maximum of `watermark` so far as the watermark of the stream.

    Attributes:
        rowtime_column: the event time attribute.
        watermark: the expression of the WATERMARK clause.
        idle_timeout_ms: `table.exec.source.idle-timeout`; 0 for never.
        emit_on_event: `scan.watermark.emit.strategy` is on-event; otherwise watermarks are emitted periodically.
    """

    rowtime_column: int
    watermark: RexNode
    idle_timeout_ms: int = 0
    emit_on_event: bool = False
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class WatermarkParams:
    """The options `scan.watermark.*` of a table.

    Attributes:
        emits_on_event: True to emit a watermark after each row that advances event time; False for at intervals.
        idle_timeout_ms: None for `table.exec.source.idle-timeout`.
        alignment: group, largest drift in ms, and interval of the comparison in ms; None for no alignment.
    """

    emits_on_event: bool = False
    idle_timeout_ms: int | None = None
    alignment: tuple[str, int, int] | None = None


DEFAULT_WATERMARK_PARAMS = WatermarkParams()


@dataclass(frozen=True, slots=True)
class SourceWatermarks:
    """The watermarks that a source makes from its rows: the least of those of its splits.

    Attributes:
        rowtime_column: the event time attribute.
        watermark: the expression of the WATERMARK clause, over the rows of the source.
    """

    rowtime_column: int
    watermark: RexNode
    params: WatermarkParams = DEFAULT_WATERMARK_PARAMS
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class ExpandSpec(OperatorSpec):
    """Emits each row once per projection, for GROUPING SETS and split DISTINCT aggregates."""

    projections: tuple[tuple[RexNode, ...], ...]
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class ReplicateRowsSpec(OperatorSpec):
    """Emits each row without its first column as often as this BIGINT says."""


@dataclass(frozen=True, slots=True)
class DropUpdateBeforeSpec(OperatorSpec):
    """Drops UPDATE_BEFORE rows."""


@dataclass(frozen=True, slots=True)
class ProcessTableFunctionSpec(OperatorSpec):
    """Calls a process table function that sees one row at a time.

    Attributes:
        function: a `flinkpy.sql.functions.changelog_functions.RowProcess`.
    """

    function: Any


@dataclass(frozen=True, slots=True)
class CorrelateSpec(OperatorSpec):
    """Calls a table function for each row and emits the row with each result.

    Attributes:
        call: a RexCall of UNNEST or a UserFunctionCall of a table function.
        join_type: INNER or LEFT.
        condition: over the columns of the row, then those of the result.
    """

    call: RexNode
    join_type: JoinType = JoinType.INNER
    condition: RexNode | None = None
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class WindowTableFunctionSpec(OperatorSpec):
    """Appends window_start, window_end and window_time. A HOP or CUMULATE row is emitted once per window."""

    window: WindowSlices
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class SessionTableFunctionSpec(KeyedSpec):
    """SESSION in FROM: appends window_start, window_end and window_time when a session is over."""

    window: WindowSlices
    settings: SessionSettings = DEFAULT_SETTINGS


# -- aggregates -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupAggregateSpec(KeyedSpec):
    """GROUP BY without windows. Emits the grouping columns, then one column per aggregate.

    Attributes:
        needs_retraction: True if the input may contain UPDATE_BEFORE and DELETE rows.
        generate_update_before: True if an update is a pair of UPDATE_BEFORE and UPDATE_AFTER.
        mini_batch: None to emit the changelog of a record-at-a-time engine.
        state_ttl_ms: 0 for never.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    needs_retraction: bool
    generate_update_before: bool
    mini_batch: MiniBatch | None = None
    state_ttl_ms: int = 0
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class GroupTableAggregateSpec(GroupAggregateSpec):
    """A table aggregate function over groups. Emits the grouping columns, then the columns of the function's rows.

    `aggregates` is its call, whose result is the list of the rows. There are no mini-batches.
    """


@dataclass(frozen=True, slots=True)
class LocalGroupAggregateSpec(OperatorSpec):
    """The first phase of a two-phase GROUP BY, before the exchange. It emits accumulators of a mini-batch."""

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    needs_retraction: bool
    mini_batch: MiniBatch


@dataclass(frozen=True, slots=True)
class SplitLocalGroupAggregateSpec(OperatorSpec):
    """The first phase of the partial aggregation of a split aggregation of distinct values.

    It emits what LocalGroupAggregateSpec would emit for each row expanded to one row per distinct column, but it
    aggregates the rows as they are, and then spreads the distinct values over the buckets.

    Attributes:
        grouping: the key columns of the output: those of the whole aggregation, and the buckets.
        buckets: those of them that are buckets.
        bucket_of: for each argument of a distinct aggregate, the column of its bucket.
        aggregates: the aggregates, over the rows.
    """

    grouping: tuple[int, ...]
    buckets: tuple[int, ...]
    bucket_of: tuple[tuple[int, int], ...]
    aggregates: tuple[AggregateCall, ...]
    mini_batch: MiniBatch


@dataclass(frozen=True, slots=True)
class GlobalGroupAggregateSpec(KeyedSpec):
    """The second phase: merges the accumulators of LocalGroupAggregateSpec. `aggregates` refer to the local input."""

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    local_input_type: Any
    needs_retraction: bool
    generate_update_before: bool
    mini_batch: MiniBatch
    state_ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class IncrementalGroupAggregateSpec(GlobalGroupAggregateSpec):
    """The second and the third phase of an aggregation of distinct values that was split.

    It merges accumulators of the partial aggregation, keeps only its distinct values, and emits accumulators of what
    the mini-batch adds to the final aggregation.

    Attributes:
        partial_type: the results of the partial aggregation: its keys, then its aggregates.
        final_grouping: the keys of the final aggregation, in `partial_type`.
        final_aggregates: its aggregates, over `partial_type`.
    """

    partial_type: Any = field(kw_only=True)
    final_grouping: tuple[int, ...] = field(kw_only=True)
    final_aggregates: tuple[AggregateCall, ...] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class WindowAggregateSpec(KeyedSpec):
    """GROUP BY of a window table-valued function, in one phase. Emits grouping columns, aggregates, window properties.

    Attributes:
        properties: the window columns of the output in their order: "window_start", "window_end", "window_time".
        needs_retraction: as in GroupAggregateSpec.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: WindowSlices
    properties: tuple[str, ...]
    needs_retraction: bool = False
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class LocalWindowAggregateSpec(OperatorSpec):
    """The first phase of a window aggregate. Emits grouping columns, accumulators and the slice's end (BIGINT ms)."""

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: WindowSlices
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class GlobalWindowAggregateSpec(KeyedSpec):
    """The second phase of a window aggregate. `aggregates` refer to the local input."""

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    local_input_type: Any
    window: WindowSlices
    properties: tuple[str, ...]
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class GroupWindowAggregateSpec(KeyedSpec):
    """A legacy group window: TUMBLE, HOP or SESSION in GROUP BY.

    Attributes:
        properties: the auxiliary functions in the output: "start", "end", "rowtime", "proctime".
        emit_early_ms, emit_late_ms: the delays of `table.exec.emit.*`; 0 for each record, None for off.
        allow_lateness_ms: `table.exec.emit.allow-lateness`.
    """

    grouping: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: WindowSlices
    properties: tuple[str, ...]
    needs_retraction: bool = False
    generate_update_before: bool = False
    emit_early_ms: int | None = None
    emit_late_ms: int | None = None
    allow_lateness_ms: int = 0
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class OverWindow:
    """One group of OVER aggregates with the same window.

    Attributes:
        is_rows: True for ROWS, False for RANGE.
        lower, upper: the bounds relative to the current row, in rows or in the unit of the order column (ms for times);
            None for UNBOUNDED; 0 for CURRENT ROW; negative for PRECEDING.
    """

    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    is_rows: bool
    lower: int | None
    upper: int | None
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class OverAggregateSpec(KeyedSpec):
    """OVER aggregates. Emits the input columns, then one column per aggregate of each window."""

    windows: tuple[OverWindow, ...]
    needs_retraction: bool = False
    generate_update_before: bool = True
    state_ttl_ms: int = 0
    settings: SessionSettings = DEFAULT_SETTINGS


# -- ranks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankSpec(KeyedSpec):
    """Top-N: the rows of each partition with a rank from `rank_start` to `rank_end`.

    Attributes:
        function: ROW_NUMBER, RANK or DENSE_RANK.
        partition, order: the columns of the OVER clause.
        rank_end: a number, or `rank_end_column` names the BIGINT column that has it.
        output_rank_number: True if the rank is the last output column.
        strategy: APPEND (input only inserts), UPDATE (input has a unique key `primary_key`, and updates only raise the
            rank), RETRACT (any input).
        generate_update_before: as in GroupAggregateSpec.
    """

    function: str
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    rank_start: int = 1
    rank_end: int | None = None
    rank_end_column: int | None = None
    output_rank_number: bool = False
    strategy: str = "APPEND"
    primary_key: tuple[int, ...] = ()
    generate_update_before: bool = True
    state_ttl_ms: int = 0
    mini_batch: MiniBatch | None = None


@dataclass(frozen=True, slots=True)
class DeduplicateSpec(KeyedSpec):
    """Keeps the first or the last row per key, by event time (`time_column`), or by arrival if that is None."""

    key: tuple[int, ...]
    keep_last: bool
    time_column: int | None = None
    generate_update_before: bool = True
    input_insert_only: bool = True
    mini_batch: MiniBatch | None = None
    state_ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class WindowRankSpec(KeyedSpec):
    """Top-N per window, emitted when the window ends. Input has window_start and window_end columns."""

    window: WindowSlices
    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    rank_start: int = 1
    rank_end: int = 1
    output_rank_number: bool = False
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class WindowDeduplicateSpec(KeyedSpec):
    """Keeps the first or last row by event time of each key and window, emitted when the window ends."""

    window: WindowSlices
    key: tuple[int, ...]
    time_column: int
    keep_last: bool = True
    settings: SessionSettings = DEFAULT_SETTINGS


# -- joins ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinInput:
    """The unique keys of an input of a join.

    Attributes:
        unique_key: columns that are unique in the input; None if there are none.
        join_key_is_unique: True if the join key contains a unique key, so that there is one row per join key.
    """

    unique_key: tuple[int, ...] | None = None
    join_key_is_unique: bool = False


@dataclass(frozen=True, slots=True)
class JoinSpec(KeyedTwoInputSpec):
    """A regular join of two changelogs, whose both sides are kept in state.

    Attributes:
        left_keys, right_keys: the columns of the equality conditions.
        filter_nulls: for each key, True if NULL joins nothing (`=`), False for IS NOT DISTINCT FROM.
        condition: the rest of the condition, over the columns of both inputs; None for none.
    """

    takes_key_by_key: ClassVar[bool] = False

    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    condition: RexNode | None = None
    left_input: JoinInput = JoinInput()
    right_input: JoinInput = JoinInput()
    left_state_ttl_ms: int = 0
    right_state_ttl_ms: int = 0
    mini_batch: MiniBatch | None = None
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class MultiJoinStep:
    """How one input of a MultiJoinSpec is joined with the inputs before it.

    Attributes:
        join_type: INNER, or LEFT to pad rows without a match.
        requires: the inputs before it whose row must not be padding, because their key is compared with `=`.
        condition: the rest of the condition, over the columns of all inputs up to this one; None for none.
    """

    join_type: JoinType
    requires: tuple[int, ...] = ()
    condition: RexNode | None = None


@dataclass(frozen=True, slots=True)
class MultiJoinSpec(KeyedMultipleInputSpec):
    """A chain of regular joins over one key: input 0, then each further input with those before it.

    Attributes:
        keys: for each input, the columns of the key. NULL joins nothing. Without columns all rows have one key.
        steps: how inputs 1, 2, ... are joined.
        inputs: the unique keys of each input.
        state_ttl_ms: for each input; 0 for never.
    """

    keys: tuple[tuple[int, ...], ...]
    steps: tuple[MultiJoinStep, ...]
    inputs: tuple[JoinInput, ...]
    state_ttl_ms: tuple[int, ...]
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class TableIntervalJoinSpec(KeyedTwoInputSpec):
    """A join of two insert-only inputs in which right time minus left time is within the inclusive bounds.

    Both times are event times (`is_event_time`) or processing times.

    Attributes:
        min_cleanup_ms: `table.exec.interval-join.min-cleanup-interval`: how much longer rows are kept.
    """

    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    lower_bound_ms: int
    upper_bound_ms: int
    is_event_time: bool
    left_time: int
    right_time: int
    condition: RexNode | None = None
    min_cleanup_ms: int = 0
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class TemporalJoinSpec(KeyedTwoInputSpec):
    """FOR SYSTEM_TIME AS OF a versioned table, by event time.

    Attributes:
        left_time, right_time: the columns with the event times.
        state_ttl_ms: 0 for never.
    """

    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    left_time: int
    right_time: int
    condition: RexNode | None = None
    state_ttl_ms: int = 0
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class ProcessTimeTemporalJoinSpec(KeyedTwoInputSpec):
    """A join with the latest row of each key of a history, by processing time.

    Attributes:
        state_ttl_ms: 0 for never.
    """

    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    condition: RexNode | None = None
    state_ttl_ms: int = 0
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class WindowJoinSpec(KeyedTwoInputSpec):
    """A join of the rows of one window of both inputs, emitted when the window ends."""

    join_type: JoinType
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    left_window: WindowSlices
    right_window: WindowSlices
    condition: RexNode | None = None
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class LookupCacheOptions:
    """The limits of the rows that a lookup join keeps (`lookup.partial-cache.*`). None: without limit.

    Attributes:
        max_rows: the largest number of keys.
        caches_missing_keys: True to remember that a key has no row.
    """

    max_rows: int | None = None
    expire_after_access_ms: int | None = None
    expire_after_write_ms: int | None = None
    caches_missing_keys: bool = True


@dataclass(frozen=True, slots=True)
class AsyncLookupOptions:
    """How lookups run side by side: `table.exec.async-lookup.*`, or the hint LOOKUP.

    Attributes:
        ordered: True if results have the order of the input.
        capacity: the largest number of calls side by side.
        timeout_ms: how long a call may take, retries included. The wait for a free call does not count. 0 for no limit.
    """

    ordered: bool = True
    capacity: int = 100
    timeout_ms: int = 180_000


@dataclass(frozen=True, slots=True)
class LookupJoinSpec(OperatorSpec):
    """A join with a table that is asked for each distinct key of a batch.

    Attributes:
        lookup: the connector's LookupFunction, or its AsyncLookupFunction with `asynchronous`.
        keys: for each key column of the table: (column of the table, an expression over the input or a literal).
        condition: applied to the table's rows.
        join_condition: over the columns of the input, then those of the table.
        asynchronous: None for lookups on the task's thread.
        retry: (delay in ms, number of retries) for keys that find nothing; None for none.
        cache: None for none.
        table_name: the table, for errors.
    """

    lookup: Any
    join_type: JoinType
    keys: tuple[tuple[int, RexNode], ...]
    table_type: Any
    condition: RexNode | None = None
    join_condition: RexNode | None = None
    asynchronous: AsyncLookupOptions | None = None
    retry: tuple[int, int] | None = None
    cache: LookupCacheOptions | None = None
    settings: SessionSettings = DEFAULT_SETTINGS
    table_name: str = ""


@dataclass(frozen=True, slots=True)
class KeyedLookupJoinSpec(KeyedSpec):
    """A lookup join that keeps what it has found, so that a deletion takes back what was sent.

    Attributes:
        key: the columns by which the input sends updates.
        state_ttl_ms: 0 for never.
    """

    key: tuple[int, ...]
    join: LookupJoinSpec
    state_ttl_ms: int = 0


# -- changelogs and order ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangelogNormalizeSpec(KeyedSpec):
    """Turns an upsert stream into a regular changelog by keeping the last row of each unique key."""

    unique_key: tuple[int, ...]
    generate_update_before: bool
    condition: RexNode | None = None
    state_ttl_ms: int = 0
    mini_batch: MiniBatch | None = None
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class SinkMaterializeSpec(KeyedSpec):
    """Brings changes of rows with one primary key into an order that an upsert sink can take.

    Attributes:
        primary_key: the key of the sink's table.
        upsert_key: the key by which the input sends updates; empty for whole rows.
    """

    primary_key: tuple[int, ...]
    upsert_key: tuple[int, ...] = ()
    state_ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class WatermarkTimestampSpec(OperatorSpec):
    """Appends the current watermark in ms as a BIGINT column."""


@dataclass(frozen=True, slots=True)
class ConflictMaterializeSpec(KeyedSpec):
    """Keeps changes until the watermark tells which rows of a primary key there are. The last column is the watermark.

    Attributes:
        primary_key, upsert_key, state_ttl_ms: as in SinkMaterializeSpec.
        on_conflict: NOTHING to keep the first row of a key, ERROR to fail if there are several.
    """

    primary_key: tuple[int, ...]
    upsert_key: tuple[int, ...] = ()
    on_conflict: str = "ERROR"
    state_ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConstraintEnforcerSpec(OperatorSpec):
    """Checks rows before a sink: NOT NULL columns, and lengths of CHAR, VARCHAR, BINARY and VARBINARY.

    Attributes:
        not_null: the columns; `on_null` is ERROR or DROP (`table.exec.sink.not-null-enforcer`).
        key: those columns of `not_null` that a DELETE must have, too; it may lack the others.
        lengths: (column, length, pads).
        on_length: IGNORE, TRIM_PAD or ERROR (`table.exec.sink.type-length-enforcer`).
    """

    not_null: tuple[int, ...]
    on_null: str = "ERROR"
    lengths: tuple[tuple[int, int, bool], ...] = ()
    on_length: str = "IGNORE"
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TemporalSortSpec(KeyedSpec):
    """Sorts by ascending event or processing time, then by the other fields, as the watermark passes."""

    order: tuple[SortField, ...]
    is_event_time: bool = True


@dataclass(frozen=True, slots=True)
class SortLimitSpec(KeyedSpec):
    """ORDER BY with LIMIT and OFFSET. `order` is empty for LIMIT alone. `limit` None: all rows (batch mode only)."""

    order: tuple[SortField, ...]
    offset: int = 0
    limit: int | None = None
    generate_update_before: bool = True
    needs_retraction: bool = False
    state_ttl_ms: int = 0
    mini_batch: MiniBatch | None = None


@dataclass(frozen=True, slots=True)
class MatchSpec(KeyedSpec):
    """MATCH_RECOGNIZE with ONE ROW PER MATCH. Emits the partition columns, then the measures.

    Attributes:
        order: a time attribute, ascending, and further columns.
        pattern: the flinkpy.cep Pattern.
        definitions: (variable, condition) pairs over PatternNavigations and PatternAggregates.
        measures: the same for what is emitted. MATCH_ROWTIME() and MATCH_PROCTIME() are calls.
    """

    partition: tuple[int, ...]
    order: tuple[SortField, ...]
    pattern: Any
    definitions: tuple[tuple[str, RexNode], ...]
    measures: tuple[RexNode, ...]
    is_event_time: bool = True
    settings: SessionSettings = DEFAULT_SETTINGS


# -- batch mode -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineFunction:
    """A function of the embedded engine that a kernel of flinkpy computes.

    Attributes:
        expression: the result, whose columns are the arguments.
        types: the types of the arguments; `engine_types` are those of the engine.
        result_type: the engine's type of the result.
    """

    name: str
    expression: RexNode
    types: tuple[Any, ...]
    engine_types: tuple[str, ...]
    result_type: str


@dataclass(frozen=True, slots=True)
class EngineFiles:
    """Parquet files that the embedded engine reads itself, as the table `name`.

    Attributes:
        source: the FileSource that lists the files, and reads them if their types are not those of the table.
        columns: the names of the columns in the files.
        row_type: InternalTypeInfo of the rows.
        engine_types: the engine's types of the columns.
    """

    name: str
    source: Any
    columns: tuple[str, ...]
    row_type: Any
    engine_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineTable:
    """An input stream, whose rows are the table `name` of the embedded engine, with columns c0, c1, ..."""

    name: str
    engine_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineQuerySpec(OperatorSpec):
    """A part of a batch query that the embedded engine DuckDB computes when its inputs have ended. Rows are inserts.

    Attributes:
        query: the text for the engine.
        tables: one per input, in their order. If there are none, the operator has one input without rows.
        files: tables that the engine reads from files.
        functions: the kernels that the query calls.
        num_threads: the threads of the engine.
    """

    query: str
    tables: tuple[EngineTable, ...]
    files: tuple[EngineFiles, ...]
    functions: tuple[EngineFunction, ...]
    num_threads: int = 1
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class SparkQuerySpec(OperatorSpec):
    """A part of a batch query that Spark plans and runs. Rows are inserts. It has no native operator.

    Attributes:
        query: the text for Spark, in which `{input_0}` stands for an input and `{kernel_0}` for a function.
        tables: one per input, in their order. If there are none, the operator has one input that it does not read.
        functions: the kernels that the query calls.
    """

    query: str
    tables: tuple[EngineTable, ...]
    functions: tuple[EngineFunction, ...]
    settings: SessionSettings = DEFAULT_SETTINGS


@dataclass(frozen=True, slots=True)
class FinalRowsSpec(OperatorSpec):
    """Waits for the end of a changelog, and emits the rows of the table that it describes, sorted by `order`.

    Attributes:
        if_empty: the only row of a table without rows, for aggregates of all rows; None for none.
    """

    order: tuple[SortField, ...] = ()
    if_empty: tuple[Any, ...] | None = None
