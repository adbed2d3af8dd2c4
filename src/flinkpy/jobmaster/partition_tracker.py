"""JobMasterPartitionTracker: tracks the blocking results that can be read, and their locations.

A partition is available after its producer has finished, until one of these events: it is released, its TaskExecutor is
lost, a consumer could not read it, or its producer has to run again. It is released when the regions of all its
consumers have finished, at the latest at the end of the job. If a consumer has to run again after that, the producer
runs again, too.

The partitions of kept results (committables) are stored at the JobMaster, so no loss makes them unavailable, and they
stay until the end of the job. When all partitions of a kept result are available, it becomes final: from then on they
stay available even if their producers run again, and the results of that are ignored.

Source: org.apache.flink.runtime.io.network.partition.JobMasterPartitionTrackerImpl,
org.apache.flink.runtime.executiongraph.failover.partitionrelease.RegionPartitionGroupReleaseStrategy. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flinkpy.common.ids import IntermediateDataSetID, ResourceID, ResultPartitionID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult, IntermediateResultPartition
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation

#: The id of a data set and the index of the partition.
PartitionKey = tuple[IntermediateDataSetID, int]


@dataclass(frozen=True, slots=True)
class TrackedPartition:
    """A partition that a finished attempt has produced. `location` None: it is stored at the JobMaster."""

    partition: IntermediateResultPartition
    partition_id: ResultPartitionID
    location: TaskManagerLocation | None


class JobMasterPartitionTracker:
    """Tracks the partitions of one job.

    Invariant: each tracked partition belongs to a final result, or was produced by the current attempt of its producer,
    which has finished.
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

    def produced(self, vertex: ExecutionVertex, held: frozenset[str] | None = None) -> list[IntermediateResult]:
        """Adds the blocking results of the current attempt of `vertex`, which has finished.

        Returns the results that are final now.

        Args:
            held: the ids of the partitions that still exist; None: all do.
        """
        slot = vertex.current.slot
        assert slot is not None, f"{vertex} finished without a slot"
        final = []
        for partition in vertex.produced:
            result = partition.result
            if not result.is_blocking or result.is_final:
                continue
            if held is None or str(partition.current_id) in held:
                location = None if result.is_kept else slot.location
                self._tracked[_key(partition)] = TrackedPartition(partition, partition.current_id, location)
                if result.is_kept and all(map(self.is_available, result.partitions)):
                    result.make_final([one.current_id for one in result.partitions])
                    final.append(result)
        return final

    def restore_final(self, result: IntermediateResult, partition_ids: Sequence[ResultPartitionID]) -> None:
        """Makes a result final that was final under an earlier JobMaster."""
        result.make_final(partition_ids)
        for partition in result.partitions:
            self._tracked[_key(partition)] = TrackedPartition(partition, partition.current_id, None)

    def lose_task_manager(self, resource_id: ResourceID) -> list[IntermediateResultPartition]:
        """Removes and returns the partitions at a lost TaskExecutor."""
        return [
            self._tracked.pop(key).partition
            for key, tracked in list(self._tracked.items())
            if tracked.location is not None and tracked.location.resource_id == resource_id
        ]

    def lose(self, partition_id: ResultPartitionID) -> None:
        """Removes a partition that a consumer could not read. No effect if it has been produced again since."""
        key = (partition_id.data_set_id, partition_id.partition_index)
        tracked = self._tracked.get(key)
        if tracked is not None and tracked.partition_id == partition_id and not tracked.partition.result.is_kept:
            del self._tracked[key]

    def discard(self, vertex: ExecutionVertex) -> None:
        """Removes the partitions of `vertex`, which has to run again, except those of final results."""
        for partition in vertex.produced:
            if not partition.result.is_final:
                self._tracked.pop(_key(partition), None)

    def take_consumed(self, partitions: Iterable[IntermediateResultPartition]) -> list[TrackedPartition]:
        """Removes and returns those of `partitions` whose consumers have all finished, except kept ones."""
        taken: list[TrackedPartition] = []
        is_consumed: dict[IntermediateDataSetID, bool] = {}
        for partition in partitions:
            tracked = self._tracked.get(_key(partition))
            if tracked is None or partition.result.is_kept:
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
            assert tracked.partition.result.is_final or producer.current.state is ExecutionState.FINISHED, (
                f"the producer of {tracked.partition_id} has not finished"
            )


def _key(partition: IntermediateResultPartition) -> PartitionKey:
    return partition.result.id, partition.index
