from __future__ import annotations

import asyncio

import pytest
from dispatcher_fakes import CONTEXT, DISPATCHER_ID, JOB, OTHER_JOB, FakeJobMaster, Harness, job_graph, scenario

from flinkpy import __version__
from flinkpy._proto import common_pb2, job_pb2, resourcemanager_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import (
    DuplicateJobSubmissionError,
    ExternalError,
    JobNotFoundError,
    JobSubmissionError,
    JobTerminatedWithoutCancellationError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
    VersionMismatchError,
)
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.options import dispatcher_options
from flinkpy.rpc.server import CallContext

INITIALIZING, CREATED, RUNNING = common_pb2.INITIALIZING, common_pb2.CREATED, common_pb2.RUNNING
FAILED, CANCELLING, CANCELED = common_pb2.FAILED, common_pb2.CANCELLING, common_pb2.CANCELED
FINISHED, SUSPENDED = common_pb2.FINISHED, common_pb2.SUSPENDED


# --- submission -----------------------------------------------------------------------------------------------------


@scenario()
async def test_a_job_is_stored_acknowledged_and_then_handed_to_a_standby(harness: Harness) -> None:
    standby = await harness.hello()
    await harness.submit()
    assert harness.graphs.job_ids() == [JobID(JOB)]
    await harness.settle()
    start = standby.start_command
    assert start.job_graph == job_graph()
    assert (start.job_master_id, start.dispatcher_id) == ("leader-1", DISPATCHER_ID)
    assert start.resource_manager_address == "rm:1"
    assert start.configuration.entries["heartbeat.interval"] == "1 s"


@scenario()
async def test_a_job_that_cannot_be_stored_is_refused_and_may_be_submitted_again(harness: Harness) -> None:
    harness.graphs.error = OSError("disk full")
    with pytest.raises(ExternalError, match="disk full"):
        await harness.submit()
    assert harness.dispatcher.list_jobs(pb.ListJobsRequest(), CONTEXT).jobs == []
    harness.graphs.error = None
    await harness.submit()


@scenario()
async def test_only_one_of_two_simultaneous_submissions_is_accepted_and_the_other_waits_for_it(
    harness: Harness,
) -> None:
    first = harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph()), CONTEXT)
    second = asyncio.ensure_future(harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph()), CONTEXT))
    assert not second.done(), "the job has not been accepted yet"
    assert (await first).job_id == JOB
    with pytest.raises(DuplicateJobSubmissionError, match="INITIALIZING"):
        await second
    with pytest.raises(DuplicateJobSubmissionError, match="INITIALIZING"):
        await harness.submit()


@scenario()
async def test_a_repeated_submission_is_refused_too_while_the_job_cannot_be_stored(harness: Harness) -> None:
    """A client that repeats a submission treats the error for a duplicate as success."""
    harness.graphs.error = OSError("disk full")
    first = harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph()), CONTEXT)
    second = harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph()), CONTEXT)
    for submission in (first, second):
        with pytest.raises(ExternalError, match="disk full"):
            await submission
    assert harness.dispatcher.list_jobs(pb.ListJobsRequest(), CONTEXT).jobs == []


@scenario()
async def test_the_id_of_a_finished_job_is_not_used_again(harness: Harness) -> None:
    job_master = await harness.running_job()
    await job_master.terminated(FINISHED)
    with pytest.raises(DuplicateJobSubmissionError, match=r"has ended \(FINISHED\)"):
        await harness.submit()


@scenario(result_expiration_ms=60_000)
async def test_an_old_result_is_forgotten_but_its_id_is_not_used_again(harness: Harness) -> None:
    await (await harness.running_job()).terminated(FINISHED)
    await harness.settle(150)
    assert harness.dispatcher.list_jobs(pb.ListJobsRequest(), CONTEXT).jobs == []
    assert harness.results.clean == {}
    with pytest.raises(JobNotFoundError):
        harness.status()
    with pytest.raises(DuplicateJobSubmissionError, match="has ended"):
        await harness.submit()


ARCHIVING = {"jobmanager.archive.fs.dir": "/archives", "resourcemanager.rpc.port": "1"}


@scenario(result_expiration_ms=dispatcher_options(ARCHIVING).result_expiration_ms)
async def test_ended_jobs_that_are_archived_are_shown_longer_than_an_hour(harness: Harness) -> None:
    await (await harness.running_job()).terminated(FINISHED)
    await harness.settle(2 * 3_600)
    assert harness.status() == FINISHED


def test_a_configured_expiration_holds_for_archived_jobs_too() -> None:
    options = dispatcher_options({**ARCHIVING, "jobstore.expiration-time": "60"})
    assert options.result_expiration_ms == 60_000


@scenario()
async def test_a_job_whose_client_leaves_during_the_submission_runs(harness: Harness) -> None:
    answer = harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph()), CONTEXT)
    answer.cancel()  # type: ignore[attr-defined]
    await harness.settle()
    assert harness.status() == INITIALIZING


@scenario()
async def test_clients_of_another_release_or_python_are_refused_by_name(harness: Harness) -> None:
    old = CallContext(fencing_token=None, client_version="0.0.1", peer="x")
    with pytest.raises(VersionMismatchError, match=r"client was made with flinkpy 0\.0\.1"):
        harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph()), old)
    for fields, message in (
        ({"client_version": "9.9"}, "JobGraph was made with flinkpy 9.9"),
        ({"client_version": ""}, "unknown"),
        ({"python_version": "2.7.18"}, "made with Python 2.7.18"),
    ):
        with pytest.raises(VersionMismatchError, match=message):
            harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph(**fields)), CONTEXT)


@scenario()
async def test_a_client_of_another_patch_release_is_served(harness: Harness) -> None:
    patch = ".".join([*__version__.split(".")[:2], "977"])
    other = CallContext(fencing_token=None, client_version=patch, peer="x")
    await harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=job_graph(client_version=patch)), other)
    await harness.settle()
    assert harness.status() == INITIALIZING


@scenario()
async def test_a_bad_graph_or_id_is_refused_and_nothing_is_kept(harness: Harness) -> None:
    for graph, message in (
        (job_graph("../../etc/passwd"), "is not a job id"),
        (job_graph("A" * 32), "is not a job id"),
        (job_pb2.JobGraph(job_id=JOB, client_version=__version__, python_version="3"), "made with Python 3"),
    ):
        with pytest.raises((JobSubmissionError, VersionMismatchError), match=message):
            harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=graph), CONTEXT)
    empty = job_graph()
    del empty.vertices[:]
    with pytest.raises(JobSubmissionError, match="no vertices"):
        harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=empty), CONTEXT)
    assert harness.graphs.job_ids() == []


@scenario()
async def test_a_large_graph_can_be_submitted_as_a_blob(harness: Harness) -> None:
    key = harness.blobs.put(job_graph().SerializeToString())
    response = await harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph_blob_key=key), CONTEXT)
    assert response.job_id == JOB


@scenario()
async def test_a_missing_or_invalid_graph_blob_is_refused(harness: Harness) -> None:
    key = harness.blobs.put(b"\xff\xff\xff not a graph")
    with pytest.raises(JobSubmissionError, match="is not a JobGraph"):
        await harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph_blob_key=key), CONTEXT)
    with pytest.raises(ExternalError, match="there is no blob"):
        await harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph_blob_key="0" * 64), CONTEXT)


# --- the life of a job ----------------------------------------------------------------------------------------------


@scenario()
async def test_a_job_is_followed_from_its_submission_to_its_stored_result(harness: Harness) -> None:
    job_master = await harness.running_job()
    seen: list[int] = []

    async def watch() -> None:
        async for response in harness.dispatcher.watch_job_status(pb.JobIdMessage(job_id=JOB), CONTEXT):
            seen.append(response.status)

    watching = harness.loop.create_task(watch())
    await harness.settle()
    job_master.status(CREATED, 2_000_000)
    job_master.status(RUNNING, 2_000_001)
    job_master.status(RUNNING, 2_000_001)
    job_master.status(CREATED, 2_000_000)
    job_master.status(FINISHED, 2_000_002)
    await harness.settle()
    assert harness.status() == RUNNING, "a terminal status is not shown before its result is stored"
    await job_master.terminated(FINISHED)
    await watching
    assert seen == [INITIALIZING, CREATED, RUNNING, FINISHED]
    await harness.settle()
    assert list(harness.results.clean) == [JobID(JOB)]
    assert harness.graphs.job_ids() == []
    response = await harness.result()
    assert response.finished and response.result.status == FINISHED
    await harness.settle()
    assert job_master.was_told_to_stop


@scenario()
async def test_a_repeated_report_of_the_end_is_acknowledged_before_and_after_it_is_archived(harness: Harness) -> None:
    job_master = await harness.running_job()
    await asyncio.gather(job_master.terminated(FINISHED), job_master.terminated(FINISHED))
    await job_master.terminated(FAILED)
    job_master.started()
    job_master.status(RUNNING)
    assert harness.status() == FINISHED


@scenario()
async def test_reports_of_another_leadership_are_refused(harness: Harness) -> None:
    await harness.running_job()
    stale = {"job_id": JOB, "job_master_id": "leader-0"}
    for call, request in (
        (harness.dispatcher.notify_job_master_started, pb.JobMasterStarted(**stale)),
        (harness.dispatcher.notify_job_status, pb.JobStatusUpdate(**stale, status=FAILED)),
        (harness.dispatcher.notify_job_terminated, pb.JobTerminated(**stale)),
        (harness.dispatcher.notify_job_status, pb.JobStatusUpdate(job_id=OTHER_JOB, job_master_id="leader-1")),
    ):
        with pytest.raises(StaleFencingTokenError):
            call(request, CONTEXT)  # type: ignore[operator]
    assert harness.status() == INITIALIZING


@scenario()
async def test_a_request_for_a_result_times_out_with_a_clear_answer(harness: Harness) -> None:
    await harness.running_job()
    assert not (await harness.result(timeout_ms=500)).finished
    assert not (await harness.result(timeout_ms=-1)).finished


@scenario()
async def test_all_waiting_clients_get_the_result(harness: Harness) -> None:
    job_master = await harness.running_job()
    waiting = [harness.loop.create_task(harness.result()) for _ in range(3)]
    await harness.settle()
    await job_master.terminated(CANCELED)
    assert [response.result.status for response in await asyncio.gather(*waiting)] == [CANCELED] * 3


@scenario()
async def test_requests_about_an_unknown_job_are_refused(harness: Harness) -> None:
    request = pb.JobIdMessage(job_id=OTHER_JOB)
    with pytest.raises(JobNotFoundError, match=OTHER_JOB):
        harness.status(OTHER_JOB)
    with pytest.raises(JobNotFoundError):
        await harness.dispatcher.request_job(request, CONTEXT)
    with pytest.raises(JobNotFoundError):
        await harness.result(OTHER_JOB)
    with pytest.raises(JobNotFoundError):
        await harness.cancel(OTHER_JOB)
    with pytest.raises(JobNotFoundError):
        async for _ in harness.dispatcher.watch_job_status(request, CONTEXT):
            raise AssertionError("there is nothing to see")
    with pytest.raises(JobNotFoundError):
        await harness.dispatcher.send_coordination_request(pb.CoordinationRequest(job_id=OTHER_JOB), CONTEXT)


@scenario()
async def test_details_come_from_the_graph_then_the_job_master_then_the_archive(harness: Harness) -> None:
    request = job_pb2.JobDetailsRequest(job_id=JOB)
    await harness.submit()
    early = await harness.dispatcher.request_job(request, CONTEXT)
    assert early.status == INITIALIZING and early.vertices[0].name == "vertex" and early.end_time_ms == -1
    job_master = await harness.hello()
    job_master.started()
    harness.gateways.answers["request_job_details"] = lambda _: job_pb2.JobDetails(job_id=JOB, num_restarts=3)
    assert (await harness.dispatcher.request_job(request, CONTEXT)).num_restarts == 3
    harness.gateways.answers["request_job_details"] = lambda _: RpcUnavailableError("going down")
    assert (await harness.dispatcher.request_job(request, CONTEXT)).status == INITIALIZING
    await job_master.terminated(FINISHED)
    assert (await harness.dispatcher.request_job(request, CONTEXT)).status == FINISHED


@scenario()
async def test_jobs_are_listed_in_the_order_of_their_start(harness: Harness) -> None:
    job_master = await harness.running_job()
    await harness.settle(1)
    await harness.submit(OTHER_JOB)
    await job_master.terminated(FINISHED)
    jobs = harness.dispatcher.list_jobs(pb.ListJobsRequest(), CONTEXT).jobs
    assert [(job.job_id, job.status) for job in jobs] == [(JOB, FINISHED), (OTHER_JOB, INITIALIZING)]


@scenario()
async def test_a_result_that_cannot_be_stored_at_first_is_stored_later(harness: Harness) -> None:
    job_master = await harness.running_job()
    harness.results.errors = [OSError("disk full")]
    await job_master.terminated(FINISHED)
    await harness.settle()
    assert list(harness.results.clean) == [JobID(JOB)]


@scenario()
async def test_a_result_that_can_never_be_stored_is_kept_in_memory(harness: Harness) -> None:
    job_master = await harness.running_job()
    harness.results.errors = [OSError("disk full")] * 9
    await job_master.terminated(FINISHED)
    assert (await harness.result()).result.status == FINISHED


# --- loss of JobMasters ---------------------------------------------------------------------------------------------


@scenario()
async def test_the_exit_of_a_job_master_fails_its_job_with_the_exit_status(harness: Harness) -> None:
    await harness.running_job()
    harness.processes.exit("jobmaster-1", "killed by SIGKILL")
    response = await harness.result()
    assert response.result.status == FAILED
    assert response.result.error.type == "JobMasterLostError"
    assert "killed by SIGKILL" in response.result.error.message
    assert harness.graphs.job_ids() == []


@scenario()
async def test_a_broken_session_ends_the_process_and_fails_the_job(harness: Harness) -> None:
    job_master = await harness.running_job()
    job_master.break_session()
    response = await harness.result()
    assert response.result.status == FAILED
    assert "session with the Dispatcher broke" in response.result.error.message
    assert harness.processes.stopped == [("jobmaster-1", True)]


@scenario()
async def test_a_job_master_of_another_host_is_lost_with_its_session(harness: Harness) -> None:
    await harness.submit()
    hello = pb.JobMasterHello(resource_id="far-away", pid=1, host="elsewhere")
    job_master = FakeJobMaster(harness.dispatcher, hello)
    await harness.settle()
    job_master.started()
    job_master.break_session()
    response = await harness.result()
    assert response.result.status == FAILED
    assert "session with the Dispatcher broke" in response.result.error.message


@scenario()
async def test_the_end_of_a_job_master_after_its_result_changes_nothing(harness: Harness) -> None:
    job_master = await harness.running_job()
    await job_master.terminated(FINISHED)
    job_master.break_session()
    await harness.settle()
    assert harness.status() == FINISHED


@scenario(heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000)
async def test_a_job_master_that_hangs_is_lost_and_its_last_details_are_kept(harness: Harness) -> None:
    await harness.running_job()
    harness.gateways.answers["request_job_details"] = lambda _: job_pb2.JobDetails(job_id=JOB, num_restarts=3)
    await harness.settle(2)
    harness.gateways.answers["request_job_details"] = lambda _: RpcTimeoutError("no answer")
    response = await harness.result()
    assert "heartbeat.timeout" in response.result.error.message
    assert (await harness.dispatcher.request_job(job_pb2.JobDetailsRequest(job_id=JOB), CONTEXT)).num_restarts == 3
    await harness.settle()
    assert harness.processes.stopped == [("jobmaster-1", False)]


@scenario(num_standbys=0)
async def test_a_job_whose_job_master_cannot_start_fails_with_the_reason(harness: Harness) -> None:
    await harness.submit()
    for number in (1, 2, 3):
        await harness.settle()
        harness.processes.exit(f"jobmaster-{number}", "exit code 1; its last output:\nImportError: nothing there")
    response = await harness.result()
    assert response.result.status == FAILED
    assert "ImportError: nothing there" in response.result.error.message


# --- cancellation ---------------------------------------------------------------------------------------------------


@scenario(num_standbys=0)
async def test_a_queued_job_is_canceled_at_once_and_never_started(harness: Harness) -> None:
    await harness.submit()
    await harness.cancel()
    assert (await harness.result()).result.status == CANCELED
    job_master = await harness.hello()
    assert job_master.commands == []
    await harness.cancel()


@scenario()
async def test_a_cancellation_during_the_start_of_the_job_master_is_forwarded_after_it(harness: Harness) -> None:
    await harness.submit()
    job_master = await harness.hello()
    await harness.cancel()
    await harness.cancel()
    assert harness.status() == CANCELLING
    assert harness.gateways.requests("cancel") == []
    job_master.started()
    await harness.settle()
    ((_, address, token, _, request),) = harness.gateways.calls_of("cancel")
    assert (address, token, request.job_id) == ("leader-1:1", "leader-1", JOB)


@scenario()
async def test_a_cancellation_without_an_answer_is_repeated_until_the_job_ends(harness: Harness) -> None:
    job_master = await harness.running_job()
    answers: list[object] = [RpcTimeoutError("late"), RpcTimeoutError("late"), common_pb2.Acknowledge()]
    harness.gateways.answers["cancel"] = lambda _: answers.pop(0)
    await harness.cancel()
    await harness.settle()
    assert answers == []
    await job_master.terminated(CANCELED)


@scenario()
async def test_a_cancellation_is_stored_with_the_graph_before_it_is_acknowledged(harness: Harness) -> None:
    job_master = await harness.running_job()
    await harness.cancel()
    assert harness.graphs.recover(JobID(JOB)).is_cancel_requested
    await job_master.terminated(CANCELED)
    assert harness.graphs.job_ids() == []


@scenario()
async def test_a_cancellation_that_cannot_be_stored_is_not_acknowledged_and_retried(harness: Harness) -> None:
    await harness.running_job()
    harness.graphs.error = OSError("disk full")
    with pytest.raises(ExternalError, match=r"the cancellation of job .* could not be stored: disk full"):
        await harness.cancel()
    harness.graphs.error = None
    await harness.cancel()
    assert harness.graphs.recover(JobID(JOB)).is_cancel_requested


@scenario()
async def test_storing_a_cancellation_does_not_bring_back_a_job_that_ended_meanwhile(
    harness: Harness,
) -> None:
    job_master = await harness.running_job()
    harness.dispatcher.slow = ("keep cancellation",)
    canceling = asyncio.create_task(harness.cancel())
    await asyncio.sleep(0)
    await job_master.terminated(CANCELED)
    await canceling
    assert harness.graphs.job_ids() == []


@scenario()
async def test_an_immediate_cancellation_is_acknowledged_when_the_result_is_stored(harness: Harness) -> None:
    harness.results.errors = [OSError("disk full")]
    await harness.submit()
    await harness.submit(OTHER_JOB)
    await harness.cancel(OTHER_JOB)
    assert harness.results.load(JobID(OTHER_JOB)) is not None


@scenario()
async def test_canceling_an_ended_job_is_an_error_unless_it_was_canceled(harness: Harness) -> None:
    await (await harness.running_job()).terminated(FINISHED)
    with pytest.raises(JobTerminatedWithoutCancellationError, match="FINISHED"):
        await harness.cancel()
    await harness.settle(3)
    await (await harness.running_job(OTHER_JOB)).terminated(CANCELED)
    await harness.cancel(OTHER_JOB)


# --- the rest -------------------------------------------------------------------------------------------------------


@scenario()
async def test_a_coordination_request_waits_for_the_job_master(harness: Harness) -> None:
    await harness.submit()
    harness.gateways.answers["deliver_coordination_request"] = lambda request: pb.CoordinationResponse(
        payload=request.payload[::-1]
    )
    request = pb.CoordinationRequest(job_id=JOB, operator_id="o", payload=b"abc")
    asking = harness.loop.create_task(harness.dispatcher.send_coordination_request(request, CONTEXT))
    job_master = await harness.hello()
    assert not asking.done()
    job_master.started()
    assert (await asking).payload == b"cba"
    await job_master.terminated(FINISHED)
    with pytest.raises(JobNotFoundError, match="FINISHED"):
        await harness.dispatcher.send_coordination_request(request, CONTEXT)


@scenario()
async def test_the_overview_counts_jobs_and_shows_if_the_resource_manager_is_unreachable(harness: Harness) -> None:
    await (await harness.running_job()).terminated(FINISHED)
    await harness.submit(OTHER_JOB)
    harness.gateways.answers["request_resource_overview"] = lambda _: resourcemanager_pb2.ResourceOverview(
        num_task_managers=2, num_slots_total=4, num_slots_free=3
    )
    overview = await harness.dispatcher.request_cluster_overview(pb.ClusterOverviewRequest(), CONTEXT)
    assert (overview.num_task_managers, overview.num_slots_total, overview.num_slots_available) == (2, 4, 3)
    assert (overview.num_jobs_running, overview.num_jobs_finished) == (1, 1)
    assert overview.version == __version__
    harness.gateways.answers["request_resource_overview"] = lambda _: RpcUnavailableError("nobody")
    overview = await harness.dispatcher.request_cluster_overview(pb.ClusterOverviewRequest(), CONTEXT)
    assert (overview.num_task_managers, overview.num_jobs_running) == (-1, 1)


@scenario()
async def test_shutting_the_cluster_down_cancels_jobs_and_refuses_new_ones(harness: Harness) -> None:
    job_master = await harness.running_job()
    closing = harness.loop.create_task(harness.dispatcher.shut_down_cluster(pb.ShutDownClusterRequest(), CONTEXT))
    await harness.settle()
    assert len(harness.gateways.requests("cancel")) == 1
    with pytest.raises(JobSubmissionError, match="shutting down"):
        await harness.submit(OTHER_JOB)
    assert harness.shutdown_reasons == []
    await job_master.terminated(CANCELED)
    await closing
    assert harness.shutdown_reasons == ["ShutDownCluster was called"]
    assert harness.processes.alive == {}


@scenario()
async def test_the_wait_of_a_shutdown_for_a_job_is_bounded(harness: Harness) -> None:
    await harness.running_job()
    waiting = harness.loop.create_task(harness.result())
    await harness.dispatcher.shut_down_cluster(pb.ShutDownClusterRequest(), CONTEXT)
    assert (await waiting).result.status == SUSPENDED


@scenario()
async def test_a_dispatcher_that_ends_suspends_its_jobs_and_keeps_their_graphs(harness: Harness) -> None:
    job_master = await harness.running_job()
    seen: list[int] = []

    async def watch() -> None:
        async for response in harness.dispatcher.watch_job_status(pb.JobIdMessage(job_id=JOB), CONTEXT):
            seen.append(response.status)

    watching = harness.loop.create_task(watch())
    await harness.settle()
    await harness.dispatcher.stop_jobs("SIGTERM")
    await watching
    assert seen[-1] == SUSPENDED
    assert harness.graphs.job_ids() == [JobID(JOB)]
    await harness.settle()
    assert job_master.was_told_to_stop


@scenario(blob_cleanup_interval_s=10)
async def test_blobs_that_no_running_job_uses_are_removed_after_a_while(harness: Harness) -> None:
    used, unused = harness.blobs.put(b"used"), harness.blobs.put(b"unused")
    graph = job_graph()
    graph.artifacts.add(name="x", blob_key=used)
    await harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=graph), CONTEXT)
    import os

    for key in (used, unused):
        os.utime(harness.blobs.path(key), (0, 0))
    await harness.settle(21)
    assert harness.blobs.contains(used) and not harness.blobs.contains(unused)
