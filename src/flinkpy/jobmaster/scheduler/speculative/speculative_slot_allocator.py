"""SpeculativeSlotAllocator: beside the slots of the subtasks, one for each further attempt at one of them.

What becomes of these slots is told in `fulfilled_attempts` and `lost_attempts`, which the scheduler empties.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ExecutionVertexID, ResourceID
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.scheduler.slot_allocator import Released, SlotSharingExecutionSlotAllocator
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot
from flinkpy.jobmaster.slotpool.slot_pool_messages import SlotRequest


@dataclass(eq=False, slots=True)
class _AttemptSlot:
    request_id: int
    execution: Execution
    slot: PhysicalSlot | None = None


class SpeculativeSlotAllocator(SlotSharingExecutionSlotAllocator):
    """Invariant: an attempt has an entry exactly as long as it needs its slot."""

    def __init__(self, graph: ExecutionGraph) -> None:
        super().__init__(graph)
        #: Of attempts beside the current one of each subtask.
        self._attempts: dict[ExecutionAttemptID, _AttemptSlot] = {}
        self.fulfilled_attempts: list[Execution] = []
        self.lost_attempts: list[Execution] = []

    def allocate_attempt(self, execution: Execution, excluded: frozenset[ResourceID]) -> SlotRequest:
        request_id = self._next_request_id
        self._next_request_id += 1
        self._attempts[execution.attempt_id] = _AttemptSlot(request_id, execution)
        return SlotRequest(request_id, excluded_resources=excluded)

    def slot_of_attempt(self, execution: Execution) -> PhysicalSlot | None:
        return self._attempts[execution.attempt_id].slot

    def release_attempt(self, execution: Execution) -> Released:
        """Idempotent."""
        entry = self._attempts.pop(execution.attempt_id, None)
        if entry is None:
            return Released()
        if entry.slot is None:
            return Released(cancelled_requests=frozenset({entry.request_id}))
        return Released(returned_slots=(entry.slot.allocation_id,))

    def swap(self, vertex_id: ExecutionVertexID, winner: Execution, loser: Execution) -> None:
        """The slot of `winner` is the subtask's from now on, and the subtask's is that of `loser`."""
        entry = self._attempts.pop(winner.attempt_id)
        shared = self._shared[self._group_of[vertex_id]]
        shared.slot, entry.slot = entry.slot, shared.slot
        entry.execution = loser
        self._attempts[loser.attempt_id] = entry

    def is_alone(self, vertex_id: ExecutionVertexID) -> bool:
        """The subtask shares its slot with nobody."""
        return len(self._group_of[vertex_id].members) == 1

    def fulfilled(self, request_id: int, slot: PhysicalSlot) -> list[ExecutionVertexID]:
        entry = self._entry_of_request(request_id)
        if entry is None:
            return super().fulfilled(request_id, slot)
        entry.slot = slot
        self.fulfilled_attempts.append(entry.execution)
        return []

    def users_of_requests(self, request_ids: Iterable[int]) -> list[ExecutionVertexID]:
        ids = list(request_ids)
        for entry in list(self._attempts.values()):
            if entry.slot is None and entry.request_id in ids:
                self._lose(entry)
        return super().users_of_requests(ids)

    def users_of_slot(self, allocation_id: AllocationID) -> list[ExecutionVertexID]:
        for entry in list(self._attempts.values()):
            if entry.slot is not None and entry.slot.allocation_id == allocation_id:
                self._lose(entry)
        return super().users_of_slot(allocation_id)

    @property
    def allocations(self) -> frozenset[AllocationID]:
        own = (entry.slot.allocation_id for entry in self._attempts.values() if entry.slot is not None)
        return super().allocations | frozenset(own)

    @property
    def waiting_requests(self) -> frozenset[int]:
        own = (entry.request_id for entry in self._attempts.values() if entry.slot is None)
        return super().waiting_requests | frozenset(own)

    def _lose(self, entry: _AttemptSlot) -> None:
        del self._attempts[entry.execution.attempt_id]
        self.lost_attempts.append(entry.execution)

    def _entry_of_request(self, request_id: int) -> _AttemptSlot | None:
        waiting = (entry for entry in self._attempts.values() if entry.slot is None)
        return next((entry for entry in waiting if entry.request_id == request_id), None)
