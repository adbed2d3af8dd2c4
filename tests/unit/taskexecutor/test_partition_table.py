"""Partitions of a TaskExecutor: which are held, for how long, and which peers are notified."""

from __future__ import annotations

import pytest
from taskexecutor_fakes import JM_ID, JOB, JOB_MASTER, RM_ID, Harness, context
from virtual_time import run_on_virtual_time

from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.errors import SlotAllocationError
from flinkpy.common.ids import JobID
from flinkpy.taskexecutor.partition_table import TaskExecutorPartitionTracker

ONE, OTHER = JobID("one"), JobID("other")
BLOCKING = "p-blocking"
RECOVERABLE = {
    "execution.batch.job-recovery.enabled": "true",
    "execution.batch.job-recovery.previous-worker.recovery.timeout": "5 s",
}


class TestTracker:
    def test_partitions_are_held_from_the_end_of_their_task_until_they_are_released(self) -> None:
        tracker = TaskExecutorPartitionTracker()
        tracker.start_making(ONE, "a", ["p1", "p2"])
        tracker.start_making(ONE, "b", ["q"])
        tracker.start_making(ONE, "c", [])
        assert tracker.held(ONE) == [] and tracker.jobs_with_partitions == []
        tracker.task_ended(ONE, "a", has_finished=True)
        tracker.task_ended(ONE, "b", has_finished=False)
        tracker.task_ended(ONE, "b", has_finished=True)
        tracker.validate()
        assert tracker.held(ONE) == ["p1", "p2"]
        assert tracker.release(ONE, ["p2", "unknown"]) == ["p2"]
        assert tracker.release(ONE, ["p2", "p1"]) == ["p1"]
        assert tracker.jobs_with_partitions == []
        tracker.validate()

    def test_jobs_do_not_see_each_other(self) -> None:
        tracker = TaskExecutorPartitionTracker()
        for job in (ONE, OTHER):
            tracker.start_making(job, "a", [f"p-{job}"])
            tracker.task_ended(job, "a", has_finished=True)
        assert tracker.release(ONE, ["p-other"]) == []
        assert tracker.release_job(ONE) == ["p-one"]
        assert tracker.held(OTHER) == ["p-other"]
        assert tracker.release_job(ONE) == []

    def test_orphaned_partitions_are_dropped_unless_they_are_claimed(self) -> None:
        tracker = TaskExecutorPartitionTracker()
        for job in (ONE, OTHER):
            tracker.start_making(job, "a", ["p"])
            tracker.task_ended(job, "a", has_finished=True)
            tracker.start_making(job, "running", ["q"])
            tracker.orphan(job, 1_000)
            tracker.validate()
        assert tracker.release_overdue(999) == {}
        assert tracker.adopt(ONE) == ["p"]
        assert tracker.release_overdue(1_000) == {OTHER: ["p"]}
        assert tracker.held(ONE) == ["p"] and tracker.held(OTHER) == []

    def test_a_job_without_finished_partitions_leaves_no_orphans(self) -> None:
        tracker = TaskExecutorPartitionTracker()
        tracker.start_making(ONE, "a", ["p"])
        tracker.orphan(ONE, 1_000)
        tracker.orphan(OTHER, 1_000)
        assert tracker.adopt(ONE) == tracker.adopt(OTHER) == []
        tracker.validate()


async def finished_task(h: Harness, **properties: str) -> None:
    """Creates `p-blocking`, and frees its slot again."""
    h.deployer.unread_partitions.add(BLOCKING)
    await h.with_slot()
    h.submit("blocking", properties=properties)
    await h.settle()
    await h.run_thread("blocking")
    h.free_slot()
    await h.settle()


def scenario(test):  # type: ignore[no-untyped-def]
    def wrapped() -> None:
        async def body() -> None:
            harness = await Harness().start()
            await test(harness)
            await harness.settle()
            harness.task_executor.service.partitions.tracker.validate()
            await harness.close()

        run_on_virtual_time(body)

    wrapped.__name__ = test.__name__
    return wrapped


@scenario
async def test_a_job_with_held_partitions_stays_connected_without_a_slot(h: Harness) -> None:
    await finished_task(h)
    await h.pass_time(20_000)
    assert h.slot_states() == ["FREE", "FREE"]
    assert len(h.jobs) == 1 and h.peers.requests("disconnect_task_manager") == []
    heartbeat = h.task_executor.heartbeat_from_job_master(
        taskexecutor_pb2.AllocatedSlotReport(job_id=JOB), context(JM_ID)
    )
    assert list(heartbeat.held_result_partition_ids) == [BLOCKING]
    report = h.task_executor.heartbeat_from_resource_manager(
        taskexecutor_pb2.ResourceManagerHeartbeat(resource_manager_id=RM_ID), context(RM_ID)
    )
    assert list(report.slot_report.jobs_with_partitions) == [JOB]
    with pytest.raises(SlotAllocationError):
        h.renew()


@scenario
async def test_the_end_of_a_task_reports_the_size_of_its_results(h: Harness) -> None:
    await finished_task(h)
    last = h.peers.requests("update_task_execution_states")[-1].updates[-1]
    assert [(one.result_partition_id, list(one.subpartition_bytes)) for one in last.result_partition_bytes] == [
        (BLOCKING, [1, 2])
    ]


@scenario
async def test_the_job_leaves_when_its_last_partition_is_released(h: Harness) -> None:
    await finished_task(h)
    request = taskexecutor_pb2.ReleasePartitionsRequest(job_id=JOB, result_partition_ids=[BLOCKING])
    h.task_executor.release_partitions(request, context(JM_ID))
    await h.settle()
    assert len(h.jobs) == 0
    assert h.deployer.released_partitions == [BLOCKING]
    h.renew()


@scenario
async def test_partitions_of_a_job_whose_job_master_is_lost_are_dropped(h: Harness) -> None:
    await finished_task(h)
    h.peers.break_connection(JOB_MASTER)
    assert h.deployer.released_partitions == [BLOCKING]
    assert h.task_executor.service.partitions.tracker.jobs_with_partitions == []


@scenario
async def test_partitions_of_a_recoverable_job_wait_for_its_next_job_master(h: Harness) -> None:
    await finished_task(h, **RECOVERABLE)
    h.peers.break_connection(JOB_MASTER)
    assert len(h.jobs) == 0 and h.deployer.released_partitions == []
    with pytest.raises(SlotAllocationError):
        h.renew()
    await h.pass_time(4_000)
    h.request_slot(allocation="again", jm_id="jm-2")
    await h.settle()
    registration = h.peers.requests("register_task_manager")[-1]
    assert list(registration.held_result_partition_ids) == [BLOCKING]
    await h.pass_time(10_000)
    assert h.deployer.released_partitions == []
    request = taskexecutor_pb2.ReleasePartitionsRequest(job_id=JOB, result_partition_ids=[BLOCKING])
    h.task_executor.release_partitions(request, context("jm-2"))
    assert h.deployer.released_partitions == [BLOCKING]


@scenario
async def test_the_wait_of_partitions_for_a_job_master_is_bounded(h: Harness) -> None:
    await finished_task(h, **RECOVERABLE)
    h.peers.break_connection(JOB_MASTER)
    await h.pass_time(6_100)
    assert h.deployer.released_partitions == [BLOCKING]
    h.renew()


@scenario
async def test_a_failed_task_leaves_no_partition(h: Harness) -> None:
    def fail(_: object) -> None:
        raise ValueError("broken")

    h.deployer.body = fail
    await finished_task(h, **RECOVERABLE)
    assert h.task_executor.service.partitions.tracker.jobs_with_partitions == []


@scenario
async def test_the_next_job_master_may_claim_partitions_before_it_needs_a_slot(h: Harness) -> None:
    await finished_task(h, **RECOVERABLE)
    h.peers.break_connection(JOB_MASTER)
    request = taskexecutor_pb2.ConnectJobMasterRequest(job_id=JOB, job_master_address=JOB_MASTER, job_master_id="jm-2")
    request.configuration.entries.update(RECOVERABLE)
    for _ in range(2):  # repeated: the same answer
        answer = h.task_executor.connect_job_master(request, context("jm-2"))
        assert list(answer.held_result_partition_ids) == [BLOCKING]
    await h.settle()
    registration = h.peers.requests("register_task_manager")[-1]
    assert list(registration.held_result_partition_ids) == [BLOCKING]
    await h.pass_time(20_000)
    assert h.deployer.released_partitions == [], "the partitions belong to this JobMaster now"


@scenario
async def test_a_job_master_without_partitions_gets_an_empty_answer(h: Harness) -> None:
    request = taskexecutor_pb2.ConnectJobMasterRequest(job_id=JOB, job_master_address=JOB_MASTER, job_master_id="jm-2")
    answer = h.task_executor.connect_job_master(request, context("jm-2"))
    assert list(answer.held_result_partition_ids) == []
    assert len(h.jobs) == 0
