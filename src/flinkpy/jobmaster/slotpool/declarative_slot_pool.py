"""DeclarativeSlotPool: the slots that a job has, and its requests for slots.

It declares the total number of slots that the job needs. The ResourceManager makes TaskExecutors offer them.

```
  offered --accepted--> FREE <--returned-- RESERVED (for one request)
                         |  \\__matched_______^
                         v idle too long, or pool closed
                   freed at the TaskExecutor
```

Rules:
  * An offer is accepted if a request waits for a slot. A repeated offer of a known slot is accepted again. All other
    offers are rejected, and the TaskExecutor frees the slot.
  * A request prefers the slot that it names, then a slot of the TaskExecutor that it names, then any other. So a
    restarted task returns to its former slot.
  * A request fails after `slot.request.timeout`. A free slot is returned after `slot.idle.timeout`.
  * Requests of a batch job are served in order, the oldest first. They do not time out while slots of the job are in
    use. A region that needs several slots gets all of them before a later region gets any, so that two regions never
    wait for each other.

Invariant: no free slot fits a waiting request. Pure.

Source: org.apache.flink.runtime.jobmaster.slotpool.{DefaultDeclarativeSlotPool,DeclarativeSlotPoolBridge}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import FlinkError, NotRegisteredError, SlotAllocationError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation
from flinkpy.jobmaster.slotpool.slot_pool_messages import (
    CancelSlotRequests,
    CheckTimeouts,
    CloseSlotPool,
    FailSlot,
    FreeSlotAtTaskManager,
    OfferSlots,
    RegisterTaskManager,
    ReleaseTaskManager,
    RequestSlots,
    RequirementsChanged,
    ReturnSlot,
    SlotLost,
    SlotPoolEffect,
    SlotPoolEvent,
    SlotRequest,
    SlotRequestFulfilled,
    SlotRequestsTimedOut,
    SlotsAccepted,
)


@dataclass(frozen=True, slots=True)
class SlotPoolOptions:
    """The options `slot.request.timeout` and `slot.idle.timeout`.

    Attributes:
        are_requests_in_turn: True to serve requests in order, as for a batch job.
    """

    request_timeout_ms: int = 300_000
    idle_timeout_ms: int = 50_000
    are_requests_in_turn: bool = False


@dataclass(slots=True)
class _PendingRequest:
    request: SlotRequest
    deadline_ms: int


@dataclass(slots=True)
class _FreeSlot:
    slot: PhysicalSlot
    since_ms: int


class DeclarativeSlotPool:
    """The slot pool of one job. `handle(event, now_ms)` returns the effects, in order."""

    def __init__(self, options: SlotPoolOptions) -> None:
        self._options = options
        self._task_managers: dict[ResourceID, TaskManagerLocation] = {}
        #: Requests without a slot, oldest first.
        self._pending: dict[int, _PendingRequest] = {}
        #: Disjoint from `_reserved`.
        self._free: dict[AllocationID, _FreeSlot] = {}
        self._reserved: dict[AllocationID, PhysicalSlot] = {}
        self._declared = 0
        self._is_closed = False
        self._handlers: dict[type, Callable[[Any, int], list[SlotPoolEffect]]] = {
            RequestSlots: self._on_request_slots,
            CancelSlotRequests: self._on_cancel_slot_requests,
            ReturnSlot: self._on_return_slot,
            RegisterTaskManager: self._on_register_task_manager,
            ReleaseTaskManager: self._on_release_task_manager,
            OfferSlots: self._on_offer_slots,
            FailSlot: self._on_fail_slot,
            CheckTimeouts: self._on_check_timeouts,
            CloseSlotPool: self._on_close,
        }

    def handle(self, event: SlotPoolEvent, now_ms: int) -> list[SlotPoolEffect]:
        effects = self._handlers[type(event)](event, now_ms)
        if self.num_required != self._declared:
            self._declared = self.num_required
            effects.append(RequirementsChanged(self._declared))
        return effects

    # Readings

    @property
    def num_required(self) -> int:
        """The total number of slots that the job needs: slots in use plus waiting requests."""
        return len(self._reserved) + len(self._pending)

    @property
    def num_slots(self) -> int:
        return len(self._reserved) + len(self._free)

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next `CheckTimeouts` event. None if none is needed."""
        deadlines = [pending.deadline_ms for pending in self._pending.values()]
        deadlines += [free.since_ms + self._options.idle_timeout_ms for free in self._free.values()]
        return min(deadlines, default=None)

    def location(self, resource_id: ResourceID) -> TaskManagerLocation | None:
        return self._task_managers.get(resource_id)

    @property
    def task_managers(self) -> list[TaskManagerLocation]:
        return list(self._task_managers.values())

    def allocations_of(self, resource_id: ResourceID) -> list[AllocationID]:
        """Returns the slots of one TaskExecutor."""
        return [slot.allocation_id for slot in self._all_slots() if slot.location.resource_id == resource_id]

    @property
    def reserved_allocations(self) -> frozenset[AllocationID]:
        return frozenset(self._reserved)

    @property
    def waiting_requests(self) -> frozenset[int]:
        return frozenset(self._pending)

    def validate(self) -> None:
        """Asserts all invariants."""
        assert not (self._free.keys() & self._reserved.keys())
        for pending in self._pending.values():
            fitting = [free for free in self._free.values() if _is_any(pending.request, free.slot)]
            assert not fitting, "a request waits although a slot is free"
        assert all(slot.location.resource_id in self._task_managers for slot in self._all_slots())
        assert self._declared == self.num_required
        if self._is_closed:
            assert not (self._pending or self._free or self._reserved)

    # Handlers

    def _on_request_slots(self, event: RequestSlots, now_ms: int) -> list[SlotPoolEffect]:
        if self._is_closed:
            return []
        deadline_ms = now_ms + self._options.request_timeout_ms
        for request in event.requests:
            self._pending[request.request_id] = _PendingRequest(request, deadline_ms)
        return self._match(now_ms)

    def _on_cancel_slot_requests(self, event: CancelSlotRequests, now_ms: int) -> list[SlotPoolEffect]:
        for request_id in event.request_ids:
            self._pending.pop(request_id, None)
        return []

    def _on_return_slot(self, event: ReturnSlot, now_ms: int) -> list[SlotPoolEffect]:
        slot = self._reserved.pop(event.allocation_id, None)
        if slot is None:  # lost in the meantime
            return []
        self._free[slot.allocation_id] = _FreeSlot(slot, now_ms)
        return self._match(now_ms)

    def _on_register_task_manager(self, event: RegisterTaskManager, now_ms: int) -> list[SlotPoolEffect]:
        self._task_managers[event.location.resource_id] = event.location
        return []

    def _on_release_task_manager(self, event: ReleaseTaskManager, now_ms: int) -> list[SlotPoolEffect]:
        if self._task_managers.pop(event.resource_id, None) is None:
            return []
        effects: list[SlotPoolEffect] = []
        for allocation_id in self.allocations_of(event.resource_id):
            effects += self._lose(allocation_id, event.cause)
        return effects

    def _on_offer_slots(self, event: OfferSlots, now_ms: int) -> list[SlotPoolEffect]:
        location = self._task_managers.get(event.resource_id)
        if location is None:
            raise NotRegisteredError(
                f"TaskExecutor {event.resource_id} offers slots but is not registered at this JobMaster"
            )
        accepted: list[AllocationID] = []
        effects: list[SlotPoolEffect] = []
        for allocation_id, slot_index in event.offers:
            known = self._slot(allocation_id)
            if known is not None:
                if known.location.resource_id == event.resource_id:
                    accepted.append(allocation_id)
                continue
            slot = PhysicalSlot(allocation_id, slot_index, location)
            if any(_is_any(pending.request, slot) for pending in self._pending.values()):
                self._free[allocation_id] = _FreeSlot(slot, now_ms)
                effects += self._match(now_ms)
                accepted.append(allocation_id)
        return [SlotsAccepted(tuple(accepted)), *effects]

    def _on_fail_slot(self, event: FailSlot, now_ms: int) -> list[SlotPoolEffect]:
        slot = self._slot(event.allocation_id)
        if slot is None or slot.location.resource_id != event.resource_id:  # unknown, or lost already
            return []
        return self._lose(event.allocation_id, event.cause)

    def _on_check_timeouts(self, event: CheckTimeouts, now_ms: int) -> list[SlotPoolEffect]:
        effects: list[SlotPoolEffect] = []
        if self._options.are_requests_in_turn and event.are_slots_coming:
            for pending in self._pending.values():
                if pending.deadline_ms <= now_ms:
                    pending.deadline_ms = now_ms + self._options.request_timeout_ms
        timed_out = tuple(request_id for request_id, pending in self._pending.items() if pending.deadline_ms <= now_ms)
        if timed_out:
            effects.append(SlotRequestsTimedOut(timed_out, self.num_required, self.num_slots))
            for request_id in timed_out:
                del self._pending[request_id]
        for free in list(self._free.values()):
            if now_ms - free.since_ms >= self._options.idle_timeout_ms:
                del self._free[free.slot.allocation_id]
                cause = SlotAllocationError(
                    f"the slot was idle for {self._options.idle_timeout_ms} ms (slot.idle.timeout)"
                )
                effects.append(FreeSlotAtTaskManager(free.slot, cause))
        return effects

    def _on_close(self, event: CloseSlotPool, now_ms: int) -> list[SlotPoolEffect]:
        self._is_closed = True
        self._pending.clear()
        effects: list[SlotPoolEffect] = [FreeSlotAtTaskManager(slot, event.cause) for slot in self._all_slots()]
        self._free.clear()
        self._reserved.clear()
        return effects

    # Parts

    def _match(self, now_ms: int) -> list[SlotPoolEffect]:
        """Assigns free slots to waiting requests, best fit first."""
        effects: list[SlotPoolEffect] = []
        for fits in (_is_same_allocation, _is_same_resource, _is_any):
            if not self._free:
                break
            waiting = [
                (request_id, pending)
                for request_id, pending in self._pending.items()
                if any(_is_any(pending.request, free.slot) for free in self._free.values())
            ]
            if self._options.are_requests_in_turn:
                waiting = waiting[: len(self._free)]
            for request_id, pending in waiting:
                fitting = (
                    free.slot
                    for free in self._free.values()
                    if fits(pending.request, free.slot) and _is_any(pending.request, free.slot)
                )
                slot = next(fitting, None)
                if slot is not None:
                    del self._free[slot.allocation_id]
                    del self._pending[request_id]
                    self._reserved[slot.allocation_id] = slot
                    effects.append(SlotRequestFulfilled(request_id, slot))
        return effects

    def _lose(self, allocation_id: AllocationID, cause: FlinkError) -> list[SlotPoolEffect]:
        if self._free.pop(allocation_id, None) is not None:
            return []
        slot = self._reserved.pop(allocation_id)
        return [SlotLost(slot, cause)]

    def _slot(self, allocation_id: AllocationID) -> PhysicalSlot | None:
        free = self._free.get(allocation_id)
        return free.slot if free is not None else self._reserved.get(allocation_id)

    def _all_slots(self) -> list[PhysicalSlot]:
        return [*self._reserved.values(), *(free.slot for free in self._free.values())]


def _is_same_allocation(request: SlotRequest, slot: PhysicalSlot) -> bool:
    return request.preferred_allocation == slot.allocation_id


def _is_same_resource(request: SlotRequest, slot: PhysicalSlot) -> bool:
    return request.preferred_resource == slot.location.resource_id


def _is_any(request: SlotRequest, slot: PhysicalSlot) -> bool:
    return slot.location.resource_id not in request.excluded_resources
