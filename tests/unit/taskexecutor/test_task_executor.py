from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from taskexecutor_fakes import JM_ID, JOB, JOB_MASTER, OTHER_JOB, RESOURCE_MANAGER, RM_ID, Harness, context
from virtual_time import VirtualTimeLoop, run_on_virtual_time

from flinkpy._proto import common_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2
from flinkpy.common.errors import (
    FunctionError,
    InternalError,
    NotRegisteredError,
    PartitionConnectionError,
    RpcTimeoutError,
    RpcUnavailableError,
    SlotAllocationError,
    StaleFencingTokenError,
    TaskSubmissionError,
)


def scenario(**options: object) -> Callable[[Callable[[Harness], Awaitable[None]]], Callable[[], None]]:
    """Runs the test on virtual time with a started TaskExecutor. Checks its invariants at the end."""

    def decorate(test: Callable[[Harness], Awaitable[None]]) -> Callable[[], None]:
        def wrapped() -> None:
            async def body() -> None:
                harness = await Harness(**options).start()
                await test(harness)
                await harness.settle()
                await harness.close()

            run_on_virtual_time(body)

        wrapped.__name__ = test.__name__
        wrapped.__doc__ = test.__doc__
        return wrapped

    return decorate


# ---- ResourceManager


@scenario()
async def test_a_task_executor_registers_and_sends_a_slot_report(h: Harness) -> None:
    (request,) = h.peers.requests("register_task_executor")
    assert (request.resource_id, request.address, request.data_address) == ("te-1", "127.0.0.1:10", "127.0.0.1:11")
    assert request.num_slots == 2
    (report,) = h.peers.requests("send_slot_report")
    assert (report.instance_id, len(report.report.slots)) == ("i-1", 2)


@scenario()
async def test_a_task_executor_unknown_to_the_resource_manager_registers_again(h: Harness) -> None:
    h.peers.answers["heartbeat_from_task_executor"] = lambda _: resourcemanager_pb2.ResourceManagerHeartbeatResponse(
        resource_manager_id=RM_ID, registered=False
    )
    await h.pass_time(10_000)
    assert len(h.peers.requests("register_task_executor")) == 2


@scenario()
async def test_a_stale_answer_causes_another_registration(h: Harness) -> None:
    h.peers.answers["heartbeat_from_task_executor"] = lambda _: StaleFencingTokenError("stale")
    await h.pass_time(10_000)
    assert len(h.peers.requests("register_task_executor")) == 2


@scenario()
async def test_a_job_continues_while_the_resource_manager_is_unreachable(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    h.peers.answers["register_task_executor"] = lambda _: RpcUnavailableError("down")
    h.peers.break_connection(RESOURCE_MANAGER)
    await h.pass_time(5_000)
    assert h.slot_states() == ["ACTIVE", "FREE"]
    await h.run_thread("t1")
    assert h.reported[-1] == ("t1", "FINISHED")
    assert len(h.peers.requests("register_task_executor")) > 3


@scenario(registration_timeout_ms=2_000)
async def test_a_task_executor_that_cannot_register_in_time_ends(h: Harness) -> None:
    h.peers.answers["register_task_executor"] = lambda _: RpcUnavailableError("down")
    h.peers.break_connection(RESOURCE_MANAGER)
    await h.pass_time(2_100)
    (error,) = h.fatal
    assert RESOURCE_MANAGER in str(error) and "taskmanager.registration.timeout" in str(error)


@scenario()
async def test_a_heartbeat_of_the_resource_manager_is_answered_with_the_slots(h: Harness) -> None:
    await h.with_slot()
    request = taskexecutor_pb2.ResourceManagerHeartbeat(resource_manager_id=RM_ID)
    answer = h.task_executor.heartbeat_from_resource_manager(request, context(RM_ID))
    assert [s.allocation_id for s in answer.slot_report.slots] == ["alloc", ""]
    with pytest.raises(StaleFencingTokenError):
        h.task_executor.heartbeat_from_resource_manager(request, context("rm-0"))


# ---- slots


@scenario()
async def test_a_requested_slot_is_offered_and_becomes_active(h: Harness) -> None:
    h.request_slot()
    assert h.slot_states() == ["ALLOCATED", "FREE"]
    await h.settle()
    (offer,) = h.peers.requests("offer_slots")
    assert [(o.allocation_id, o.slot_index) for o in offer.offers] == [("alloc", 0)]
    assert h.slot_states() == ["ACTIVE", "FREE"]
    assert h.peers.calls[-1].token == JM_ID


@scenario()
async def test_a_second_slot_of_the_job_is_offered_over_the_same_connection(h: Harness) -> None:
    await h.with_slot()
    await h.with_slot("alloc2", 1)
    assert len(h.peers.requests("register_task_manager")) == 1
    assert h.slot_states() == ["ACTIVE", "ACTIVE"]


@scenario()
async def test_a_repeated_request_is_acknowledged_and_not_offered_again(h: Harness) -> None:
    await h.with_slot()
    await h.with_slot()
    assert len(h.peers.requests("offer_slots")) == 1


@scenario()
async def test_a_request_for_a_taken_slot_names_the_owner(h: Harness) -> None:
    await h.with_slot()
    with pytest.raises(SlotAllocationError) as caught:
        h.request_slot(allocation="other", job=OTHER_JOB)
    assert caught.value.details["allocation_id"] == "alloc"
    assert h.jobs.get(OTHER_JOB) is None


@scenario()
async def test_a_request_of_a_former_resource_manager_changes_nothing(h: Harness) -> None:
    with pytest.raises(StaleFencingTokenError):
        h.request_slot(token="rm-0")
    assert h.slot_states() == ["FREE", "FREE"]


@scenario()
async def test_a_slot_the_job_master_does_not_accept_is_free_again(h: Harness) -> None:
    h.peers.answers["offer_slots"] = lambda _: jobmaster_pb2.OfferSlotsResponse()
    await h.with_slot()
    assert h.slot_states() == ["FREE", "FREE"]
    (freed,) = h.peers.requests("notify_slot_available")
    assert (freed.slot_index, freed.allocation_id, freed.instance_id) == (0, "alloc", "i-1")
    assert len(h.jobs) == 0


@scenario(slot_timeout_ms=500)
async def test_a_slot_whose_job_master_cannot_be_reached_is_free_after_the_timeout(h: Harness) -> None:
    h.peers.answers["register_task_manager"] = lambda _: RpcUnavailableError("nobody there")
    h.request_slot()
    await h.pass_time(499)
    assert h.slot_states() == ["ALLOCATED", "FREE"]
    await h.pass_time(10)
    assert h.slot_states() == ["FREE", "FREE"]
    assert len(h.jobs) == 0
    attempts = len(h.peers.requests("register_task_manager"))
    await h.pass_time(60_000)
    assert len(h.peers.requests("register_task_manager")) == attempts


@scenario()
async def test_a_refused_registration_frees_the_slot_at_once(h: Harness) -> None:
    h.peers.answers["register_task_manager"] = lambda _: StaleFencingTokenError("another leadership")
    await h.with_slot()
    assert h.slot_states() == ["FREE", "FREE"]


@scenario()
async def test_an_offer_without_answer_is_repeated(h: Harness) -> None:
    answers = [RpcTimeoutError("slow")]
    h.peers.answers["offer_slots"] = lambda r: (
        answers.pop() if answers else jobmaster_pb2.OfferSlotsResponse(accepted=r.offers)
    )
    await h.with_slot()
    assert len(h.peers.requests("offer_slots")) == 2
    assert h.slot_states() == ["ACTIVE", "FREE"]


@scenario()
async def test_a_slot_freed_before_its_offer_is_answered_is_failed_at_the_job_master(h: Harness) -> None:
    answer: asyncio.Future[object] = h.loop.create_future()
    h.peers.answers["offer_slots"] = lambda _: answer
    await h.with_slot()
    await h.with_slot("alloc2", 1)
    h.free_slot()
    offers = [jobmaster_pb2.SlotOffer(allocation_id="alloc")]
    answer.set_result(jobmaster_pb2.OfferSlotsResponse(accepted=offers))
    await h.settle()
    (failed,) = h.peers.requests("fail_slot")
    assert failed.allocation_id == "alloc"


@scenario()
async def test_freeing_a_slot_twice_or_an_unknown_one_is_acknowledged(h: Harness) -> None:
    await h.with_slot()
    h.free_slot()
    h.free_slot()
    h.free_slot("never-seen")
    assert h.slot_states() == ["FREE", "FREE"]


@scenario()
async def test_another_job_master_cannot_free_a_slot(h: Harness) -> None:
    await h.with_slot()
    with pytest.raises(StaleFencingTokenError):
        h.free_slot(token="jm-0")
    assert h.slot_states() == ["ACTIVE", "FREE"]
    h.free_slot(token=RM_ID)
    assert h.slot_states() == ["FREE", "FREE"]


@scenario()
async def test_a_job_without_slots_is_disconnected(h: Harness) -> None:
    await h.with_slot()
    h.free_slot()
    await h.settle()
    assert len(h.jobs) == 0
    assert len(h.peers.requests("disconnect_task_manager")) == 1
    assert h.peers.on_lost[JOB_MASTER] == []


@scenario()
async def test_the_channel_to_a_job_master_is_closed_with_its_job(h: Harness) -> None:
    for number in range(5):
        await h.with_slot()
        h.free_slot()
        await h.settle()
        assert h.peers.dropped == [JOB_MASTER] * (number + 1)


@scenario()
async def test_the_channel_to_a_lost_job_master_is_closed(h: Harness) -> None:
    await h.with_slot()
    h.peers.break_connection(JOB_MASTER)
    await h.settle()
    assert len(h.jobs) == 0 and h.peers.dropped == [JOB_MASTER]


@scenario()
async def test_the_channel_stays_open_if_the_next_leader_has_the_same_address(h: Harness) -> None:
    await h.with_slot()
    h.request_slot(1, "alloc2", jm_id="jm-2")
    await h.settle()
    assert len(h.jobs) == 1 and h.peers.dropped == []


# ---- tasks


@scenario()
async def test_a_task_reports_its_states_in_order(h: Harness) -> None:
    await h.with_slot()
    assert list(h.submit("t1")) == []
    await h.settle()
    await h.run_thread("t1")
    assert h.reported == [("t1", "INITIALIZING"), ("t1", "RUNNING"), ("t1", "FINISHED")]
    last = h.peers.requests("update_task_execution_states")[-1].updates[-1]
    assert last.metrics.num_records_in == 7
    assert h.deployer.deployed["t1"].releases == [None]


@scenario()
async def test_a_submission_may_come_before_the_answer_to_the_offer(h: Harness) -> None:
    h.peers.answers["offer_slots"] = lambda _: h.loop.create_future()
    await h.with_slot()
    assert h.slot_states() == ["ALLOCATED", "FREE"]
    assert list(h.submit("t1")) == []
    assert h.slot_states() == ["ACTIVE", "FREE"]


@scenario()
async def test_a_repeated_submission_does_not_run_the_task_twice(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    first = h.deployer.deployed["t1"]
    assert list(h.submit("t1")) == []
    assert h.deployer.deployed["t1"] is first
    await h.settle()
    await h.run_thread("t1")
    assert list(h.submit("t1")) == []
    assert h.deployer.deployed["t1"] is first


@scenario()
async def test_a_task_cancelled_before_its_submission_does_not_run(h: Harness) -> None:
    await h.with_slot()
    h.cancel("t1")
    assert list(h.submit("t1")) == []
    assert "t1" not in h.deployer.deployed


@scenario()
async def test_a_task_for_a_missing_slot_is_rejected_and_the_others_run(h: Harness) -> None:
    await h.with_slot()
    await h.with_slot("alloc2", 1)
    h.free_slot("alloc2")
    (rejection,) = h.submit("t1", allocation="alloc2")
    assert (rejection.execution_attempt_id, rejection.error.type) == ("t1", "TaskSubmissionError")
    assert list(h.submit("t2")) == []


@scenario()
async def test_a_task_that_cannot_be_deployed_is_rejected_with_the_error(h: Harness) -> None:
    await h.with_slot()
    h.deployer.error = PartitionConnectionError("no network memory")
    (rejection,) = h.submit("t1")
    assert rejection.error.type == "PartitionConnectionError"
    h.free_slot()
    assert h.slot_states() == ["FREE", "FREE"]


@scenario()
async def test_a_submission_for_a_job_without_slots_is_an_error(h: Harness) -> None:
    with pytest.raises(TaskSubmissionError):
        h.submit("t1")


@scenario()
async def test_a_submission_of_a_former_job_master_is_refused(h: Harness) -> None:
    await h.with_slot()
    with pytest.raises(StaleFencingTokenError):
        h.submit("t1", token="jm-0")
    assert h.deployer.deployed == {}


@scenario()
async def test_a_failure_carries_the_users_traceback(h: Harness) -> None:
    def body(invokable: object) -> None:
        raise FunctionError("map: ValueError: no", remote_traceback="the user's frames")

    h.deployer.body = body
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    last = h.peers.requests("update_task_execution_states")[-1].updates[-1]
    assert (last.error.type, last.error.traceback) == ("FunctionError", "the user's frames")
    assert isinstance(h.deployer.deployed["t1"].releases[0], FunctionError)


@scenario()
async def test_an_unwrapped_exception_is_classified_by_the_code_that_raised_it(h: Harness) -> None:
    def body(invokable: object) -> None:
        raise KeyError("x")

    h.deployer.body = body
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    error = h.peers.requests("update_task_execution_states")[-1].updates[-1].error
    assert (error.type, "KeyError" in error.message) == ("FunctionError", True)


@scenario()
async def test_tasks_wait_for_the_users_code(h: Harness) -> None:
    h.deployer.is_user_code_ready = False
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    assert h.reported == []
    h.deployer.user_codes[0].ready.set_result(None)
    await h.settle()
    assert h.reported == [("t1", "INITIALIZING")]


@scenario()
async def test_tasks_fail_if_the_users_code_cannot_be_fetched_and_a_later_attempt_retries(h: Harness) -> None:
    h.deployer.is_user_code_ready = False
    await h.with_slot()
    h.submit("t1")
    h.deployer.user_codes[0].ready.set_exception(RpcUnavailableError("no blob server"))
    await h.settle()
    assert h.reported == [("t1", "FAILED")]
    assert h.deployer.user_codes[0].is_closed
    h.deployer.is_user_code_ready = True
    h.submit("t2")
    await h.settle()
    assert h.reported[-1] == ("t2", "INITIALIZING")


@scenario()
async def test_a_cancelled_task_is_canceled_whatever_its_thread_raises(h: Harness) -> None:
    def body(invokable: object) -> None:
        raise RuntimeError("because of the cancellation")

    h.deployer.body = body
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    h.cancel("t1")
    h.cancel("t1")
    await h.run_thread("t1")
    assert h.reported[-1] == ("t1", "CANCELED")
    assert h.deployer.deployed["t1"].invokable.is_canceled
    h.cancel("t1")


@scenario()
async def test_a_task_cancelled_before_its_start_never_runs(h: Harness) -> None:
    h.deployer.is_user_code_ready = False
    await h.with_slot()
    h.submit("t1")
    h.cancel("t1")
    h.deployer.user_codes[0].ready.set_result(None)
    await h.settle()
    assert h.reported == [("t1", "CANCELED")]
    assert not h.threads["task t1"].is_started


@scenario(cancellation_interval_ms=10_000, cancellation_timeout_ms=60_000)
async def test_a_task_that_does_not_stop_is_interrupted_and_then_ends_the_process(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    thread = h.threads["task t1"]
    thread.is_in_user_code = True
    h.cancel("t1")
    await h.pass_time(999)
    assert thread.interrupts == 0
    await h.pass_time(2)
    assert thread.interrupts == 1
    await h.pass_time(30_000)
    assert (thread.interrupts, h.fatal) == (4, [])
    await h.pass_time(30_000)
    assert "task.cancellation.timeout" in str(h.fatal[0]) and "the stack" in str(h.fatal[0])


@scenario()
async def test_a_task_inside_runtime_code_gets_a_longer_grace_period(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    h.cancel("t1")
    await h.pass_time(2_000)
    assert h.threads["task t1"].interrupts == 0
    await h.run_thread("t1")
    assert h.reported[-1] == ("t1", "CANCELED")


@scenario()
async def test_a_broken_input_fails_the_task(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    h.deployer.input_failures["t1"](PartitionConnectionError("the producer is gone"))
    await h.settle()
    await h.run_thread("t1")
    assert h.reported[-1] == ("t1", "FAILED")
    assert h.peers.requests("update_task_execution_states")[-1].updates[-1].error.type == "PartitionConnectionError"


@scenario()
async def test_freeing_a_slot_fails_its_tasks_and_waits_for_them(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    h.free_slot()
    assert h.slot_states() == ["RELEASING", "FREE"]
    await h.run_thread("t1")
    assert h.slot_states() == ["FREE", "FREE"]
    assert h.reported[-1] == ("t1", "FAILED")
    assert len(h.peers.requests("notify_slot_available")) == 1


# ---- reports and events


@scenario()
async def test_a_state_that_may_not_have_arrived_is_sent_again_in_order(h: Harness) -> None:
    errors = [RpcTimeoutError("slow"), RpcUnavailableError("restarting")]
    h.peers.answers["update_task_execution_states"] = lambda _: errors.pop() if errors else None
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    await h.pass_time(1_000)
    sent = h.reported
    assert sent[-3:] == [("t1", "INITIALIZING"), ("t1", "RUNNING"), ("t1", "FINISHED")]


@scenario()
async def test_a_report_the_job_master_refuses_fails_the_task(h: Harness) -> None:
    h.peers.answers["update_task_execution_states"] = lambda _: TaskSubmissionError("unknown attempt")
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    assert h.deployer.deployed["t1"].invokable.is_canceled is False  # not created yet
    await h.run_thread("t1")
    assert len(h.task_executor.service.unfinished_tasks) == 0


@scenario()
async def test_a_refused_final_report_of_a_task_is_repeated_in_a_smaller_form(h: Harness) -> None:
    def answer(request: jobmaster_pb2.UpdateTaskExecutionStatesRequest) -> Exception | None:
        if any(len(update.error.message) > 5_000 for update in request.updates):
            return InternalError("RESOURCE_EXHAUSTED: the message is too large")
        return None

    def fail(invokable: object) -> None:
        raise ValueError("x" * 1_000_000)

    h.deployer.body = fail
    h.peers.answers["update_task_execution_states"] = answer
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    attempts = [update for call in h.peers.requests("update_task_execution_states") for update in call.updates]
    refused, taken = [update for update in attempts if update.state == common_pb2.EXECUTION_FAILED]
    assert len(refused.error.message) > 5_000
    assert taken.error.type == refused.error.type
    assert "ValueError: xxx" in taken.error.message and "left out" in taken.error.message


@scenario()
async def test_events_follow_the_running_state_and_precede_the_end(h: Harness) -> None:
    def body(invokable: object) -> None:
        invokable.callbacks.notify_running()  # type: ignore[attr-defined]
        invokable.callbacks.send_operator_event("op", 1)  # type: ignore[attr-defined]
        invokable.callbacks.send_operator_event("op", 2)  # type: ignore[attr-defined]

    h.deployer.body = body
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    seen = [
        (name, [getattr(e, "payload_pickle", None) or e.state for e in getattr(r, "events", None) or r.updates])
        for _, _, _, name, r in h.peers.calls
        if name in ("update_task_execution_states", "send_operator_events_to_coordinator")
    ]
    assert seen == [
        ("update_task_execution_states", [4]),
        ("update_task_execution_states", [5]),
        ("send_operator_events_to_coordinator", [b"1", b"2"]),
        ("update_task_execution_states", [6]),
    ]


@scenario()
async def test_an_event_that_may_have_been_lost_fails_its_task(h: Harness) -> None:
    def body(invokable: object) -> None:
        invokable.callbacks.send_operator_event("op", 1)  # type: ignore[attr-defined]

    h.peers.answers["send_operator_events_to_coordinator"] = lambda _: RpcTimeoutError("slow")
    h.deployer.body = body
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    task = h.task_executor.service.unfinished_tasks[0]
    task.send_operator_event("op", 1)
    await h.settle()
    assert task.state.name == "CANCELING"
    await h.run_thread("t1")
    assert h.reported[-1] == ("t1", "FAILED")


def event(attempt: str, payload: bytes, number: int) -> jobmaster_pb2.OperatorEvent:
    return jobmaster_pb2.OperatorEvent(
        operator_id="op", execution_attempt_id=attempt, payload_pickle=payload, sequence_number=number
    )


@scenario()
async def test_events_that_arrive_before_the_task_runs_are_kept(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    request = taskexecutor_pb2.OperatorEventsToTasks(
        job_id=JOB,
        events=[
            event("t1", b"split", 1),
            event("ended", b"late", 1),
        ],
    )
    for _ in range(2):  # the second is a repetition, because the answer to the first was lost
        h.task_executor.send_operator_events_to_tasks(request, context(JM_ID))
    await h.run_thread("t1")
    assert h.deployer.deployed["t1"].invokable.events == [("op", b"split")]


@scenario()
async def test_metrics_are_reported_every_second_while_tasks_run(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.pass_time(3_050)
    assert len(h.peers.requests("report_task_metrics")) == 3
    await h.run_thread("t1")
    await h.pass_time(3_000)
    assert len(h.peers.requests("report_task_metrics")) == 3


# ---- the end of a job


@scenario()
async def test_everything_of_a_job_is_released_when_its_job_master_is_lost(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1", "t2")
    h.deployer.unread_partitions.update({"p-t1", "p-t2"})
    await h.settle()
    h.peers.break_connection(JOB_MASTER)
    assert len(h.jobs) == 0
    assert h.slot_states() == ["RELEASING", "FREE"]
    await h.run_thread("t1")
    assert not h.deployer.user_codes[0].is_closed
    await h.run_thread("t2")
    assert h.slot_states() == ["FREE", "FREE"]
    assert h.deployer.user_codes[0].is_closed
    assert sorted(h.deployer.released_partitions) == ["p-t1", "p-t2"]
    assert len(h.peers.requests("notify_slot_available")) == 1


@scenario(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000, heartbeat_rpc_failure_threshold=-1)
async def test_a_silent_job_master_is_lost_after_the_timeout(h: Harness) -> None:
    await h.with_slot()
    h.peers.answers["heartbeat_from_task_manager"] = lambda _: RpcTimeoutError("hangs")
    await h.pass_time(4_900)
    assert len(h.jobs) == 1
    await h.pass_time(1_200)
    assert len(h.jobs) == 0


@scenario(heartbeat_interval_ms=1_000)
async def test_a_job_master_is_lost_after_two_failed_calls_in_a_row(h: Harness) -> None:
    await h.with_slot()
    h.peers.answers["heartbeat_from_task_manager"] = lambda _: RpcUnavailableError("refused")
    await h.pass_time(1_100)
    assert len(h.jobs) == 1
    await h.pass_time(1_000)
    assert len(h.jobs) == 0


@scenario()
async def test_a_job_master_that_does_not_know_this_task_executor_is_disconnected(h: Harness) -> None:
    await h.with_slot()
    h.peers.answers["heartbeat_from_task_manager"] = lambda _: jobmaster_pb2.JobMasterHeartbeatResponse(
        registered=False
    )
    await h.pass_time(10_100)
    assert len(h.jobs) == 0


@scenario()
async def test_a_new_job_master_of_a_job_replaces_the_former_one(h: Harness) -> None:
    await h.with_slot()
    h.request_slot(1, "alloc2", jm_id="jm-2")
    await h.settle()
    assert h.slot_states() == ["FREE", "ACTIVE"]
    with pytest.raises(StaleFencingTokenError):
        h.submit("t1", allocation="alloc2")
    assert list(h.submit("t1", allocation="alloc2", token="jm-2")) == []


@scenario()
async def test_disconnecting_twice_is_acknowledged(h: Harness) -> None:
    await h.with_slot()
    request = resourcemanager_pb2.DisconnectRequest(job_id=JOB, reason="finished")
    h.task_executor.disconnect_job_master(request, context(JM_ID))
    h.task_executor.disconnect_job_master(request, context(JM_ID))
    assert h.slot_states() == ["FREE", "FREE"]


@scenario()
async def test_a_job_stays_until_its_results_are_read(h: Harness) -> None:
    h.deployer.unread_partitions.add("p-t1")
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.run_thread("t1")
    h.free_slot()
    await h.pass_time(3_000)
    assert len(h.jobs) == 1
    h.deployer.unread_partitions.clear()
    await h.pass_time(1_100)
    assert len(h.jobs) == 0
    assert h.deployer.user_codes[0].is_closed


@scenario()
async def test_partitions_are_released_on_request(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    request = taskexecutor_pb2.ReleasePartitionsRequest(job_id=JOB, result_partition_ids=["p-t1", "unknown"])
    h.task_executor.release_partitions(request, context(JM_ID))
    h.task_executor.release_partitions(request, context(JM_ID))
    assert h.deployer.released_partitions == ["p-t1"]


# ---- heartbeats of the JobMaster


@scenario()
async def test_a_slot_the_job_master_does_not_know_is_freed(h: Harness) -> None:
    await h.with_slot()
    await h.with_slot("alloc2", 1)
    await h.pass_time(1_500)
    request = taskexecutor_pb2.AllocatedSlotReport(job_id=JOB, allocation_ids=["alloc2", "gone"])
    h.task_executor.heartbeat_from_job_master(request, context(JM_ID))
    await h.settle()
    assert h.slot_states() == ["FREE", "ACTIVE"]
    (failed,) = h.peers.requests("fail_slot")
    assert failed.allocation_id == "gone"


@scenario()
async def test_an_older_report_does_not_free_a_slot_accepted_since(h: Harness) -> None:
    await h.with_slot()
    request = taskexecutor_pb2.AllocatedSlotReport(job_id=JOB)
    h.task_executor.heartbeat_from_job_master(request, context(JM_ID))
    assert h.slot_states() == ["ACTIVE", "FREE"]


@scenario()
async def test_the_heartbeat_answer_lists_running_tasks_and_those_with_unreported_ends(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1", "t2")
    await h.settle()
    h.peers.answers["update_task_execution_states"] = lambda _: h.loop.create_future()
    await h.run_thread("t1")
    request = taskexecutor_pb2.AllocatedSlotReport(job_id=JOB, allocation_ids=["alloc"])
    answer = h.task_executor.heartbeat_from_job_master(request, context(JM_ID))
    assert list(answer.deployed_execution_attempts) == ["t1", "t2"]
    assert [m.execution_attempt_id for m in answer.metrics] == ["t2"]


@scenario()
async def test_an_unknown_job_master_gets_an_error(h: Harness) -> None:
    with pytest.raises(NotRegisteredError):
        h.task_executor.heartbeat_from_job_master(
            taskexecutor_pb2.AllocatedSlotReport(job_id=OTHER_JOB), context(JM_ID)
        )


# ---- shutdown


@scenario()
async def test_an_orderly_stop_disconnects_the_peers_and_ends_the_tasks(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    stopping = asyncio.ensure_future(h.task_executor.stop("SIGTERM"))
    await h.settle()
    assert len(h.peers.requests("disconnect_task_manager")) == 1
    assert len(h.peers.requests("disconnect_task_executor")) == 1
    await h.run_thread("t1")
    await stopping
    assert h.task_executor.service.unfinished_tasks == []


@scenario()
async def test_the_wait_of_an_orderly_stop_is_bounded(h: Harness) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    await h.task_executor.stop("SIGTERM")
    assert len(h.task_executor.service.unfinished_tasks) == 1


# ---- one environment per process


@scenario()
async def test_the_first_slot_dedicates_the_process_and_another_profile_is_refused(h: Harness) -> None:
    h.request_slot(0, "blue", profile="blue")
    await h.settle()
    with pytest.raises(SlotAllocationError):
        h.request_slot(1, "plain")
    h.request_slot(1, "blue-2", profile="blue")
    await h.settle()


@scenario()
async def test_a_repeated_registration_contains_the_profile_of_the_process(h: Harness) -> None:
    (first,) = h.peers.requests("register_task_executor")
    assert not first.HasField("profile")
    h.request_slot(0, "plain")
    h.peers.answers["heartbeat_from_task_executor"] = lambda _: resourcemanager_pb2.ResourceManagerHeartbeatResponse(
        resource_manager_id=RM_ID, registered=False
    )
    await h.pass_time(10_000)
    second = h.peers.requests("register_task_executor")[-1]
    assert second.HasField("profile") and second.profile == ""


@scenario()
async def test_a_process_in_use_is_not_renewed(h: Harness) -> None:
    await h.with_slot()
    with pytest.raises(SlotAllocationError, match="te-1 is in use"):
        h.renew()
    assert h.renewals == 0


@scenario()
async def test_only_the_resource_manager_may_renew_the_process(h: Harness) -> None:
    with pytest.raises(StaleFencingTokenError):
        h.renew(token="stranger")
    h.renew()
    assert h.renewals == 1


@scenario()
async def test_a_job_master_is_not_declared_lost_after_this_process_was_suspended(h: Harness) -> None:
    await h.with_slot()
    assert isinstance(h.loop, VirtualTimeLoop)
    h.loop.advance_by(120)
    await h.pass_time(30_000)
    assert h.slot_states() == ["ACTIVE", "FREE"]
    assert len(h.peers.requests("register_task_manager")) == 1
    h.peers.answers["heartbeat_from_task_manager"] = lambda _: RpcTimeoutError("silence")
    await h.pass_time(60_000)
    assert h.slot_states() == ["FREE", "FREE"]
