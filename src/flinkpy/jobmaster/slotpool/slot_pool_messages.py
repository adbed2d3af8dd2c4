"""The events and effects of the slot pool."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation

# Events


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A request for one slot.

    Attributes:
        preferred_allocation: the slot to use if it is free.
        preferred_resource: the TaskExecutor whose slots to use if one is free.
        excluded_resources: TaskExecutors whose slots must not be used.
    """

    request_id: int
    preferred_allocation: AllocationID | None = None
    preferred_resource: ResourceID | None = None
    excluded_resources: frozenset[ResourceID] = frozenset()


@dataclass(frozen=True, slots=True)
class RequestSlots:
    """The job needs more slots."""

    requests: tuple[SlotRequest, ...]


@dataclass(frozen=True, slots=True)
class CancelSlotRequests:
    """The job does not need the requested slots any more."""

    request_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ReturnSlot:
    """The job does not use the slot any more."""

    allocation_id: AllocationID


@dataclass(frozen=True, slots=True)
class RegisterTaskManager:
    """A TaskExecutor has registered."""

    location: TaskManagerLocation


@dataclass(frozen=True, slots=True)
class ReleaseTaskManager:
    """A TaskExecutor is lost, with all its slots."""

    resource_id: ResourceID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class OfferSlots:
    """A TaskExecutor offers slots. `offers`: allocation id and slot index of each."""

    resource_id: ResourceID
    offers: tuple[tuple[AllocationID, int], ...]


@dataclass(frozen=True, slots=True)
class FailSlot:
    """A TaskExecutor has lost a slot."""

    resource_id: ResourceID
    allocation_id: AllocationID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class CheckTimeouts:
    """Check for requests that have timed out and for idle slots.

    Attributes:
        are_slots_coming: True if tasks run in slots of the job, so that slots become free when they finish.
    """

    are_slots_coming: bool = False


@dataclass(frozen=True, slots=True)
class CloseSlotPool:
    """Return all slots and accept no new ones."""

    cause: FlinkError


SlotPoolEvent = (
    RequestSlots
    | CancelSlotRequests
    | ReturnSlot
    | RegisterTaskManager
    | ReleaseTaskManager
    | OfferSlots
    | FailSlot
    | CheckTimeouts
    | CloseSlotPool
)

# Effects


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
class SlotsAccepted:
    """The answer to OfferSlots. All other offers are rejected."""

    allocation_ids: tuple[AllocationID, ...]


@dataclass(frozen=True, slots=True)
class RequirementsChanged:
    """The total number of slots that the job needs has changed."""

    num_slots: int


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


SlotPoolEffect = (
    SlotRequestFulfilled | SlotRequestsTimedOut | SlotsAccepted | RequirementsChanged | FreeSlotAtTaskManager | SlotLost
)
