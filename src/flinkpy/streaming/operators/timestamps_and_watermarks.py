"""TimestampsAndWatermarksOperator: assign_timestamps_and_watermarks in the middle of a job.

Source: org.apache.flink.streaming.runtime.operators.TimestampsAndWatermarksOperator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Element, Watermark, WatermarkStatus
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.watermark_assigner import WatermarkAssigner

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy


class TimestampsAndWatermarksOperator(StreamOperator):
    """Watermarks and idleness from before are replaced, but for the watermark that ends event time."""

    def __init__(
        self,
        strategy: WatermarkStrategy,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side)
        self._assigner = WatermarkAssigner(strategy, input_type, context, self.emit_to_all)

    def open(self) -> None:
        self._assigner.open()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self.output.emit(self._assigner.assign(batch))

    def process_element(self, element: Element) -> None:
        if not isinstance(element, WatermarkStatus):
            super().process_element(element)

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self._assigner.advance_to(watermark)

    def finish(self) -> None:
        self._assigner.emit_watermark()
