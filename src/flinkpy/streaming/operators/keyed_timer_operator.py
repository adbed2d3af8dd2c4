"""KeyedTimerOperator: the base class of keyed operators with timers. Owns the timer service and fires timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.records.elements import Watermark
from flinkpy.records.key_identity import user_key
from flinkpy.state.backend import KeyContext
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.timer_service import InternalTimerService, register_event_time_gauge

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.functions.timers import TimeDomain

#: Results of timers are emitted in batches of at most about this many.
_MAX_TIMER_BATCH_ROWS = 65_536


class KeyedProcessContext(KeyContext):
    """The context that `process_element` and `on_timer` get. It also holds the current key for the state."""

    __slots__ = ("domain", "service", "timestamp_ms")

    service: InternalTimerService

    def __init__(self) -> None:
        super().__init__()
        self.timestamp_ms: int | None = None
        self.domain: TimeDomain | None = None

    def get_current_key(self) -> Any:
        return user_key(self.key)

    def timer_service(self) -> InternalTimerService:
        return self.service

    def timestamp(self) -> int | None:
        return self.timestamp_ms

    def time_domain(self) -> TimeDomain | None:
        """Returns the time domain of the timer that fires; None outside `on_timer`."""
        return self.domain


class KeyedTimerOperator(KeyedStateOperator):
    """A keyed operator whose function may set timers.

    Thread: task thread.

    Attributes:
        process_context: the context that the function gets with records and timers. It is also the key context.
    """

    def __init__(
        self,
        function: Any,
        key_selectors: tuple[Any, ...],
        key_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
        process_context: KeyedProcessContext | None = None,
    ) -> None:
        self.process_context = process_context or KeyedProcessContext()
        super().__init__(function, key_selectors, key_type, context, output, side, self.process_context)
        self.emitter = RowEmitter(output, side)
        self._timers: InternalTimerService | None = None

    @property
    def timers(self) -> InternalTimerService:
        assert self._timers is not None, "initialize_state comes first"
        return self._timers

    @property
    def num_fired_timers(self) -> int:
        return 0 if self._timers is None else self._timers.num_fired

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._timers = InternalTimerService(
            self.process_context, self.backend, self.context.processing_time_service, self._on_processing_time
        )
        self.process_context.service = self._timers
        register_event_time_gauge(self.context.metrics, self._timers.event_time.peek)

    def open(self) -> None:
        super().open()
        self.timers.start()

    def process_watermark(self, watermark: Watermark) -> None:
        timers = self.timers
        timers.watermark = watermark.timestamp
        queue = timers.event_time
        earliest = queue.next_timestamp()
        if earliest is not None and earliest <= watermark.timestamp:
            from flinkpy.functions.timers import TimeDomain

            self._fire(queue, watermark.timestamp, TimeDomain.EVENT_TIME)
        super().process_watermark(watermark)

    def _on_processing_time(self, now_ms: int) -> None:
        from flinkpy.functions.timers import TimeDomain

        self._fire(self.timers.processing_time, now_ms, TimeDomain.PROCESSING_TIME)

    def _fire(self, queue: TimerQueue, up_to: int, domain: TimeDomain) -> None:
        """Calls `on_timer` for all due timers. The results of event-time timers get the timer's timestamp."""
        context = self.process_context
        on_timer = getattr(self.function, "on_timer", None)
        if on_timer is None:
            # The function cannot have timers. Timers that an earlier version of the program has set are dropped.
            for _ in queue.pop_due(up_to):
                continue
            return
        has_time = domain.name == "EVENT_TIME"
        context.domain = domain
        out: list[Any] = []
        times: list[int] = []
        try:
            for timestamp, key in queue.pop_due(up_to):
                context.key = key
                context.timestamp_ms = timestamp
                results = self._call_on_timer(on_timer, timestamp)
                if results:
                    out.extend(results)
                    times.extend([timestamp] * len(results))
                if len(out) >= _MAX_TIMER_BATCH_ROWS:
                    self.emitter.emit(out, np.array(times, dtype=np.int64) if has_time else None)
                    out, times = [], []
        finally:
            context.domain = None
        self.emitter.emit(out, np.array(times, dtype=np.int64) if has_time else None)

    def _call_on_timer(self, on_timer: Callable[..., Any], timestamp: int) -> list[Any] | None:
        try:
            results = on_timer(timestamp, self.process_context)
            return None if results is None else list(results)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
