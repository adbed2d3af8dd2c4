"""WindowOperator: collects the records of each key in windows, and calls a function when the trigger of one fires.

Source: org.apache.flink.streaming.runtime.operators.windowing.{WindowOperator,EvictingWindowOperator}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.window_assigners import MergingWindowAssigner
from flinkpy.functions.window_evictors import TimestampedValue
from flinkpy.functions.window_triggers import TriggerResult
from flinkpy.functions.windows import MAX_TIMESTAMP, MIN_TIMESTAMP
from flinkpy.graph.operator_specs import FieldAggregation
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.key_identity import user_key
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.backend import KeyContext
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.streaming.operators.keyed_operator import KeyedOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.rolling_functions import RollingReduce
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    OperatorStateDescriptor,
    close_function,
    open_function,
)
from flinkpy.streaming.operators.timer_service import InternalTimerService, register_event_time_gauge
from flinkpy.streaming.operators.windowing.pane_state import (
    NoPaneStateStore,
    PaneStateStore,
    namespace_of,
    pane_of,
    window_of,
)
from flinkpy.streaming.operators.windowing.window_contents import (
    RecordsForEvictor,
    aggregated,
    contents_for,
)
from flinkpy.streaming.operators.windowing.window_contexts import (
    AssignerContext,
    EvictorContext,
    TriggerContext,
    WindowFunctionContext,
    clear_call,
    window_call,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import WindowSpec
from flinkpy.common.errors import InternalError

LATE_ELEMENTS_DROPPED_METRIC_NAME = "numLateRecordsDropped"
#: The approximate maximum number of timer results per batch.
_MAX_TIMER_BATCH_ROWS = 65_536


class _FieldReduce:
    """Adapts a FieldAggregation to a reduce function."""

    def __init__(self, aggregation: FieldAggregation) -> None:
        self.reduce = RollingReduce(aggregation.kind, aggregation.position)


def aggregation_of(spec: WindowSpec) -> Any:
    """Returns the aggregation of a spec: an AggregateFunction, an object with `reduce`, or None."""
    return _FieldReduce(spec.aggregation) if isinstance(spec.aggregation, FieldAggregation) else spec.aggregation


#: `merge(result, merged windows, state window of the result, state windows whose contents must move there)`
MergeFunction = Callable[[Any, list[Any], Any, list[Any]], None]


class _MergeResults(MergingWindowAssigner.MergeCallback):
    def __init__(self) -> None:
        self.results: dict[Any, list[Any]] = {}

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results[merge_result] = list(to_be_merged)


class MergingWindowSet:
    """The windows of one key that may still merge, and the window under which each has its state.

    A merged window keeps the state of one of its parts, so that merging moves as little state as possible.

    Source: org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet.

    Args:
        state: a value state of the current key. It holds a tuple of (namespace, namespace of its state) pairs.
    """

    def __init__(self, assigner: MergingWindowAssigner, state: Any) -> None:
        self._assigner = assigner
        self._state = state
        stored = state.value() or ()
        self._state_windows = {window_of(window): window_of(state_window) for window, state_window in stored}
        self._stored = dict(self._state_windows)

    def persist(self) -> None:
        if self._state_windows != self._stored:
            pairs = self._state_windows.items()
            self._state.update(tuple((namespace_of(window), namespace_of(state)) for window, state in pairs) or None)

    def state_window(self, window: Any) -> Any:
        """Returns the window under which `window` has its state; None if `window` is not in the set."""
        return self._state_windows.get(window)

    def retire(self, window: Any) -> None:
        if self._state_windows.pop(window, None) is None:
            raise InternalError(f"window {window} is not in the set of windows that may merge")

    def add(self, window: Any, merge: MergeFunction) -> Any:
        """Adds a window, and returns the window that it is part of now. Calls `merge` if others are part of it, too."""
        callback = _MergeResults()
        self._assigner.merge_windows([*self._state_windows, window], callback)
        result = window
        was_merged = False
        for merge_result, merged in callback.results.items():
            if window in merged:
                merged.remove(window)
                was_merged = True
                result = merge_result
            state_windows = [self._state_windows.pop(part) for part in merged if part in self._state_windows]
            if not state_windows:
                # There is only the new window, which merges with no other.
                self._state_windows[merge_result] = merge_result
                continue
            state_window, *moved = state_windows
            self._state_windows[merge_result] = state_window
            if merge_result not in merged or len(merged) != 1:
                merge(merge_result, merged, state_window, moved)
        if result == window and not was_merged:
            # If the window is already in the set, its state stays where it is.
            self._state_windows.setdefault(window, window)
        return result


class WindowOperator(KeyedOperator):
    """Runs windows of any kind. Thread: task thread.

    The key context holds the key of the stream. The pane context holds the pane of the trigger.
    """

    spec: WindowSpec
    timers: InternalTimerService

    def __init__(
        self, spec: WindowSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(spec, input_type, context, output, side)
        self.aggregation = aggregation_of(spec)
        self.pane_context = KeyContext()
        self.emitter = RowEmitter(output, side)
        self.contents = contents_for(self.aggregation, spec.evictor is not None)
        self.assigner = spec.assigner
        self.is_event_time: bool = spec.assigner.is_event_time()
        self.is_merging = isinstance(spec.assigner, MergingWindowAssigner)
        self.allowed_lateness_ms = spec.allowed_lateness_ms
        self._merging_state: Any = None
        self._late_dropped = context.metrics.counter(LATE_ELEMENTS_DROPPED_METRIC_NAME)
        self._out: list[Any] = []
        self._times: list[int] = []
        self._late: list[int] = []

    @property
    def num_fired_timers(self) -> int:
        timers: InternalTimerService | None = getattr(self, "timers", None)  # there are none before the state
        return 0 if timers is None else timers.num_fired

    def checkpointed_functions(self) -> list[Any]:
        functions = (self.function, self.aggregation, *self.key_selectors)
        return [function for function in functions if function is not None]

    # -- life cycle ------------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        backend = self.backend
        self.contents.create_state(backend, self.spec.content_type)
        if self.is_merging:
            self._merging_state = backend.value_state(OperatorStateDescriptor("merging-window-set"))
        self.timers = InternalTimerService(
            self.pane_context, backend, self.context.processing_time_service, self._on_processing_time
        )
        metrics = self.context.metrics
        register_event_time_gauge(metrics, self.timers.event_time.peek)
        trigger_state = PaneStateStore(backend, self.pane_context, "trigger.")
        self.trigger = TriggerContext(self.spec.trigger, self.timers, trigger_state, metrics)
        self.assigner_context = AssignerContext(self.timers, self.create_runtime_context())
        self._evictor_context = EvictorContext(self.timers, metrics)
        window_state = NoPaneStateStore() if self.is_merging else PaneStateStore(backend, self.pane_context, "window.")
        self.function_context = WindowFunctionContext(self.timers, window_state, self.create_runtime_context())
        self._call = window_call(self.function, self.function_context)
        self._clear_function = clear_call(self.function, self.function_context)

    def open(self) -> None:
        open_function(self.aggregation, self.create_runtime_context(), self.context, self.context.name)
        super().open()
        self.timers.start()

    def close(self) -> None:
        try:
            close_function(self.aggregation, self.context, self.context.name)
        finally:
            super().close()

    # -- records ---------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        try:
            self.process_rows(rows, batch.timestamps)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.emit_late(batch, rows)
        self.flush()

    def process_rows(self, rows: list[Any], timestamps: np.ndarray | None, first: int = 0) -> None:
        """Processes rows. `first` is the position of the first row in the batch."""
        process = self.process_merging if self.is_merging else self.process_record
        times: Iterable[int | None] = repeat(None) if timestamps is None else timestamps.tolist()
        for index, (key, value, time) in enumerate(zip(self.read_keys(rows), rows, times), first):
            process(index, key, value, time)

    def process_record(self, index: int, key: Any, value: Any, timestamp: int | None) -> None:
        """Adds a record to its windows. `index` is its position in the batch."""
        self.key_context.key = key
        time = MIN_TIMESTAMP if timestamp is None else timestamp
        is_skipped = True
        for window in self.assigner.assign_windows(value, time, self.assigner_context):
            if self.is_window_late(window):
                continue
            is_skipped = False
            pane = self.set_pane(key, window)
            self.contents.add(pane, value, timestamp)
            self._react(self.trigger.on_element(value, time), key, window, pane)
            self.register_cleanup_timer(window)
        if is_skipped and self.is_element_late(time):
            self._late.append(index)

    def process_merging(self, index: int, key: Any, value: Any, timestamp: int | None) -> None:
        """Adds a record to its windows, which may merge with others. `index` is its position in the batch."""
        self.key_context.key = key
        time = MIN_TIMESTAMP if timestamp is None else timestamp
        is_skipped = True
        windows = MergingWindowSet(self.assigner, self._merging_state)
        for new_window in self.assigner.assign_windows(value, time, self.assigner_context):
            window = windows.add(new_window, self._merge)
            if self.is_window_late(window):
                windows.retire(window)
                continue
            is_skipped = False
            state_pane = pane_of(key, namespace_of(windows.state_window(window)))
            self.set_pane(key, window)
            self.contents.add(state_pane, value, timestamp)
            self._react(self.trigger.on_element(value, time), key, window, state_pane)
            self.register_cleanup_timer(window)
        windows.persist()
        if is_skipped and self.is_element_late(time):
            self._late.append(index)

    def _merge(self, result: Any, merged: list[Any], state_window: Any, moved: list[Any]) -> None:
        """Merges the windows `merged` into `result`. Moves the state of the `moved` windows to `state_window`."""
        if self.is_event_time:
            if self.is_window_late(result):
                raise UnsupportedOperationError(
                    "The end timestamp of an event-time window cannot become earlier than the current watermark by "
                    f"merging. Current watermark: {self.timers.watermark} window: {result}"
                )
        elif result.max_timestamp() <= self.timers.current_processing_time():
            raise UnsupportedOperationError(
                "The end timestamp of a processing-time window cannot become earlier than the current processing time "
                f"by merging. Current processing time: {self.timers.current_processing_time()} window: {result}"
            )
        key = self.key_context.key
        self.set_pane(key, result)
        self.trigger.on_merge([pane_of(key, namespace_of(window)) for window in merged])
        for window in merged:
            self.set_pane(key, window)
            self.trigger.clear()
            self._delete_cleanup_timer(window)
        if moved:
            moved_panes = [pane_of(key, namespace_of(window)) for window in moved]
            self.contents.merge(pane_of(key, namespace_of(state_window)), moved_panes)

    def set_pane(self, key: Any, window: Any) -> NamespacedKey:
        """Sets the pane whose state and timers triggers and functions use. Returns it."""
        pane = pane_of(key, namespace_of(window))
        self.pane_context.key = self.trigger.pane = pane
        self.trigger.window = window
        return pane

    def _react(self, result: TriggerResult, key: Any, window: Any, state_pane: NamespacedKey) -> None:
        """Fires and purges the window as the trigger requested."""
        if result is TriggerResult.CONTINUE:
            return
        if result.is_fire():
            contents = self.contents.get(state_pane)
            if contents is not None:
                if self.spec.evictor is not None:
                    self._emit_evicting(key, window, state_pane, contents)
                else:
                    self.emit_window(key, window, contents)
        if result.is_purge():
            self.contents.clear(state_pane)

    # -- results ---------------------------------------------------------------------------------------------------

    def emit_window(self, key: Any, window: Any, contents: list[Any]) -> None:
        """Calls the window function and collects its results. They get the maximum timestamp of the window."""
        results = self._call(user_key(key), window, contents)
        if results is not None:
            self._out.extend(results)
        self._take_outputs(window)

    def _take_outputs(self, window: Any) -> None:
        """Collects the side outputs of the function, and adds the timestamps of all its results."""
        out, outputs = self._out, self.function_context.outputs
        if outputs:
            out.extend(outputs)
            outputs.clear()
        emitted = len(out) - len(self._times)
        if emitted:
            self._times.extend([window.max_timestamp()] * emitted)

    def _emit_evicting(self, key: Any, window: Any, pane: NamespacedKey, contents: list[Any]) -> None:
        evictor, context = self.spec.evictor, self._evictor_context
        elements = [TimestampedValue(value, timestamp) for value, timestamp in contents]
        evictor.evict_before(elements, len(elements), window, context)
        values = aggregated(self.aggregation, [element.value for element in elements])
        if values or self.aggregation is None:
            self.emit_window(key, window, values)
        evictor.evict_after(elements, len(elements), window, context)
        assert isinstance(self.contents, RecordsForEvictor)
        if len(elements) != len(contents):
            self.contents.replace(pane, [(element.value, element.timestamp) for element in elements])

    def flush(self) -> None:
        """Emits the collected results."""
        out, times = self._out, self._times
        if out:
            self._out, self._times = [], []
            self.emitter.emit(out, np.array(times, dtype=np.int64))

    def emit_late(self, batch: Batch, rows: list[Any]) -> None:
        """Emits late records to the side output, or drops and counts them."""
        late = self._late
        if not late:
            return
        self._late = []
        tag_id = self.spec.late_tag
        if tag_id is None:
            self._late_dropped.inc(len(late))
            return
        output = self.side_outputs.get(tag_id)
        if output is not None:
            timestamps = None if batch.timestamps is None else batch.timestamps[late]
            output.emit(Batch([rows[index] for index in late], timestamps))

    # -- time ------------------------------------------------------------------------------------------------------

    def process_watermark(self, watermark: Watermark) -> None:
        self.timers.watermark = watermark.timestamp
        earliest = self.timers.event_time.next_timestamp()
        if earliest is not None and earliest <= watermark.timestamp:
            self.fire(self.timers.event_time, watermark.timestamp, True)
        super().process_watermark(watermark)

    def _on_processing_time(self, now_ms: int) -> None:
        self.fire(self.timers.processing_time, now_ms, False)

    def fire(self, queue: TimerQueue, up_to: int, in_event_time: bool) -> None:
        """Fires all due timers of a queue."""
        on_time = self.trigger.on_event_time if in_event_time else self.trigger.on_processing_time
        try:
            for timestamp, pane in queue.pop_due(up_to):
                self.fire_timer(on_time, timestamp, pane, in_event_time)
                if len(self._out) >= _MAX_TIMER_BATCH_ROWS:
                    self.flush()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.flush()

    def fire_timer(
        self, on_time: Callable[[int], TriggerResult], timestamp: int, pane: NamespacedKey, in_event_time: bool
    ) -> None:
        key, window = pane[0], window_of(pane[1:])
        self.key_context.key = key
        windows = None
        state_pane = self.set_pane(key, window)
        if self.is_merging:
            windows = MergingWindowSet(self.assigner, self._merging_state)
            state_window = windows.state_window(window)
            if state_window is None:
                # The trigger did not delete its timer. The window has merged or is over, and its state is cleared.
                return
            state_pane = pane_of(key, namespace_of(state_window))
        self._react(on_time(timestamp), key, window, state_pane)
        if in_event_time is self.is_event_time and timestamp == self.cleanup_time(window):
            self.contents.clear(state_pane)
            self.trigger.clear()
            if self._clear_function is not None:
                self._clear_function(window)
                self._take_outputs(window)
            if windows is not None:
                windows.retire(window)
        if windows is not None:
            windows.persist()

    def cleanup_time(self, window: Any) -> int:
        """Returns the time at which the window is removed; MAX_TIMESTAMP if it never is."""
        last: int = window.max_timestamp()
        if self.is_event_time:
            return min(last + self.allowed_lateness_ms, MAX_TIMESTAMP)
        return last

    def register_cleanup_timer(self, window: Any) -> None:
        time = self.cleanup_time(window)
        if time == MAX_TIMESTAMP:
            return
        if self.is_event_time:
            self.timers.register_event_time_timer(time)
        else:
            self.timers.register_processing_time_timer(time)

    def _delete_cleanup_timer(self, window: Any) -> None:
        time = self.cleanup_time(window)
        if time == MAX_TIMESTAMP:
            return
        if self.is_event_time:
            self.timers.delete_event_time_timer(time)
        else:
            self.timers.delete_processing_time_timer(time)

    def register_time_timers(self, pane: NamespacedKey) -> None:
        """Registers the timers of a TimeWindow whose trigger is EventTimeTrigger or ProcessingTimeTrigger."""
        last = pane[2] - 1
        if not self.is_event_time:
            self.pane_context.key = pane
            self.timers.register_processing_time_timer(last)
            return
        add, lateness = self.timers.event_time.add, self.allowed_lateness_ms
        add(last, pane)
        if lateness and last + lateness < MAX_TIMESTAMP:
            add(last + lateness, pane)

    def delete_time_timers(self, pane: NamespacedKey) -> None:
        """Deletes the timers that `register_time_timers` has registered."""
        last = pane[2] - 1
        if not self.is_event_time:
            self.timers.processing_time.remove(last, pane)
            return
        remove, lateness = self.timers.event_time.remove, self.allowed_lateness_ms
        remove(last, pane)
        if lateness and last + lateness < MAX_TIMESTAMP:
            remove(last + lateness, pane)

    def is_window_late(self, window: Any) -> bool:
        return self.is_event_time and self.cleanup_time(window) <= self.timers.watermark

    def is_element_late(self, timestamp: int) -> bool:
        return self.is_event_time and timestamp + self.allowed_lateness_ms <= self.timers.watermark
