"""TaskSlotTable: the slots of a TaskExecutor, the jobs that hold them and the tasks that run in them.

```
            RequestSlot                 offer accepted / SubmitTasks
   FREE ------------------> ALLOCATED --------------------------------> ACTIVE
    ^                        |                                            |
    |   no tasks: at once    |     freed, refused, timed out, job lost    |
    +------------------------+------------------------+-------------------+
    |                                                 | tasks still run
    +---------------- last task gone ----------- RELEASING
```

An ALLOCATED slot has a deadline (`taskmanager.slot.timeout`), a slot in another state has none. An allocation holds one
slot. A RELEASING slot accepts no tasks and is reported as allocated until its last task has ended.

The number of default slots is fixed, each an equal part of the resources of the process. A request with index -1 cuts a
dynamic slot of the requested resources from what is left. A slot of either kind is refused if not enough is left.

Invariant: the slots that are not FREE never have more resources together than the process.

Pure: time is a parameter. Source: org.apache.flink.runtime.taskexecutor.slot.{TaskSlotTableImpl,TaskSlot} and
org.apache.flink.runtime.util.ResourceBudgetManager.
"""

from __future__ import annotations

import enum
import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from flinkpy.common.errors import InvalidTransitionError, SlotAllocationError, TaskSubmissionError
from flinkpy.common.ids import AllocationID, JobID
from flinkpy.common.resource_profile import ResourceProfile, format_amounts

#: The index in a request for a dynamic slot.
DYNAMIC_SLOT_INDEX = -1
_ZERO = ResourceProfile.ZERO
#: The number of transitions kept for error messages; an allocation has about four.
STORY_LENGTH = 64


class SlotState(enum.Enum):
    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"
    RELEASING = "RELEASING"


_S = SlotState
SLOT_TRANSITIONS: frozenset[tuple[SlotState, SlotState]] = frozenset(
    {
        (_S.FREE, _S.ALLOCATED),
        (_S.ALLOCATED, _S.ACTIVE),
        (_S.ALLOCATED, _S.FREE),
        (_S.ACTIVE, _S.FREE),
        (_S.ACTIVE, _S.RELEASING),
        (_S.RELEASING, _S.FREE),
    }
)


@dataclass(slots=True)
class TaskSlot:
    """One slot. Only TaskSlotTable changes it."""

    index: int
    state: SlotState = SlotState.FREE
    #: Set in every state but FREE.
    allocation_id: AllocationID | None = None
    job_id: JobID | None = None
    #: The Python environment that the slot was requested for.
    environment_profile: str = ""
    #: The resources that it was requested with; UNKNOWN: it is a default slot.
    resources: ResourceProfile = ResourceProfile.UNKNOWN
    #: Execution attempts running here; empty unless ACTIVE or RELEASING.
    tasks: set[str] = field(default_factory=set)
    #: Monotonic time at which an ALLOCATED slot is freed; None in every other state.
    deadline_ms: int | None = None
    #: Monotonic time since which the slot is ACTIVE; None in every other state.
    active_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FreedSlot:
    """A slot that has just become FREE, for the notification of the ResourceManager."""

    index: int
    allocation_id: AllocationID
    job_id: JobID


class TaskSlotTable:
    """All slots of a TaskExecutor."""

    def __init__(
        self,
        num_slots: int,
        slot_timeout_ms: int,
        *,
        total: ResourceProfile = ResourceProfile.ANY,
        default_slot: ResourceProfile = ResourceProfile.ANY,
    ) -> None:
        self._slots = [TaskSlot(index) for index in range(num_slots)]
        #: Dynamic slots by index. Never FREE.
        self._dynamic: dict[int, TaskSlot] = {}
        #: Indexes are not used twice, so that a late message cannot mean a later slot.
        self._next_dynamic_index = num_slots
        self.total_resource = total
        self._default_slot = default_slot
        self._slot_timeout_ms = slot_timeout_ms
        self._by_allocation: dict[AllocationID, TaskSlot] = {}
        self._by_task: dict[str, TaskSlot] = {}
        self._story: deque[tuple[str, str]] = deque(maxlen=STORY_LENGTH)

    @property
    def num_slots(self) -> int:
        return len(self._slots)

    @property
    def slots(self) -> tuple[TaskSlot, ...]:
        """All slots in the order of their index. Callers must not change them."""
        return (*self._slots, *self._dynamic.values())

    @property
    def free_resource(self) -> ResourceProfile:
        """The resources that are left beside the slots that are not FREE."""
        used = ResourceProfile.ZERO
        for slot in self.slots:
            if slot.state is not SlotState.FREE:
                used = used.merge(self.resources_of(slot))
        return self.total_resource.remaining_after(used)

    def resources_of(self, slot: TaskSlot) -> ResourceProfile:
        return self._default_slot if slot.resources.is_unknown else slot.resources

    def slot_of(self, allocation_id: AllocationID) -> TaskSlot | None:
        return self._by_allocation.get(allocation_id)

    def slots_of_job(self, job_id: JobID, *states: SlotState) -> Iterator[TaskSlot]:
        """Returns the slots of the job, in any state or in one of `states`."""
        return (s for s in self.slots if s.job_id == job_id and (not states or s.state in states))

    def has_slots(self, job_id: JobID) -> bool:
        return any(True for _ in self.slots_of_job(job_id))

    def allocate_slot(
        self,
        index: int,
        job_id: JobID,
        allocation_id: AllocationID,
        environment_profile: str,
        now_ms: int,
        resources: ResourceProfile = ResourceProfile.UNKNOWN,
    ) -> bool:
        """Allocates a slot until its deadline. Returns False if this allocation holds it already.

        Args:
            index: DYNAMIC_SLOT_INDEX for a slot of `resources`.

        Raises:
            SlotAllocationError: the slot does not exist or is not free, or does not fit; `details` name the owner.
        """
        is_dynamic = index == DYNAMIC_SLOT_INDEX and not resources.is_unknown
        if not is_dynamic and not 0 <= index < len(self._slots):
            raise SlotAllocationError(
                f"slot {index} does not exist: this TaskExecutor has slots 0 to {len(self._slots) - 1}",
                details={"slot_index": str(index), "num_slots": str(len(self._slots))},
            )
        slot = self._by_allocation.get(allocation_id)
        if slot is None:
            slot = TaskSlot(self._next_dynamic_index, resources=resources) if is_dynamic else self._slots[index]
        is_asked_for = slot.resources == resources if is_dynamic else slot.index == index
        is_ours = slot.allocation_id == allocation_id and slot.job_id == job_id and is_asked_for
        if is_ours and slot.state is not SlotState.RELEASING:
            return False
        if slot.state is not SlotState.FREE:
            raise self._taken(slot)
        self._check_is_left(self.resources_of(slot))
        if is_dynamic:
            self._dynamic[slot.index] = slot
            self._next_dynamic_index += 1
        self._move(slot, SlotState.ALLOCATED, f"requested for job {job_id}", allocation_id)
        slot.job_id = job_id
        slot.environment_profile = environment_profile
        slot.deadline_ms = now_ms + self._slot_timeout_ms
        return True

    def mark_active(self, allocation_id: AllocationID, job_id: JobID, now_ms: int) -> bool:
        """Marks the slot as used by the JobMaster. Returns False if the job does not hold it."""
        slot = self._by_allocation.get(allocation_id)
        if slot is None or slot.job_id != job_id or slot.state is SlotState.RELEASING:
            return False
        if slot.state is SlotState.ALLOCATED:
            self._move(slot, SlotState.ACTIVE, "accepted by the JobMaster")
            slot.active_since_ms = now_ms
        return True

    def free_slot(self, allocation_id: AllocationID, reason: str) -> FreedSlot | None:
        """Frees the slot. A slot with tasks becomes RELEASING until they have ended; the caller must fail these.

        Returns: the freed slot; None if it is RELEASING, or the allocation is unknown (a repeated call).
        """
        slot = self._by_allocation.get(allocation_id)
        if slot is None or slot.state is SlotState.RELEASING:
            return None
        if slot.tasks:
            self._move(slot, SlotState.RELEASING, reason)
            return None
        return self._free(slot, reason)

    def add_task(self, allocation_id: AllocationID, job_id: JobID, execution_attempt_id: str) -> None:
        """Adds a task to the slot. Raises: TaskSubmissionError if the slot is not ACTIVE for the job."""
        slot = self._by_allocation.get(allocation_id)
        if slot is None or slot.job_id != job_id or slot.state is not SlotState.ACTIVE:
            state = "unknown here" if slot is None else f"{slot.state.value} for job {slot.job_id}"
            raise TaskSubmissionError(
                f"task {execution_attempt_id}: job {job_id} has no active slot {allocation_id} here ({state})",
                details={"allocation_id": str(allocation_id), "job_id": str(job_id)},
            )
        slot.tasks.add(execution_attempt_id)
        self._by_task[execution_attempt_id] = slot

    def remove_task(self, execution_attempt_id: str) -> FreedSlot | None:
        """Removes an ended task. Returns the freed slot if it was the last task of a RELEASING slot."""
        slot = self._by_task.pop(execution_attempt_id, None)
        if slot is None:
            return None
        slot.tasks.discard(execution_attempt_id)
        if slot.state is SlotState.RELEASING and not slot.tasks:
            return self._free(slot, "last task ended")
        return None

    def expired_allocations(self, now_ms: int) -> list[AllocationID]:
        """Returns the ALLOCATED slots whose deadline has passed. The caller frees them."""
        return [
            slot.allocation_id
            for slot in self.slots
            if slot.deadline_ms is not None and slot.deadline_ms <= now_ms and slot.allocation_id is not None
        ]

    def story(self, allocation_id: AllocationID) -> list[str]:
        """Returns the latest transitions of the allocation, oldest first."""
        return [line for key, line in self._story if key == str(allocation_id)]

    def validate(self) -> None:
        """Asserts every invariant."""
        assert [slot.index for slot in self._slots] == list(range(len(self._slots)))
        assert all(slot.index == index >= len(self._slots) for index, slot in self._dynamic.items())
        assert all(slot.state is not SlotState.FREE for slot in self._dynamic.values())
        held = [self.resources_of(slot) for slot in self.slots if slot.state is not SlotState.FREE]
        assert self.total_resource.all_fields_no_less_than(functools.reduce(ResourceProfile.merge, held, _ZERO))
        for slot in self.slots:
            is_free = slot.state is SlotState.FREE
            assert (slot.allocation_id is None) == is_free
            assert (slot.job_id is None) == is_free
            assert (slot.deadline_ms is not None) == (slot.state is SlotState.ALLOCATED)
            assert (slot.active_since_ms is not None) == (slot.state is SlotState.ACTIVE)
            assert not slot.tasks or slot.state in (SlotState.ACTIVE, SlotState.RELEASING)
            assert slot.tasks or slot.state is not SlotState.RELEASING
            assert all(self._by_task[task] is slot for task in slot.tasks)
            if slot.allocation_id is not None:
                assert self._by_allocation[slot.allocation_id] is slot
        assert len(self._by_allocation) == sum(s.state is not SlotState.FREE for s in self.slots)
        assert len(self._by_task) == sum(len(s.tasks) for s in self.slots)

    def _check_is_left(self, resources: ResourceProfile) -> None:
        free = self.free_resource
        lacking = free.lacks_of(resources)
        if lacking:
            raise SlotAllocationError(
                f"a slot with {resources} does not fit: {free} is left, which lacks {format_amounts(lacking)}",
                details={"free_resource": str(free)},
            )

    def _taken(self, slot: TaskSlot) -> SlotAllocationError:
        return SlotAllocationError(
            f"slot {slot.index} is {slot.state.value} for job {slot.job_id} (allocation {slot.allocation_id})",
            details={
                "slot_index": str(slot.index),
                "allocation_id": str(slot.allocation_id),
                "job_id": str(slot.job_id),
            },
        )

    def _free(self, slot: TaskSlot, reason: str) -> FreedSlot:
        assert slot.allocation_id is not None and slot.job_id is not None
        freed = FreedSlot(slot.index, slot.allocation_id, slot.job_id)
        self._move(slot, SlotState.FREE, reason)
        slot.job_id = None
        slot.environment_profile = ""
        self._dynamic.pop(slot.index, None)
        return freed

    def _move(self, slot: TaskSlot, to: SlotState, reason: str, allocation_id: AllocationID | None = None) -> None:
        allocation = allocation_id or slot.allocation_id
        assert allocation is not None
        if (slot.state, to) not in SLOT_TRANSITIONS:
            told = "; ".join(self.story(allocation))
            raise InvalidTransitionError(f"slot {slot.index}: {slot.state.value} -> {to.value}; story: {told}")
        self._story.append((str(allocation), f"{slot.state.value} -> {to.value}: {reason}"))
        slot.state = to
        slot.deadline_ms = None
        slot.active_since_ms = None
        if to is SlotState.FREE:
            del self._by_allocation[allocation]
            slot.allocation_id = None
        else:
            self._by_allocation[allocation] = slot
            slot.allocation_id = allocation
