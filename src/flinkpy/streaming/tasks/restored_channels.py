"""RestoredChannels: what was in flight when an unaligned checkpoint was taken, processed first after its restore.

Where the parallelism has changed, the batches of a channel may hold records of several subtasks: each subtask is given
all that may concern it and keeps the records of its own key groups.

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
    """Thread: task thread. Reads one batch at a time, so that mail and back-pressure are seen in between."""

    def __init__(self, environment: TaskEnvironment, chain: Any, state: checkpoint_pb2.OperatorSubtaskState) -> None:
        self._environment = environment
        self._head = chain.head
        self._edges = environment.vertex.inputs
        self._filters = state.filter_channels
        self._batches = self._read(state)

    @staticmethod
    def of(environment: TaskEnvironment, chain: Any) -> RestoredChannels | None:
        """None where nothing was in flight."""
        state = environment.state.restored_state(chain.head_operator_id)
        if state is None or not state.channels:
            return None
        return RestoredChannels(environment, chain, state)

    def process_next(self) -> bool:
        """Process one batch; False where there was none left."""
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
                raise InternalError(f"{self._environment.task_name} has no input {handle.edge_index}, but state of it")
            edge = self._edges[handle.edge_index]
            keep = self._own_rows(edge) if self._filters and edge.partitioner_name in ("HASH", "") else None
            for batch in reader.read(handle):
                yield (batch if keep is None else keep(batch)), edge.input_index
        reader.close()

    def _own_rows(self, edge: Any) -> Any:
        """batch -> the rows of this subtask's key groups."""
        from flinkpy.network.partitioner import KeyGroupStreamPartitioner

        environment = self._environment
        selector, key_type, value_type = self._head.key_of_input(edge.input_index)
        if selector is None:
            raise StateRestoreError(
                f"{environment.task_name}: records in flight were partitioned by a key that operator "
                f"{self._head.context.name} does not have, so they cannot be dealt out to another parallelism: restore "
                "with the parallelism of the checkpoint, or from a savepoint",
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
