"""PyFlink's `pyflink.datastream.functions`: the classes that a program subclasses and passes to a stream's operations.

The classes live in `flinkpy.functions`, and SourceFunction and SinkFunction in `flinkpy.connectors`.
"""

from __future__ import annotations

from flinkpy.connectors.sink_function import RichSinkFunction, SinkFunction
from flinkpy.connectors.source_function import (
    ParallelSourceFunction,
    RichParallelSourceFunction,
    RichSourceFunction,
    SourceFunction,
)
from flinkpy.functions.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from flinkpy.functions.function import Function as Function
from flinkpy.functions.function import KeyedStateStore as KeyedStateStore
from flinkpy.functions.function import RuntimeContext
from flinkpy.functions.stream_functions import (
    AggregateFunction,
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    MapPartitionFunction,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ReduceFunction,
)
from flinkpy.functions.stream_functions import FilterFunctionWrapper as FilterFunctionWrapper
from flinkpy.functions.stream_functions import FlatMapFunctionWrapper as FlatMapFunctionWrapper
from flinkpy.functions.stream_functions import FunctionWrapper as FunctionWrapper
from flinkpy.functions.stream_functions import JavaFunctionWrapper as JavaFunctionWrapper
from flinkpy.functions.stream_functions import JoinFunctionWrapper as JoinFunctionWrapper
from flinkpy.functions.stream_functions import KeySelectorFunctionWrapper as KeySelectorFunctionWrapper
from flinkpy.functions.stream_functions import MapFunctionWrapper as MapFunctionWrapper
from flinkpy.functions.stream_functions import MapPartitionFunctionWrapper as MapPartitionFunctionWrapper
from flinkpy.functions.stream_functions import NullByteKeySelector as NullByteKeySelector
from flinkpy.functions.stream_functions import PartitionerFunctionWrapper as PartitionerFunctionWrapper
from flinkpy.functions.stream_functions import ReduceFunctionWrapper as ReduceFunctionWrapper
from flinkpy.functions.timers import TimerService
from flinkpy.functions.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkpy.functions.window_functions import InternalIterableAllWindowFunction as InternalIterableAllWindowFunction
from flinkpy.functions.window_functions import (
    InternalIterableProcessAllWindowFunction as InternalIterableProcessAllWindowFunction,
)
from flinkpy.functions.window_functions import (
    InternalIterableProcessWindowFunction as InternalIterableProcessWindowFunction,
)
from flinkpy.functions.window_functions import InternalIterableWindowFunction as InternalIterableWindowFunction
from flinkpy.functions.window_functions import InternalProcessAllWindowContext as InternalProcessAllWindowContext
from flinkpy.functions.window_functions import InternalProcessWindowContext as InternalProcessWindowContext
from flinkpy.functions.window_functions import (
    InternalSingleValueAllWindowFunction as InternalSingleValueAllWindowFunction,
)
from flinkpy.functions.window_functions import (
    InternalSingleValueProcessAllWindowFunction as InternalSingleValueProcessAllWindowFunction,
)
from flinkpy.functions.window_functions import (
    InternalSingleValueProcessWindowFunction as InternalSingleValueProcessWindowFunction,
)
from flinkpy.functions.window_functions import InternalSingleValueWindowFunction as InternalSingleValueWindowFunction
from flinkpy.functions.window_functions import InternalWindowFunction as InternalWindowFunction
from flinkpy.functions.window_functions import PassThroughAllWindowFunction as PassThroughAllWindowFunction
from flinkpy.functions.window_functions import PassThroughWindowFunction as PassThroughWindowFunction

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
