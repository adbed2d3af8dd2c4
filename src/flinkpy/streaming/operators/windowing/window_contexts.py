"""The contexts of window assigners, triggers, evictors and window functions, and the calls of window functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UserError
from flinkpy.functions.output_tag import OutputTag
from flinkpy.functions.window_assigners import WindowAssigner
from flinkpy.functions.window_evictors import Evictor
from flinkpy.functions.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from flinkpy.functions.window_triggers import Trigger, TriggerResult
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.streaming.operators.timer_service import InternalTimerService
from flinkpy.streaming.operators.windowing.pane_state import PaneStateStore

if TYPE_CHECKING:
    from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from collections.abc import Callable, Iterable

from flinkpy.functions.window_functions import (
    AllWindowFunction,
    WindowFunction,
)


class TriggerContext(Trigger.OnMergeContext):
    """The context of a trigger, for the current pane of the operator's pane context. Timers belong to panes.

    Attributes:
        window: the window of the pane.
        merged_panes: the merged panes while `on_merge` runs.
    """

    def __init__(
        self, trigger: Trigger, timers: InternalTimerService, state: PaneStateStore, metrics: OperatorMetricGroup
    ) -> None:
        self._trigger = trigger
        self._state = state
        self._metrics = metrics
        self.window: Any = None
        self.pane: NamespacedKey = NamespacedKey()
        self.merged_panes: Sequence[NamespacedKey] = ()
        self._timers = timers

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def get_metric_group(self) -> Any:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(time)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(time)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(time)

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        return self._state.state_of(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        if self.merged_panes:
            self._state.merge(state_descriptor, self.pane, self.merged_panes)

    # -- calls of the trigger for the current pane -----------------------------------------------------------------

    def on_element(self, value: Any, timestamp: int) -> TriggerResult:
        return self._trigger.on_element(value, timestamp, self.window, self)

    def on_event_time(self, time: int) -> TriggerResult:
        return self._trigger.on_event_time(time, self.window, self)

    def on_processing_time(self, time: int) -> TriggerResult:
        return self._trigger.on_processing_time(time, self.window, self)

    def on_merge(self, merged_panes: Sequence[NamespacedKey]) -> None:
        self.merged_panes = merged_panes
        self._trigger.on_merge(self.window, self)
        self.merged_panes = ()

    def clear(self) -> None:
        self._trigger.clear(self.window, self)


class AssignerContext(WindowAssigner.WindowAssignerContext):
    def __init__(self, timers: InternalTimerService, runtime_context: Any) -> None:
        self._timers = timers
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def get_runtime_context(self) -> Any:
        return self._runtime_context


class EvictorContext(Evictor.EvictorContext):
    def __init__(self, timers: InternalTimerService, metrics: OperatorMetricGroup) -> None:
        self._timers = timers
        self._metrics = metrics

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def get_metric_group(self) -> Any:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark()


class WindowFunctionContext(ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    """The context of a window function.

    Attributes:
        current_window: the window that the function is called for.
        outputs: the `(tag, value)` pairs that the function passed to `output`.
    """

    def __init__(self, timers: InternalTimerService, window_state: Any, global_state: Any) -> None:
        self.current_window: Any = None
        self.outputs: list[tuple[OutputTag, Any]] = []
        self._timers = timers
        self._window_state = window_state
        self._global_state = global_state

    def window(self) -> Any:
        return self.current_window

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def window_state(self) -> Any:
        return self._window_state

    def global_state(self) -> Any:
        return self._global_state

    def output(self, output_tag: OutputTag, value: Any) -> None:
        if not isinstance(output_tag, OutputTag):
            raise UserError(f"context.output needs an OutputTag, not {output_tag!r}")
        self.outputs.append((output_tag, value))


WindowCall = Callable[[Any, Any, list[Any]], "Iterable[Any] | None"]


def window_call(function: Any, context: WindowFunctionContext) -> WindowCall:
    """Returns `call(key, window, contents)` for any kind of window function. For None it returns the contents."""
    if function is None:
        return lambda key, window, contents: contents
    if isinstance(function, WindowFunction):
        return function.apply  # type: ignore[no-any-return]
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda key, window, contents: apply(window, contents)
    process = function.process
    if isinstance(function, ProcessWindowFunction):

        def process_keyed(key: Any, window: Any, contents: list[Any]) -> Iterable[Any] | None:
            context.current_window = window
            return process(key, context, contents)  # type: ignore[no-any-return]

        return process_keyed
    assert isinstance(function, ProcessAllWindowFunction), function

    def process_all(key: Any, window: Any, contents: list[Any]) -> Iterable[Any] | None:
        context.current_window = window
        return process(context, contents)  # type: ignore[no-any-return]

    return process_all


def clear_call(function: Any, context: WindowFunctionContext) -> Callable[[Any], None] | None:
    """Returns `clear(window)` for a window function; None if the function does not define `clear`."""
    if not isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
        return None
    if type(function).clear in (ProcessWindowFunction.clear, ProcessAllWindowFunction.clear):
        return None
    clear: Callable[[Any], None] = function.clear

    def clear_window(window: Any) -> None:
        context.current_window = window
        clear(context)

    return clear_window
