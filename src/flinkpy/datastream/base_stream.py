"""DataStream and DataStreamSink."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, overload

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TupleTypeInfo, TypeInformation, Types
from flinkpy.connector_api.sink import SinkBase
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    SinkFunction,
)
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.datastream.slot_sharing_group import SlotSharingGroup
from flinkpy.datastream.stream_extensions import StreamExtensions
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
    from flinkpy.common.watermark_strategy import WatermarkStrategy
    from flinkpy.datastream.cached_data_stream import CachedDataStream
    from flinkpy.datastream.closeable_iterator import CloseableIterator
    from flinkpy.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.datastream.state import MapStateDescriptor
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkpy.datastream.window import WindowAssigner
    from flinkpy.datastream.windowed_stream import AllWindowedStream

_MAX_TUPLE_FIELDS = 25


class DataStream(StreamExtensions):
    """Records of one type, and what can be done with them. Every operation gives a new stream.

    Source: pyflink.datastream.DataStream.
    """

    def __init__(self, j_data_stream: Transformation, environment: StreamExecutionEnvironment | None = None) -> None:
        assert environment is not None
        self._transformation = j_data_stream
        self._environment = environment

    def __getattr__(self, name: str) -> NoReturn:
        """Say what to do where a stream without keys is asked for what only a keyed one has."""
        from flinkpy.datastream.keyed_stream import KeyedStream

        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not isinstance(self, KeyedStream) and not name.startswith("_") and hasattr(KeyedStream, name):
            text += f". It is there once the stream has keys: stream.key_by(lambda value: ...).{name}(...)"
        raise AttributeError(text, name=name, obj=self)

    # -- what it is ------------------------------------------------------------------------------------------------

    def get_name(self) -> str:
        return self._operator("get_name").name

    def get_type(self) -> TypeInformation:
        """The type of the records; PICKLED_BYTE_ARRAY where none was declared."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        return self._environment.get_config()

    # -- settings of the operator that produces it -----------------------------------------------------------------

    def name(self, name: str) -> DataStream:
        """Name the operator: in the names of its tasks, and in errors."""
        self._operator("name").name = name
        return self

    def uid(self, uid: str) -> DataStream:
        """Identify the operator across changes of the program; its state is found by this."""
        self._operator("uid").set_uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStream:
        """Give the operator this id: 32 hex digits."""
        self._operator("set_uid_hash").set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        self._operator("set_parallelism").set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """The number of key groups, and so the highest parallelism there can ever be."""
        self._operator("set_max_parallelism").set_max_parallelism(max_parallelism)
        return self

    def force_non_parallel(self) -> DataStream:
        """Fix the parallelism at 1."""
        self._operator("force_non_parallel").force_non_parallel()
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """Longest time a record waits in a batch; -1: until the batch is full, 0: not at all."""
        self._operator("set_buffer_timeout").set_buffer_timeout(timeout_millis)
        return self

    def start_new_chain(self) -> DataStream:
        """Do not chain this operator to the one before it."""
        self._operator("start_new_chain").chaining_strategy = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> DataStream:
        """Run this operator in a task of its own."""
        self._operator("disable_chaining").chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStream:
        """Only operators of the same group share slots. The default is the group of the inputs."""
        _set_slot_sharing_group(self._operator("slot_sharing_group"), slot_sharing_group, self._environment)
        return self

    def set_description(self, description: str) -> DataStream:
        self._operator("set_description").description = description
        return self

    def set_batch_backend(self, backend: str) -> DataStream:
        """What runs this operator in batch mode: `native`, `spark` or `auto`. Beyond PyFlink."""
        self._operator("set_batch_backend").set_batch_backend(backend)
        return self

    # -- operations ------------------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One result per record."""
        return self._one_input(
            "Map", specs.MapSpec(checks.map_function(func), **self._types(checks.output_type_of(output_type)))
        )

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per record."""
        function = checks.flat_map_function(func)
        return self._one_input(
            "Flat Map", specs.FlatMapSpec(function, **self._types(checks.output_type_of(output_type)))
        )

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | int | tuple[str | int, ...],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Bring records of the same key together.

        Beyond PyFlink: a field's name or position, or a tuple of them, keys by columns, without a Python object per row
        where the stream is in columns; the key is the bare value, or a tuple of several.
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
        """Only the records for which the function gives a true value."""
        function = checks.filter_function(func)
        return self._one_input("Filter", specs.FilterSpec(function, **self._types(self._transformation.output_type)))

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Any number of results per record, with side outputs and time."""
        if not isinstance(func, ProcessFunction):
            raise TypeError("The input must be a ProcessFunction (a KeyedProcessFunction needs a keyed stream)")
        return self._one_input("Process", specs.ProcessSpec(func, **self._types(checks.output_type_of(output_type))))

    def project(self, *field_indexes: int) -> DataStream:
        """These positions of the tuples, in this order."""
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
        """Give records their event time, and the stream its watermarks."""
        from flinkpy.common.watermark_strategy import WatermarkStrategy
        from flinkpy.datastream.event_time_checks import check_timestamp_column

        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError("The input must be a WatermarkStrategy")
        check_timestamp_column(watermark_strategy, self._transformation.output_type)
        types = self._types(self._transformation.output_type)
        return self._one_input("Timestamps/Watermarks", specs.TimestampsAndWatermarksSpec(watermark_strategy, **types))

    def union(self, *streams: DataStream) -> DataStream:
        """The records of all streams, which must be of the same type."""
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
        """Let one operator read this stream and another, of whatever type."""
        from flinkpy.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        raise TypeError(f"connect: the input must be a DataStream or a BroadcastStream, not {ds!r}")

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What this stream's operator emits with the tag."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError("The input must be an OutputTag")
        side_type = checks.output_type_of(output_tag.type_info)
        side = SideOutputTransformation(self._operator("get_side_output"), output_tag.tag_id, side_type)
        return DataStream(side, self._environment)

    # -- partitioning ----------------------------------------------------------------------------------------------

    def shuffle(self) -> DataStream:
        """Each record to a random subtask of the next operator."""
        return self._partitioned(Partitioning(partitioning.SHUFFLE))

    def rescale(self) -> DataStream:
        """In turn to some subtasks, without connecting all with all."""
        return self._partitioned(Partitioning(partitioning.RESCALE))

    def rebalance(self) -> DataStream:
        """In turn to all subtasks."""
        return self._partitioned(Partitioning(partitioning.REBALANCE))

    def forward(self) -> DataStream:
        """To the subtask of the same number; both operators must have the same parallelism."""
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
        """Every record to every subtask; with descriptors, a stream to connect another with (see `connect`)."""
        everywhere = self._partitioned(Partitioning(partitioning.BROADCAST))
        if broadcast_state_descriptor is None:
            return everywhere
        from flinkpy.datastream.connected_streams import BroadcastStream

        return BroadcastStream(everywhere, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """To the subtask that `partitioner(key, number of subtasks)` names."""
        function = checks.partitioner_function(partitioner)
        selector = checks.key_selector(key_selector, self._transformation.output_type)
        return self._partitioned(Partitioning(partitioning.CUSTOM, selector, None, function))

    # -- where it ends ---------------------------------------------------------------------------------------------

    def sink_to(self, sink: Any) -> DataStreamSink:
        """Write the records with `sink`, a `flinkpy.connector_api.sink.SinkBase`."""
        if not isinstance(sink, SinkBase):
            raise TypeError("The input must be a Sink (an implementation of flinkpy.connector_api.sink.SinkBase)")
        return self._sink("Sink: Writer", sink)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each record in the terminal of an embedded cluster, or in a TaskExecutor's output."""
        from flinkpy.connectors.print_sink import PrintSink

        return self._sink("Sink: Print to Std. Out", PrintSink(sink_identifier))

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Have every record taken by a SinkFunction written in Python; in PyFlink, by one of Java's.

        Raises: UnsupportedOperationError for the name of a Java class.
        """
        if isinstance(sink_func, str):
            sink_func = SinkFunction(sink_func)
        if not isinstance(sink_func, SinkFunction):
            raise TypeError(
                f"add_sink needs a flinkpy.datastream.functions.SinkFunction, not {type(sink_func).__name__}; other "
                "sinks are for sink_to"
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
        """Execute the program and bring this stream's records here, while it runs.

        Returns:
            an iterator, which must be closed where it is not read to its end; or with `limit` a list of the first ones.
        """
        from flinkpy.datastream.closeable_iterator import CloseableIterator

        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0):
            raise ValueError(f"Limit must be greater than 0, not {limit!r}")
        results = CloseableIterator(self._environment.collect(self, job_execution_name), self.get_type())
        if limit is None:
            return results
        with results:
            return [record for _, record in zip(range(limit), results)]

    # -- windows ---------------------------------------------------------------------------------------------------

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream:
        """All records in windows, whatever their key; one subtask does it."""
        from flinkpy.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Windows of `size` records: one after the other, or with `slide` one every `slide` records. Beyond PyFlink."""
        from flinkpy.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        if slide == 0:
            return self.window_all(CountTumblingWindowAssigner.of(size))
        return self.window_all(CountSlidingWindowAssigner.of(size, slide))

    def cache(self) -> CachedDataStream:
        """The same records, computed by the first job that uses them and read by later ones. Bounded streams only."""
        return self._environment.cluster_datasets.cached(self, self._environment)

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def transformation(self) -> Transformation:
        """Where the records come from: what the JobGraph is made of."""
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
                "call it on the operator before or after"
            )
        return self._transformation


class DataStreamSink:
    """The end of a stream; its settings. Source: pyflink.datastream.DataStreamSink."""

    def __init__(
        self, j_data_stream_sink: OperatorTransformation, environment: StreamExecutionEnvironment | None = None
    ) -> None:
        assert environment is not None
        self._transformation = j_data_stream_sink
        self._environment = environment

    def name(self, name: str) -> DataStreamSink:
        is_writer = self._transformation.name.endswith(": Writer")
        self._transformation.name = f"{name}: Writer" if is_writer else f"Sink: {name}"
        return self

    def uid(self, uid: str) -> DataStreamSink:
        self._transformation.set_uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        self._transformation.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        self._transformation.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStreamSink:
        """The highest parallelism there can ever be. Beyond PyFlink."""
        self._transformation.set_max_parallelism(max_parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        self._transformation.description = description
        return self

    def set_batch_backend(self, backend: str) -> DataStreamSink:
        """As `DataStream.set_batch_backend`. Beyond PyFlink."""
        self._transformation.set_batch_backend(backend)
        return self

    def disable_chaining(self) -> DataStreamSink:
        self._transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        _set_slot_sharing_group(self._transformation, slot_sharing_group, self._environment)
        return self

    @property
    def transformation(self) -> OperatorTransformation:
        return self._transformation


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
