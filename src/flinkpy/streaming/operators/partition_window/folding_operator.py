"""PartitionReduceOperator and PartitionAggregateOperator: the records of a subtask, folded into one as they come.

Kept: one accumulator. After a restore with less subtasks, one of them has the accumulators of several, which it merges.

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
    """Attributes:
    accumulators: none before the first record; several only right after a restore.
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
    """Nothing where a subtask had no records."""

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.reduce(first, second)

    def fold(self, rows: list[Any]) -> Any:
        return reduce(self.function.reduce, [*self.accumulators, *rows])

    def emit_results(self) -> None:
        self.emit_rows(self.accumulators)


class PartitionAggregateOperator(_FoldingOperator):
    """The result of the accumulator; nothing where a subtask had no records."""

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
