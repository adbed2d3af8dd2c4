"""A whole cluster on one loop: the real Dispatchers, ResourceManagers, JobMasters and TaskExecutors run as processes of
simulated hosts. Each is restarted when it ends. Clients submit jobs and stop them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from simulated_checks import Checks
from simulated_cluster import _job_graph
from simulated_processes import CURRENT, ProcessLoop, SimulatedProcess, unwind
from simulated_rpc import SimulatedRpcClient, SimulatedRpcServer
from simulated_tasks import DataPlane, SimulatedDeployer, SimulatedJob, SimulatedThread
from simulated_world import ZOOKEEPER, SimulatedWorld

from flinkpy import __version__
from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import dispatcher_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import CheckpointError, DuplicateJobSubmissionError, ErrorRetry, FlinkError, JobNotFoundError
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.dispatcher.dispatcher import CLUSTER_PYTHON

PARALLELISM = 2
PORT = 6123
#: The virtual time in which jobs must recover after all faults have ended.
RECOVERY_S = 180.0


class ServiceCluster:
    """A simulated cluster. It has no high availability with `num_masters` 1."""

    def __init__(
        self, loop: ProcessLoop, random: Random, directory: Path, *, num_masters: int = 2, num_executors: int = 3
    ) -> None:
        self.loop = loop
        self.random = random
        self.directory = directory
        self.world = SimulatedWorld(loop, random, directory)
        self.network = self.world.network
        self.plane = DataPlane(loop, self.network)
        self.checks = Checks(self.world, self.plane)
        self.is_highly_available = num_masters > 1
        self.dispatchers = [f"d{number}" for number in range(1, num_masters + 1)]
        self.resource_managers = [f"r{number}" for number in range(1, num_masters + 1)]
        self.executors = [f"t{number}" for number in range(1, num_executors + 1)]
        self.hosts = [*self.dispatchers, *self.resource_managers, *self.executors]
        self.has_stopped = False
        self.accepted: list[str] = []
        self._num_lives: dict[str, int] = {}
        self._client: SimulatedProcess | None = None
        self.settings = self._configuration()

    def _configuration(self) -> dict[str, str]:
        choose = self.random.choice
        entries = {
            "execution.checkpointing.interval": choose(["200 ms", "500 ms"]),
            "execution.checkpointing.timeout": "3 s",
            "execution.checkpointing.tolerable-failed-checkpoints": choose(["2", "1000"]),
            "execution.checkpointing.num-retained": choose(["1", "2"]),
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000000",
            "restart-strategy.fixed-delay.delay": "50 ms",
            "pekko.ask.timeout": "1 s",
            "heartbeat.interval": "1 s",
            "heartbeat.timeout": "5 s",
            "slot.request.timeout": "20 s",
            "jobstore.expiration-time": "100000",  # longer than clocks are moved
            "cluster.registration.error-delay": "200 ms",
            "cluster.registration.max-timeout": "2 s",
            "jobmanager.job-master-recovery.max-attempts": "1000000",
            "security.secret-file": str(self.directory / "secret"),
            "jobmanager.rpc.address": self.dispatchers[0],
            "jobmanager.rpc.port": str(PORT),
            "resourcemanager.rpc.address": self.resource_managers[0],
            "resourcemanager.rpc.port": str(PORT),
        }
        if self.is_highly_available:
            entries |= {
                "high-availability.type": "zookeeper",
                "high-availability.zookeeper.quorum": f"{ZOOKEEPER}:2181",
                "high-availability.storageDir": str(self.directory / "ha"),
                "high-availability.cluster-id": "/simulated",
                "high-availability.zookeeper.client.session-timeout": "4 s",
                "high-availability.zookeeper.client.connection-timeout": "2 s",
                "high-availability.zookeeper.client.retry-wait": "100 ms",
                "high-availability.zookeeper.client.max-retry-attempts": choose(["1", "3", "8"]),
                "high-availability.zookeeper.client.tolerate-suspended-connections": choose(["true", "false"]),
            }
        return entries

    # Processes

    def start(self) -> None:
        for name in self.hosts:
            self._start(name)
        self.plane.start()
        self.checks.start()
        self._client = self.world.new_process("client", "client")

    def _start(self, name: str) -> None:
        if self.has_stopped:
            return
        process = self.world.new_process(name, name)
        self._num_lives[name] = self._num_lives.get(name, 0) + 1
        process.at_exit.append(lambda: self._ended(process))
        main = {"d": self._dispatcher, "r": self._resource_manager, "t": self._task_executor}[name[0]]
        process.start(lambda: main(process))

    def _ended(self, process: SimulatedProcess) -> None:
        self.network.trace.note("ended", process.name, process.exit_status, type(process.error).__name__)
        if process.error is not None and not isinstance(process.error, FlinkError | OSError):
            self.checks.unexpected_end(process)
        self.network.later(self.random.uniform(0.2, 2.0), self._start, process.name)

    def _configured(self, process: SimulatedProcess, **entries: str) -> Configuration:
        own = {"io.tmp.dirs": str(self.directory / "tmp")}
        if not self.is_highly_available and process.name.startswith("d"):
            own["process.jobmanager.working-dir"] = str(self.directory / process.name)
        return Configuration.from_dict({**self.settings, **own, **entries})

    async def _dispatcher(self, process: SimulatedProcess) -> int:
        from flinkpy.dispatcher.entrypoint import run_dispatcher

        entries = {"jobmanager.rpc.address": process.host}
        return await run_dispatcher(self._configured(process, **entries))

    async def _resource_manager(self, process: SimulatedProcess) -> int:
        from flinkpy.resourcemanager.entrypoint import run_resourcemanager

        return await run_resourcemanager(self._configured(process, **{"resourcemanager.rpc.address": process.host}))

    async def _task_executor(self, process: SimulatedProcess) -> int:
        """Runs a TaskExecutor as its entrypoint does, without a data plane."""
        from flinkpy.taskexecutor.options import task_executor_options
        from flinkpy.taskexecutor.task_executor import TaskExecutor

        life = f"{process.name}-{self._num_lives[process.name]}"
        options = task_executor_options(
            self._configured(process, **{"taskmanager.resource-id": life, "taskmanager.numberOfTaskSlots": "2"})
        )
        deployer = SimulatedDeployer(self.plane, process, lambda job_id: _job_master_of(executor, job_id))
        retrieval = await asyncio.to_thread(self._resource_manager_retrieval, process)
        executor = TaskExecutor(
            self.loop,
            _bound(SimulatedRpcClient, self)(),
            deployer,
            options,
            on_fatal=lambda error: process.kill(),
            make_thread=SimulatedThread,
            resource_managers=retrieval,
        )
        server = _bound(SimulatedRpcServer, self)(port=PORT)
        server.add_endpoint("TaskExecutor", executor)
        self.checks.executors[process.name] = (process, executor)
        await server.start()
        executor.start(server.address, f"{process.host}:data")
        await asyncio.Event().wait()
        return 0

    def _resource_manager_retrieval(self, process: SimulatedProcess) -> Any:
        from flinkpy.highavailability.services import create_high_availability_services

        services = create_high_availability_services(
            self._configured(process),
            self._security(process),
            self.loop,
            process="taskexecutor",
            resource_manager_address=f"{self.resource_managers[0]}:{PORT}",
        )
        return services.resource_manager_retrieval()

    def _security(self, process: SimulatedProcess) -> Any:
        from flinkpy.security import SecurityContext

        return SecurityContext.of_service(self._configured(process))

    def kill(self, name: str) -> None:
        """Kills the service of a host. JobMasters end with their Dispatcher, or survive it with high availability."""
        self.network.trace.note("kill", name)
        self.world.processes[name].kill()

    def job_masters(self) -> list[SimulatedProcess]:
        return [process for name, process in self.world.processes.items() if "/" in name and not process.is_dead]

    # Clients

    async def ask(self, method: str, request: Any, *, timeout_s: float = 2.0) -> Any:
        """Calls a Dispatcher. Repeats the call at the next one, as a client does, until one answers."""
        client = _bound(SimulatedRpcClient, self)()
        candidates = list(self.dispatchers)
        while True:
            name = candidates.pop(0)
            candidates.append(name)
            gateway = client.gateway("Dispatcher", f"{name}:{PORT}")
            try:
                return await getattr(gateway, method)(request, timeout_s=timeout_s)
            except FlinkError as error:
                if not _may_be_repeated(error):
                    raise
            await asyncio.sleep(0.2)

    async def as_client(self, action: Callable[[], Awaitable[Any]]) -> Any:
        assert self._client is not None

        async def run() -> Any:
            return await action()

        task = self._client.spawn(run())
        until = self.loop.time() + 2 * RECOVERY_S
        while not task.done():
            await asyncio.wait({task}, timeout=1.0)
            self.raise_errors()
            assert self.loop.time() < until, f"a client waits for ever\n{self.describe()}"
        return task.result()

    async def submit(self, job_id: str) -> None:
        """Submits a job and waits for the acknowledgement. From then on it must never be lost."""
        self.plane.jobs[job_id] = SimulatedJob(job_id, PARALLELISM)
        request = dispatcher_pb2.SubmitJobRequest(job_graph=_submittable(job_id))
        try:
            await self.ask("submit_job", request)
        except DuplicateJobSubmissionError:
            pass  # the answer of an earlier call was lost
        self.accepted.append(job_id)
        self.network.trace.note("accepted", job_id)

    async def status(self, job_id: str) -> JobState:
        answer = await self.ask("request_job_status", dispatcher_pb2.JobIdMessage(job_id=job_id))
        return JobState(answer.status)

    async def cancel(self, job_id: str) -> None:
        """Cancels a job and waits for the acknowledgement. From then on it must end, whichever process dies."""
        await self.ask("cancel_job", dispatcher_pb2.JobIdMessage(job_id=job_id))
        self.accepted.remove(job_id)
        self.network.trace.note("canceled", job_id)

    async def stop_with_savepoint(self, job_id: str) -> None:
        for number in range(60):
            request = pb.StopWithSavepointRequest(
                job_id=job_id, trigger_id=f"stop{number}", target_directory=str(self.directory / "savepoints")
            )
            try:
                await self.ask("stop_with_savepoint", request, timeout_s=30.0)
                return
            except CheckpointError:
                await asyncio.sleep(1.0)
        raise AssertionError(f"job {job_id} cannot be stopped")

    async def stop_for_good(self, job_id: str) -> None:
        """Stops a job permanently. If the answer was lost, a repeated request may find only that the job has ended."""
        try:
            await self.stop_with_savepoint(job_id)
        except JobNotFoundError:
            self.network.trace.note("has ended", job_id)
        self.accepted.remove(job_id)

    async def result(self, job_id: str) -> Any:
        request = dispatcher_pb2.RequestJobResultRequest(job_id=job_id, timeout_ms=1000)
        while True:
            answer = await self.ask("request_job_result", request, timeout_s=5.0)
            if answer.finished:
                return answer.result

    # The run

    async def until(self, condition: Callable[[], bool], otherwise: str, within_s: float = RECOVERY_S) -> None:
        until = self.loop.time() + within_s
        while not condition():
            assert self.loop.time() < until, f"{otherwise}\n{self.describe()}"
            await asyncio.sleep(0.1)
            self.raise_errors()

    def raise_errors(self) -> None:
        if self.network.errors:
            raise self.network.errors[0]

    def describe(self) -> str:
        alive = [process.name for process in self.world.processes.values() if not process.is_dead]
        tasks = [task.task_name for task in self.plane.tasks.values()]
        return f"at {self.loop.time():.1f}: alive {alive}, tasks {tasks}, cut {sorted(self.network.cut)}"

    def heal(self) -> None:
        self.network.trace.note("heal")
        self.network.is_faulty = False
        self.network.cut.clear()
        self.world.heal()

    async def finish(self) -> None:
        """Checks without faults that every job makes progress and, when stopped, ends with exactly its output."""
        for job_id in self.accepted:
            job = self.plane.jobs[job_id]
            before = max(job.confirmed, default=0)
            await self.until(
                lambda job=job, before=before: len([one for one in job.confirmed if one > before]) >= 3,
                f"job {job_id} completes no checkpoint any more",
            )
        for job_id in self.accepted:
            status = await self.as_client(lambda job_id=job_id: self.status(job_id))
            assert not status.is_terminal, f"job {job_id} is {status.name}"
            await self.as_client(lambda job_id=job_id: self.stop_with_savepoint(job_id))
            result = await self.as_client(lambda job_id=job_id: self.result(job_id))
            assert JobState(result.status) is JobState.FINISHED, result
            self.checks.check_output(job_id)
        self.raise_errors()

    async def find_ended(self, job_id: str, status: JobState) -> None:
        result = await self.as_client(lambda: self.result(job_id))
        assert JobState(result.status) is status, result
        if status is JobState.FINISHED:
            self.checks.check_output(job_id)
        tasks = self.plane.tasks.values()
        await self.until(lambda: all(task.job_id != job_id for task in tasks), f"tasks of {job_id} do not end")

    async def close(self) -> None:
        self.has_stopped = True
        await unwind(self.loop)

    @contextmanager
    def installed(self) -> Iterator[None]:
        with self.world.installed(), self.checks.installed():
            yield


def _may_be_repeated(error: FlinkError) -> bool:
    """True if a client may repeat the call. A failed checkpoint is the final answer for its trigger id."""
    return error.retry is not ErrorRetry.NEVER and not isinstance(error, CheckpointError)


def _bound(kind: Any, cluster: ServiceCluster) -> Any:
    assert CURRENT.get() is not None
    return type(kind.__name__, (kind,), {"network": cluster.network})


def _submittable(job_id: str) -> Any:
    """Returns the job of `simulated_cluster` in a form that a Dispatcher accepts. No process unpickles any part."""
    graph = _job_graph(PARALLELISM)
    graph.job_id, graph.created_ms = job_id, 1
    graph.client_version, graph.python_version = __version__, CLUSTER_PYTHON
    for vertex in graph.vertices:
        for operator in vertex.chain:
            operator.factory_pickle = b"none"
        for result in vertex.results:
            result.partitioner_pickle = b"none"
            vertex.chain[-1].outputs.add(result=0)
    return graph


def _job_master_of(executor: Any, job_id: str) -> str:
    job = executor.service.jobs.get(JobID(job_id))
    return "" if job is None else str(job.job_master_id)
