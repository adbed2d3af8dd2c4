"""What each operator of a JobGraph is to do, as plain data.

The user API makes these; they are pickled into `OperatorDescriptor.factory_pickle`; `flinkpy.streaming.operators` turns
each into a running operator. So the user API never imports the runtime, and the runtime can look at a whole chain of
specs and fuse them. Functions are PyFlink's function objects (plain callables are wrapped by the user API).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """Common part. `input_types` / `output_type` are TypeInformation, or None for pickled Python objects."""

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
    """Vectorised: `function(RecordBatch) -> RecordBatch` of any length (beyond PyFlink)."""

    function: Any


@dataclass(frozen=True, slots=True)
class FlatMapBatchesSpec(OperatorSpec):
    """Vectorised: `function(RecordBatch)` gives RecordBatches, any number (beyond PyFlink)."""

    function: Any


@dataclass(frozen=True, slots=True)
class FilterBatchesSpec(OperatorSpec):
    """Vectorised: `function(RecordBatch) -> boolean array or Arrow compute Expression` (beyond PyFlink).

    `expression`: a `flinkpy.expressions` tree in place of the function, which is None then.
    """

    function: Any
    expression: Any = None


@dataclass(frozen=True, slots=True)
class ProjectSpec(OperatorSpec):
    """Keep these positions of a TUPLE or ROW stream, in this order."""

    fields: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SelectSpec(OperatorSpec):
    """Vectorised: a column per expression (beyond PyFlink), of the records for which `predicate` holds.

    `expressions`: `Alias` nodes of `flinkpy.expressions`, over the columns of the input; their names are those of the
    output. `predicate`: an expression over the columns of the input too, which the optimiser puts here; None: all.
    """

    expressions: tuple[Any, ...]
    predicate: Any = None


@dataclass(frozen=True, slots=True)
class SortColumnsSpec(OperatorSpec):
    """Vectorised: all records of a subtask in order, at the end of its input (beyond PyFlink).

    `keys`: (column, "ascending" or "descending"), nulls first where ascending and last where descending, as in Flink.
    `limit`: the first so many; None: all.
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
    """Common part of keyed operators. `key_selector` has `get_key(value)`; a FieldKeySelector also names columns."""

    key_selector: Any
    key_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(KeyedSpec):
    function: Any


@dataclass(frozen=True, slots=True)
class KeyedMapSpec(KeyedSpec):
    """map / flat_map / filter on a KeyedStream: the function may use keyed state. `kind`: MAP, FLAT_MAP, FILTER."""

    function: Any
    kind: str


@dataclass(frozen=True, slots=True)
class ReduceSpec(KeyedSpec):
    """Rolling reduce: one output per input."""

    function: Any


class RollingKind(enum.Enum):
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"


@dataclass(frozen=True, slots=True)
class RollingAggregateSpec(KeyedSpec):
    """PyFlink's KeyedStream.sum/min/max/min_by/max_by: one output per input, of the input's type."""

    kind: RollingKind
    position: int | str


@dataclass(frozen=True, slots=True)
class FieldAggregation:
    """What `sum`, `min`, `max`, `min_by` and `max_by` of a window are in a WindowSpec."""

    kind: RollingKind
    position: int | str


@dataclass(frozen=True, slots=True)
class CompiledAggregate:
    """An aggregate function of numbers, for numba.

    `initial`: numbers that a key's accumulator begins with. `add(accumulator, value, ...)` and `merge(one, other)` give
    the next accumulator, `result(accumulator)` a number. An accumulator is a tuple, or with `is_scalar` one number.
    `arrow_type`: of the result; set where the operator runs.
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
    """One result column: `function` in COUNT SUM MIN MAX MEAN FIRST LAST COUNT_DISTINCT VAR_POP VAR_SAMP STDDEV_POP
    STDDEV_SAMP over `column` (None for COUNT of rows); or COMPILED: the function `compiled` over `columns`.
    """

    name: str
    function: str
    column: str | None = None
    columns: tuple[str, ...] = ()
    compiled: CompiledAggregate | None = None
    #: In place of `column`, and the function AVG: what the user API makes selections of; operators see columns only.
    expression: Any = field(default=None, compare=False)

    def renamed(self, name: str) -> ColumnAggregate:
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class ColumnAggregateSpec(KeyedSpec):
    """Vectorised keyed aggregation (beyond PyFlink): key columns, then one column per aggregate.

    `emit`: UPDATES (after each input batch, the new row of every key the batch touched, as Flink's mini-batch does) or
    FINAL (one row per key when the input ends).
    """

    aggregates: tuple[ColumnAggregate, ...]
    emit: str = "UPDATES"


@dataclass(frozen=True, slots=True)
class PreAggregateSpec(OperatorSpec):
    """Vectorised: part of a keyed aggregation before its exchange, in batch mode (beyond PyFlink).

    Gives rows of the key columns and one column per aggregate (COUNT, SUM, MIN, MAX): any number per key, whenever it
    likes, at the latest at the end of the input. What comes behind puts them together: SUM of COUNT and SUM, MIN of
    MIN, MAX of MAX. The key selector's fields are names.
    """

    key_selector: FieldKeySelector
    aggregates: tuple[ColumnAggregate, ...]


@dataclass(frozen=True, slots=True)
class GlobalColumnAggregateSpec(OperatorSpec):
    """Vectorised: aggregates of all records of a subtask (beyond PyFlink): one row at the end of its input, also where
    there was no record. FIRST and LAST are not among them.
    """

    aggregates: tuple[ColumnAggregate, ...]


@dataclass(frozen=True, slots=True)
class WindowSpec(KeyedSpec):
    """A function over the windows of each key.

    `assigner`, `trigger`, `evictor` (or None) are objects of `flinkpy.datastream.window`.
    `aggregation`: a ReduceFunction, AggregateFunction or FieldAggregation, whose result stands for the records of a
    window; None: they are all kept. `function`: a window function, or None: the result of the aggregation as it is.
    `content_type`: TypeInformation of what is kept of a window: one record or one accumulator.
    `late_tag`: id of the side output of late records; None: they are dropped.
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
    """Vectorised aggregation per key and window (beyond PyFlink): key columns, `window_start`, `window_end`, then one
    column per aggregate. A key selector without fields: one key for all.

    Windows of `size_ms` every `slide_ms`, one of which begins at `offset_ms`; or, where `gap_ms` is not None, sessions.
    `late_output_tag`: side output of what is too late; None: dropped and counted. `late_output_is_typed`: False where
    that output has no declared type and gets Python objects.
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
    """A function of two streams without keys; input 0 is the first stream.

    `kind`: PROCESS (CoProcessFunction), MAP (CoMapFunction), FLAT_MAP (CoFlatMapFunction).
    """

    function: Any
    kind: str = "PROCESS"


@dataclass(frozen=True, slots=True)
class KeyedCoProcessSpec(OperatorSpec):
    """A function of two keyed streams that share keys and state; both are partitioned by key.

    `key_selectors`: of input 0 and input 1. `kind`: PROCESS (KeyedCoProcessFunction), MAP, FLAT_MAP.
    """

    function: Any
    key_selectors: tuple[Any, Any]
    kind: str = "PROCESS"
    key_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec(OperatorSpec):
    """BroadcastProcessFunction: input 0 is the stream, input 1 the broadcast stream.

    `descriptors`: the MapStateDescriptors that the broadcast stream was made with.
    """

    function: Any
    descriptors: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedBroadcastProcessSpec(KeyedSpec):
    """KeyedBroadcastProcessFunction: input 0 is the keyed stream (`key_selector`), input 1 the broadcast stream."""

    function: Any
    descriptors: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedTwoInputSpec(OperatorSpec):
    """Common part of joins: both inputs are partitioned by key. `key_selectors`: of input 0 and input 1."""

    key_selectors: tuple[Any, Any]
    key_type: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(KeyedTwoInputSpec):
    """ProcessJoinFunction: pairs of one key whose times, right minus left, are between the bounds, both inclusive.

    `left_late_tag`, `right_late_tag`: ids of the side outputs of late records; None: they are dropped.
    """

    function: Any
    lower_bound_ms: int
    upper_bound_ms: int
    left_late_tag: str | None = None
    right_late_tag: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnJoinSpec(KeyedTwoInputSpec):
    """Vectorised equi-join of two bounded inputs (beyond PyFlink); results come at the end at the latest.

    `key_selectors`: a FieldKeySelector each, of names, as many in the one as in the other. A null in a key is equal to
    nothing. `how`: inner, left, semi (left records that have a partner), anti (those that have none). Input 1 is the
    build side; with `is_broadcast` every subtask gets all of it and input 0 comes as it likes, else both are
    partitioned by key. Output: the columns of the left, then those of the right that are not key columns of the same
    name as the left's key column at that place; of semi and anti the left's only. Left records of results keep no
    timestamps.
    """

    how: str = "inner"
    is_broadcast: bool = False


@dataclass(frozen=True, slots=True)
class CoGroupSpec(KeyedTwoInputSpec):
    """Records of one key and window of both inputs together.

    `kind`: CO_GROUP (CoGroupFunction), JOIN (JoinFunction), FLAT_JOIN (FlatJoinFunction).
    `window`: a WindowSpec for pairs (input, record), which has the assigner, the trigger, the evictor and the lateness.
    """

    function: Any
    kind: str
    window: Any


@dataclass(frozen=True, slots=True)
class PartitionSpec(OperatorSpec):
    """All records of a subtask at the end of its input.

    `kind`: MAP (MapPartitionFunction), REDUCE (ReduceFunction), AGGREGATE (AggregateFunction), SORT (an object with
    `get_key`; `descending`).
    """

    function: Any
    kind: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class AsyncWaitSpec(OperatorSpec):
    """AsyncFunction: at most `capacity` calls at a time. `timeout_ms`: 0 or less for none.

    `retry_strategy`: an AsyncRetryStrategy. `is_ordered`: results in the order of the records. `key_selector`: what the
    input is partitioned by, for records that were in flight; None: by no key. `max_batch_size`: of the calls of an
    AsyncBatchFunction; 0: it is an AsyncFunction.
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
    """In batch mode, of a sink that commits: writes, and emits the committables when it ends. See `batch_sinks`."""

    sink: Any


@dataclass(frozen=True, slots=True)
class SinkCommitterSpec(OperatorSpec):
    """In batch mode: commits what all writers of the sink have emitted, once."""

    sink: Any


@dataclass(frozen=True, slots=True)
class BatchSpec(OperatorSpec):
    """`operator` in batch mode: its inputs are bounded, and it waits for their end (see `graph.batch_mode`)."""

    operator: OperatorSpec

    @property
    def function(self) -> Any:
        """The user's, for errors that name it."""
        return getattr(self.operator, "function", None)


@dataclass(frozen=True, slots=True)
class FieldKeySelector:
    """Key by named columns or positions: works on rows (`get_key`) and on columns without a Python object per row.

    `get_key` gives the bare value for one field, a tuple for several.
    """

    fields: tuple[int | str, ...]

    def get_key(self, value: Any) -> Any:
        if len(self.fields) == 1:
            return value[self.fields[0]]
        return tuple(value[name] for name in self.fields)


#: Operators whose functions decide what type their results have.
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
    """True if a program may say what type the results of such an operator have."""
    if isinstance(spec, KeyedMapSpec):
        return spec.kind != "FILTER"
    if isinstance(spec, WindowSpec):
        return spec.function is not None
    return isinstance(spec, _TYPE_DECLARABLE)


def declared_type(spec: OperatorSpec) -> Any:
    """The type that the program declared for what the operator's function gives; None where it declared none.

    A source's records are checked where they are read.
    """
    return spec.output_type if is_type_declarable(spec) and not isinstance(spec, SourceSpec) else None
