"""JobMasterPartitionTracker: tracks the blocking results that can be read, and their locations.

A partition is available after its producer has finished, until one of these events: it is released, its TaskExecutor is
lost, a consumer could not read it, or its producer has to run again. It is released when the regions of all its
consumers have finished, at the latest at the end of the job. If a consumer has to run again after that, the producer
runs again, too.

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

#: The id of a data set and the index of the partition.
PartitionKey = tuple[IntermediateDataSetID, int]


@dataclass(frozen=True, slots=True)
class TrackedPartition:
    """A partition that a finished attempt has produced."""

    partition: IntermediateResultPartition
    partition_id: ResultPartitionID
    location: TaskManagerLocation


class JobMasterPartitionTracker:
    """Tracks the partitions of one job.

    Invariant: each tracked partition was produced by the current attempt of its producer, which has finished.
    """

    def __init__(self, has_finished: Callable[[ExecutionVertex], bool]) -> None:
        #: True for a subtask whose whole region has finished.
        self._has_finished = has_finished
        self._tracked: dict[PartitionKey, TrackedPartition] = {}

    # Readings

    @property
    def tracked(self) -> list[TrackedPartition]:
        return list(self._tracked.values())

    def is_available(self, partition: IntermediateResultPartition) -> bool:
        """True if consumers can read the partition."""
        return _key(partition) in self._tracked

    def is_missing(self, partition: IntermediateResultPartition) -> bool:
        """True if the producer has finished but the partition is not available, so the producer must run again."""
        has_finished = partition.producer.current.state is ExecutionState.FINISHED
        return partition.result.is_blocking and has_finished and not self.is_available(partition)

    def location(self, partition: IntermediateResultPartition) -> TaskManagerLocation | None:
        found = self._tracked.get(_key(partition))
        return None if found is None else found.location

    # Events

    def produced(self, vertex: ExecutionVertex) -> None:
        """Adds the blocking results of the current attempt of `vertex`, which has finished."""
        slot = vertex.current.slot
        assert slot is not None, f"{vertex} finished without a slot"
        for partition in vertex.produced:
            if partition.result.is_blocking:
                self._tracked[_key(partition)] = TrackedPartition(partition, partition.current_id, slot.location)

    def lose_task_manager(self, resource_id: ResourceID) -> list[IntermediateResultPartition]:
        """Removes and returns the partitions at a lost TaskExecutor."""
        return [
            self._tracked.pop(key).partition
            for key, tracked in list(self._tracked.items())
            if tracked.location.resource_id == resource_id
        ]

    def lose(self, partition_id: ResultPartitionID) -> None:
        """Removes a partition that a consumer could not read. No effect if it has been produced again since."""
        key = (partition_id.data_set_id, partition_id.partition_index)
        tracked = self._tracked.get(key)
        if tracked is not None and tracked.partition_id == partition_id:
            del self._tracked[key]

    def discard(self, vertex: ExecutionVertex) -> None:
        """Removes the partitions of `vertex`, which has to run again."""
        for partition in vertex.produced:
            self._tracked.pop(_key(partition), None)

    def take_consumed(self, partitions: Iterable[IntermediateResultPartition]) -> list[TrackedPartition]:
        """Removes and returns those of `partitions` whose consumers have all finished."""
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
            else:  # all consumers read every partition: check once for all partitions
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
        """Asserts all invariants."""
        for tracked in self._tracked.values():
            producer = tracked.partition.producer
            assert tracked.partition_id == tracked.partition.current_id, (
                f"{tracked.partition_id} belongs to a former attempt"
            )
            assert producer.current.state is ExecutionState.FINISHED, (
                f"the producer of {tracked.partition_id} has not finished"
            )


def _key(partition: IntermediateResultPartition) -> PartitionKey:
    return partition.result.id, partition.index
