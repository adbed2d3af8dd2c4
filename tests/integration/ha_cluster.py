"""HaCluster: a cluster with standby masters and a real ZooKeeper. Tests kill, suspend and restart its processes.

    with HaCluster(zookeeper, tmp_path) as cluster:
        cluster.kill(cluster.leader("dispatcher"))

Sessions are short, so a death is noticed within a few seconds. The end of the block ends every process of the cluster,
including JobMasters that have outlived their Dispatchers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol

import psutil
from job_support import leads, resource_overview, wait_until
from ports import own_port

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
from flinkpy.common.errors import FlinkError
from flinkpy.common.process import stop_children
from flinkpy.security import ClusterSecret, Role, SecurityContext

START_TIMEOUT_S = 60.0
STOP_GRACE_S = 5.0


class HasQuorum(Protocol):
    """A ZooKeeperServer or a ZooKeeperEnsemble."""

    @property
    def quorum(self) -> str: ...


class HaCluster:
    """A highly available cluster of local processes. Jobs run on it as on a `clusters.RunningCluster`.

    Services are named `dispatcher-1`, `resourcemanager-1`, `taskexecutor-1` and so on. Masters keep their ports when
    they are restarted.

    Args:
        zookeeper: a ZooKeeperServer or a ZooKeeperEnsemble.
        directory: an empty directory for logs, high-availability storage and temporary files.
        session_timeout: the timeout of ZooKeeper sessions, at least twice the server's tick of 500 ms.
    """

    def __init__(
        self,
        zookeeper: HasQuorum,
        directory: Path,
        *,
        dispatchers: int = 2,
        resource_managers: int = 2,
        task_executors: int = 2,
        slots: int = 1,
        properties: Mapping[str, str] | None = None,
        session_timeout: str = "3 s",
    ) -> None:
        self.directory = directory / "ha-cluster"
        self.run_dir = self.directory / "logs"
        self.storage_dir = self.directory / "storage"
        self._temporary_dir = self.directory / "tmp"
        for path in (self.run_dir, self.storage_dir, self._temporary_dir):
            path.mkdir(parents=True)
        secret_file = self.directory / "secret"
        self._secret = ClusterSecret.load_or_create(secret_file)
        self.security = SecurityContext.of_secret(self._secret, Role.CLUSTER)
        self._slots = slots
        self.zookeeper = zookeeper
        self.service_properties = {
            "high-availability.type": "zookeeper",
            "high-availability.storageDir": str(self.storage_dir),
            "high-availability.cluster-id": f"/{directory.name}",
            "high-availability.zookeeper.quorum": zookeeper.quorum,
            "high-availability.zookeeper.client.session-timeout": session_timeout,
            "high-availability.zookeeper.client.connection-timeout": "10 s",
            "high-availability.zookeeper.client.retry-wait": "200 ms",
            "security.secret-file": str(secret_file),
            "heartbeat.interval": "500 ms",
            "heartbeat.timeout": "5 s",
            "taskmanager.numberOfTaskSlots": str(slots),
            **(properties or {}),
        }
        self._specs: dict[str, ServiceSpec] = {}
        self._processes: dict[str, ServiceProcess] = {}
        self._stopped: set[str] = set()
        self._masters: dict[str, dict[str, str]] = {"dispatcher": {}, "resourcemanager": {}}
        for kind, number in (("dispatcher", dispatchers), ("resourcemanager", resource_managers)):
            for i in range(number):
                self._add_master(kind, f"{kind}-{i + 1}")
        for _ in range(task_executors):
            self._add_task_executor()
        self._client: ClusterClient | None = None

    # --- Start and stop

    def __enter__(self) -> HaCluster:
        try:
            for name in self._specs:
                self._spawn(name)
            wait_until_ready(list(self._processes.values()), START_TIMEOUT_S)
            self.leader("dispatcher")
            wait_until(self._has_registered, "all TaskExecutors are registered")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all processes of the cluster."""
        for name in list(self._stopped):
            self.continue_process(name)
        if self._client is not None:
            self._client.close()
            self._client = None
        stop_children([process.popen for process in self._processes.values()], STOP_GRACE_S)
        for process in self._processes.values():
            process.close()
        orphans = self.job_masters()
        for orphan in orphans:
            orphan.kill()
        psutil.wait_procs(orphans, timeout=STOP_GRACE_S)

    # --- Faults

    def kill(self, name: str) -> None:
        """Sends SIGKILL to one service. The JobMasters of a Dispatcher keep running."""
        process = self._processes[name].popen
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._stopped.discard(name)

    def kill_host(self, name: str) -> None:
        """Sends SIGKILL to a Dispatcher and to the JobMasters that it has started."""
        children = psutil.Process(self.pid(name)).children(recursive=True)
        self.kill(name)
        for child in children:
            child.kill()
        psutil.wait_procs(children, timeout=STOP_GRACE_S)

    def start(self, name: str) -> None:
        """Restarts a service that has ended, and waits until it serves or is a standby."""
        self._processes[name].close()
        self._spawn(name)
        wait_until_ready([self._processes[name]], START_TIMEOUT_S)

    def heal(self) -> None:
        """Resumes suspended services, restarts ended ones, and waits for all leaders and slots."""
        for name in list(self._stopped):
            self.continue_process(name)
        dead = [name for name in self._specs if not self.is_alive(name)]
        for name in dead:
            self._processes[name].close()
            self._spawn(name)
        wait_until_ready([self._processes[name] for name in dead], START_TIMEOUT_S)
        self.leader("dispatcher")
        wait_until(self._has_registered, "all TaskExecutors are registered")

    def terminate(self, name: str) -> int:
        """Sends SIGTERM to one service and returns its exit status."""
        process = self._processes[name].popen
        process.terminate()
        return process.wait(30)

    def stop_process(self, name: str) -> None:
        """Suspends one service (SIGSTOP). It keeps its connections and answers no call."""
        os.kill(self.pid(name), signal.SIGSTOP)
        self._stopped.add(name)

    def continue_process(self, name: str) -> None:
        """Resumes a suspended service (SIGCONT)."""
        os.kill(self.pid(name), signal.SIGCONT)
        self._stopped.discard(name)

    def add_task_executor(self) -> str:
        """Starts another TaskExecutor and returns its name."""
        name = self._add_task_executor()
        self._spawn(name)
        wait_until_ready([self._processes[name]], START_TIMEOUT_S)
        return name

    # --- State

    @property
    def client(self) -> ClusterClient:
        """A client that knows all Dispatchers and follows the leader."""
        if self._client is None:
            addresses = ",".join(self._masters["dispatcher"].values())
            self._client = ClusterClient(addresses, security=self.security)
        return self._client

    @property
    def properties(self) -> dict[str, str]:
        """The options that a client needs to reach this cluster."""
        return {
            "jobmanager.rpc.address": ",".join(self._masters["dispatcher"].values()),
            "execution.target": "remote",
            "security.secret-file": self.service_properties["security.secret-file"],
        }

    def names(self, kind: str) -> list[str]:
        """Returns the names of all services of one kind: `dispatcher`, `resourcemanager` or `taskexecutor`."""
        return [name for name in self._specs if name.startswith(kind)]

    def leader(self, kind: str) -> str:
        """Waits for the leading `dispatcher` or `resourcemanager` and returns its name."""
        name: str = wait_until(lambda: self._leader(kind), f"a {kind} leads")
        return name

    def standby(self, kind: str) -> str:
        """Returns the name of a running master of this kind that does not lead."""
        leader = self.leader(kind)
        return next(name for name in self.names(kind) if name != leader and self.is_alive(name))

    def is_alive(self, name: str) -> bool:
        return self._processes[name].popen.poll() is None

    def pid(self, name: str) -> int:
        return self._processes[name].popen.pid

    def address(self, name: str) -> str:
        address = self._processes[name].address
        assert address is not None, f"{name} does not serve"
        return address

    @property
    def resource_manager_address(self) -> str:
        return self.address(self.leader("resourcemanager"))

    def job_masters(self) -> list[psutil.Process]:
        """Returns all JobMaster processes of this cluster, even those whose parent process has ended."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TMPDIR") == str(self._temporary_dir) and "jobmaster" in process.cmdline():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found

    def log(self, name: str) -> str:
        """Returns the log of a service. The log of a Dispatcher contains those of its JobMasters."""
        path = self._specs[name].log
        assert path is not None
        return path.read_text(errors="replace")

    def _leader(self, kind: str) -> str | None:
        for name, address in self._masters[kind].items():
            is_running = name not in self._stopped and self.is_alive(name)
            if is_running and leads(kind, address, self.security):
                return name
        return None

    def _has_registered(self) -> bool:
        try:
            overview = resource_overview(self, timeout_s=5)
        except FlinkError:
            return False
        return bool(overview.num_slots_total == self._slots * len(self.names("taskexecutor")))

    def _add_master(self, kind: str, name: str) -> None:
        port = own_port()
        self._masters[kind][name] = f"127.0.0.1:{port}"
        self._specs[name] = self._spec(name, kind, ("--port", str(port)))

    def _add_task_executor(self) -> str:
        name = f"taskexecutor-{len(self.names('taskexecutor')) + 1}"
        self._specs[name] = self._spec(name, "taskexecutor", ())
        return name

    def _spec(self, name: str, verb: str, arguments: tuple[str, ...]) -> ServiceSpec:
        return ServiceSpec(
            name=name,
            verb=verb,
            arguments=arguments,
            properties=self.service_properties,
            log=self.run_dir / f"{name}.log",
            temporary_dir=self._temporary_dir,
        )

    def _spawn(self, name: str) -> None:
        self._processes[name] = ServiceProcess(self._specs[name])
