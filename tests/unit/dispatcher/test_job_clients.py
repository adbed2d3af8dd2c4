"""Only jobs that need their client are canceled when it is silent."""

from __future__ import annotations

import pytest
from dispatcher_fakes import CONTEXT, JOB, OTHER_JOB, Harness, job_graph, scenario

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import JobNotFoundError
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_clients import JobClients

TIMEOUT_MS = 10_000
#: The Dispatcher looks once a second.
LATE_S = 1.5


async def submit(harness: Harness, timeout_ms: int, job_id: str = JOB) -> None:
    graph = job_graph(job_id, initial_client_heartbeat_timeout_ms=timeout_ms)
    await harness.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=graph), CONTEXT)
    job_master = await harness.hello()
    job_master.started()


def report(harness: Harness, timeout_ms: int = TIMEOUT_MS) -> None:
    harness.dispatcher.report_job_client_heartbeat(pb.JobClientHeartbeat(job_id=JOB, timeout_ms=timeout_ms), CONTEXT)


def is_canceled(harness: Harness, job_id: str = JOB) -> bool:
    return any(request.job_id == job_id for request in harness.gateways.requests("cancel"))


@scenario()
async def test_job_whose_client_is_never_heard_is_canceled_for_good(harness: Harness) -> None:
    await submit(harness, TIMEOUT_MS)
    await harness.settle(TIMEOUT_MS / 1000 - 1)
    assert not is_canceled(harness)

    await harness.settle(1 + LATE_S)

    assert is_canceled(harness)
    assert harness.graphs.recover(JobID(JOB)).is_cancel_requested


@scenario()
async def test_job_whose_client_is_heard_runs_on(harness: Harness) -> None:
    await submit(harness, TIMEOUT_MS)
    for _ in range(5):
        await harness.settle(TIMEOUT_MS / 1000 - 2)
        report(harness)
    assert not is_canceled(harness)

    await harness.settle(TIMEOUT_MS / 1000 + LATE_S)

    assert is_canceled(harness)


@scenario()
async def test_job_that_does_not_need_its_client_runs_on(harness: Harness) -> None:
    await submit(harness, 0)
    await submit(harness, TIMEOUT_MS, OTHER_JOB)

    await harness.settle(10 * TIMEOUT_MS / 1000)

    assert not is_canceled(harness) and is_canceled(harness, OTHER_JOB)


@scenario(unfinished=[job_graph(JOB, initial_client_heartbeat_timeout_ms=TIMEOUT_MS)])
async def test_recovered_job_waits_for_its_client_anew(harness: Harness) -> None:
    job_master = await harness.hello()
    job_master.started()
    await harness.settle(TIMEOUT_MS / 1000 - 2)
    assert not is_canceled(harness)

    await harness.settle(2 + LATE_S)

    assert is_canceled(harness)


@scenario()
async def test_heartbeat_for_an_unknown_job_is_refused(harness: Harness) -> None:
    with pytest.raises(JobNotFoundError):
        report(harness)


def test_ended_job_does_not_expire_and_each_expiry_is_reported_once() -> None:
    clients = JobClients()
    first, second = JobID(JOB), JobID(OTHER_JOB)
    clients.expect(first, 100, 0)
    clients.expect(second, 100, 0)
    clients.remove(second)
    clients.remove(second)

    assert clients.expired(99) == []
    assert clients.expired(100) == [(first, 100)]
    assert clients.expired(1_000) == []
