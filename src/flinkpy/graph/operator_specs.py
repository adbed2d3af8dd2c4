"""Operator specs: describe as plain data what each operator of a JobGraph does.

The user API creates them. They are pickled into `OperatorDescriptor.factory_pickle`, and `flinkpy.streaming.operators`
creates a running operator from each. So the user API never imports the runtime, and the runtime can inspect a whole
chain of specs and fuse operators. Functions are PyFlink's function objects; the user API wraps plain callables.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """The base class. `input_types` and `output_type` are TypeInformation, or None for pickled Python objects."""

    input_types: tuple[Any, ...] = field(default=(), kw_only=True)
    output_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    source: Any
    watermark_strategy: Any = None


@dataclass(frozen=True, slots=True)
class MapSpec(OperatorSpec):
    function: Any


@dataclass(frozen=True, slots=True)
class FlatMapSpec(OperatorSpec):
    function: Any


@dataclass(frozen=True, slots=True)
class FilterSpec(OperatorSpec):
    function: Any


@dataclass(frozen=True, slots=True)
class MapBatchesSpec(OperatorSpec):
    """A vectorised map: `function(RecordBatch)` returns a RecordBatch of any length. PyFlink does not have it."""

    function: Any


@dataclass(frozen=True, slots=True)
class FlatMapBatchesSpec(OperatorSpec):
    """A vectorised flat map: `function(RecordBatch)` yields any number of RecordBatches. PyFlink does not have it."""

    function: Any


@dataclass(frozen=True, slots=True)
class FilterBatchesSpec(OperatorSpec):
    """A vectorised filter. PyFlink does not have it.

    Attributes:
        function: `function(RecordBatch)` returns a boolean array or an Arrow compute Expression.
        expression: a `flinkpy.expressions` tree instead of the function, which is None then.
    """

    function: Any
    expression: Any = None


@dataclass(frozen=True, slots=True)
class ProjectSpec(OperatorSpec):
    """Keeps these positions of a TUPLE or ROW stream, in this order."""

    fields: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SelectSpec(OperatorSpec):
    """A vectorised selection: computes one column per expression. PyFlink does not have it.

    Attributes:
        expressions: `Alias` nodes of `flinkpy.expressions` over the columns of the input. Their names are the names of
            the output columns.
        predicate: an expression over the columns of the input. Only records for which it is true are selected. The
            optimiser sets it; None selects all.
    """

    expressions: tuple[Any, ...]
    predicate: Any = None


@dataclass(frozen=True, slots=True)
class SortColumnsSpec(OperatorSpec):
    """A vectorised sort of all records of a subtask, at the end of its input. PyFlink does not have it.

    Attributes:
        keys: tuples of (column, "ascending" or "descending"). As in Flink, nulls are first in ascending order and last
            in descending order.
        limit: how many records to emit; None for all.
    """

    keys: tuple[tuple[str, str], ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class TimestampsAndWatermarksSpec(OperatorSpec):
    watermark_strategy: Any


@dataclass(frozen=True, slots=True)
class ProcessSpec(OperatorSpec):
    function: Any


@dataclass(frozen=True, slots=True)
class KeyedSpec(OperatorSpec):
    """The base class of keyed operators. `key_selector` has `get_key(value)`; a FieldKeySelector also names columns."""

    key_selector: Any
    key_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(KeyedSpec):
    function: Any


@dataclass(frozen=True, slots=True)
class KeyedMapSpec(KeyedSpec):
    """map, flat_map or filter on a KeyedStream. The function may use keyed state. `kind`: MAP, FLAT_MAP or FILTER."""

    function: Any
    kind: str


@dataclass(frozen=True, slots=True)
class ReduceSpec(KeyedSpec):
    """A rolling reduce: emits one record per input record."""

    function: Any


class RollingKind(enum.Enum):
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"


@dataclass(frozen=True, slots=True)
class RollingAggregateSpec(KeyedSpec):
    """PyFlink's KeyedStream.sum/min/max/min_by/max_by: emits one record of the input's type per input record."""

    kind: RollingKind
    position: int | str


@dataclass(frozen=True, slots=True)
class FieldAggregation:
    """The `sum`, `min`, `max`, `min_by` or `max_by` of a window, in a WindowSpec."""

    kind: RollingKind
    position: int | str


@dataclass(frozen=True, slots=True)
class CompiledAggregate:
    """An aggregate function of numbers, compiled by numba.

    Attributes:
        initial: the numbers of a new accumulator.
        is_scalar: True if an accumulator is one number, and not a tuple of numbers.
        add: `add(accumulator, value, ...)` returns the next accumulator.
        merge: `merge(accumulator, accumulator)` returns the merged accumulator.
        result: `result(accumulator)` returns a number.
        arrow_type: the Arrow type of the result, set when the operator is created.
    """

    name: str
    initial: tuple[Any, ...]
    is_scalar: bool
    add: Any
    merge: Any
    result: Any
    output_type: Any
    arrow_type: Any = None


@dataclass(frozen=True, slots=True)
class ColumnAggregate:
    """One result column.

    Attributes:
        function: one of COUNT SUM MIN MAX MEAN FIRST LAST COUNT_DISTINCT VAR_POP VAR_SAMP STDDEV_POP STDDEV_SAMP, over
            `column`, or COMPILED: the function `compiled` over `columns`.
        column: the aggregated column; None for COUNT of rows.
    """

    name: str
    function: str
    column: str | None = None
    columns: tuple[str, ...] = ()
    compiled: CompiledAggregate | None = None
    #: Replaces `column` (and allows the function AVG) in the user API, which turns it into a selection. Operators never
    #: see it.
    expression: Any = field(default=None, compare=False)

    def renamed(self, name: str) -> ColumnAggregate:
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class ColumnAggregateSpec(KeyedSpec):
    """A vectorised keyed aggregation. PyFlink does not have it.

    It emits the key columns and one column per aggregate.

    Attributes:
        emit: UPDATES emits, after each input batch, the new row of every key in the batch, like Flink's mini-batch.
            FINAL emits one row per key when the input ends.
    """

    aggregates: tuple[ColumnAggregate, ...]
    emit: str = "UPDATES"


@dataclass(frozen=True, slots=True)
class PreAggregateSpec(OperatorSpec):
    """A vectorised partial aggregation before the exchange of a keyed aggregation, in batch mode.

    It emits the key columns and one column per aggregate (COUNT, SUM, MIN, MAX). It may emit any number of rows per key
    at any time, the last ones at the end of the input. The aggregation behind the exchange merges them: SUM of COUNT
    and SUM, MIN of MIN, MAX of MAX. The fields of the key selector are names.
    """

    key_selector: FieldKeySelector
    aggregates: tuple[ColumnAggregate, ...]


@dataclass(frozen=True, slots=True)
class GlobalColumnAggregateSpec(OperatorSpec):
    """A vectorised aggregation of all records of a subtask. PyFlink does not have it.

    It emits one row at the end of the input, even without records. It does not support FIRST and LAST.
    """

    aggregates: tuple[ColumnAggregate, ...]


@dataclass(frozen=True, slots=True)
class WindowSpec(KeyedSpec):
    """A function over the windows of each key.

    Attributes:
        assigner, trigger, evictor: objects of `flinkpy.datastream.window`. `evictor` may be None.
        aggregation: a ReduceFunction, AggregateFunction or FieldAggregation, whose result replaces the records of a
            window; None if all records are kept.
        function: a window function; None to emit the result of the aggregation.
        content_type: TypeInformation of the kept contents of a window: a record or an accumulator.
        late_tag: the id of the side output for late records; None to drop them.
    """

    assigner: Any
    trigger: Any
    aggregation: Any = None
    function: Any = None
    evictor: Any = None
    allowed_lateness_ms: int = 0
    late_tag: str | None = None
    content_type: Any = None


@dataclass(frozen=True, slots=True)
class WindowAggregateSpec(KeyedSpec):
    """A vectorised aggregation per key and window. PyFlink does not have it.

    It emits the key columns, `window_start`, `window_end`, and one column per aggregate. With a key selector without
    fields, all records have the same key. The windows have a size of `size_ms`, one starts every `slide_ms`, and one
    starts at `offset_ms`. If `gap_ms` is not None, they are session windows.

    Attributes:
        late_output_tag: the side output for late records; None to drop and count them.
        late_output_is_typed: False if that output has no declared type and receives Python objects.
    """

    aggregates: tuple[ColumnAggregate, ...]
    size_ms: int = 0
    slide_ms: int = 0
    offset_ms: int = 0
    gap_ms: int | None = None
    is_event_time: bool = True
    allowed_lateness_ms: int = 0
    late_output_tag: str | None = None
    late_output_is_typed: bool = True


@dataclass(frozen=True, slots=True)
class CoProcessSpec(OperatorSpec):
    """A function of two streams without keys. Input 0 is the first stream.

    `kind`: PROCESS (CoProcessFunction), MAP (CoMapFunction), FLAT_MAP (CoFlatMapFunction).
    """

    function: Any
    kind: str = "PROCESS"


@dataclass(frozen=True, slots=True)
class KeyedCoProcessSpec(OperatorSpec):
    """A function of two keyed streams that share keys and state. Both are partitioned by key.

    `key_selectors`: those of input 0 and input 1. `kind`: PROCESS (KeyedCoProcessFunction), MAP, FLAT_MAP.
    """

    function: Any
    key_selectors: tuple[Any, Any]
    kind: str = "PROCESS"
    key_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec(OperatorSpec):
    """A BroadcastProcessFunction. Input 0 is the stream, input 1 the broadcast stream.

    `descriptors`: the MapStateDescriptors with which the broadcast stream was created.
    """

    function: Any
    descriptors: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedBroadcastProcessSpec(KeyedSpec):
    """A KeyedBroadcastProcessFunction. Input 0 is the keyed stream (`key_selector`), input 1 the broadcast stream."""

    function: Any
    descriptors: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedMultipleInputSpec(OperatorSpec):
    """The base class of operators whose inputs are all partitioned by key. `key_selectors`: one per input."""

    key_selectors: tuple[Any, ...]
    key_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class KeyedTwoInputSpec(KeyedMultipleInputSpec):
    """The base class of joins of two inputs."""

    #: False for a join of columns of all keys together, which does not need the keys one after the other in batch mode.
    takes_key_by_key: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(KeyedTwoInputSpec):
    """A ProcessJoinFunction. It joins records of one key if right minus left timestamp is within the inclusive bounds.

    `left_late_tag`, `right_late_tag`: the ids of the side outputs for late records; None to drop them.
    """

    function: Any
    lower_bound_ms: int
    upper_bound_ms: int
    left_late_tag: str | None = None
    right_late_tag: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnJoinSpec(KeyedTwoInputSpec):
    """A vectorised equi-join of two bounded inputs. PyFlink does not have it.

    It emits the last results at the end of the input. The output has the columns of the left input, then those of the
    right input, without right key columns that have the same name as the left key column at that position. A semi or
    anti join emits only left columns. Results have no timestamps. A null in a key matches no key.

    Attributes:
        key_selectors: two FieldKeySelectors with the same number of names.
        how: inner, left, semi (left records with a match) or anti (left records without a match).
        is_broadcast: True if every subtask receives the whole input 1, which is the build side, and input 0 has any
            partitioning. If False, both inputs are partitioned by key.
    """

    how: str = "inner"
    is_broadcast: bool = False


@dataclass(frozen=True, slots=True)
class CoGroupSpec(KeyedTwoInputSpec):
    """A function over the records of both inputs with the same key and window.

    `kind`: CO_GROUP (CoGroupFunction), JOIN (JoinFunction), FLAT_JOIN (FlatJoinFunction).
    `window`: a WindowSpec over pairs of (input, record) with the assigner, trigger, evictor and lateness.
    """

    function: Any
    kind: str
    window: Any


@dataclass(frozen=True, slots=True)
class PartitionSpec(OperatorSpec):
    """A function over all records of a subtask, at the end of its input.

    `kind`: MAP (MapPartitionFunction), REDUCE (ReduceFunction), AGGREGATE (AggregateFunction), SORT (an object with
    `get_key`; `descending`).
    """

    function: Any
    kind: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class AsyncWaitSpec(OperatorSpec):
    """An AsyncFunction.

    Attributes:
        timeout_ms: the timeout of a call; 0 or less for none.
        capacity: the maximum number of concurrent calls.
        retry_strategy: an AsyncRetryStrategy.
        is_ordered: True if results have the order of the records.
        key_selector: the key by which the input is partitioned, needed to restore records in flight; None if it is not
            partitioned by key.
        max_batch_size: the largest batch of a call of an AsyncBatchFunction; 0 for an AsyncFunction.
    """

    function: Any
    timeout_ms: int
    capacity: int
    retry_strategy: Any
    is_ordered: bool
    key_selector: Any = None
    key_type: Any = None
    max_batch_size: int = 0


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    sink: Any


@dataclass(frozen=True, slots=True)
class SinkWriterSpec(OperatorSpec):
    """The writer of a sink whose committer is another operator. It emits the committables. See `sink_topology`.

    Attributes:
        at_checkpoints: True in streaming mode; otherwise it emits them at its end only.
    """

    sink: Any
    at_checkpoints: bool = False


@dataclass(frozen=True, slots=True)
class SinkCommitterSpec(OperatorSpec):
    """The committer of a sink that commits the output of all writers of the sink.

    Attributes:
        at_checkpoints: True in streaming mode; otherwise it commits once, at its end.
    """

    sink: Any
    at_checkpoints: bool = False


@dataclass(frozen=True, slots=True)
class BatchSpec(OperatorSpec):
    """An operator in batch mode. Its inputs are bounded, and it waits for their end (see `graph.batch_mode`)."""

    operator: OperatorSpec

    @property
    def function(self) -> Any:
        """The user's function, for errors that name it."""
        return getattr(self.operator, "function", None)


@dataclass(frozen=True, slots=True)
class FieldKeySelector:
    """Selects named columns or positions as the key, from rows (`get_key`) or from columns without Python objects.

    `get_key` returns the bare value for one field and a tuple for several.
    """

    fields: tuple[int | str, ...]

    def get_key(self, value: Any) -> Any:
        if len(self.fields) == 1:
            return value[self.fields[0]]
        return tuple(value[name] for name in self.fields)


#: Operators whose functions determine the type of their results.
_TYPE_DECLARABLE = (
    SourceSpec,
    MapSpec,
    FlatMapSpec,
    ProcessSpec,
    KeyedProcessSpec,
    CoProcessSpec,
    KeyedCoProcessSpec,
    BroadcastProcessSpec,
    KeyedBroadcastProcessSpec,
    IntervalJoinSpec,
    CoGroupSpec,
    AsyncWaitSpec,
)


def is_type_declarable(spec: OperatorSpec) -> bool:
    """True if a program may declare the type of the results of such an operator."""
    if isinstance(spec, KeyedMapSpec):
        return spec.kind != "FILTER"
    if isinstance(spec, WindowSpec):
        return spec.function is not None
    return isinstance(spec, _TYPE_DECLARABLE)


def declared_type(spec: OperatorSpec) -> Any:
    """Returns the type that the program declared for the results of the operator's function; None if it declared none.

    None for sources: their records are checked when they are read.
    """
    return spec.output_type if is_type_declarable(spec) and not isinstance(spec, SourceSpec) else None
