"""Generators of watermarks: those of flinkpy look at a batch as a whole, a program's own at each of its records.

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


#: (record, timestamp in ms, where watermarks go).
OnEvent = Callable[[Any, int, WatermarkOutput], None]


class BatchGenerator(Protocol):
    """A generator in the runtime. Thread: task thread."""

    #: The program's own method for every record; None: a batch is enough.
    on_event: OnEvent | None

    def on_batch(self, batch: Batch) -> None:
        """These records have been emitted. Where there is `on_event`, it was called for each of them before."""
        ...

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


def create_generator(
    strategy: WatermarkStrategy, context: OperatorContext, active_time_ns: Callable[[], int]
) -> BatchGenerator:
    """A new one. `active_time_ns`: a clock that stands still while records that wait cannot be read."""
    generator: BatchGenerator
    if strategy.generator_supplier is not None:
        generator = _UserGenerator(_supplied(strategy.generator_supplier, context))
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
        raise context.function_error(TypeError(f"for_generator's supplier gave {generator!r}, no WatermarkGenerator"))
    return generator


class _NoWatermarks:
    on_event: OnEvent | None = None

    def on_batch(self, batch: Batch) -> None:
        return

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        return


class _BoundedOutOfOrderness:
    """Behind the newest timestamp by the bound, and by one more: another record with that timestamp may come."""

    on_event: OnEvent | None = None

    def __init__(self, out_of_orderness_ms: int) -> None:
        self._behind_ms = out_of_orderness_ms + 1
        #: So that the first watermark is not below the smallest there is.
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
    """Counts from the first interval without activity; silent is what that has been for longer than the timeout."""

    def __init__(self, timeout_ms: int, active_time_ns: Callable[[], int]) -> None:
        self._timeout_ns = timeout_ms * 1_000_000
        self._active_time_ns = active_time_ns
        self._was_active = False
        #: When an interval without activity was first seen; None: there has been none since.
        self._silent_since_ns: int | None = None

    def activity(self) -> None:
        self._was_active = True

    def is_silent(self) -> bool:
        """To be asked once per interval."""
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
    """Says that the stream is idle when nothing has come for the timeout.

    It is active again with the next watermark that the generator inside makes, not with the next record: a record that
    does not advance event time is nothing to wait for.
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
