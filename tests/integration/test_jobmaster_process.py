"""The JobMaster process with a fake Dispatcher and a fake ResourceManager."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2, resourcemanager_pb2
from flinkpy.common.errors import StaleFencingTokenError
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.server import CallContext, RpcServer
from flinkpy.rpc.services import service_methods
from flinkpy.security import SecurityContext

DEADLINE_S = 50
SECURITY = SecurityContext.of_service({})


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 2 * DEADLINE_S))

    return run


class Peer:
    """Answers every unary call with an empty response, and keeps the requests."""

    def __init__(self, service: str) -> None:
        self._methods = service_methods(service)
        self.requests: dict[str, list[Any]] = {}
        self._arrived = asyncio.Condition()

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("_methods", {}):
            raise AttributeError(name)

        async def answer(request: Any, context: CallContext) -> Any:
            async with self._arrived:
                self.requests.setdefault(name, []).append(request)
                self._arrived.notify_all()
            return self._methods[name].response_class()

        return answer

    async def request(self, name: str) -> Any:
        """Waits for a request of that name and returns the latest."""
        async with self._arrived:
            await asyncio.wait_for(self._arrived.wait_for(lambda: name in self.requests), DEADLINE_S)
            return self.requests[name][-1]


class Dispatcher(Peer):
    """The Dispatcher's side of one session. Items in `commands` are sent, and None ends the stream in order."""

    def __init__(self) -> None:
        super().__init__("Dispatcher")
        self.hello: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.commands: asyncio.Queue[Any] = asyncio.Queue()

    async def open_job_master_session(self, request: Any, context: CallContext) -> AsyncIterator[Any]:
        self.hello.set_result(request)
        while (command := await self.commands.get()) is not None:
            yield command


class World:
    """A JobMaster process and its fake peers."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.dispatcher = Dispatcher()
        self.resource_manager = Peer("ResourceManager")
        self.server = RpcServer(bind_address="127.0.0.1", port=0, security=SECURITY)
        self.server.add_endpoint("Dispatcher", self.dispatcher)
        self.server.add_endpoint("ResourceManager", self.resource_manager)
        self.process: asyncio.subprocess.Process
        self.address = ""

    async def start(self, *arguments: str) -> None:
        await self.server.start()
        ready, told = os.pipe()
        command = [sys.executable, "-m", "flinkpy.cli.main", "jobmaster", "--dispatcher", self.server.address]
        self.process = await asyncio.create_subprocess_exec(
            *command,
            "--ready-file",
            f"fd:{told}",
            *arguments,
            pass_fds=(told,),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.tmp_path)},
        )
        os.close(told)
        with os.fdopen(ready) as pipe:
            self.address = (await asyncio.wait_for(asyncio.to_thread(pipe.readline), DEADLINE_S)).strip()
        assert self.address, "the process ended before it was ready"

    async def start_job(self, job_graph: job_pb2.JobGraph) -> None:
        await self.dispatcher.hello
        command = dispatcher_pb2.StartJob(
            job_graph=job_graph,
            job_master_id="jmid",
            resource_manager_address=self.server.address,
            dispatcher_id="dispatcher-id",
            submitted_ms=1_000,
        )
        self.dispatcher.commands.put_nowait(dispatcher_pb2.JobMasterCommand(start=command))

    async def ending(self) -> tuple[int, str]:
        """Waits for the end of the process. Returns its exit status and log."""
        _, log = await asyncio.wait_for(self.process.communicate(), DEADLINE_S)
        assert self.process.returncode is not None
        return self.process.returncode, log.decode()


@contextlib.asynccontextmanager
async def world(tmp_path: Path, *arguments: str) -> AsyncIterator[World]:
    made = World(tmp_path)
    try:
        await made.start(*arguments)
        yield made
        assert list(tmp_path.iterdir()) == [], "files were left behind"
    finally:
        if made.process.returncode is None:
            made.process.kill()
            await made.process.wait()
        await made.server.stop(0)


def one_vertex(**fields: Any) -> job_pb2.JobGraph:
    vertex = job_pb2.JobVertex(id="v", name="source", parallelism=1, max_parallelism=-1, **fields)
    return job_pb2.JobGraph(job_id="job", name="test", vertices=[vertex])


@in_loop
async def test_a_standby_registers_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    async with world(tmp_path, "-D", "jobmanager.resource-id=standby-1") as it:
        hello = await it.dispatcher.hello
        assert (hello.resource_id, hello.pid, hello.job_id) == ("standby-1", it.process.pid, "")
        stop = dispatcher_pb2.StopJobMaster(reason="not needed")
        it.dispatcher.commands.put_nowait(dispatcher_pb2.JobMasterCommand(stop=stop))
        assert (await it.ending())[0] == 0


@in_loop
async def test_a_process_for_one_job_reports_its_job_id(tmp_path: Path) -> None:
    async with world(tmp_path, "--job-id", "job-7") as it:
        assert (await it.dispatcher.hello).job_id == "job-7"
        it.process.send_signal(signal.SIGTERM)
        assert (await it.ending())[0] == 0


@in_loop
async def test_a_graph_that_cannot_be_executed_is_a_failed_job(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.start_job(one_vertex(inputs=[job_pb2.JobEdge(source_data_set_id="nowhere")]))
        terminated = await it.dispatcher.request("notify_job_terminated")
        assert terminated.result.status == common_pb2.FAILED
        assert terminated.result.error.type == "JobSubmissionError"
        assert "'source' reads data set nowhere" in terminated.result.error.message
        it.process.send_signal(signal.SIGTERM)
        assert (await it.ending())[0] == 0


@in_loop
async def test_a_wrong_option_of_the_job_is_a_failed_job(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        graph = one_vertex()
        graph.configuration.entries["slot.request.timeout"] = "soon"
        await it.start_job(graph)
        terminated = await it.dispatcher.request("notify_job_terminated")
        assert terminated.result.error.type == "ConfigurationError"
        assert "slot.request.timeout" in terminated.result.error.message
        it.process.send_signal(signal.SIGTERM)
        await it.ending()


@in_loop
async def test_a_cancelled_job_withdraws_its_requirements_and_reports_its_end(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.start_job(one_vertex())
        assert (await it.dispatcher.request("notify_job_master_started")).address == it.address
        declared = await it.resource_manager.request("declare_required_resources")
        assert [requirement.num_slots for requirement in declared.requirements] == [1]
        client = RpcClient(security=SECURITY)
        with pytest.raises(StaleFencingTokenError):
            await client.gateway("JobMaster", it.address, "old").cancel(dispatcher_pb2.JobIdMessage(job_id="job"))
        await client.gateway("JobMaster", it.address, "jmid").cancel(dispatcher_pb2.JobIdMessage(job_id="job"))
        await client.close()
        terminated = await it.dispatcher.request("notify_job_terminated")
        assert terminated.result.status == common_pb2.CANCELED
        assert isinstance(
            await it.resource_manager.request("disconnect_job_master"), resourcemanager_pb2.DisconnectRequest
        )
        assert not it.resource_manager.requests["declare_required_resources"][-1].requirements
        it.dispatcher.commands.put_nowait(None)
        assert (await it.ending())[0] == 0


@in_loop
async def test_a_job_without_its_dispatcher_is_suspended_and_the_process_logs_it(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.start_job(one_vertex())
        await it.resource_manager.request("declare_required_resources")
        it.dispatcher.commands.put_nowait(None)
        status, log = await it.ending()
        assert status == 1
        assert "closed the session while the job runs" in log
        assert "is suspended" in log
        assert await it.resource_manager.request("disconnect_job_master")


@in_loop
async def test_a_dispatcher_that_dies_ends_the_process_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.start_job(one_vertex())
        await it.resource_manager.request("declare_required_resources")
        await it.server.stop(0)
        status, log = await it.ending()
        assert status == 1
        assert f"the session with the Dispatcher at {it.server.address} is lost" in log


@in_loop
async def test_a_standby_that_finds_no_dispatcher_logs_it_and_ends(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "flinkpy.cli.main", "jobmaster", "--dispatcher", "127.0.0.1:1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    _, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == 1
    assert "the session with the Dispatcher at 127.0.0.1:1 is lost" in log.decode()
    assert list(tmp_path.iterdir()) == []
