"""JobMasterPartitionTracker: which blocking results can be read, and where they lie.

A partition is there from the moment its producer has finished until somebody says otherwise: it has been released, its
TaskExecutor is lost, a consumer could not read it, or its producer is to run again. It is released when the regions of
all its consumers have finished, at the latest at the end of the job. A consumer that has to run again although its
input has been released makes the input's producer run again.

Source: org.apache.flink.runtime.io.network.partition.JobMasterPartitionTrackerImpl,
org.apache.flink.runtime.executiongraph.failover.partitionrelease.RegionPartitionGroupReleaseStrategy. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flinkpy.common.ids import IntermediateDataSetID, ResourceID, ResultPartitionID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResultPartition
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation

#: A data set, and the number of a partition of it.
PartitionKey = tuple[IntermediateDataSetID, int]


@dataclass(frozen=True, slots=True)
class TrackedPartition:
    """What one attempt has produced."""

    partition: IntermediateResultPartition
    partition_id: ResultPartitionID
    location: TaskManagerLocation


class JobMasterPartitionTracker:
    """Invariant: what is tracked was made by the current attempt of its producer, which has finished."""

    def __init__(self, has_finished: Callable[[ExecutionVertex], bool]) -> None:
        #: Whether the subtask, and everybody who would run again together with it, has finished.
        self._has_finished = has_finished
        self._tracked: dict[PartitionKey, TrackedPartition] = {}

    # Readings

    @property
    def tracked(self) -> list[TrackedPartition]:
        return list(self._tracked.values())

    def is_available(self, partition: IntermediateResultPartition) -> bool:
        """A consumer may be deployed that reads it."""
        return _key(partition) in self._tracked

    def is_missing(self, partition: IntermediateResultPartition) -> bool:
        """Its producer has finished, and yet it cannot be read: only another run of the producer makes it again."""
        has_finished = partition.producer.current.state is ExecutionState.FINISHED
        return partition.result.is_blocking and has_finished and not self.is_available(partition)

    def location(self, partition: IntermediateResultPartition) -> TaskManagerLocation | None:
        found = self._tracked.get(_key(partition))
        return None if found is None else found.location

    # News

    def produced(self, vertex: ExecutionVertex) -> None:
        """The current attempt of `vertex` has finished, and its TaskExecutor keeps what it produced."""
        slot = vertex.current.slot
        assert slot is not None, f"{vertex} finished without a slot"
        for partition in vertex.produced:
            if partition.result.is_blocking:
                self._tracked[_key(partition)] = TrackedPartition(partition, partition.current_id, slot.location)

    def lose_task_manager(self, resource_id: ResourceID) -> list[IntermediateResultPartition]:
        """What lay at that TaskExecutor is gone; returns it."""
        return [
            self._tracked.pop(key).partition
            for key, tracked in list(self._tracked.items())
            if tracked.location.resource_id == resource_id
        ]

    def lose(self, partition_id: ResultPartitionID) -> None:
        """A consumer cannot read it. Nothing where it has been made anew in the meantime."""
        key = (partition_id.data_set_id, partition_id.partition_index)
        tracked = self._tracked.get(key)
        if tracked is not None and tracked.partition_id == partition_id:
            del self._tracked[key]

    def discard(self, vertex: ExecutionVertex) -> None:
        """`vertex` is to run again: what it has produced is not read any more."""
        for partition in vertex.produced:
            self._tracked.pop(_key(partition), None)

    def take_consumed(self, partitions: Iterable[IntermediateResultPartition]) -> list[TrackedPartition]:
        """Those of `partitions` that nobody needs any more: all their consumers have finished. Forgets them."""
        taken: list[TrackedPartition] = []
        is_consumed: dict[IntermediateDataSetID, bool] = {}
        for partition in partitions:
            tracked = self._tracked.get(_key(partition))
            if tracked is None:
                continue
            result = partition.result
            if not all(consumer.is_initialized for consumer in result.consumers):
                continue
            if result.is_pointwise:
                has_been_read = all(map(self._has_finished, partition.consumers))
            else:  # everybody reads every partition: ask once for all of them
                if result.id not in is_consumed:
                    is_consumed[result.id] = all(
                        all(map(self._has_finished, consumer.task_vertices)) for consumer in result.consumers
                    )
                has_been_read = is_consumed[result.id]
            if has_been_read:
                del self._tracked[_key(partition)]
                taken.append(tracked)
        return taken

    def clear(self) -> None:
        self._tracked.clear()

    def validate(self) -> None:
        """Assert every invariant."""
        for tracked in self._tracked.values():
            producer = tracked.partition.producer
            assert tracked.partition_id == tracked.partition.current_id, f"{tracked.partition_id} is of an old attempt"
            assert producer.current.state is ExecutionState.FINISHED, f"{tracked.partition_id} is read too early"


def _key(partition: IntermediateResultPartition) -> PartitionKey:
    return partition.result.id, partition.index
