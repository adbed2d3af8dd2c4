"""Checkpoint calls between a JobMaster and the tasks of a TaskExecutor: triggers, notifications and answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from taskexecutor_fakes import JM_ID, JOB, OTHER_JOB, Harness, context
from test_task_executor import scenario

from flinkpy._proto import checkpoint_pb2, common_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, failure_reason
from flinkpy.common.errors import (
    CheckpointError,
    CheckpointStorageError,
    ExternalError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.common.ids import JobID
from flinkpy.rpc.error_codec import error_from_proto

OPTIONS = checkpoint_pb2.CheckpointOptions(kind=checkpoint_pb2.CHECKPOINT)
STATE = checkpoint_pb2.TaskStateSnapshot(operators={"op": checkpoint_pb2.OperatorSubtaskState()})
METRICS = checkpoint_pb2.CheckpointMetrics(sync_duration_ns=5)


async def running(h: Harness, *attempts: str) -> None:
    """Tasks that are RUNNING; their threads have not ended."""
    await h.with_slot()
    h.submit(*attempts)
    await h.settle()
    for attempt in attempts:
        task = h.jobs.get(JobID(JOB)).tasks[attempt]
        invokable = task.deployed.create_invokable(task)
        task._on_invokable(invokable)
        task.notify_running()
    await h.settle()


def trigger(h: Harness, *attempts: str, token: str = JM_ID, job: str = JOB, checkpoint_id: int = 7) -> None:
    request = checkpoint_pb2.TriggerCheckpointsRequest(
        job_id=job, checkpoint_id=checkpoint_id, timestamp_ms=99, options=OPTIONS, execution_attempt_ids=attempts
    )
    h.task_executor.trigger_checkpoints(request, context(token))


def notify(h: Harness, method: str, *attempts: str, token: str = JM_ID) -> None:
    notification = checkpoint_pb2.CheckpointNotification(
        job_id=JOB, checkpoint_id=7, latest_completed_checkpoint_id=6, execution_attempt_ids=attempts
    )
    getattr(h.task_executor, method)(notification, context(token))


def told(h: Harness, attempt: str) -> list[Any]:
    return h.deployer.deployed[attempt].invokable.checkpoints


def declined(h: Harness) -> list[tuple[str, int, CheckpointFailureReason]]:
    return [
        (r.execution_attempt_id, r.checkpoint_id, failure_reason(error_from_proto(r.reason)))
        for r in h.peers.requests("decline_checkpoint")
    ]


@scenario()
async def test_a_trigger_is_in_the_mailbox_when_the_call_returns(h: Harness) -> None:
    await running(h, "t1", "t2")
    trigger(h, "t1", "t2")
    assert told(h, "t1") == told(h, "t2") == [("trigger", 7, 99, OPTIONS)]


@scenario()
async def test_a_task_that_is_not_running_declines(h: Harness) -> None:
    await running(h, "t1")
    h.submit("t2")
    await h.settle()
    h.jobs.get(JobID(JOB)).tasks["t1"].cancel()
    h.cancel("t4")
    trigger(h, "t1", "t2", "t3", "t4")
    await h.settle()
    closing = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
    not_ready = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
    assert declined(h) == [("t1", 7, closing), ("t2", 7, not_ready), ("t3", 7, not_ready), ("t4", 7, closing)]
    assert told(h, "t1") == []


@scenario()
async def test_a_decline_comes_before_the_end_of_a_task_whose_thread_has_ended(h: Harness) -> None:
    """The JobMaster would otherwise wait for the acknowledgement of a finished task, and fail a stop-with-savepoint."""
    await running(h, "t1")
    h.deployer.deployed["t1"].invokable.is_ending = True
    h.threads["task t1"].run()  # the main thread has not heard of the end yet
    trigger(h, "t1")
    await h.settle()
    assert declined(h) == [("t1", 7, CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING)]
    methods = [call.method for call in h.peers.calls if call.service == "JobMaster"]
    assert methods[-2:] == ["decline_checkpoint", "update_task_execution_states"]
    assert h.reported[-1] == ("t1", "FINISHED")


@scenario()
async def test_a_trigger_for_an_unknown_job_is_refused(h: Harness) -> None:
    with pytest.raises(CheckpointError) as caught:
        trigger(h, "t1", job=OTHER_JOB)
    assert failure_reason(caught.value) is CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY


@scenario()
async def test_calls_of_another_leadership_are_refused_and_have_no_effect(h: Harness) -> None:
    await running(h, "t1")
    with pytest.raises(StaleFencingTokenError):
        trigger(h, "t1", token="jm-0")
    for method in ("confirm_checkpoints", "abort_checkpoints"):
        with pytest.raises(StaleFencingTokenError):
            notify(h, method, "t1", token="jm-0")
    assert told(h, "t1") == []


@scenario()
async def test_notifications_reach_running_tasks_and_unknown_ones_are_ignored(h: Harness) -> None:
    await running(h, "t1")
    h.submit("t2")
    notify(h, "confirm_checkpoints", "t1", "t2", "t3")
    notify(h, "abort_checkpoints", "t1", "t2", "t3")
    assert told(h, "t1") == [("complete", 7), ("aborted", 7, 6)]
    assert told(h, "t2") == []


@scenario()
async def test_an_acknowledgement_comes_before_the_end_of_its_task(h: Harness) -> None:
    def body(invokable: Any) -> None:
        invokable.callbacks.notify_running()
        invokable.callbacks.notify_end_of_data()
        invokable.callbacks.acknowledge_checkpoint(7, METRICS, STATE)

    h.deployer.body = body
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    methods = [call.method for call in h.peers.calls if call.service == "JobMaster"]
    ours = [m for m in methods if m in ("notify_end_of_data", "acknowledge_checkpoint", "update_task_execution_states")]
    assert ours[-3:] == ["notify_end_of_data", "acknowledge_checkpoint", "update_task_execution_states"]
    (ack,) = h.peers.requests("acknowledge_checkpoint")
    assert (ack.job_id, ack.execution_attempt_id, ack.checkpoint_id) == (JOB, "t1", 7)
    assert (ack.metrics, ack.state) == (METRICS, STATE)
    (ended,) = h.peers.requests("notify_end_of_data")
    assert list(ended.execution_attempt_ids) == ["t1"]
    assert h.reported[-1] == ("t1", "FINISHED")


@scenario()
async def test_an_acknowledgement_after_the_end_is_dropped(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    task = h.jobs.get(JobID(JOB)).tasks["t1"]
    await h.run_thread("t1")
    task.acknowledge_checkpoint(7, METRICS, STATE)
    task.decline_checkpoint(7, ValueError("late"))
    await h.settle()
    assert h.peers.requests("acknowledge_checkpoint") == h.peers.requests("decline_checkpoint") == []


@scenario()
async def test_reports_of_checkpoints_are_repeated_until_they_are_answered(h: Harness) -> None:
    await running(h, "t1", "t2")
    answers = iter([RpcTimeoutError("lost"), common_pb2.Acknowledge(), RpcUnavailableError("lost")])
    h.peers.answers["acknowledge_checkpoint"] = lambda _: next(answers, common_pb2.Acknowledge())
    h.peers.answers["notify_end_of_data"] = lambda _: (
        RpcTimeoutError("lost") if len(h.peers.requests("notify_end_of_data")) == 1 else common_pb2.Acknowledge()
    )
    tasks = h.jobs.get(JobID(JOB)).tasks
    tasks["t1"].acknowledge_checkpoint(7, METRICS, STATE)
    tasks["t2"].acknowledge_checkpoint(7, METRICS, STATE)
    tasks["t1"].notify_end_of_data()
    await h.pass_time(2_000)
    acks = [request.execution_attempt_id for request in h.peers.requests("acknowledge_checkpoint")]
    assert sorted(acks) == ["t1", "t1", "t2", "t2"]  # each is sent once more than it was lost
    assert len(h.peers.requests("notify_end_of_data")) == 2
    assert tasks["t1"].state.name == "RUNNING"


@scenario()
async def test_acknowledgements_are_sent_concurrently(h: Harness) -> None:
    await running(h, "t1", "t2", "t3")
    gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    h.peers.answers["acknowledge_checkpoint"] = lambda _: gate
    tasks = h.jobs.get(JobID(JOB)).tasks
    for attempt in ("t1", "t2", "t3"):
        tasks[attempt].acknowledge_checkpoint(7, METRICS, STATE)
    await h.settle()
    first = len(h.peers.requests("acknowledge_checkpoint"))
    gate.set_result(common_pb2.Acknowledge())
    await h.settle()
    assert len(h.peers.requests("acknowledge_checkpoint")) == 3 and first <= 3
    assert not h.jobs.get(JobID(JOB)).connection.has_reports


@scenario()
async def test_a_refused_acknowledgement_becomes_a_decline_and_the_task_lives_on(h: Harness) -> None:
    await running(h, "t1")
    h.peers.answers["acknowledge_checkpoint"] = lambda _: ExternalError("message too large")
    h.jobs.get(JobID(JOB)).tasks["t1"].acknowledge_checkpoint(7, METRICS, STATE)
    await h.settle()
    assert declined(h) == [("t1", 7, CheckpointFailureReason.CHECKPOINT_DECLINED)]
    assert h.jobs.get(JobID(JOB)).tasks["t1"].state.name == "RUNNING"


@scenario()
async def test_a_stale_answer_to_an_acknowledgement_disconnects_the_job(h: Harness) -> None:
    await running(h, "t1")
    h.peers.answers["acknowledge_checkpoint"] = lambda _: StaleFencingTokenError("another leader")
    h.jobs.get(JobID(JOB)).tasks["t1"].acknowledge_checkpoint(7, METRICS, STATE)
    await h.settle()
    assert h.jobs.get(JobID(JOB)) is None


@scenario()
async def test_a_declined_checkpoint_names_its_error(h: Harness) -> None:
    await running(h, "t1")
    h.jobs.get(JobID(JOB)).tasks["t1"].decline_checkpoint(7, CheckpointStorageError("/full: no space left"))
    await h.settle()
    (request,) = h.peers.requests("decline_checkpoint")
    assert (request.job_id, request.execution_attempt_id, request.checkpoint_id) == (JOB, "t1", 7)
    assert "no space left" in request.reason.message
