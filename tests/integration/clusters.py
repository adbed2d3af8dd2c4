"""Clusters of real processes for tests, with free ports and a leak check at their end.

`start_cluster(...)` starts a cluster, and `cluster` is one of two TaskExecutors. The check applies to every test, even
to one that kills processes: there must be no more processes, listening ports, temporary files, threads or file
descriptors than before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from forked_processes import ForkingPopen

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.client.service_process import ServiceProcess
from flinkpy.common.errors import JobTerminatedWithoutCancellationError
from flinkpy.common.states import JobState
from flinkpy.security import Role, SecurityContext

ROOT = Path(__file__).resolve().parents[2]
#: Seconds until the remains of an ended process must disappear. The kernel reaps asynchronously.
SETTLE_S = 20.0
#: The state of a listening socket in `/proc/net/tcp` (`include/net/tcp_states.h` of Linux).
_LISTENS = "0A"


class RunningCluster:
    """A running cluster of local processes.

    Attributes:
        client: a client with the rights of the cluster.
        run_dir: the directory of the log files.
    """

    def __init__(self, local: LocalCluster, run_dir: Path) -> None:
        self._local = local
        self.run_dir = run_dir
        self.client = ClusterClient(local.dispatcher_address, security=local.security)

    @property
    def address(self) -> str:
        return self._local.dispatcher_address

    @property
    def resource_manager_address(self) -> str:
        return self._local.resource_manager_address

    @property
    def properties(self) -> dict[str, str]:
        """The options that a client needs to reach this cluster."""
        host, _, port = self.address.rpartition(":")
        return {
            "jobmanager.rpc.address": host,
            "jobmanager.rpc.port": port,
            "execution.target": "remote",
            "security.secret-file": str(self._local.secret_file),
        }

    @property
    def security(self) -> SecurityContext:
        """The security context of its services, which may make every call."""
        return self._local.security.with_role(Role.CLUSTER)

    @property
    def dynamic_properties(self) -> str:
        """The same options in the form of the environment variable FLINKPY_DYNAMIC_PROPERTIES."""
        return "\n".join(f"{key}={value}" for key, value in self.properties.items())

    def service(self, name: str) -> ServiceProcess:
        """Returns the process named `dispatcher`, `resourcemanager` or `taskexecutor-N`."""
        return next(process for process in self._local.processes if process.spec.name == name)

    @property
    def task_executors(self) -> list[ServiceProcess]:
        return [process for process in self._local.processes if process.spec.verb == "taskexecutor"]

    def job_master_pids(self) -> list[int]:
        """Returns the JobMaster processes: the children of the Dispatcher except the template that they are forked
        from.
        """
        children = psutil.Process(self.service("dispatcher").popen.pid).children()
        return [child.pid for child in children if _is_job_master(child)]

    def kill(self, name: str) -> None:
        """Sends SIGKILL to one service and waits for its end."""
        process = self.service(name).popen
        process.send_signal(signal.SIGKILL)
        process.wait()

    @property
    def is_alive(self) -> bool:
        """True if all processes of the cluster run."""
        return all(process.popen.poll() is None for process in self._local.processes)

    def add_task_executors(self, count: int) -> None:
        self._local.add_task_executors(count)

    def log(self, name: str) -> str:
        """Returns the log of a service. The log of the Dispatcher is followed by those of its JobMasters."""
        path = self.service(name).spec.log
        if path is None:
            return ""
        others = sorted(path.parent.glob("jobmaster-*.log")) if name == "dispatcher" else []
        return "".join(one.read_text(errors="replace") for one in [path, *others])

    def flinkpy(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs `flinkpy ARGUMENTS` against this cluster, in a process that is forked (see `forked_processes`)."""
        environment = {"FLINKPY_DYNAMIC_PROPERTIES": self.dynamic_properties}
        return _run(ForkingPopen, arguments, environment, timeout_s)

    def stop(self) -> None:
        self.client.close()
        self._local.stop()


def run_flinkpy(
    *arguments: str, environment: Mapping[str, str] | None = None, timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Runs `flinkpy ARGUMENTS` as a user would, in an interpreter of its own, and captures its output."""
    return _run(subprocess.Popen, arguments, environment or {}, timeout_s)


def _run(
    popen: type[subprocess.Popen[str]], arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flinkpy.cli.main", *arguments]
    environment = {**os.environ, **environment}
    pipe = subprocess.PIPE
    with popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


StartCluster = Callable[..., RunningCluster]


@pytest.fixture
def start_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartCluster]:
    """Starts clusters; stops them after the test and checks that nothing of them is left.

    `start_cluster(num_task_executors=2, slots=1, properties={...}, restart_services=False)`.
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    started: list[RunningCluster] = []

    def start(
        num_task_executors: int = 2,
        slots: int = 1,
        properties: Mapping[str, str] | None = None,
        restart_services: bool = False,
    ) -> RunningCluster:
        run_dir = tmp_path / f"cluster-{len(started)}"
        local = LocalCluster(
            LocalClusterOptions(
                num_task_executors=num_task_executors,
                properties={"taskmanager.numberOfTaskSlots": str(slots), **(properties or {})},
                log_dir=run_dir,
                temporary_dir=temporary / run_dir.name,
                restart_services=restart_services,
            )
        )
        local.start()
        cluster = RunningCluster(local, run_dir)
        started.append(cluster)
        return cluster

    with no_leaks(temporary) as watch:
        try:
            yield start
        finally:
            for cluster in started:
                watch.expect_closed(process for process in cluster._local.processes)
                cluster.stop()


@pytest.fixture
def cluster(start_cluster: StartCluster) -> RunningCluster:
    """A cluster of two TaskExecutors with one slot each."""
    return start_cluster()


@contextmanager
def running_cluster(
    directory: Path,
    num_task_executors: int = 2,
    slots: int = 1,
    properties: Mapping[str, str] | None = None,
    *,
    of_the_session: bool = False,
    restart_services: bool = False,
) -> Iterator[RunningCluster]:
    """Runs a cluster for several tests, with all its files in `directory`.

    Args:
        of_the_session: the cluster lives as long as pytest. Threads and files of other libraries are then ignored.
    """
    temporary = directory / "tmp"
    temporary.mkdir()
    local = LocalCluster(
        LocalClusterOptions(
            num_task_executors=num_task_executors,
            properties={"taskmanager.numberOfTaskSlots": str(slots), **(properties or {})},
            log_dir=directory / "logs",
            temporary_dir=temporary / "cluster",
            restart_services=restart_services,
        )
    )
    with no_leaks(temporary, in_this_process=not of_the_session) as watch:
        local.start()
        running = RunningCluster(local, directory / "logs")
        try:
            yield running
        finally:
            watch.expect_closed(process for process in local.processes)
            running.stop()


class SharedCluster:
    """A cluster that tests of several files share. The first test starts it, and the next one restarts it if a process
    died.
    """

    def __init__(self, directories: Callable[[str], Path], **options: Any) -> None:
        self._directories = directories
        self._options = options
        self._lifetime = ExitStack()
        self._running: RunningCluster | None = None

    def running(self) -> RunningCluster:
        if self._running is None or not self._running.is_alive:
            self.stop()
            cluster = running_cluster(self._directories("shared-cluster"), of_the_session=True, **self._options)
            self._running = self._lifetime.enter_context(cluster)
        return self._running

    def stop(self) -> None:
        self._running = None
        self._lifetime.close()

    def lend(self) -> Iterator[RunningCluster]:
        """The body of a fixture of one test: yields the cluster and cancels the jobs of the test afterwards."""
        running = self.running()
        yield running
        cancel_all_jobs(running)

    @classmethod
    def of_session(cls, directories: pytest.TempPathFactory, **options: Any) -> Iterator[SharedCluster]:
        """The body of a fixture of the session."""
        shared = cls(directories.mktemp, **options)
        try:
            yield shared
        finally:
            shared.stop()


@pytest.fixture(scope="session")
def _shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCluster]:
    # Fewer samples than by default, and new ones sooner, because tests wait for them.
    flame_graphs = {"rest.flamegraph.num-samples": "40", "rest.flamegraph.refresh-interval": "5 s"}
    yield from SharedCluster.of_session(tmp_path_factory, properties=flame_graphs)


@pytest.fixture
def shared_cluster(_shared_cluster: SharedCluster) -> Iterator[RunningCluster]:
    """Like `cluster`, but shared by all tests of a pytest worker that do not kill its processes.

    The start of a cluster takes four seconds of CPU time, which is more than most tests need.
    """
    yield from _shared_cluster.lend()


@pytest.fixture(scope="session")
def _wide_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCluster]:
    yield from SharedCluster.of_session(tmp_path_factory, slots=3)


@pytest.fixture
def wide_cluster(_wide_cluster: SharedCluster) -> Iterator[RunningCluster]:
    """Like `shared_cluster`, with three slots in each of its two TaskExecutors."""
    yield from _wide_cluster.lend()


def cancel_all_jobs(cluster: RunningCluster) -> None:
    client = cluster.client
    for job in client.list_jobs():
        if not JobState(job.status).is_globally_terminal:
            # It may have ended by itself since the listing.
            with suppress(JobTerminatedWithoutCancellationError):
                client.cancel_job(job.job_id)
            client.wait_for_result(job.job_id)


class LeakWatch:
    def __init__(self) -> None:
        self.addresses: list[str] = []
        #: Processes that must have ended, with their children.
        self.processes: list[psutil.Process] = []

    def expect_closed(self, processes: Iterator[ServiceProcess]) -> None:
        """Registers processes that must have ended, with all their children and ports, when the check runs."""
        for process in processes:
            self.addresses += [address for address in (process.address, process.data_address) if address]
            with suppress(psutil.NoSuchProcess):
                running = psutil.Process(process.popen.pid)
                self.processes += [running, *running.children(recursive=True)]


def _is_job_master(process: psutil.Process) -> bool:
    try:
        return "jobmaster" in process.cmdline()
    except psutil.NoSuchProcess:  # it has just ended
        return False


@contextmanager
def no_leaks(temporary: Path, *, in_this_process: bool = True) -> Iterator[LeakWatch]:
    """Fails if the block leaves a child process, an open port, a temporary file, a thread or a file descriptor behind.

    Args:
        temporary: the directory in which temporary files must not remain.
        in_this_process: also check the threads and descriptors of this process, and all of its child processes. Without
            it, only processes registered with `expect_closed` are checked, because other clusters come and go.
    """
    processes = {child.pid for child in psutil.Process().children(recursive=True)}
    threads, descriptors = set(threading.enumerate()), _descriptors()
    watch = LeakWatch()
    yield watch
    expected_gone = _new_processes(processes) if in_this_process else watch.processes
    _, alive = psutil.wait_procs(expected_gone, timeout=SETTLE_S)
    left = [" ".join(child.cmdline()) for child in alive]
    assert left == [], f"processes are left: {left}"
    listening = _listening_ports()
    open_ports = {address for address in watch.addresses if _port_of(address) in listening}
    assert [address for address in open_ports if _is_still_served(address, temporary)] == [], "ports are open"
    assert [str(path.relative_to(temporary)) for path in temporary.rglob("*")] == [], "temporary files are left"
    if not in_this_process:
        return
    for thread in set(threading.enumerate()) - threads:
        if not thread.name.startswith("pytest_timeout"):
            thread.join(SETTLE_S)
    names = [thread.name for thread in set(threading.enumerate()) - threads]
    # The timer of the test that is just running, where this ends a module's fixture.
    assert [name for name in names if not name.startswith("pytest_timeout")] == [], "threads are left"
    assert [target for target in _descriptors() if target not in descriptors] == [], "file descriptors are left"


def _new_processes(known: set[int]) -> list[psutil.Process]:
    """Returns descendants of this process that are neither `known` nor descend from a known process."""
    new = []
    for child in psutil.Process().children(recursive=True):
        try:
            ancestry = {child.pid, *(parent.pid for parent in child.parents())}
        except psutil.NoSuchProcess:
            continue
        if not ancestry & known:
            new.append(child)
    return new


def _descriptors() -> list[str]:
    """Returns the files that this process has open, without those that gRPC keeps for the life of the process."""
    targets = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if not target.startswith(("anon_inode:", "socket:", "pipe:")):
            targets.append(target)
    return [target for target in targets if not target.startswith("/proc/")]


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def _listening_ports() -> set[int]:
    """Returns the TCP ports on which any process listens."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            for line in file:
                _number, local, _remote, state, *_ = line.split()
                if state == _LISTENS:
                    ports.add(int(local.rpartition(":")[2], 16))
    return ports


def _is_still_served(address: str, temporary: Path) -> bool:
    """True if a process of this test listens at the port. A test on another worker may have got the port since.

    This reads the descriptors of all processes of the machine, which is slow.
    """
    port = _port_of(address)
    listening = [
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    ]
    return any(pid is None or pid == os.getpid() or _has_temporary(pid, temporary) for pid in listening)


def _has_temporary(pid: int, temporary: Path) -> bool:
    """True if the process was started with this directory for temporary files, or with one below it."""
    try:
        return psutil.Process(pid).environ().get("TMPDIR", "").startswith(str(temporary))
    except psutil.Error:
        return False
