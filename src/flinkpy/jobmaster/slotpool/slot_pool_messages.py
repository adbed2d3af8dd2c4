"""What the slot pool is told and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation

# Events


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """One slot, whichever, but rather this one or one of this TaskExecutor, and none of the excluded ones."""

    request_id: int
    preferred_allocation: AllocationID | None = None
    preferred_resource: ResourceID | None = None
    excluded_resources: frozenset[ResourceID] = frozenset()


@dataclass(frozen=True, slots=True)
class RequestSlots:
    requests: tuple[SlotRequest, ...]


@dataclass(frozen=True, slots=True)
class CancelSlotRequests:
    request_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ReturnSlot:
    """The user of a slot needs it no more."""

    allocation_id: AllocationID


@dataclass(frozen=True, slots=True)
class RegisterTaskManager:
    location: TaskManagerLocation


@dataclass(frozen=True, slots=True)
class ReleaseTaskManager:
    """The TaskExecutor is gone, and all its slots with it."""

    resource_id: ResourceID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class OfferSlots:
    """`offers`: allocation id and slot index of each slot."""

    resource_id: ResourceID
    offers: tuple[tuple[AllocationID, int], ...]


@dataclass(frozen=True, slots=True)
class FailSlot:
    resource_id: ResourceID
    allocation_id: AllocationID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class CheckTimeouts:
    """`are_slots_coming`: tasks run in slots of the job, which will be free for others when they finish."""

    are_slots_coming: bool = False


@dataclass(frozen=True, slots=True)
class CloseSlotPool:
    """Give everything back and take nothing more."""

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
    request_id: int
    slot: PhysicalSlot


@dataclass(frozen=True, slots=True)
class SlotRequestsTimedOut:
    """`num_required` slots were wanted in all, `num_available` were there."""

    request_ids: tuple[int, ...]
    num_required: int
    num_available: int


@dataclass(frozen=True, slots=True)
class SlotsAccepted:
    """Answer to OfferSlots; the other offers are refused."""

    allocation_ids: tuple[AllocationID, ...]


@dataclass(frozen=True, slots=True)
class RequirementsChanged:
    """The job wants this many slots in all."""

    num_slots: int


@dataclass(frozen=True, slots=True)
class FreeSlotAtTaskManager:
    slot: PhysicalSlot
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class SlotLost:
    """A slot in use does not exist any more."""

    slot: PhysicalSlot
    cause: FlinkError


SlotPoolEffect = (
    SlotRequestFulfilled | SlotRequestsTimedOut | SlotsAccepted | RequirementsChanged | FreeSlotAtTaskManager | SlotLost
)
