"""The tasks of a TaskExecutor go on when their JobMaster is lost, until another one continues them or time is up."""

from __future__ import annotations

import pytest
from taskexecutor_fakes import JM_ID, JOB, Harness, context
from test_checkpoint_calls import running, trigger
from test_task_executor import scenario

from flinkpy._proto import checkpoint_pb2, common_pb2, jobmaster_pb2, taskexecutor_pb2
from flinkpy.common.errors import NotRegisteredError, RpcUnavailableError, StaleFencingTokenError, TaskSubmissionError
from flinkpy.common.ids import JobID
from flinkpy.connector_api.source import RequestSplit, SourceEvent
from flinkpy.taskexecutor.task_ledger import MAX_KEPT_EVENTS, TaskLedger

NEXT = "next-job-master"
T1, T2 = "g_v_0_0", "g_v_1_0"


async def lose_job_master(h: Harness, *, answer: Exception | None = None) -> None:
    h.peers.answers["heartbeat_from_task_manager"] = lambda _: answer or RpcUnavailableError("gone")
    h.jobs.get(JobID(JOB)).connection.lose("its connection broke")
    await h.settle()


def report(h: Harness, job_master_id: str = NEXT) -> list[taskexecutor_pb2.ReportedTask]:
    request = taskexecutor_pb2.TaskReportRequest(job_id=JOB, job_master_id=job_master_id)
    return list(h.task_executor.report_tasks(request, context(job_master_id)).tasks)


async def adopt(h: Harness, *attempts: str, job_master_id: str = NEXT, completed: int = 0, aborted: int = 0) -> None:
    request = taskexecutor_pb2.AdoptTasksRequest(
        job_id=JOB,
        job_master_id=job_master_id,
        job_master_address="127.0.0.1:77",
        execution_attempt_ids=attempts,
        completed_checkpoint_id=completed,
        aborted_checkpoint_ids=[aborted] if aborted else [],
    )
    h.task_executor.adopt_tasks(request, context(job_master_id))
    await h.settle()


def states(h: Harness) -> dict[str, str]:
    return {attempt: task.state.name for attempt, task in h.jobs.get(JobID(JOB)).tasks.items()}


def event(number: int, payload: bytes = b"split", *, is_kept: bool = True) -> jobmaster_pb2.OperatorEvent:
    return jobmaster_pb2.OperatorEvent(
        operator_id="op", execution_attempt_id=T1, payload_pickle=payload, sequence_number=number, is_kept=is_kept
    )


def deliver(h: Harness, *events: jobmaster_pb2.OperatorEvent, token: str = JM_ID) -> None:
    h.task_executor.send_operator_events_to_tasks(
        taskexecutor_pb2.OperatorEventsToTasks(job_id=JOB, events=events), context(token)
    )


@scenario()
async def test_another_job_master_continues_the_tasks(h: Harness) -> None:
    await running(h, T1, T2)
    await lose_job_master(h)
    assert {task.execution_attempt_id: task.state for task in report(h)} == {
        T1: common_pb2.EXECUTION_RUNNING,
        T2: common_pb2.EXECUTION_RUNNING,
    }
    await adopt(h, T1, T2)
    assert states(h) == {T1: "RUNNING", T2: "RUNNING"}
    assert h.slot_states() == ["ACTIVE", "FREE"]
    h.cancel(T1, token=NEXT)
    assert states(h)[T1] == "CANCELING"
    with pytest.raises(StaleFencingTokenError):
        h.cancel(T2)  # by the former JobMaster


@scenario()
async def test_tasks_without_a_job_master_fail_when_time_is_up(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h)
    await h.pass_time(29_000)
    assert states(h) == {T1: "RUNNING"}
    await h.pass_time(2_000)
    assert h.jobs.get(JobID(JOB)) is None


@scenario(task_adoption_timeout_ms=0)
async def test_tasks_fail_at_once_if_the_time_is_zero(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h)
    assert h.jobs.get(JobID(JOB)) is None


@scenario()
async def test_tasks_fail_if_the_job_master_answers_that_it_gave_them_up(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h, answer=NotRegisteredError("unknown TaskExecutor"))
    assert h.jobs.get(JobID(JOB)) is None


@scenario()
async def test_tasks_that_are_not_continued_end(h: Harness) -> None:
    await running(h, T1, T2)
    await lose_job_master(h)
    report(h)
    await adopt(h, T1)
    assert states(h) == {T1: "RUNNING", T2: "CANCELING"}


@scenario()
async def test_a_job_master_that_restores_ends_all_tasks(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h)
    report(h)
    await adopt(h)
    assert h.jobs.get(JobID(JOB)) is None


@scenario()
async def test_only_the_job_master_that_asked_last_may_continue_tasks(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h)
    report(h, "first")
    report(h, "second")
    with pytest.raises(TaskSubmissionError):
        await adopt(h, T1, job_master_id="first")
    await adopt(h, T1, job_master_id="second")
    assert states(h) == {T1: "RUNNING"}


@scenario()
async def test_a_new_job_master_replaces_one_whose_loss_was_not_noticed(h: Harness) -> None:
    await running(h, T1)
    h.peers.answers["heartbeat_from_task_manager"] = lambda _: RpcUnavailableError("gone")
    assert len(report(h)) == 1
    await adopt(h, T1)
    assert states(h) == {T1: "RUNNING"}


@scenario()
async def test_a_slot_for_a_new_job_master_ends_the_tasks_of_the_lost_one(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h)
    h.request_slot(1, "other", jm_id=NEXT)
    await h.settle()
    job = h.jobs.get(JobID(JOB))
    assert (str(job.job_master_id), job.tasks) == (NEXT, {})


@scenario()
async def test_the_end_of_a_task_between_report_and_adoption_is_told(h: Harness) -> None:
    await running(h, T1, T2)
    await lose_job_master(h)
    report(h)
    h.jobs.get(JobID(JOB)).tasks[T1]._on_thread_exit(None)
    await adopt(h, T1, T2)
    assert (T1, "FINISHED") in h.reported
    assert states(h) == {T2: "RUNNING"}


@scenario()
async def test_a_task_that_finished_under_the_lost_job_master_is_reported(h: Harness) -> None:
    await running(h, T1, T2)
    h.jobs.get(JobID(JOB)).tasks[T1]._on_thread_exit(None)
    await h.settle()
    await lose_job_master(h)
    assert [task.state for task in report(h)] == [common_pb2.EXECUTION_FINISHED, common_pb2.EXECUTION_RUNNING]


@scenario()
async def test_continued_tasks_hear_how_the_last_checkpoints_ended(h: Harness) -> None:
    await running(h, T1)
    await lose_job_master(h)
    report(h)
    await adopt(h, T1, completed=7, aborted=8)
    assert h.deployer.deployed[T1].invokable.checkpoints == [("complete", 7), ("aborted", 8, 7)]


@scenario()
async def test_a_task_reports_the_events_of_coordinators_since_the_last_checkpoint(h: Harness) -> None:
    await running(h, T1)
    deliver(h, event(1, b"before"), event(2, b"limit", is_kept=False))
    trigger(h, T1, checkpoint_id=5)
    deliver(h, event(3, b"after"))
    await lose_job_master(h)
    (task,) = report(h)
    assert [(one.payload_pickle, one.after_checkpoint_id) for one in task.events] == [(b"before", 0), (b"after", 5)]


@scenario()
async def test_a_continued_task_takes_the_first_events_of_its_new_coordinators(h: Harness) -> None:
    await running(h, T1)
    deliver(h, event(1), event(2))
    await lose_job_master(h)
    report(h)
    await adopt(h, T1)
    deliver(h, event(1, b"again"), token=NEXT)
    assert h.deployer.deployed[T1].invokable.events[-1] == ("op", b"again")


@scenario()
async def test_a_task_that_told_a_coordinator_what_it_cannot_repeat_has_an_obstacle(h: Harness) -> None:
    await running(h, T1, T2)
    h.jobs.get(JobID(JOB)).tasks[T1].send_operator_event("op", SourceEvent("found a file"))
    h.jobs.get(JobID(JOB)).tasks[T2].send_operator_event("op", RequestSplit())
    await h.settle()
    await lose_job_master(h)
    assert [bool(task.obstacle) for task in report(h)] == [True, False]


@scenario()
async def test_a_task_that_may_wait_for_a_stop_with_savepoint_has_an_obstacle(h: Harness) -> None:
    await running(h, T1, T2)
    h.task_executor.trigger_checkpoints(
        checkpoint_pb2.TriggerCheckpointsRequest(
            job_id=JOB,
            checkpoint_id=5,
            options=checkpoint_pb2.CheckpointOptions(kind=checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND),
            execution_attempt_ids=[T1],
        ),
        context(JM_ID),
    )
    await lose_job_master(h)
    assert [bool(task.obstacle) for task in report(h)] == [True, False]


def test_a_completed_checkpoint_makes_a_ledger_forget_the_events_before_it() -> None:
    ledger = TaskLedger()
    ledger.received(event(1, b"a"))
    ledger.triggered(3, stops_the_task=False)
    ledger.received(event(2, b"b"))
    ledger.completed(3)
    reported = taskexecutor_pb2.ReportedTask()
    ledger.add_to(reported)
    assert ([one.payload_pickle for one in reported.events], reported.events_since) == ([b"b"], 3)


def test_a_ledger_is_bounded() -> None:
    ledger = TaskLedger()
    for number in range(1, MAX_KEPT_EVENTS + 2):
        ledger.received(event(number))
    reported = taskexecutor_pb2.ReportedTask()
    ledger.add_to(reported)
    assert reported.obstacle and not reported.events
