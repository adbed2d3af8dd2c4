"""FinishedOperatorChain: replaces the operators of a task that had finished in the checkpoint it is restored from.

It opens no user code. Its input consists of the end of event time and the end of data, which it forwards. Its
checkpoints contain no state and report the task as finished. Only a commit may be left to do: the checkpoint may
contain committables of a sink, and it is unknown whether they were committed after the checkpoint.

Source: org.apache.flink.streaming.runtime.tasks.FinishedOperatorChain.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, CheckpointBarrier, Element, Watermark
from flinkpy.streaming.io.record_writer_output import RecordWriterOutput
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.output import combine
from flinkpy.streaming.operators.sink_operator import SinkOperator
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.operator_chain import CapturedOutput, OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


class _FinishedHead(StreamOperator):
    """Forwards the end of event time. Other input would be a bug, because the producers had finished too."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise InternalError(f"{self.context.environment.task_name} had finished, but received {batch!r}")

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self.emit_to_all(watermark)

    def handle_operator_event(self, event: Any) -> None:
        """Ignores the event. A coordinator may not know that the task has finished."""
        return


class FinishedOperatorChain:
    """Has the methods of an OperatorChain. Thread: task thread."""

    is_restored_as_finished = True
    is_writable = True
    is_drained = True
    max_batch_rows = None
    has_finished = True

    def __init__(
        self,
        environment: TaskEnvironment,
        mailbox: TaskMailbox,
        processing_time_service: ProcessingTimeService,
        writers: list[RecordWriterOutput],
    ) -> None:
        self._environment = environment
        self._mailbox = mailbox
        self._processing_time_service = processing_time_service
        self.writers = writers
        self.sinks: list[SinkOperator] = []
        self.head_operator_id = environment.vertex.chain[0].operator_id
        context = OperatorContext(
            operator_id=self.head_operator_id,
            name=environment.vertex.chain[0].name,
            environment=environment,
            mailbox=mailbox,
            processing_time_service=processing_time_service,
            metrics=environment.metric_group.add_operator(self.head_operator_id, environment.vertex.chain[0].name),
        )
        self.head: StreamOperator = _FinishedHead(context, combine(list(writers)), {})

    def open(self) -> None:
        state = self._environment.state
        if all(state.restored_state(descriptor.operator_id) is None for descriptor in self._environment.vertex.chain):
            return
        chain = OperatorChain(self._environment, self._mailbox, self._processing_time_service, self.writers)
        chain.commit_restored()

    def emit_max_watermark(self) -> None:
        self.emit_to_results(Watermark(MAX_WATERMARK))

    def operator(self, operator_id: str) -> StreamOperator | None:
        return self.head

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        return

    def emit_barrier(self, barrier: CheckpointBarrier) -> list[CapturedOutput]:
        captured: list[CapturedOutput] = []
        for position, writer in enumerate(self.writers):
            captured.extend((position, subpartition, batches) for subpartition, batches in writer.emit_barrier(barrier))
        return captured

    def snapshot_state(self, barrier: CheckpointBarrier) -> dict[str, OperatorSnapshot]:
        return {}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def finish(self) -> None:
        return

    def emit_to_results(self, element: Element) -> None:
        for writer in self.writers:
            writer.emit_element(element)

    def flush(self) -> None:
        for writer in self.writers:
            writer.writer.flush()

    def close(self) -> list[BaseException]:
        return []
