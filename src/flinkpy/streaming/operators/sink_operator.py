"""SinkOperator: writes records with a SinkWriter, and commits the output of completed checkpoints with a Committer.

State: the writer's state (`writer_state`), and the committables that are not committed yet, each with its checkpoint
(`committables`). Both are redistributed when the parallelism changes. The operator commits the committables of a
restored checkpoint when it opens: the checkpoint was completed, but its commit may have been interrupted. A lost
notification does no harm, because the next one covers all earlier checkpoints.

Source: org.apache.flink.streaming.runtime.operators.sink.{SinkWriterOperator, CommitterOperator}. Differs: one operator
does both (docs/decisions/0008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import InternalError
from flinkpy.common.typeinfo import Types
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import (
    CHECKPOINTS_AFTER_TASKS_FINISH,
    COMMITTER_RETRIES,
    INTERVAL,
    MODE,
)
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.sink import Committer, SendMetrics, SinkBase, SinkWriter, StatefulSinkWriter
from flinkpy.functions.state import ListStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.committables import (
    END_OF_INPUT_ID,
    PENDING_COMMITTABLES,
    CommitCounts,
    Committables,
)
from flinkpy.streaming.operators.lane_border import as_columnar, has_exact_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.metrics.metric_registry import NamedMetricGroup

_T = TypeVar("_T")

#: Elements: the serialized parts of the writer's state.
_WRITER_STATE = "writer_state"
#: Elements: (checkpoint id, serialized committable).
COMMITTABLES_STATE = "committables"


class _WriterContext:
    """Implements WriterContext: the writer's access to its task."""

    def __init__(self, context: OperatorContext, input_type: Any) -> None:
        self._context = context
        self._environment = context.environment
        self.input_type = input_type
        self.job_id = context.environment.job_id
        self.notify_writable = context.mailbox.wake
        configuration = context.environment.configuration
        self.is_checkpointing_enabled = bool(read_option(configuration, INTERVAL))
        self.is_exactly_once = self.is_checkpointing_enabled and read_option(configuration, MODE) == "EXACTLY_ONCE"
        self.waits_for_final_checkpoint = self.is_checkpointing_enabled and read_option(
            configuration, CHECKPOINTS_AFTER_TASKS_FINISH
        )

    @property
    def subtask_index(self) -> int:
        return self._environment.subtask_index

    @property
    def parallelism(self) -> int:
        return self._environment.parallelism

    @property
    def attempt_number(self) -> int:
        return self._environment.attempt_number

    @property
    def restored_checkpoint_id(self) -> int | None:
        return self._environment.state.restored_checkpoint_id

    def current_processing_time(self) -> int:
        return self._context.processing_time_service.current_time_ms()

    def schedule_after(self, delay_ms: int, action: Callable[[int], None]) -> None:
        self._context.processing_time_service.schedule_after(delay_ms, action)

    def send_event_to_coordinator(self, event: Any) -> None:
        self._environment.send_operator_event(self._context.operator_id, event)


def _register_sends(group: NamedMetricGroup, sends: SendMetrics) -> None:
    """Registers the metrics that the writer knows.

    Source: org.apache.flink.runtime.metrics.groups.InternalSinkWriterMetricGroup.
    """
    if sends.num_bytes is not None:
        group.count_of("numBytesSend", lambda: sends.num_bytes or 0)
    if sends.num_errors is not None:
        group.count_only("numRecordsSendErrors", lambda: sends.num_errors or 0)
    if sends.last_send_ms is not None:
        group.gauge("currentSendTime", lambda: sends.last_send_ms)


class SinkOperator(StreamOperator):
    """Runs a SinkWriter and a Committer. Thread: task thread.

    It converts rows to columns and checks them against the declared type. So a writer gets columns if the type has an
    Arrow form, and Python objects only if it has none.
    """

    def __init__(
        self,
        sink: SinkBase,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.num_records = 0
        self.num_batches = 0
        self._sink = sink
        self._input_type = input_type
        self._typed = False
        self._writer_context = _WriterContext(context, input_type)
        self._committer_retries = read_option(context.environment.configuration, COMMITTER_RETRIES)
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._committables = Committables()
        self._is_restored = False
        self._is_suspending = False
        self._restored_writer_states: list[Any] = []

    # -- life cycle ----------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is None:
            return
        self._is_restored = True
        name = self.context.name
        self._restored_writer_states = [
            read_versioned(self._sink.writer_state_serializer, data, f"operator {name}, state {_WRITER_STATE}")
            for data in self._list_state(_WRITER_STATE).get()
        ]
        for checkpoint_id, data in self._list_state(COMMITTABLES_STATE).get():
            where = f"operator {name}, a committable of checkpoint {checkpoint_id}"
            committable = read_versioned(self._sink.committable_serializer, data, where)
            self._committables.add(checkpoint_id, [committable])

    def open(self) -> None:
        self._typed = has_exact_columns(self._input_type)
        self.commit_restored()
        states, self._restored_writer_states = self._restored_writer_states, []
        self._writer = self._guarded(
            lambda: (
                self._sink.restore_writer(self._writer_context, states)
                if self._is_restored
                else self._sink.create_writer(self._writer_context)
            )
        )
        if self._writer.send_metrics is not None:
            _register_sends(self.context.metrics, self._writer.send_metrics)

    def commit_restored(self) -> None:
        """Commits the committables of the restored checkpoint.

        `open` calls it. A task that had finished before the checkpoint is not opened. For such a task it is called
        directly, between `initialize_state` and `close`.
        """
        if self._committer is None:
            self._committer = self._guarded(self._sink.create_committer)
            if self._committer is not None:
                self.context.metrics.gauge(PENDING_COMMITTABLES, lambda: len(self._committables))
        self._commit(END_OF_INPUT_ID)

    def finish(self) -> None:
        writer = self.writer
        self._guarded(lambda: writer.flush(end_of_input=True))
        if not self._writer_context.waits_for_final_checkpoint:
            self._take_committables(END_OF_INPUT_ID)
            self._commit(END_OF_INPUT_ID)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        try:
            if writer is not None:
                self._guarded(writer.close)
        finally:
            if committer is not None:
                self._guarded(committer.close)

    @property
    def has_committer(self) -> bool:
        """True if the sink commits in two phases."""
        return self._sink.commits_at_checkpoints

    @property
    def commit_counts(self) -> CommitCounts:
        return self._committables.counts

    @property
    def writer(self) -> SinkWriter:
        if self._writer is None:
            raise InternalError(f"operator {self.context.name} is not open")
        return self._writer

    @property
    def is_writable(self) -> bool:
        return self._writer is None or self._writer.is_writable

    @property
    def has_finished(self) -> bool:
        return self._writer is None or self._writer.has_finished

    def suspend(self) -> None:
        self._is_suspending = True
        self._guarded(self.writer.suspend)

    @property
    def is_suspended(self) -> bool:
        return not self._is_suspending or self.has_finished

    # -- input ---------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        writer = self.writer
        try:
            if self._typed:
                batch = as_columnar(batch, self._input_type)
            writer.write(batch)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        self.num_records += batch.num_rows
        self.num_batches += 1

    def process_watermark(self, watermark: Watermark) -> None:
        self._guarded(lambda: self.writer.write_watermark(watermark.timestamp))
        super().process_watermark(watermark)

    def handle_operator_event(self, event: Any) -> None:
        self._guarded(lambda: self.writer.handle_event(event))

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        super().prepare_snapshot_pre_barrier(checkpoint_id)
        writer = self.writer
        self._guarded(lambda: writer.flush(end_of_input=False))
        self._take_committables(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        writer = self.writer
        if isinstance(writer, StatefulSinkWriter):
            states = self._guarded(lambda: writer.snapshot_state(checkpoint_id))
            serializer = self._sink.writer_state_serializer
            self._list_state(_WRITER_STATE).update([write_versioned(serializer, state) for state in states])
        if self._committer is not None:
            serializer = self._sink.committable_serializer
            self._list_state(COMMITTABLES_STATE).update(
                [(known, write_versioned(serializer, committable)) for known, committable in self._committables.items()]
            )
        return super().snapshot_state(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self._commit(checkpoint_id)
        self._guarded(lambda: self.writer.notify_checkpoint_complete(checkpoint_id))

    # -- internals -----------------------------------------------------------------------------------------------

    def _take_committables(self, checkpoint_id: int) -> None:
        if self._committer is not None:
            self._committables.add(checkpoint_id, list(self._guarded(self.writer.prepare_commit)))

    def _commit(self, checkpoint_id: int) -> None:
        committer = self._committer
        if committer is None:
            if len(self._committables):
                raise InternalError(
                    f"operator {self.context.name}: the restored checkpoint has committables, "
                    f"but {type(self._sink).__name__} has no committer"
                )
            return
        self._guarded(lambda: self._committables.commit_up_to(checkpoint_id, committer, self._committer_retries))

    def _list_state(self, name: str) -> Any:
        return self.operator_state.get_list_state(ListStateDescriptor(name, Types.PICKLED_BYTE_ARRAY()))

    def _guarded(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
