"""User functions: the classes that a program subclasses and passes to the operations of a stream.

Where an operation also takes a plain callable, the callable is wrapped, so that the runtime sees function objects only.

Functions of windows and asynchronous functions are in modules of their own. `flinkpy.datastream.functions` has them
all.

Source: pyflink.datastream.functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.function import Function
from flinkpy.functions.timers import TimeDomain, TimerService

if TYPE_CHECKING:
    from flinkpy.functions.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class MapFunction(Function):
    """A function with one result per record, for `map`.

    Example:
        ```
        class Enrich(MapFunction):
            def open(self, runtime_context):
                self.client = connect()

            def map(self, value):
                return value, self.client.look_up(value)
        ```
    """

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the result of a record."""


class CoMapFunction(Function):
    """A function with one result per record of two connected streams, for `ConnectedStreams.map`."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Returns the result of a record of the first stream; None if it has none."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Returns the result of a record of the second stream; None if it has none."""


class FlatMapFunction(Function):
    """A function with any number of results per record, for `flat_map`."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """Returns an iterable of the results of a record, or yields them."""


class CoFlatMapFunction(Function):
    """A function with any number of results per record of two connected streams, for `ConnectedStreams.flat_map`."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """Returns an iterable of the results of a record of the first stream, or yields them."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """Returns an iterable of the results of a record of the second stream, or yields them."""


class ReduceFunction(Function):
    """A function that combines two values into one of the same type. It must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination of the earlier result and the next value."""


class AggregateFunction(Function):
    """A function that adds values to an accumulator and computes a result from it, for windows and aggregating state.

    Example:
        ```
        class Mean(AggregateFunction):
            def create_accumulator(self):
                return 0, 0

            def add(self, value, accumulator):
                return accumulator[0] + value, accumulator[1] + 1

            def get_result(self, accumulator):
                return accumulator[0] / accumulator[1]

            def merge(self, acc_a, acc_b):
                return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        ```
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Returns a new, empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Returns the accumulator with the value added. It may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Returns the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Returns the combination of two accumulators. Session windows need it."""


class KeySelector(Function):
    """A function that extracts the key of a record. Equal records must have equal keys in every process."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key of a record."""


class NullByteKeySelector(KeySelector):
    """A selector that gives all records the same key."""

    def get_key(self, value: Any) -> Any:
        return 0


class JoinFunction(Function):
    """A function with one result per pair of a window join, for `JoinedStreams`. Beyond PyFlink."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Returns the result of a pair of records with the same key and window."""


class FlatJoinFunction(Function):
    """A function with any number of results per pair of a window join, for `JoinedStreams`. Beyond PyFlink."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Returns an iterable of the results of a pair of records with the same key and window, or yields them."""


class CoGroupFunction(Function):
    """A function over the records of two streams with the same key and window, for `co_group`. Beyond PyFlink."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Any:
        """Returns an iterable of results, or yields them. One of the two lists may be empty."""


class ProcessJoinFunction(Function):
    """A function with any number of results per pair of an interval join. Beyond PyFlink.

    It may also emit to side outputs (`yield tag, value`). The results carry the later of the two timestamps.
    """

    class Context(ABC):
        """Timestamps of the pair, in milliseconds."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Returns the timestamp of the left record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Returns the timestamp of the right record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Returns the later of the two timestamps."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        """Returns an iterable of the results of a pair, or yields them."""


class MapPartitionFunction(Function):
    """A function over all records of a subtask or a key, which is called when the input has ended. Beyond PyFlink."""

    @abstractmethod
    def map_partition(self, values: Iterable[Any]) -> Any:
        """Returns an iterable of the results, or yields them. `values` can be iterated over once."""


class FilterFunction(Function):
    """A function that decides which records are kept, for `filter`."""

    @abstractmethod
    def filter(self, value: Any) -> Any:
        """Returns a true value if the record is kept."""


class Partitioner(Function):
    """A function that chooses the subtask of a key, for `partition_custom`."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Returns the index of the subtask, from 0 to `num_partitions - 1`."""


class FunctionWrapper(Function):
    """Wraps a plain callable as a function object.

    In the subclasses the function's method *is* the callable, so that the runtime's loops call it directly.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func

    @property
    def wrapped(self) -> Callable[..., Any]:
        return self._func


class MapFunctionWrapper(FunctionWrapper, MapFunction):
    @property
    def map(self) -> Callable[[Any], Any]:  # type: ignore[override]
        return self._func


class FlatMapFunctionWrapper(FunctionWrapper, FlatMapFunction):
    @property
    def flat_map(self) -> Callable[[Any], Any]:  # type: ignore[override]
        return self._func


class FilterFunctionWrapper(FunctionWrapper, FilterFunction):
    @property
    def filter(self) -> Callable[[Any], Any]:  # type: ignore[override]
        return self._func


class ReduceFunctionWrapper(FunctionWrapper, ReduceFunction):
    def __init__(self, func: Callable[[Any, Any], Any]) -> None:
        super().__init__(func)

    @property
    def reduce(self) -> Callable[[Any, Any], Any]:  # type: ignore[override]
        return self._func


class KeySelectorFunctionWrapper(FunctionWrapper, KeySelector):
    @property
    def get_key(self) -> Callable[[Any], Any]:  # type: ignore[override]
        return self._func


class JoinFunctionWrapper(FunctionWrapper, JoinFunction):
    @property
    def join(self) -> Callable[[Any, Any], Any]:  # type: ignore[override]
        return self._func


class MapPartitionFunctionWrapper(FunctionWrapper, MapPartitionFunction):
    @property
    def map_partition(self) -> Callable[[Iterable[Any]], Any]:  # type: ignore[override]
        return self._func


class PartitionerFunctionWrapper(FunctionWrapper, Partitioner):
    @property
    def partition(self) -> Callable[[Any, int], int]:  # type: ignore[override]
        return self._func


class JavaFunctionWrapper:
    """PyFlink's wrapper of a Java function. It always raises, because flinkpy has no JVM."""

    def __init__(self, j_function: Any) -> None:
        raise UnsupportedOperationError(
            f"{type(self).__name__}({j_function!r}): flinkpy has no JVM and cannot run Java functions; "
            "implement flinkpy.connector_api.SourceBase or SinkBase in Python and use from_source or sink_to"
        )

    def get_java_function(self) -> Any:
        raise UnsupportedOperationError("get_java_function: flinkpy has no JVM")


class ProcessFunction(Function):
    """A function with any number of results per record, with access to timestamps, side outputs and current time.

    Example:
        ```
        class SplitLate(ProcessFunction):
            def __init__(self, late):
                self.late = late

            def process_element(self, value, ctx):
                if ctx.timestamp() < ctx.timer_service().current_watermark():
                    yield self.late, value
                else:
                    yield value
        ```
    """

    class Context(ABC):
        """Information about the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the time service. Without keys it tells the time only: timers cannot be registered."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the event time of the record in milliseconds; None if it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        """Returns an iterable of the results of a record, or yields them. `yield tag, value` emits to a side output."""


class KeyedProcessFunction(Function):
    """A ProcessFunction of a keyed stream, with access to the state and the timers of the record's key.

    Example:
        ```
        class CountAndReport(KeyedProcessFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value, ctx):
                self.count.update((self.count.value() or 0) + 1)
                ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

            def on_timer(self, timestamp, ctx):
                yield ctx.get_current_key(), self.count.value()
        ```
    """

    class Context(ABC):
        """Information about the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key of the record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the timers of the key, and the current time."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the event time of the record in milliseconds; None if it has none."""

    class OnTimerContext(Context):
        """Information about a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns EVENT_TIME or PROCESSING_TIME."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Returns an iterable of the results of a record, or yields them. `yield tag, value` emits to a side output."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """Handles a timer that this key registered. It may return or yield results as `process_element` does.

        Args:
            timestamp: the time of the timer in milliseconds.
            ctx: the context, with the key and the time domain.
        """
        return ()


class CoProcessFunction(Function):
    """A ProcessFunction of two connected streams."""

    class Context(ABC):
        """Information about the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the time service. Without keys it tells the time only: timers cannot be registered."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the event time of the record in milliseconds; None if it has none."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Returns an iterable of the results of a record of the first stream, or yields them."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Returns an iterable of the results of a record of the second stream, or yields them."""


class KeyedCoProcessFunction(Function):
    """A KeyedProcessFunction of two connected streams, which share the state and the timers of a key."""

    class Context(ABC):
        """Information about the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key of the record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the timers of the key, and the current time."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the event time of the record in milliseconds; None if it has none."""

    class OnTimerContext(Context):
        """Information about a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns EVENT_TIME or PROCESSING_TIME."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Returns an iterable of the results of a record of the first stream, or yields them."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Returns an iterable of the results of a record of the second stream, or yields them."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        """Handles a timer that this key registered. It may return or yield results."""
        return ()


class BaseBroadcastProcessFunction(Function):
    """The base of functions over a stream that is connected with a broadcast stream."""

    class BaseContext(ABC):
        """Times that both sides see, in milliseconds."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the event time of the record; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the time of the machine's clock since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the current watermark."""

    class Context(BaseContext):
        """The context of the broadcast side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
            """Returns a broadcast state, which this side may change."""

    class ReadOnlyContext(BaseContext):
        """The context of the side that is not broadcast."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState:
            """Returns a broadcast state, which this side may only read."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A function over a stream without keys and a broadcast stream, for `BroadcastConnectedStream.process`."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of the side that is not broadcast."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Any:
        """Returns an iterable of the results of a record that is not broadcast, or yields them."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Any:
        """Handles a broadcast record, which every subtask gets. It may return or yield results.

        It must change the broadcast state in the same way in every subtask.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A function over a keyed stream and a broadcast stream, for `BroadcastConnectedStream.process`."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of the keyed side."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the timers of the key, and the current time."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key of the record."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """Information about a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns EVENT_TIME or PROCESSING_TIME."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key that registered the timer."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Any:
        """Returns an iterable of the results of a record of the keyed stream, or yields them."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Any:
        """Handles a broadcast record, which every subtask gets. It may return or yield results.

        It must change the broadcast state in the same way in every subtask.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Any:
        """Handles a timer that a key registered. It may return or yield results."""
        return ()
