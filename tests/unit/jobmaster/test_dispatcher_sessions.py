"""The sessions of a JobMaster process with simulated Dispatchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fake_leaders import FakeRetrieval
from virtual_time import VirtualTimeLoop

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import NotLeaderError, RpcUnavailableError
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.jobmaster.dispatcher_sessions import DispatcherSessions, SessionEnd

START = dispatcher_pb2.JobMasterCommand(start=dispatcher_pb2.StartJob(dispatcher_id="one"))
STOP = dispatcher_pb2.JobMasterCommand(stop=dispatcher_pb2.StopJobMaster(reason="not needed"))
LOST = RpcUnavailableError("its connection broke")


def adopted(token: str) -> dispatcher_pb2.JobMasterCommand:
    return dispatcher_pb2.JobMasterCommand(adopted=dispatcher_pb2.JobMasterAdopted(dispatcher_id=token))


class Process:
    """The holder of the sessions, with its Dispatchers.

    `of(address)` is the queue of commands of a Dispatcher. None closes the session.
    """

    def __init__(self, *, is_highly_available: bool = True) -> None:
        self.is_highly_available = is_highly_available
        self.leaders = FakeRetrieval()
        self.hellos: list[tuple[str, str]] = []
        self.adoptions: list[LeaderInformation] = []
        self.has_job = False
        self.waits_for_leadership = False
        self.is_done = False
        self._commands: dict[str, asyncio.Queue[Any]] = {}
        self.sessions = DispatcherSessions(self, self, "d:1", self.leaders if is_highly_available else None)
        self._run = asyncio.ensure_future(self.sessions.run())

    def of(self, address: str) -> asyncio.Queue[Any]:
        return self._commands.setdefault(address, asyncio.Queue())

    async def end(self) -> SessionEnd:
        return await asyncio.wait_for(self._run, 1_000)

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        assert not self._run.done()

    async def close(self) -> None:
        self._run.cancel()
        await asyncio.gather(self._run, return_exceptions=True)

    # SessionHolder

    def hello(self) -> dispatcher_pb2.JobMasterHello:
        return dispatcher_pb2.JobMasterHello(job_id="job" if self.has_job else "")

    @property
    def outlives_its_dispatcher(self) -> bool:
        return self.is_highly_available and self.has_job

    def start_job(self, command: dispatcher_pb2.StartJob) -> None:
        self.has_job = not self.waits_for_leadership

    def adopted(self, dispatcher: LeaderInformation) -> None:
        self.adoptions.append(dispatcher)

    # Peers

    def gateway(self, service: str, address: str, fencing_token: str | None = None) -> Any:
        process = self

        class Gateway:
            async def open_job_master_session(self, hello: Any) -> AsyncIterator[Any]:
                process.hellos.append((address, hello.job_id))
                while (command := await process.of(address).get()) is not None:
                    if isinstance(command, Exception):
                        raise command
                    yield command

        return Gateway()

    def watch_peer(self, address: str, on_lost: Callable[[], None]) -> Any:
        raise AssertionError("a session is its own watch")

    async def drop(self, address: str) -> None:
        raise AssertionError("a Dispatcher may come back")


def scenario(**arguments: bool) -> Callable[[Callable[[Process], Awaitable[None]]], Callable[[], None]]:
    def decorate(test: Callable[[Process], Awaitable[None]]) -> Callable[[], None]:
        def run() -> None:
            async def body() -> None:
                process = Process(**arguments)
                try:
                    await test(process)
                finally:
                    await process.close()

            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                runner.run(body())

        run.__name__ = test.__name__
        return run

    return decorate


async def leading(process: Process) -> None:
    """Starts a job under the first Dispatcher, which leads."""
    process.leaders.lead("d:1", "one")
    process.of("d:1").put_nowait(START)
    await process.settle()


@scenario()
async def test_a_standby_ends_when_the_dispatcher_stops_it(process: Process) -> None:
    process.of("d:1").put_nowait(STOP)
    assert await process.end() == SessionEnd("not needed", 0)


@scenario()
async def test_a_standby_ends_with_its_dispatcher(process: Process) -> None:
    process.leaders.lead("d:2", "two")
    await process.settle()
    process.of("d:1").put_nowait(LOST)
    assert (await process.end()).status == 1
    assert process.hellos == [("d:1", "")]


@scenario(is_highly_available=False)
async def test_without_high_availability_a_job_ends_with_its_dispatcher(process: Process) -> None:
    process.of("d:1").put_nowait(START)
    await process.settle()
    process.of("d:1").put_nowait(LOST)
    assert (await process.end()).status == 1


@scenario()
async def test_a_job_says_hello_to_the_next_leading_dispatcher(process: Process) -> None:
    await leading(process)
    process.of("d:1").put_nowait(LOST)
    await asyncio.sleep(60)
    process.leaders.nobody_leads()
    await asyncio.sleep(60)
    process.leaders.lead("d:2", "two")
    process.of("d:2").put_nowait(adopted("two"))
    await process.settle()
    assert process.hellos[-1] == ("d:2", "job")
    assert process.adoptions == [LeaderInformation("d:2", "two")]
    assert process.sessions.dispatcher == LeaderInformation("d:2", "two")


@scenario()
async def test_a_dispatcher_that_hangs_is_left_when_another_leads(process: Process) -> None:
    await leading(process)
    process.leaders.lead("d:2", "two")
    await process.settle()
    assert process.hellos == [("d:1", ""), ("d:2", "job")]


@scenario()
async def test_a_dispatcher_with_another_fencing_token_is_another_dispatcher(process: Process) -> None:
    await leading(process)
    process.leaders.lead("d:1", "again")
    process.of("d:1").put_nowait(adopted("again"))
    await process.settle()
    assert process.hellos == [("d:1", ""), ("d:1", "job")]
    assert process.adoptions == [LeaderInformation("d:1", "again")]


@scenario()
async def test_a_job_that_starts_after_a_leader_change_says_hello_to_the_new_leader(process: Process) -> None:
    process.leaders.lead("d:2", "two")
    process.waits_for_leadership = True
    process.of("d:1").put_nowait(START)
    await process.settle()
    assert process.hellos == [("d:1", "")], "the process may never lead"
    process.has_job = True
    process.sessions.follow()
    await process.settle()
    assert process.hellos == [("d:1", ""), ("d:2", "job")]


@scenario()
async def test_a_session_is_kept_while_nobody_leads(process: Process) -> None:
    await leading(process)
    process.leaders.nobody_leads()
    await process.settle()
    process.leaders.lead("d:1", "one")
    await process.settle()
    assert process.hellos == [("d:1", "")]


@scenario()
async def test_a_broken_session_is_opened_again_at_the_same_leader(process: Process) -> None:
    await leading(process)
    process.of("d:1").put_nowait(LOST)
    process.of("d:1").put_nowait(NotLeaderError("not yet"))
    process.of("d:1").put_nowait(None)
    process.of("d:1").put_nowait(adopted("one"))
    await asyncio.sleep(20)
    assert process.hellos == [("d:1", ""), *[("d:1", "job")] * 3]
    assert process.adoptions == [LeaderInformation("d:1", "one")]


@scenario()
async def test_a_job_that_another_job_master_leads_is_stopped_by_the_next_dispatcher(process: Process) -> None:
    await leading(process)
    process.leaders.lead("d:2", "two")
    process.of("d:2").put_nowait(STOP)
    assert await process.end() == SessionEnd("not needed", 0)


@scenario()
async def test_the_process_ends_with_a_session_that_is_closed_after_its_job(process: Process) -> None:
    await leading(process)
    process.is_done = True
    process.of("d:1").put_nowait(None)
    assert (await process.end()).status == 0
