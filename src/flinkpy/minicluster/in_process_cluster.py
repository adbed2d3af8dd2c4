"""InProcessCluster: a cluster whose services and tasks are threads of the user's program, for debugging.

The services are the same as in any cluster and call one another by the same RPC on the loopback address, but they are
guests of the program (`flinkpy.common.service_host`): they run on one asyncio loop in one thread, and each task has a
thread of its own. So breakpoints, coverage and profilers work in user functions, and no process is started. As in
Flink's local execution the cluster starts with a job and ends with it; jobs that run at the same time share it.

Source: org.apache.flink.client.program.PerJobMiniClusterFactory, org.apache.flink.runtime.minicluster.MiniCluster.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from flinkpy._proto import job_pb2
from flinkpy.client.embedded_cluster import service_properties, temporary_directory
from flinkpy.client.user_artifacts import LOCAL_PATH
from flinkpy.common.addresses import LOOPBACK
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ExternalError, UnsupportedOperationError
from flinkpy.common.interruptible import wait_for
from flinkpy.common.python_environment import CACHED_FILE, PYTHON_FILE
from flinkpy.common.service_host import ServiceHost, SharedProcess
from flinkpy.configuration import (
    client_options,
    cluster_options,
    core_options,
    jobmanager_options,
    read_option,
    resource_manager_options,
    security_options,
    taskmanager_options,
)
from flinkpy.logs.levels import number_of
from flinkpy.security import ClusterSecret, Role, SecurityContext

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: What a service gets: its configuration and its host. It returns its exit status.
RunService = Callable[[Configuration, ServiceHost], Coroutine[Any, Any, int]]

#: Options that the program may set, and their values if it does not. While a debugger holds a thread, or all of them,
#: neither heartbeats nor cancellations are answered.
_DEBUGGING_DEFAULTS = {
    cluster_options.HEARTBEAT_TIMEOUT.key: "1 d",
    taskmanager_options.TASK_CANCELLATION_TIMEOUT.key: "0",
    jobmanager_options.STANDBY_JOB_MASTERS.key: "0",
}
#: The loggers of packages whose code runs in services. Those of the client stay as the program has set them.
_SERVICE_LOGGERS = tuple(
    f"flinkpy.{package}"
    for package in (
        "checkpoint",
        "dispatcher",
        "highavailability",
        "jobmaster",
        "metrics",
        "network",
        "resourcemanager",
        "rest",
        "rpc",
        "state",
        "streaming",
        "taskexecutor",
    )
)
_GRPC_LOGGER = "grpc._cython.cygrpc"
#: Options with values that the cluster needs: it starts all its services itself, on any free port.
_FIXED = {
    jobmanager_options.PORT.key: "0",
    resource_manager_options.IPC_PORT.key: "0",
    taskmanager_options.RPC_PORT.key: "0",
    taskmanager_options.DATA_PORT.key: "0",
    resource_manager_options.DRIVER.key: "standalone",
}


@dataclass(frozen=True, slots=True)
class _Guest:
    """A service that runs on the loop."""

    name: str
    host: SharedProcess
    task: asyncio.Task[int]

    async def ready(self) -> str:
        """Waits until the service serves. Returns its address. Raises: the error of the service, ExternalError."""
        waited: set[asyncio.Future[Any]] = {self.host.address, self.task}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not self.host.address.done():
            raise ExternalError(f"{self.name} ended with status {self.task.result()} before it was ready")
        return self.host.address.result()


class InProcessCluster:
    """The cluster of this process. `in_process_cluster()` returns it. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._services: _Services | None = None
        #: The slots of each submitted job that has not ended, by job id.
        self._claims: dict[str, int] = {}

    def claim_slots(self, job_id: str, slots: int, configuration: Configuration, profile: str = "") -> str:
        """Starts or extends the cluster so that the job has `slots` free slots. Returns the Dispatcher's address."""
        with self._lock:
            if self._services is not None and self._services.is_broken:
                self._stop()
            if self._services is None:
                self._services = _Services(configuration)
                atexit.register(self.stop)
                try:
                    self._services.start()
                except BaseException:
                    self._stop()
                    raise
            missing = sum(self._claims.values()) + slots - self._services.num_slots
            if missing > 0:
                self._services.add_slots(missing)
            self._claims[job_id] = slots
            return self._services.dispatcher_address

    @property
    def dispatcher_address(self) -> str | None:
        """The address of the Dispatcher; None while the cluster does not run."""
        with self._lock:
            return None if self._services is None else self._services.dispatcher_address

    @property
    def security(self) -> SecurityContext:
        """The credentials of the cluster's clients. Valid while the cluster runs."""
        with self._lock:
            assert self._services is not None
            return self._services.security

    def release_slots(self, job_id: str) -> None:
        """Frees the slots of a job that has ended. The cluster ends with its last job."""
        with self._lock:
            if self._claims.pop(job_id, None) is not None and not self._claims:
                self._stop()

    def stop(self) -> None:
        """Stops all services. The next `claim_slots` starts a new cluster."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        atexit.unregister(self.stop)
        self._claims.clear()
        services, self._services = self._services, None
        if services is not None:
            services.stop()


class _Services:
    """The services of a cluster, and the thread with their loop."""

    def __init__(self, configuration: Configuration) -> None:
        self._directory = temporary_directory()
        self._properties = self._service_properties(configuration)
        self._slots_each = (
            read_option(configuration, taskmanager_options.NUM_TASK_SLOTS)
            if configuration.contains_key(taskmanager_options.NUM_TASK_SLOTS.key)
            else 0
        )
        self._num_task_executors = read_option(configuration, client_options.LOCAL_NUMBER_TASKMANAGER)
        self._guests: list[_Guest] = []
        self._watches: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.num_slots = 0
        self.is_broken = False
        self.dispatcher_address = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._levels: dict[str, int] = {}
        ClusterSecret.load_or_create(self._directory / "secret")
        self.security = SecurityContext.of_service(self._properties).with_role(Role.SUBMIT)

    def start(self) -> None:
        """Starts the Dispatcher and the ResourceManager. Raises: the error of a service that cannot start."""
        from flinkpy.dispatcher.entrypoint import run_dispatcher
        from flinkpy.jobmaster.entrypoint import run_jobmaster
        from flinkpy.resourcemanager.entrypoint import run_resourcemanager

        def run_job_master(
            configuration: Configuration, dispatcher_address: str, host: ServiceHost
        ) -> Coroutine[Any, Any, int]:
            return run_jobmaster(configuration, dispatcher_address=dispatcher_address, host=host)

        async def start() -> None:
            manager = self._begin("ResourceManager", lambda conf, host: run_resourcemanager(conf, host=host))
            host, _, port = (await manager.ready()).rpartition(":")
            self._properties[resource_manager_options.ADDRESS.key] = host
            self._properties[resource_manager_options.IPC_PORT.key] = port
            dispatcher = self._begin(
                "Dispatcher", lambda conf, host: run_dispatcher(conf, host=host, run_job_master=run_job_master)
            )
            self.dispatcher_address = await dispatcher.ready()
            for guest in (manager, dispatcher):
                self._watch(guest, self._break)

        self._levels = _quieten(self._properties)
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="flinkpy-services", daemon=True)
        self._thread.start()
        wait_for(started)
        self._call(start())

    def add_slots(self, missing: int) -> None:
        """Starts TaskExecutors with `missing` slots in total, or more if the configuration fixes their size."""
        executors = max(1, self._num_task_executors if self.num_slots == 0 else 1)
        each = self._slots_each or -(-missing // executors)
        count = max(executors, -(-missing // each))

        async def start() -> None:
            await asyncio.gather(*(self._start_task_executor(each) for _ in range(count)))

        self._call(start())
        self.num_slots += count * each

    def stop(self) -> None:
        """Ends all services and the loop, and removes their files."""
        if self._thread is not None and self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
            # The objects of the services form cycles, and gRPC's own thread ends with the last of its objects.
            gc.collect()
        _restore_levels(self._levels)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _service_properties(self, configuration: Configuration) -> dict[str, str]:
        properties = {**_DEBUGGING_DEFAULTS, **service_properties(configuration, 1), **_FIXED}
        properties[security_options.SECRET_FILE.key] = str(self._directory / "secret")
        properties[core_options.TMP_DIRS.key] = str(self._directory)
        for option in (jobmanager_options.RPC_BIND_PORT, jobmanager_options.BIND_HOST, taskmanager_options.BIND_HOST):
            properties.pop(option.key, None)
        properties[resource_manager_options.ADDRESS.key] = LOOPBACK
        return properties

    # ---- the loop's thread

    def _run(self, started: Future[None]) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._stopped = asyncio.Event()
            started.set_result(None)
            await self._stopped.wait()
            await self._end()

        asyncio.run(main())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        result = asyncio.run_coroutine_threadsafe(work, self._loop)
        wait_for(result)
        return result.result()

    def _begin(self, name: str, run: RunService, **properties: str) -> _Guest:
        host = SharedProcess()
        work = run(Configuration.from_dict({**self._properties, **properties}), host)
        guest = _Guest(name, host, asyncio.get_running_loop().create_task(work, name=name))
        self._guests.append(guest)
        return guest

    async def _start_task_executor(self, slots: int) -> None:
        from flinkpy.taskexecutor.entrypoint import run_taskexecutor

        guest = self._begin(
            "TaskExecutor",
            lambda conf, host: run_taskexecutor(conf, host=host),
            **{taskmanager_options.NUM_TASK_SLOTS.key: str(slots)},
        )
        await guest.ready()
        self._watch(guest, lambda: self._start_task_executor(slots))

    async def _break(self) -> None:
        self.is_broken = True

    def _watch(self, guest: _Guest, on_end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Calls `on_end` if the service ends before the cluster is stopped."""

        async def watch() -> None:
            await asyncio.wait({guest.task})
            if self._is_stopping:
                return
            error = None if guest.task.cancelled() else guest.task.exception()
            logger.error("the %s of the cluster in this process has ended", guest.name, exc_info=error)
            self._guests.remove(guest)
            await on_end()

        task = asyncio.get_running_loop().create_task(watch(), name=f"watch {guest.name}")
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)

    async def _end(self) -> None:
        """Ends the services in the reverse order of their start, so that none loses a peer that it needs."""
        self._is_stopping = True
        for guest in self._guests:
            guest.host.stop("the cluster is shutting down")
        await asyncio.gather(*(guest.task for guest in self._guests), return_exceptions=True)
        await asyncio.gather(*self._watches, return_exceptions=True)


def _quieten(properties: Mapping[str, str]) -> dict[str, int]:
    """Sets the levels of the loggers of services, as in processes of their own. Returns the former levels.

    A logger whose level the program has set keeps it.
    """
    level = number_of(read_option(properties, core_options.LOG_RUNTIME_LEVEL) or "ERROR")
    loggers = [logging.getLogger(name) for name in _SERVICE_LOGGERS]
    levels = {logger.name: logger.level for logger in loggers if logger.level == logging.NOTSET}
    for name in levels:
        logging.getLogger(name).setLevel(level)
    # gRPC only adds messages about calls that were canceled because their cluster is ending.
    core = logging.getLogger(_GRPC_LOGGER)
    levels[core.name] = core.level
    core.setLevel(logging.CRITICAL)
    return levels


def _restore_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def use_files_of_program(job_graph: job_pb2.JobGraph) -> None:
    """Makes the job import its modules as the program does, in whose process it runs.

    Python files of the job are put on the import path of the program. So a module exists once, and a debugger finds
    the file that the user edits.

    Raises:
        UnsupportedOperationError: the job needs other packages, or archives in its working directory.
    """
    kept = []
    for artifact in job_graph.artifacts:
        if artifact.kind == CACHED_FILE:
            kept.append(artifact)
        elif artifact.kind == PYTHON_FILE:
            entry = _import_entry(artifact.attributes[LOCAL_PATH])
            if entry not in sys.path:
                sys.path.insert(0, entry)
        else:
            raise UnsupportedOperationError(
                f"the job has requirements or archives ({artifact.name}), but 'execution.target' is 'local-threads': "
                "functions share the packages and the working directory of the program. Install the packages in its "
                "environment, or unpack the archives where it runs"
            )
    del job_graph.artifacts[:]
    job_graph.artifacts.extend(kept)
    del job_graph.python_path[:]


def _import_entry(path: str) -> str:
    """Returns the entry of the import path for a file of `add_python_file`."""
    is_plain_directory = os.path.isdir(path) and not os.path.isfile(os.path.join(path, "__init__.py"))
    return path if is_plain_directory or path.endswith((".zip", ".egg", ".whl")) else os.path.dirname(path)


_cluster: InProcessCluster | None = None


def in_process_cluster() -> InProcessCluster:
    """Returns the in-process cluster of this process. It starts with the first job."""
    global _cluster
    if _cluster is None:
        _cluster = InProcessCluster()
        os.register_at_fork(after_in_child=_forget)
    return _cluster


def _forget() -> None:
    """Makes a forked child forget the cluster, whose threads only its parent has."""
    global _cluster
    if _cluster is not None:
        atexit.unregister(_cluster.stop)
        _cluster = None
