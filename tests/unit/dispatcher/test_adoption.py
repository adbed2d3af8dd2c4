"""JobMasters that outlive their Dispatcher, or their session: adopted, refused, or replaced."""

from __future__ import annotations

import asyncio

import pytest
from dispatcher_fakes import CONTEXT, JOB, FakeJobMaster, Harness, job_graph, scenario

from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import (
    ExternalError,
    HighAvailabilityError,
    LeadershipLostError,
    NotLeaderError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.common.ids import JobID
from flinkpy.highavailability.leader_election import LeaderInformation

RUNNING, RESTARTING, INITIALIZING = common_pb2.RUNNING, common_pb2.RESTARTING, common_pb2.INITIALIZING
FINISHED, CANCELED, CANCELLING = common_pb2.FINISHED, common_pb2.CANCELED, common_pb2.CANCELLING
CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}
UNFINISHED = [job_graph()]
TIMEOUT_S = 10.0


def led_by(token: str) -> LeaderInformation:
    return LeaderInformation(f"{token}:1", token)


async def finished(harness: Harness, token: str) -> None:
    """The JobMaster with this id reports the result."""
    terminated = pb.JobTerminated(
        job_id=JOB,
        job_master_id=token,
        result=job_pb2.JobResult(job_id=JOB, name="job", status=FINISHED),
        details=job_pb2.JobDetails(job_id=JOB, name="job", status=FINISHED, start_time_ms=1, end_time_ms=2),
    )
    answer = harness.dispatcher.notify_job_terminated(terminated, CONTEXT)
    if not isinstance(answer, common_pb2.Acknowledge):
        await answer


def has_started_a_job(harness: Harness) -> bool:
    return any(master.leads(JOB) for master in harness.job_masters)


# --- a new leader finds a job that a JobMaster leads ----------------------------------------------------------------


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_job_master_that_registers_is_adopted_and_its_job_continues(harness: Harness) -> None:
    assert harness.status() == INITIALIZING
    harness.leaders.lead(JOB, led_by("survivor-1"))
    survivor = harness.leading_hello("survivor-1")
    await harness.settle()
    assert survivor.was_adopted and not survivor.was_told_to_stop
    assert survivor.commands[0].adopted.dispatcher_id == harness.dispatcher.fencing_token
    assert harness.status() == RUNNING
    await harness.settle(2 * TIMEOUT_S)
    await harness.hello()  # the standby
    assert not has_started_a_job(harness)
    await finished(harness, "survivor-1")
    assert (await harness.result()).result.status == FINISHED
    await harness.settle()
    assert survivor.was_told_to_stop


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_the_dispatcher_exchanges_messages_with_an_adopted_job_master(harness: Harness) -> None:
    harness.leading_hello("survivor-1")
    await harness.settle()
    await harness.dispatcher.request_job(job_pb2.JobDetailsRequest(job_id=JOB), CONTEXT)
    assert ("survivor-1:1", "survivor-1") in {(call.address, call.token) for call in harness.gateways.calls}
    harness.dispatcher.notify_job_status(
        pb.JobStatusUpdate(job_id=JOB, job_master_id="survivor-1", status=RESTARTING, timestamp_ms=9), CONTEXT
    )
    assert harness.status() == RESTARTING
    with pytest.raises(StaleFencingTokenError):
        await finished(harness, "another")


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_job_master_that_does_not_register_in_time_is_replaced(harness: Harness) -> None:
    harness.gateways.answers["request_job_details"] = lambda request: RpcTimeoutError("it hangs")
    harness.leaders.lead(JOB, led_by("survivor-1"))
    await harness.hello()
    await harness.settle(TIMEOUT_S - 1)
    assert not has_started_a_job(harness)
    await harness.settle(2)
    successor = await harness.next_leader()
    assert successor.start_command.is_recovery
    assert harness.leaders.num_listeners == 0


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_job_master_whose_leadership_has_ended_is_not_waited_for(harness: Harness) -> None:
    harness.leaders.lead(JOB, led_by("survivor-1"))
    await harness.hello()
    assert not has_started_a_job(harness)
    harness.leaders.lead(JOB, None)
    await harness.settle()
    assert has_started_a_job(harness)


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_an_unreachable_job_master_is_not_waited_for(harness: Harness) -> None:
    harness.gateways.answers["request_job_details"] = lambda request: RpcUnavailableError("refused")
    harness.leaders.lead(JOB, led_by("survivor-1"))
    await harness.hello()
    await harness.settle()
    assert has_started_a_job(harness)


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_job_without_a_leader_starts_at_once(harness: Harness) -> None:
    harness.leaders.lead(JOB, None)
    await harness.hello()
    assert has_started_a_job(harness)


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_job_whose_leader_cannot_be_determined_counts_as_without_a_leader(harness: Harness) -> None:
    await harness.hello()
    await harness.settle(6)
    assert has_started_a_job(harness)


@scenario(is_highly_available=True, unfinished=UNFINISHED, num_standbys=0)
async def test_a_late_registration_is_accepted_while_no_other_job_master_has_the_job(harness: Harness) -> None:
    harness.leaders.lead(JOB, led_by("survivor-1"))
    await harness.settle(TIMEOUT_S + 1)
    survivor = harness.leading_hello("survivor-1")
    await harness.settle()
    assert survivor.was_adopted
    await harness.hello()  # the process that was to replace it
    assert not has_started_a_job(harness)


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_late_registration_is_stopped_if_another_job_master_has_the_job(harness: Harness) -> None:
    harness.leaders.lead(JOB, led_by("survivor-1"))
    await harness.hello()
    await harness.settle(TIMEOUT_S + 1)
    successor = await harness.next_leader()
    survivor = harness.leading_hello("survivor-1")
    await harness.settle()
    assert survivor.was_told_to_stop and not survivor.was_adopted
    successor.started()
    successor.status(RUNNING)
    assert harness.status() == RUNNING
    assert not successor.was_told_to_stop


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_only_one_of_two_job_masters_that_claim_leadership_is_accepted(harness: Harness) -> None:
    first = harness.leading_hello("survivor-1", name="one")
    second = harness.leading_hello("survivor-2", name="two")
    await harness.settle()
    assert (first.was_adopted, second.was_adopted) == (True, False)
    assert second.was_told_to_stop


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_second_registration_of_a_job_master_replaces_its_session(harness: Harness) -> None:
    first = harness.leading_hello("survivor-1")
    await harness.settle()
    second = harness.leading_hello("survivor-1")
    await harness.settle()
    assert second.was_adopted and first.is_closed
    assert not first.was_told_to_stop and not second.was_told_to_stop
    await harness.settle(2 * TIMEOUT_S)
    assert not has_started_a_job(harness) and harness.status() == RUNNING


@scenario(is_highly_available=True)
async def test_the_job_master_of_an_unknown_job_is_told_to_stop(harness: Harness) -> None:
    stranger = harness.leading_hello("survivor-1")
    await harness.settle()
    assert stranger.was_told_to_stop


@scenario(is_highly_available=True)
async def test_the_job_master_of_a_job_that_has_ended_is_told_to_stop(harness: Harness) -> None:
    leader = await harness.running_job()
    await leader.terminated(FINISHED)
    late = harness.leading_hello(leader.start_command.job_master_id)
    await harness.settle()
    assert late.was_told_to_stop


@scenario()
async def test_without_high_availability_no_job_master_is_adopted(harness: Harness) -> None:
    leader = await harness.running_job()
    other = harness.leading_hello(leader.start_command.job_master_id)
    await harness.settle()
    assert other.was_told_to_stop


# --- cancellations and results during the adoption --------------------------------------------------------------------


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_cancellation_during_the_wait_for_a_job_master_reaches_it(harness: Harness) -> None:
    harness.leaders.lead(JOB, led_by("survivor-1"))
    await harness.cancel()
    assert harness.status() == CANCELLING
    harness.leading_hello("survivor-1")
    await harness.settle()
    assert [call.address for call in harness.gateways.calls_of("cancel")] == ["survivor-1:1"]


@scenario(is_highly_available=True, unfinished=[job_graph(is_cancel_requested=True)])
async def test_a_cancellation_that_a_former_dispatcher_acknowledged_reaches_the_job_master(harness: Harness) -> None:
    assert harness.status() == CANCELLING
    harness.leaders.lead(JOB, led_by("survivor-1"))
    harness.leading_hello("survivor-1")
    await harness.settle()
    assert [call.address for call in harness.gateways.calls_of("cancel")] == ["survivor-1:1"]


@scenario(is_highly_available=True, unfinished=[job_graph(is_cancel_requested=True)])
async def test_a_cancellation_that_a_former_dispatcher_acknowledged_reaches_the_successor(harness: Harness) -> None:
    (await harness.next_leader()).started()
    await harness.settle()
    assert len(harness.gateways.requests("cancel")) == 1


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_cancellation_reaches_the_successor_of_a_missing_job_master(harness: Harness) -> None:
    await harness.cancel()
    successor = await harness.next_leader()
    successor.started()
    await harness.settle()
    assert len(harness.gateways.requests("cancel")) == 1
    await successor.terminated(CANCELED)
    assert (await harness.result()).result.status == CANCELED


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_a_result_that_a_former_leader_stored_in_its_last_moments_ends_the_job(harness: Harness) -> None:
    harness.leaders.lead(JOB, led_by("survivor-1"))
    harness.results.create_dirty(
        pb.JobTerminated(
            job_id=JOB,
            job_master_id="survivor-1",
            result=job_pb2.JobResult(job_id=JOB, name="job", status=FINISHED),
            details=job_pb2.JobDetails(job_id=JOB, name="job", status=FINISHED),
        )
    )
    await harness.hello()
    harness.leaders.lead(JOB, None)
    await harness.settle()
    assert harness.status() == FINISHED
    assert not has_started_a_job(harness)
    assert harness.results.clean and not harness.results.dirty


# --- sessions that break --------------------------------------------------------------------------------------------


async def running(harness: Harness) -> FakeJobMaster:
    leader = await harness.running_job(**CHECKPOINTED)
    leader.status(RUNNING)
    harness.leaders.lead(JOB, led_by(leader.start_command.job_master_id))
    return leader


@scenario(is_highly_available=True)
async def test_a_child_whose_session_breaks_registers_again_and_nothing_restarts(harness: Harness) -> None:
    leader = await running(harness)
    leader.break_session()
    await harness.settle()
    assert leader.process_id in harness.processes.alive and harness.status() == RUNNING
    again = harness.leading_hello(leader.start_command.job_master_id, name=leader.process_id)
    await harness.settle(2 * TIMEOUT_S)
    assert again.was_adopted and not again.was_told_to_stop
    assert harness.status() == RUNNING and harness.released == []


@scenario(is_highly_available=True)
async def test_a_child_that_dies_is_replaced_at_once_and_its_leadership_is_ended(harness: Harness) -> None:
    leader = await running(harness)
    await harness.hello()
    await harness.kill(leader)
    assert harness.released == [(JOB, leader.start_command.job_master_id)]
    assert (await harness.next_leader()).process_id != leader.process_id


@scenario(is_highly_available=True)
async def test_a_child_that_does_not_reconnect_is_killed_and_replaced(harness: Harness) -> None:
    leader = await running(harness)
    await harness.hello()
    leader.break_session()
    await harness.settle(TIMEOUT_S + 1)
    assert (leader.process_id, True) in harness.processes.stopped
    assert (await harness.next_leader()).process_id != leader.process_id


@scenario(is_highly_available=True, unfinished=UNFINISHED)
async def test_an_adopted_job_master_whose_session_breaks_is_waited_for_again(harness: Harness) -> None:
    harness.leaders.lead(JOB, led_by("survivor-1"))
    survivor = harness.leading_hello("survivor-1")
    await harness.settle()
    survivor.break_session()
    await harness.settle()
    again = harness.leading_hello("survivor-1")
    await harness.settle(2 * TIMEOUT_S)
    assert again.was_adopted and harness.status() == RUNNING
    assert not has_started_a_job(harness)


@scenario(is_highly_available=True)
async def test_a_result_is_taken_from_a_job_master_between_two_sessions(harness: Harness) -> None:
    leader = await running(harness)
    leader.break_session()
    await harness.settle()
    await leader.terminated(FINISHED)
    assert (await harness.result()).result.status == FINISHED
    assert harness.leaders.num_listeners == 0


# --- the end of a leadership ----------------------------------------------------------------------------------------


@scenario(is_highly_available=True)
async def test_a_dispatcher_that_lost_its_leadership_leaves_its_job_masters_to_the_next(harness: Harness) -> None:
    leader = await running(harness)
    standby = await harness.hello()
    harness.dispatcher.leave()
    await asyncio.sleep(1)
    assert harness.processes.is_left
    assert leader.process_id in harness.processes.alive and not leader.was_told_to_stop
    assert standby.process_id not in harness.processes.alive
    harness.processes.exit(leader.process_id, "exit code 0")
    await asyncio.sleep(1)
    assert harness.released == [(JOB, leader.start_command.job_master_id)]
    assert harness.graphs.job_ids() == [JobID(JOB)] and not harness.results.dirty


@scenario(is_highly_available=True)
async def test_the_clean_up_of_an_ended_job_is_repeated_until_it_succeeds(harness: Harness) -> None:
    harness.clean_up_errors = [ExternalError("ZooKeeper is away"), ExternalError("ZooKeeper is away")]
    leader = await harness.running_job()
    await leader.terminated(FINISHED)
    await harness.settle()
    assert harness.results.dirty and not harness.results.clean
    await harness.settle(5)
    assert harness.results.clean and not harness.results.dirty
    assert harness.clean_up_errors == []


@scenario(is_highly_available=True, heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
async def test_a_dispatcher_that_lost_its_leadership_declares_no_job_master_dead(harness: Harness) -> None:
    leader = await running(harness)
    harness.gateways.answers["request_job_details"] = lambda request: RpcTimeoutError("it hangs")
    harness.leadership_errors = [LeadershipLostError("another leads")]
    await harness.settle(20)
    assert harness.leadership_errors == []
    assert leader.process_id in harness.processes.alive and harness.status() == RUNNING


@scenario(is_highly_available=True, heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
async def test_an_uncertain_leadership_is_checked_again(harness: Harness) -> None:
    leader = await running(harness)
    harness.gateways.answers["request_job_details"] = lambda request: RpcTimeoutError("it hangs")
    harness.leadership_errors = [HighAvailabilityError("away"), HighAvailabilityError("away")]
    await harness.settle(20)
    assert harness.leadership_errors == []
    assert (leader.process_id, True) in harness.processes.stopped


@scenario(is_highly_available=True)
async def test_a_submission_that_a_former_leader_cannot_store_goes_to_the_next_leader(harness: Harness) -> None:
    harness.graphs.error = LeadershipLostError("another leads")
    with pytest.raises(NotLeaderError):
        await harness.submit()
    assert not harness.graphs.graphs
    harness.graphs.error = None
    await harness.submit()


@scenario(is_highly_available=True)
async def test_a_result_is_acknowledged_only_after_it_is_stored(harness: Harness) -> None:
    leader = await harness.running_job()
    harness.results.errors = [ExternalError("the storage is away") for _ in range(10)]
    answered = asyncio.ensure_future(leader.terminated(FINISHED))
    await harness.settle(8)
    assert not answered.done() and harness.status() != FINISHED
    await harness.settle(8)
    assert answered.done() and harness.status() == FINISHED
    assert harness.results.clean
