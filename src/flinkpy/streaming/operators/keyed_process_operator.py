"""KeyedProcessOperator: a KeyedProcessFunction with state and timers.

Source: org.apache.flink.streaming.api.operators.KeyedProcessOperator.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.state.backend import KeyContext
from flinkpy.streaming.operators.keyed_operator import KeyedOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.process_operator import repeat_timestamps
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import USER_ERRORS, OperatorContext
from flinkpy.streaming.operators.timer_service import InternalTimerService, TimerQueue

if TYPE_CHECKING:
    from flinkpy.datastream.time_domain import TimeDomain
    from flinkpy.graph.operator_specs import KeyedProcessSpec

#: Results of timers are emitted in batches of at most about this many.
_MAX_TIMER_BATCH_ROWS = 65_536


class KeyedProcessContext(KeyContext):
    """What `process_element` and `on_timer` are given, and at once where the state looks for the key."""

    __slots__ = ("domain", "service", "timestamp_ms")

    service: InternalTimerService

    def __init__(self) -> None:
        super().__init__()
        self.timestamp_ms: int | None = None
        self.domain: TimeDomain | None = None

    def get_current_key(self) -> Any:
        return self.key

    def timer_service(self) -> InternalTimerService:
        return self.service

    def timestamp(self) -> int | None:
        return self.timestamp_ms

    def time_domain(self) -> TimeDomain | None:
        """Of the timer that fires; None outside `on_timer`."""
        return self.domain


class KeyedProcessOperator(KeyedOperator):
    def __init__(
        self, spec: KeyedProcessSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        self._process_context = KeyedProcessContext()
        super().__init__(spec, input_type, context, output, side, self._process_context)
        self._timers = InternalTimerService(
            self._process_context, context.processing_time_service, self._on_processing_time
        )
        self._process_context.service = self._timers
        self._emitter = RowEmitter(output, side)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        timestamps = batch.timestamps
        process = self.function.process_element
        try:
            if timestamps is not None:
                out, timestamps = self._process_with_timestamps(process, rows, timestamps)
            elif isgeneratorfunction(process):
                out = self._process_generator(process, rows)
            else:
                out = self._process(process, rows)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self._emitter.emit(out, timestamps)

    def _process_generator(self, process: Callable[..., Any], rows: list[Any]) -> list[Any]:
        context = self._process_context
        get_key = self.get_key
        out: list[Any] = []
        append = out.append
        context.timestamp_ms = None
        for value in rows:
            context.key = get_key(value)
            for result in process(value, context):
                append(result)
        return out

    def _process(self, process: Callable[..., Any], rows: list[Any]) -> list[Any]:
        context = self._process_context
        get_key = self.get_key
        out: list[Any] = []
        extend = out.extend
        context.timestamp_ms = None
        for value in rows:
            context.key = get_key(value)
            results = process(value, context)
            if results is not None:
                extend(results)
        return out

    def _process_with_timestamps(
        self, process: Callable[..., Any], rows: list[Any], timestamps: np.ndarray
    ) -> tuple[list[Any], np.ndarray]:
        context = self._process_context
        get_key = self.get_key
        out: list[Any] = []
        extend = out.extend
        ends: list[int] = []
        for value, timestamp in zip(rows, timestamps.tolist()):
            context.timestamp_ms = timestamp
            context.key = get_key(value)
            results = process(value, context)
            if results is not None:
                extend(results)
            ends.append(len(out))
        return out, repeat_timestamps(timestamps, ends)

    # -- timers --------------------------------------------------------------------------------------------------

    def process_watermark(self, watermark: Watermark) -> None:
        self._timers.watermark = watermark.timestamp
        queue = self._timers.event_time
        earliest = queue.next_timestamp()
        if earliest is not None and earliest <= watermark.timestamp:
            from flinkpy.datastream.time_domain import TimeDomain

            self._fire(queue, watermark.timestamp, TimeDomain.EVENT_TIME)
        super().process_watermark(watermark)

    def _on_processing_time(self, now_ms: int) -> None:
        from flinkpy.datastream.time_domain import TimeDomain

        self._fire(self._timers.processing_time, now_ms, TimeDomain.PROCESSING_TIME)

    def _fire(self, queue: TimerQueue, up_to: int, domain: TimeDomain) -> None:
        """Call `on_timer` for all that are due; results of event-time timers carry the timer's time."""
        context = self._process_context
        on_timer = self.function.on_timer
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
                    self._emitter.emit(out, np.array(times, dtype=np.int64) if has_time else None)
                    out, times = [], []
        finally:
            context.domain = None
        self._emitter.emit(out, np.array(times, dtype=np.int64) if has_time else None)

    def _call_on_timer(self, on_timer: Callable[..., Any], timestamp: int) -> list[Any] | None:
        try:
            results = on_timer(timestamp, self._process_context)
            return None if results is None else list(results)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
