"""The recorded events of a job: creates them, and replays them for the next JobMaster.

`replay` applies the events in order and returns the last state. A finished source subtask is *covered* only if a later
snapshot of its coordinator exists, because only that shows which splits it has read. The same holds for any other
vertex with a coordinator; without snapshots, its subtasks are never covered.

A JobMaster runs the subtasks again that are not covered when it starts, and its coordinators do not know their earlier
attempts. So its snapshots cover these subtasks only after they have finished again.

Source: org.apache.flink.runtime.scheduler.adaptivebatch.DefaultBatchJobRecoveryHandler. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flinkpy._proto import job_event_pb2, jobmaster_pb2
from flinkpy.common.ids import (
    AllocationID,
    ExecutionAttemptID,
    ExecutionVertexID,
    IntermediateDataSetID,
    JobVertexID,
    ResourceID,
    ResultPartitionID,
)
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.conversions import io_metrics_from_proto, io_metrics_to_proto
from flinkpy.jobmaster.executiongraph.edge_manager import EdgeSlices, IndexRange, InputSlice
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation


@dataclass(frozen=True, slots=True)
class Decision:
    """The decided parallelism of a vertex. `slices` None: its subtasks read ranges of equal length."""

    vertex_id: JobVertexID
    parallelism: int
    reason: str
    slices: EdgeSlices | None


@dataclass(slots=True)
class RecordedJob:
    """The progress of a job under earlier JobMasters."""

    #: In the order of the decisions.
    decisions: list[Decision] = field(default_factory=list)
    finished: dict[ExecutionVertexID, Execution] = field(default_factory=dict)
    #: The states of the coordinators by vertex and operator id.
    snapshots: dict[JobVertexID, Mapping[str, bytes]] = field(default_factory=dict)
    #: The finished subtasks that their coordinators' snapshots do not cover. They run again, unless they are settled.
    uncovered: set[ExecutionVertexID] = field(default_factory=set)
    #: The stored partitions of final results.
    final: dict[IntermediateDataSetID, list[ResultPartitionID]] = field(default_factory=dict)

    @property
    def locations(self) -> list[TaskManagerLocation]:
        """The TaskExecutors on which finished executions ran, without duplicates."""
        slots = [execution.slot for execution in self.finished.values()]
        return list(dict.fromkeys(slot.location for slot in slots if slot is not None))


def started(job_id: str, graph_id: str) -> job_event_pb2.JobEvent:
    return job_event_pb2.JobEvent(
        started=job_event_pb2.JobMasterStartedEvent(job_id=job_id, execution_graph_id=graph_id)
    )


def decided(decision: Decision) -> job_event_pb2.JobEvent:
    event = job_event_pb2.VertexDecidedEvent(
        vertex_id=str(decision.vertex_id), parallelism=decision.parallelism, reason=decision.reason
    )
    for subtasks in decision.slices or ():
        edge = event.edges.add()
        for pieces in subtasks:
            subtask = edge.subtasks.add()
            for piece in pieces:
                subtask.slices.add(
                    first_partition=piece.partitions.first,
                    last_partition=piece.partitions.last,
                    first_subpartition=piece.subpartitions.first,
                    last_subpartition=piece.subpartitions.last,
                )
    return job_event_pb2.JobEvent(decided=event)


def finished(execution: Execution) -> job_event_pb2.JobEvent:
    slot = execution.slot
    assert slot is not None, f"{execution} finished without a slot"
    return job_event_pb2.JobEvent(
        finished=job_event_pb2.ExecutionFinishedEvent(
            execution_attempt_id=str(execution.attempt_id),
            allocation_id=str(slot.allocation_id),
            slot_index=slot.slot_index,
            resource_id=str(slot.location.resource_id),
            address=slot.location.address,
            data_address=slot.location.data_address,
            metrics=io_metrics_to_proto(execution.metrics),
            accumulators_pickle=execution.accumulators,
            result_partition_bytes=[
                jobmaster_pb2.ResultPartitionBytes(result_partition_id=partition_id, subpartition_bytes=sizes)
                for partition_id, sizes in execution.result_bytes.items()
            ],
            state_timestamps={state.value: at_ms for state, at_ms in execution.state_timestamps.items()},
        )
    )


def reset(attempts: Iterable[ExecutionAttemptID]) -> job_event_pb2.JobEvent:
    return job_event_pb2.JobEvent(
        reset=job_event_pb2.ExecutionsResetEvent(execution_attempt_ids=[str(attempt) for attempt in attempts])
    )


def snapshot(vertex_id: JobVertexID, states: Mapping[str, bytes]) -> job_event_pb2.JobEvent:
    return job_event_pb2.JobEvent(
        snapshot=job_event_pb2.CoordinatorSnapshotEvent(vertex_id=str(vertex_id), states=states)
    )


def final(data_set_id: IntermediateDataSetID, partition_ids: Iterable[ResultPartitionID]) -> job_event_pb2.JobEvent:
    return job_event_pb2.JobEvent(
        final=job_event_pb2.ResultFinalEvent(
            data_set_id=str(data_set_id), result_partition_ids=[str(partition_id) for partition_id in partition_ids]
        )
    )


def replay(events: Iterable[job_event_pb2.JobEvent], coordinated: Iterable[JobVertexID]) -> RecordedJob:
    """Replays the events. `coordinated`: the vertices that have coordinators."""
    job = RecordedJob()
    needs_snapshot = set(coordinated)
    #: The subtasks that a later JobMaster has run again, and that have not finished there.
    repeated: set[ExecutionVertexID] = set()
    for event in events:
        match event.WhichOneof("event"):
            case "started":
                repeated |= job.uncovered
            case "decided":
                decision = _decision(event.decided)
                job.decisions = [one for one in job.decisions if one.vertex_id != decision.vertex_id]
                job.decisions.append(decision)
            case "finished":
                execution = _execution(event.finished)
                vertex_id = execution.attempt_id.vertex
                job.finished[vertex_id] = execution
                repeated.discard(vertex_id)
                if vertex_id.job_vertex_id in needs_snapshot:
                    job.uncovered.add(vertex_id)
            case "reset":
                for text in event.reset.execution_attempt_ids:
                    vertex_id = ExecutionAttemptID.parse(text).vertex
                    job.finished.pop(vertex_id, None)
                    # The last snapshot marks the splits of the subtask as read, so it is not valid any more.
                    job.snapshots.pop(vertex_id.job_vertex_id, None)
                    if vertex_id.job_vertex_id in needs_snapshot:
                        same = (one for one in job.finished if one.job_vertex_id == vertex_id.job_vertex_id)
                        job.uncovered.update(same)
            case "snapshot":
                job_vertex_id = JobVertexID(event.snapshot.vertex_id)
                job.snapshots[job_vertex_id] = dict(event.snapshot.states)
                job.uncovered = {one for one in job.uncovered if one.job_vertex_id != job_vertex_id or one in repeated}
            case "final":
                partition_ids = [ResultPartitionID.parse(text) for text in event.final.result_partition_ids]
                job.final[IntermediateDataSetID(event.final.data_set_id)] = partition_ids
    job.uncovered.intersection_update(job.finished)
    return job


def _decision(event: job_event_pb2.VertexDecidedEvent) -> Decision:
    slices = [
        [
            [
                InputSlice(
                    IndexRange(piece.first_partition, piece.last_partition),
                    IndexRange(piece.first_subpartition, piece.last_subpartition),
                )
                for piece in subtask.slices
            ]
            for subtask in edge.subtasks
        ]
        for edge in event.edges
    ]
    return Decision(JobVertexID(event.vertex_id), event.parallelism, event.reason, slices or None)


def _execution(event: job_event_pb2.ExecutionFinishedEvent) -> Execution:
    timestamps = {ExecutionState(state): at_ms for state, at_ms in event.state_timestamps.items()}
    execution = Execution(ExecutionAttemptID.parse(event.execution_attempt_id), 0)
    execution.state = ExecutionState.FINISHED
    execution.state_timestamps = dict(sorted(timestamps.items(), key=lambda item: (item[1], item[0].value)))
    execution.slot = PhysicalSlot(
        AllocationID(event.allocation_id),
        event.slot_index,
        TaskManagerLocation(ResourceID(event.resource_id), event.address, event.data_address),
    )
    execution.metrics = io_metrics_from_proto(event.metrics)
    execution.accumulators = dict(event.accumulators_pickle)
    execution.result_bytes = {
        one.result_partition_id: tuple(one.subpartition_bytes) for one in event.result_partition_bytes
    }
    return execution
