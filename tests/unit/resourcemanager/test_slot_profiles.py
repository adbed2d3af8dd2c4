"""A process serves one resource profile in its life. Idle processes are renewed if another profile is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_slot_manager import JOB, LEADER, OTHER, Machine, free

from flinkpy.common.ids import InstanceID, JobID, ResourceID
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.resourcemanager.slot_manager import (
    RENEWAL_RETRY_MS,
    JobRequirements,
    RenewTaskExecutor,
    RequestSlot,
    ResourceRequirement,
    ScheduleRequirementsCheck,
    SlotManagerEffect,
)
from flinkpy.resourcemanager.task_executor_tracker import TaskExecutorDescription

BLUE, RED = "python-environment:blue", "python-environment:red"


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine(slots_per_worker=2)
    yield machine
    machine.validate()


def need(
    machine: Machine, num_slots: int, profile: str, job: JobID = JOB, sequence: int = 1
) -> list[SlotManagerEffect]:
    machine.run(machine.job_master_connected(job, LEADER, machine.now_ms))
    needed = (ResourceRequirement(num_slots, profile),) if num_slots else ()
    return machine.run(
        machine.declare_requirements(JobRequirements(job, LEADER, "jm:1", needed, sequence), machine.now_ms)
    )


def end(machine: Machine, *requests: SlotManagerEffect, job: JobID = JOB) -> list[SlotManagerEffect]:
    """The job is over and its slots are free."""
    machine.run(machine.job_terminated(job, machine.now_ms))
    effects: list[SlotManagerEffect] = []
    for request in requests:
        assert isinstance(request, RequestSlot)
        effects += machine.run(
            machine.notify_slot_available(
                request.instance_id, request.slot_index, request.allocation_id, machine.now_ms
            )
        )
    return effects


def instances(effects: list[SlotManagerEffect]) -> list[InstanceID]:
    return [effect.instance_id for effect in effects if isinstance(effect, RequestSlot)]


def test_a_slot_request_carries_the_profile_and_dedicates_its_process(machine: Machine) -> None:
    first, second = machine.executor("a", 2), machine.executor("b", 2)
    (request,) = need(machine, 1, BLUE)
    assert isinstance(request, RequestSlot)
    assert (request.environment_profile, request.instance_id) == (BLUE, first)
    assert instances(need(machine, 1, RED, OTHER)) == [second]


def test_slots_of_one_profile_are_taken_from_processes_with_that_profile(machine: Machine) -> None:
    first, second = machine.executor("a", 2), machine.executor("b", 2)
    need(machine, 1, "")
    assert instances(need(machine, 2, BLUE, OTHER)) == [second, second]
    assert instances(need(machine, 1, "", JobID("third"))) == [first]


def test_an_idle_process_of_another_profile_is_renewed(machine: Machine) -> None:
    instance = machine.executor("a", 2)
    (request,) = need(machine, 1, BLUE)
    assert end(machine, request) == []
    assert need(machine, 1, RED, OTHER) == [RenewTaskExecutor(instance)]
    assert machine.num_needed_workers == 0  # it comes back
    machine.run(machine.remove_task_executor(instance, "it begins anew", machine.now_ms))
    anew = machine.executor("a", 2, pid=2, reported=False)
    effects = machine.run(machine.process_slot_report(anew, free(2), machine.now_ms))
    assert instances(effects) == [anew]


def test_an_idle_process_is_not_renewed_for_a_requirement_that_it_is_too_small_for(machine: Machine) -> None:
    instance, total = InstanceID("a-1"), ResourceProfile(4, 1000)
    described = TaskExecutorDescription(
        ResourceID("a"), "a:1", "a:2", 1, "host", 2, total=total, default_slot=total.divide(2)
    )
    machine.run(machine.register_task_executor(instance, described, machine.now_ms))
    machine.run(machine.process_slot_report(instance, free(2), machine.now_ms))
    (request,) = need(machine, 1, BLUE)
    end(machine, request)
    machine.run(machine.job_master_connected(OTHER, LEADER, machine.now_ms))
    for sequence, cores, renewals in ((1, 5, []), (2, 4, [RenewTaskExecutor(instance)])):
        needed = (ResourceRequirement(1, RED, ResourceProfile(cores)),)
        declared = JobRequirements(OTHER, LEADER, "jm:1", needed, sequence)
        effects = machine.run(machine.declare_requirements(declared, machine.now_ms))
        assert [effect for effect in effects if isinstance(effect, RenewTaskExecutor)] == renewals


def test_a_plain_job_does_not_run_in_a_process_with_packages_of_another_job(machine: Machine) -> None:
    instance = machine.executor("a", 2)
    (request,) = need(machine, 1, BLUE)
    end(machine, request)
    assert need(machine, 1, "", OTHER) == [RenewTaskExecutor(instance)]


def test_a_process_in_use_is_left_alone_and_more_workers_are_declared(machine: Machine) -> None:
    instance = machine.executor("a", 2)
    (request,) = need(machine, 1, BLUE)
    assert need(machine, 1, RED, OTHER) == []
    assert machine.num_needed_workers == 1
    assert end(machine, request) == [RenewTaskExecutor(instance)]


def test_no_more_processes_are_renewed_than_needed(machine: Machine) -> None:
    names = ["a", "b", "c"]
    for name in names:
        machine.executor(name, 2)
    requests = need(machine, 6, BLUE)
    end(machine, *requests)
    assert len(need(machine, 3, RED, OTHER)) == 2
    assert need(machine, 3, RED, OTHER, sequence=2) == []  # they are on their way


def test_no_slot_is_requested_from_a_process_that_is_being_renewed(machine: Machine) -> None:
    machine.executor("a", 2)
    (request,) = need(machine, 1, BLUE)
    end(machine, request)
    need(machine, 1, RED, OTHER)
    assert need(machine, 1, BLUE, JobID("third")) == []


def test_a_process_that_could_not_be_renewed_is_asked_again_later(machine: Machine) -> None:
    instance = machine.executor("a", 2)
    (request,) = need(machine, 1, BLUE)
    end(machine, request)
    need(machine, 1, RED, OTHER)
    assert machine.renewal_failed(instance) == [ScheduleRequirementsCheck(RENEWAL_RETRY_MS)]
    assert machine.run(machine.check_requirements(machine.now_ms)) == [RenewTaskExecutor(instance)]
    assert machine.renewal_failed(InstanceID("gone")) == []


def test_the_registration_of_a_process_contains_its_profile(machine: Machine) -> None:
    described = TaskExecutorDescription(ResourceID("a"), "a:1", "a:2", 1, "host", 1, profile=BLUE)
    instance = InstanceID("i")
    machine.run(machine.register_task_executor(instance, described, machine.now_ms))
    machine.run(machine.process_slot_report(instance, free(1), machine.now_ms))
    (request,) = need(machine, 1, BLUE)
    assert instances([request]) == [instance]
    end(machine, request)
    assert need(machine, 1, "", OTHER) == [RenewTaskExecutor(instance)]
