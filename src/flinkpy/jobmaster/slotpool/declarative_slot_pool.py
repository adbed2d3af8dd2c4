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
  * A slot serves only requests for the resources that it was requested with. (Flink lets a request without numbers use
    any slot, and then declares other requirements.)
  * A request fails after `slot.request.timeout`. A free slot is returned after `slot.idle.timeout`.
  * Requests of a batch job are served in order, the oldest first. They do not time out while slots of the job are in
    use. A region that needs several slots gets all of them before a later region gets any, so that two regions never
    wait for each other.

Invariant: no free slot fits a waiting request. Pure.

Source: org.apache.flink.runtime.jobmaster.slotpool.{DefaultDeclarativeSlotPool,DeclarativeSlotPoolBridge}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from flinkpy.common.errors import FlinkError, NotRegisteredError, SlotAllocationError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.common.resource_profile import ResourceCounter, ResourceProfile
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, SlotOffer, TaskManagerLocation


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A request for one slot.

    Attributes:
        preferred_allocation: the slot to use if it is free.
        preferred_resource: the TaskExecutor whose slots to use if one is free.
        excluded_resources: TaskExecutors whose slots must not be used.
        resources: what the slot must have been requested with; UNKNOWN: a default slot.
    """

    request_id: int
    preferred_allocation: AllocationID | None = None
    preferred_resource: ResourceID | None = None
    excluded_resources: frozenset[ResourceID] = frozenset()
    resources: ResourceProfile = ResourceProfile.UNKNOWN


@dataclass(frozen=True, slots=True)
class SlotRequestFulfilled:
    """The request has got a slot."""

    request_id: int
    slot: PhysicalSlot


@dataclass(frozen=True, slots=True)
class SlotRequestsTimedOut:
    """The requests have timed out.

    Attributes:
        num_required: the number of slots that the job needs in total.
        num_available: the number of slots that it has.
    """

    request_ids: tuple[int, ...]
    num_required: int
    num_available: int


@dataclass(frozen=True, slots=True)
class RequirementsChanged:
    """The slots that the job needs in total have changed."""

    requirements: ResourceCounter


@dataclass(frozen=True, slots=True)
class FreeSlotAtTaskManager:
    """Return the slot to its TaskExecutor."""

    slot: PhysicalSlot
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class SlotLost:
    """A slot in use is lost."""

    slot: PhysicalSlot
    cause: FlinkError


SlotPoolEffect = SlotRequestFulfilled | SlotRequestsTimedOut | RequirementsChanged | FreeSlotAtTaskManager | SlotLost


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
    """The slot pool of one job. Its methods return the effects for the scheduler, in order."""

    def __init__(self, options: SlotPoolOptions) -> None:
        self._options = options
        self._task_managers: dict[ResourceID, TaskManagerLocation] = {}
        #: Requests without a slot, oldest first.
        self._pending: dict[int, _PendingRequest] = {}
        #: Disjoint from `_reserved`.
        self._free: dict[AllocationID, _FreeSlot] = {}
        self._reserved: dict[AllocationID, PhysicalSlot] = {}
        self._declared = ResourceCounter()
        self._is_closed = False

    # Readings

    @property
    def num_required(self) -> int:
        """The total number of slots that the job needs: slots in use plus waiting requests."""
        return len(self._reserved) + len(self._pending)

    @property
    def requirements(self) -> ResourceCounter:
        """The slots that the job needs in total, by their resources."""
        needed = Counter(slot.resources for slot in self._reserved.values())
        needed.update(pending.request.resources for pending in self._pending.values())
        return ResourceCounter(needed)

    @property
    def num_slots(self) -> int:
        return len(self._reserved) + len(self._free)

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next call of `check_timeouts`. None if none is needed."""
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

    def requests_for(self, resources: ResourceProfile) -> list[int]:
        """Returns the waiting requests for slots of these resources, oldest first."""
        return [number for number, pending in self._pending.items() if pending.request.resources == resources]

    def validate(self) -> None:
        """Asserts all invariants."""
        assert not (self._free.keys() & self._reserved.keys())
        for pending in self._pending.values():
            fitting = [free for free in self._free.values() if _is_any(pending.request, free.slot)]
            assert not fitting, "a request waits although a slot is free"
        assert all(slot.location.resource_id in self._task_managers for slot in self._all_slots())
        assert self._declared == self.requirements
        assert self._declared.total == self.num_required
        if self._is_closed:
            assert not (self._pending or self._free or self._reserved)

    # Requests of the scheduler

    def request_slots(self, requests: Iterable[SlotRequest], now_ms: int) -> list[SlotPoolEffect]:
        """Adds requests for slots."""
        if self._is_closed:
            return []
        deadline_ms = now_ms + self._options.request_timeout_ms
        for request in requests:
            self._pending[request.request_id] = _PendingRequest(request, deadline_ms)
        return self._with_requirements(self._match(now_ms))

    def cancel_requests(self, request_ids: Iterable[int]) -> list[SlotPoolEffect]:
        """Drops requests for slots that are not needed any more."""
        for request_id in request_ids:
            self._pending.pop(request_id, None)
        return self._with_requirements([])

    def return_slot(self, allocation_id: AllocationID, now_ms: int) -> list[SlotPoolEffect]:
        """Frees a slot that is not in use any more. No effect if the slot is lost."""
        slot = self._reserved.pop(allocation_id, None)
        if slot is None:
            return []
        self._free[slot.allocation_id] = _FreeSlot(slot, now_ms)
        return self._with_requirements(self._match(now_ms))

    def check_timeouts(self, now_ms: int, *, are_slots_coming: bool = False) -> list[SlotPoolEffect]:
        """Removes requests that have timed out, and slots that are idle for too long.

        Args:
            are_slots_coming: True if tasks run in slots of the job, so that slots become free when they finish.
        """
        effects: list[SlotPoolEffect] = []
        if self._options.are_requests_in_turn and are_slots_coming:
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
        return self._with_requirements(effects)

    def close(self, cause: FlinkError) -> list[SlotPoolEffect]:
        """Returns all slots to their TaskExecutors. The pool accepts no requests and no slots any more."""
        self._is_closed = True
        self._pending.clear()
        effects: list[SlotPoolEffect] = [FreeSlotAtTaskManager(slot, cause) for slot in self._all_slots()]
        self._free.clear()
        self._reserved.clear()
        return self._with_requirements(effects)

    # Reports of TaskExecutors

    def register_task_manager(self, location: TaskManagerLocation) -> None:
        """Adds a TaskExecutor, which can offer slots from now on."""
        self._task_managers[location.resource_id] = location

    def release_task_manager(self, resource_id: ResourceID, cause: FlinkError) -> list[SlotPoolEffect]:
        """Removes a lost TaskExecutor with all its slots. No effect if it is unknown."""
        if self._task_managers.pop(resource_id, None) is None:
            return []
        effects: list[SlotPoolEffect] = []
        for allocation_id in self.allocations_of(resource_id):
            effects += self._lose(allocation_id, cause)
        return self._with_requirements(effects)

    def offer_slots(self, resource_id: ResourceID, offers: Iterable[SlotOffer], now_ms: int) -> list[SlotPoolEffect]:
        """Takes the offered slots that the job needs. `allocations_of` then contains the accepted ones.

        Args:
        Raises: NotRegisteredError if the TaskExecutor is not registered.
        """
        location = self._task_managers.get(resource_id)
        if location is None:
            raise NotRegisteredError(f"TaskExecutor {resource_id} offers slots but is not registered at this JobMaster")
        effects: list[SlotPoolEffect] = []
        for offer in offers:
            if self._slot(offer.allocation_id) is not None:
                continue  # a repeated offer, or a slot of another TaskExecutor
            slot = PhysicalSlot(offer.allocation_id, offer.slot_index, location, offer.resources)
            if any(_is_any(pending.request, slot) for pending in self._pending.values()):
                self._free[offer.allocation_id] = _FreeSlot(slot, now_ms)
                effects += self._match(now_ms)
        return self._with_requirements(effects)

    def fail_slot(
        self, resource_id: ResourceID, allocation_id: AllocationID, cause: FlinkError
    ) -> list[SlotPoolEffect]:
        """Removes a slot that its TaskExecutor has lost. No effect if the TaskExecutor does not hold that slot."""
        slot = self._slot(allocation_id)
        if slot is None or slot.location.resource_id != resource_id:
            return []
        return self._with_requirements(self._lose(allocation_id, cause))

    # Parts

    def _with_requirements(self, effects: list[SlotPoolEffect]) -> list[SlotPoolEffect]:
        """Adds RequirementsChanged to the effects if the required slots have changed."""
        requirements = self.requirements
        if requirements != self._declared:
            self._declared = requirements
            effects.append(RequirementsChanged(requirements))
        return effects

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
    return slot.resources == request.resources and slot.location.resource_id not in request.excluded_resources
