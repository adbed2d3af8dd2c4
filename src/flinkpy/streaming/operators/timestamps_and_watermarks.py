"""TimestampsAndWatermarksOperator: runs assign_timestamps_and_watermarks in the middle of a job.

Source: org.apache.flink.streaming.runtime.operators.TimestampsAndWatermarksOperator.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Element, Watermark, WatermarkStatus
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.watermark_assigner import WatermarkAssigner

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy

_LOG = logging.getLogger(__name__)


class TimestampsAndWatermarksOperator(StreamOperator):
    """Replaces the watermarks and idleness of its input, except the watermark that ends event time."""

    def __init__(
        self,
        strategy: WatermarkStrategy,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side)
        if strategy.alignment is not None:
            _LOG.warning(
                "operator %s: watermark alignment has no effect here. Set it in the watermark strategy of from_source",
                context.name,
            )
        self._assigner = WatermarkAssigner(strategy, input_type, context, output.emit, self.emit_to_all)

    def open(self) -> None:
        self._assigner.open()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._assigner.emit(batch)

    def process_element(self, element: Element) -> None:
        if not isinstance(element, WatermarkStatus):
            super().process_element(element)

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self._assigner.end_event_time(watermark)

    def finish(self) -> None:
        self._assigner.emit_periodic()
