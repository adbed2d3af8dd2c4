"""BatchOperator: what operators in batch mode share: they wait for the end of their inputs, and take no checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2


def no_checkpoints(context: OperatorContext) -> UnsupportedOperationError:
    """What an operator that runs in batch mode only says to a checkpoint."""
    return UnsupportedOperationError(
        f"operator {context.name} runs in batch mode, which has no checkpoints and no savepoints"
    )


class BatchOperator(StreamOperator):
    """Runs `operator`, which does the work. The watermark that ends event time is held back behind the results.

    Thread: task thread.
    """

    operator: StreamOperator

    def __init__(self, context: OperatorContext, output: Output, side: dict[str, Output], num_inputs: int) -> None:
        super().__init__(context, output, side)
        self._running_inputs = set(range(num_inputs))
        self._last_watermark: Watermark | None = None

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        self.operator.initialize_state(restored)

    def open(self) -> None:
        self.operator.open()

    def close(self) -> None:
        self.operator.close()

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.operator.key_of_input(input_index)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        raise no_checkpoints(self.context)

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self._last_watermark = watermark

    def end_input(self, input_index: int) -> None:
        self._running_inputs.discard(input_index)
        if self._running_inputs:
            self.on_end_of_input(input_index)
            return
        self.on_end_of_input(input_index)
        self.on_end_of_inputs()
        if self._last_watermark is not None:
            self.emit_to_all(self._last_watermark)

    def on_end_of_input(self, input_index: int) -> None:
        """That input is complete."""
        return

    @abstractmethod
    def on_end_of_inputs(self) -> None:
        """Everything has come: emit all results."""
