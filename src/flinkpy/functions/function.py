"""Function, the base of all user functions, and the RuntimeContext that its `open` receives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Set

    from flinkpy.common.accumulators import Accumulator, DoubleCounter, Histogram, IntCounter, LongCounter
    from flinkpy.common.external_resource import ExternalResourceInfo
    from flinkpy.common.task_info import DistributedCache, JobInfo, TaskInfo
    from flinkpy.functions.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from flinkpy.metrics import MetricGroup


class KeyedStateStore(ABC):
    """Access to keyed state. A function asks for its states in `open`."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState:
        """Returns the value state of a descriptor. The same name always returns the same state."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Returns the list state of a descriptor."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState:
        """Returns the map state of a descriptor."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState:
        """Returns the reducing state of a descriptor."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """Returns the aggregating state of a descriptor."""


class RuntimeContext(KeyedStateStore):
    """Information about the subtask that runs a function, and access to its state and metrics. Thread: task thread."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Returns the name of the task, such as `Map`."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the parallelism of the task."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the maximum parallelism of the task."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Returns the index of the subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Returns the number of the attempt; 0 for the first one."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Returns a text such as `Map (1/3)#0`: the subtask counted from 1, the parallelism and the attempt."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> Any:
        """Returns a global job parameter of the program's ExecutionConfig, or `default_value` if it is not set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Returns the MetricGroup of this operator.

        Raises:
            UnsupportedOperationError: `python.metric.enabled` is false.
        """

    # -- beyond PyFlink: methods of Java's RuntimeContext -----------------------------------------------------------

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Registers an accumulator. The job's result holds its total over all subtasks. Call it in `open`.

        Raises:
            UnsupportedOperationError: a function of the same task has registered an accumulator of that name.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator | None:
        """Returns the accumulator of that name, or None."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Returns the accumulator of that name, and registers it if there is none yet."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """Returns the accumulator of that name, and registers it if there is none yet."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Returns the accumulator of that name, and registers it if there is none yet."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """Returns the accumulator of that name, and registers it if there is none yet."""

    @abstractmethod
    def get_job_info(self) -> JobInfo:
        """Returns the id and the name of the job."""

    @abstractmethod
    def get_task_info(self) -> TaskInfo:
        """Returns the name, the index, the attempt and the parallelism of the subtask."""

    @abstractmethod
    def get_global_job_parameters(self) -> dict[str, str]:
        """Returns all parameters that `ExecutionConfig.set_global_job_parameters` set."""

    @abstractmethod
    def get_external_resource_infos(self, resource_name: str) -> Set[ExternalResourceInfo]:
        """Returns the units of an external resource that this TaskExecutor has; none if it has no such resource.

        All tasks of a TaskExecutor get the same units.

        Source: org.apache.flink.api.common.functions.RuntimeContext#getExternalResourceInfos.
        """

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """Returns the files of `StreamExecutionEnvironment.register_cached_file`."""


class Function(ABC):  # noqa: B024  the subclasses have the abstract methods
    """The base of all user functions. Each subtask has its own object, which one thread uses."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepares the function. It is called once, before the first record.

        Args:
            runtime_context: access to state, metrics and information about the subtask.
        """
        return

    def close(self) -> None:
        """Releases resources. It is called once, after the last record or after a failure."""
        return
