"""The two operators of a sink with a global committer in streaming mode: parallel writers, and one committer for all.

The writers emit the committables of a checkpoint before its barrier, and the rest when their input ends. The committer
has one subtask. When the barrier has arrived from all writers, it has all committables of the checkpoint. It stores
them in its own state, and commits them together when the checkpoint is complete.

State of the committer: the committables that are not committed yet, each with its checkpoint, as in SinkOperator, and
the state of a Committer that has one (`committer_state`).

Source: org.apache.flink.streaming.runtime.operators.sink.{SinkWriterOperator, CommitterOperator}, with the topology of
Flink's Iceberg sink. Differs: batches of committables have no summaries, because the edge between the two is ordered
and no barrier overtakes records on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.typeinfo import Types
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import CHECKPOINTS_AFTER_TASKS_FINISH, COMMITTER_RETRIES, INTERVAL
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.sink import Committer, SinkBase, SupportsCommitterState
from flinkpy.functions.state import ListStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.batch_sink_operators import committable_batches
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, PENDING_COMMITTABLES, Committables
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.sink_operator import COMMITTABLES_STATE, SinkOperator
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2


#: Elements: at most one, what SupportsCommitterState.snapshot_state returned.
_COMMITTER_STATE = "committer_state"


class GlobalSinkWriterOperator(SinkOperator):
    """Writes records, and emits the committables of each checkpoint before its barrier. Thread: task thread."""

    _has_finished = False

    def open(self) -> None:
        # A savepoint of a release in which each subtask committed its own output has committables.
        left, self._committables = self._committables, Committables()
        if len(left):
            self._emit([committable for _, committable in left.items()])
            self._list_state(COMMITTABLES_STATE).update([])
        super().open()

    def commit_restored(self) -> None:
        # A task that had finished emits nothing, so it commits what it has itself.
        if len(self._committables):
            super().commit_restored()

    def finish(self) -> None:
        writer = self.writer
        self._guarded(lambda: writer.flush(end_of_input=True))
        self._take_committables(END_OF_INPUT_ID)
        self._has_finished = True

    def _take_committables(self, checkpoint_id: int) -> None:
        if self._has_finished:
            # The checkpoints after the end of the input have a barrier, too, but its end has been announced.
            return
        self._emit(list(self._guarded(self.writer.prepare_commit)))

    def _commit(self, checkpoint_id: int) -> None:
        if len(self._committables):
            super()._commit(checkpoint_id)

    def _emit(self, committables: list[Any]) -> None:
        serializer = self._sink.committable_serializer
        for batch in committable_batches([write_versioned(serializer, each) for each in committables]):
            self.output.emit(batch)


class GlobalSinkCommitterOperator(StreamOperator):
    """Commits the committables of all writers, one checkpoint after the other. Thread: task thread."""

    def __init__(
        self, sink: SinkBase, context: OperatorContext, output: Output, side_outputs: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side_outputs)
        configuration = context.environment.configuration
        self._sink = sink
        self._retries = read_option(configuration, COMMITTER_RETRIES)
        self._waits_for_final_checkpoint = bool(read_option(configuration, INTERVAL)) and read_option(
            configuration, CHECKPOINTS_AFTER_TASKS_FINISH
        )
        self._committer: Committer | None = None
        #: The committables that have arrived since the last barrier.
        self._arrived: list[Any] = []
        self._committables = Committables()

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            for checkpoint_id, data in self._state().get():
                self._committables.add(checkpoint_id, [self._read(data)])

    def open(self) -> None:
        self.commit_restored()

    def commit_restored(self) -> None:
        """Commits the committables of the restored checkpoint, as `SinkOperator.commit_restored` does."""
        self._commit(END_OF_INPUT_ID)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._arrived.extend(map(self._read, batch.values))

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        super().prepare_snapshot_pre_barrier(checkpoint_id)
        self._take_arrived(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        serializer = self._sink.committable_serializer
        self._state().update(
            [(known, write_versioned(serializer, committable)) for known, committable in self._committables.items()]
        )
        if isinstance(self._committer, SupportsCommitterState):
            self._committer_state().update([self._committer.snapshot_state()])
        return super().snapshot_state(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self._commit(checkpoint_id)

    def finish(self) -> None:
        if not self._waits_for_final_checkpoint:
            self._take_arrived(END_OF_INPUT_ID)
            self._commit(END_OF_INPUT_ID)

    def close(self) -> None:
        committer, self._committer = self._committer, None
        if committer is not None:
            committer.close()

    def _take_arrived(self, checkpoint_id: int) -> None:
        arrived, self._arrived = self._arrived, []
        self._committables.add(checkpoint_id, arrived)

    def _commit(self, checkpoint_id: int) -> None:
        try:
            if self._committer is None:
                self._committer = self._sink.create_committer()
                assert self._committer is not None, "the sink had a committer when the job was built"
                if isinstance(self._committer, SupportsCommitterState):
                    for state in self._committer_state().get():
                        self._committer.restore_state(state)
                self.context.metrics.gauge(PENDING_COMMITTABLES, lambda: len(self._committables))
            self._committables.commit_up_to(checkpoint_id, self._committer, self._retries)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def _read(self, data: bytes) -> Any:
        where = f"operator {self.context.name}, a committable"
        return read_versioned(self._sink.committable_serializer, data, where)

    def _committer_state(self) -> Any:
        descriptor = ListStateDescriptor(_COMMITTER_STATE, Types.PICKLED_BYTE_ARRAY())
        return self.operator_state.get_list_state(descriptor)

    def _state(self) -> Any:
        descriptor = ListStateDescriptor(COMMITTABLES_STATE, Types.PICKLED_BYTE_ARRAY())
        return self.operator_state.get_list_state(descriptor)
