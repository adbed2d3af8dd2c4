"""Watermark generators. The built-in ones see whole batches; a generator of the program sees every record.

Source: org.apache.flink.api.common.eventtime.{BoundedOutOfOrdernessWatermarks,NoWatermarksGenerator,
WatermarksWithIdleness}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.watermark_strategy import Watermark, WatermarkGenerator, WatermarkOutput
from flinkpy.records.elements import MIN_WATERMARK

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy
    from flinkpy.records.batch import Batch
    from flinkpy.streaming.operators.stream_operator import OperatorContext


#: Takes (record, timestamp in ms, output for watermarks).
OnEvent = Callable[[Any, int, WatermarkOutput], None]


class BatchGenerator(Protocol):
    """A watermark generator of the runtime. Thread: task thread."""

    #: The program's method for every record; None if the generator only needs batches.
    on_event: OnEvent | None

    def on_batch(self, batch: Batch) -> None:
        """Called after the records have been emitted. `on_event`, if it exists, has been called for each of them."""
        ...

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


def create_generator(
    strategy: WatermarkStrategy, context: OperatorContext, active_time_ns: Callable[[], int]
) -> BatchGenerator:
    """Creates a generator.

    Args:
        active_time_ns: a clock that is paused while waiting records cannot be read.
    """
    generator: BatchGenerator
    if strategy.generator_supplier is not None:
        generator = _UserGenerator(_supplied(strategy.generator_supplier, context))
    elif strategy.column_watermarks is not None:
        # Jobs without tables do not load the evaluation of SQL.
        from flinkpy.streaming.operators.table.column_watermarks import ColumnWatermarks

        generator = ColumnWatermarks(strategy.column_watermarks, context)
    elif strategy.out_of_orderness_ms is not None:
        generator = _BoundedOutOfOrderness(strategy.out_of_orderness_ms)
    else:
        generator = _NoWatermarks()
    if strategy.idle_timeout_ms is None:
        return generator
    return _WithIdleness(generator, IdlenessTimer(strategy.idle_timeout_ms, active_time_ns))


def _supplied(supplier: Callable[[], WatermarkGenerator], context: OperatorContext) -> WatermarkGenerator:

    try:
        generator = supplier()
    except USER_ERRORS as error:
        raise context.function_error(error) from error
    if not isinstance(generator, WatermarkGenerator):
        raise context.function_error(
            TypeError(f"the supplier of for_generator must return a WatermarkGenerator, not {generator!r}")
        )
    return generator


class _NoWatermarks:
    on_event: OnEvent | None = None

    def on_batch(self, batch: Batch) -> None:
        return

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        return


class _BoundedOutOfOrderness:
    """Stays behind the newest timestamp by the bound plus 1 ms, because another record with that timestamp may come."""

    on_event: OnEvent | None = None

    def __init__(self, out_of_orderness_ms: int) -> None:
        self._behind_ms = out_of_orderness_ms + 1
        #: The start value keeps the first watermark from underflowing.
        self._max_timestamp = MIN_WATERMARK + self._behind_ms

    def on_batch(self, batch: Batch) -> None:
        timestamps = batch.timestamps
        if timestamps is not None and (newest := int(timestamps.max())) > self._max_timestamp:
            self._max_timestamp = newest

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(self._max_timestamp - self._behind_ms))


class _UserGenerator:
    def __init__(self, generator: WatermarkGenerator) -> None:
        self.on_event: OnEvent | None = generator.on_event
        self.on_periodic_emit = generator.on_periodic_emit

    def on_batch(self, batch: Batch) -> None:
        return


class IdlenessTimer:
    """Detects silence: no activity for longer than the timeout, counted from the first interval without activity."""

    def __init__(self, timeout_ms: int, active_time_ns: Callable[[], int]) -> None:
        self._timeout_ns = timeout_ms * 1_000_000
        self._active_time_ns = active_time_ns
        self._was_active = False
        #: The time of the first interval without activity; None if there was activity in the last interval.
        self._silent_since_ns: int | None = None

    def activity(self) -> None:
        self._was_active = True

    def is_silent(self) -> bool:
        """True if there was no activity for longer than the timeout. Must be called once per interval."""
        if self._was_active:
            self._was_active = False
            self._silent_since_ns = None
            return False
        now_ns = self._active_time_ns()
        if self._silent_since_ns is None:
            self._silent_since_ns = now_ns
            return False
        return now_ns - self._silent_since_ns > self._timeout_ns


class _WithIdleness:
    """Marks the stream idle if no records came for the timeout.

    The stream becomes active again with the next watermark of the inner generator, not with the next record. Consumers
    need not wait for a record that does not advance event time.
    """

    def __init__(self, inner: BatchGenerator, timer: IdlenessTimer) -> None:
        self._inner = inner
        self._timer = timer
        self.on_event = inner.on_event
        self._is_idle = False

    def on_batch(self, batch: Batch) -> None:
        self._inner.on_batch(batch)
        self._timer.activity()
        self._is_idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if not self._timer.is_silent():
            self._inner.on_periodic_emit(output)
        elif not self._is_idle:
            self._is_idle = True
            output.mark_idle()
