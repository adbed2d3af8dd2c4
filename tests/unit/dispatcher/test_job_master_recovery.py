"""The Dispatcher recovers jobs whose JobMasters died, and jobs of a former Dispatcher."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from dispatcher_fakes import CONTEXT, JOB, OTHER_JOB, Harness, job_graph, scenario

from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import DuplicateJobSubmissionError, JobNotFoundError, RpcTimeoutError, StaleFencingTokenError
from flinkpy.common.ids import JobID

RUNNING, RESTARTING, INITIALIZING = common_pb2.RUNNING, common_pb2.RESTARTING, common_pb2.INITIALIZING
FAILED, FINISHED, CANCELED, CANCELLING = (
    common_pb2.FAILED,
    common_pb2.FINISHED,
    common_pb2.CANCELED,
    common_pb2.CANCELLING,
)
CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}


@scenario()
async def test_a_lost_job_master_is_replaced_while_the_client_keeps_waiting(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    first.status(RUNNING)
    waiting = asyncio.create_task(harness.result())
    await harness.hello()  # the next standby

    await harness.kill(first)
    assert harness.status() == RESTARTING
    second = await harness.next_leader(JOB)
    start = second.start_command
    assert (first.start_command.job_master_id, start.job_master_id) == ("leader-1", "leader-2")
    assert (first.start_command.is_recovery, start.is_recovery) == (False, True)
    assert start.job_graph == first.start_command.job_graph
    assert start.recovery_directory == first.start_command.recovery_directory
    assert Path(start.recovery_directory).is_dir()

    second.started()
    second.status(RUNNING)
    assert harness.status() == RUNNING
    assert not waiting.done()
    await second.terminated(FINISHED)
    assert (await waiting).result.status == FINISHED
    assert not Path(start.recovery_directory).exists()


@scenario()
async def test_watchers_see_the_job_restart_and_run_again(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    seen: list[int] = []

    async def watch() -> None:
        async for response in harness.dispatcher.watch_job_status(pb.JobIdMessage(job_id=JOB), CONTEXT):
            seen.append(response.status)

    watching = asyncio.create_task(watch())
    await harness.settle()
    first.status(RUNNING, at_ms=9_000_000)
    await harness.hello()
    await harness.kill(first)
    second = await harness.next_leader(JOB)
    second.started()
    second.status(RUNNING, at_ms=8_000_000)  # of a host whose clock is behind
    await second.terminated(FINISHED)
    await watching
    assert seen == [INITIALIZING, RUNNING, RESTARTING, RUNNING, FINISHED]


@scenario()
async def test_messages_of_the_lost_job_master_are_ignored(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    late_result = first.terminated_message(FAILED)
    await harness.kill(first)
    for _ in range(2):
        with pytest.raises(StaleFencingTokenError):
            first.status(RUNNING)
        with pytest.raises(StaleFencingTokenError):
            first.started()
        with pytest.raises(StaleFencingTokenError):
            harness.dispatcher.notify_job_terminated(late_result, CONTEXT)
        (await harness.next_leader(JOB)).started()


@scenario()
async def test_a_job_without_checkpoints_starts_over_if_its_restart_strategy_allows(harness: Harness) -> None:
    first = await harness.running_job(**{"restart-strategy.type": "fixed-delay"})
    await harness.kill(first)
    assert harness.status() == RESTARTING
    assert (await harness.next_leader(JOB)).start_command.is_recovery


@scenario()
async def test_a_job_that_must_not_run_twice_fails_at_once(harness: Harness) -> None:
    first = await harness.running_job()
    await harness.kill(first)
    result = (await harness.result()).result
    assert (result.status, result.error.type) == (FAILED, "JobMasterLostError")
    assert "SIGKILL" in result.error.message


@scenario(job_master_recovery_attempts=3)
async def test_job_masters_lost_in_quick_succession_cause_a_clear_failure(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    for _ in range(3):
        job_master.started()
        await harness.kill(job_master)
        assert harness.status() == RESTARTING
        job_master = await harness.next_leader(JOB)
    await harness.kill(job_master)
    result = (await harness.result()).result
    assert result.status == FAILED
    assert "loss 4 in a row" in result.error.message
    assert not harness.recovery_directories.path_of(JobID(JOB)).exists()


@scenario(job_master_recovery_attempts=2, job_master_recovery_reset_ms=30_000)
async def test_a_job_master_that_lived_long_enough_resets_the_count(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    for _ in range(6):
        job_master.started()
        await harness.settle(31)
        await harness.kill(job_master)
        job_master = await harness.next_leader(JOB)
    assert harness.status() == RESTARTING


@scenario()
async def test_the_pauses_between_job_masters_grow(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    pauses = []
    for _ in range(5):
        lost_at = harness.loop.time()
        await harness.kill(job_master)
        job_master = await harness.next_leader(JOB)
        pauses.append(harness.loop.time() - lost_at)
    assert pauses[4] > pauses[0] + 0.5
    assert pauses[1:] == sorted(pauses[1:])


@scenario(job_master_recovery_initial_backoff_ms=2_000, job_master_recovery_max_backoff_ms=3_000)
async def test_the_pauses_follow_the_configuration(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    pauses = []
    for _ in range(4):
        lost_at = harness.loop.time()
        await harness.kill(job_master)
        job_master = await harness.next_leader(JOB)
        pauses.append(harness.loop.time() - lost_at)
    assert [round(pause - pauses[0]) for pause in pauses] == [0, 2, 3, 3]


@scenario(heartbeat_timeout_ms=50_000, heartbeat_interval_ms=10_000)
async def test_a_job_master_that_hangs_is_killed_and_replaced(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    name = first.process_id
    harness.gateways.answers["request_job_details"] = lambda request: RpcTimeoutError("no answer")
    await harness.settle(70)
    assert (name, True) in harness.processes.stopped
    assert harness.status() == RESTARTING
    assert (await harness.next_leader(JOB)).start_command.job_master_id == "leader-2"


@scenario()
async def test_a_cancellation_between_two_job_masters_is_forwarded_to_the_next(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    await harness.kill(first)
    await harness.cancel()
    assert harness.status() == CANCELLING
    second = await harness.next_leader(JOB)
    second.started()
    await harness.settle()
    assert len(harness.gateways.requests("cancel")) == 1
    await second.terminated(CANCELED)
    assert harness.status() == CANCELED


@scenario(job_master_recovery_attempts=1)
async def test_a_job_to_be_canceled_whose_job_masters_all_die_is_canceled(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    await harness.cancel()
    await harness.kill(job_master)
    assert harness.status() == CANCELLING
    await harness.kill(await harness.next_leader(JOB))
    assert (await harness.result()).result.status == CANCELED


@scenario()
async def test_details_are_the_last_known_ones_with_the_current_status(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    details = job_pb2.JobDetails(job_id=JOB, name="job", status=RUNNING, num_restarts=3)
    harness.gateways.answers["request_job_details"] = lambda request: details
    await harness.settle(15)
    await harness.kill(first)
    answer = await harness.dispatcher.request_job(job_pb2.JobDetailsRequest(job_id=JOB), CONTEXT)
    assert (answer.status, answer.num_restarts) == (RESTARTING, 3)
    assert details.status == RUNNING


@scenario(unfinished=(job_graph(JOB, created_ms=5),))
async def test_a_job_of_a_former_dispatcher_is_run_again(harness: Harness) -> None:
    assert harness.status() == INITIALIZING
    with pytest.raises(DuplicateJobSubmissionError, match="is INITIALIZING"):
        await harness.submit()
    job_master = await harness.hello()
    start = job_master.start_command
    assert (start.is_recovery, start.submitted_ms) == (True, 5)
    job_master.started()
    await job_master.terminated(FINISHED)
    assert (await harness.result()).result.status == FINISHED
    await harness.submit(OTHER_JOB)


@scenario(unfinished=(job_graph(JOB),))
async def test_a_recovered_job_is_canceled_by_its_job_master_which_knows_its_checkpoints(harness: Harness) -> None:
    await harness.cancel()
    assert harness.status() == CANCELLING
    (await harness.hello()).started()
    await harness.settle()
    assert len(harness.gateways.requests("cancel")) == 1


@scenario()
async def test_a_coordination_request_waits_for_the_next_job_master(harness: Harness) -> None:
    first = await harness.running_job(**CHECKPOINTED)
    await harness.kill(first)
    harness.gateways.answers["deliver_coordination_request"] = lambda _: pb.CoordinationResponse(payload=b"answer")
    asked = asyncio.create_task(
        harness.dispatcher.send_coordination_request(pb.CoordinationRequest(job_id=JOB), CONTEXT)
    )
    await harness.settle()
    assert not asked.done()
    (await harness.next_leader(JOB)).started()
    assert (await asked).payload == b"answer"


@scenario()
async def test_a_job_that_was_never_stored_is_unknown_and_leaves_nothing(harness: Harness) -> None:
    harness.graphs.error = OSError("disk full")
    with pytest.raises(Exception, match="disk full"):
        await harness.submit()
    with pytest.raises(JobNotFoundError):
        harness.status()


@scenario()
async def test_the_files_of_a_job_are_removed_when_its_job_master_has_ended(harness: Harness) -> None:
    """The files stay until then, because the JobMaster removes its checkpoints after it learns of the end."""
    job_master = await harness.running_job(**CHECKPOINTED)
    directory = harness.recovery_directories.path_of(JobID(JOB))
    harness.processes.is_slow_to_stop = True
    await job_master.terminated(FINISHED)
    await harness.settle()
    assert harness.status() == FINISHED
    assert job_master.was_told_to_stop
    assert directory.is_dir() and list(harness.results.dirty) == [JobID(JOB)]
    harness.processes.exit(job_master.process_id, "exit code 0")
    await harness.settle()
    assert harness.cleaned_up == [JOB]
    assert not directory.exists() and list(harness.results.clean) == [JobID(JOB)]


@scenario()
async def test_a_suspended_job_keeps_the_files_for_its_next_job_master(harness: Harness) -> None:
    await harness.running_job(**CHECKPOINTED)
    await harness.dispatcher.stop_jobs("the Dispatcher ends")
    await harness.settle()
    assert harness.recovery_directories.path_of(JobID(JOB)).is_dir()
    assert harness.cleaned_up == [] and harness.graphs.job_ids() == [JobID(JOB)]
