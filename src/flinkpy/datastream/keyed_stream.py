"""KeyedStream: a stream partitioned by key."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, overload

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation, Types
from flinkpy.common.types import Row
from flinkpy.connectors.sink_function import SinkFunction
from flinkpy.datastream import aggregates as column_aggregates
from flinkpy.datastream import column_operations as columns
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.functions.stream_functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.graph import partitioning
from flinkpy.graph.operator_specs import ColumnAggregate, RollingKind
from flinkpy.graph.partitioning import Partitioning
from flinkpy.graph.transformation import OperatorTransformation, PartitionTransformation

if TYPE_CHECKING:
    from flinkpy.common.serialization import SerializationSchema
    from flinkpy.datastream.base_stream import DataStreamSink
    from flinkpy.datastream.collected_results import CloseableIterator
    from flinkpy.datastream.interval_join import IntervalJoin
    from flinkpy.datastream.partition_windowed_stream import KeyedPartitionWindowedStream
    from flinkpy.datastream.windowed_stream import WindowedStream
    from flinkpy.functions.window_assigners import WindowAssigner

_NO_PARTITIONING = "Cannot override partitioning for KeyedStream."


class KeyedStream(DataStream):
    """A stream that is partitioned by key. Functions on it have state and timers for each key.

    `DataStream.key_by` creates it.

    Example:
        ```
        orders.key_by(lambda order: order.user).reduce(lambda one, other: one + other)
        orders.key_by("user").window(TumblingEventTimeWindows.of(Time.minutes(1))).sum("price")
        ```

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
        """Applies a function to every record, as `DataStream.map` does. A MapFunction may use state of the key."""
        return self._keyed("Map", checks.map_function(func), "MAP", checks.output_type_of(output_type))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Applies a function with any number of results per record. A FlatMapFunction may use state of the key."""
        return self._keyed("Flat Map", checks.flat_map_function(func), "FLAT_MAP", checks.output_type_of(output_type))

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keeps the records for which a function returns a true value. A FilterFunction may use state of the key."""
        return self._keyed("Filter", checks.filter_function(func), "FILTER", self._transformation.output_type)

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Applies a KeyedProcessFunction, which has access to the state and the timers of the record's key.

        Args:
            func: the function. It may yield any number of results per record and per timer, and `tag, value` for a side
                output.
            output_type: the type of the results. None pickles them.

        Returns:
            the stream of the results.

        Raises:
            TypeError: `func` is not a KeyedProcessFunction.
        """
        if not isinstance(func, KeyedProcessFunction):
            raise TypeError("KeyedProcessFunction is required for KeyedStream.")
        spec = specs.KeyedProcessSpec(self._key_selector, func, **self._keyed_types(checks.output_type_of(output_type)))
        return self._one_input("KeyedProcess", spec)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combines each record with the previous result of its key, and emits the new result (a rolling reduce).

        Args:
            func: a function of the previous result and the record that returns a value of the same type, or a
                ReduceFunction.

        Returns:
            a stream of the same type with one result per record.

        Raises:
            TypeError: `func` is neither of these.

        Example:
            ```
            pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
            ```
        """
        function = checks.reduce_function(func)
        types = self._keyed_types(self._transformation.output_type)
        return self._one_input("Keyed Reduce", specs.ReduceSpec(self._key_selector, function, **types))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Emits the rolling sum of a field for every record. The other fields are those of the key's first record.

        Args:
            position_to_sum: the position or the name of the field.
        """
        return self._rolling(RollingKind.SUM, "sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Emits the rolling minimum of a field for every record. The other fields are those of the key's first record.

        Args:
            position_to_min: the position or the name of the field.
        """
        return self._rolling(RollingKind.MIN, "min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Emits the rolling maximum of a field for every record. The other fields are those of the key's first record.

        Args:
            position_to_max: the position or the name of the field.
        """
        return self._rolling(RollingKind.MAX, "max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emits, for every record, the key's record with the smallest field so far; the first one if several are equal.

        Args:
            position_to_min_by: the position or the name of the field.
        """
        return self._rolling(RollingKind.MIN_BY, "min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emits, for every record, the key's record with the largest field so far; the first one if several are equal.

        Args:
            position_to_max_by: the position or the name of the field.
        """
        return self._rolling(RollingKind.MAX_BY, "max_by", position_to_max_by)

    def aggregate(self, *aggregates: ColumnAggregate, emit: str = "UPDATES", **named: ColumnAggregate) -> DataStream:
        """Aggregates columns per key, without a Python object per row. Beyond PyFlink.

        The stream must be of a ROW or TUPLE type and keyed by columns, as by `key_by("carrier")`.

        Args:
            aggregates: aggregates of `flinkpy.datastream.aggregates`, such as `count()`, `sum_(c)` or `mean(c)`, where
                `c` is the name of a column or an expression.
            emit: "UPDATES" emits after each batch the new row of every key in it. "FINAL" emits one row per key when
                the input ends.
            named: more aggregates, each with the name of its column.

        Returns:
            a stream of ROWs with the key columns and one column per aggregate.

        Raises:
            UserError: the stream or its key are not columns, or there is no such column.
            ValueError: `emit` is neither, or there is no aggregate.

        Example:
            ```
            flights.key_by("carrier").aggregate(count("flights"), delay=mean("dep_delay"))
            ```
        """
        if emit not in ("UPDATES", "FINAL"):
            raise ValueError(f"emit must be 'UPDATES' or 'FINAL', not {emit!r}")
        return columns.aggregate_by_key(self, column_aggregates.named(aggregates, named), emit)

    def join_columns(self, other_keyed: KeyedStream, how: str = "inner", broadcast: bool = False) -> DataStream:
        """Joins two bounded streams on equal keys, as columns. Beyond PyFlink.

        Both streams must be keyed by columns of the same types. The result is emitted when the inputs end. A null in a
        key equals nothing.

        Args:
            other_keyed: the other stream.
            how: "inner" emits the pairs; "left" also the records of this stream without a partner, with nulls; "semi"
                the records of this stream that have a partner; "anti" those that have none.
            broadcast: True sends all of the other stream, which should be small, to every subtask, and does not
                repartition this one.

        Returns:
            a stream of ROWs with the columns of this stream, and for "inner" and "left" those of the other one. A key
            column with the same name in both appears once.

        Raises:
            UserError: the types of the keys differ, or two columns of the result have the same name.
            UnsupportedOperationError: a source of the streams is unbounded.
        """
        return columns.join_columns(self, other_keyed, how, broadcast)

    # -- operations without state, as on the stream before key_by --------------------------------------------------

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | int | tuple[str | int, ...],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partitions the original stream by another key."""
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
        """Executes the program and returns the records as `Row(key, value)`, in their order before `key_by`.

        Returns:
            a CloseableIterator; or with `limit` a list of the first records.
        """
        pairs = self._origin_stream.map(_KeyAndValue(self._key_selector))
        # As in PyFlink, the key is added before the exchange, so the records of a subtask keep their order.
        origin = self._origin_stream.transformation
        if isinstance(origin, OperatorTransformation) and origin.parallelism is not None:
            pairs.set_parallelism(origin.parallelism)
        return pairs.execute_and_collect(job_execution_name, limit)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Joins records of the same key whose event times are close to each other. Beyond PyFlink.

        Example:
            ```
            orders.key_by("id").interval_join(payments.key_by("order")).between(Time.minutes(0), Time.hours(1))
            ```
        """
        from flinkpy.datastream.interval_join import IntervalJoin

        if not isinstance(other_stream, KeyedStream):
            raise TypeError(f"interval_join: the other stream must be a KeyedStream, not {other_stream!r}")
        return IntervalJoin(self, other_stream)

    def full_window_partition(self) -> KeyedPartitionWindowedStream:  # type: ignore[override]
        """Collects all records of each key into one window, which ends when the stream ends. Beyond PyFlink."""
        from flinkpy.datastream.partition_windowed_stream import KeyedPartitionWindowedStream

        return KeyedPartitionWindowedStream(self)

    # -- windows ---------------------------------------------------------------------------------------------------

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Groups the records of each key into windows.

        Args:
            window_assigner: assigns each record to its windows.

        Example:
            ```
            keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).reduce(add)
            ```
        """
        from flinkpy.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Groups the records of each key into windows of a number of records.

        Args:
            size: the number of records of a window.
            slide: the number of records between the starts of two windows. 0 makes tumbling windows.
        """
        from flinkpy.functions.window_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        if slide == 0:
            return self.window(CountTumblingWindowAssigner.of(size))
        return self.window(CountSlidingWindowAssigner.of(size, slide))

    # -- operations that a keyed stream does not support -----------------------------------------------------------

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
        """Returns the selector of the keys, an object with `get_key(value)`. Beyond PyFlink."""
        return self._key_selector

    def get_key_type(self) -> TypeInformation:
        """Returns the type of the keys; PICKLED_BYTE_ARRAY if none was declared. Beyond PyFlink."""
        return self._key_type or Types.PICKLED_BYTE_ARRAY()

    @property
    def key_selector(self) -> Any:
        """The selector of the keys, an object with `get_key(value)`. Beyond PyFlink."""
        return self._key_selector

    def with_key_type(self, key_type: TypeInformation | None) -> KeyedStream:
        """Returns this stream with keys of another declared type. Beyond PyFlink."""
        if key_type == self._key_type:
            return self
        origin, selector = self._origin_stream, self._key_selector
        partitioned = PartitionTransformation(
            origin.transformation, Partitioning(partitioning.HASH, selector, key_type)
        )
        return KeyedStream(partitioned, self._original_data_type_info, origin, selector, key_type)

    @property
    def key_type(self) -> TypeInformation | None:
        """The declared type of the keys; None if keys are pickled. Beyond PyFlink."""
        return self._key_type

    def _values(self) -> DataStream:
        """Returns the same records, still partitioned by key, as a plain stream."""
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
