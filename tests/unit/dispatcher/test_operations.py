"""Checkpoints and savepoints that clients ask for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from dispatcher_fakes import CONTEXT, JOB, Harness, scenario

from flinkpy._proto import checkpoint_pb2 as cp
from flinkpy._proto import common_pb2
from flinkpy.common.errors import (
    CheckpointError,
    CheckpointStorageError,
    JobNotFoundError,
    RpcUnavailableError,
    StopWithSavepointStoppingError,
)
from flinkpy.dispatcher.job_operations import MAX_FINISHED, OperationCache

CHECKPOINTED = {"execution.checkpointing.interval": "1 s"}


def savepoint(trigger_id: str = "t1", job_id: str = JOB) -> cp.TriggerSavepointRequest:
    return cp.TriggerSavepointRequest(job_id=job_id, trigger_id=trigger_id, target_directory="/s")


@scenario()
async def test_each_operation_is_forwarded_to_the_job_master_with_its_trigger_id(harness: Harness) -> None:
    job_master = await harness.running_job()
    for method, request in (
        ("trigger_checkpoint", cp.TriggerCheckpointRequest(job_id=JOB, trigger_id="a", full=True)),
        ("trigger_savepoint", savepoint("b")),
        ("stop_with_savepoint", cp.StopWithSavepointRequest(job_id=JOB, trigger_id="c", drain=True)),
    ):
        harness.gateways.answers[method] = lambda _: cp.CheckpointResult(checkpoint_id=7, path="/s/savepoint-1")
        asked = asyncio.create_task(getattr(harness.dispatcher, method)(request, CONTEXT))
        if method == "stop_with_savepoint":
            await harness.settle()
            await job_master.terminated(common_pb2.FINISHED)
        answer = await asked
        assert (answer.checkpoint_id, answer.path) == (7, "/s/savepoint-1")
        assert harness.gateways.requests(method) == [request]
    assert harness.gateways.calls[-1].token == job_master.start_command.job_master_id


@scenario()
async def test_a_repeated_call_returns_the_same_savepoint_during_and_after_it(harness: Harness) -> None:
    await harness.running_job()
    taken: asyncio.Future[Any] = harness.loop.create_future()
    harness.gateways.answers["trigger_savepoint"] = lambda _: taken
    first = asyncio.create_task(harness.dispatcher.trigger_savepoint(savepoint(), CONTEXT))
    await harness.settle()
    first.cancel()  # its client has given up waiting
    again = asyncio.create_task(harness.dispatcher.trigger_savepoint(savepoint(), CONTEXT))
    await harness.settle()
    taken.set_result(cp.CheckpointResult(path="/s/1"))

    assert (await again).path == "/s/1"
    assert (await harness.dispatcher.trigger_savepoint(savepoint(), CONTEXT)).path == "/s/1"
    assert len(harness.gateways.requests("trigger_savepoint")) == 1


@scenario()
async def test_another_trigger_id_requests_another_savepoint(harness: Harness) -> None:
    await harness.running_job()
    harness.gateways.answers["trigger_savepoint"] = lambda request: cp.CheckpointResult(path=request.trigger_id)
    paths = [(await harness.dispatcher.trigger_savepoint(savepoint(name), CONTEXT)).path for name in ("x", "y")]
    assert paths == ["x", "y"]
    unnamed = [(await harness.dispatcher.trigger_savepoint(savepoint(""), CONTEXT)).path for _ in range(2)]
    assert len(set(unnamed)) == 2


@scenario()
async def test_the_answer_of_a_stop_is_available_after_the_job_has_ended(harness: Harness) -> None:
    job_master = await harness.running_job()
    harness.gateways.answers["stop_with_savepoint"] = lambda _: cp.CheckpointResult(path="/s/last")
    request = cp.StopWithSavepointRequest(job_id=JOB, trigger_id="t")
    stopping = asyncio.create_task(harness.dispatcher.stop_with_savepoint(request, CONTEXT))
    await harness.settle(30)
    assert not stopping.done()
    await job_master.terminated(common_pb2.FINISHED)
    assert (await stopping).path == "/s/last"

    assert (await harness.dispatcher.stop_with_savepoint(request, CONTEXT)).path == "/s/last"
    other = cp.StopWithSavepointRequest(job_id=JOB, trigger_id="u")
    with pytest.raises(JobNotFoundError, match="is not running: it is FINISHED"):
        await harness.dispatcher.stop_with_savepoint(other, CONTEXT)


@scenario()
async def test_a_stop_fails_if_its_job_master_dies_before_it_reports_the_result(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    harness.gateways.answers["stop_with_savepoint"] = lambda _: cp.CheckpointResult(path="/s/last")
    request = cp.StopWithSavepointRequest(job_id=JOB, trigger_id="t")
    stopping = asyncio.create_task(harness.dispatcher.stop_with_savepoint(request, CONTEXT))
    await harness.settle()
    await harness.kill(job_master)
    (await harness.next_leader(JOB)).started()
    with pytest.raises(StopWithSavepointStoppingError) as error:
        await stopping
    assert error.value.details == {"savepoint_path": "/s/last"}


@scenario()
async def test_an_error_of_the_job_master_reaches_the_client(harness: Harness) -> None:
    await harness.running_job()
    harness.gateways.answers["trigger_savepoint"] = lambda _: CheckpointError("a task declined")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="a task declined"):
            await harness.dispatcher.trigger_savepoint(savepoint(), CONTEXT)
    assert len(harness.gateways.requests("trigger_savepoint")) == 1


@scenario()
async def test_a_savepoint_interrupted_by_the_death_of_its_job_master_may_be_repeated(harness: Harness) -> None:
    job_master = await harness.running_job(**CHECKPOINTED)
    harness.gateways.answers["trigger_savepoint"] = lambda _: RpcUnavailableError("the connection broke")
    with pytest.raises(RpcUnavailableError):
        await harness.dispatcher.trigger_savepoint(savepoint(), CONTEXT)
    harness.gateways.answers["trigger_savepoint"] = lambda _: cp.CheckpointResult(path="/s/2")
    await harness.kill(job_master)
    again = asyncio.create_task(harness.dispatcher.trigger_savepoint(savepoint(), CONTEXT))
    (await harness.next_leader(JOB)).started()
    assert (await again).path == "/s/2"


@scenario()
async def test_operations_of_unknown_jobs_are_refused(harness: Harness) -> None:
    for method, request in (
        ("trigger_checkpoint", cp.TriggerCheckpointRequest(job_id=JOB, trigger_id="a")),
        ("trigger_savepoint", savepoint()),
        ("stop_with_savepoint", cp.StopWithSavepointRequest(job_id=JOB)),
        ("request_checkpoint_statistics", cp.CheckpointStatisticsRequest(job_id=JOB)),
    ):
        with pytest.raises(JobNotFoundError, match="there is no job"):
            await getattr(harness.dispatcher, method)(request, CONTEXT)


@scenario()
async def test_statistics_come_from_the_job_master(harness: Harness) -> None:
    await harness.running_job()
    answer = cp.CheckpointStatisticsResponse(num_completed=3)
    harness.gateways.answers["request_checkpoint_statistics"] = lambda _: answer
    request = cp.CheckpointStatisticsRequest(job_id=JOB)
    assert await harness.dispatcher.request_checkpoint_statistics(request, CONTEXT) == answer


@scenario()
async def test_a_savepoint_is_disposed_of_on_a_worker_thread_and_errors_are_reported(harness: Harness) -> None:
    await harness.dispatcher.dispose_savepoint(cp.DisposeSavepointRequest(path="/s/1"), CONTEXT)
    assert harness.disposed == ["/s/1"]
    harness.disposal_error = CheckpointStorageError("/s/2 is no savepoint")
    with pytest.raises(CheckpointStorageError, match="is no savepoint"):
        await harness.dispatcher.dispose_savepoint(cp.DisposeSavepointRequest(path="/s/2"), CONTEXT)


def test_the_number_of_remembered_answers_is_limited() -> None:
    async def body() -> None:
        def start(coroutine: Any, on_done: Any, name: str) -> None:
            task = asyncio.ensure_future(coroutine)
            task.add_done_callback(lambda done: on_done(done.result(), None))

        cache = OperationCache(start)
        runs: list[int] = []

        async def operation(number: int) -> int:
            runs.append(number)
            return number

        for number in range(MAX_FINISHED + 1):
            await cache.run((str(number),), lambda number=number: operation(number))
        await cache.run(("1",), lambda: operation(1))
        assert len(runs) == MAX_FINISHED + 1
        await cache.run(("0",), lambda: operation(0))
        assert len(runs) == MAX_FINISHED + 2

    asyncio.run(body())
