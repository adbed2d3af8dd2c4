"""What every user function has: `open`, `close`, and the RuntimeContext they are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.accumulators import Accumulator, DoubleCounter, Histogram, IntCounter, LongCounter
    from flinkpy.common.distributed_cache import DistributedCache
    from flinkpy.common.task_info import JobInfo, TaskInfo
    from flinkpy.datastream.state import (
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
    """Gives out the state of a function on a keyed stream."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState: ...

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState: ...

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState: ...

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState: ...

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState: ...


class RuntimeContext(KeyedStateStore):
    """Where a function runs. Thread: task thread."""

    @abstractmethod
    def get_task_name(self) -> str: ...

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int: ...

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int: ...

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Counted from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """0 for the first attempt."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """E.g. `Map (1/3)#0`: the subtask counted from 1, and the attempt."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> Any:
        """A global job parameter of the program's ExecutionConfig."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """The MetricGroup of this operator. Raises: UnsupportedOperationError where `python.metric.enabled` is
        false."""

    # -- beyond PyFlink, as Java has it -----------------------------------------------------------------------------

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Make an accumulator known, of which the job's result has the total over all subtasks.

        Call it in `open`. Raises: UnsupportedOperationError where a function of the same task has one of that name.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator | None: ...

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """The accumulator of that name, made where there is none yet."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter: ...

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter: ...

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram: ...

    @abstractmethod
    def get_job_info(self) -> JobInfo: ...

    @abstractmethod
    def get_task_info(self) -> TaskInfo: ...

    @abstractmethod
    def get_global_job_parameters(self) -> dict[str, str]:
        """All of `ExecutionConfig.set_global_job_parameters`."""

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """The files of `StreamExecutionEnvironment.register_cached_file`."""


class Function(ABC):  # noqa: B024  the subclasses have the abstract methods
    """Base of all user functions. One object per subtask, used by one thread."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first record."""
        return

    def close(self) -> None:
        """Called once after the last record, also after a failure."""
        return
