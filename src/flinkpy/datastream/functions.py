"""User functions: what a program gives to the operations of a stream.

Plain callables are wrapped, so that the runtime sees function objects only.

Source: pyflink.datastream.functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.datastream.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from flinkpy.datastream.base_functions import Function, KeyedStateStore, RuntimeContext
from flinkpy.datastream.internal_window_functions import (
    InternalIterableAllWindowFunction,
    InternalIterableProcessAllWindowFunction,
    InternalIterableProcessWindowFunction,
    InternalIterableWindowFunction,
    InternalProcessAllWindowContext,
    InternalProcessWindowContext,
    InternalSingleValueAllWindowFunction,
    InternalSingleValueProcessAllWindowFunction,
    InternalSingleValueProcessWindowFunction,
    InternalSingleValueWindowFunction,
    InternalWindowFunction,
)
from flinkpy.datastream.source_sink_functions import (
    ParallelSourceFunction,
    RichParallelSourceFunction,
    RichSinkFunction,
    RichSourceFunction,
    SinkFunction,
    SourceFunction,
)
from flinkpy.datastream.time_domain import TimeDomain
from flinkpy.datastream.timerservice import TimerService
from flinkpy.datastream.window_functions import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

if TYPE_CHECKING:
    from flinkpy.datastream.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "MapFunction",
    "MapPartitionFunction",
    "ParallelSourceFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RichParallelSourceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimerService",
    "WindowFunction",
]
_ALSO_EXPORTED = (
    InternalIterableAllWindowFunction,
    InternalIterableProcessAllWindowFunction,
    InternalIterableProcessWindowFunction,
    InternalIterableWindowFunction,
    InternalProcessAllWindowContext,
    InternalProcessWindowContext,
    InternalSingleValueAllWindowFunction,
    InternalSingleValueProcessAllWindowFunction,
    InternalSingleValueProcessWindowFunction,
    InternalSingleValueWindowFunction,
    InternalWindowFunction,
    KeyedStateStore,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
)

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class MapFunction(Function):
    """One result per record."""

    @abstractmethod
    def map(self, value: Any) -> Any: ...


class CoMapFunction(Function):
    """One result per record of either of two streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any: ...

    @abstractmethod
    def map2(self, value: Any) -> Any: ...


class FlatMapFunction(Function):
    """Any number of results per record, as an iterable or by `yield`."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any: ...


class CoFlatMapFunction(Function):
    @abstractmethod
    def flat_map1(self, value: Any) -> Any: ...

    @abstractmethod
    def flat_map2(self, value: Any) -> Any: ...


class ReduceFunction(Function):
    """Two values of a key into one of the same type; must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any: ...


class AggregateFunction(Function):
    """Values into an accumulator, and the accumulator into a result."""

    @abstractmethod
    def create_accumulator(self) -> Any: ...

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value added; may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any: ...

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any: ...


class KeySelector(Function):
    """The key of a record; must give the same key for the same record wherever it runs."""

    @abstractmethod
    def get_key(self, value: Any) -> Any: ...


class NullByteKeySelector(KeySelector):
    """Every record has the same key."""

    def get_key(self, value: Any) -> Any:
        return 0


class JoinFunction(Function):
    """One result for each pair of records of one key and window. Beyond PyFlink."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any: ...


class FlatJoinFunction(Function):
    """Any number of results for each pair of records of one key and window. Beyond PyFlink."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any: ...


class CoGroupFunction(Function):
    """Any number of results for the records of one key and window, of which one side may be empty. Beyond PyFlink."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Any: ...


class ProcessJoinFunction(Function):
    """Any number of results for each pair of an interval join, side outputs included (`yield tag, value`).

    Results carry the later of the two timestamps. Beyond PyFlink.
    """

    class Context(ABC):
        @abstractmethod
        def get_left_timestamp(self) -> int: ...

        @abstractmethod
        def get_right_timestamp(self) -> int: ...

        @abstractmethod
        def get_timestamp(self) -> int:
            """The later of the two."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any: ...


class MapPartitionFunction(Function):
    """Any number of results for all records of a subtask, or of a key, once the input has ended. Beyond PyFlink."""

    @abstractmethod
    def map_partition(self, values: Iterable[Any]) -> Any: ...


class FilterFunction(Function):
    """Whether a record stays."""

    @abstractmethod
    def filter(self, value: Any) -> Any: ...


class Partitioner(Function):
    """Which of `num_partitions` channels a key goes to."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int: ...


class FunctionWrapper(Function):
    """A plain callable as a function object.

    In the subclasses the function's method *is* the callable, so that the runtime's loops call it without a detour.
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
    """Exists for its name: a Java function cannot run here."""

    def __init__(self, j_function: Any) -> None:
        raise UnsupportedOperationError(
            f"{type(self).__name__}({j_function!r}): flinkpy has no JVM and cannot run Java functions; "
            "implement flinkpy.connector_api.SourceBase or SinkBase in Python and use from_source or sink_to"
        )

    def get_java_function(self) -> Any:
        raise UnsupportedOperationError("get_java_function: flinkpy has no JVM")


class ProcessFunction(Function):
    """Any number of results per record, with its timestamp, side outputs (`yield tag, value`) and time."""

    class Context(ABC):
        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int:
            """The record's event time in ms, or None."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any: ...


class KeyedProcessFunction(Function):
    """As ProcessFunction, with the state and the timers of the record's key."""

    class Context(ABC):
        @abstractmethod
        def get_current_key(self) -> Any: ...

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int: ...

    class OnTimerContext(Context):
        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any: ...

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """A timer set by this key has fired; may give results like `process_element`."""
        return ()


class CoProcessFunction(Function):
    """ProcessFunction of two streams."""

    class Context(ABC):
        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int: ...

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any: ...


class KeyedCoProcessFunction(Function):
    """KeyedProcessFunction of two streams that share their keys and state."""

    class Context(ABC):
        @abstractmethod
        def get_current_key(self) -> Any: ...

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def timestamp(self) -> int: ...

    class OnTimerContext(Context):
        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any: ...

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        return ()


class BaseBroadcastProcessFunction(Function):
    """Common part of functions over a stream and a broadcast stream."""

    class BaseContext(ABC):
        @abstractmethod
        def timestamp(self) -> int: ...

        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

    class Context(BaseContext):
        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState: ...

    class ReadOnlyContext(BaseContext):
        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState: ...


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What the broadcast side sees."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What the other side sees."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Any: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Any: ...


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What the broadcast side sees."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What the keyed side sees."""

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def get_current_key(self) -> Any: ...

    class OnTimerContext(ReadOnlyContext, ABC):
        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

        @abstractmethod
        def get_current_key(self) -> Any: ...

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Any: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Any: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Any:
        return ()
