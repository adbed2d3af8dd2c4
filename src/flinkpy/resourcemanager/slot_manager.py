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
* A TaskExecutor process serves one resource profile in its life: the profile of the first slot requested there. A job
  whose functions need other Python packages therefore gets processes that have loaded no others
  (docs/decisions/0013). If no suitable process has a free slot, idle processes are told to restart.
* After each check the SlotManager declares how many workers are needed for the requirements that are left, within
  the configured maximum number of slots.

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
from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID
from flinkpy.resourcemanager.task_executor_tracker import (
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


# --- effects: what the endpoint runs; every outcome returns as a call -----------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """Call TaskExecutor.RequestSlot, then `slot_request_acknowledged` or `slot_request_failed`."""

    instance_id: InstanceID
    slot_index: int
    job_id: JobID
    allocation_id: AllocationID
    resource_profile: str
    job_master_address: str
    job_master_id: JobMasterId


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
    | ScheduleRequirementsCheck
    | DeclareNeededWorkers
    | ReleaseWorker
    | RenewTaskExecutor
)

Effects = list[SlotManagerEffect]


# --- requirements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResourceRequirement:
    """A number of slots in processes that serve this resource profile ("" is the profile of plain jobs)."""

    num_slots: int
    resource_profile: str = ""


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

    def missing_profiles(self, held_profiles: Iterable[str]) -> list[str]:
        """Returns the profile of each missing slot, given the profiles of the slots the job holds.

        A slot that is known from a report only has no profile. It counts against the total, so that a job never gets
        more slots than it declared.
        """
        held = Counter(held_profiles)
        total_missing = self.num_slots - sum(held.values())
        missing: list[str] = []
        for requirement in self.requirements:
            lacking = requirement.num_slots - held[requirement.resource_profile]
            missing.extend([requirement.resource_profile] * max(0, lacking))
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


class SlotManager:
    def __init__(self, options: SlotManagerOptions, new_allocation_id: Callable[[], AllocationID]) -> None:
        self._options = options
        self._new_allocation_id = new_allocation_id
        self.task_executors = TaskExecutorTracker()
        self.requirements = ResourceTracker()
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
        before = [(slot.state, slot.allocation_id) for slot in info.slots]
        for status in report:
            if 0 <= status.slot_index < len(info.slots):
                slot = info.slots[status.slot_index]
                effects += self._apply_status(info, slot, status, now_ms)
                if slot.allocation_id == status.allocation_id:
                    slot.num_tasks = status.num_tasks
        info.possible_jobs.clear()
        info.update_idle_since(now_ms)
        if before != [(slot.state, slot.allocation_id) for slot in info.slots]:
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
        unfulfilled: list[str] = []
        for job in self.requirements.active():
            held = [slot.resource_profile for _, slot in self.task_executors.slots_of_job(job.job_id)]
            for profile in job.missing_profiles(held):
                position = _matching_position(free, profile, job.blocked)
                if position is not None:
                    effects.append(self._allocate(job, profile, *free.pop(position), now_ms))
                elif not job.num_at_once or len(held) < job.num_at_once:
                    unfulfilled.append(profile)
                held.append(profile)
        effects += self._renew_idle(unfulfilled)
        num_workers = self._needed_workers(len(unfulfilled), 0 if unfulfilled else len(free))
        return [*effects, DeclareNeededWorkers(num_workers)]

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
        if info is None or not 0 <= slot_index < len(info.slots):
            return None
        slot = info.slots[slot_index]
        return (info, slot) if slot.allocation_id == allocation_id else None

    def _apply_status(self, info: TaskExecutorInfo, slot: TaskManagerSlot, status: SlotStatus, now_ms: int) -> Effects:
        if status.allocation_id is None or status.job_id is None:
            if slot.state in (SlotState.UNKNOWN, SlotState.ALLOCATED):
                slot.move_to(SlotState.FREE)
            return []
        if slot.allocation_id == status.allocation_id:
            if slot.state is SlotState.PENDING:
                slot.reserved()
        else:
            slot.move_to(SlotState.ALLOCATED, status.allocation_id, status.job_id)
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

    def _free_slots_in_order(self) -> list[tuple[TaskExecutorInfo, TaskManagerSlot]]:
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
        self, job: JobRequirements, profile: str, info: TaskExecutorInfo, slot: TaskManagerSlot, now_ms: int
    ) -> RequestSlot:
        allocation_id = self._new_allocation_id()
        slot.move_to(SlotState.PENDING, allocation_id, job.job_id, profile, job.job_master_id)
        info.profile = profile
        info.update_idle_since(now_ms)
        return RequestSlot(
            instance_id=info.instance_id,
            slot_index=slot.index,
            job_id=job.job_id,
            allocation_id=allocation_id,
            resource_profile=profile,
            job_master_address=job.job_master_address,
            job_master_id=job.job_master_id,
        )

    def _renew_idle(self, unfulfilled: Sequence[str]) -> Effects:
        """Restarts idle processes of other profiles, as many as the unfulfilled requirements need."""
        missing = len(unfulfilled)
        for info in self.task_executors:
            missing -= len(info.slots) if info.is_being_renewed else 0
        effects: Effects = []
        for info in self.task_executors:
            if missing <= 0:
                break
            if info.is_idle and info.profile is not None and not (info.is_being_renewed or info.jobs_with_partitions):
                info.is_being_renewed = True
                missing -= len(info.slots)
                effects.append(RenewTaskExecutor(info.instance_id))
        return effects

    def _needed_workers(self, num_unfulfilled: int, num_free: int) -> int:
        options = self._options
        num_slots = self.task_executors.num_slots
        # Slots of a TaskExecutor that has not sent its first report, or that restarts, will soon be free.
        num_coming = sum(
            1
            for info in self.task_executors
            for slot in info.slots
            if info.is_being_renewed or (slot.state is SlotState.UNKNOWN and not info.possible_jobs)
        )
        redundant = options.redundant_workers * options.slots_per_worker
        needed = max(num_unfulfilled + redundant - num_free - num_coming, options.min_slots - num_slots, 0)
        within_bound = max(0, options.max_slots - num_slots) // options.slots_per_worker
        return min(math.ceil(needed / options.slots_per_worker), within_bound)

    def _release_idle_workers(self, now_ms: int, started_by_driver: Callable[[ResourceID], bool]) -> Effects:
        options = self._options
        num_slots = self.task_executors.num_slots
        num_free = self.task_executors.count(SlotState.FREE)
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
            num_slots -= size
            num_free -= size
            self.task_executors.remove(info.instance_id)
            reason = f"idle for {now_ms - info.idle_since_ms} ms"
            effects.append(ReleaseWorker(info.instance_id, info.resource_id, reason))
        return effects


def _matching_position(
    free: list[tuple[TaskExecutorInfo, TaskManagerSlot]], profile: str, blocked: frozenset[ResourceID]
) -> int | None:
    """Returns the index of the first usable slot for this profile, or None.

    A profile other than that of plain jobs prefers a process that already serves it.
    """
    positions = [
        position
        for position, (info, _) in enumerate(free)
        if info.profile in (profile, None) and info.resource_id not in blocked
    ]
    if profile:
        positions.sort(key=lambda position: free[position][0].profile is None)
    return positions[0] if positions else None


def _free_slot(info: TaskExecutorInfo, slot: TaskManagerSlot, reason: str) -> FreeSlot:
    assert slot.allocation_id is not None and slot.job_id is not None
    return FreeSlot(info.instance_id, slot.allocation_id, slot.job_id, reason)


def _lost_notifications(info: TaskExecutorInfo, reason: str) -> Effects:
    jobs = {slot.job_id for slot in info.slots if slot.job_id is not None} | info.possible_jobs
    return [NotifyTaskExecutorLost(job_id, info.resource_id, reason) for job_id in sorted(jobs)]
