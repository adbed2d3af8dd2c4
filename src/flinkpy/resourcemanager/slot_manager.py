"""SlotManager: assigns the free slots of registered TaskExecutors to the jobs that declared a requirement.

```
  JobMaster                SlotManager                       TaskExecutor
     | declare_requirements    |                                   |
     |------------------------>| check: a FREE slot -> PENDING      |
     |                         |----------- RequestSlot ---------->| reserves it, offers it to the JobMaster
     |                         |<---- acknowledged: ALLOCATED -----|
     |                         |<---- refused, no answer: UNKNOWN -| requests a report, tries another slot
     |                         |<---- slot available: FREE --------| the JobMaster released it
     |                         |<---- slot report (heartbeat) -----| corrects wrong beliefs
```

Rules:
* A job never gets more slots than it declared. Every slot that is PENDING or ALLOCATED for the job counts.
* A slot report overrides what the SlotManager believes, with one exception: a PENDING slot that is reported free stays
  PENDING, because the report may be older than the request. A wrong belief costs at most one refused request; the next
  report corrects it.
* A slot held for a terminated job is freed. A slot held for an unknown job is kept for `unknown_job_timeout_ms`,
  because a ResourceManager that has just started does not know the running jobs yet. It is freed if no JobMaster of
  that job registers in this time.
* When a new JobMaster declares the job's requirements, slots requested for the former JobMaster are freed, except those
  that the new one names because it continues their tasks. Otherwise their TaskExecutors would offer them to the former
  JobMaster until the offer times out. A registration alone does not free them: it may be a late message of a dead
  JobMaster.
* Messages of a former registration (another InstanceID) change nothing.
* A requirement with numbers (a ResourceProfile) gets a dynamic slot: exactly these resources are cut from what a
  TaskExecutor has left. A requirement without numbers gets a default slot.
* A requirement that neither a registered TaskExecutor nor a new worker could ever meet, and one that the maximum of the
  cluster's resources forbids, is reported to its JobMaster.
* A TaskExecutor process serves one Python environment in its life: that of the first slot requested there. A job
  whose functions need other Python packages therefore gets processes that have loaded no others
  (docs/decisions/0013). If no suitable process has a free slot, idle processes are told to restart.
* After each check the SlotManager declares how many workers are needed for the requirements that are left, within
  the configured maximum of slots, CPU cores and memory.

Pure: no clock, no I/O; every method returns the effects to run. Source:
org.apache.flink.runtime.resourcemanager.slotmanager.{FineGrainedSlotManager, DefaultSlotStatusSyncer,
DefaultResourceTracker, ResourceAllocator}.
Differs: the first declaration is checked at once, later ones at most every `requirements_check_delay_ms`. Flink waits
for that delay each time, which makes the start of a job slower.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID
from flinkpy.common.resource_profile import ResourceProfile, format_amount, format_amounts
from flinkpy.resourcemanager.resource_limits import ResourceLimits, WorkerPlan
from flinkpy.resourcemanager.task_executor_tracker import (
    DYNAMIC_SLOT_INDEX,
    SlotState,
    SlotStatus,
    TaskExecutorDescription,
    TaskExecutorInfo,
    TaskExecutorTracker,
    TaskManagerSlot,
)

#: Terminated jobs are remembered so that late reports of their slots are understood. Older ones become unknown jobs.
MAX_REMEMBERED_TERMINATED_JOBS = 4096
#: Pause before a process that could not restart is asked again.
RENEWAL_RETRY_MS = 1_000


@dataclass(frozen=True, slots=True)
class SlotManagerOptions:
    """`slotmanager.*`, `resourcemanager.taskmanager-timeout`, `taskmanager.load-balance.mode`."""

    slots_per_worker: int = 1
    min_slots: int = 0
    max_slots: int = 2_147_483_647
    redundant_workers: int = 0
    requirements_check_delay_ms: int = 50
    task_manager_timeout_ms: int = 30_000
    unknown_job_timeout_ms: int = 300_000
    spread_out: bool = False
    #: The resources of a worker that the driver starts, and of one of its default slots.
    worker_total: ResourceProfile = ResourceProfile.ANY
    worker_slot: ResourceProfile = ResourceProfile.ANY
    #: True if workers are started as needed.
    has_driver: bool = True
    limits: ResourceLimits = field(default_factory=ResourceLimits)


# --- effects: what the endpoint runs; every outcome returns as a call -----------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """Call TaskExecutor.RequestSlot, then `slot_request_acknowledged` or `slot_request_failed`."""

    instance_id: InstanceID
    slot_index: int
    job_id: JobID
    allocation_id: AllocationID
    environment_profile: str
    job_master_address: str
    job_master_id: JobMasterId
    #: UNKNOWN: a default slot. Otherwise the index is DYNAMIC_SLOT_INDEX.
    resources: ResourceProfile = ResourceProfile.UNKNOWN


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Call TaskExecutor.FreeSlot. If the call fails, the next slot report shows the slot and it is freed again."""

    instance_id: InstanceID
    allocation_id: AllocationID
    job_id: JobID
    reason: str


@dataclass(frozen=True, slots=True)
class RequestSlotReport:
    """Request a slot report now (by a heartbeat), because the state of a slot is in doubt."""

    instance_id: InstanceID


@dataclass(frozen=True, slots=True)
class NotifyTaskExecutorLost:
    """Call JobMaster.DisconnectTaskManager of a job that held slots on a lost TaskExecutor."""

    job_id: JobID
    resource_id: ResourceID
    reason: str


@dataclass(frozen=True, slots=True)
class NotifyNotEnoughResources:
    """Call JobMaster.NotifyNotEnoughResources: slots of these resources cannot be had, for this reason."""

    job_id: JobID
    resources: ResourceProfile
    reason: str


@dataclass(frozen=True, slots=True)
class ScheduleRequirementsCheck:
    """Call `check_requirements` after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class DeclareNeededWorkers:
    """Declare how many workers are needed in addition to those that are registered."""

    num_workers: int


@dataclass(frozen=True, slots=True)
class ReleaseWorker:
    """Stop a registered worker that the driver started."""

    instance_id: InstanceID
    resource_id: ResourceID
    reason: str


@dataclass(frozen=True, slots=True)
class RenewTaskExecutor:
    """Call TaskExecutor.Renew, and `renewal_failed` if that fails.

    Success shows as the loss of this instance and the registration of a new one.
    """

    instance_id: InstanceID


SlotManagerEffect = (
    RequestSlot
    | FreeSlot
    | RequestSlotReport
    | NotifyTaskExecutorLost
    | NotifyNotEnoughResources
    | ScheduleRequirementsCheck
    | DeclareNeededWorkers
    | ReleaseWorker
    | RenewTaskExecutor
)

Effects = list[SlotManagerEffect]


# --- requirements -------------------------------------------------------------------------------------------------


class SlotKind(NamedTuple):
    """The environment and the resources that a slot is requested for."""

    environment_profile: str = ""
    resources: ResourceProfile = ResourceProfile.UNKNOWN


@dataclass(frozen=True, slots=True)
class ResourceRequirement:
    """A number of slots with these resources in processes of this Python environment ("" is that of plain jobs)."""

    num_slots: int
    environment_profile: str = ""
    resources: ResourceProfile = ResourceProfile.UNKNOWN

    @property
    def kind(self) -> SlotKind:
        return SlotKind(self.environment_profile, self.resources)


@dataclass(slots=True)
class JobRequirements:
    """The slots that a job declared. `is_suspended` is set while its JobMaster is out of contact."""

    job_id: JobID
    job_master_id: JobMasterId
    job_master_address: str
    requirements: tuple[ResourceRequirement, ...]
    sequence_number: int
    is_suspended: bool = False
    #: TaskExecutors on which the job wants no more slots.
    blocked: frozenset[ResourceID] = frozenset()
    #: The maximum number of slots to start workers for; the rest waits for slots to become free. 0: no maximum.
    num_at_once: int = 0
    #: Slots of former JobMasters that this one goes on using.
    adopted: frozenset[AllocationID] = frozenset()

    @property
    def num_slots(self) -> int:
        return sum(requirement.num_slots for requirement in self.requirements)

    def missing_slots(self, held_slots: Iterable[SlotKind]) -> list[SlotKind]:
        """Returns the kind of each missing slot, given the kinds of the slots the job holds.

        A slot of a kind that is not required any more counts against the total, so that a job never gets more slots
        than it declared.
        """
        held = Counter(held_slots)
        total_missing = self.num_slots - sum(held.values())
        missing: list[SlotKind] = []
        for requirement in self.requirements:
            lacking = requirement.num_slots - held[requirement.kind]
            missing.extend([requirement.kind] * max(0, lacking))
        return missing[: max(0, total_missing)]


class ResourceTracker:
    """The requirements of all jobs. Jobs are served in the order of their first declarations.

    A declaration replaces earlier ones by its sequence number, so a duplicate or late message changes nothing.
    """

    def __init__(self) -> None:
        self._jobs: dict[JobID, JobRequirements] = {}

    def declare(self, declared: JobRequirements) -> bool:
        """Stores a declaration. Returns False if it is older than the known one, which then stays."""
        known = self._jobs.get(declared.job_id)
        if (
            known is not None
            and known.job_master_id == declared.job_master_id
            and declared.sequence_number <= known.sequence_number
        ):
            return False
        self._jobs[declared.job_id] = declared
        return True

    def find(self, job_id: JobID) -> JobRequirements | None:
        return self._jobs.get(job_id)

    def clear(self, job_id: JobID) -> bool:
        """Removes the job's requirements. Returns False if there were none."""
        return self._jobs.pop(job_id, None) is not None

    def suspend(self, job_id: JobID) -> None:
        known = self._jobs.get(job_id)
        if known is not None:
            known.is_suspended = True

    def resume(self, job_id: JobID) -> None:
        known = self._jobs.get(job_id)
        if known is not None:
            known.is_suspended = False

    def active(self) -> Iterator[JobRequirements]:
        return (job for job in list(self._jobs.values()) if not job.is_suspended)


#: A slot that can be requested, and its TaskExecutor.
FreeSlotOf = tuple[TaskExecutorInfo, TaskManagerSlot]


class SlotManager:
    def __init__(self, options: SlotManagerOptions, new_allocation_id: Callable[[], AllocationID]) -> None:
        self._options = options
        self._new_allocation_id = new_allocation_id
        self.task_executors = TaskExecutorTracker()
        self.requirements = ResourceTracker()
        #: False while TaskExecutors may still be about to register, without a driver that could start others.
        self._may_refuse = options.has_driver
        self._is_check_scheduled = False
        self._last_check_ms: int | None = None
        self._terminated_jobs: OrderedDict[JobID, None] = OrderedDict()
        #: jobs whose JobMaster has registered and that have not terminated
        self._known_jobs: set[JobID] = set()
        #: jobs that hold slots but whose JobMaster has not registered, with the time of the first report
        self._unknown_jobs: dict[JobID, int] = {}

    # --- jobs -------------------------------------------------------------------------------------------------------

    def job_master_connected(self, job_id: JobID, job_master_id: JobMasterId, now_ms: int) -> Effects:
        """Handles a registration of the job's JobMaster. Drops the requirements that a former leader declared."""
        self._known_jobs.add(job_id)
        self._unknown_jobs.pop(job_id, None)
        self._terminated_jobs.pop(job_id, None)
        declared = self.requirements.find(job_id)
        if declared is not None and declared.job_master_id != job_master_id:
            self.requirements.clear(job_id)
        self.requirements.resume(job_id)
        return self._request_check(now_ms)

    def declare_requirements(self, declared: JobRequirements, now_ms: int) -> Effects:
        """Replaces the job's requirements.

        Ignores a declaration that is older than the known one, and one whose JobMaster is not registered: slots for it
        would be allocated and freed again without end.
        """
        if declared.job_id not in self._known_jobs or not self.requirements.declare(declared):
            return []
        effects: Effects = []
        for info, slot in self.task_executors.slots_of_job(declared.job_id):
            if slot.allocation_id in declared.adopted:
                slot.job_master_id = declared.job_master_id
            if slot.state is SlotState.ALLOCATED:  # a PENDING slot is freed when its request is acknowledged
                effects += self._free_if_useless(info, slot)
        return effects + self._request_check(now_ms)

    def suspend_job(self, job_id: JobID) -> Effects:
        """Allocates no more slots to the job until its JobMaster registers again."""
        self.requirements.suspend(job_id)
        return []

    def job_terminated(self, job_id: JobID, now_ms: int) -> Effects:
        """Drops the requirements of a terminated job and frees the slots it still holds."""
        self.requirements.clear(job_id)
        self._known_jobs.discard(job_id)
        self._unknown_jobs.pop(job_id, None)
        self._terminated_jobs[job_id] = None
        while len(self._terminated_jobs) > MAX_REMEMBERED_TERMINATED_JOBS:
            self._terminated_jobs.popitem(last=False)
        effects: Effects = []
        for info, slot in self.task_executors.slots_of_job(job_id):
            effects.append(_free_slot(info, slot, "the job has terminated"))
        return effects + self._request_check(now_ms)

    # --- TaskExecutors ----------------------------------------------------------------------------------------------

    def can_register(self, description: TaskExecutorDescription) -> bool:
        """False if the cluster would exceed `slotmanager.number-of-slots.max` with this TaskExecutor."""
        replaced = self.task_executors.find_by_resource(description.resource_id)
        present = self.task_executors.num_slots - (0 if replaced is None else len(replaced.slots))
        return present + description.num_slots <= self._options.max_slots

    def limit_exceeded_by(self, description: TaskExecutorDescription) -> str | None:
        """Returns the maximum of the cluster's resources that a TaskExecutor would exceed, as text; None if none."""
        replaced = self.task_executors.find_by_resource(description.resource_id)
        total = description.total
        for info in self.task_executors:
            total = total if info is replaced else total.merge(info.description.total)
        return self._options.limits.exceeded_by(total)

    def register_task_executor(
        self, instance_id: InstanceID, description: TaskExecutorDescription, now_ms: int
    ) -> Effects:
        """Registers a TaskExecutor. Its slots are used from its first slot report on.

        Replaces a former registration of the same ResourceID. If that was another process, the jobs that held slots
        there are notified. If the same process registers again (it lost contact or missed the answer), they are not.
        """
        effects: Effects = []
        former = self.task_executors.find_by_resource(description.resource_id)
        if former is not None:
            self.task_executors.remove(former.instance_id)
            if not former.description.is_same_process(description):
                reason = f"TaskExecutor {description.resource_id} was replaced by a new process"
                effects += _lost_notifications(former, reason)
        self.task_executors.add(instance_id, description)
        return effects

    def remove_task_executor(self, instance_id: InstanceID, reason: str, now_ms: int) -> Effects:
        """Removes a lost TaskExecutor, notifies the jobs that held slots there and looks for other slots."""
        info = self.task_executors.remove(instance_id)
        if info is None:
            return []
        return _lost_notifications(info, reason) + self._request_check(now_ms)

    def process_slot_report(
        self,
        instance_id: InstanceID,
        report: Sequence[SlotStatus],
        now_ms: int,
        jobs_with_partitions: frozenset[JobID] = frozenset(),
    ) -> Effects:
        """Updates the state of the slots to what their TaskExecutor reports.

        Args:
            jobs_with_partitions: jobs with finished results on the TaskExecutor, which is not released while it holds
                any.
        """
        info = self.task_executors.find(instance_id)
        if info is None:
            return []
        info.jobs_with_partitions, info.reported_ms = jobs_with_partitions, now_ms
        effects: Effects = []
        before = [(slot.state, slot.allocation_id) for slot in info.all_slots]
        _remove_unreported(info, report)
        for status in report:
            slot = _slot_of_status(info, status)
            if slot is None:
                continue
            effects += self._apply_status(info, slot, status, now_ms)
            if slot.allocation_id == status.allocation_id:
                slot.num_tasks = status.num_tasks
        info.possible_jobs.clear()
        info.update_idle_since(now_ms)
        if before != [(slot.state, slot.allocation_id) for slot in info.all_slots]:
            effects += self._request_check(now_ms)
        return effects

    def notify_slot_available(
        self, instance_id: InstanceID, slot_index: int, allocation_id: AllocationID, now_ms: int
    ) -> Effects:
        """Marks a slot as free. Ignored if the slot has been allocated again since."""
        found = self._find_slot(instance_id, slot_index, allocation_id)
        if found is None:
            return []
        info, slot = found
        slot.move_to(SlotState.FREE)
        if slot.index == DYNAMIC_SLOT_INDEX:
            info.dynamic_slots.remove(slot)
        info.update_idle_since(now_ms)
        return self._request_check(now_ms)

    # --- outcomes of RequestSlot ------------------------------------------------------------------------------------

    def slot_request_acknowledged(
        self, instance_id: InstanceID, slot_index: int, allocation_id: AllocationID
    ) -> Effects:
        """Marks the slot as allocated. Ignored if the request has been settled otherwise since."""
        found = self._find_slot(instance_id, slot_index, allocation_id)
        if found is None:
            return []
        info, slot = found
        if slot.state is SlotState.PENDING:
            slot.reserved()
            slot.num_failed_requests = 0
            if slot.index == DYNAMIC_SLOT_INDEX:
                info.num_failed_cuts = 0
        return self._free_if_useless(info, slot)

    def slot_request_failed(
        self, instance_id: InstanceID, slot_index: int, allocation_id: AllocationID, now_ms: int
    ) -> Effects:
        """Handles a refused or unanswered request: requests a slot report and allocates a slot elsewhere."""
        found = self._find_slot(instance_id, slot_index, allocation_id)
        if found is None or found[1].state is not SlotState.PENDING:
            return []
        info, slot = found
        if slot.job_id is not None:
            info.possible_jobs.add(slot.job_id)
        slot.move_to(SlotState.UNKNOWN)
        slot.num_failed_requests += 1
        if slot.index == DYNAMIC_SLOT_INDEX:
            info.num_failed_cuts += 1
        info.update_idle_since(now_ms)
        return [RequestSlotReport(instance_id), *self._request_check(now_ms)]

    def renewal_failed(self, instance_id: InstanceID) -> Effects:
        """Handles a failed `RenewTaskExecutor`: the call failed, or a slot is in use after all. Checks again later."""
        info = self.task_executors.find(instance_id)
        if info is None:
            return []
        info.is_being_renewed = False
        if self._is_check_scheduled:
            return []
        self._is_check_scheduled = True
        return [ScheduleRequirementsCheck(RENEWAL_RETRY_MS)]

    # --- the check --------------------------------------------------------------------------------------------------

    def check_requirements(self, now_ms: int) -> Effects:
        """Allocates free slots to missing requirements and declares the workers needed for the rest."""
        self._is_check_scheduled = False
        self._last_check_ms = now_ms
        free = self._free_slots_in_order()
        effects: Effects = []
        unfulfilled: list[tuple[JobRequirements, SlotKind]] = []
        for job in self.requirements.active():
            held = [
                SlotKind(slot.environment_profile, slot.resources)
                for _, slot in self.task_executors.slots_of_job(job.job_id)
            ]
            for kind in job.missing_slots(held):
                found = self._find_free(free, kind, job.blocked)
                if found is not None:
                    effects.append(self._allocate(job, kind, *found, now_ms))
                elif not job.num_at_once or len(held) < job.num_at_once:
                    unfulfilled.append((job, kind))
                held.append(kind)
        effects += self._renew_idle([kind for _, kind in unfulfilled])
        num_workers, refused = self._plan_workers(unfulfilled)
        return [*effects, *refused, DeclareNeededWorkers(num_workers)]

    def allow_refusals(self, now_ms: int) -> Effects:
        """Reports requirements that cannot be met from now on, also where no driver starts workers.

        Source: org.apache.flink.runtime.resourcemanager.slotmanager.SlotManager#setFailUnfulfillableRequest.
        """
        self._may_refuse = True
        return self._request_check(now_ms)

    def check_timeouts(self, now_ms: int, started_by_driver: Callable[[ResourceID], bool]) -> Effects:
        """Releases workers that were idle for too long, and slots of jobs whose JobMaster never registered."""
        effects: Effects = []
        for job_id, since_ms in list(self._unknown_jobs.items()):
            if now_ms - since_ms >= self._options.unknown_job_timeout_ms:
                effects += self.job_terminated(job_id, now_ms)
        return effects + self._release_idle_workers(now_ms, started_by_driver)

    def validate(self) -> None:
        """Asserts every invariant that holds between two events."""
        self.task_executors.validate()
        assert not set(self._unknown_jobs) & (set(self._terminated_jobs) | self._known_jobs)
        assert not self._known_jobs & set(self._terminated_jobs)
        assert {job.job_id for job in self.requirements.active()} <= self._known_jobs
        assert len(self._terminated_jobs) <= MAX_REMEMBERED_TERMINATED_JOBS

    # --- inside -----------------------------------------------------------------------------------------------------

    def _request_check(self, now_ms: int) -> Effects:
        if self._is_check_scheduled:
            return []
        delay_ms = 0
        if self._last_check_ms is not None:
            delay_ms = max(0, self._last_check_ms + self._options.requirements_check_delay_ms - now_ms)
        self._is_check_scheduled = True
        return [ScheduleRequirementsCheck(delay_ms)]

    def _find_slot(
        self, instance_id: InstanceID, slot_index: int, allocation_id: AllocationID
    ) -> tuple[TaskExecutorInfo, TaskManagerSlot] | None:
        info = self.task_executors.find(instance_id)
        if info is None:
            return None
        # An answer names a dynamic slot by the index of the request, a notification by the one at its TaskExecutor.
        is_default = 0 <= slot_index < len(info.slots)
        slots = [info.slots[slot_index]] if is_default else info.dynamic_slots
        return next(((info, slot) for slot in slots if slot.allocation_id == allocation_id), None)

    def _apply_status(self, info: TaskExecutorInfo, slot: TaskManagerSlot, status: SlotStatus, now_ms: int) -> Effects:
        if status.allocation_id is None or status.job_id is None:
            if slot.state in (SlotState.UNKNOWN, SlotState.ALLOCATED):
                slot.move_to(SlotState.FREE)
            return []
        if slot.allocation_id == status.allocation_id:
            if slot.state is SlotState.PENDING:
                slot.reserved()
        else:
            slot.move_to(SlotState.ALLOCATED, status.allocation_id, status.job_id, status.environment_profile)
        if status.job_id not in self._known_jobs and status.job_id not in self._terminated_jobs:
            self._unknown_jobs.setdefault(status.job_id, now_ms)
        return self._free_if_useless(info, slot)

    def _free_if_useless(self, info: TaskExecutorInfo, slot: TaskManagerSlot) -> Effects:
        """Returns a FreeSlot if the TaskExecutor holds the slot for a terminated job or a replaced JobMaster."""
        assert slot.job_id is not None
        if slot.job_id in self._terminated_jobs:
            return [_free_slot(info, slot, "the job has terminated")]
        declared = self.requirements.find(slot.job_id)
        if declared is not None and slot.job_master_id not in (None, declared.job_master_id):
            return [_free_slot(info, slot, f"JobMaster {slot.job_master_id} was replaced")]
        return []

    def _find_free(self, free: list[FreeSlotOf], kind: SlotKind, blocked: frozenset[ResourceID]) -> FreeSlotOf | None:
        """Returns a slot for the requirement, and removes it from `free`. Cuts one if the requirement has numbers."""
        if kind.resources.is_unknown:
            position = _find_default_slot(free, kind.environment_profile, blocked)
            return None if position is None else free.pop(position)
        usable = [
            info
            for info in self.task_executors
            if info.profile in (kind.environment_profile, None)
            and info.resource_id not in blocked
            and not info.is_being_renewed
            and info.can_serve(kind.resources)
        ]
        if not usable:
            return None
        info = min(usable, key=lambda info: (info.num_failed_cuts, self._options.spread_out and _utilization(info)))
        slot = TaskManagerSlot(DYNAMIC_SLOT_INDEX, SlotState.FREE, resources=kind.resources)
        info.dynamic_slots.append(slot)
        return info, slot

    def _free_slots_in_order(self) -> list[FreeSlotOf]:
        free = self.task_executors.free_slots()
        if self._options.spread_out:
            used: dict[InstanceID, int] = {}
            ranks = []
            for position, (info, slot) in enumerate(free):
                taken = used.setdefault(info.instance_id, len(info.slots) - info.count(SlotState.FREE))
                used[info.instance_id] = taken + 1
                ranks.append((taken / len(info.slots), position, info, slot))
            ranks.sort(key=lambda rank: (rank[3].num_failed_requests, *rank[:2]))
            return [(info, slot) for _, _, info, slot in ranks]
        return free

    def _allocate(
        self, job: JobRequirements, kind: SlotKind, info: TaskExecutorInfo, slot: TaskManagerSlot, now_ms: int
    ) -> RequestSlot:
        allocation_id = self._new_allocation_id()
        slot.move_to(SlotState.PENDING, allocation_id, job.job_id, kind.environment_profile, job.job_master_id)
        info.profile = kind.environment_profile
        info.update_idle_since(now_ms)
        return RequestSlot(
            instance_id=info.instance_id,
            slot_index=slot.index,
            job_id=job.job_id,
            allocation_id=allocation_id,
            environment_profile=kind.environment_profile,
            job_master_address=job.job_master_address,
            job_master_id=job.job_master_id,
            resources=kind.resources,
        )

    def _renew_idle(self, unfulfilled: Sequence[SlotKind]) -> Effects:
        """Restarts idle processes of other environments, as many as the unfulfilled requirements need."""
        missing = len(unfulfilled)
        for info in self.task_executors:
            missing -= len(info.slots) if info.is_being_renewed else 0
        effects: Effects = []
        for info in self.task_executors:
            if missing <= 0:
                break
            if not info.is_idle or info.profile is None or info.is_being_renewed or info.jobs_with_partitions:
                continue
            total = info.description.total
            if any(
                kind.environment_profile != info.profile
                and (kind.resources.is_unknown or total.all_fields_no_less_than(kind.resources))
                for kind in unfulfilled
            ):
                info.is_being_renewed = True
                missing -= len(info.slots)
                effects.append(RenewTaskExecutor(info.instance_id))
        return effects

    def _plan_workers(self, unfulfilled: Sequence[tuple[JobRequirements, SlotKind]]) -> tuple[int, Effects]:
        """Returns the number of workers to start, and the requirements to refuse."""
        options = self._options
        registered = self.task_executors
        plan = WorkerPlan(options.worker_total, options.worker_slot, options.slots_per_worker)
        for info in registered:
            # Slots of a TaskExecutor that has not sent its first report, or that restarts, will soon be free.
            is_new = not info.possible_jobs and not info.dynamic_slots
            num_coming = sum(
                1 for s in info.slots if info.is_being_renewed or (is_new and s.state is SlotState.UNKNOWN)
            )
            if num_coming:
                described = info.description
                plan.add_coming(described.total, described.default_slot, num_coming)
        room = options.limits.workers_within(
            registered.total_resource,
            registered.num_slots,
            options.worker_total,
            options.slots_per_worker,
            options.max_slots,
        )
        refused: dict[tuple[JobID, ResourceProfile], NotifyNotEnoughResources] = {}
        for job, kind in unfulfilled:
            if not self._can_ever_serve(kind.resources):
                reason = self._why_never(kind.resources)
            elif plan.place(kind.resources, room) or kind.resources.is_unknown:
                continue
            else:
                reason = options.limits.reason(options.max_slots)
            if self._may_refuse:
                refused[job.job_id, kind.resources] = NotifyNotEnoughResources(job.job_id, kind.resources, reason)
        num_spare = plan.num_spare_slots + (0 if unfulfilled else registered.num_free_slots)
        lacking_spares = options.redundant_workers * options.slots_per_worker - num_spare
        lacking_slots = max(
            lacking_spares, options.min_slots - registered.num_slots - plan.num_workers * options.slots_per_worker, 0
        )
        needed = plan.num_workers + math.ceil(lacking_slots / options.slots_per_worker)
        needed = max(needed, options.limits.workers_below_minimum(registered.total_resource, options.worker_total))
        return min(needed, room), list(refused.values())

    def _can_ever_serve(self, resources: ResourceProfile) -> bool:
        return resources.is_unknown or any(total.all_fields_no_less_than(resources) for total in self._known_totals())

    def _known_totals(self) -> list[ResourceProfile]:
        """Returns the resources of registered TaskExecutors, and those of a new worker.

        If the size of new workers is not known, the registered ones tell it. Otherwise workers would be started without
        end for a requirement that none of them meets.
        """
        totals = [info.description.total for info in self.task_executors]
        worker = self._options.worker_total
        if self._options.has_driver and not (worker.is_any and totals):
            totals.append(worker)
        return totals

    def _why_never(self, resources: ResourceProfile) -> str:
        """Returns by how much and of what the largest TaskExecutor falls short of the requirement."""
        totals = self._known_totals()
        if not totals:
            return "there is no TaskExecutor"
        best = min(totals, key=lambda total: len(total.lacks_of(resources)))
        lacking = best.lacks_of(resources)
        has = {name: best.amounts().get(name, 0.0) for name in lacking}
        there = ", ".join(f"{name}: {format_amount(name, amount)}" for name, amount in has.items())
        return f"no TaskExecutor has as much: the best one has {there}, which lacks {format_amounts(lacking)}"

    def _release_idle_workers(self, now_ms: int, started_by_driver: Callable[[ResourceID], bool]) -> Effects:
        options = self._options
        num_slots = self.task_executors.num_slots
        num_free = self.task_executors.num_free_slots
        total = self.task_executors.total_resource
        keep_free = options.redundant_workers * options.slots_per_worker
        effects: Effects = []
        for info in self.task_executors:
            if info.idle_since_ms is None or now_ms - info.idle_since_ms < options.task_manager_timeout_ms:
                continue
            if not started_by_driver(info.resource_id) or not info.may_be_released:
                continue
            size = len(info.slots)
            if num_slots - size < options.min_slots or num_free - size < keep_free:
                continue
            if options.limits.is_below_minimum(total.remaining_after(info.description.total)):
                continue
            total = total.remaining_after(info.description.total)
            num_slots -= size
            num_free -= size
            self.task_executors.remove(info.instance_id)
            reason = f"idle for {now_ms - info.idle_since_ms} ms"
            effects.append(ReleaseWorker(info.instance_id, info.resource_id, reason))
        return effects


def _utilization(info: TaskExecutorInfo) -> float:
    """Returns the used part of the scarcest resource of a TaskExecutor, 0 to 1. Unlimited ones count as unused."""
    total, free = info.description.total.amounts(), info.free_resource.amounts()
    return max((1 - free.get(name, 0.0) / amount for name, amount in total.items() if amount), default=0.0)


def _find_default_slot(free: list[FreeSlotOf], environment_profile: str, blocked: frozenset[ResourceID]) -> int | None:
    """Returns the index of the first usable slot for this environment, or None.

    An environment other than that of plain jobs prefers a process that already serves it.
    """
    positions = [
        position
        for position, (info, _) in enumerate(free)
        if info.profile in (environment_profile, None)
        and info.resource_id not in blocked
        and info.can_serve(ResourceProfile.UNKNOWN)
    ]
    if environment_profile:
        positions.sort(key=lambda position: free[position][0].profile is None)
    return positions[0] if positions else None


def _slot_of_status(info: TaskExecutorInfo, status: SlotStatus) -> TaskManagerSlot | None:
    """Returns the slot that a status is about. Adds an unknown dynamic slot. None: no such slot."""
    if 0 <= status.slot_index < len(info.slots):
        return info.slots[status.slot_index]
    for slot in info.dynamic_slots:
        if slot.allocation_id == status.allocation_id:
            return slot
    if status.resources.is_unknown or status.allocation_id is None:
        return None
    slot = TaskManagerSlot(DYNAMIC_SLOT_INDEX, resources=status.resources)
    info.dynamic_slots.append(slot)
    return slot


def _remove_unreported(info: TaskExecutorInfo, report: Sequence[SlotStatus]) -> None:
    """Removes dynamic slots that are not in a report, except PENDING ones: the report may be older than the request."""
    reported = {status.allocation_id for status in report if status.allocation_id is not None}
    info.dynamic_slots = [
        slot for slot in info.dynamic_slots if slot.state is SlotState.PENDING or slot.allocation_id in reported
    ]


def _free_slot(info: TaskExecutorInfo, slot: TaskManagerSlot, reason: str) -> FreeSlot:
    assert slot.allocation_id is not None and slot.job_id is not None
    return FreeSlot(info.instance_id, slot.allocation_id, slot.job_id, reason)


def _lost_notifications(info: TaskExecutorInfo, reason: str) -> Effects:
    jobs = {slot.job_id for slot in info.all_slots if slot.job_id is not None} | info.possible_jobs
    return [NotifyTaskExecutorLost(job_id, info.resource_id, reason) for job_id in sorted(jobs)]
