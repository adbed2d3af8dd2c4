"""A slot of a TaskExecutor, as the JobMaster sees it."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, ResourceID


@dataclass(frozen=True, slots=True)
class TaskManagerLocation:
    """Where a TaskExecutor is: its control address and its data address."""

    resource_id: ResourceID
    address: str
    data_address: str


@dataclass(frozen=True, slots=True)
class PhysicalSlot:
    """A slot this job has been given. `allocation_id` is unique to this allocation of it."""

    allocation_id: AllocationID
    slot_index: int
    location: TaskManagerLocation
