"""Slots with numbers are cut from what a TaskExecutor has left, or refused with what there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_slot_manager import JOB, LEADER, Machine, free, requests

from flinkpy.common.ids import AllocationID, InstanceID, JobID, ResourceID
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.resourcemanager.resource_limits import ResourceLimits
from flinkpy.resourcemanager.slot_manager import (
    JobRequirements,
    NotifyNotEnoughResources,
    RequestSlot,
    ResourceRequirement,
    SlotManagerEffect,
)
from flinkpy.resourcemanager.task_executor_tracker import DYNAMIC_SLOT_INDEX, SlotStatus, TaskExecutorDescription

MB = 1 << 20
TOTAL = ResourceProfile(4, 1000 * MB, managed_bytes=400 * MB)
SLOT = TOTAL.divide(2)
SMALL = ResourceProfile(1.5, 300 * MB)
DEFAULT = ResourceProfile.UNKNOWN


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine(slots_per_worker=2, worker_total=TOTAL, worker_slot=SLOT)
    yield machine
    machine.validate()


def register(machine: Machine, name: str = "te", pid: int = 1, total: ResourceProfile = TOTAL) -> InstanceID:
    instance = InstanceID(f"{name}-{pid}")
    described = TaskExecutorDescription(
        ResourceID(name), f"{name}:1", f"{name}:2", pid, "host", 2, total=total, default_slot=total.divide(2)
    )
    machine.run(machine.register_task_executor(instance, described, machine.now_ms))
    machine.run(machine.process_slot_report(instance, free(2), machine.now_ms))
    return instance


def need(
    machine: Machine, *wanted: tuple[ResourceProfile, int], job: JobID = JOB, sequence: int = 1
) -> list[SlotManagerEffect]:
    machine.run(machine.job_master_connected(job, LEADER, machine.now_ms))
    needed = tuple(ResourceRequirement(number, resources=resources) for resources, number in wanted)
    return machine.run(
        machine.declare_requirements(JobRequirements(job, LEADER, "jm:1", needed, sequence), machine.now_ms)
    )


def reported(request: RequestSlot, index: int) -> SlotStatus:
    return SlotStatus(index, request.allocation_id, request.job_id, 1, request.resources)


def of_type(effects: list[SlotManagerEffect], kind: type) -> list[SlotManagerEffect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_a_slot_of_the_wanted_resources_is_cut_while_they_last(machine: Machine) -> None:
    instance = register(machine)
    effects = need(machine, (SMALL, 3))
    cut = requests(effects)
    assert [(one.slot_index, one.resources) for one in cut] == [(DYNAMIC_SLOT_INDEX, SMALL)] * 2
    assert machine.num_needed_workers == 1, "the third needs another worker"
    (info,) = machine.task_executors
    assert info.free_resource == ResourceProfile(1, 400 * MB, managed_bytes=400 * MB)
    assert info.num_free_slots == 0, "what is left is less than a default slot"
    assert info.instance_id == instance


def test_default_slots_and_cut_ones_share_the_resources_of_a_process(machine: Machine) -> None:
    register(machine)
    effects = need(machine, (SMALL, 1), (DEFAULT, 2))
    assert [one.slot_index for one in requests(effects)] == [DYNAMIC_SLOT_INDEX, 0]
    assert machine.num_needed_workers == 1


def test_a_freed_dynamic_slot_gives_its_resources_back(machine: Machine) -> None:
    instance = register(machine)
    (request,) = requests(need(machine, (SMALL, 1)))
    machine.acknowledge(request)
    machine.run(machine.process_slot_report(instance, [*free(2), reported(request, 7)], 1))
    (info,) = machine.task_executors
    assert not info.is_idle and len(info.dynamic_slots) == 1
    machine.run(machine.notify_slot_available(instance, 7, AllocationID("unknown"), 2))
    assert len(info.dynamic_slots) == 1
    need(machine, sequence=2)
    machine.run(machine.notify_slot_available(instance, 7, request.allocation_id, 3))
    assert info.is_idle and info.free_resource == TOTAL


def test_a_report_shows_dynamic_slots_to_a_new_slot_manager(machine: Machine) -> None:
    instance = register(machine)
    held = SlotStatus(5, AllocationID("old"), JOB, 1, SMALL)
    machine.run(machine.process_slot_report(instance, [*free(2), held], 1))
    assert not requests(need(machine, (SMALL, 1))), "the job holds the slot that it needs"
    (info,) = machine.task_executors
    assert info.free_resource == TOTAL.subtract(SMALL)
    assert machine.run(machine.process_slot_report(instance, free(2), 2)), "the slot is gone: another one is cut"
    assert len(info.dynamic_slots) == 1


def test_a_request_without_an_answer_keeps_its_resources_until_the_next_report(machine: Machine) -> None:
    instance, other = register(machine, "a"), register(machine, "b")
    (request,) = requests(need(machine, (SMALL, 1)))
    assert request.instance_id == instance
    (again,) = requests(machine.fail(request))
    assert again.instance_id == other, "another process is preferred"
    info = machine.task_executors.find(instance)
    assert info is not None and info.free_resource == TOTAL.subtract(SMALL)
    machine.run(machine.process_slot_report(instance, free(2), 5))
    assert info.free_resource == TOTAL


def test_a_late_report_does_not_remove_a_slot_that_was_just_requested(machine: Machine) -> None:
    instance = register(machine)
    (request,) = requests(need(machine, (SMALL, 1)))
    machine.run(machine.process_slot_report(instance, free(2), 5))
    machine.acknowledge(request)
    assert len(machine.task_executors.slots_of_job(JOB)) == 1


def test_a_requirement_that_no_worker_could_meet_is_refused_with_what_there_is(machine: Machine) -> None:
    register(machine)
    huge = ResourceProfile(64, 200 * MB, external=(("gpu", 8.0),))
    effects = need(machine, (huge, 2), (SMALL, 1))
    (refusal,) = of_type(effects, NotifyNotEnoughResources)
    assert isinstance(refusal, NotifyNotEnoughResources) and refusal.resources == huge
    assert refusal.reason == (
        "no TaskExecutor has as much: the best one has CPU cores: 4, gpu: 0, which lacks CPU cores: 60, gpu: 8"
    )
    assert [one.resources for one in requests(effects)] == [SMALL]
    assert machine.num_needed_workers == 0


def test_without_a_driver_nothing_is_refused_before_task_executors_had_time_to_come() -> None:
    machine = Machine(has_driver=False)
    assert not of_type(need(machine, (SMALL, 1)), NotifyNotEnoughResources)
    (refusal,) = of_type(machine.run(machine.allow_refusals(9)), NotifyNotEnoughResources)
    assert isinstance(refusal, NotifyNotEnoughResources) and refusal.reason == "there is no TaskExecutor"


def test_workers_stay_within_the_maximum_of_cpu_and_memory() -> None:
    machine = Machine(
        slots_per_worker=2, worker_total=TOTAL, worker_slot=SLOT, limits=ResourceLimits(max_cpu_cores=8.0)
    )
    effects = need(machine, (SMALL, 5))
    assert machine.num_needed_workers == 2
    (refusal,) = of_type(effects, NotifyNotEnoughResources)
    assert isinstance(refusal, NotifyNotEnoughResources)
    assert "slotmanager.max-total-resource.cpu = 8" in refusal.reason
    register(machine, "a")
    register(machine, "b")
    third = TaskExecutorDescription(ResourceID("c"), "c:1", "c:2", 1, "host", 2, total=TOTAL, default_slot=SLOT)
    assert machine.limit_exceeded_by(third) == "slotmanager.max-total-resource.cpu = 8"


def test_the_minimum_of_memory_keeps_workers_without_demand() -> None:
    limits = ResourceLimits(min_memory_bytes=3 * TOTAL.total_memory_bytes)
    machine = Machine(slots_per_worker=2, worker_total=TOTAL, worker_slot=SLOT, limits=limits)
    machine.run(machine.check_requirements(0))
    assert machine.num_needed_workers == 3


def test_workers_of_unknown_size_are_not_started_without_end() -> None:
    machine = Machine(slots_per_worker=2)
    need(machine, (ResourceProfile(64), 1))
    assert machine.num_needed_workers == 1
    register(machine)
    (refusal,) = of_type(machine.run(machine.check_requirements(1)), NotifyNotEnoughResources)
    assert isinstance(refusal, NotifyNotEnoughResources) and "lacks CPU cores: 60" in refusal.reason
    assert machine.num_needed_workers == 0
