"""SlotManager: gives the free slots of the registered TaskExecutors to the jobs that declared a need for them.

```
  JobMaster                SlotManager                       TaskExecutor
     | declare_requirements    |                                   |
     |------------------------>| check: a FREE slot -> PENDING      |
     |                         |----------- RequestSlot ---------->| reserves it, offers it to the JobMaster
     |                         |<---- acknowledged: ALLOCATED -----|
     |                         |<---- refused, no answer: UNKNOWN -| asks for a report, tries another slot
     |                         |<---- slot available: FREE --------| the JobMaster gave it back
     |                         |<---- slot report (heartbeat) -----| corrects whatever was believed wrongly
```

Rules:
* A job never gets more slots than it declared; slots PENDING or ALLOCATED for it count, whoever told of them.
* What a TaskExecutor reports is the truth, except that a PENDING slot reported free stays PENDING (the report may be
  older than the request). A wrong belief costs at most one needless request: it is refused, and a report corrects it.
* A slot reported as held for a job that is over is freed; one held for a job never heard of (this ResourceManager may
  be the younger one) is left alone until `unknown_job_timeout_ms` passed without that job's JobMaster registering.
* A slot that was requested for a JobMaster is freed when another one declares the job's need: its TaskExecutor would
  offer it to the former one until its time-out, and the job would have to do without it. A registration alone may be a
  message that a dead JobMaster left behind.
* Messages of a former registration (another InstanceID) change nothing.
* A process serves one resource profile in its life, that of the first slot requested there: a job whose functions need
  packages of their own gets processes that have loaded no others (docs/decisions/0013). Where no such process has a
  slot, those that have no slot in use are told to begin anew.
* What is missing after a check is declared as needed workers, within the configured number of slots.

Pure: no clock, no I/O; every method returns the effects to run. Source:
org.apache.flink.runtime.resourcemanager.slotmanager.{FineGrainedSlotManager, DefaultSlotStatusSyncer}.
Differs: a first declaration is checked at once and the next ones at most every `requirements_check_delay_ms`, where
Flink waits that long each time; it saves a job's start that delay.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID
from flinkpy.resourcemanager.effects import (
    DeclareNeededWorkers,
    FreeSlot,
    NotifyTaskExecutorLost,
    ReleaseWorker,
    RenewTaskExecutor,
    RequestSlot,
    RequestSlotReport,
    ScheduleRequirementsCheck,
    SlotManagerEffect,
)
from flinkpy.resourcemanager.resource_tracker import JobRequirements, ResourceTracker
from flinkpy.resourcemanager.task_executor_tracker import (
    SlotState,
    SlotStatus,
    TaskExecutorDescription,
    TaskExecutorInfo,
    TaskExecutorTracker,
    TaskManagerSlot,
)

Effects = list[SlotManagerEffect]

#: Jobs known to be over are remembered so that late slot reports are understood; older ones are treated as unknown.
MAX_REMEMBERED_TERMINATED_JOBS = 4096
#: Pause before a process that could not begin anew is asked again.
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


class SlotManager:
    def __init__(self, options: SlotManagerOptions, new_allocation_id: Callable[[], AllocationID]) -> None:
        self._options = options
        self._new_allocation_id = new_allocation_id
        self.task_executors = TaskExecutorTracker()
        self.requirements = ResourceTracker()
        self._is_check_scheduled = False
        self._last_check_ms: int | None = None
        self._terminated_jobs: OrderedDict[JobID, None] = OrderedDict()
        #: jobs whose JobMaster registered and that are not over
        self._known_jobs: set[JobID] = set()
        #: jobs that hold slots without having been heard of, with the time they were first reported
        self._unknown_jobs: dict[JobID, int] = {}

    # --- jobs -------------------------------------------------------------------------------------------------------

    def job_master_connected(self, job_id: JobID, job_master_id: JobMasterId, now_ms: int) -> Effects:
        """The job's JobMaster registered (again): its slots are in good hands and its declaration holds.

        What a former leader of the job declared does not.
        """
        self._known_jobs.add(job_id)
        self._unknown_jobs.pop(job_id, None)
        self._terminated_jobs.pop(job_id, None)
        declared = self.requirements.find(job_id)
        if declared is not None and declared.job_master_id != job_master_id:
            self.requirements.clear(job_id)
        self.requirements.resume(job_id)
        return self._request_check(now_ms)

    def declare_requirements(self, declared: JobRequirements, now_ms: int) -> Effects:
        """Replace what the job declared before; an older declaration that arrives late changes nothing.

        Nor does one of a job whose JobMaster is not registered: its slots would be given out and freed without end.
        """
        if declared.job_id not in self._known_jobs or not self.requirements.declare(declared):
            return []
        effects: Effects = []
        for info, slot in self.task_executors.slots_of_job(declared.job_id):
            if slot.state is SlotState.ALLOCATED:  # a request that is on its way would come after this
                effects += self._free_if_useless(info, slot)
        return effects + self._request_check(now_ms)

    def suspend_job(self, job_id: JobID) -> Effects:
        """Contact to the JobMaster was lost: give it no more slots until it is back or `job_terminated`."""
        self.requirements.suspend(job_id)
        return []

    def job_terminated(self, job_id: JobID, now_ms: int) -> Effects:
        """The job is over: its claim ends and the slots it still holds are freed."""
        self.requirements.clear(job_id)
        self._known_jobs.discard(job_id)
        self._unknown_jobs.pop(job_id, None)
        self._terminated_jobs[job_id] = None
        while len(self._terminated_jobs) > MAX_REMEMBERED_TERMINATED_JOBS:
            self._terminated_jobs.popitem(last=False)
        effects: Effects = []
        for info, slot in self.task_executors.slots_of_job(job_id):
            effects.append(_free_slot(info, slot, "the job is over"))
        return effects + self._request_check(now_ms)

    # --- TaskExecutors ----------------------------------------------------------------------------------------------

    def can_register(self, description: TaskExecutorDescription) -> bool:
        """False where another TaskExecutor of this size would exceed `slotmanager.number-of-slots.max`."""
        replaced = self.task_executors.find_by_resource(description.resource_id)
        present = self.task_executors.num_slots - (0 if replaced is None else len(replaced.slots))
        return present + description.num_slots <= self._options.max_slots

    def register_task_executor(
        self, instance_id: InstanceID, description: TaskExecutorDescription, now_ms: int
    ) -> Effects:
        """A TaskExecutor registered; its slots can be used when its first report arrives.

        A former registration of the same ResourceID ends. Where that was another process, the jobs that held slots
        there are told; where the same process registered again (it lost contact, or missed the answer) they are not.
        """
        effects: Effects = []
        former = self.task_executors.find_by_resource(description.resource_id)
        if former is not None:
            self.task_executors.remove(former.instance_id)
            if not former.description.is_same_process(description):
                reason = f"TaskExecutor {description.resource_id} was replaced by a new process"
                effects += _lost_notifications(former, reason)
        self.task_executors.add(instance_id, description, now_ms)
        return effects

    def remove_task_executor(self, instance_id: InstanceID, reason: str, now_ms: int) -> Effects:
        """The TaskExecutor is gone: tell the jobs that held slots there and find them others."""
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
        """Bring what is believed of the slots in line with what their TaskExecutor says.

        Args:
            jobs_with_partitions: jobs whose finished results it holds: it is not released while there are any.
        """
        info = self.task_executors.find(instance_id)
        if info is None:
            return []
        info.jobs_with_partitions, info.reported_ms = jobs_with_partitions, now_ms
        effects: Effects = []
        before = [(slot.state, slot.allocation_id) for slot in info.slots]
        for status in report:
            if 0 <= status.slot_index < len(info.slots):
                effects += self._apply_status(info, info.slots[status.slot_index], status, now_ms)
        info.possible_jobs.clear()
        info.update_idle_since(now_ms)
        if before != [(slot.state, slot.allocation_id) for slot in info.slots]:
            effects += self._request_check(now_ms)
        return effects

    def notify_slot_available(
        self, instance_id: InstanceID, slot_index: int, allocation_id: AllocationID, now_ms: int
    ) -> Effects:
        """The TaskExecutor freed the slot. Ignored where the slot has gone to another allocation since."""
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
        """The TaskExecutor reserved the slot. A late answer to a request that was settled otherwise changes nothing."""
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
        """The request was refused or got no answer: ask how the slot stands, and meet the requirement elsewhere."""
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
        """The TaskExecutor did not take the call, or has a slot in use after all. It is looked at again a little
        later."""
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
        """Match what is missing with free slots; declare the workers that the rest needs. Runs on the timer."""
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
        """Release workers idle for too long, and slots of jobs whose JobMaster never showed up. Runs now and then."""
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
        """Of a slot that its TaskExecutor holds."""
        assert slot.job_id is not None
        if slot.job_id in self._terminated_jobs:
            return [_free_slot(info, slot, "the job is over")]
        declared = self.requirements.find(slot.job_id)
        if declared is not None and slot.job_master_id not in (None, declared.job_master_id):
            return [_free_slot(info, slot, f"JobMaster {slot.job_master_id} has a successor")]
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
        """Processes that have no slot in use, as many as are needed, to serve a profile that is not theirs."""
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
        # Slots of a TaskExecutor that has registered but not reported yet are as good as free.
        # Those of one that begins anew are, too.
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
    """Of the first slot for this profile that is not blocked; for a profile that is not that of plain jobs, where
    possible in a process that has it already."""
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
