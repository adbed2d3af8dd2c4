from __future__ import annotations

import asyncio

import pytest
from resourcemanager_fakes import CONTEXT, JOB, OTHER_JOB, RM_ID, Harness, scenario

from flinkpy._proto import resourcemanager_pb2 as pb
from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.errors import (
    NotRegisteredError,
    RegistrationRefusedError,
    RpcTimeoutError,
    RpcUnavailableError,
    SlotAllocationError,
    StaleFencingTokenError,
)
from flinkpy.common.ids import ResourceID
from flinkpy.resourcemanager.slot_manager import SlotManagerOptions
from flinkpy.resourcemanager.worker_manager import WorkerOptions


@scenario()
async def test_a_required_slot_is_requested_from_the_task_executor_with_the_managers_token(harness: Harness) -> None:
    harness.register_executor()
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    ((_, address, token, method, request),) = harness.peers.calls_of("request_slot")
    assert (method, address, token) == ("request_slot", "te-1:1", RM_ID)
    assert request == taskexecutor_pb2.RequestSlotRequest(
        slot_index=0,
        job_id=JOB,
        allocation_id="alloc-1",
        job_master_address="jm-1:1",
        job_master_id="jm-1",
        resource_manager_id=RM_ID,
    )
    overview = harness.overview()
    assert (overview.num_task_managers, overview.num_slots_total, overview.num_slots_free) == (1, 1, 0)


@scenario()
async def test_another_slot_is_requested_after_a_refusal(harness: Harness) -> None:
    harness.register_executor("te-1")
    harness.register_executor("te-2")
    refusals = [SlotAllocationError("taken"), None]
    harness.peers.answers["request_slot"] = lambda _: refusals.pop(0) or taskexecutor_pb2.RequestSlotRequest()
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    assert [call.address for call in harness.peers.calls_of("request_slot")] == ["te-1:1", "te-2:1"]
    assert [call.address for call in harness.peers.calls_of("heartbeat_from_resource_manager")] == ["te-1:1"]
    assert harness.overview().num_slots_free == 1


@scenario()
async def test_a_request_without_an_answer_is_settled_by_the_report(harness: Harness) -> None:
    harness.register_executor()

    def lose_the_answer(request: taskexecutor_pb2.RequestSlotRequest) -> Exception:
        harness.executors["te-1:1"] = ("te-1", "inst-1", {0: (request.allocation_id, JOB)}, 1)
        return RpcTimeoutError("no answer")

    harness.peers.answers["request_slot"] = lose_the_answer
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    (info,) = harness.endpoint.request_task_manager_info(pb.TaskManagerInfoRequest(), CONTEXT).task_managers
    assert info.slots[0].allocation_id == "alloc-1"
    assert len(harness.peers.requests("request_slot")) == 1


@scenario()
async def test_a_broken_connection_loses_the_task_executor_at_once_and_its_jobs_are_told(harness: Harness) -> None:
    harness.register_executor()
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    harness.peers.break_connection("te-1:1")
    await harness.settle()
    ((_, address, token, _, request),) = harness.peers.calls_of("disconnect_task_manager")
    assert (address, token, request.job_id, request.resource_id) == ("jm-1:1", "jm-1", JOB, "te-1")
    assert harness.overview().num_task_managers == 0
    assert harness.peers.dropped == ["te-1:1"]


@scenario(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
async def test_a_silent_task_executor_is_lost_after_the_timeout(harness: Harness) -> None:
    harness.register_executor()
    harness.peers.answers["heartbeat_from_resource_manager"] = lambda _: asyncio.get_running_loop().create_future()
    await harness.settle(4)
    assert harness.overview().num_task_managers == 1
    await harness.settle(2)
    assert harness.overview().num_task_managers == 0
    assert len(harness.peers.requests("heartbeat_from_resource_manager")) == 1, "one heartbeat at a time"


@scenario(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=50_000)
async def test_a_task_executor_that_cannot_be_called_is_lost_after_the_threshold(harness: Harness) -> None:
    harness.register_executor()
    harness.peers.answers["heartbeat_from_resource_manager"] = lambda _: RpcUnavailableError("nobody")
    await harness.settle(4)
    assert harness.overview().num_task_managers == 0


@scenario(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
async def test_the_slot_report_of_a_heartbeat_corrects_the_known_state(harness: Harness) -> None:
    harness.register_executor()
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    assert len(harness.peers.requests("request_slot")) == 1
    await harness.settle(1)  # the executor answers the heartbeat: nothing is allocated there
    assert [request.allocation_id for request in harness.peers.requests("request_slot")] == ["alloc-1", "alloc-2"]


@scenario()
async def test_a_heartbeat_of_an_unknown_task_executor_is_told_to_register(harness: Harness) -> None:
    answer = harness.endpoint.heartbeat_from_task_executor(pb.TaskExecutorHeartbeat(instance_id="nobody"), CONTEXT)
    assert not answer.registered
    instance_id = harness.register_executor()
    answer = harness.endpoint.heartbeat_from_task_executor(
        pb.TaskExecutorHeartbeat(resource_id="te-1", instance_id=instance_id), CONTEXT
    )
    assert answer.registered


@scenario()
async def test_reports_of_a_former_registration_are_refused(harness: Harness) -> None:
    former = harness.register_executor()
    harness.register_executor()
    for call, request in (
        (harness.endpoint.send_slot_report, pb.SendSlotReportRequest(resource_id="te-1", instance_id=former)),
        (harness.endpoint.notify_slot_available, pb.NotifySlotAvailableRequest(instance_id=former)),
    ):
        with pytest.raises(NotRegisteredError):
            call(request, CONTEXT)  # type: ignore[operator]


@scenario(slot_manager=SlotManagerOptions(max_slots=1))
async def test_a_task_executor_beyond_the_limit_is_refused_with_the_name_of_the_option(harness: Harness) -> None:
    harness.register_executor("te-1")
    with pytest.raises(RegistrationRefusedError, match=r"slotmanager.number-of-slots.max = 1"):
        harness.register_executor("te-2")
    harness.register_executor("te-1", pid=101)


@scenario()
async def test_a_task_executor_that_disconnects_is_forgotten_and_may_disconnect_twice(harness: Harness) -> None:
    harness.register_executor()
    for _ in range(2):
        harness.endpoint.disconnect_task_executor(pb.DisconnectRequest(resource_id="te-1", reason="bye"), CONTEXT)
    assert harness.overview().num_task_managers == 0


@scenario()
async def test_declarations_are_accepted_only_from_the_current_registered_job_master(harness: Harness) -> None:
    with pytest.raises(NotRegisteredError):
        harness.declare(1)
    harness.register_job(job_master_id="jm-1")
    harness.register_job(job_master_id="jm-2")
    with pytest.raises(StaleFencingTokenError):
        harness.declare(1, job_master_id="jm-1")
    with pytest.raises(StaleFencingTokenError):
        harness.register_job(job_master_id="jm-1")
    harness.declare(1, job_master_id="jm-2")


@scenario(job_timeout_ms=10_000)
async def test_a_lost_job_master_gets_no_slots_and_its_job_is_dropped_after_the_timeout(harness: Harness) -> None:
    harness.register_executor("te-1", slots=1)
    harness.register_job()
    harness.declare(2)
    await harness.settle()
    harness.peers.break_connection("jm-1:1")
    harness.register_executor("te-2")
    harness.report("te-1", {0: ("alloc-1", JOB)})
    await harness.settle()
    assert len(harness.peers.requests("request_slot")) == 1
    await harness.settle(12)
    (freed,) = harness.peers.requests("free_slot")
    assert (freed.allocation_id, freed.job_id) == ("alloc-1", JOB)


@scenario(job_timeout_ms=10_000)
async def test_a_job_master_that_returns_in_time_keeps_its_slots(harness: Harness) -> None:
    harness.register_job()
    harness.declare(1)
    harness.peers.break_connection("jm-1:1")
    harness.register_job()
    harness.register_executor()
    await harness.settle(12)
    assert len(harness.peers.requests("request_slot")) >= 1
    assert harness.peers.requests("free_slot") == []


@scenario(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
async def test_a_silent_job_master_must_register_again(harness: Harness) -> None:
    harness.register_job()
    heartbeat = pb.JobMasterHeartbeat(resource_id="jm", job_id=JOB)
    assert harness.endpoint.heartbeat_from_job_master(heartbeat, CONTEXT).registered
    await harness.settle(7)
    assert not harness.endpoint.heartbeat_from_job_master(heartbeat, CONTEXT).registered
    harness.register_job()
    assert harness.endpoint.heartbeat_from_job_master(heartbeat, CONTEXT).registered


@scenario()
async def test_a_job_that_disconnects_releases_its_requirements_and_slots_at_once(harness: Harness) -> None:
    harness.register_executor()
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    stale = pb.DisconnectRequest(resource_id="another process", job_id=JOB)
    harness.endpoint.disconnect_job_master(stale, CONTEXT)
    assert harness.peers.requests("free_slot") == []
    for _ in range(2):
        harness.endpoint.disconnect_job_master(pb.DisconnectRequest(resource_id="jm", job_id=JOB), CONTEXT)
    await harness.settle()
    assert [request.job_id for request in harness.peers.requests("free_slot")] == [JOB]


@scenario(can_start_workers=True)
async def test_missing_slots_start_workers_whose_registration_fulfils_the_requirement(harness: Harness) -> None:
    harness.register_job()
    harness.declare(2)
    await harness.settle()
    assert [str(worker) for worker in harness.driver.started] == ["worker-1", "worker-2"]
    assert harness.overview().num_pending_task_managers == 2
    harness.register_executor("worker-1")
    harness.register_executor("worker-2")
    await harness.settle()
    assert len(harness.peers.requests("request_slot")) == 2
    assert harness.overview().num_pending_task_managers == 0
    assert len(harness.driver.started) == 2


@scenario()
async def test_a_standalone_cluster_starts_nothing(harness: Harness) -> None:
    harness.register_job()
    harness.declare(2)
    await harness.settle(30)
    assert harness.driver.started == []


@scenario(can_start_workers=True)
async def test_a_worker_that_exits_is_lost_and_replaced(harness: Harness) -> None:
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    harness.register_executor("worker-1")
    await harness.settle()
    harness.driver.on_worker_terminated(ResourceID("worker-1"), "killed by SIGKILL")
    await harness.settle()
    (told,) = harness.peers.requests("disconnect_task_manager")
    assert "killed by SIGKILL" in told.reason
    assert [str(worker) for worker in harness.driver.started] == ["worker-1", "worker-2"]


@scenario(can_start_workers=True, workers=WorkerOptions(max_failure_rate_per_minute=1, retry_interval_ms=3_000))
async def test_the_rate_of_failing_worker_starts_is_limited(harness: Harness) -> None:
    harness.driver.start_error = OSError("no such program")
    harness.register_job()
    harness.declare(1)
    await harness.settle(1)
    assert len(harness.driver.started) == 2
    harness.driver.start_error = None
    await harness.settle(3)
    assert len(harness.driver.started) == 3


@scenario(can_start_workers=True, slot_manager=SlotManagerOptions(task_manager_timeout_ms=5_000))
async def test_an_idle_worker_is_stopped_and_forgotten(harness: Harness) -> None:
    harness.register_job()
    harness.declare(1)
    await harness.settle()
    harness.declare(0, sequence=2)
    harness.register_executor("worker-1")
    harness.register_executor("by-hand")
    await harness.settle(8)
    assert harness.driver.stopped == [ResourceID("worker-1")]
    assert harness.overview().num_task_managers == 1


@scenario()
async def test_a_reported_slot_of_an_ended_job_is_freed(harness: Harness) -> None:
    harness.register_job(OTHER_JOB, "jm-2", "other")
    harness.endpoint.disconnect_job_master(pb.DisconnectRequest(resource_id="other", job_id=OTHER_JOB), CONTEXT)
    harness.register_executor(held={0: ("old", OTHER_JOB)})
    await harness.settle()
    assert [request.allocation_id for request in harness.peers.requests("free_slot")] == ["old"]


@scenario()
async def test_information_on_an_unknown_task_executor_is_empty(harness: Harness) -> None:
    harness.register_executor("te-1", slots=2)
    info = harness.endpoint.request_task_manager_info
    assert len(info(pb.TaskManagerInfoRequest(), CONTEXT).task_managers) == 1
    assert len(info(pb.TaskManagerInfoRequest(resource_id="te-1"), CONTEXT).task_managers[0].slots) == 2
    assert len(info(pb.TaskManagerInfoRequest(resource_id="nobody"), CONTEXT).task_managers) == 0


@scenario(can_start_workers=True, recovered=("old-1", "old-2"))
async def test_workers_of_an_earlier_resource_manager_count_as_started(harness: Harness) -> None:
    harness.register_job()
    harness.declare(3)
    await harness.settle()
    assert [str(worker) for worker in harness.driver.started] == ["worker-1"]
    assert harness.overview().num_pending_task_managers == 3
