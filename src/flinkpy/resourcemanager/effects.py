"""What the pure machines of the ResourceManager ask their endpoint to do. Every outcome returns to them as an event.

Source: org.apache.flink.runtime.resourcemanager.slotmanager.{ResourceAllocator, ResourceEventListener}.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """Call TaskExecutor.RequestSlot; answer with `slot_request_acknowledged` or `slot_request_failed`."""

    instance_id: InstanceID
    slot_index: int
    job_id: JobID
    allocation_id: AllocationID
    resource_profile: str
    job_master_address: str
    job_master_id: JobMasterId


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Call TaskExecutor.FreeSlot: the slot is held for a job that is over. The next report tells the outcome."""

    instance_id: InstanceID
    allocation_id: AllocationID
    job_id: JobID
    reason: str


@dataclass(frozen=True, slots=True)
class RequestSlotReport:
    """Ask that TaskExecutor for its slots now (a heartbeat): what was believed of one of them is in doubt."""

    instance_id: InstanceID


@dataclass(frozen=True, slots=True)
class NotifyTaskExecutorLost:
    """Call JobMaster.DisconnectTaskManager of a job that held slots there."""

    job_id: JobID
    resource_id: ResourceID
    reason: str


@dataclass(frozen=True, slots=True)
class ScheduleRequirementsCheck:
    """Call `check_requirements` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class DeclareNeededWorkers:
    """So many workers, besides those registered, would meet every requirement within the configured bound."""

    num_workers: int


@dataclass(frozen=True, slots=True)
class ReleaseWorker:
    """Stop a registered worker that the driver started."""

    instance_id: InstanceID
    resource_id: ResourceID
    reason: str


@dataclass(frozen=True, slots=True)
class RenewTaskExecutor:
    """Call TaskExecutor.Renew, or replace it where the driver started it. What fails goes to `renewal_failed`; what
    succeeds shows as the loss of this instance and the registration of another."""

    instance_id: InstanceID


SlotManagerEffect = (
    RequestSlot
    | FreeSlot
    | RequestSlotReport
    | NotifyTaskExecutorLost
    | ScheduleRequirementsCheck
    | DeclareNeededWorkers
    | ReleaseWorker
    | RenewTaskExecutor
)
