"""BatchOperator: the base class of batch-mode operators, which wait for the end of their inputs.

Batch mode has no checkpoints.
"""

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
    """Returns the error of a batch-mode operator for a checkpoint."""
    return UnsupportedOperationError(
        f"operator {context.name} runs in batch mode, which does not support checkpoints or savepoints"
    )


class BatchOperator(StreamOperator):
    """Runs `operator` on bounded inputs. Emits the watermark that ends event time after all results.

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
        """Called when one input is complete."""
        return

    @abstractmethod
    def on_end_of_inputs(self) -> None:
        """Emits all results. Called when all inputs are complete."""
