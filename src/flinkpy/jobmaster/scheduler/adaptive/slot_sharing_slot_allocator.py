"""SlotSharingSlotAllocator: holds the slots of an adaptive job, and divides them among its vertices.

It takes every slot that the job gets, up to the desired number, and keeps it whether tasks run in it or not. A
generation of subtasks gets its slots with `assign`. All slots are alike.

Vertices that a forward edge connects have the same parallelism, because such an edge connects subtasks one by one.

Pure: the scheduler passes requests to the slot pool and the answers back.

Source: org.apache.flink.runtime.scheduler.adaptive.allocator.{SlotSharingSlotAllocator,StateLocalitySlotAssigner}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, ExecutionVertexID, JobVertexID, ResourceID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.scheduler.adaptive.job_resource_requirements import JobResourceRequirements, ParallelismBounds
from flinkpy.jobmaster.scheduler.adaptive_parallelism import forward_group
from flinkpy.jobmaster.scheduler.slot_allocator import (
    ExecutionSlotSharingGroup,
    Released,
    SlotSharingExecutionSlotAllocator,
    assign_slot_sharing,
)
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotRequest
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot

VertexParallelism = dict[JobVertexID, int]


def joined_bounds(graph: ExecutionGraph, requirements: JobResourceRequirements) -> dict[JobVertexID, ParallelismBounds]:
    """Returns the bounds of each vertex that also hold for all vertices with the same parallelism."""
    joined = {}
    for vertex in graph.job_vertices.values():
        group = [requirements[other.id] for other in (vertex, *forward_group(vertex))]
        upper = min(bounds.upper for bounds in group)
        joined[vertex.id] = ParallelismBounds(min(upper, max(bounds.lower for bounds in group)), upper)
    return joined


def group_bounds(graph: ExecutionGraph, requirements: JobResourceRequirements) -> dict[str, ParallelismBounds]:
    """Returns the numbers of slots that each slot sharing group needs at least and can use at most."""
    found: dict[str, ParallelismBounds] = {}
    for vertex_id, bounds in joined_bounds(graph, requirements).items():
        name = graph.job_vertices[vertex_id].slot_sharing_group
        present = found.get(name, bounds)
        found[name] = ParallelismBounds(max(present.lower, bounds.lower), max(present.upper, bounds.upper))
    return found


def determine_parallelism(
    graph: ExecutionGraph, requirements: JobResourceRequirements, num_slots: int
) -> VertexParallelism | None:
    """Returns the highest parallelism of all vertices with these slots. None: the slots do not suffice."""
    groups = group_bounds(graph, requirements)
    num_optional = num_slots - sum(bounds.lower for bounds in groups.values())
    if num_optional < 0:
        return None
    slots_of: dict[str, int] = {}
    # Groups that can use few more slots first: what they leave is for the others.
    ordered = sorted(groups.items(), key=lambda item: item[1].upper - item[1].lower)
    for position, (name, bounds) in enumerate(ordered):
        share = num_optional // (len(ordered) - position)
        slots_of[name] = min(bounds.upper, bounds.lower + share)
        num_optional -= slots_of[name] - bounds.lower
    alone = {
        vertex_id: min(bounds.upper, slots_of[graph.job_vertices[vertex_id].slot_sharing_group])
        for vertex_id, bounds in joined_bounds(graph, requirements).items()
    }
    return {
        vertex.id: min(alone[other.id] for other in (vertex, *forward_group(vertex)))
        for vertex in graph.job_vertices.values()
    }


@dataclass(eq=False, slots=True)
class _HeldSlot:
    slot: PhysicalSlot
    users: set[ExecutionVertexID]


class SlotSharingSlotAllocator(SlotSharingExecutionSlotAllocator):
    """Invariant: a held slot has the users that run in it, perhaps none; a user runs in one held slot."""

    def __init__(self, graph: ExecutionGraph, *, prefers_minimal_task_managers: bool) -> None:
        self._prefers_minimal_task_managers = prefers_minimal_task_managers
        self._held: dict[AllocationID, _HeldSlot] = {}
        self._waiting: dict[int, None] = {}
        self._slot_of_user: dict[ExecutionVertexID, AllocationID] = {}
        self._has_new_slots = False
        super().__init__(graph)

    # The number of slots

    @property
    def num_held(self) -> int:
        return len(self._held)

    @property
    def num_in_use(self) -> int:
        return sum(1 for held in self._held.values() if held.users)

    def request(self, count: int) -> list[SlotRequest]:
        """Returns requests for `count` further slots."""
        requests = []
        for _ in range(count):
            requests.append(SlotRequest(self._next_request_id))
            self._waiting[self._next_request_id] = None
            self._next_request_id += 1
        return requests

    def withdraw(self, count: int) -> Released:
        """Gives up `count` slots: first those that are only requested, then held ones without users."""
        cancelled = list(self._waiting)[::-1][:count]
        for request_id in cancelled:
            del self._waiting[request_id]
        unused = [held.slot for held in self._by_preference() if not held.users]
        returned = [slot.allocation_id for slot in unused[::-1][: count - len(cancelled)]]
        for allocation_id in returned:
            del self._held[allocation_id]
        return Released(frozenset(cancelled), tuple(returned))

    def take_new_slots(self) -> bool:
        """Returns True once after slots have come."""
        has_new, self._has_new_slots = self._has_new_slots, False
        return has_new

    # A generation of subtasks

    def assign(self, job_vertices: Iterable[ExecutionJobVertex]) -> None:
        """Divides slots among all subtasks of these vertices. They must have none, and the held slots must suffice.

        Subtasks of other vertices keep their slots. Subtasks of the same slot sharing group may join them there.
        """
        group_of: dict[ExecutionVertexID, ExecutionSlotSharingGroup] = {}
        assign_slot_sharing(job_vertices, group_of)
        groups: dict[str, list[ExecutionSlotSharingGroup]] = {}
        for group in dict.fromkeys(group_of.values()):
            groups.setdefault(group.slot_sharing_group, []).append(group)
        for name, members in groups.items():
            held = self._by_preference([slot for group in members for slot in self._former_slots(group)])
            shared = [one.slot for one in held if self._is_used_by(name, one)]
            chosen = [*shared, *(one.slot for one in held if not one.users)][: len(members)]
            assert len(chosen) == len(members), f"{len(members)} slots are needed, {len(chosen)} are left"
            for group, slot in self._matched(members, chosen):
                self._held[slot.allocation_id].users.update(group.members.values())
                self._slot_of_user.update(dict.fromkeys(group.members.values(), slot.allocation_id))

    def _is_used_by(self, slot_sharing_group: str, held: _HeldSlot) -> bool:
        user = next(iter(held.users), None)
        return user is not None and (
            self._graph.job_vertices[user.job_vertex_id].slot_sharing_group == slot_sharing_group
        )

    def _by_preference(self, former: Iterable[PhysicalSlot] = ()) -> list[_HeldSlot]:
        """Returns the held slots, those to use first at the front.

        Args:
            former: slots to prefer, because state may still be there.
        """
        allocations = {slot.allocation_id for slot in former}
        held = sorted(self._held.values(), key=lambda one: one.slot.allocation_id not in allocations)
        if not self._prefers_minimal_task_managers:
            return held
        hosts = {slot.location.resource_id for slot in former}
        counts = Counter(one.slot.location.resource_id for one in held)

        def order(one: _HeldSlot) -> tuple[int, bool, ResourceID]:
            host = one.slot.location.resource_id
            return -counts[host], host not in hosts, host

        return sorted(held, key=order)

    def _matched(
        self, groups: list[ExecutionSlotSharingGroup], chosen: list[PhysicalSlot]
    ) -> list[tuple[ExecutionSlotSharingGroup, PhysicalSlot]]:
        """Gives each group the slot that its subtasks had before, if possible: their state may still be there."""
        former = {group: self._former_slots(group) for group in groups}
        left = {slot.allocation_id: slot for slot in chosen}
        matched: dict[ExecutionSlotSharingGroup, PhysicalSlot] = {}
        for group in groups:
            found = next((slot.allocation_id for slot in former[group] if slot.allocation_id in left), None)
            if found is not None:
                matched[group] = left.pop(found)
        for group in groups:
            if group in matched:
                continue
            hosts = {slot.location.resource_id for slot in former[group]}
            near = next((key for key, slot in left.items() if slot.location.resource_id in hosts), next(iter(left)))
            matched[group] = left.pop(near)
        return list(matched.items())

    def _former_slots(self, group: ExecutionSlotSharingGroup) -> list[PhysicalSlot]:
        last = [self._graph.vertex(vertex_id).last_slot for vertex_id in group.members.values()]
        return [slot for slot in last if slot is not None]

    # What the scheduler asks of an allocator

    def add(self, job_vertices: Iterable[ExecutionJobVertex]) -> None:
        """No effect: `assign` looks at the whole graph."""

    def allocate(self, vertex_ids: Iterable[ExecutionVertexID]) -> list[SlotRequest]:
        """Returns no requests: `assign` has given the subtasks their slots."""
        assert all(vertex_id in self._slot_of_user for vertex_id in vertex_ids)
        return []

    def fulfilled(self, request_id: int, slot: PhysicalSlot) -> list[ExecutionVertexID]:
        """Takes the slot. It has no users yet."""
        assert request_id in self._waiting
        del self._waiting[request_id]
        self._held[slot.allocation_id] = _HeldSlot(slot, set())
        self._has_new_slots = True
        return []

    def slot_of(self, vertex_id: ExecutionVertexID) -> PhysicalSlot | None:
        allocation_id = self._slot_of_user.get(vertex_id)
        return None if allocation_id is None else self._held[allocation_id].slot

    def release(self, vertex_id: ExecutionVertexID) -> Released:
        """Removes the subtask from the users of its slot, which stays held. Idempotent."""
        allocation_id = self._slot_of_user.pop(vertex_id, None)
        if allocation_id is not None and allocation_id in self._held:
            self._held[allocation_id].users.discard(vertex_id)
        return Released()

    def users_of_requests(self, request_ids: Iterable[int]) -> list[ExecutionVertexID]:
        return []

    def users_of_slot(self, allocation_id: AllocationID) -> list[ExecutionVertexID]:
        held = self._held.get(allocation_id)
        return [] if held is None else sorted(held.users, key=str)

    def lose(self, allocation_id: AllocationID) -> list[ExecutionVertexID]:
        users = self.users_of_slot(allocation_id)
        for user in users:
            self._slot_of_user.pop(user)
        self._held.pop(allocation_id, None)
        return users

    @property
    def allocations(self) -> frozenset[AllocationID]:
        return frozenset(self._held)

    @property
    def waiting_requests(self) -> frozenset[int]:
        return frozenset(self._waiting)

    def validate(self) -> None:
        """Asserts all invariants."""
        users = {user: key for key, held in self._held.items() for user in held.users}
        assert users == self._slot_of_user
        assert sum(len(held.users) for held in self._held.values()) == len(users)


def lacking(groups: Mapping[str, ParallelismBounds], num_slots: int) -> str:
    """Returns the words that say how many slots a job needs at least, for what, and how many are missing."""
    needed = sum(bounds.lower for bounds in groups.values())
    parts = ", ".join(f"{bounds.lower} for the slot sharing group {name!r}" for name, bounds in groups.items())
    return f"it needs at least {needed} slots ({parts}), has {num_slots}, and lacks {needed - num_slots}"
