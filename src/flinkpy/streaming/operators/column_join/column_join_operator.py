"""ColumnJoinOperator: the equi-join of two bounded inputs of columns. Input 1 is the build side.

Rows of input 0 wait until input 1 is complete, in a file if there are many. After that, results are emitted immediately
if the build side fits in memory. Otherwise they are emitted at the end of both inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import ColumnJoinSpec, FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.lanes import arrow_schema
from flinkpy.streaming.operators.column_join.build_side import BuildSide
from flinkpy.streaming.operators.column_join.grace_join import GraceJoin, fits
from flinkpy.streaming.operators.column_join.join_plan import JoinPlan
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator
from flinkpy.streaming.sort.batch_queue import BatchQueue
from flinkpy.streaming.sort.memory import column_operator_bytes, spill_directory

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_PROBE, _BUILD = 0, 1


class ColumnJoinOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: ColumnJoinSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        if not all(isinstance(selector, FieldKeySelector) for selector in spec.key_selectors):
            raise UnsupportedOperationError(f"operator {context.name}: a join of columns needs keys that are columns")
        self._spec = spec
        self._input_types = input_types
        self._memory_bytes = column_operator_bytes(context)
        self._spills = spill_directory(context)
        self._schemas: list[pa.Schema | None] = [arrow_schema(input_type) for input_type in input_types]
        self._waiting = [BatchQueue(self._spills, self._memory_bytes // share) for share in (4, 2)]
        self._running = {_PROBE, _BUILD}
        self._plan: JoinPlan | None = None
        self._side: BuildSide | None = None
        self._grace: GraceJoin | None = None
        self._watermark: Watermark | None = None

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        if self._spec.is_broadcast:
            return None, None, self._input_types[input_index]
        return self._spec.key_selectors[input_index], self._spec.key_type, self._input_types[input_index]

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        raise UnsupportedOperationError(
            f"operator {self.context.name}: a join of columns does not support checkpoints: run the program in batch "
            "mode, or remove execution.checkpointing.interval"
        )

    def process_watermark(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = inserted_columns(batch, self._input_types[input_index], self.context.name)
        if self._schemas[input_index] is None:
            self._schemas[input_index] = columns.schema
        if input_index == _PROBE and self._has_started():
            self._probe(columns)
        else:
            self._waiting[input_index].add(Batch(columns))

    def end_input(self, input_index: int) -> None:
        self._running.discard(input_index)
        if _BUILD not in self._running and self._has_started():
            for batch in self._waiting[_PROBE].drain():
                self._probe(batch.values)

    def finish(self) -> None:
        if self._grace is not None:
            for columns in self._grace.results():
                self._emit(columns)
        if self._watermark is not None:
            self.emit_to_all(self._watermark)

    def close(self) -> None:
        self._spills.close()

    def _has_started(self) -> bool:
        """Starts the join if the build side is complete and the schema of the other side is known. True if it runs."""
        if self._plan is not None:
            return True
        left, right = self._schemas
        if _BUILD in self._running or left is None:
            return False
        if right is None:
            right = self._right_schema(left)
        how, selectors, name = self._spec.how, self._spec.key_selectors, self.context.name
        plan = self._plan = JoinPlan(how, (selectors[0], selectors[1]), left, right, name)
        waiting = self._waiting[_BUILD]
        if fits(waiting.num_rows, waiting.num_bytes, self._memory_bytes):
            self._side = plan.build([batch.values for batch in waiting.drain()])
        else:
            self._grace = GraceJoin(plan, (left, right), self._spills, self._memory_bytes, 0)
            for batch in waiting.drain():
                self._grace.add_build(batch.values)
        return True

    def _right_schema(self, left: pa.Schema) -> pa.Schema:
        """Derives the schema of a build side without rows and without a declared type from the results' type."""
        keys = zip(self._spec.key_selectors[1].fields, self._spec.key_selectors[0].fields)
        fields = [pa.field(str(right_key), left.field(left_key).type) for right_key, left_key in keys]
        declared = arrow_schema(self._spec.output_type)
        if declared is None and self._spec.how == "left":
            raise UnsupportedOperationError(
                f"operator {self.context.name}: the right side has no rows and no declared type, so the columns of the "
                "results are unknown: declare the type of the right stream"
            )
        known = {*left.names, *(field.name for field in fields)}
        return pa.schema([*fields, *(field for field in declared or () if field.name not in known)])

    def _probe(self, columns: Any) -> None:
        if self._grace is not None:
            self._grace.add_probe(columns)
        elif self._plan is not None and self._side is not None:
            for result in self._plan.join(columns, self._side):
                self._emit(result)

    def _emit(self, columns: pa.RecordBatch) -> None:
        if columns.num_rows:
            self.output.emit(Batch(columns))
