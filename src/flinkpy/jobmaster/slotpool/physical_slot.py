"""The slots and the locations of TaskExecutors, as a JobMaster knows them."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.common.resource_profile import ResourceProfile


@dataclass(frozen=True, slots=True)
class TaskManagerLocation:
    """The addresses of a TaskExecutor. `address` is for RPC calls, `data_address` for data connections."""

    resource_id: ResourceID
    address: str
    data_address: str


@dataclass(frozen=True, slots=True)
class SlotOffer:
    """A slot that a TaskExecutor offers. `resources` are those that the slot was requested with."""

    allocation_id: AllocationID
    slot_index: int
    resources: ResourceProfile = ResourceProfile.UNKNOWN


@dataclass(frozen=True, slots=True)
class PhysicalSlot:
    """A slot that is allocated to this job. `allocation_id` is unique for each allocation of the slot."""

    allocation_id: AllocationID
    slot_index: int
    location: TaskManagerLocation
    #: The resources that the slot was requested with; UNKNOWN: it is a default slot.
    resources: ResourceProfile = ResourceProfile.UNKNOWN
