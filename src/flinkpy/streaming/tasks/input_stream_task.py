"""InputStreamTask: a task that reads one or several input gates.

Source: org.apache.flink.streaming.runtime.tasks.{OneInputStreamTask,MultipleInputStreamTask}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.errors import InternalError, StateRestoreError
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier
from flinkpy.streaming.io.checkpointing.checkpointed_inputs import CheckpointedInputs
from flinkpy.streaming.io.record_writer_output import UNALIGNED_PARTITIONERS
from flinkpy.streaming.io.stream_input_processor import StreamInputProcessor
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.stream_task import StreamTask

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2


class RestoredChannels:
    """The in-flight records of a restored unaligned checkpoint, which the task processes first.

    It reads one batch at a time, so that the task handles mail and back-pressure in between. If the parallelism has
    changed, the batches of a channel may contain records of several subtasks. Each subtask reads every batch that may
    contain its records, and keeps the records of its own key groups.

    Thread: task thread.

    Source: org.apache.flink.streaming.runtime.io.recovery.DemultiplexingRecordDeserializer, RecordFilter.
    """

    def __init__(self, environment: TaskEnvironment, chain: Any, state: checkpoint_pb2.OperatorSubtaskState) -> None:
        self._environment = environment
        self._head = chain.head
        self._edges = environment.vertex.inputs
        self._filters = state.filter_channels
        self._batches = self._read(state)

    @staticmethod
    def of(environment: TaskEnvironment, chain: Any) -> RestoredChannels | None:
        """Returns None if no records were in flight."""
        state = environment.state.restored_state(chain.head_operator_id)
        if state is None or not state.channels:
            return None
        return RestoredChannels(environment, chain, state)

    def process_next(self) -> bool:
        """Processes one batch. Returns False if none was left."""
        for batch, input_index in self._batches:
            if batch.num_rows:
                self._head.process_batch(batch, input_index)
                self._head.after_batch(batch.num_rows)
            return True
        return False

    def _read(self, state: checkpoint_pb2.OperatorSubtaskState) -> Iterator[tuple[Batch, int]]:
        from flinkpy.network.channel_state import ChannelStateReader

        reader = ChannelStateReader(self._environment.state.files)
        for handle in state.channels:
            if handle.edge_index >= len(self._edges):
                task = self._environment.task_name
                raise InternalError(f"{task} is restored with data of input {handle.edge_index}, which does not exist")
            edge = self._edges[handle.edge_index]
            keep = self._own_rows(edge) if self._filters and edge.partitioner_name in ("HASH", "") else None
            for batch in reader.read(handle):
                yield (batch if keep is None else keep(batch)), edge.input_index
        reader.close()

    def _own_rows(self, edge: Any) -> Any:
        """Returns a function that keeps the records of this subtask's key groups in a batch."""
        from flinkpy.network.partitioner import KeyGroupStreamPartitioner

        environment = self._environment
        selector, key_type, value_type = self._head.key_of_input(edge.input_index)
        if selector is None:
            raise StateRestoreError(
                f"{environment.task_name}: records in flight were partitioned by a key that operator "
                f"{self._head.context.name} does not have, so they cannot be redistributed to another parallelism. "
                "Restore with the parallelism of the checkpoint, or from a savepoint",
                details={"task": environment.task_name, "operator": self._head.context.name},
            )
        partitioner = KeyGroupStreamPartitioner(selector, key_type)
        partitioner.setup(
            environment.parallelism,
            subtask_index=environment.subtask_index,
            max_parallelism=environment.max_parallelism,
        )

        def keep(batch: Batch) -> Batch:
            for channel, part in partitioner.split(batch, value_type):
                if channel == environment.subtask_index:
                    return part
            return batch.take(np.empty(0, dtype=np.int64))

        return keep


class InputStreamTask(StreamTask):
    """Reads input gates.

    It processes the in-flight records of the restored checkpoint before it requests data from the producers.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment)
        self._input: StreamInputProcessor | None = None
        self._restored: RestoredChannels | None = None

    @property
    def input(self) -> StreamInputProcessor:
        assert self._input is not None, "initialize has not been called"
        return self._input

    def initialize(self) -> None:
        self._input = StreamInputProcessor(
            self.environment.input_gates,
            self.chain.head,
            self.mailbox.wake,
            self._create_checkpointed_inputs,
            self._clock,
            self.chain.max_batch_rows,
        )

    def _create_checkpointed_inputs(self, gates: list[tuple[int, Any]]) -> CheckpointedInputs:
        edges = self.environment.vertex.inputs
        aligned_only = frozenset(
            position
            for position, edge in enumerate(edges)
            if edge.partitioner_name and edge.partitioner_name not in UNALIGNED_PARTITIONERS
        )
        return CheckpointedInputs(gates, aligned_only, self, self._clock, self.system_timers.schedule_after)

    def start_inputs(self) -> None:
        self._restored = RestoredChannels.of(self.environment, self.chain)
        if self._restored is None:
            self._request_partitions()

    def _request_partitions(self) -> None:
        for _, _, gate in self.environment.input_gates:
            gate.request_partitions()

    @property
    def is_drained(self) -> bool:
        return self._input is None or self._input.is_drained

    def take_ends_of_inputs(self) -> bool:
        return self._input is None or self._input.drain_ends()

    def discard_rest_of_inputs(self) -> bool:
        return self.input.discard_rest()

    def process_input(self) -> ActionStatus:
        assert self._input is not None
        if not self.chain.is_writable:
            return ActionStatus.MORE if self._input.process_priority() else ActionStatus.BLOCKED
        if self._restored is not None:
            if not self._restored.process_next():
                self._restored = None
                self._request_partitions()
            return ActionStatus.MORE
        return self._input.process_next()

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        self.input.checkpointed.on_trigger(barrier)

    def on_aborted(self, checkpoint_id: int) -> None:
        self.input.checkpointed.on_aborted(checkpoint_id)

    @property
    def input_watermarks(self) -> list[Callable[[], int]]:
        processor = self._input
        if processor is None or processor.num_inputs < 2:
            return []
        return [partial(processor.input_watermark, position) for position in range(processor.num_inputs)]

    def add_input_metrics(self, values: dict[str, int]) -> None:
        processor = self._input
        if processor is not None:
            values["num_records_in"] = processor.num_records
            values["num_batches_in"] = processor.num_batches
            values["num_bytes_in"] = processor.num_bytes

    def release_inputs(self) -> None:
        if self._input is not None:
            self._input.close()
