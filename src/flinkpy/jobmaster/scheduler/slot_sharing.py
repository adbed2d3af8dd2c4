"""Which subtasks share a slot.

One slot holds at most one subtask of each vertex of a slot sharing group. A subtask goes where one of its producers is,
so that the exchange between them stays inside a process; the others fill up what is left.

Source: org.apache.flink.runtime.scheduler.LocalInputPreferredSlotSharingStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex


@dataclass(eq=False, slots=True)
class ExecutionSlotSharingGroup:
    """The subtasks that run in one slot."""

    slot_sharing_group: str
    index: int
    #: At most one per JobVertex.
    members: dict[JobVertexID, ExecutionVertexID] = field(default_factory=dict)


def assign_slot_sharing(
    job_vertices: Iterable[ExecutionJobVertex],
    group_of: dict[ExecutionVertexID, ExecutionSlotSharingGroup],
) -> None:
    """Put the group of every subtask into `group_of`, which has those of the vertices before; as many groups per slot
    sharing group as its widest vertex has subtasks.
    """
    groups: dict[str, list[ExecutionSlotSharingGroup]] = {}
    for known in dict.fromkeys(group_of.values()):
        groups.setdefault(known.slot_sharing_group, []).append(known)
    for job_vertex in job_vertices:
        present = groups.setdefault(job_vertex.slot_sharing_group, [])
        left: list[ExecutionVertex] = []
        for vertex in job_vertex.task_vertices:
            local = _group_of_a_producer(vertex, group_of)
            if local is None:
                left.append(vertex)
            else:
                _join(vertex, local, group_of)
        vacant = iter([group for group in present if job_vertex.id not in group.members])
        for vertex in left:
            group = next(vacant, None)
            if group is None:
                group = ExecutionSlotSharingGroup(job_vertex.slot_sharing_group, len(present))
                present.append(group)
            _join(vertex, group, group_of)


def _join(
    vertex: ExecutionVertex,
    group: ExecutionSlotSharingGroup,
    group_of: dict[ExecutionVertexID, ExecutionSlotSharingGroup],
) -> None:
    group.members[vertex.job_vertex.id] = vertex.id
    group_of[vertex.id] = group


def _group_of_a_producer(
    vertex: ExecutionVertex, group_of: dict[ExecutionVertexID, ExecutionSlotSharingGroup]
) -> ExecutionSlotSharingGroup | None:
    """A group of the same slot sharing group that holds a producer and has room; the same subtask index first."""
    name = vertex.job_vertex.slot_sharing_group
    for gate in vertex.consumed:
        ordered = sorted(gate.partitions, key=lambda partition: partition.index != vertex.subtask_index)
        for partition in ordered:
            group = group_of[partition.producer.id]
            if group.slot_sharing_group == name and vertex.job_vertex.id not in group.members:
                return group
    return None
