"""Triggers that fire by the records, and triggers that wrap other triggers.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.triggers. DeltaTrigger and
ProcessingTimeoutTrigger are beyond PyFlink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flinkpy.common.time import Duration, Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window.assigner import millis_of
from flinkpy.datastream.window.trigger import Trigger, TriggerResult
from flinkpy.datastream.window.windows import GlobalWindow, Window

T = TypeVar("T")


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
