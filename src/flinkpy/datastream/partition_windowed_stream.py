"""PartitionWindowedStream: collects all records of a subtask, or of a key, into one window that ends with the stream.

Only a bounded stream has results. Beyond PyFlink.

Source: org.apache.flink.streaming.api.datastream.{PartitionWindowedStream,NonKeyedPartitionWindowedStream,
KeyedPartitionWindowedStream}.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkpy.datastream import function_checks as checks
from flinkpy.functions.stream_functions import AggregateFunction, MapPartitionFunction, ReduceFunction
from flinkpy.functions.window_assigners import GlobalWindows
from flinkpy.functions.window_functions import WindowFunction
from flinkpy.functions.window_triggers import Trigger, TriggerResult
from flinkpy.functions.windows import GlobalWindow
from flinkpy.graph.operator_specs import PartitionSpec

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.datastream.base_stream import DataStream
    from flinkpy.datastream.connected_streams import Selector
    from flinkpy.datastream.keyed_stream import KeyedStream
    from flinkpy.datastream.windowed_stream import WindowedStream


#: The optional methods of a function that takes part in checkpoints.
_CHECKPOINT_METHODS = frozenset(
    ("initialize_state", "snapshot_state", "notify_checkpoint_complete", "notify_checkpoint_aborted")
)


class Order(enum.Enum):
    """The order of `sort_partition`. Source: org.apache.flink.api.common.operators.Order."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


class PartitionWindowedStream(ABC):
    """A stream whose partitions are windows that end with the stream. An empty partition has no results."""

    @abstractmethod
    def map_partition(
        self,
        map_partition_function: Callable[[Iterable[Any]], Any] | MapPartitionFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies a function to all records of each partition, which it may iterate over once.

        Args:
            map_partition_function: a function of an iterable of records that returns an iterable of results, or a
                MapPartitionFunction.
            output_type: the type of the results. None pickles them.
        """

    @abstractmethod
    def sort_partition(self, field: Selector, order: Order = Order.ASCENDING) -> DataStream:
        """Sorts the records of each partition. Records with equal keys keep their order.

        Args:
            field: the name or the position of a field, or a key selector.
            order: ASCENDING or DESCENDING.
        """

    @abstractmethod
    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        output_type: TypeInformation | None = None,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregates the records of each partition as they arrive. Each partition has one result."""

    @abstractmethod
    def reduce(self, reduce_function: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Reduces the records of each partition to one as they arrive."""


class NonKeyedPartitionWindowedStream(PartitionWindowedStream):
    """The variant without keys: a partition is the input of one subtask of the operator.

    The operator has the parallelism of the stream unless it is set. `map_partition` and `sort_partition` hold a
    partition in memory, and every checkpoint writes it.
    """

    def __init__(self, input_stream: DataStream) -> None:
        self._input = input_stream

    def map_partition(
        self,
        map_partition_function: Callable[[Iterable[Any]], Any] | MapPartitionFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        function = checks.map_partition_function(map_partition_function)
        return self._operator("MapPartition", function, "MAP", checks.output_type_of(output_type))

    def sort_partition(self, field: Selector, order: Order = Order.ASCENDING) -> DataStream:
        selector = checks.key_selector(field, self._type)
        return self._operator("SortPartition", selector, "SORT", self._type, descending=_is_descending(order))

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        output_type: TypeInformation | None = None,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError("aggregate_function should be an AggregateFunction")
        return self._operator("PartitionAggregate", aggregate_function, "AGGREGATE", checks.output_type_of(output_type))

    def reduce(self, reduce_function: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        return self._operator("PartitionReduce", checks.reduce_function(reduce_function), "REDUCE", self._type)

    @property
    def _type(self) -> TypeInformation | None:
        return self._input.transformation.output_type

    def _operator(
        self, name: str, function: Any, kind: str, output_type: TypeInformation | None, *, descending: bool = False
    ) -> DataStream:
        from flinkpy.datastream.base_stream import DataStream
        from flinkpy.graph.transformation import OperatorTransformation

        spec = PartitionSpec(function, kind, descending, input_types=(self._type,), output_type=output_type)
        operator = OperatorTransformation(name, spec, (self._input.transformation,))
        operator.parallelism = self._input.get_parallelism()
        environment = self._input.get_execution_environment()
        environment.add_operator(operator)
        return DataStream(operator, environment)


class KeyedPartitionWindowedStream(PartitionWindowedStream):
    """The variant with keys: a partition consists of the records of one key. The state backend keeps them."""

    def __init__(self, input_stream: KeyedStream) -> None:
        self._input = input_stream

    def map_partition(
        self,
        map_partition_function: Callable[[Iterable[Any]], Any] | MapPartitionFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        function = checks.map_partition_function(map_partition_function)
        return self._window().apply(_MapPartition(function), output_type)

    def sort_partition(self, field: Selector, order: Order = Order.ASCENDING) -> DataStream:
        input_type = self._input.transformation.output_type
        selector = checks.key_selector(field, input_type)
        return self._window().apply(_SortPartition(selector, _is_descending(order)), input_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        output_type: TypeInformation | None = None,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        return self._window().aggregate(aggregate_function, None, accumulator_type, output_type)

    def reduce(self, reduce_function: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        return self._window().reduce(reduce_function)

    def _window(self) -> WindowedStream:
        return self._input.window(GlobalWindows.create()).trigger(EndOfStreamTrigger())


class EndOfStreamTrigger(Trigger[Any, GlobalWindow]):
    """Fires when the stream ends, which is the last watermark. Source: GlobalWindows.EndOfStreamTrigger."""

    def on_element(
        self, element: Any, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        return

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        return


class _MapPartition(WindowFunction[Any, Any, Any, Any]):
    def __init__(self, function: MapPartitionFunction) -> None:
        self._function = function

    def open(self, runtime_context: Any) -> None:
        self._function.open(runtime_context)

    def close(self) -> None:
        self._function.close()

    def __getattr__(self, name: str) -> Any:
        """Returns the function's methods for checkpoints, if it has them."""
        if name not in _CHECKPOINT_METHODS:
            raise AttributeError(name)
        return getattr(self._function, name)

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return self._function.map_partition(inputs)


class _SortPartition(WindowFunction[Any, Any, Any, Any]):
    def __init__(self, selector: Any, is_descending: bool) -> None:
        self._selector = selector
        self._is_descending = is_descending

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return sorted(inputs, key=self._selector.get_key, reverse=self._is_descending)


def _is_descending(order: Any) -> bool:
    if not isinstance(order, Order):
        raise TypeError(f"an order must be Order.ASCENDING or Order.DESCENDING, not {order!r}")
    return order is Order.DESCENDING
