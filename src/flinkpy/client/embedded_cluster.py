"""EmbeddedCluster: the cluster of a plain program. The first `execute()` starts it, and later ones use it again.

It is a complete LocalCluster: real processes and real RPC on the loopback address. Services that die are restarted. It
ends with the program: in order when the interpreter exits, and by the kernel if the program is killed.

Source: org.apache.flink.runtime.minicluster.MiniCluster. Differs: services are processes and not threads, because
threads of one Python process share its interpreter lock.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import queue
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions, set_shared_output_defaults
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import PrivateDirectoryError
from flinkpy.common.interruptible import wait_for
from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.common.process import ProcessIdentity
from flinkpy.configuration import (
    client_options,
    core_options,
    jobmanager_options,
    resource_manager_options,
    rest_options,
    security_options,
    taskmanager_options,
)
from flinkpy.configuration.options import is_set, read_option
from flinkpy.security import SecurityContext

_TEMPORARY_PREFIX = "flinkpy-embedded-"


def plan_task_executors(slots: int, configuration: Configuration, cores: int) -> tuple[int, int]:
    """Returns the number of TaskExecutors and the slots of each, for `slots` slots in total.

    It plans one process per core. Threads of one interpreter cannot use several cores, and more processes only cost
    memory. A parallel job gets two processes even on one core, so that it runs as on a real cluster.
    """
    at_least = read_option(configuration, client_options.LOCAL_NUMBER_TASKMANAGER)
    if configuration.contains_key(taskmanager_options.NUM_TASK_SLOTS.key):
        slots_each = read_option(configuration, taskmanager_options.NUM_TASK_SLOTS)
        return max(at_least, math.ceil(slots / slots_each)), slots_each
    processes = max(at_least, min(slots, max(2, cores)))
    return processes, math.ceil(slots / processes)


class EmbeddedCluster:
    """The embedded cluster of this process. `embedded_cluster()` returns it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launcher: _Launcher | None = None
        self._cluster: LocalCluster | None = None
        self._slots_each = 1
        #: Resource profile and slots of each submitted job that has not ended, by job id.
        self._claims: dict[str, tuple[str, int]] = {}

    def claim_slots(self, job_id: str, slots: int, configuration: Configuration, profile: str = "") -> str:
        """Starts or extends the cluster so that the job has `slots` free slots. Returns the Dispatcher's address.

        Jobs with different resource profiles do not share a TaskExecutor.
        """
        with self._lock:
            self._discard_if_broken()
            if self._cluster is None:
                self._start(slots, configuration)
            else:
                missing = self._needed_with(profile, slots) - self._cluster.num_task_executors
                if missing > 0:
                    self._extend(missing)
            self._claims[job_id] = (profile, slots)
            assert self._cluster is not None
            return self._cluster.dispatcher_address

    @property
    def dispatcher_address(self) -> str | None:
        """The address of the Dispatcher; None while the cluster does not run."""
        with self._lock:
            return None if self._cluster is None else self._cluster.dispatcher_address

    @property
    def security(self) -> SecurityContext:
        """The credentials of the cluster's clients. Valid while the cluster runs."""
        with self._lock:
            assert self._cluster is not None
            return self._cluster.security

    def release_slots(self, job_id: str) -> None:
        """Frees the slots of a job that has ended."""
        with self._lock:
            self._claims.pop(job_id, None)

    def stop(self) -> None:
        """Stops all processes. The next `claim_slots` starts a new cluster."""
        with self._lock:
            self._stop()

    def _start(self, slots: int, configuration: Configuration) -> None:
        processes, self._slots_each = plan_task_executors(slots, configuration, os.cpu_count() or 1)
        cluster = LocalCluster(
            LocalClusterOptions(
                num_task_executors=processes,
                properties=service_properties(configuration, self._slots_each),
                temporary_dir=temporary_directory(),
                inherit_output=True,
                restart_services=True,
            )
        )
        self._launcher = self._launcher or _Launcher()
        try:
            self._launcher.call(cluster.start)
        except (KeyboardInterrupt, SystemExit):
            cluster.give_up()
            self._launcher.call(cluster.stop)
            raise
        self._cluster = cluster
        atexit.register(self._stop_at_exit)

    def _needed_with(self, profile: str, slots: int) -> int:
        """Returns the number of TaskExecutors for all claims plus a new one."""
        slots_of: Counter[str] = Counter({profile: slots})
        for claimed_profile, claimed in self._claims.values():
            slots_of[claimed_profile] += claimed
        return sum(math.ceil(claimed / self._slots_each) for claimed in slots_of.values())

    def _extend(self, count: int) -> None:
        assert self._cluster is not None and self._launcher is not None
        cluster = self._cluster
        self._launcher.call(lambda: cluster.add_task_executors(count))

    def _discard_if_broken(self) -> None:
        """Stops a cluster with a service that is no longer restarted, so that a new one can start."""
        if self._cluster is not None and self._cluster.is_broken:
            self._stop()

    def _stop_at_exit(self) -> None:
        """Stops the cluster at exit, which takes seconds. It ignores Ctrl-C, which would leave files behind."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.stop()

    def _stop(self) -> None:
        atexit.unregister(self._stop_at_exit)
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
        self._claims.clear()
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None


def temporary_directory() -> Path:
    """Creates a directory named after this process. Removes directories whose process no longer exists."""
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    base = Path(tempfile.gettempdir())
    for path in base.glob(f"{_TEMPORARY_PREFIX}*-*-*"):
        pid, start_ticks, _ = path.name.removeprefix(_TEMPORARY_PREFIX).split("-", 2)
        if pid.isdigit() and start_ticks.isdigit() and not ProcessIdentity(int(pid), int(start_ticks)).is_alive:
            with contextlib.suppress(OSError, PrivateDirectoryError):  # it is gone, or belongs to another user
                PrivateDirectory.open(base, path.name).close()
                shutil.rmtree(path, ignore_errors=True)
    # mkdtemp adds a random suffix, so that no other user can create the directory first.
    return Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY_PREFIX}{own.pid}-{own.start_ticks}-", dir=base))


def service_properties(configuration: Configuration, slots_each: int) -> dict[str, str]:
    """Returns the configuration of the services: that of the program, on loopback, with little logging."""
    properties = dict(configuration.to_dict())
    for option in (
        core_options.EXECUTION_TARGET,
        core_options.PARALLELISM,
        jobmanager_options.ADDRESS,
        jobmanager_options.PORT,
        # These belong to another cluster. This one has its own secret.
        security_options.SECRET_FILE,
        security_options.TOKEN,
        security_options.TOKEN_FILE,
    ):
        for key in option.keys:
            properties.pop(key, None)
    properties[taskmanager_options.NUM_TASK_SLOTS.key] = str(slots_each)
    # All TaskExecutors of this cluster start together, so a job need not wait long to learn that none has enough.
    properties.setdefault(resource_manager_options.STANDALONE_START_UP_TIME.key, "10 s")
    set_shared_output_defaults(properties)
    if not any(
        is_set(properties, option) for option in (rest_options.ENABLED, rest_options.PORT, rest_options.BIND_PORT)
    ):
        properties[rest_options.ENABLED.key] = "false"
    return properties


class _Launcher:
    """A thread that starts processes and outlives them.

    The kernel ends a child that dies with its parent when the *thread* that started it ends. The thread that calls
    `execute()` may end long before the program does.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flinkpy-launcher", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], Any]) -> Any:
        """Runs `function` on the launcher thread. Returns its result or raises its error."""
        result: Future[Any] = Future()
        self._calls.put((function, result))
        wait_for(result)
        return result.result()

    def close(self) -> None:
        """Ends the thread when it has finished its current call."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        for function, result in iter(self._calls.get, None):
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                result.set_exception(error)


_embedded: EmbeddedCluster | None = None


def embedded_cluster() -> EmbeddedCluster:
    """Returns the embedded cluster of this process. It starts with the first job."""
    global _embedded
    if _embedded is None:
        _embedded = EmbeddedCluster()
        os.register_at_fork(after_in_child=_forget)
    return _embedded


def _forget() -> None:
    """Makes a forked child forget the cluster of its parent, which it must neither use nor stop."""
    global _embedded
    if _embedded is not None:
        atexit.unregister(_embedded._stop_at_exit)
        _embedded = None
