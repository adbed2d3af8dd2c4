"""SourceStreamTask: a task whose head is a source.

Source: org.apache.flink.streaming.runtime.tasks.SourceOperatorStreamTask.
"""

from __future__ import annotations

from flinkpy.common.errors import InternalError
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.source_operator import SourceOperator
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.stream_task import StreamTask


class SourceStreamTask(StreamTask):
    """Its input is the reader; records in are those the reader gave."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment)
        self._source: SourceOperator | None = None

    def initialize(self) -> None:
        head = self.chain.head
        if not isinstance(head, SourceOperator):
            raise InternalError(f"{self.environment.task_name} has no inputs and its head is no source")
        self._source = head

    def process_input(self) -> ActionStatus:
        if not self.chain.is_writable:
            return ActionStatus.BLOCKED
        assert self._source is not None
        status = self._source.emit_next()
        if status is ActionStatus.END:
            self._source.emit_max_watermark()
        return status

    def add_input_metrics(self, values: dict[str, int]) -> None:
        source = self._source
        if source is not None:
            values["num_records_in"] = source.num_records
            values["num_batches_in"] = source.num_batches
