from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkpy.common.errors import SlotAllocationError, TaskSubmissionError
from flinkpy.common.ids import AllocationID, JobID
from flinkpy.taskexecutor.slot_table import SlotState, TaskSlotTable

A, B = AllocationID("a"), AllocationID("b")
JOB, OTHER = JobID("job"), JobID("other")


def table(num_slots: int = 2) -> TaskSlotTable:
    return TaskSlotTable(num_slots, slot_timeout_ms=100)


def test_a_requested_slot_is_allocated_until_its_deadline() -> None:
    slots = table()
    assert slots.allocate_slot(0, JOB, A, "", now_ms=5)
    assert slots.slots[0].state is SlotState.ALLOCATED
    assert slots.expired_allocations(104) == []
    assert slots.expired_allocations(105) == [A]


def test_an_active_slot_does_not_expire() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    assert slots.mark_active(A, JOB, 10)
    assert slots.expired_allocations(10_000) == []


def test_a_repeated_request_changes_nothing() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    slots.mark_active(A, JOB, 1)
    assert not slots.allocate_slot(0, JOB, A, "", 50)
    assert slots.slots[0].state is SlotState.ACTIVE


def test_a_taken_slot_names_its_owner() -> None:
    slots = table()
    slots.allocate_slot(1, JOB, A, "", 0)
    with pytest.raises(SlotAllocationError) as caught:
        slots.allocate_slot(1, OTHER, B, "", 0)
    assert caught.value.details == {"slot_index": "1", "allocation_id": "a", "job_id": "job"}


def test_an_allocation_holds_a_single_slot() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    with pytest.raises(SlotAllocationError, match="slot 0"):
        slots.allocate_slot(1, JOB, A, "", 0)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_slot_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(SlotAllocationError, match="does not exist"):
        table().allocate_slot(index, JOB, A, "", 0)


def test_a_slot_with_tasks_is_releasing_until_the_last_has_ended() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    slots.mark_active(A, JOB, 0)
    slots.add_task(A, JOB, "t1")
    slots.add_task(A, JOB, "t2")
    assert slots.free_slot(A, "job ended") is None
    assert slots.slots[0].state is SlotState.RELEASING
    with pytest.raises(TaskSubmissionError):
        slots.add_task(A, JOB, "t3")
    assert slots.remove_task("t1") is None
    freed = slots.remove_task("t2")
    assert freed is not None and (freed.index, freed.allocation_id, freed.job_id) == (0, A, JOB)
    assert slots.slots[0].state is SlotState.FREE


def test_freeing_twice_frees_once() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    assert slots.free_slot(A, "") is not None
    assert slots.free_slot(A, "") is None


def test_a_task_needs_an_active_slot_of_its_own_job() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    with pytest.raises(TaskSubmissionError, match="ALLOCATED"):
        slots.add_task(A, JOB, "t")
    slots.mark_active(A, JOB, 0)
    with pytest.raises(TaskSubmissionError):
        slots.add_task(A, OTHER, "t")


def test_another_job_cannot_activate_a_slot() -> None:
    slots = table()
    slots.allocate_slot(0, JOB, A, "", 0)
    assert not slots.mark_active(A, OTHER, 0)


class SlotTableMachine(RuleBasedStateMachine):
    """Any order of calls keeps the invariants; the free slots are those of a naive model."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TaskSlotTable(3, slot_timeout_ms=10)
        self.now = 0
        self.owners: dict[int, tuple[str, str]] = {}
        self.tasks: dict[str, str] = {}
        self.releasing: set[str] = set()

    allocations = st.sampled_from(["a", "b", "c", "d"])
    jobs = st.sampled_from(["j1", "j2"])
    names = st.sampled_from(["t1", "t2", "t3"])

    def index_of(self, allocation: str) -> int | None:
        return next((i for i, (a, _) in self.owners.items() if a == allocation), None)

    @rule(index=st.integers(0, 2), allocation=allocations, job=jobs)
    def allocate(self, index: int, allocation: str, job: str) -> None:
        try:
            new = self.table.allocate_slot(index, JobID(job), AllocationID(allocation), "", self.now)
        except SlotAllocationError:
            taken = index in self.owners or self.index_of(allocation) is not None
            assert taken
        else:
            assert new == (index not in self.owners)
            self.owners[index] = (allocation, job)

    @rule(allocation=allocations, job=jobs)
    def activate(self, allocation: str, job: str) -> None:
        index = self.index_of(allocation)
        ours = index is not None and self.owners[index][1] == job and allocation not in self.releasing
        assert self.table.mark_active(AllocationID(allocation), JobID(job), self.now) == ours

    @rule(allocation=allocations, job=jobs, name=names)
    def add_task(self, allocation: str, job: str, name: str) -> None:
        if name in self.tasks:
            return
        try:
            self.table.add_task(AllocationID(allocation), JobID(job), name)
        except TaskSubmissionError:
            return
        self.tasks[name] = allocation

    @rule(name=names)
    def end_task(self, name: str) -> None:
        self.table.remove_task(name)
        allocation = self.tasks.pop(name, None)
        if allocation in self.releasing and allocation not in self.tasks.values():
            self.forget(allocation)

    @rule(allocation=allocations)
    def free(self, allocation: str) -> None:
        self.table.free_slot(AllocationID(allocation), "test")
        if allocation in self.tasks.values():
            self.releasing.add(allocation)
        else:
            self.forget(allocation)

    @rule(ms=st.integers(1, 20))
    def expire(self, ms: int) -> None:
        self.now += ms
        for allocation in self.table.expired_allocations(self.now):
            self.table.free_slot(allocation, "expired")
            self.forget(str(allocation))

    def forget(self, allocation: str) -> None:
        index = self.index_of(allocation)
        if index is not None:
            del self.owners[index]
        self.releasing.discard(allocation)

    @invariant()
    def is_valid(self) -> None:
        self.table.validate()
        held = {slot.index: (str(slot.allocation_id), str(slot.job_id)) for slot in self.table.slots if slot.job_id}
        assert held == self.owners


SlotTableMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSlotTableMachine = SlotTableMachine.TestCase
