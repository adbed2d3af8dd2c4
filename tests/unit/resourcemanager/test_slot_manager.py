from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from flinkpy.common.errors import InvalidTransitionError
from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID
from flinkpy.resourcemanager.slot_manager import (
    DeclareNeededWorkers,
    FreeSlot,
    JobRequirements,
    NotifyTaskExecutorLost,
    ReleaseWorker,
    RequestSlot,
    RequestSlotReport,
    ResourceRequirement,
    ScheduleRequirementsCheck,
    SlotManager,
    SlotManagerEffect,
    SlotManagerOptions,
)
from flinkpy.resourcemanager.task_executor_tracker import (
    SlotState,
    SlotStatus,
    TaskExecutorDescription,
    TaskManagerSlot,
)

JOB, OTHER = JobID("job"), JobID("other")
LEADER, NEW = JobMasterId("leader"), JobMasterId("new")


class Machine(SlotManager):
    """A SlotManager whose requirement checks run at once. `effects` contains all effects except the checks."""

    def __init__(self, **options: object) -> None:
        ids = itertools.count(1)
        super().__init__(
            SlotManagerOptions(requirements_check_delay_ms=0, **options),  # type: ignore[arg-type]
            lambda: AllocationID(f"alloc-{next(ids)}"),
        )
        self.effects: list[SlotManagerEffect] = []
        self.num_needed_workers = 0
        self.now_ms = 0

    def run(self, effects: list[SlotManagerEffect]) -> list[SlotManagerEffect]:
        """Runs effects. Returns those that are calls to others."""
        done: list[SlotManagerEffect] = []
        pending = list(effects)
        while pending:
            effect = pending.pop(0)
            if isinstance(effect, ScheduleRequirementsCheck):
                pending += self.check_requirements(self.now_ms)
            elif isinstance(effect, DeclareNeededWorkers):
                self.num_needed_workers = effect.num_workers
            else:
                done.append(effect)
        self.effects += done
        self.validate()
        return done

    def executor(self, name: str, slots: int = 1, pid: int = 1, reported: bool = True) -> InstanceID:
        instance = InstanceID(f"{name}-{pid}")
        self.run(self.register_task_executor(instance, description(name, slots, pid), self.now_ms))
        if reported:
            self.run(self.process_slot_report(instance, free(slots), self.now_ms))
        return instance

    def need(self, num_slots: int, job: JobID = JOB, sequence: int = 1) -> list[SlotManagerEffect]:
        self.run(self.job_master_connected(job, LEADER, self.now_ms))
        return self.run(self.declare_requirements(requirements(num_slots, job, sequence), self.now_ms))

    def acknowledge(self, request: SlotManagerEffect) -> list[SlotManagerEffect]:
        assert isinstance(request, RequestSlot)
        return self.run(self.slot_request_acknowledged(request.instance_id, request.slot_index, request.allocation_id))

    def fail(self, request: SlotManagerEffect) -> list[SlotManagerEffect]:
        assert isinstance(request, RequestSlot)
        return self.run(
            self.slot_request_failed(request.instance_id, request.slot_index, request.allocation_id, self.now_ms)
        )

    def states(self) -> list[SlotState]:
        return [slot.state for info in self.task_executors for slot in info.slots]


def description(name: str, slots: int = 1, pid: int = 1) -> TaskExecutorDescription:
    return TaskExecutorDescription(ResourceID(name), f"{name}:1", f"{name}:2", pid, "host", slots)


def free(slots: int) -> list[SlotStatus]:
    return [SlotStatus(index) for index in range(slots)]


def held(allocation: str, job: JobID = JOB, index: int = 0) -> SlotStatus:
    return SlotStatus(index, AllocationID(allocation), job)


def requirements(num_slots: int, job: JobID = JOB, sequence: int = 1) -> JobRequirements:
    needed = (ResourceRequirement(num_slots),) if num_slots else ()
    return JobRequirements(job, LEADER, "jm:1", needed, sequence)


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.validate()


def requests(effects: list[SlotManagerEffect]) -> list[RequestSlot]:
    return [effect for effect in effects if isinstance(effect, RequestSlot)]


def test_a_requirement_gets_a_free_slot_that_is_pending_until_acknowledged(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    assert request == RequestSlot(instance, 0, JOB, AllocationID("alloc-1"), "", "jm:1", LEADER)
    assert machine.states() == [SlotState.PENDING]
    assert machine.acknowledge(request) == []
    assert machine.states() == [SlotState.ALLOCATED]


def test_slots_are_not_used_before_the_first_report(machine: Machine) -> None:
    instance = machine.executor("te", reported=False)
    assert machine.need(1) == []
    assert len(requests(machine.run(machine.process_slot_report(instance, free(1), 0)))) == 1


def test_an_older_or_repeated_declaration_is_ignored(machine: Machine) -> None:
    machine.executor("te", slots=4)
    assert len(machine.need(2, sequence=5)) == 2
    assert machine.need(4, sequence=4) == []
    assert machine.need(4, sequence=5) == []
    assert len(machine.need(3, sequence=6)) == 1


def test_a_declaration_that_arrives_after_the_end_of_its_job_is_ignored(machine: Machine) -> None:
    machine.executor("te")
    machine.need(0)
    machine.run(machine.job_terminated(JOB, 0))
    assert machine.run(machine.declare_requirements(requirements(1, sequence=9), 0)) == []


def test_a_lowered_requirement_takes_no_slot_away(machine: Machine) -> None:
    machine.executor("te", slots=2)
    for request in machine.need(2):
        machine.acknowledge(request)
    assert machine.need(0, sequence=2) == []
    assert machine.states() == [SlotState.ALLOCATED] * 2


def test_declarations_in_quick_succession_share_one_check() -> None:
    machine = SlotManager(SlotManagerOptions(requirements_check_delay_ms=50), AllocationID.generate)
    assert machine.job_master_connected(JOB, LEADER, 0) == [ScheduleRequirementsCheck(0)]
    assert machine.declare_requirements(requirements(1), 1) == []
    machine.check_requirements(2)
    assert machine.declare_requirements(requirements(2, sequence=2), 12) == [ScheduleRequirementsCheck(40)]
    assert machine.declare_requirements(requirements(3, sequence=3), 13) == []


def test_jobs_are_served_in_the_order_they_declared(machine: Machine) -> None:
    machine.need(1, JOB)
    machine.need(1, OTHER)
    machine.executor("te")
    (request,) = requests(machine.effects)
    assert request.job_id == JOB


def test_a_refused_request_is_retried_with_another_slot_and_the_first_waits_for_a_report(machine: Machine) -> None:
    first, second = machine.executor("te-1"), machine.executor("te-2")
    (request,) = machine.need(1)
    report, retry = machine.fail(request)
    assert report == RequestSlotReport(first)
    assert isinstance(retry, RequestSlot) and retry.instance_id == second
    assert machine.states() == [SlotState.UNKNOWN, SlotState.PENDING]


def test_the_slot_report_decides_the_state_of_a_slot_after_a_failed_request(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.fail(request)
    (retry,) = requests(machine.run(machine.process_slot_report(instance, free(1), 0)))
    assert retry.allocation_id != request.allocation_id  # type: ignore[union-attr]
    machine.fail(retry)
    machine.run(machine.process_slot_report(instance, [held("alloc-2")], 0))
    assert machine.states() == [SlotState.ALLOCATED]
    assert machine.num_needed_workers == 0


def test_late_and_repeated_answers_to_a_settled_request_change_nothing(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    assert machine.acknowledge(request) == []
    assert machine.fail(request) == []
    assert machine.states() == [SlotState.ALLOCATED]
    machine.need(0, sequence=2)
    machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 0))
    assert machine.acknowledge(request) == []
    assert machine.states() == [SlotState.FREE]


def test_a_pending_slot_reported_free_stays_pending(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    assert machine.run(machine.process_slot_report(instance, free(1), 0)) == []
    assert machine.states() == [SlotState.PENDING]
    machine.acknowledge(request)


def test_a_report_may_acknowledge_a_request_before_its_answer(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.run(machine.process_slot_report(instance, [held("alloc-1")], 0))
    assert machine.states() == [SlotState.ALLOCATED]
    assert machine.acknowledge(request) == []


def test_an_allocated_slot_reported_free_is_allocated_again(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    (again,) = machine.run(machine.process_slot_report(instance, free(1), 0))
    assert isinstance(again, RequestSlot) and again.allocation_id == AllocationID("alloc-2")


def test_a_pending_slot_reported_for_another_allocation_is_taken_over(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.run(machine.process_slot_report(instance, [held("foreign", OTHER)], 0))
    assert machine.states() == [SlotState.ALLOCATED]
    assert machine.fail(request) == []
    assert machine.num_needed_workers == 1


def test_slot_available_frees_only_the_allocation_it_names(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    assert machine.run(machine.notify_slot_available(instance, 0, AllocationID("former"), 0)) == []
    assert machine.run(machine.notify_slot_available(instance, 7, AllocationID("alloc-1"), 0)) == []
    assert machine.states() == [SlotState.ALLOCATED]
    machine.need(0, sequence=2)
    machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 0))
    machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 0))
    assert machine.states() == [SlotState.FREE]


def test_slots_of_an_ended_job_are_freed_even_if_reported_later(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    assert machine.run(machine.job_terminated(JOB, 0)) == [
        FreeSlot(instance, AllocationID("alloc-1"), JOB, "the job has terminated")
    ]
    (again,) = machine.run(machine.process_slot_report(instance, [held("alloc-1")], 0))
    assert isinstance(again, FreeSlot)
    machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 0))
    assert machine.states() == [SlotState.FREE]


def test_a_slot_whose_job_ended_during_the_request_is_freed_on_acknowledgement(machine: Machine) -> None:
    machine.executor("te")
    (request,) = machine.need(1)
    machine.run(machine.job_terminated(JOB, 0))
    (effect,) = machine.acknowledge(request)
    assert isinstance(effect, FreeSlot)


def test_a_job_wrongly_assumed_to_have_ended_keeps_its_slots_when_it_registers_again(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    machine.run(machine.job_terminated(JOB, 0))
    machine.need(1, sequence=2)
    assert machine.run(machine.process_slot_report(instance, [held("alloc-1")], 0)) == []


def test_slots_of_an_unknown_job_are_kept_until_its_job_master_times_out() -> None:
    machine = Machine(unknown_job_timeout_ms=1_000)
    instance = machine.executor("te")
    assert machine.run(machine.process_slot_report(instance, [held("old")], 0)) == []
    machine.run(machine.process_slot_report(instance, [held("old")], 900))
    assert machine.run(machine.check_timeouts(999, lambda _: False)) == []
    (effect,) = machine.run(machine.check_timeouts(1_000, lambda _: False))
    assert isinstance(effect, FreeSlot) and effect.job_id == JOB


def test_a_job_master_that_registers_in_time_keeps_the_reported_slots_of_its_job() -> None:
    machine = Machine(unknown_job_timeout_ms=1_000)
    instance = machine.executor("te")
    machine.run(machine.process_slot_report(instance, [held("old")], 0))
    assert requests(machine.need(1)) == []
    machine.run(machine.process_slot_report(instance, [held("old")], 500))
    assert machine.run(machine.check_timeouts(5_000, lambda _: False)) == []


def test_a_suspended_job_gets_no_more_slots_until_it_is_back(machine: Machine) -> None:
    machine.need(1)
    machine.run(machine.suspend_job(JOB))
    machine.executor("te")
    assert machine.effects == []
    (request,) = machine.run(machine.job_master_connected(JOB, LEADER, 0))
    assert isinstance(request, RequestSlot)


def test_requirements_of_a_former_leader_are_dropped_when_a_new_one_connects(machine: Machine) -> None:
    machine.need(1)
    machine.run(machine.job_master_connected(JOB, NEW, 0))
    machine.executor("te")
    assert machine.effects == []


def test_slots_requested_for_a_former_leader_are_freed_for_its_successor(machine: Machine) -> None:
    """The TaskExecutor would offer the slot to the former JobMaster until it gives up."""
    instance = machine.executor("te", slots=2)
    has_answered, on_its_way = machine.need(2)
    machine.acknowledge(has_answered)
    assert machine.run(machine.job_master_connected(JOB, NEW, 0)) == []  # it may have died since
    declared = JobRequirements(JOB, NEW, "jm:2", (ResourceRequirement(2),), 1)
    freed = machine.run(machine.declare_requirements(declared, 0))
    reason = "JobMaster leader was replaced"
    assert freed == [FreeSlot(instance, AllocationID("alloc-1"), JOB, reason)]
    assert machine.acknowledge(on_its_way) == [FreeSlot(instance, AllocationID("alloc-2"), JOB, reason)]
    again, first = machine.run(machine.process_slot_report(instance, [held("alloc-1"), SlotStatus(1)], 0))
    assert again == freed[0]  # that call was lost
    (second,) = machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 0))
    assert [request.job_master_id for request in requests([first, second])] == [NEW, NEW]


def test_slots_whose_tasks_a_new_job_master_continues_become_its_own(machine: Machine) -> None:
    instance = machine.executor("te", 2)
    first, second = machine.need(2)
    machine.acknowledge(first)
    machine.acknowledge(second)
    machine.run(machine.job_master_connected(JOB, NEW, 0))
    adopted = frozenset({first.allocation_id})
    declared = JobRequirements(JOB, NEW, "jm:2", (ResourceRequirement(1),), 1, adopted=adopted)
    freed = machine.run(machine.declare_requirements(declared, 0))
    assert freed == [FreeSlot(instance, second.allocation_id, JOB, "JobMaster leader was replaced")]
    later = JobRequirements(JOB, NEW, "jm:2", (ResourceRequirement(2),), 2)
    assert freed == machine.run(machine.declare_requirements(later, 0)), "the adopted slot is freed"


def test_slots_requested_by_another_resource_manager_are_not_freed_at_a_registration(machine: Machine) -> None:
    instance = machine.executor("te", reported=False)
    machine.run(machine.process_slot_report(instance, [held("taken-over")], 0))
    assert machine.run(machine.job_master_connected(JOB, LEADER, 0)) == []
    assert machine.run(machine.job_master_connected(JOB, NEW, 0)) == []
    declared = JobRequirements(JOB, NEW, "jm:2", (ResourceRequirement(1),), 1)
    assert machine.run(machine.declare_requirements(declared, 0)) == []


def test_a_slot_has_the_tasks_of_the_last_report_until_it_is_given_away(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    (info,) = machine.task_executors
    for num_tasks in (3, 2):
        report = SlotStatus(0, request.allocation_id, JOB, num_tasks)
        machine.run(machine.process_slot_report(instance, [report], 0))
        assert info.slots[0].num_tasks == num_tasks
    machine.run(machine.notify_slot_available(instance, 0, request.allocation_id, 0))
    assert info.slots[0].num_tasks == 0


def test_the_loss_of_a_task_executor_is_reported_to_its_jobs_and_replaced(machine: Machine) -> None:
    lost, other = machine.executor("te-1"), machine.executor("te-2")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    told, again = machine.run(machine.remove_task_executor(lost, "gone", 0))
    assert told == NotifyTaskExecutorLost(JOB, ResourceID("te-1"), "gone")
    assert isinstance(again, RequestSlot) and again.instance_id == other
    assert machine.run(machine.remove_task_executor(lost, "gone", 0)) == []


def test_the_loss_is_reported_to_a_job_that_may_hold_an_unknown_slot(machine: Machine) -> None:
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.fail(request)
    assert NotifyTaskExecutorLost(JOB, ResourceID("te"), "gone") in machine.run(
        machine.remove_task_executor(instance, "gone", 0)
    )


def test_messages_of_a_former_registration_change_nothing(machine: Machine) -> None:
    former = machine.executor("te", pid=1)
    (request,) = machine.need(1)
    machine.executor("te", pid=2)
    before = machine.states()
    assert machine.acknowledge(request) == []
    assert machine.fail(request) == []
    assert machine.run(machine.process_slot_report(former, [held("x")], 0)) == []
    assert machine.run(machine.notify_slot_available(former, 0, AllocationID("alloc-1"), 0)) == []
    assert machine.states() == before


def test_a_new_process_with_an_old_name_counts_as_a_loss_and_the_same_process_does_not(machine: Machine) -> None:
    machine.executor("te", pid=1)
    (request,) = machine.need(1)
    machine.acknowledge(request)
    same = description("te", pid=1)
    assert machine.run(machine.register_task_executor(InstanceID("again"), same, 0)) == []
    machine.run(machine.process_slot_report(InstanceID("again"), [held("alloc-1")], 0))
    told = machine.run(machine.register_task_executor(InstanceID("new"), description("te", pid=2), 0))
    assert [type(effect) for effect in told] == [NotifyTaskExecutorLost]
    assert len(machine.task_executors) == 1


def test_missing_slots_are_declared_as_workers_rounded_up_and_within_the_limit() -> None:
    machine = Machine(slots_per_worker=2, max_slots=6)
    machine.need(3)
    assert machine.num_needed_workers == 2
    machine.need(50, sequence=2)
    assert machine.num_needed_workers == 3
    machine.executor("te", slots=2)
    assert machine.num_needed_workers == 2


def test_slots_that_are_not_reported_yet_count_as_pending() -> None:
    machine = Machine()
    machine.need(2)
    machine.executor("te", reported=False)
    machine.need(2, sequence=2)
    assert machine.num_needed_workers == 1


def test_minimum_and_redundant_workers_are_requested_without_a_job() -> None:
    minimum = Machine(min_slots=3, slots_per_worker=2)
    minimum.run(minimum.check_requirements(0))
    assert minimum.num_needed_workers == 2
    spare = Machine(redundant_workers=1)
    spare.run(spare.check_requirements(0))
    assert spare.num_needed_workers == 1


def test_a_new_task_executor_beyond_the_limit_is_refused_and_a_known_one_is_not() -> None:
    machine = Machine(max_slots=2)
    machine.executor("te", slots=2)
    assert not machine.can_register(description("more"))
    assert machine.can_register(description("te", slots=2))


def test_idle_workers_are_released_down_to_the_minimum() -> None:
    machine = Machine(task_manager_timeout_ms=1_000, min_slots=1)
    for name in ("te-1", "te-2", "te-3"):
        machine.executor(name)
    assert machine.run(machine.check_timeouts(999, lambda _: True)) == []
    released = machine.run(machine.check_timeouts(1_000, lambda resource: resource != ResourceID("te-1")))
    assert [effect.resource_id.value for effect in released if isinstance(effect, ReleaseWorker)] == ["te-2", "te-3"]
    assert machine.run(machine.check_timeouts(9_000, lambda _: True)) == []


def test_a_worker_used_in_between_is_not_idle() -> None:
    machine = Machine(task_manager_timeout_ms=1_000)
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    assert machine.run(machine.check_timeouts(5_000, lambda _: True)) == []
    machine.need(0, sequence=2)
    machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 6_000))
    machine.run(machine.process_slot_report(instance, free(1), 6_100))
    assert machine.run(machine.check_timeouts(6_500, lambda _: True)) == []
    assert len(machine.run(machine.check_timeouts(7_000, lambda _: True))) == 1


def test_a_worker_that_holds_results_of_a_job_is_not_released() -> None:
    machine = Machine(task_manager_timeout_ms=1_000)
    instance = machine.executor("te")
    (request,) = machine.need(1)
    machine.acknowledge(request)
    machine.need(0, sequence=2)
    machine.run(machine.notify_slot_available(instance, 0, AllocationID("alloc-1"), 6_000))
    assert machine.run(machine.check_timeouts(7_500, lambda _: True)) == [], "the process has not reported its slots"
    machine.run(machine.process_slot_report(instance, free(1), 7_600, frozenset({JOB})))
    assert machine.run(machine.check_timeouts(9_000, lambda _: True)) == []
    machine.run(machine.process_slot_report(instance, free(1), 9_100))
    assert len(machine.run(machine.check_timeouts(9_200, lambda _: True))) == 1


def test_the_redundant_worker_is_kept() -> None:
    machine = Machine(task_manager_timeout_ms=1_000, redundant_workers=1)
    machine.executor("te-1")
    machine.executor("te-2")
    assert len(machine.run(machine.check_timeouts(1_000, lambda _: True))) == 1


def test_slots_are_spread_out_if_configured_and_filled_up_otherwise() -> None:
    for spread_out, expected in ((False, ["te-1", "te-1"]), (True, ["te-1", "te-2"])):
        machine = Machine(spread_out=spread_out)
        machine.executor("te-1", slots=2)
        machine.executor("te-2", slots=2)
        chosen = [request.instance_id.value[:4] for request in requests(machine.need(2))]
        assert chosen == expected


def test_slot_requests_contain_the_profile_and_a_job_gets_no_more_than_it_declared(machine: Machine) -> None:
    instance = machine.executor("te", slots=4)
    machine.run(machine.process_slot_report(instance, [held("old"), *free(4)[1:]], 0))
    machine.run(machine.job_master_connected(JOB, LEADER, 0))
    needed = (ResourceRequirement(1, "small"), ResourceRequirement(1, "large"))
    effects = machine.run(machine.declare_requirements(JobRequirements(JOB, LEADER, "jm:1", needed, 1), 0))
    assert [request.environment_profile for request in requests(effects)] == ["small"]


def test_a_report_of_slots_that_do_not_exist_is_ignored(machine: Machine) -> None:
    instance = machine.executor("te")
    assert machine.run(machine.process_slot_report(instance, [held("x", index=5), held("y", index=-1)], 0)) == []


def test_an_impossible_transition_names_the_slot() -> None:
    slot = TaskManagerSlot(3)
    with pytest.raises(InvalidTransitionError, match="slot 3 cannot go from UNKNOWN to PENDING"):
        slot.move_to(SlotState.PENDING, AllocationID("a"), JOB)


def staged(num_slots: int, num_at_once: int) -> JobRequirements:
    return JobRequirements(JOB, LEADER, "jm:1", (ResourceRequirement(num_slots),), 1, num_at_once=num_at_once)


def test_a_job_of_stages_has_workers_started_for_its_widest_stage_only(machine: Machine) -> None:
    machine.run(machine.job_master_connected(JOB, LEADER, machine.now_ms))
    machine.run(machine.declare_requirements(staged(10, 3), machine.now_ms))
    assert machine.num_needed_workers == 3


def test_a_job_of_stages_gets_all_the_slots_that_are_there(machine: Machine) -> None:
    machine.executor("te", slots=5)
    machine.run(machine.job_master_connected(JOB, LEADER, machine.now_ms))
    assert len(requests(machine.run(machine.declare_requirements(staged(10, 3), machine.now_ms)))) == 5
    assert machine.num_needed_workers == 0


def test_a_job_gets_no_slot_of_a_task_executor_that_it_blocks(machine: Machine) -> None:
    machine.executor("slow")
    machine.run(machine.job_master_connected(JOB, LEADER, 0))
    declared = requirements(1)
    declared.blocked = frozenset({ResourceID("slow")})
    assert machine.run(machine.declare_requirements(declared, 0)) == []
    assert machine.num_needed_workers == 1, "another one is asked for"
    machine.executor("fast")
    assert [request.instance_id.value for request in requests(machine.effects)] == ["fast-1"]
