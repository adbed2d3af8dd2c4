"""ConnectedStreams, BroadcastStream and BroadcastConnectedStream: streams for operators with two inputs.

Source: pyflink.datastream.data_stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.keyed_stream import KeyedStream
from flinkpy.functions.state import MapStateDescriptor
from flinkpy.functions.stream_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.transformation import OperatorTransformation

if TYPE_CHECKING:
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

Selector = Callable[[Any], Any] | KeySelector | str | int | tuple[str | int, ...]


class TwoStreams:
    """The base of connected streams. Beyond PyFlink."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        check_same_environment(first, second)
        self._first = first
        self._second = second

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment of both streams."""
        return self._first.get_execution_environment()

    def get_first_input(self) -> DataStream:
        """Returns the first stream."""
        return self._first

    def get_second_input(self) -> DataStream:
        """Returns the second stream."""
        return self._second

    def get_type1(self) -> TypeInformation:
        """Returns the type of the first stream's records."""
        return self._first.get_type()

    def get_type2(self) -> TypeInformation:
        """Returns the type of the second stream's records."""
        return self._second.get_type()


class ConnectedStreams(TwoStreams):
    """Two streams of any types that one operator reads. The first stream is input 0.

    If both streams are keyed, the function has access to the state and timers of the record's key, which both share.

    Example:
        ```
        orders.connect(payments).key_by(order_id, payment_id).process(MatchPayments()).print()
        ```
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        super().__init__(stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self, key_selector1: Selector, key_selector2: Selector, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Partitions both streams by key: records with equal keys of either stream go to the same subtask.

        Args:
            key_selector1: the key of the first stream's records, as for `DataStream.key_by`.
            key_selector2: the key of the second stream's records, of the same type.
            key_type: the type of both keys.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type),
            self.stream2.key_by(key_selector2, key_type),
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Applies a CoMapFunction. Each record of either stream has one result; a result of None is dropped.

        Args:
            func: the function.
            output_type: the type of the results. None pickles them.
        """
        if not isinstance(func, CoMapFunction):
            raise TypeError("The input function must be a CoMapFunction!")
        return self._operator("Co-Map", func, "MAP", output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Applies a CoFlatMapFunction. Each record of either stream has any number of results.

        Args:
            func: the function.
            output_type: the type of the results. None pickles them.
        """
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError("The input must be a CoFlatMapFunction!")
        return self._operator("Co-Flat Map", func, "FLAT_MAP", output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Applies a function with access to side outputs and time, and if the streams are keyed to state and timers.

        Args:
            func: a CoProcessFunction, or a KeyedCoProcessFunction if both streams are keyed.
            output_type: the type of the results. None pickles them.

        Raises:
            TypeError: the function is neither, or it needs keys and the streams have none.
        """
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            raise TypeError("The input must be a CoProcessFunction or KeyedCoProcessFunction!")
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed_stream():
            raise TypeError("A KeyedCoProcessFunction needs two keyed streams: call key_by before process.")
        return self._operator(
            "Keyed Co-Process" if self._is_keyed_stream() else "Co-Process", func, "PROCESS", output_type
        )

    def _is_keyed_stream(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def _operator(self, name: str, function: Any, kind: str, output_type: TypeInformation | None) -> DataStream:
        first, second = self.stream1, self.stream2
        types = _types(first, second, output_type)
        spec: specs.OperatorSpec
        if isinstance(first, KeyedStream) and isinstance(second, KeyedStream):
            first, second = with_common_key_type(first, second)
            selectors = (first.key_selector, second.key_selector)
            spec = specs.KeyedCoProcessSpec(function, selectors, kind, key_type=first.key_type, **types)
        else:
            spec = specs.CoProcessSpec(function, kind, **types)
        return two_inputs(name, spec, first, second)


class BroadcastStream:
    """A stream whose records all go to every subtask, and the broadcast states that they may change.

    `DataStream.broadcast` creates it. `connect` another stream with it.
    """

    def __init__(
        self, input_stream: DataStream | KeyedStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = _checked_descriptors(broadcast_state_descriptors)


class BroadcastConnectedStream(TwoStreams):
    """A stream, keyed or not, that is connected with a broadcast stream.

    Example:
        ```
        rules = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
        orders.connect(rule_stream.broadcast(rules)).process(ApplyRules())
        ```
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream | KeyedStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(non_broadcast_stream, broadcast_stream.input_stream)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = _checked_descriptors(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies a function to the records of both sides.

        The broadcast side may write the broadcast states, and must write the same in every subtask. The other side may
        read them. If it is keyed, it has access to the state and timers of its key.

        Args:
            func: a KeyedBroadcastProcessFunction if the first stream is keyed, else a BroadcastProcessFunction.
            output_type: the type of the results. None pickles them.

        Raises:
            TypeError: the function is of another class.
        """
        first, second = self.non_broadcast_stream, self.broadcast_stream.input_stream
        descriptors = tuple(self.broadcast_state_descriptors)
        types = _types(first, second, output_type)
        spec: specs.OperatorSpec
        if isinstance(first, KeyedStream):
            if isinstance(func, BroadcastProcessFunction):
                raise TypeError("BroadcastProcessFunction should be applied to non-keyed DataStream")
            if not isinstance(func, KeyedBroadcastProcessFunction):
                raise TypeError("The input must be a KeyedBroadcastProcessFunction!")
            name = "Co-Process-Broadcast-Keyed"
            spec = specs.KeyedBroadcastProcessSpec(
                first.key_selector, func, descriptors, key_type=first.key_type, **types
            )
        else:
            if isinstance(func, KeyedBroadcastProcessFunction):
                raise TypeError("KeyedBroadcastProcessFunction should be applied to keyed DataStream")
            if not isinstance(func, BroadcastProcessFunction):
                raise TypeError("The input must be a BroadcastProcessFunction!")
            name = "Co-Process-Broadcast"
            spec = specs.BroadcastProcessSpec(func, descriptors, **types)
        stream = two_inputs(name, spec, first, second)
        # As in Flink, the parallelism counts as set by the program: batch mode does not change it.
        stream.set_parallelism(stream.get_execution_environment().get_parallelism())
        return stream


def two_inputs(name: str, spec: specs.OperatorSpec, first: DataStream, second: DataStream) -> DataStream:
    environment = first.get_execution_environment()
    operator = OperatorTransformation(name, spec, (first.transformation, second.transformation))
    environment.add_operator(operator)
    return DataStream(operator, environment)


def _types(first: DataStream, second: DataStream, output_type: TypeInformation | None) -> dict[str, Any]:
    return {
        "input_types": (first.transformation.output_type, second.transformation.output_type),
        "output_type": checks.output_type_of(output_type),
    }


def common_key_type(first: KeyedStream, second: KeyedStream) -> TypeInformation | None:
    """Returns the type of the keys of both sides, which share state. If only one side declares a type, both have it.

    Raises: TypeError if the sides declare different types.
    """
    one, other = first.key_type, second.key_type
    if one is not None and other is not None and one != other:
        raise TypeError(f"connected keyed streams must have keys of one type, not of {one!r} and {other!r}")
    return other if one is None else one


def with_common_key_type(first: KeyedStream, second: KeyedStream) -> tuple[KeyedStream, KeyedStream]:
    """Returns both streams keyed by their `common_key_type`, so that equal keys of both sides are the same key."""
    key_type = common_key_type(first, second)
    return first.with_key_type(key_type), second.with_key_type(key_type)


def check_same_environment(first: DataStream, second: DataStream) -> None:
    """Raises: UserError if the streams belong to different environments."""
    if first.get_execution_environment() is not second.get_execution_environment():
        raise UserError("connect: both streams must belong to the same StreamExecutionEnvironment")


def _checked_descriptors(descriptors: Sequence[MapStateDescriptor]) -> list[MapStateDescriptor]:
    seen: set[str] = set()
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            raise TypeError(f"broadcast_state_descriptor must be MapStateDescriptor, not {descriptor!r}")
        if descriptor.name in seen:
            raise ValueError(f"two broadcast states have the name {descriptor.name!r}")
        seen.add(descriptor.name)
    if not seen:
        raise ValueError("a broadcast stream needs at least one MapStateDescriptor")
    return list(descriptors)
