"""WatermarkAssigner: gives records their event time and says how far event time has come.

It looks at the clock between batches, where a record-at-a-time engine may look at any record: a watermark after the
batch says nothing that one inside it would not have said.

Source: org.apache.flink.api.common.eventtime.{BoundedOutOfOrdernessWatermarks,WatermarksWithIdleness}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.configuration import read_option
from flinkpy.configuration.pipeline_options import AUTO_WATERMARK_INTERVAL
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK, Element, Watermark, WatermarkStatus
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.timestamp_extraction import create_stamp

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy


class WatermarkAssigner:
    """Thread: task thread.

    Args:
        emit_element: where watermarks and idleness go.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        value_type: Any,
        context: OperatorContext,
        emit_element: Callable[[Element], None],
    ) -> None:
        if strategy.alignment is not None:
            raise UnsupportedOperationError(f"operator {context.name}: this release has no watermark alignment")
        self._context = context
        self._clock = context.processing_time_service
        self._emit_element = emit_element
        self._out_of_orderness_ms = strategy.out_of_orderness_ms
        self._stamp = create_stamp(strategy, value_type, context)
        self._idle_timeout_ms = strategy.idle_timeout_ms
        self._interval_ms = read_option(context.environment.configuration, AUTO_WATERMARK_INTERVAL)
        self._max_timestamp = MIN_WATERMARK
        self._last_watermark = MIN_WATERMARK
        self._last_record_ms = 0
        self._is_idle = False

    def open(self) -> None:
        self._last_record_ms = self._clock.current_time_ms()
        if self._out_of_orderness_ms is not None and self._interval_ms > 0:
            self._clock.schedule_after(self._interval_ms, self._on_interval)

    def assign(self, batch: Batch) -> Batch:
        """The batch with its timestamps."""
        if self._stamp is not None:
            batch = self._stamp(batch)
        if batch.timestamps is not None and len(batch.timestamps):
            self._max_timestamp = max(self._max_timestamp, int(batch.timestamps.max()))
        if self._idle_timeout_ms is not None:
            self._last_record_ms = self._clock.current_time_ms()
            if self._is_idle:
                self._is_idle = False
                self._emit_element(WatermarkStatus(is_idle=False))
        return batch

    def emit_watermark(self) -> None:
        """Emit the watermark if it has advanced."""
        if self._out_of_orderness_ms is None or self._max_timestamp == MIN_WATERMARK:
            return
        # One less: another record with the newest timestamp may still come.
        watermark = max(MIN_WATERMARK, self._max_timestamp - self._out_of_orderness_ms - 1)
        if watermark > self._last_watermark:
            self._last_watermark = watermark
            self._emit_element(Watermark(watermark))

    def advance_to(self, watermark: Watermark) -> None:
        """Emit the watermark that ends event time."""
        if watermark.timestamp > self._last_watermark:
            self._last_watermark = watermark.timestamp
            self._emit_element(watermark)

    def _on_interval(self, _: int) -> None:
        self.emit_watermark()
        if self._idle_timeout_ms is not None and not self._is_idle:
            silent_ms = self._clock.current_time_ms() - self._last_record_ms
            if silent_ms >= self._idle_timeout_ms:
                self._is_idle = True
                self._emit_element(WatermarkStatus(is_idle=True))
        self._clock.schedule_after(self._interval_ms, self._on_interval)
