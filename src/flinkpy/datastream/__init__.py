"""PyFlink's `pyflink.datastream`: the DataStream API.

Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.datastream.async_data_stream import AsyncDataStream
    from flinkpy.datastream.checkpoint_config import CheckpointConfig
    from flinkpy.datastream.checkpoint_storage import (
        CheckpointStorage,
        CustomCheckpointStorage,
        FileSystemCheckpointStorage,
        JobManagerCheckpointStorage,
    )
    from flinkpy.datastream.checkpointing_mode import CheckpointingMode
    from flinkpy.datastream.data_stream import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
        DataStream,
        DataStreamSink,
        KeyedStream,
    )
    from flinkpy.datastream.execution_mode import RuntimeExecutionMode
    from flinkpy.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
    from flinkpy.datastream.functions import (
        AggregateFunction,
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
        ParallelSourceFunction,
        Partitioner,
        ProcessFunction,
        ProcessJoinFunction,
        ProcessWindowFunction,
        ReduceFunction,
        RichParallelSourceFunction,
        RichSinkFunction,
        RichSourceFunction,
        RuntimeContext,
        SinkFunction,
        SourceFunction,
        WindowFunction,
    )
    from flinkpy.datastream.joined_streams import CoGroupedStreams, JoinedStreams
    from flinkpy.datastream.output_tag import OutputTag
    from flinkpy.datastream.partition_windowed_stream import Order
    from flinkpy.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
    from flinkpy.datastream.state_backend import (
        CustomStateBackend,
        EmbeddedRocksDBStateBackend,
        HashMapStateBackend,
        PredefinedOptions,
        StateBackend,
    )
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkpy.datastream.time_domain import TimeDomain
    from flinkpy.datastream.timerservice import TimerService
    from flinkpy.datastream.window import (
        CountWindow,
        GlobalWindow,
        MergingWindowAssigner,
        TimeWindow,
        Trigger,
        TriggerResult,
        Window,
        WindowAssigner,
    )
    from flinkpy.datastream.windowed_stream import AllWindowedStream, WindowedStream
    from flinkpy.functions.async_functions import (
        AsyncBatchFunction,
        AsyncFunction,
        AsyncRetryPredicate,
        AsyncRetryStrategy,
    )
    from flinkpy.functions.checkpointed_function import CheckpointedFunction, CheckpointListener

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "AsyncBatchFunction",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MapPartitionFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "Order",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RichParallelSourceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

_MODULES = {
    "async_data_stream": ("AsyncDataStream",),
    "flinkpy.functions.async_functions": (
        "AsyncBatchFunction",
        "AsyncFunction",
        "AsyncRetryPredicate",
        "AsyncRetryStrategy",
    ),
    "checkpointed_function": ("CheckpointListener", "CheckpointedFunction"),
    "checkpointing_mode": ("CheckpointingMode",),
    "checkpoint_config": ("CheckpointConfig",),
    "checkpoint_storage": (
        "CheckpointStorage",
        "CustomCheckpointStorage",
        "FileSystemCheckpointStorage",
        "JobManagerCheckpointStorage",
    ),
    "data_stream": (
        "BroadcastConnectedStream",
        "BroadcastStream",
        "ConnectedStreams",
        "DataStream",
        "DataStreamSink",
        "KeyedStream",
    ),
    "execution_mode": ("RuntimeExecutionMode",),
    "externalized_checkpoint_retention": ("ExternalizedCheckpointRetention",),
    "joined_streams": ("CoGroupedStreams", "JoinedStreams"),
    "output_tag": ("OutputTag",),
    "partition_windowed_stream": ("Order",),
    "slot_sharing_group": ("MemorySize", "SlotSharingGroup"),
    "state_backend": (
        "CustomStateBackend",
        "EmbeddedRocksDBStateBackend",
        "HashMapStateBackend",
        "PredefinedOptions",
        "StateBackend",
    ),
    "stream_execution_environment": ("StreamExecutionEnvironment",),
    "time_domain": ("TimeDomain",),
    "timerservice": ("TimerService",),
    "window": (
        "CountWindow",
        "GlobalWindow",
        "MergingWindowAssigner",
        "TimeWindow",
        "Trigger",
        "TriggerResult",
        "Window",
        "WindowAssigner",
    ),
    "windowed_stream": ("AllWindowedStream", "WindowedStream"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name, "functions" if name in __all__ else None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module if "." in module else f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
