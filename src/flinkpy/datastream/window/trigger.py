"""Trigger: decides when the function of a window is called.

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
    """What is done with the window: call its function (fire), drop its content (purge), both or neither."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """One object serves all windows and keys, so what it keeps must be in the state of its context."""

    class TriggerContext(ABC):
        """Of the window and key at hand."""

        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_metric_group(self) -> Any: ...

        @abstractmethod
        def get_current_watermark(self) -> int: ...

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """`on_processing_time` is called for this window when the clock has reached `time` (ms)."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """`on_event_time` is called for this window when the watermark has reached `time` (ms)."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None: ...

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None: ...

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """State of this window and key."""

    class OnMergeContext(TriggerContext):
        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Bring the state of the merged windows into that of the new one. Not for value and map state."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A record came into the window. `timestamp` is `-2**63` where it has none."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A processing-time timer of the window is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of the window is due."""

    def can_merge(self) -> bool:
        """Whether windows with this trigger can be merged; `on_merge` then has to do it."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Windows became `window`. Their timers and state are cleared after this call."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """The window is over: delete its timers and state."""
