"""SlotSharingExecutionSlotAllocator: assigns one physical slot to each ExecutionSlotSharingGroup.

A group keeps its slot as long as one of its subtasks uses it. A slot holds at most one subtask of each vertex of a slot
sharing group. If possible, a subtask shares the slot of one of its producers, so that their exchange stays within a
process. The other subtasks fill the remaining room.

Pure: the scheduler passes requests to the slot pool and the answers back.

Source: org.apache.flink.runtime.scheduler.{SlotSharingExecutionSlotAllocator,LocalInputPreferredSlotSharingStrategy}.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flinkpy.common.ids import AllocationID, ExecutionVertexID, JobVertexID
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotRequest
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot


@dataclass(eq=False, slots=True)
class ExecutionSlotSharingGroup:
    """The subtasks that run in one slot."""

    slot_sharing_group: str
    index: int
    #: The resources that the slot must have.
    resources: ResourceProfile = ResourceProfile.UNKNOWN
    #: At most one per JobVertex.
    members: dict[JobVertexID, ExecutionVertexID] = field(default_factory=dict)


def assign_slot_sharing(
    job_vertices: Iterable[ExecutionJobVertex],
    group_of: dict[ExecutionVertexID, ExecutionSlotSharingGroup],
) -> None:
    """Adds the groups of the subtasks of these vertices to `group_of`, which holds those of all earlier vertices.

    A slot sharing group has as many of these groups as its vertex with the most subtasks.
    """
    groups: dict[str, list[ExecutionSlotSharingGroup]] = {}
    for known in dict.fromkeys(group_of.values()):
        groups.setdefault(known.slot_sharing_group, []).append(known)
    for job_vertex in job_vertices:
        present = groups.setdefault(job_vertex.slot_sharing_group, [])
        remaining: list[ExecutionVertex] = []
        for vertex in job_vertex.task_vertices:
            local = _group_of_a_producer(vertex, group_of)
            if local is None:
                remaining.append(vertex)
            else:
                _join(vertex, local, group_of)
        vacant = iter([group for group in present if job_vertex.id not in group.members])
        for vertex in remaining:
            group = next(vacant, None)
            if group is None:
                group = ExecutionSlotSharingGroup(
                    job_vertex.slot_sharing_group, len(present), job_vertex.slot_resources
                )
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
    """Returns a group of the same slot sharing group with a producer and room for the subtask.

    Prefers the producer with the same subtask index.
    """
    name = vertex.job_vertex.slot_sharing_group
    for gate in vertex.consumed:
        ordered = sorted(gate.partitions, key=lambda partition: partition.index != vertex.subtask_index)
        for partition in ordered:
            group = group_of[partition.producer.id]
            if group.slot_sharing_group == name and vertex.job_vertex.id not in group.members:
                return group
    return None


@dataclass(eq=False, slots=True)
class SharedSlot:
    """A slot that is assigned, or requested (`slot` is None), with its users."""

    request_id: int
    group: ExecutionSlotSharingGroup
    slot: PhysicalSlot | None = None
    users: set[ExecutionVertexID] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Released:
    """The consequence of the release of a shared slot: a request to cancel, or a slot to return, or nothing."""

    cancelled_requests: frozenset[int] = frozenset()
    returned_slots: tuple[AllocationID, ...] = ()


class SlotSharingExecutionSlotAllocator:
    """Invariant: a shared slot exists exactly as long as it has users."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._group_of: dict[ExecutionVertexID, ExecutionSlotSharingGroup] = {}
        self._shared: dict[ExecutionSlotSharingGroup, SharedSlot] = {}
        self._by_request: dict[int, SharedSlot] = {}
        self._next_request_id = 1
        self.add(graph.job_vertices.values())

    def add(self, job_vertices: Iterable[ExecutionJobVertex]) -> None:
        """Adds the subtasks of newly initialized vertices."""
        assign_slot_sharing(job_vertices, self._group_of)

    def group_of(self, vertex_id: ExecutionVertexID) -> ExecutionSlotSharingGroup:
        return self._group_of[vertex_id]

    def allocate(self, vertex_ids: Iterable[ExecutionVertexID]) -> list[SlotRequest]:
        """Registers the subtasks as users of their slots. Returns requests for the slots that do not exist yet."""
        requests: list[SlotRequest] = []
        for vertex_id in vertex_ids:
            group = self._group_of[vertex_id]
            shared = self._shared.get(group)
            if shared is None:
                shared = SharedSlot(self._next_request_id, group)
                self._next_request_id += 1
                self._shared[group] = shared
                self._by_request[shared.request_id] = shared
                requests.append(self._request(shared))
            shared.users.add(vertex_id)
        return requests

    def fulfilled(self, request_id: int, slot: PhysicalSlot) -> list[ExecutionVertexID]:
        """Handles a fulfilled request. Returns the users of the slot; empty if the request has been canceled."""
        shared = self._by_request.get(request_id)
        if shared is None:
            return []
        shared.slot = slot
        return _ordered(shared)

    def slot_of(self, vertex_id: ExecutionVertexID) -> PhysicalSlot | None:
        shared = self._shared.get(self._group_of[vertex_id])
        return shared.slot if shared is not None and vertex_id in shared.users else None

    def release(self, vertex_id: ExecutionVertexID) -> Released:
        """Removes the subtask from the users of its slot. Idempotent."""
        shared = self._shared.get(self._group_of[vertex_id])
        if shared is None or vertex_id not in shared.users:
            return Released()
        shared.users.discard(vertex_id)
        if shared.users:
            return Released()
        del self._shared[shared.group]
        del self._by_request[shared.request_id]
        if shared.slot is None:
            return Released(cancelled_requests=frozenset({shared.request_id}))
        return Released(returned_slots=(shared.slot.allocation_id,))

    def users_of_requests(self, request_ids: Iterable[int]) -> list[ExecutionVertexID]:
        found = (self._by_request.get(request_id) for request_id in request_ids)
        return [user for shared in found if shared is not None for user in _ordered(shared)]

    def users_of_slot(self, allocation_id: AllocationID) -> list[ExecutionVertexID]:
        for shared in self._shared.values():
            if shared.slot is not None and shared.slot.allocation_id == allocation_id:
                return _ordered(shared)
        return []

    def lose(self, allocation_id: AllocationID) -> list[ExecutionVertexID]:
        """Handles a lost slot. Returns its users, which the scheduler fails and so releases."""
        return self.users_of_slot(allocation_id)

    @property
    def allocations(self) -> frozenset[AllocationID]:
        """The allocation ids of the slots in use."""
        return frozenset(shared.slot.allocation_id for shared in self._shared.values() if shared.slot is not None)

    @property
    def waiting_requests(self) -> frozenset[int]:
        return frozenset(shared.request_id for shared in self._shared.values() if shared.slot is None)

    def validate(self) -> None:
        """Asserts all invariants."""
        assert {shared.request_id: shared for shared in self._shared.values()} == self._by_request
        for group, shared in self._shared.items():
            assert shared.users, f"the slot of {group} has no users"
            assert shared.users <= set(group.members.values())

    def _request(self, shared: SharedSlot) -> SlotRequest:
        for vertex_id in shared.group.members.values():
            last = self._graph.vertex(vertex_id).last_slot
            if last is not None:
                return SlotRequest(
                    shared.request_id,
                    last.allocation_id,
                    last.location.resource_id,
                    resources=shared.group.resources,
                )
        return SlotRequest(shared.request_id, resources=shared.group.resources)


def _ordered(shared: SharedSlot) -> list[ExecutionVertexID]:
    """Returns the users in topological order, so that the result does not depend on hashing."""
    return [vertex_id for vertex_id in shared.group.members.values() if vertex_id in shared.users]
