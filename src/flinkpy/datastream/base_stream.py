"""DataStream, a stream of records, and DataStreamSink, its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.common.typeinfo import TupleTypeInfo, TypeInformation, Types
from flinkpy.connector_api.sink import SinkBase
from flinkpy.connectors.sink_function import SinkFunction
from flinkpy.datastream import column_operations as columns
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.slot_sharing_group import SlotSharingGroup
from flinkpy.functions.output_tag import OutputTag
from flinkpy.functions.stream_functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.graph import partitioning
from flinkpy.graph.partitioning import Partitioning
from flinkpy.graph.transformation import (
    ChainingStrategy,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from flinkpy.common.execution_config import ExecutionConfig
    from flinkpy.common.serialization import SerializationSchema
    from flinkpy.common.watermark_strategy import WatermarkStrategy
    from flinkpy.datastream.cached_data_stream import CachedDataStream
    from flinkpy.datastream.collected_results import CloseableIterator
    from flinkpy.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from flinkpy.datastream.joined_streams import CoGroupedStreams, JoinedStreams
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.datastream.partition_windowed_stream import PartitionWindowedStream
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkpy.datastream.windowed_stream import AllWindowedStream
    from flinkpy.expressions.nodes import Expression
    from flinkpy.functions.state import MapStateDescriptor
    from flinkpy.functions.window_assigners import WindowAssigner
    from flinkpy.graph.operator_specs import ColumnAggregate

_MAX_TUPLE_FIELDS = 25


class DataStream:
    """A stream of records of one type.

    Every operation returns a new stream and leaves this one as it is. Nothing runs before `execute` of the environment.

    Example:
        ```
        lines = env.from_collection(["to be", "or not"], Types.STRING())
        words = lines.flat_map(str.split, output_type=Types.STRING())
        words.filter(lambda word: len(word) > 2).print()
        env.execute()
        ```

    Source: pyflink.datastream.DataStream. Beyond PyFlink, it has further operations of Java's DataStream, and
    operations on columns.
    """

    def __init__(self, j_data_stream: Transformation, environment: StreamExecutionEnvironment | None = None) -> None:
        assert environment is not None
        self._transformation = j_data_stream
        self._environment = environment

    def __getattr__(self, name: str) -> NoReturn:
        """Raises an AttributeError, with a hint if only a KeyedStream has the attribute."""
        from flinkpy.datastream.keyed_stream import KeyedStream

        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not isinstance(self, KeyedStream) and not name.startswith("_") and hasattr(KeyedStream, name):
            text += f". Only a keyed stream has it: stream.key_by(lambda value: ...).{name}(...)"
        raise AttributeError(text, name=name, obj=self)

    # -- properties ------------------------------------------------------------------------------------------------

    def get_name(self) -> str:
        """Returns the name of the operator that produces the stream."""
        return self._operator("get_name").name

    def get_type(self) -> TypeInformation:
        """Returns the type of the records; PICKLED_BYTE_ARRAY if none was declared."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Returns the execution settings of the environment."""
        return self._environment.get_config()

    def get_id(self) -> int:
        """Returns the id of the stream, unique in its program. Beyond PyFlink."""
        return self._transformation.id

    def get_parallelism(self) -> int:
        """Returns the parallelism of the operator that produces the stream. Beyond PyFlink."""
        transformation = self._transformation
        while (parallelism := getattr(transformation, "parallelism", None)) is None and transformation.inputs:
            transformation = transformation.inputs[0]
        return 1 if parallelism is None else parallelism

    # -- settings of the operator that produces the stream ---------------------------------------------------------

    def name(self, name: str) -> DataStream:
        """Sets the name of the operator, which appears in task names, metrics and errors. Returns this stream."""
        self._operator("name").name = name
        return self

    def uid(self, uid: str) -> DataStream:
        """Sets the id under which checkpoints store the state of the operator.

        An operator with a uid finds its state again after other parts of the program have changed.

        Args:
            uid: a text that is unique in the job and stays the same in later versions of the program.

        Returns:
            this stream.

        Example:
            ```
            stream.key_by(lambda order: order.user).process(CountOrders()).uid("count-orders")
            ```
        """
        self._operator("uid").set_uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStream:
        """Sets the operator id itself, as 32 hex digits, for the state of a job whose operator had no uid."""
        self._operator("set_uid_hash").set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        """Sets the number of subtasks of the operator.

        Args:
            parallelism: from 1 to 32,768, and not above the maximum parallelism.

        Returns:
            this stream.
        """
        self._operator("set_parallelism").set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Sets the number of key groups, which is the highest parallelism that the operator can be rescaled to.

        A job that is restored from a checkpoint must keep it.

        Args:
            max_parallelism: from 1 to 32,768.

        Returns:
            this stream.
        """
        self._operator("set_max_parallelism").set_max_parallelism(max_parallelism)
        return self

    def force_non_parallel(self) -> DataStream:
        """Fixes the parallelism at 1. It cannot be raised afterwards. Returns this stream."""
        self._operator("force_non_parallel").force_non_parallel()
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """Sets how long a record of this operator may wait in an incomplete batch before the batch is sent.

        Args:
            timeout_millis: the time in milliseconds. 0 sends each record immediately; -1 sends full batches only.

        Returns:
            this stream.
        """
        self._operator("set_buffer_timeout").set_buffer_timeout(timeout_millis)
        return self

    def start_new_chain(self) -> DataStream:
        """Starts a new task with this operator: it is not chained to its input. Returns this stream."""
        self._operator("start_new_chain").chaining_strategy = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> DataStream:
        """Runs this operator in a separate task, chained neither to its input nor to its consumers."""
        self._operator("disable_chaining").chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStream:
        """Sets the slot sharing group of the operator. Only operators of the same group share slots.

        Args:
            slot_sharing_group: the name of the group, or the group. The default is the group of the inputs.

        Returns:
            this stream.
        """
        _set_slot_sharing_group(self._operator("slot_sharing_group"), slot_sharing_group, self._environment)
        return self

    def set_description(self, description: str) -> DataStream:
        """Sets the description of the operator, which the execution plan shows. Returns this stream."""
        self._operator("set_description").description = description
        return self

    def set_batch_backend(self, backend: str) -> DataStream:
        """Sets the engine that runs this operator in batch mode. Beyond PyFlink.

        Args:
            backend: `native`, `spark` or `auto`.

        Returns:
            this stream.
        """
        self._operator("set_batch_backend").set_batch_backend(backend)
        return self

    def returns(self, type_info: TypeInformation | list[TypeInformation]) -> DataStream:
        """Declares the type of the results of the last operation, as its `output_type` does. Beyond PyFlink.

        Call it before another operation uses this stream.

        Args:
            type_info: the type. A list of types is a ROW type.

        Raises:
            TypeError: the operation determines the type of its results itself (a filter, a reduce, ...).
            UserError: another operation uses the stream already.
        """
        operator = self._transformation
        if not isinstance(operator, OperatorTransformation) or not specs.is_type_declarable(operator.spec):
            raise TypeError(
                "returns: the type of this operation's results follows from its input and cannot be declared"
            )
        if any(_reads(other, operator) for other in self._environment.get_transformations()):
            raise UserError(f"returns: another operation reads '{operator.name}' already; declare the type before")
        declared = checks.output_type_of(type_info)
        operator.spec = replace(operator.spec, output_type=declared)
        operator.output_type = declared
        return self

    # -- operations ------------------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Applies a function to every record. Each record has one result.

        Args:
            func: a function of one record, or a MapFunction.
            output_type: the type of the results. None pickles them.

        Returns:
            the stream of the results.

        Raises:
            TypeError: `func` is neither of these.

        Example:
            ```
            numbers.map(lambda number: number * 2, output_type=Types.LONG())
            ```
        """
        return self._one_input(
            "Map", specs.MapSpec(checks.map_function(func), **self._types(checks.output_type_of(output_type)))
        )

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Applies a function to every record. Each record has any number of results.

        Args:
            func: a function of one record that returns an iterable or yields its results, or a FlatMapFunction.
            output_type: the type of the results. None pickles them.

        Returns:
            the stream of the results.

        Raises:
            TypeError: `func` is neither of these.

        Example:
            ```
            lines.flat_map(lambda line: line.split(), output_type=Types.STRING())
            ```
        """
        function = checks.flat_map_function(func)
        return self._one_input(
            "Flat Map", specs.FlatMapSpec(function, **self._types(checks.output_type_of(output_type)))
        )

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | int | tuple[str | int, ...],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partitions the stream by key: all records of a key go to the same subtask, which keeps the state of the key.

        Args:
            key_selector: a function of one record that returns its key, or a KeySelector. It must always return the
                same key for the same record. Beyond PyFlink: the name or position of a field, or a tuple of them. The
                key is the value of the field, or a tuple of the values of several fields. If the stream is in columns,
                such a key needs no Python object per row.
            key_type: the type of the key. None pickles keys, unless the fields of a typed stream determine the type.

        Returns:
            the keyed stream.

        Raises:
            TypeError: the selector is none of these, or values of the key's type cannot be keys.

        Example:
            ```
            orders.key_by(lambda order: order.user, key_type=Types.STRING())
            orders.key_by("user")
            ```
        """
        from flinkpy.datastream.keyed_stream import KeyedStream

        input_type = self._transformation.output_type
        selector = checks.key_selector(key_selector, input_type)
        checked_type = checks.key_type_of(selector, key_type, input_type)
        partitioned = PartitionTransformation(
            self._transformation, Partitioning(partitioning.HASH, selector, checked_type)
        )
        return KeyedStream(partitioned, self.get_type(), self, selector, checked_type)

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keeps the records for which a function returns a true value.

        Args:
            func: a function of one record, or a FilterFunction.

        Returns:
            the stream of the records that are kept, of the same type.

        Raises:
            TypeError: `func` is neither of these.
        """
        function = checks.filter_function(func)
        return self._one_input("Filter", specs.FilterSpec(function, **self._types(self._transformation.output_type)))

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Applies a ProcessFunction, which has access to timestamps, side outputs and the time service.

        Args:
            func: the function. It may yield any number of results per record, and `tag, value` for a side output.
            output_type: the type of the results. None pickles them.

        Returns:
            the stream of the results. `get_side_output` returns the streams of its side outputs.

        Raises:
            TypeError: `func` is not a ProcessFunction.
        """
        if not isinstance(func, ProcessFunction):
            raise TypeError("The input must be a ProcessFunction (a KeyedProcessFunction needs a keyed stream)")
        return self._one_input("Process", specs.ProcessSpec(func, **self._types(checks.output_type_of(output_type))))

    def project(self, *field_indexes: int) -> DataStream:
        """Selects fields of a stream of tuples.

        Args:
            field_indexes: the positions of 1 to 25 fields, in the order of the result.

        Returns:
            a stream of tuples of these fields.

        Raises:
            TypeError: the stream is not of a TUPLE type.
            ValueError: there is no such field, or the number of fields is out of range.
        """
        input_type = self.get_type()
        if not isinstance(input_type, TupleTypeInfo):
            raise TypeError("Only Tuple DataStreams can be projected.")
        if not 1 <= len(field_indexes) <= _MAX_TUPLE_FIELDS:
            raise ValueError(f"You must select between one and {_MAX_TUPLE_FIELDS} fields to project.")
        fields = input_type.get_field_types()
        for index in field_indexes:
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(fields):
                raise ValueError(f"Provided field index {index!r} is out of bounds of input tuple type {input_type!r}")
        output_type = TupleTypeInfo([fields[index] for index in field_indexes])
        return self._one_input("Projection", specs.ProjectSpec(tuple(field_indexes), **self._types(output_type)))

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assigns event time to the records, and generates watermarks.

        Args:
            watermark_strategy: extracts the timestamps and generates the watermarks.

        Returns:
            the same records with timestamps and watermarks.

        Raises:
            TypeError: the strategy is not a WatermarkStrategy, or its timestamp column is not a time.
            ValueError: the records have no such timestamp column.

        Example:
            ```
            strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
            orders.assign_timestamps_and_watermarks(strategy.with_timestamp_column("at"))
            ```
        """
        from flinkpy.common.watermark_strategy import WatermarkStrategy
        from flinkpy.datastream.program_checks import check_timestamp_column

        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError("The input must be a WatermarkStrategy")
        check_timestamp_column(watermark_strategy, self._transformation.output_type)
        types = self._types(self._transformation.output_type)
        return self._one_input("Timestamps/Watermarks", specs.TimestampsAndWatermarksSpec(watermark_strategy, **types))

    def union(self, *streams: DataStream) -> DataStream:
        """Merges this stream with others of the same type.

        Args:
            streams: at least one stream of the same environment.

        Returns:
            a stream with the records of all of them. Records of different streams have no order.

        Raises:
            ValueError: there is no stream, or the types or the environments differ.
        """
        if not streams:
            raise ValueError("union needs at least one other stream")
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise TypeError(f"union: {stream!r} is not a DataStream")
            if stream._environment is not self._environment:
                raise ValueError("union: the streams belong to different environments")
            if stream.get_type() != self.get_type():
                raise ValueError(
                    f"Cannot union streams of different types: {self.get_type()!r} and {stream.get_type()!r}"
                )
        inputs = [stream._transformation for stream in (self, *streams)]
        return DataStream(UnionTransformation(inputs), self._environment)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connects this stream with another one of any type, so that one operator reads both and can share state.

        Args:
            ds: a stream, or a BroadcastStream for the broadcast state pattern.

        Returns:
            the connected streams, with `map`, `flat_map` and `process`.

        Raises:
            TypeError: `ds` is neither of these.
        """
        from flinkpy.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        raise TypeError(f"connect: the input must be a DataStream or a BroadcastStream, not {ds!r}")

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Joins the records of two streams that have the same key and fall into the same window. Beyond PyFlink.

        Example:
            ```
            orders.join(payments).where(order_id).equal_to(order_id).window(assigner).apply(pair_them)
            ```
        """
        from flinkpy.datastream.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Groups the records of two streams by key and window, for a CoGroupFunction. Beyond PyFlink.

        It is used like `join`.
        """
        from flinkpy.datastream.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Returns the stream of the records that this stream's operator emits to a side output.

        Args:
            output_tag: the tag of the side output. Its type is the type of the stream.

        Example:
            ```
            late = OutputTag("late", Types.STRING())
            result = stream.process(SplitLate(late))
            result.get_side_output(late).print()
            ```
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeError("The input must be an OutputTag")
        side_type = checks.output_type_of(output_tag.type_info)
        side = SideOutputTransformation(self._operator("get_side_output"), output_tag.tag_id, side_type)
        return DataStream(side, self._environment)

    # -- operations on columns --------------------------------------------------------------------------------------

    def select(self, *expressions: Expression | str) -> DataStream:
        """Computes one column per expression. Beyond PyFlink's DataStream; the names are those of its Table.

        Args:
            expressions: names of columns, or expressions of `flinkpy.datastream.expressions`. An expression without an
                alias gets the name `_c0`, `_c1`, ... of its position.

        Returns:
            a stream of ROWs with these columns.

        Raises:
            UserError: a column does not exist (the error names it and those that do), the types do not fit, or two
                columns have the same name.

        Example:
            ```
            stream.select("name", (col("price") * 2).alias("twice"))
            ```
        """
        return columns.select(self, expressions)

    def filter_batches(self, func: Any) -> DataStream:
        """Keeps the rows of each batch that meet a condition (a vectorised filter). Beyond PyFlink.

        Args:
            func: an expression of `flinkpy.datastream.expressions`, such as `col("price") > 10`, which can also be
                pushed down into sources; an Arrow compute expression; or a function of a `pyarrow.RecordBatch` that
                returns an Arrow compute expression, or a boolean Arrow or NumPy array with one element per row.

        Raises:
            TypeError: the stream has no declared type, or `func` is none of these.
            UserError: the expression names a missing column, or is not a BOOLEAN.
        """
        return columns.filter_batches(self, func)

    def map_batches(self, func: Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """Applies a function to batches of columns (a vectorised map). Beyond PyFlink.

        Args:
            func: `func(pyarrow.RecordBatch) -> pyarrow.RecordBatch`. The result may have any number of rows. If the
                number differs from that of the input, the records have no timestamps.
            output_type: a TypeInformation or a `pyarrow.Schema`. None means that the result has this stream's columns.

        Raises:
            TypeError: the stream has no declared type, or `func` is not a function.

        Example:
            ```
            def double(batch):
                return pa.RecordBatch.from_arrays([pc.multiply(batch["price"], 2)], names=["price"])

            prices.map_batches(double)
            ```
        """
        return columns.map_batches(self, func, output_type)

    def flat_map_batches(self, func: Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """Applies a function to batches that returns any number of batches (a vectorised flat map). Beyond PyFlink.

        The resulting records have no timestamps.

        Args:
            func: a function of a `pyarrow.RecordBatch` that returns an iterable of RecordBatches or yields them.
            output_type: a TypeInformation or a `pyarrow.Schema`. None means that the results have this stream's
                columns.

        Raises:
            TypeError: the stream has no declared type, or `func` is not a function.
        """
        return columns.flat_map_batches(self, func, output_type)

    def map_columns(self, **columns: Any) -> DataStream:
        """Adds columns, or replaces them, with functions that numba compiles. Beyond PyFlink.

        Args:
            columns: functions of `flinkpy.datastream.compiled`, by the name of the column. All functions see the
                columns of the input.

        Example:
            ```
            orders.map_columns(total=compiled(lambda price, quantity: price * quantity, Types.DOUBLE()))
            ```
        """
        from flinkpy.datastream.compiled import AddColumns, type_with_columns

        types = self._types(type_with_columns(self._transformation.output_type, columns))
        return self._one_input("Map Columns", specs.MapBatchesSpec(AddColumns(columns), **types))

    def aggregate_columns(self, *aggregates: ColumnAggregate, **named: ColumnAggregate) -> DataStream:
        """Aggregates all records of a bounded stream into one row. Beyond PyFlink.

        The row is emitted when the input ends. If there is no record, COUNT is 0 and the other aggregates are null.

        Args:
            aggregates: aggregates of `flinkpy.datastream.aggregates`, except `first` and `last`, over columns or
                expressions.
            named: more aggregates, each with the name of its column.

        Raises:
            UnsupportedOperationError: a source of the stream is unbounded, or the aggregate is not available here.

        Example:
            ```
            orders.aggregate_columns(count(), total=sum_("price"))
            ```
        """
        return columns.aggregate_columns(self, aggregates, named)

    def sort_columns(self, *keys: Expression | str, limit: int | None = None) -> DataStream:
        """Sorts all records of a bounded stream. They are emitted when the input ends. Beyond PyFlink.

        Nulls come first in ascending order and last in descending order, as in Flink. The last step has parallelism 1;
        without a limit it holds all records in memory.

        Args:
            keys: names of columns (ascending), or `col(name).asc` or `col(name).desc`.
            limit: the number of records to keep. No subtask then sends more records than that to the last step.

        Raises:
            UserError: there is no such column.
            UnsupportedOperationError: a source of the stream is unbounded.

        Example:
            ```
            stream.sort_columns(col("revenue").desc, "name", limit=10)
            ```
        """
        return columns.sort_columns(self, keys, limit)

    # -- partitioning ----------------------------------------------------------------------------------------------

    def shuffle(self) -> DataStream:
        """Sends each record to a random subtask of the next operator."""
        return self._partitioned(Partitioning(partitioning.SHUFFLE))

    def rescale(self) -> DataStream:
        """Sends records round-robin to a part of the next operator's subtasks, over fewer connections."""
        return self._partitioned(Partitioning(partitioning.RESCALE))

    def rebalance(self) -> DataStream:
        """Sends records round-robin to all subtasks of the next operator."""
        return self._partitioned(Partitioning(partitioning.REBALANCE))

    def forward(self) -> DataStream:
        """Sends records to the subtask with the same index. Both operators must have the same parallelism."""
        return self._partitioned(Partitioning(partitioning.FORWARD))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Sends every record to every subtask of the next operator.

        Args:
            broadcast_state_descriptor: the broadcast state that the records may change.
            other_broadcast_state_descriptors: further broadcast states.

        Returns:
            a DataStream; or with descriptors a BroadcastStream, which another stream can `connect` with.
        """
        everywhere = self._partitioned(Partitioning(partitioning.BROADCAST))
        if broadcast_state_descriptor is None:
            return everywhere
        from flinkpy.datastream.connected_streams import BroadcastStream

        return BroadcastStream(everywhere, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def global_(self) -> DataStream:
        """Sends all records to the first subtask of the next operator. Beyond PyFlink (Java's `global`)."""
        return self._partitioned(Partitioning(partitioning.GLOBAL))

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Sends each record to the subtask that a partitioner chooses.

        Args:
            partitioner: a function of the key and the number of subtasks that returns the index of a subtask, or a
                Partitioner.
            key_selector: a function of one record that returns its key, or a KeySelector.
        """
        function = checks.partitioner_function(partitioner)
        selector = checks.key_selector(key_selector, self._transformation.output_type)
        return self._partitioned(Partitioning(partitioning.CUSTOM, selector, None, function))

    # -- sinks -----------------------------------------------------------------------------------------------------

    def sink_to(self, sink: Any) -> DataStreamSink:
        """Writes the records to a sink.

        Args:
            sink: a `flinkpy.connector_api.sink.SinkBase`, such as a KafkaSink or a FileSink.

        Returns:
            the end of the stream, whose name, uid and parallelism can be set.

        Raises:
            TypeError: `sink` is not a SinkBase.
        """
        if not isinstance(sink, SinkBase):
            raise TypeError("The input must be a Sink (an implementation of flinkpy.connector_api.sink.SinkBase)")
        return self._sink("Sink: Writer", sink)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints each record: to the terminal on an embedded cluster, else to the TaskExecutor's standard output.

        Args:
            sink_identifier: a prefix of the lines.
        """
        from flinkpy.connectors.print_sink import PrintSink

        return self._sink("Sink: Print to Std. Out", PrintSink(sink_identifier))

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints each record as `print` does, to the standard error. Beyond PyFlink (Java's `printToErr`)."""
        from flinkpy.connectors.print_sink import PrintSink

        return self._sink("Sink: Print to Std. Err", PrintSink(sink_identifier, std_err=True))

    def write_to_socket(self, hostname: str, port: int, schema: SerializationSchema) -> DataStreamSink:
        """Sends each record to a server over one TCP connection. Beyond PyFlink (Java's `writeToSocket`).

        A broken connection fails the job.

        Args:
            hostname: the host of the server.
            port: the port of the server.
            schema: serializes each record to the bytes that are sent.
        """
        from flinkpy.connectors.sockets import SocketSink

        return self._sink("Sink: Socket", SocketSink(hostname, port, schema)).set_parallelism(1)

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Passes every record to a SinkFunction. PyFlink takes a Java function here, flinkpy a Python one.

        Raises:
            UnsupportedOperationError: `sink_func` is the name of a Java class.
            TypeError: `sink_func` is not a SinkFunction.
        """
        if isinstance(sink_func, str):
            sink_func = SinkFunction(sink_func)
        if not isinstance(sink_func, SinkFunction):
            raise TypeError(
                f"add_sink needs a flinkpy.datastream.functions.SinkFunction, not {type(sink_func).__name__}; pass "
                "other sinks to sink_to"
            )
        return self._sink("Sink: Unnamed", sink_func.to_sink())

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Executes the program and returns the records of this stream to this process while the job runs.

        Args:
            job_execution_name: the name of the job.
            limit: the number of records to wait for. The job is cancelled once they have arrived.

        Returns:
            without a limit a CloseableIterator, which must be closed unless it is read to its end; with a limit a list
            of the first records.

        Raises:
            ValueError: the limit is not positive.
            JobExecutionError: the job failed. The iterator raises it too.

        Example:
            ```
            with stream.execute_and_collect() as records:
                for record in records:
                    print(record)
            ```
        """
        from flinkpy.datastream.collected_results import CloseableIterator

        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0):
            raise ValueError(f"Limit must be greater than 0, not {limit!r}")
        results = CloseableIterator(self._environment.collect(self, job_execution_name), self.get_type())
        if limit is None:
            return results
        with results:
            return [record for _, record in zip(range(limit), results)]

    def collect_async(self) -> CloseableIterator:
        """Returns an iterator over the records of this stream, for a job that is started later. Beyond PyFlink.

        The records arrive after `execute_async` of the environment. Closing the iterator before its end cancels the
        job.
        """
        from flinkpy.datastream.collected_results import CloseableIterator

        return CloseableIterator(self._environment.collect_later(self), self.get_type())

    # -- windows ---------------------------------------------------------------------------------------------------

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream:
        """Groups all records of the stream into windows, without keys. The operator has parallelism 1.

        Args:
            window_assigner: assigns each record to its windows.
        """
        from flinkpy.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Groups all records of the stream into windows of a number of records. Beyond PyFlink.

        Args:
            size: the number of records of a window.
            slide: the number of records between the starts of two windows. 0 makes tumbling windows.
        """
        from flinkpy.functions.window_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        if slide == 0:
            return self.window_all(CountTumblingWindowAssigner.of(size))
        return self.window_all(CountSlidingWindowAssigner.of(size, slide))

    def full_window_partition(self) -> PartitionWindowedStream:
        """Collects all records of each subtask into one window, which ends when the stream ends. Beyond PyFlink."""
        from flinkpy.datastream.partition_windowed_stream import NonKeyedPartitionWindowedStream

        return NonKeyedPartitionWindowedStream(self)

    def cache(self) -> CachedDataStream:
        """Caches the records of a bounded stream: the first job that uses them computes them, later jobs read them.

        Returns:
            the cached stream, with `invalidate`.
        """
        return self._environment.cluster_datasets.cached(self, self._environment)

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def transformation(self) -> Transformation:
        """The node of the program's graph that produces the records."""
        return self._transformation

    def _types(self, output_type: TypeInformation | None) -> dict[str, Any]:
        return {"input_types": (self._transformation.output_type,), "output_type": output_type}

    def _one_input(self, name: str, spec: specs.OperatorSpec) -> DataStream:
        operator = OperatorTransformation(name, spec, (self._transformation,))
        self._environment.add_operator(operator)
        return DataStream(operator, self._environment)

    def _sink(self, name: str, sink: SinkBase) -> DataStreamSink:
        operator = OperatorTransformation(name, specs.SinkSpec(sink, **self._types(None)), (self._transformation,))
        self._environment.add_operator(operator)
        return DataStreamSink(operator, self._environment)

    def _partitioned(self, how: Partitioning) -> DataStream:
        return DataStream(PartitionTransformation(self._transformation, how), self._environment)

    def _operator(self, method: str) -> OperatorTransformation:
        if not isinstance(self._transformation, OperatorTransformation):
            raise UnsupportedOperationError(
                f"{method}: this stream comes from a partitioning, a union or a side output, not from an operator; "
                "call it on the stream of the operator before or after"
            )
        return self._transformation


class DataStreamSink:
    """The end of a stream: the settings of a sink operator. Every method returns this object.

    Source: pyflink.datastream.DataStreamSink.
    """

    def __init__(
        self, j_data_stream_sink: OperatorTransformation, environment: StreamExecutionEnvironment | None = None
    ) -> None:
        assert environment is not None
        self._transformation = j_data_stream_sink
        self._environment = environment

    def name(self, name: str) -> DataStreamSink:
        """Sets the name of the sink."""
        is_writer = self._transformation.name.endswith(": Writer")
        self._transformation.name = f"{name}: Writer" if is_writer else f"Sink: {name}"
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Sets the id of the sink's state, as `DataStream.uid` does."""
        self._transformation.set_uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Sets the operator id itself, as `DataStream.set_uid_hash` does."""
        self._transformation.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Sets the number of subtasks of the sink."""
        self._transformation.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """Sets the highest parallelism that the sink can be rescaled to. Beyond PyFlink."""
        self._transformation.set_max_parallelism(max_parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Sets the description that the execution plan shows."""
        self._transformation.description = description
        return self

    def set_batch_backend(self, backend: str) -> DataStreamSink:
        """Sets the engine in batch mode, as `DataStream.set_batch_backend` does. Beyond PyFlink."""
        self._transformation.set_batch_backend(backend)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Runs the sink in a separate task."""
        self._transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Sets the slot sharing group, by its name or as an object."""
        _set_slot_sharing_group(self._transformation, slot_sharing_group, self._environment)
        return self

    @property
    def transformation(self) -> OperatorTransformation:
        return self._transformation


def _reads(reader: Transformation, operator: OperatorTransformation) -> bool:
    """Returns True if the reader reads the operator, directly or through partitionings and unions."""
    pending = list(reader.inputs)
    while pending:
        producer = pending.pop()
        if producer is operator:
            return True
        if not isinstance(producer, OperatorTransformation):
            pending.extend(producer.inputs)
    return False


def _set_slot_sharing_group(
    operator: OperatorTransformation, group: str | SlotSharingGroup, environment: StreamExecutionEnvironment
) -> None:
    if isinstance(group, SlotSharingGroup):
        environment.register_slot_sharing_group(group)
        operator.slot_sharing_group = group.get_name()
    elif isinstance(group, str) and group:
        operator.slot_sharing_group = group
    else:
        raise TypeError(f"a slot sharing group is a non-empty name or a SlotSharingGroup, not {group!r}")
