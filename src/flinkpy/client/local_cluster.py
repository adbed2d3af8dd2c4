"""LocalCluster: Dispatcher, ResourceManager and TaskExecutors as processes of this host, all started at once.

The ports of Dispatcher and ResourceManager are reserved before anything starts, so that nobody waits for anybody: the
Dispatcher and the TaskExecutors are told that of the ResourceManager and retry until it answers. They stay reserved
until the cluster is stopped, so that no other user can take one while a service is started again.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
from flinkpy.client.service_supervisor import ServiceSupervisor
from flinkpy.common.addresses import LOOPBACK
from flinkpy.common.port_reservation import PortReservation
from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.common.process import stop_children
from flinkpy.configuration import core_options, jobmanager_options, resource_manager_options, security_options
from flinkpy.configuration.options import read_option
from flinkpy.security import ClusterSecret, Role, SecurityContext

#: Verbs of the services whose ports are reserved.
DISPATCHER, RESOURCE_MANAGER = "dispatcher", "resourcemanager"
#: All services of a loaded two-core machine come up in a few seconds; beyond this something hangs.
START_TIMEOUT_S = 60.0
#: Time an orderly shutdown gets before SIGKILL.
STOP_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class LocalClusterOptions:
    """What kind of local cluster.

    Attributes:
        properties: the configuration all services get.
        dispatcher_port: 0 takes a free one.
        log_dir: directory for one log file per service; None for no files.
        temporary_dir: of the services and the user code in them. It is made by `start` and removed by `stop` with all
            that is in it, so that a service that was killed leaves no more behind than one that ended.
        inherit_output: let the TaskExecutors' output (what user code prints) appear where this process prints.
        dies_with_parent: end all services when this process ends.
        restart_services: start a service again when its process dies. A Dispatcher then finds its jobs again where it
            has a `temporary_dir` or a configured working directory.
        on_change: called, on any thread, when a service has been started again.
    """

    num_task_executors: int
    properties: Mapping[str, str] = field(default_factory=dict)
    dispatcher_port: int = 0
    log_dir: Path | None = None
    temporary_dir: Path | None = None
    inherit_output: bool = False
    dies_with_parent: bool = True
    restart_services: bool = False
    on_change: Callable[[], None] | None = None


class LocalCluster:
    """The processes of one local cluster.

    Thread: where the services die with their parent, `start` and `add_task_executors` run on a thread that lives as
    long as this process, because the kernel ends the services with the thread that started them.
    """

    def __init__(self, options: LocalClusterOptions) -> None:
        self._options = options
        self._properties = dict(options.properties)
        if options.temporary_dir is not None and not read_option(options.properties, jobmanager_options.WORKING_DIR):
            # One that the next Dispatcher finds again; without this each makes up its own.
            self._properties[jobmanager_options.WORKING_DIR.key] = str(options.temporary_dir / "work")
        self._processes: list[ServiceProcess] = []
        self._num_task_executors = 0
        self._lock = threading.Lock()
        #: True once it is to be stopped: what is started from then on is killed at once.
        self._is_given_up = False
        self._supervisor: ServiceSupervisor | None = None
        #: Of the secret, where there is no temporary directory; made by `start`, removed by `stop`.
        self._private_dir: Path | None = None
        self._security: SecurityContext | None = None
        #: By verb of the service; made by `start`, let go by `stop`.
        self._reservations: dict[str, PortReservation] = {}

    @property
    def processes(self) -> list[ServiceProcess]:
        with self._lock:
            return list(self._processes)

    @property
    def num_task_executors(self) -> int:
        return self._num_task_executors

    @property
    def dispatcher_address(self) -> str:
        """`host:port` of the Dispatcher. Only after `start`."""
        address = self._processes[0].address
        if address is None:
            raise RuntimeError("the local cluster has not been started")
        return address

    @property
    def resource_manager_address(self) -> str:
        """`host:port` of the ResourceManager. Only after `start`."""
        return self._resource_manager

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client's configuration needs to reach this cluster. Only after `start`."""
        host, _, port = self.dispatcher_address.rpartition(":")
        return {
            core_options.EXECUTION_TARGET.key: "remote",
            jobmanager_options.ADDRESS.key: host,
            jobmanager_options.PORT.key: port,
            security_options.SECRET_FILE.key: str(self.secret_file),
        }

    @property
    def security(self) -> SecurityContext:
        """What its clients show; the secret is in it. Only after `start`."""
        if self._security is None:
            raise RuntimeError("the local cluster has not been started")
        return self._security

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start all services and return when all serve.

        Raises:
            ExternalError: one could not start; all others have been stopped again.
        """
        try:
            if self._options.temporary_dir is not None:
                temporary = self._options.temporary_dir
                temporary.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with PrivateDirectory.make(temporary.parent, temporary.name) as directory:
                    directory.clear()
            self._make_secret()
            self._reserve_ports()
            self._spawn(self._dispatcher_spec())
            for _ in range(self._options.num_task_executors):
                self._spawn(self._task_executor_spec())
            self._spawn(self._resource_manager_spec())
            # Makes the certificate that the services will show, while they are still importing what they need.
            self._security = SecurityContext.of_service(self._properties).with_role(Role.SUBMIT)
            wait_until_ready(self._processes, timeout_s)
            if self._options.restart_services:
                self._supervisor = ServiceSupervisor(self._respawn, self._restarted, timeout_s)
                self._supervisor.watch(self._replaceable())
        except BaseException:
            self.stop()
            raise

    def add_task_executors(self, count: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start `count` more TaskExecutors; returns when they serve."""
        added = [self._spawn(self._task_executor_spec()) for _ in range(count)]
        wait_until_ready(added, timeout_s)
        if self._supervisor is not None:
            self._supervisor.watch(added)

    def dead_process(self) -> ServiceProcess | None:
        """A service that has ended, or None while all run."""
        return next((process for process in self.processes if process.popen.poll() is not None), None)

    @property
    def is_broken(self) -> bool:
        """Whether a service has ended for good."""
        if self._supervisor is None:
            return self.dead_process() is not None
        return self._supervisor.has_given_up

    def give_up(self) -> None:
        """Have a `start` or `add_task_executors` of another thread fail soon; `stop` is to follow. Thread: any."""
        with self._lock:
            self._is_given_up = True
        for process in self.processes:
            process.popen.kill()

    def stop(self) -> None:
        """End all services, in order where they let themselves be ended; returns when all are gone."""
        with self._lock:
            self._is_given_up = True
        if self._supervisor is not None:
            self._supervisor.pause()
        stop_children([process.popen for process in self._processes], STOP_GRACE_S)
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None
        for process in self._processes:
            process.close()
        self._processes.clear()
        for reservation in self._reservations.values():
            reservation.close()
        self._reservations.clear()
        if self._options.temporary_dir is not None:
            shutil.rmtree(self._options.temporary_dir, ignore_errors=True)
        if self._private_dir is not None:
            shutil.rmtree(self._private_dir, ignore_errors=True)
            self._private_dir = None

    @property
    def secret_file(self) -> Path:
        """Where its secret is. Only after `start`."""
        return Path(self._properties[security_options.SECRET_FILE.key])

    def _make_secret(self) -> None:
        """A secret of this cluster's own, unless the configuration names a file. Raises: SecretError."""
        if not self._options.properties.get(security_options.SECRET_FILE.key):
            directory = self._options.temporary_dir
            if directory is None:
                directory = self._private_dir = Path(tempfile.mkdtemp(prefix="flinkpy-cluster-"))
            self._properties[security_options.SECRET_FILE.key] = str(directory / "secret")
        ClusterSecret.load_or_create(self.secret_file)

    def _reserve_ports(self) -> None:
        """Raises: AddressInUseError."""
        properties = self._options.properties
        bind_port = read_option(properties, jobmanager_options.RPC_BIND_PORT)
        dispatcher_port = self._options.dispatcher_port if bind_port is None else bind_port
        for verb, option, port in (
            (DISPATCHER, jobmanager_options.BIND_HOST, dispatcher_port),
            (
                RESOURCE_MANAGER,
                resource_manager_options.BIND_HOST,
                read_option(properties, resource_manager_options.IPC_PORT),
            ),
        ):
            self._reservations[verb] = PortReservation(read_option(properties, option) or LOOPBACK, port)

    def _port(self, verb: str) -> str:
        return str(self._reservations[verb].port)

    @property
    def _resource_manager(self) -> str:
        if not self._reservations:
            raise RuntimeError("the local cluster has not been started")
        host = read_option(self._options.properties, jobmanager_options.ADDRESS) or LOOPBACK
        return f"{host}:{self._port(RESOURCE_MANAGER)}"

    def _spawn(self, spec: ServiceSpec) -> ServiceProcess:
        process = ServiceProcess(spec)
        with self._lock:
            self._processes.append(process)
            is_given_up = self._is_given_up
        if is_given_up:
            process.popen.kill()
        return process

    def _respawn(self, dead: ServiceProcess) -> ServiceProcess:
        """The same service once more; Dispatcher and ResourceManager at the addresses that others know."""
        spec = dead.spec
        successor = ServiceProcess(spec)
        with self._lock:
            self._processes[self._processes.index(dead)] = successor
        successor.address = dead.address if spec.verb == "dispatcher" else None
        dead.close()
        return successor

    def _restarted(self, process: ServiceProcess) -> None:
        if self._options.on_change is not None:
            self._options.on_change()

    def _spec(
        self,
        name: str,
        verb: str,
        arguments: tuple[str, ...],
        inherit_output: bool = False,
        reservation: str | None = None,
    ) -> ServiceSpec:
        """`reservation`: the service whose reserved port it serves at."""
        options = self._options
        return ServiceSpec(
            name=name,
            verb=verb,
            arguments=arguments,
            properties=self._properties,
            log=None if options.log_dir is None else options.log_dir / f"{name}.log",
            inherit_output=inherit_output,
            dies_with_parent=options.dies_with_parent,
            temporary_dir=options.temporary_dir,
            environment={} if reservation is None else self._reservations[reservation].environment,
        )

    def _replaceable(self) -> list[ServiceProcess]:
        """Those that are started again when they die."""
        return self._processes

    def _dispatcher_spec(self) -> ServiceSpec:
        arguments = ("--port", self._port(DISPATCHER), "--resourcemanager", self._resource_manager)
        return self._spec("dispatcher", DISPATCHER, arguments, reservation=DISPATCHER)

    def _resource_manager_spec(self) -> ServiceSpec:
        arguments = ("--port", self._port(RESOURCE_MANAGER))
        return self._spec("resourcemanager", RESOURCE_MANAGER, arguments, reservation=RESOURCE_MANAGER)

    def _task_executor_spec(self) -> ServiceSpec:
        self._num_task_executors += 1
        return self._spec(
            f"taskexecutor-{self._num_task_executors}",
            "taskexecutor",
            ("--resourcemanager", self._resource_manager),
            inherit_output=self._options.inherit_output,
        )


#: Records of user functions per second and process that a terminal is still readable with.
SHARED_OUTPUT_RATE_LIMIT = 50


def set_shared_output_defaults(properties: dict[str, str]) -> None:
    """Have services that share a program's output show what a person should see there, unless options say otherwise.

    That is warnings and errors of user functions, so many of them, and errors of flinkpy itself.
    """
    if core_options.LOG_LEVEL.key not in properties:
        properties[core_options.LOG_LEVEL.key] = "WARNING"
        properties.setdefault(core_options.LOG_RUNTIME_LEVEL.key, "ERROR")
    properties.setdefault(core_options.LOG_RATE_LIMIT.key, str(SHARED_OUTPUT_RATE_LIMIT))


def log_directory(properties: Mapping[str, str], default: Path) -> Path:
    """Where log files go: `env.log.dir`, else `default`."""
    configured = read_option(properties, core_options.LOG_DIR)
    return Path(configured) if configured else default
