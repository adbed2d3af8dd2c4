"""A TaskExecutor whose ResourceManagers lead one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fake_leaders import FakeRetrieval
from taskexecutor_fakes import Harness
from virtual_time import run_on_virtual_time

from flinkpy._proto import resourcemanager_pb2
from flinkpy.common.errors import StaleFencingTokenError
from flinkpy.highavailability.leader_election import LeaderInformation

FIRST = LeaderInformation("rm:1", "rm-1")

Test = Callable[[Harness, FakeRetrieval], Awaitable[None]]


def registered_as(token: str) -> resourcemanager_pb2.RegisterTaskExecutorResponse:
    return resourcemanager_pb2.RegisterTaskExecutorResponse(resource_manager_id=token, instance_id=f"i of {token}")


def scenario(leader: LeaderInformation | None = FIRST, **options: int) -> Callable[[Test], Callable[[], None]]:
    """Runs a TaskExecutor on virtual time. The leading ResourceManager accepts its registration."""

    def decorate(test: Test) -> Callable[[], None]:
        def wrapped() -> None:
            async def body() -> None:
                leaders = FakeRetrieval(leader)
                harness = Harness(leaders, **options)
                answers = harness.peers.answers
                answers["register_task_executor"] = lambda _: registered_as(token_of(leaders))
                answers["heartbeat_from_task_executor"] = lambda _: (
                    resourcemanager_pb2.ResourceManagerHeartbeatResponse(
                        resource_manager_id=token_of(leaders), registered=True
                    )
                )
                await harness.start()
                await test(harness, leaders)
                await harness.settle()
                await harness.close()

            run_on_virtual_time(body)

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


def token_of(leaders: FakeRetrieval) -> str:
    assert leaders.leader is not None and leaders.leader.fencing_token is not None
    return leaders.leader.fencing_token


def registrations(h: Harness) -> list[str | None]:
    """Returns the tokens of the calls."""
    return h.peers.tokens("register_task_executor")


@scenario()
async def test_tasks_continue_during_the_registration_at_the_next_leader(h: Harness, leaders: FakeRetrieval) -> None:
    await h.with_slot()
    h.submit("t1")
    await h.settle()
    leaders.lead("rm:2", "rm-2")
    await h.settle()
    assert registrations(h) == ["rm-1", "rm-2"]
    report = h.peers.requests("send_slot_report")[-1]
    assert report.instance_id == "i of rm-2"
    assert [slot.allocation_id for slot in report.report.slots] == ["alloc", ""]
    assert h.slot_states() == ["ACTIVE", "FREE"]
    await h.run_thread("t1")
    assert h.reported[-1] == ("t1", "FINISHED")


@scenario()
async def test_a_repeated_report_of_the_same_leader_changes_nothing(h: Harness, leaders: FakeRetrieval) -> None:
    leaders.lead("rm:1", "rm-1")
    await h.settle()
    assert registrations(h) == ["rm-1"]


@scenario()
async def test_requests_of_the_former_leader_are_refused(h: Harness, leaders: FakeRetrieval) -> None:
    leaders.lead("rm:2", "rm-2")
    with pytest.raises(StaleFencingTokenError):
        h.request_slot(token="rm-1")
    await h.settle()
    with pytest.raises(StaleFencingTokenError):
        h.request_slot(token="rm-1")
    h.request_slot(token="rm-2")


@scenario()
async def test_a_late_answer_of_the_former_leader_is_ignored(h: Harness, leaders: FakeRetrieval) -> None:
    late: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    h.peers.answers["register_task_executor"] = lambda _: late
    leaders.lead("rm:2", "rm-2")
    await h.settle()
    h.peers.answers["register_task_executor"] = lambda _: registered_as("rm-3")
    late.set_result(registered_as("rm-2"))
    leaders.lead("rm:3", "rm-3")
    await h.settle()
    h.request_slot(token="rm-3")
    assert [r.instance_id for r in h.peers.requests("send_slot_report")] == ["i of rm-1", "i of rm-3"]


@scenario()
async def test_the_break_of_a_former_leaders_connection_changes_nothing(h: Harness, leaders: FakeRetrieval) -> None:
    leaders.lead("rm:2", "rm-2")
    await h.settle()
    h.peers.break_connection("rm:1")
    await h.pass_time(20_000)
    assert registrations(h) == ["rm-1", "rm-2"]


@scenario(leader=None, registration_timeout_ms=2_000)
async def test_a_task_executor_ends_if_no_resource_manager_leads_in_time(h: Harness, leaders: FakeRetrieval) -> None:
    await h.pass_time(2_100)
    (error,) = h.fatal
    assert "none leads" in str(error) and "taskmanager.registration.timeout" in str(error)


@scenario(registration_timeout_ms=2_000)
async def test_the_time_without_a_leader_is_bounded_too(h: Harness, leaders: FakeRetrieval) -> None:
    await h.pass_time(10_000)
    leaders.nobody_leads()
    await h.pass_time(1_000)
    leaders.lead("rm:1", "rm-1")
    await h.pass_time(10_000)
    assert h.fatal == []
    leaders.nobody_leads()
    await h.pass_time(2_100)
    assert len(h.fatal) == 1
