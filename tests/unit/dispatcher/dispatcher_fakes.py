"""Fakes for the Dispatcher: virtual time, stores in memory, and JobMaster processes that are entries of a list."""

from __future__ import annotations

import asyncio
import itertools
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from fake_peers import FakePeers
from virtual_time import LoopClock, run_on_virtual_time

from flinkpy import __version__
from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.ids import DispatcherId, JobID, JobMasterId
from flinkpy.dispatcher.blob_server import BlobStore
from flinkpy.dispatcher.dispatcher import Dispatcher
from flinkpy.dispatcher.dispatcher_services import DispatcherServices
from flinkpy.dispatcher.options import DispatcherOptions
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.rpc.server import CallContext

DISPATCHER_ID = "dispatcher-1"
JOB = "a" * 32
OTHER_JOB = "b" * 32
CONTEXT = CallContext(fencing_token=DISPATCHER_ID, client_version=__version__, peer="test")


class TestingDispatcher(Dispatcher):
    """Runs blocking work on the loop, so that no thread takes part."""

    __test__ = False
    #: The prefix of the names of slow work.
    slow: tuple[str, ...] = ()

    async def blocking(self, call: Callable[[], Any], name: str = "") -> Any:
        if name.startswith(self.slow):
            await asyncio.sleep(0.5)
        return call()


class MemoryJobGraphStore:
    def __init__(self) -> None:
        self.graphs: dict[JobID, bytes] = {}
        self.error: Exception | None = None

    def put(self, job_graph: job_pb2.JobGraph) -> None:
        if self.error is not None:
            raise self.error
        self.graphs[JobID(job_graph.job_id)] = job_graph.SerializeToString()

    def remove(self, job_id: JobID) -> None:
        self.graphs.pop(job_id, None)

    def job_ids(self) -> list[JobID]:
        return list(self.graphs)

    def recover(self, job_id: JobID) -> job_pb2.JobGraph:
        return job_pb2.JobGraph.FromString(self.graphs[job_id])


class MemoryJobResultStore:
    def __init__(self) -> None:
        self.dirty: dict[JobID, pb.JobTerminated] = {}
        self.clean: dict[JobID, pb.JobTerminated] = {}
        self.errors: list[Exception] = []

    def create_dirty(self, terminated: pb.JobTerminated) -> None:
        if self.errors:
            raise self.errors.pop()
        self.dirty[JobID(terminated.job_id)] = terminated

    def mark_clean(self, job_id: JobID) -> None:
        if job_id in self.dirty:
            self.clean[job_id] = self.dirty.pop(job_id)

    def remove(self, job_id: JobID) -> None:
        self.dirty.pop(job_id, None)
        self.clean.pop(job_id, None)

    def contains(self, job_id: JobID) -> bool:
        return job_id in self.clean or job_id in self.dirty

    def load(self, job_id: JobID) -> pb.JobTerminated | None:
        return self.clean.get(job_id) or self.dirty.get(job_id)

    def dirty_job_ids(self) -> list[JobID]:
        return list(self.dirty)

    def clean_job_ids(self) -> list[JobID]:
        return list(self.clean)


class FakeProcesses:
    """A JobMasterLauncher that records started and stopped processes. The test decides how they end."""

    def __init__(self, on_exited: Callable[[str, str], None]) -> None:
        self.on_exited = on_exited
        self.alive: dict[str, int] = {}
        self.stopped: list[tuple[str, bool]] = []
        self.is_slow_to_stop = False
        self.is_left = False
        self._pids = itertools.count(1000)

    def spawn(self, process_id: str, dispatcher_address: str) -> None:
        self.alive[process_id] = next(self._pids)

    def process_id_of(self, pid: int) -> str | None:
        return next((name for name, its_pid in self.alive.items() if its_pid == pid), None)

    def stop(self, process_id: str, *, at_once: bool) -> None:
        if process_id in self.alive:
            self.stopped.append((process_id, at_once))
            if self.is_slow_to_stop and not at_once:
                return
            self.exit(process_id, "killed by SIGKILL" if at_once else "exit code 0")

    def exit(self, process_id: str, ending: str) -> None:
        """Ends the process. The launcher's watcher notices it soon."""
        del self.alive[process_id]
        asyncio.get_running_loop().call_soon(self.on_exited, process_id, ending)

    def leave(self) -> None:
        self.is_left = True

    async def close(self) -> None:
        self.alive.clear()


class FakeLeaders:
    """The leader of each job, as ZooKeeper reports it."""

    def __init__(self) -> None:
        self._listeners: dict[JobID, list[Callable[[LeaderInformation | None], None]]] = {}
        self._leaders: dict[JobID, LeaderInformation | None] = {}

    def lead(self, job_id: str, leader: LeaderInformation | None) -> None:
        self._leaders[JobID(job_id)] = leader
        for listener in list(self._listeners.get(JobID(job_id), [])):
            listener(leader)

    @property
    def num_listeners(self) -> int:
        return sum(len(listeners) for listeners in self._listeners.values())

    def retrieval(self, job_id: JobID) -> FakeRetrieval:
        return FakeRetrieval(self, job_id)


class FakeRetrieval:
    def __init__(self, leaders: FakeLeaders, job_id: JobID) -> None:
        self._leaders, self._job_id = leaders, job_id
        self._listener: Callable[[LeaderInformation | None], None] | None = None

    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        self._listener = on_leader_changed
        self._leaders._listeners.setdefault(self._job_id, []).append(on_leader_changed)
        if self._job_id in self._leaders._leaders:
            on_leader_changed(self._leaders._leaders[self._job_id])

    def close(self) -> None:
        if self._listener is not None:
            self._leaders._listeners[self._job_id].remove(self._listener)
            self._listener = None


class FakeJobMaster:
    """A JobMaster process from the view of the Dispatcher: a session, and the calls that it makes."""

    def __init__(self, dispatcher: Dispatcher, hello: pb.JobMasterHello) -> None:
        self._dispatcher = dispatcher
        self.process_id = hello.resource_id
        self._session: AsyncIterator[pb.JobMasterCommand] = dispatcher.open_job_master_session(hello, CONTEXT)
        self.commands: list[pb.JobMasterCommand] = []
        self.is_closed = False
        self._task = asyncio.get_running_loop().create_task(self._receive())

    async def _receive(self) -> None:
        try:
            async for command in self._session:
                self.commands.append(command)
        finally:
            await self._session.aclose()  # type: ignore[attr-defined]
            self.is_closed = True

    @property
    def start_command(self) -> pb.StartJob:
        return next(command.start for command in self.commands if command.WhichOneof("command") == "start")

    def leads(self, job_id: str) -> bool:
        """True if this process was given the job and has not lost its session."""
        if self.is_closed:
            return False
        starts = [command.start for command in self.commands if command.WhichOneof("command") == "start"]
        return any(start.job_graph.job_id == job_id for start in starts)

    @property
    def was_adopted(self) -> bool:
        return any(command.WhichOneof("command") == "adopted" for command in self.commands)

    @property
    def was_told_to_stop(self) -> bool:
        return any(command.WhichOneof("command") == "stop" for command in self.commands)

    def break_session(self) -> None:
        self._task.cancel()

    def started(self) -> None:
        start = self.start_command
        self._dispatcher.notify_job_master_started(
            pb.JobMasterStarted(
                job_id=start.job_graph.job_id, job_master_id=start.job_master_id, address=f"{start.job_master_id}:1"
            ),
            CONTEXT,
        )

    def status(self, status: int, at_ms: int = 2_000_000) -> None:
        start = self.start_command
        self._dispatcher.notify_job_status(
            pb.JobStatusUpdate(
                job_id=start.job_graph.job_id,
                job_master_id=start.job_master_id,
                status=status,  # type: ignore[arg-type]
                timestamp_ms=at_ms,
            ),
            CONTEXT,
        )

    def terminated_message(self, status: int) -> pb.JobTerminated:
        start = self.start_command
        graph = start.job_graph
        return pb.JobTerminated(
            job_id=graph.job_id,
            job_master_id=start.job_master_id,
            result=job_pb2.JobResult(job_id=graph.job_id, name=graph.name, status=status),  # type: ignore[arg-type]
            details=job_pb2.JobDetails(
                job_id=graph.job_id,
                name=graph.name,
                status=status,  # type: ignore[arg-type]
                start_time_ms=start.submitted_ms,
                end_time_ms=start.submitted_ms + 5,
            ),
        )

    async def terminated(self, status: int) -> None:
        """Reports the end of the job. Returns when the Dispatcher has acknowledged it."""
        answer = self._dispatcher.notify_job_terminated(self.terminated_message(status), CONTEXT)
        if not isinstance(answer, common_pb2.Acknowledge):
            await answer


class Harness:
    def __init__(
        self,
        tmp_path: Path,
        *,
        num_standbys: int = 1,
        unfinished: Sequence[job_pb2.JobGraph] = (),
        is_highly_available: bool = False,
        **options: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.gateways = FakePeers()
        self.gateways.answers["request_job_details"] = lambda request: job_pb2.JobDetails(
            job_id=request.job_id, name="job", start_time_ms=7
        )
        self.graphs, self.results = MemoryJobGraphStore(), MemoryJobResultStore()
        self.blobs = BlobStore(tmp_path / "blobs", 1 << 20)
        self.shutdown_reasons: list[str] = []
        recovery = tmp_path / "recovery"
        recovery.mkdir()
        self.recovery_directories = JobRecoveryDirectories(recovery, self._check_leadership)
        self.leadership_errors: list[Exception] = []
        self.disposed: list[str] = []
        self.cleaned_up: list[str] = []
        self.disposal_error: Exception | None = None
        leaderships = itertools.count(1)
        self.leaders = FakeLeaders()
        self.released: list[tuple[str, str]] = []
        self.clean_up_errors: list[Exception] = []

        def launcher(on_exited: Callable[[str, str], None]) -> FakeProcesses:
            self.processes = FakeProcesses(on_exited)
            return self.processes

        self.dispatcher = TestingDispatcher(
            loop,
            options=DispatcherOptions(
                resource_manager_address="rm:1", num_standbys=num_standbys, shutdown_timeout_ms=5_000, **options
            ),
            dispatcher_id=DispatcherId(DISPATCHER_ID),
            services=DispatcherServices(
                gateways=self.gateways,
                launcher=launcher,
                job_graphs=self.graphs,
                job_results=self.results,
                recovery_directories=self.recovery_directories,
                blobs=self.blobs,
                dispose_savepoint=self._dispose,
                clean_up_checkpoints=lambda terminated, path: self.cleaned_up.append(terminated.job_id),
                on_shutdown_requested=self.shutdown_reasons.append,
                new_job_master_id=lambda: JobMasterId(f"leader-{next(leaderships)}"),
                is_highly_available=is_highly_available,
                job_master_retrieval=self.leaders.retrieval,
                release_dead_leader=lambda job_id, token: self.released.append((str(job_id), token)),
                clean_up_job=self._clean_up_job,
            ),
            configuration={"heartbeat.interval": "1 s"},
            clock=LoopClock(loop),
        )
        self.errors: list[BaseException] = []
        self.dispatcher.on_fatal_error = self.errors.append
        self.dispatcher.start("127.0.0.1:1", unfinished=unfinished)
        self._said_hello: set[str] = set()
        self.job_masters: list[FakeJobMaster] = []

    def _check_leadership(self) -> None:
        if self.leadership_errors:
            raise self.leadership_errors.pop()

    def _clean_up_job(self, job_id: JobID) -> None:
        if self.clean_up_errors:
            raise self.clean_up_errors.pop()

    def leading_hello(
        self, job_master_id: str, job_id: str = JOB, status: int = common_pb2.RUNNING, name: str = "survivor"
    ) -> FakeJobMaster:
        """Connects a JobMaster that outlived a Dispatcher or its session."""
        hello = pb.JobMasterHello(
            resource_id=name,
            pid=self.processes.alive.get(name, 77),
            host="elsewhere",
            job_id=job_id,
            job_master_id=job_master_id,
            address=f"{job_master_id}:1",
            status=status,  # type: ignore[arg-type]
        )
        return FakeJobMaster(self.dispatcher, hello)

    def _dispose(self, path: str) -> None:
        if self.disposal_error is not None:
            raise self.disposal_error
        self.disposed.append(path)

    async def submit(self, job_id: str = JOB, **configuration: str) -> None:
        graph = job_graph(job_id)
        graph.configuration.entries.update(configuration)
        await self.dispatcher.submit_job(pb.SubmitJobRequest(job_graph=graph), CONTEXT)

    async def hello(self) -> FakeJobMaster:
        """Makes the next spawned child ready."""
        await self.settle()
        name = next(name for name in self.processes.alive if name not in self._said_hello)
        self._said_hello.add(name)
        hello = pb.JobMasterHello(resource_id=name, pid=self.processes.alive[name], host="here")
        job_master = FakeJobMaster(self.dispatcher, hello)
        self.job_masters.append(job_master)
        await self.settle()
        return job_master

    async def next_leader(self, job_id: str = JOB) -> FakeJobMaster:
        """Waits for the process that leads the job, and returns it. Spawned children become ready at once."""
        for _ in range(300):
            for name in list(self.processes.alive):
                if name not in self._said_hello:
                    await self.hello()
            leader = next((master for master in self.job_masters if master.leads(job_id)), None)
            if leader is not None:
                return leader
            await self.settle(0.05)
        raise AssertionError(f"job {job_id} got no JobMaster")

    async def kill(self, job_master: FakeJobMaster) -> None:
        """Kills the process as `kill -9` does: it exits and its session breaks."""
        job_master.break_session()
        self.processes.exit(job_master.process_id, "killed by SIGKILL")
        await self.settle()

    async def running_job(self, job_id: str = JOB, **configuration: str) -> FakeJobMaster:
        await self.submit(job_id, **configuration)
        job_master = await self.hello()
        job_master.started()
        return job_master

    def status(self, job_id: str = JOB) -> int:
        return self.dispatcher.request_job_status(pb.JobIdMessage(job_id=job_id), CONTEXT).status

    async def result(self, job_id: str = JOB, timeout_ms: int = 60_000) -> pb.RequestJobResultResponse:
        return await self.dispatcher.request_job_result(
            pb.RequestJobResultRequest(job_id=job_id, timeout_ms=timeout_ms), CONTEXT
        )

    async def cancel(self, job_id: str = JOB) -> None:
        await self.dispatcher.cancel_job(pb.JobIdMessage(job_id=job_id), CONTEXT)

    async def settle(self, seconds: float = 0.1) -> None:
        """Runs everything that is due until the given virtual time has passed."""
        await asyncio.sleep(seconds)
        self.dispatcher.jobs.job_masters.pool.validate()
        assert self.errors == []


def job_graph(job_id: str = JOB, **fields: Any) -> job_pb2.JobGraph:
    """Returns a graph that passes validation: one vertex with one operator."""
    graph = job_pb2.JobGraph(
        job_id=job_id, name="job", client_version=__version__, python_version=platform.python_version(), created_ms=7
    )
    vertex = graph.vertices.add(id="v", name="vertex", parallelism=1, max_parallelism=-1)
    vertex.chain.add(operator_id="o", name="operator", factory_pickle=b"never loaded by a Dispatcher")
    for name, value in fields.items():
        setattr(graph, name, value)
    return graph


def scenario(**options: Any) -> Callable[[Callable[[Harness], Awaitable[None]]], Callable[[Path], None]]:
    """Runs the test on virtual time with a started Dispatcher. Checks its invariants at the end."""

    def decorate(test: Callable[[Harness], Awaitable[None]]) -> Callable[[Path], None]:
        def wrapped(tmp_path: Path) -> None:
            async def body() -> None:
                harness = Harness(tmp_path, **options)
                await test(harness)
                await harness.settle()
                await harness.dispatcher.stop_jobs("the test is over")
                await harness.dispatcher.close()
                assert harness.processes.alive == {}

            run_on_virtual_time(body)

        wrapped.__name__ = test.__name__
        wrapped.__doc__ = test.__doc__
        return wrapped

    return decorate
