"""SourceStreamTask: a task whose head is a source.

Source: org.apache.flink.streaming.runtime.tasks.SourceOperatorStreamTask.
"""

from __future__ import annotations

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import InternalError
from flinkpy.records.elements import CheckpointBarrier
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.source_operator import SourceOperator
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.operator_chain import FinishedOperatorChain
from flinkpy.streaming.tasks.stream_task import StreamTask, StreamTaskState


class SourceStreamTask(StreamTask):
    """Reads a source. The records that its reader emits count as records in."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment)
        self._source: SourceOperator | None = None

    def initialize(self) -> None:
        chain = self.chain
        if isinstance(chain, FinishedOperatorChain):
            return
        head = chain.head
        if not isinstance(head, SourceOperator):
            raise InternalError(f"{self.environment.task_name} has no inputs, but its head is not a source")
        self._source = head
        if chain.max_batch_rows is not None:
            head.batch_size.limit(chain.max_batch_rows)

    def process_input(self) -> ActionStatus:
        if not self.chain.is_writable:
            return ActionStatus.BLOCKED
        if self._source is None:
            self.emit_end_of_event_time()
            return ActionStatus.END
        status = self._source.emit_next()
        if status is ActionStatus.END:
            self._source.emit_max_watermark()
        return status

    def emit_end_of_event_time(self) -> None:
        chain = self.chain
        if isinstance(chain, FinishedOperatorChain):
            chain.emit_max_watermark()
        elif self._source is not None:
            self._source.emit_max_watermark()

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        if (
            barrier.options is not None
            and barrier.options.kind == checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE
            and self.state is StreamTaskState.RUNNING
        ):
            self.stop_with_drain(barrier)
        else:
            super().on_trigger(barrier)

    def add_input_metrics(self, values: dict[str, int]) -> None:
        source = self._source
        if source is not None:
            values["num_records_in"] = source.num_records
            values["num_batches_in"] = source.num_batches
