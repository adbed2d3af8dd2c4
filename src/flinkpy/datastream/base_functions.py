"""What every user function has: `open`, `close`, and the RuntimeContext they are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    def get_metrics_group(self) -> Any:
        """The MetricGroup of this operator."""


class Function(ABC):  # noqa: B024  the subclasses have the abstract methods
    """Base of all user functions. One object per subtask, used by one thread."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first record."""
        return

    def close(self) -> None:
        """Called once after the last record, also after a failure."""
        return
