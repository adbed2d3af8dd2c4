"""The cluster inside a plain program: started by the first `execute()`, used again by later ones, gone with it.

It is a LocalCluster with nothing left out: real processes, real RPC, loopback only; what dies of it is started again.
It ends with the program however the program ends: in order at the exit of the interpreter, by the kernel where it is
killed.

Source: org.apache.flink.runtime.minicluster.MiniCluster. Differs: separate processes, not threads, because threads of
one Python process would share its interpreter lock.
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
    security_options,
    taskmanager_options,
)
from flinkpy.configuration.options import read_option
from flinkpy.security import SecurityContext

_TEMPORARY_PREFIX = "flinkpy-embedded-"


def plan_task_executors(slots: int, configuration: Configuration, cores: int) -> tuple[int, int]:
    """How many TaskExecutors, and slots of each, hold `slots`.

    One process per core is what two threads of one interpreter cannot replace; more than one per core only costs
    memory. Two are started for a parallel job even on one core, so that what runs there is what runs on a cluster.
    """
    at_least = read_option(configuration, client_options.LOCAL_NUMBER_TASKMANAGER)
    if configuration.contains_key(taskmanager_options.NUM_TASK_SLOTS.key):
        slots_each = read_option(configuration, taskmanager_options.NUM_TASK_SLOTS)
        return max(at_least, math.ceil(slots / slots_each)), slots_each
    processes = max(at_least, min(slots, max(2, cores)))
    return processes, math.ceil(slots / processes)


class EmbeddedCluster:
    """The one embedded cluster of this process; see `embedded_cluster()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launcher: _Launcher | None = None
        self._cluster: LocalCluster | None = None
        self._slots_each = 1
        #: Resource profile and slots of jobs that were submitted and have not ended, by JobID.
        self._claims: dict[str, tuple[str, int]] = {}

    def claim_slots(self, job_id: str, slots: int, configuration: Configuration, profile: str = "") -> str:
        """Start or extend the cluster so that it has `slots` free ones for the job; returns the Dispatcher.

        Jobs of different resource profiles share no TaskExecutor.
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
    def security(self) -> SecurityContext:
        """What its clients show. Only while it runs."""
        with self._lock:
            assert self._cluster is not None
            return self._cluster.security

    def release_slots(self, job_id: str) -> None:
        """The job has ended; its slots are there for the next one."""
        with self._lock:
            self._claims.pop(job_id, None)

    def stop(self) -> None:
        """End all processes; a later claim starts anew."""
        with self._lock:
            self._stop()

    def _start(self, slots: int, configuration: Configuration) -> None:
        processes, self._slots_each = plan_task_executors(slots, configuration, os.cpu_count() or 1)
        cluster = LocalCluster(
            LocalClusterOptions(
                num_task_executors=processes,
                properties=_service_properties(configuration, self._slots_each),
                temporary_dir=_temporary_dir(),
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
        """TaskExecutors for all jobs there are and one more."""
        slots_of: Counter[str] = Counter({profile: slots})
        for claimed_profile, claimed in self._claims.values():
            slots_of[claimed_profile] += claimed
        return sum(math.ceil(claimed / self._slots_each) for claimed in slots_of.values())

    def _extend(self, count: int) -> None:
        assert self._cluster is not None and self._launcher is not None
        cluster = self._cluster
        self._launcher.call(lambda: cluster.add_task_executors(count))

    def _discard_if_broken(self) -> None:
        """A cluster with a process that died so often that it is not replaced any more is of no use; start anew."""
        if self._cluster is not None and self._cluster.is_broken:
            self._stop()

    def _stop_at_exit(self) -> None:
        """One more Ctrl-C would leave files behind, and the end is a matter of seconds."""
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


def _temporary_dir() -> Path:
    """A directory named after this process, so that what a killed program left is known to be nobody's."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    base = Path(tempfile.gettempdir())
    for path in base.glob(f"{_TEMPORARY_PREFIX}*-*-*"):
        pid, start_ticks, _ = path.name.removeprefix(_TEMPORARY_PREFIX).split("-", 2)
        if pid.isdigit() and start_ticks.isdigit() and not ProcessIdentity(int(pid), int(start_ticks)).is_alive:
            with contextlib.suppress(OSError, PrivateDirectoryError):  # gone meanwhile, or another user's
                PrivateDirectory.open(base, path.name).close()
                shutil.rmtree(path, ignore_errors=True)
    # Its end cannot be guessed, or any other user could make the directory first.
    return Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY_PREFIX}{me.pid}-{me.start_ticks}-", dir=base))


def _service_properties(configuration: Configuration, slots_each: int) -> dict[str, str]:
    """What the services of an embedded cluster get: the program's configuration, on loopback, quiet."""
    properties = dict(configuration.to_dict())
    for option in (
        core_options.EXECUTION_TARGET,
        core_options.PARALLELISM,
        jobmanager_options.ADDRESS,
        jobmanager_options.PORT,
        # Those are of another cluster, if any; this one has a secret of its own.
        security_options.SECRET_FILE,
        security_options.TOKEN,
        security_options.TOKEN_FILE,
    ):
        for key in option.keys:
            properties.pop(key, None)
    properties[taskmanager_options.NUM_TASK_SLOTS.key] = str(slots_each)
    set_shared_output_defaults(properties)
    return properties


class _Launcher:
    """A thread that starts processes and lives as long as they may.

    The kernel ends a child that is tied to its parent when the parent's *thread* that started it ends; the thread that
    calls `execute()` may end long before the program does.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flinkpy-launcher", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], Any]) -> Any:
        """Run `function` on the launcher thread; returns its result or raises its error."""
        result: Future[Any] = Future()
        self._calls.put((function, result))
        wait_for(result)
        return result.result()

    def close(self) -> None:
        """End the thread, after what it is doing."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            function, result = item
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 - handed to the caller, who raises it
                result.set_exception(error)


_embedded: EmbeddedCluster | None = None


def embedded_cluster() -> EmbeddedCluster:
    """The embedded cluster of this process (not yet started where no job has run)."""
    global _embedded
    if _embedded is None:
        _embedded = EmbeddedCluster()
        os.register_at_fork(after_in_child=_forget)
    return _embedded


def _forget() -> None:
    """A forked child does not own its parent's cluster: it must neither use nor stop it."""
    global _embedded
    if _embedded is not None:
        atexit.unregister(_embedded._stop_at_exit)
        _embedded = None
