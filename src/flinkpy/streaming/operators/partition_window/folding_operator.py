"""PartitionReduceOperator and PartitionAggregateOperator: fold the records of a subtask into one as they arrive.

The state is one accumulator. After a restore with fewer subtasks, one subtask gets the accumulators of several and
merges them.

Source: org.apache.flink.streaming.api.operators.{PartitionReduceOperator,PartitionAggregateOperator}.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.partition_window.partition_operator import PartitionOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_STATE = "partition-accumulator"


class _FoldingOperator(PartitionOperator):
    """Folds the records of a subtask into one accumulator, which is its state.

    Attributes:
        accumulators: empty before the first record. After a restore with fewer subtasks there are several until `open`
            merges them.
    """

    accumulators: list[Any]

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self.accumulators = [] if restored is None else self.list_state(_STATE).get()

    def open(self) -> None:
        super().open()
        if len(self.accumulators) > 1:
            try:
                self.accumulators = [reduce(self.merge, self.accumulators)]
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        try:
            self.accumulators = [self.fold(rows)]
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        self.list_state(_STATE).update(self.accumulators)
        return super().snapshot_state(checkpoint_id, options)

    def merge(self, first: Any, second: Any) -> Any:
        raise NotImplementedError

    def fold(self, rows: list[Any]) -> Any:
        raise NotImplementedError


class PartitionReduceOperator(_FoldingOperator):
    """Emits the reduced record, or nothing if the subtask had no records."""

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.reduce(first, second)

    def fold(self, rows: list[Any]) -> Any:
        return reduce(self.function.reduce, [*self.accumulators, *rows])

    def emit_results(self) -> None:
        self.emit_rows(self.accumulators)


class PartitionAggregateOperator(_FoldingOperator):
    """Emits the result of the accumulator, or nothing if the subtask had no records."""

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.merge(first, second)

    def fold(self, rows: list[Any]) -> Any:
        add = self.function.add
        accumulator = self.accumulators[0] if self.accumulators else self.function.create_accumulator()
        for value in rows:
            accumulator = add(value, accumulator)
        return accumulator

    def emit_results(self) -> None:
        self.emit_rows([self.function.get_result(accumulator) for accumulator in self.accumulators])
