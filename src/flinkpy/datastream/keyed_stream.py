"""KeyedStream."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, overload

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation, Types
from flinkpy.common.types import Row
from flinkpy.datastream import aggregates as column_aggregates
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
    SinkFunction,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.graph import partitioning
from flinkpy.graph.operator_specs import ColumnAggregate, RollingKind
from flinkpy.graph.partitioning import Partitioning
from flinkpy.graph.transformation import OperatorTransformation, PartitionTransformation

if TYPE_CHECKING:
    from flinkpy.common.serialization import SerializationSchema
    from flinkpy.datastream.base_stream import DataStreamSink
    from flinkpy.datastream.closeable_iterator import CloseableIterator
    from flinkpy.datastream.interval_join import IntervalJoin
    from flinkpy.datastream.partition_windowed_stream import KeyedPartitionWindowedStream
    from flinkpy.datastream.window import WindowAssigner
    from flinkpy.datastream.windowed_stream import WindowedStream

_NO_PARTITIONING = "Cannot override partitioning for KeyedStream."


class KeyedStream(DataStream):
    """A stream whose records are together by key: operations on it have state and timers of each key.

    Source: pyflink.datastream.KeyedStream.
    """

    def __init__(
        self,
        j_keyed_stream: PartitionTransformation,
        original_data_type_info: TypeInformation,
        origin_stream: DataStream,
        key_selector: Any = None,
        key_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(j_keyed_stream, origin_stream.get_execution_environment())
        self._original_data_type_info = original_data_type_info
        self._origin_stream = origin_stream
        self._key_selector = key_selector
        self._key_type = key_type

    class AccumulateType(Enum):
        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    # -- operations with state -------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One result per record; a MapFunction may use state of the key."""
        return self._keyed("Map", checks.map_function(func), "MAP", checks.output_type_of(output_type))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per record; a FlatMapFunction may use state of the key."""
        return self._keyed("Flat Map", checks.flat_map_function(func), "FLAT_MAP", checks.output_type_of(output_type))

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Only the records for which the function gives a true value; a FilterFunction may use state of the key."""
        return self._keyed("Filter", checks.filter_function(func), "FILTER", self._transformation.output_type)

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per record, with state and timers of the key."""
        if not isinstance(func, KeyedProcessFunction):
            raise TypeError("KeyedProcessFunction is required for KeyedStream.")
        spec = specs.KeyedProcessSpec(self._key_selector, func, **self._keyed_types(checks.output_type_of(output_type)))
        return self._one_input("KeyedProcess", spec)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Each record reduced with what there was of its key before: one result per record."""
        function = checks.reduce_function(func)
        types = self._keyed_types(self._transformation.output_type)
        return self._one_input("Keyed Reduce", specs.ReduceSpec(self._key_selector, function, **types))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The rolling sum of a field; other fields are those of the first record of the key."""
        return self._rolling(RollingKind.SUM, "sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The rolling minimum of a field; other fields are those of the first record of the key."""
        return self._rolling(RollingKind.MIN, "min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The rolling maximum of a field; other fields are those of the first record of the key."""
        return self._rolling(RollingKind.MAX, "max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record with the smallest field so far, the first one of several."""
        return self._rolling(RollingKind.MIN_BY, "min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record with the largest field so far, the first one of several."""
        return self._rolling(RollingKind.MAX_BY, "max_by", position_to_max_by)

    def aggregate(self, *aggregates: ColumnAggregate, emit: str = "UPDATES", **named: ColumnAggregate) -> DataStream:
        """Aggregate columns per key without a Python object per row. Beyond PyFlink.

        The key must be columns (`key_by("carrier")`) of a ROW or TUPLE stream. The result is a ROW of the key columns
        and one column per aggregate; a keyword gives its aggregate that name.

        Args:
            aggregates: of `flinkpy.datastream.aggregates`: `count() sum_(c) min_(c) max_(c) mean(c) avg(c) first(c)
                last(c)`; `c` is a column's name or an expression.
            emit: UPDATES gives after each batch the new row of every key it touched; FINAL one row per key at the end.
        """
        if emit not in ("UPDATES", "FINAL"):
            raise ValueError(f"emit must be 'UPDATES' or 'FINAL', not {emit!r}")
        from flinkpy.datastream.keyed_columns import aggregate

        return aggregate(self, column_aggregates.named(aggregates, named), emit)

    def join_columns(self, other_keyed: KeyedStream, how: str = "inner", broadcast: bool = False) -> DataStream:
        """Pairs of records with equal keys, as columns, when the input ends. Beyond PyFlink.

        Both streams must be keyed by columns of the same types. The result has the columns of this stream, then those
        of the other that are not its key columns of the same names. A null in a key is equal to nothing.

        Args:
            how: "inner"; "left": also records of this stream without a partner, with nulls; "semi": only this stream's
                columns, of records that have a partner; "anti": of those that have none.
            broadcast: every subtask gets all of the other stream, which should be small; this one stays where it is.

        Raises:
            UserError: the keys do not fit, or two columns of the result have one name.
            UnsupportedOperationError: a stream does not end.
        """
        from flinkpy.datastream.keyed_columns import join_columns

        return join_columns(self, other_keyed, how, broadcast)

    # -- the same as on the stream before key_by -------------------------------------------------------------------

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | int | tuple[str | int, ...],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Key the original stream in another way."""
        return self._origin_stream.key_by(key_selector, key_type)

    def get_type(self) -> TypeInformation:
        return self._original_data_type_info

    def union(self, *streams: DataStream) -> DataStream:
        return self._values().union(*streams)

    def project(self, *field_indexes: int) -> DataStream:
        return self._values().project(*field_indexes)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        return self._origin_stream.partition_custom(partitioner, key_selector)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        return self._values().print(sink_identifier)

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        return self._values().print_to_err(sink_identifier)

    def write_to_socket(self, hostname: str, port: int, schema: SerializationSchema) -> DataStreamSink:
        return self._values().write_to_socket(hostname, port, schema)

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        return self._values().add_sink(sink_func)

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Executes the program and brings each record here as `Row(key, value)`, in its order before `key_by`.

        Returns:
            a CloseableIterator; or with `limit` a list of the first records.
        """
        pairs = self._origin_stream.map(_KeyAndValue(self._key_selector))
        # As in PyFlink, the key is added where the record comes from: no exchange changes the order of one subtask.
        origin = self._origin_stream.transformation
        if isinstance(origin, OperatorTransformation) and origin.parallelism is not None:
            pairs.set_parallelism(origin.parallelism)
        return pairs.execute_and_collect(job_execution_name, limit)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Pair records of the same key whose times are near each other. Beyond PyFlink."""
        from flinkpy.datastream.interval_join import IntervalJoin

        if not isinstance(other_stream, KeyedStream):
            raise TypeError(f"interval_join: the other stream must be a KeyedStream, not {other_stream!r}")
        return IntervalJoin(self, other_stream)

    def full_window_partition(self) -> KeyedPartitionWindowedStream:  # type: ignore[override]
        """All records of each key as one window, which ends when the stream does. Beyond PyFlink."""
        from flinkpy.datastream.partition_windowed_stream import KeyedPartitionWindowedStream

        return KeyedPartitionWindowedStream(self)

    # -- windows ---------------------------------------------------------------------------------------------------

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """The records of each key in windows."""
        from flinkpy.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of `size` records of a key: one after the other, or with `slide` one every `slide` records."""
        from flinkpy.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        if slide == 0:
            return self.window(CountTumblingWindowAssigner.of(size))
        return self.window(CountSlidingWindowAssigner.of(size, slide))

    # -- what a keyed stream has not -------------------------------------------------------------------------------

    def shuffle(self) -> DataStream:
        raise UnsupportedOperationError(_NO_PARTITIONING)

    def rescale(self) -> DataStream:
        raise UnsupportedOperationError(_NO_PARTITIONING)

    def rebalance(self) -> DataStream:
        raise UnsupportedOperationError(_NO_PARTITIONING)

    def forward(self) -> DataStream:
        raise UnsupportedOperationError(_NO_PARTITIONING)

    def broadcast(self, *args: Any) -> NoReturn:  # type: ignore[override]
        raise UnsupportedOperationError(_NO_PARTITIONING)

    def set_parallelism(self, parallelism: int) -> NoReturn:
        raise UnsupportedOperationError("Set parallelism for KeyedStream is not supported.")

    def name(self, name: str) -> NoReturn:
        raise UnsupportedOperationError("Set name for KeyedStream is not supported.")

    def get_name(self) -> str:
        raise UnsupportedOperationError("Get name of KeyedStream is not supported.")

    def uid(self, uid: str) -> NoReturn:
        raise UnsupportedOperationError("Set uid for KeyedStream is not supported.")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        raise UnsupportedOperationError("Set uid hash for KeyedStream is not supported.")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        raise UnsupportedOperationError("Set max parallelism for KeyedStream is not supported.")

    def force_non_parallel(self) -> NoReturn:
        raise UnsupportedOperationError("Set force non-parallel for KeyedStream is not supported.")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        raise UnsupportedOperationError("Set buffer timeout for KeyedStream is not supported.")

    def start_new_chain(self) -> DataStream:
        raise UnsupportedOperationError("Start new chain for KeyedStream is not supported.")

    def disable_chaining(self) -> DataStream:
        raise UnsupportedOperationError("Disable chaining for KeyedStream is not supported.")

    def slot_sharing_group(self, slot_sharing_group: Any) -> DataStream:
        raise UnsupportedOperationError("Setting slot sharing group for KeyedStream is not supported.")

    def cache(self) -> Any:
        raise UnsupportedOperationError("Cache for KeyedStream is not supported.")

    # -- inside ----------------------------------------------------------------------------------------------------

    def get_key_selector(self) -> Any:
        """What gives the key of a record: it has `get_key(value)`. Beyond PyFlink."""
        return self._key_selector

    def get_key_type(self) -> TypeInformation:
        """The type of the keys; PICKLED_BYTE_ARRAY where none was declared. Beyond PyFlink."""
        return self._key_type or Types.PICKLED_BYTE_ARRAY()

    @property
    def key_selector(self) -> Any:
        """Has `get_key(value)`. Beyond PyFlink."""
        return self._key_selector

    def with_key_type(self, key_type: TypeInformation | None) -> KeyedStream:
        """This stream with keys of another declared type. Beyond PyFlink."""
        if key_type == self._key_type:
            return self
        origin, selector = self._origin_stream, self._key_selector
        partitioned = PartitionTransformation(
            origin.transformation, Partitioning(partitioning.HASH, selector, key_type)
        )
        return KeyedStream(partitioned, self._original_data_type_info, origin, selector, key_type)

    @property
    def key_type(self) -> TypeInformation | None:
        """None: any object. Beyond PyFlink."""
        return self._key_type

    def _values(self) -> DataStream:
        """The same records, still partitioned by key, as a plain stream."""
        return DataStream(self._transformation, self._environment)

    def _keyed_types(self, output_type: TypeInformation | None) -> dict[str, Any]:
        return {**self._types(output_type), "key_type": self._key_type}

    def _keyed(self, name: str, function: Any, kind: str, output_type: TypeInformation | None) -> DataStream:
        spec = specs.KeyedMapSpec(self._key_selector, function, kind, **self._keyed_types(output_type))
        return self._one_input(name, spec)

    def _rolling(self, kind: RollingKind, what: str, position: int | str) -> DataStream:
        checked = checks.check_aggregated_position(what, position, self._transformation.output_type)
        types = self._keyed_types(self._transformation.output_type)
        return self._one_input(
            "Keyed Aggregation", specs.RollingAggregateSpec(self._key_selector, kind, checked, **types)
        )


class _KeyAndValue(MapFunction):
    def __init__(self, selector: Any) -> None:
        self._selector = selector

    def map(self, value: Any) -> Any:
        return Row(self._selector.get_key(value), value)
