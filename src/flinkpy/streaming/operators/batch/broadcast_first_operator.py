"""BroadcastFirstOperator: runs a BroadcastProcessFunction in batch mode, on the whole broadcast stream first.

Source: org.apache.flink.streaming.api.operators.co.BatchCoBroadcastWithNonKeyedOperator.
"""

from __future__ import annotations

from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.batch.batch_operator import BatchOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.sort.batch_queue import BatchQueue
from flinkpy.streaming.sort.memory import sorted_inputs_bytes, spill_directory

_BROADCAST = 1


class BroadcastFirstOperator(BatchOperator):
    """Holds input 0 back until input 1 is complete, in a file if it is large. Thread: task thread."""

    def __init__(
        self, operator: StreamOperator, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, 2)
        self.operator = operator
        self._spills = spill_directory(context)
        self._waiting: BatchQueue | None = BatchQueue(self._spills, sorted_inputs_bytes(context))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if input_index == _BROADCAST or self._waiting is None:
            self.operator.process_batch(batch, input_index)
        else:
            self._waiting.add(batch)

    def on_end_of_input(self, input_index: int) -> None:
        if input_index == _BROADCAST:
            waiting, self._waiting = self._waiting, None
            for batch in waiting.drain() if waiting is not None else ():
                self.operator.process_batch(batch, 0)
        self.operator.end_input(input_index)

    def on_end_of_inputs(self) -> None:
        self.operator.finish()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._spills.close()
