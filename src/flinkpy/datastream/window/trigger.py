"""Trigger: decides when the function of a window is called, and when its content is dropped.

Source: pyflink.datastream.window.Trigger; org.apache.flink.streaming.api.windowing.triggers.Trigger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from flinkpy.datastream.state import State, StateDescriptor

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """The action for a window: call its function (fire), drop its content (purge), both or neither."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window fires and when it is purged.

    One object serves all windows and keys, so it must keep everything in the state of its context.
    """

    class TriggerContext(ABC):
        """Access to time, timers and state of the current window and key."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the time of the machine's clock in milliseconds since the epoch."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """Returns the MetricGroup of the operator."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the current watermark in milliseconds."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Registers a timer: `on_processing_time` is called for this window when the clock reaches `time` (ms)."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Registers a timer: `on_event_time` is called for this window when the watermark reaches `time` (ms)."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Deletes a processing-time timer of this window."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Deletes an event-time timer of this window."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Returns the state of this window and key."""

    class OnMergeContext(TriggerContext):
        """Access to the state of windows that are merged."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges the state of the windows into that of the new one. Value and map state cannot be merged."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handles a record that was added to the window. `timestamp` is `-2**63` if it has none."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handles a processing-time timer of the window."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handles an event-time timer of the window."""

    def can_merge(self) -> bool:
        """Returns True if windows with this trigger can be merged. It must then implement `on_merge`."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Handles windows that were merged into `window`. Their timers and state are cleared after this call."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Deletes the timers and the state of a window that has ended."""
