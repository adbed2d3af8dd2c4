"""Requests of clients about a job that only its JobMaster or the archive can answer."""

from __future__ import annotations

import pytest
from dispatcher_fakes import CONTEXT, JOB, OTHER_JOB, Harness, scenario

from flinkpy._proto import (
    checkpoint_pb2,
    common_pb2,
    job_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    thread_samples_pb2,
)
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import JobNotFoundError, RpcUnavailableError, UnsupportedOperationError

REQUEST = job_pb2.AccumulatorsRequest(job_id=JOB)


def accumulators(value: str) -> list[job_pb2.AccumulatorResult]:
    return [job_pb2.AccumulatorResult(name="n", type="IntCounter", value=value, value_pickle=b"not looked at")]


@scenario()
async def test_accumulators_come_from_the_job_master_and_then_from_the_archive(harness: Harness) -> None:
    await harness.submit()
    assert not (await harness.dispatcher.request_accumulators(REQUEST, CONTEXT)).accumulators  # it has no leader yet
    job_master = await harness.hello()
    job_master.started()
    harness.gateways.answers["request_accumulators"] = lambda _: job_pb2.JobAccumulators(accumulators=accumulators("1"))
    answer = await harness.dispatcher.request_accumulators(REQUEST, CONTEXT)
    assert list(answer.accumulators) == accumulators("1")
    ended = job_master.terminated_message(common_pb2.FINISHED)
    ended.result.accumulators.extend(accumulators("2"))
    await harness.dispatcher.notify_job_terminated(ended, CONTEXT)
    answer = await harness.dispatcher.request_accumulators(REQUEST, CONTEXT)
    assert list(answer.accumulators) == accumulators("2")
    with pytest.raises(JobNotFoundError):
        await harness.dispatcher.request_accumulators(job_pb2.AccumulatorsRequest(job_id=OTHER_JOB), CONTEXT)


@scenario()
async def test_ended_jobs_keep_the_accumulators_of_their_vertices_and_their_checkpoint_statistics(
    harness: Harness,
) -> None:
    job_master = await harness.running_job()
    ended = job_master.terminated_message(common_pb2.FINISHED)
    vertex = ended.details.vertices.add(id="v", accumulators=accumulators("3"))
    vertex.subtasks.add(subtask_index=1, accumulators=accumulators("2"))
    checkpoint = ended.checkpoint_statistics.history.add(checkpoint_id=7)
    checkpoint.vertices.add(vertex_id="v").subtasks.add(subtask_index=1)
    vertex.tasks_per_state["FINISHED"] = 2
    await harness.dispatcher.notify_job_terminated(ended, CONTEXT)
    (listed,) = harness.dispatcher.list_jobs(pb.ListJobsRequest(), CONTEXT).jobs
    assert dict(listed.tasks_per_state) == {"FINISHED": 2}
    asked = job_pb2.AccumulatorsRequest(job_id=JOB, vertex_id="v", by_subtask=True)
    answer = await harness.dispatcher.request_accumulators(asked, CONTEXT)
    assert list(answer.accumulators) == accumulators("3")
    assert [(one.subtask_index, one.accumulators[0].value) for one in answer.subtasks] == [(1, "2")]
    for without_subtasks in (True, False):
        statistics = await harness.dispatcher.request_checkpoint_statistics(
            checkpoint_pb2.CheckpointStatisticsRequest(job_id=JOB, without_subtasks=without_subtasks), CONTEXT
        )
        assert bool(statistics.history[0].vertices[0].subtasks) is not without_subtasks
        details = await harness.dispatcher.request_job(
            job_pb2.JobDetailsRequest(job_id=JOB, without_subtasks=without_subtasks), CONTEXT
        )
        assert bool(details.vertices[0].subtasks) is not without_subtasks


@scenario()
async def test_metrics_are_available_for_running_jobs_only(harness: Harness) -> None:
    job_master = await harness.running_job()
    dump = metrics_pb2.MetricsDump(groups=[metrics_pb2.MetricGroupDump(job_id=JOB, vertex_id="v")])
    harness.gateways.answers["request_metrics"] = lambda _: dump
    request = metrics_pb2.MetricsRequest(job_id=JOB)
    assert await harness.dispatcher.request_metrics(request, CONTEXT) == dump
    await job_master.terminated(common_pb2.FINISHED)
    with pytest.raises(JobNotFoundError):
        await harness.dispatcher.request_metrics(request, CONTEXT)


@scenario()
async def test_threads_of_running_jobs_only_are_sampled(harness: Harness) -> None:
    job_master = await harness.running_job()
    answers = harness.gateways.answers
    samples = thread_samples_pb2.JobThreadSamples(unreachable=["tm-1"])
    answers["request_thread_samples"] = lambda _: samples
    request = thread_samples_pb2.ThreadSamplesRequest(job_id=JOB, num_samples=10, delay_ms=20, max_depth=30)
    assert await harness.dispatcher.request_thread_samples(request, CONTEXT) == samples

    lost = RpcUnavailableError("the channel was closed")
    answers["request_thread_samples"] = lambda _: lost
    with pytest.raises(RpcUnavailableError):
        await harness.dispatcher.request_thread_samples(request, CONTEXT)

    async def end(_: object) -> RpcUnavailableError:
        await job_master.terminated(common_pb2.FINISHED)
        return lost

    answers["request_thread_samples"] = end
    with pytest.raises(JobNotFoundError):  # the job has ended while its JobMaster waited for samples
        await harness.dispatcher.request_thread_samples(request, CONTEXT)


@scenario(may_sample_threads=False)
async def test_no_threads_are_sampled_where_flame_graphs_are_switched_off(harness: Harness) -> None:
    await harness.running_job()
    with pytest.raises(UnsupportedOperationError, match=r"rest\.flamegraph\.enabled"):
        await harness.dispatcher.request_thread_samples(
            thread_samples_pb2.ThreadSamplesRequest(job_id=JOB, num_samples=1, delay_ms=1, max_depth=1), CONTEXT
        )


@scenario()
async def test_logs_come_from_every_task_executor_that_knows_the_job(harness: Harness) -> None:
    await harness.running_job()
    infos = [resourcemanager_pb2.TaskManagerInfo(resource_id=name, address=f"{name}:1") for name in ("te-2", "te-1")]
    harness.gateways.answers["request_task_manager_info"] = lambda _: resourcemanager_pb2.TaskManagerInfoResponse(
        task_managers=infos
    )
    asked: list[common_pb2.JobLogRequest] = []

    def log(request: common_pb2.JobLogRequest) -> common_pb2.JobLogChunk:
        asked.append(request)
        if len(asked) > 2:
            raise RpcUnavailableError("gone")
        return common_pb2.JobLogChunk(resource_id=f"te-{len(asked)}", is_known=len(asked) == 1, has_log=True)

    harness.gateways.answers["request_job_log"] = log
    request = pb.JobLogsRequest(job_id=JOB, positions={"te-1": 7})
    answer = await harness.dispatcher.request_job_logs(request, CONTEXT)
    assert [chunk.resource_id for chunk in answer.chunks] == ["te-1"] and not answer.is_over
    assert sorted(each.position for each in asked) == [-1, 7]
    answer = await harness.dispatcher.request_job_logs(request, CONTEXT)
    assert sorted(answer.unreachable) == ["te-1", "te-2"]
    with pytest.raises(JobNotFoundError):
        await harness.dispatcher.request_job_logs(pb.JobLogsRequest(job_id=OTHER_JOB), CONTEXT)
