"""RestoredChannels: the in-flight records of a restored unaligned checkpoint, which a task processes first.

If the parallelism has changed, the batches of a channel may contain records of several subtasks. Each subtask reads
every batch that may contain its records, and keeps the records of its own key groups.

Source: org.apache.flink.streaming.runtime.io.recovery.DemultiplexingRecordDeserializer, RecordFilter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.errors import InternalError, StateRestoreError
from flinkpy.records.batch import Batch

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.environment import TaskEnvironment


class RestoredChannels:
    """Reads one batch at a time, so that the task handles mail and back-pressure in between. Thread: task thread."""

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
