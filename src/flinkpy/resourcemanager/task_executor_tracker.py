"""TaskExecutorTracker: the registered TaskExecutors and the believed state of each of their slots.

```
              report: free              allocate               ack, report: allocated
   UNKNOWN ------------------> FREE ----------------> PENDING ------------------------> ALLOCATED
      ^  \\--- report: allocated -|----------------------- | ---------------------------->  ^ |
      |                          |<-- slot available ------+                              | |
      |                          |<-- slot available, report: free -----------------------|-+
      |                          +------- report: allocated ------------------------------+
      +------------- request refused or timed out -------- PENDING
```

* An UNKNOWN slot is never allocated: it has not been reported yet, or a request for it ended without a clear answer.
* A PENDING slot that is reported free stays PENDING: the report may be older than the request.
* A TaskExecutor has a fixed number of default slots, each an equal part of its total resources. Dynamic slots are cut
  from what is left for requirements with numbers, and disappear when they are freed. A default slot is usable only
  while its part is left.
* A dynamic slot whose request ended without a clear answer is UNKNOWN. It keeps its resources until the next report.

Source: org.apache.flink.runtime.resourcemanager.slotmanager.{FineGrainedTaskManagerTracker, DefaultSlotStatusSyncer}.
Differs: Flink cuts every slot dynamically. It has no state UNKNOWN, marks a slot as free after a failed request, and
may choose it again at once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from flinkpy.common.errors import InvalidTransitionError
from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID
from flinkpy.common.resource_profile import ResourceProfile


class SlotState(enum.Enum):
    UNKNOWN = 1
    FREE = 2
    PENDING = 3
    ALLOCATED = 4


_S = SlotState
SLOT_TRANSITIONS: frozenset[tuple[SlotState, SlotState]] = frozenset(
    {
        (_S.UNKNOWN, _S.FREE),
        (_S.UNKNOWN, _S.ALLOCATED),
        (_S.FREE, _S.PENDING),
        (_S.FREE, _S.ALLOCATED),
        (_S.PENDING, _S.ALLOCATED),
        (_S.PENDING, _S.FREE),
        (_S.PENDING, _S.UNKNOWN),
        (_S.ALLOCATED, _S.FREE),
        (_S.ALLOCATED, _S.ALLOCATED),
    }
)


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """One slot of a slot report. `allocation_id` and `job_id` are None if the slot is free."""

    slot_index: int
    allocation_id: AllocationID | None = None
    job_id: JobID | None = None
    num_tasks: int = 0
    #: The resources that the slot was requested with; UNKNOWN: it is a default slot.
    resources: ResourceProfile = ResourceProfile.UNKNOWN
    #: The Python environment that the slot was requested with.
    environment_profile: str = ""


@dataclass(frozen=True, slots=True)
class TaskExecutorDescription:
    """The address and hardware that a TaskExecutor sends when it registers."""

    resource_id: ResourceID
    address: str
    data_address: str
    pid: int
    host: str
    num_slots: int
    cpu_cores: int = 0
    memory_bytes: int = 0
    #: The Python environment that the process serves already; None if it has served none.
    profile: str | None = None
    #: The resources of the process, and of one default slot.
    total: ResourceProfile = ResourceProfile.ANY
    default_slot: ResourceProfile = ResourceProfile.ANY

    def is_same_process(self, other: TaskExecutorDescription) -> bool:
        return (self.host, self.pid, self.address) == (other.host, other.pid, other.address)


#: The index of a dynamic slot in a request. Its TaskExecutor gives it an index behind those of the default slots.
DYNAMIC_SLOT_INDEX = -1


@dataclass(slots=True)
class TaskManagerSlot:
    """Invariant: `allocation_id` and `job_id` are set in PENDING and ALLOCATED, and None in FREE."""

    index: int
    state: SlotState = SlotState.UNKNOWN
    allocation_id: AllocationID | None = None
    job_id: JobID | None = None
    #: The Python environment that the slot was requested for.
    environment_profile: str = ""
    #: The resources that the slot was requested with; UNKNOWN: it is a default slot.
    resources: ResourceProfile = ResourceProfile.UNKNOWN
    #: the JobMaster it was requested for; None if the allocation is known from reports only
    job_master_id: JobMasterId | None = None
    #: failed requests in a row; slots with failures are chosen last
    num_failed_requests: int = 0
    #: tasks in it, as of the last slot report
    num_tasks: int = 0

    def move_to(
        self,
        state: SlotState,
        allocation_id: AllocationID | None = None,
        job_id: JobID | None = None,
        environment_profile: str = "",
        job_master_id: JobMasterId | None = None,
    ) -> None:
        if (self.state, state) not in SLOT_TRANSITIONS:
            raise InvalidTransitionError(
                f"slot {self.index} cannot go from {self.state.name} to {state.name} "
                f"(allocation {self.allocation_id}, job {self.job_id})"
            )
        self.state = state
        self.allocation_id = allocation_id
        self.job_id = job_id
        self.environment_profile = environment_profile
        self.job_master_id = job_master_id
        self.num_tasks = 0

    def reserved(self) -> None:
        """Moves a PENDING slot to ALLOCATED, with the allocation that was requested."""
        self.move_to(SlotState.ALLOCATED, self.allocation_id, self.job_id, self.environment_profile, self.job_master_id)


@dataclass(slots=True)
class TaskExecutorInfo:
    """One registered TaskExecutor. `idle_since_ms` is None unless all of its slots are FREE."""

    instance_id: InstanceID
    description: TaskExecutorDescription
    #: The default slots, by index.
    slots: list[TaskManagerSlot]
    #: Slots that were cut for requirements with numbers. Never FREE.
    dynamic_slots: list[TaskManagerSlot] = field(default_factory=list)
    #: Failed requests for dynamic slots in a row.
    num_failed_cuts: int = 0
    idle_since_ms: int | None = None
    #: jobs that may hold an UNKNOWN slot here, because the request for it was not answered
    possible_jobs: set[JobID] = field(default_factory=set)
    #: The Python environment of the first slot that was requested here. A process serves one in its life.
    profile: str | None = None
    #: Jobs whose finished results lie on it, as of the report at `reported_ms`.
    jobs_with_partitions: frozenset[JobID] = frozenset()
    reported_ms: int = 0
    #: True if it was told to restart; no more slots are requested from it.
    is_being_renewed: bool = False

    @property
    def resource_id(self) -> ResourceID:
        return self.description.resource_id

    @property
    def all_slots(self) -> list[TaskManagerSlot]:
        """The default slots and the dynamic ones."""
        return [*self.slots, *self.dynamic_slots]

    @property
    def free_resource(self) -> ResourceProfile:
        """The resources that are left for further slots. A default slot in doubt counts as used."""
        used = ResourceProfile.ZERO
        for slot in self.all_slots:
            if slot.state is not SlotState.FREE:
                used = used.merge(self.resources_of(slot))
        return self.description.total.remaining_after(used)

    def resources_of(self, slot: TaskManagerSlot) -> ResourceProfile:
        return self.description.default_slot if slot.resources.is_unknown else slot.resources

    def can_serve(self, resources: ResourceProfile) -> bool:
        """True if enough is left for a slot of these resources."""
        if resources.is_unknown:
            return not self.dynamic_slots or self.free_resource.all_fields_no_less_than(self.description.default_slot)
        return self.free_resource.all_fields_no_less_than(resources)

    @property
    def num_free_slots(self) -> int:
        """The number of default slots that can be allocated."""
        num_free = self.count(SlotState.FREE)
        if not self.dynamic_slots:
            return num_free
        return self.free_resource.num_slots_within(self.description.default_slot, num_free)

    def count(self, state: SlotState) -> int:
        """Returns the number of default slots in a state."""
        return sum(1 for slot in self.slots if slot.state is state)

    @property
    def is_idle(self) -> bool:
        return not self.dynamic_slots and all(slot.state is SlotState.FREE for slot in self.slots)

    @property
    def may_be_released(self) -> bool:
        """True if it is idle, and has reported since then that it holds no results."""
        is_known = self.idle_since_ms is not None and self.reported_ms >= self.idle_since_ms
        return is_known and not self.jobs_with_partitions

    def update_idle_since(self, now_ms: int) -> None:
        """Updates `idle_since_ms`. Must be called after any change of a slot."""
        if not self.is_idle:
            self.idle_since_ms = None
        elif self.idle_since_ms is None:
            self.idle_since_ms = now_ms


class TaskExecutorTracker:
    """The registered TaskExecutors by InstanceID and by ResourceID, in the order of registration."""

    def __init__(self) -> None:
        self._by_instance: dict[InstanceID, TaskExecutorInfo] = {}
        self._by_resource: dict[ResourceID, TaskExecutorInfo] = {}

    def add(self, instance_id: InstanceID, description: TaskExecutorDescription) -> TaskExecutorInfo:
        slots = [TaskManagerSlot(index) for index in range(description.num_slots)]
        info = TaskExecutorInfo(instance_id, description, slots, profile=description.profile)
        self._by_instance[instance_id] = info
        self._by_resource[description.resource_id] = info
        return info

    def remove(self, instance_id: InstanceID) -> TaskExecutorInfo | None:
        info = self._by_instance.pop(instance_id, None)
        if info is not None:
            del self._by_resource[info.resource_id]
        return info

    def find(self, instance_id: InstanceID) -> TaskExecutorInfo | None:
        return self._by_instance.get(instance_id)

    def find_by_resource(self, resource_id: ResourceID) -> TaskExecutorInfo | None:
        return self._by_resource.get(resource_id)

    def __iter__(self) -> Iterator[TaskExecutorInfo]:
        return iter(list(self._by_instance.values()))

    def __len__(self) -> int:
        return len(self._by_instance)

    @property
    def num_slots(self) -> int:
        return sum(len(info.slots) for info in self)

    def count(self, state: SlotState) -> int:
        return sum(info.count(state) for info in self)

    @property
    def num_free_slots(self) -> int:
        return sum(info.num_free_slots for info in self)

    @property
    def total_resource(self) -> ResourceProfile:
        """The sum of the resources of all TaskExecutors."""
        total = ResourceProfile.ZERO
        for info in self:
            total = total.merge(info.description.total)
        return total

    def slots_of_job(self, job_id: JobID) -> list[tuple[TaskExecutorInfo, TaskManagerSlot]]:
        """Returns the slots that are PENDING or ALLOCATED for the job."""
        return [
            (info, slot)
            for info in self._by_instance.values()
            for slot in info.all_slots
            if slot.job_id == job_id and slot.state in (SlotState.PENDING, SlotState.ALLOCATED)
        ]

    def free_slots(self) -> list[tuple[TaskExecutorInfo, TaskManagerSlot]]:
        """Returns the FREE slots. Slots with failed requests come last."""
        free = [
            (info, slot)
            for info in self._by_instance.values()
            for slot in info.slots
            if slot.state is SlotState.FREE and not info.is_being_renewed
        ]
        return sorted(free, key=lambda pair: pair[1].num_failed_requests)

    def validate(self) -> None:
        """Asserts every invariant."""
        assert {i.resource_id for i in self._by_instance.values()} == set(self._by_resource)
        allocations: set[AllocationID] = set()
        for info in self._by_instance.values():
            assert [slot.index for slot in info.slots] == list(range(len(info.slots)))
            assert (info.idle_since_ms is not None) == info.is_idle, info
            for slot in info.dynamic_slots:
                assert slot.index == DYNAMIC_SLOT_INDEX and slot.state is not SlotState.FREE, slot
                assert slot.resources is not ResourceProfile.UNKNOWN, slot
            for slot in info.all_slots:
                held = slot.state in (SlotState.PENDING, SlotState.ALLOCATED)
                assert held == (slot.allocation_id is not None) == (slot.job_id is not None), slot
                if slot.allocation_id is not None:
                    assert slot.allocation_id not in allocations, f"{slot.allocation_id} is held twice"
                    allocations.add(slot.allocation_id)
