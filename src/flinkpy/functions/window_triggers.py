"""Triggers: decide when the function of a window is called, and when its content is dropped.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.triggers. DeltaTrigger and
ProcessingTimeoutTrigger are beyond PyFlink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.common.time import Duration, Time
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import ReducingState, ReducingStateDescriptor, ValueStateDescriptor
from flinkpy.functions.stream_functions import ReduceFunction
from flinkpy.functions.windows import GlobalWindow, TimeWindow, Window, millis_of

if TYPE_CHECKING:
    from flinkpy.functions.state import State, StateDescriptor

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


class EventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for every record that arrives after that."""

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # If the watermark has passed the end already, the record that caused the merge fires the window.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger:
        return EventTimeTrigger()


class ProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the clock passes the end of the window."""

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        return ProcessingTimeTrigger()


class Min(ReduceFunction):
    """Returns the smaller of two values."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return min(value1, value2)


class _ContinuousTrigger(Trigger[T, TimeWindow]):
    """Fires at every multiple of `interval` ms. The time of the next firing is in state."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", Min(), Types.LONG())

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        raise NotImplementedError

    def _fire_time(self, ctx: Trigger.TriggerContext) -> ReducingState:
        state = ctx.get_partitioned_state(self.state_desc)
        assert state is not None
        return state  # type: ignore[return-value]

    def _fires_now(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> bool:
        """Returns True if the interval's timer is due at `time`, and registers the next one."""
        fire_time = self._fire_time(ctx)
        if fire_time.get() != time:
            return False
        fire_time.clear()
        self.register_next_fire_timestamp(time, window, ctx, fire_time)
        return True

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState
    ) -> None:
        next_fire_timestamp = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire_timestamp)
        self._register(next_fire_timestamp, ctx)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire_timestamp = self._fire_time(ctx).get()
        if next_fire_timestamp is not None:
            self._register(next_fire_timestamp, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        fire_time = self._fire_time(ctx)
        timestamp = fire_time.get()
        if timestamp is not None:
            self._delete(timestamp, ctx)
            fire_time.clear()


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires at every multiple of the interval that the watermark passes, and at the end of the window."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger:
        return ContinuousEventTimeTrigger(millis_of(interval))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        fire_time = self._fire_time(ctx)
        if fire_time.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, fire_time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp() or self._fires_now(time, window, ctx):
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires when the machine's clock passes a multiple of the interval."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger:
        return ContinuousProcessingTimeTrigger(millis_of(interval))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        fire_time = self._fire_time(ctx)
        if fire_time.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, fire_time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if self._fires_now(time, window, ctx) else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class NeverTrigger(Trigger[T, GlobalWindow]):
    """Never fires. It is the default trigger of GlobalWindows."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        return

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        return


class PurgingTrigger(Trigger[T, Window]):
    """Fires as another trigger does, and purges the window whenever it fires."""

    def __init__(self, nested_trigger: Trigger[T, Window]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, Window]) -> PurgingTrigger:
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class _Sum:
    def __call__(self, value1: int, value2: int) -> int:
        return value1 + value2


class CountTrigger(Trigger[T, Window]):
    """Fires with every `window_size`-th record of a window."""

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_state_descriptor = ReducingStateDescriptor("count", _Sum(), Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        count_state: Any = ctx.get_partitioned_state(self._count_state_descriptor)
        count_state.add(1)
        if count_state.get() >= self._window_size:
            count_state.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count_state_descriptor)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count_state_descriptor).clear()


class DeltaTrigger(Trigger[T, Window]):
    """Fires when the distance of a record to the last record that fired (initially the first one) exceeds a threshold.

    Beyond PyFlink.
    """

    def __init__(self, threshold: float, delta_function: Callable[[T, T], float]) -> None:
        """Creates a trigger. `delta_function(earlier, later)` returns the distance of two records."""
        if not callable(delta_function):
            raise TypeError("The delta function must be a callable of two records")
        self._threshold = threshold
        self._delta_function = delta_function
        self._state_descriptor = ValueStateDescriptor("last-element", Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float]) -> DeltaTrigger:
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        last: Any = ctx.get_partitioned_state(self._state_descriptor)
        known = last.value()
        if known is None:
            last.update(element)
        elif self._delta_function(known, element) > self._threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        raise NotImplementedError("a DeltaTrigger cannot merge windows")

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._state_descriptor).clear()


class ProcessingTimeoutTrigger(Trigger[T, Window]):
    """Fires as another trigger does, and also when the machine's clock has passed a timeout after a record.

    Beyond PyFlink.
    """

    def __init__(
        self,
        nested_trigger: Trigger[T, Window],
        interval: int,
        reset_timer_on_new_record: bool,
        should_clear_on_timeout: bool,
    ) -> None:
        self._nested_trigger = nested_trigger
        self._interval = interval
        self._reset_timer_on_new_record = reset_timer_on_new_record
        self._should_clear_on_timeout = should_clear_on_timeout
        self._timeout_descriptor = ValueStateDescriptor("timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger,
        timeout: Time | Duration,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Returns a trigger with a timeout.

        Args:
            nested_trigger: the other trigger.
            timeout: the time after a record at which the window fires.
            reset_timer_on_new_record: True if every record restarts the timeout, False if only the first record after a
                timeout starts it.
            should_clear_on_timeout: True to clear the state of the nested trigger at the timeout.
        """
        return ProcessingTimeoutTrigger(
            nested_trigger, millis_of(timeout), reset_timer_on_new_record, should_clear_on_timeout
        )

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self._nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_purge():
            self.clear(window, ctx)
            return result
        timeout: Any = ctx.get_partitioned_state(self._timeout_descriptor)
        registered = timeout.value()
        if registered is not None and self._reset_timer_on_new_record:
            ctx.delete_processing_time_timer(registered)
            registered = None
        if registered is None:
            next_timeout = ctx.get_current_processing_time() + self._interval
            timeout.update(next_timeout)
            ctx.register_processing_time_timer(next_timeout)
        return result

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fire(self._nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fire(self._nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def _fire(self, result: TriggerResult, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        raise NotImplementedError("a ProcessingTimeoutTrigger cannot merge windows")

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        timeout: Any = ctx.get_partitioned_state(self._timeout_descriptor)
        registered = timeout.value()
        if registered is not None:
            ctx.delete_processing_time_timer(registered)
            timeout.clear()
        self._nested_trigger.clear(window, ctx)
