"""LocalCluster: a Dispatcher, a ResourceManager and TaskExecutors as processes of this host.

The ports of Dispatcher and ResourceManager are reserved before anything starts. So all services start at the same
time: the others get the address of the ResourceManager and retry until it answers. The ports stay reserved until the
cluster is stopped, so that no other process can take one while a service restarts.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
from flinkpy.client.service_supervisor import ServiceSupervisor
from flinkpy.common.addresses import LOOPBACK, PortReservation
from flinkpy.common.interruptible import wait_for_exit
from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.common.process import SUPERVISED_VARIABLE, stop_children
from flinkpy.configuration import core_options, jobmanager_options, resource_manager_options, security_options
from flinkpy.configuration.options import read_option
from flinkpy.security import ClusterSecret, Role, SecurityContext

#: Verbs of the services whose ports are reserved.
DISPATCHER, RESOURCE_MANAGER = "dispatcher", "resourcemanager"
#: All services start within a few seconds even on a loaded two-core machine. After this time, something hangs.
START_TIMEOUT_S = 60.0
#: Time for an orderly shutdown before SIGKILL.
STOP_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class LocalClusterOptions:
    """Options of a LocalCluster.

    Attributes:
        num_task_executors: number of TaskExecutor processes to start.
        properties: the configuration of all services.
        dispatcher_port: port of the Dispatcher; 0 means any free port.
        log_dir: directory for one log file per service; None for no files.
        temporary_dir: directory for temporary files of the services and their user code. `start` creates it and `stop`
            removes it with its content, so that killed services leave nothing behind.
        inherit_output: print the output of the TaskExecutors (what user code prints) where this process prints.
        dies_with_parent: end all services when this process ends.
        restart_services: restart a service when its process dies. A restarted Dispatcher recovers its jobs if it has
            a `temporary_dir` or a configured working directory.
        on_change: called on any thread after a service has been restarted.
        on_shut_down: called on any thread when the Dispatcher has ended because a client shut the cluster down. Only
            with `restart_services`; `stop` ends the other services.
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
    on_shut_down: Callable[[], None] = lambda: None


class LocalCluster:
    """The processes of one local cluster.

    Thread: if the services die with their parent, call `start` and `add_task_executors` on a thread that lives as long
    as this process. The kernel ends a service together with the thread that started it.
    """

    def __init__(self, options: LocalClusterOptions) -> None:
        self._options = options
        self._properties = dict(options.properties)
        if options.temporary_dir is not None and not read_option(options.properties, jobmanager_options.WORKING_DIR):
            # A restarted Dispatcher must find the same directory. By default, each creates a new one.
            self._properties[jobmanager_options.WORKING_DIR.key] = str(options.temporary_dir / "work")
        if options.log_dir is not None:
            # The services list the files of this directory.
            self._properties.setdefault(core_options.LOG_DIR.key, str(options.log_dir))
        self._processes: list[ServiceProcess] = []
        self._num_task_executors = 0
        self._lock = threading.Lock()
        #: True after `stop` or `give_up`. Processes started from then on are killed at once.
        self._is_given_up = False
        self._supervisor: ServiceSupervisor | None = None
        #: Directory of the secret if there is no temporary directory. `start` creates it, `stop` removes it.
        self._private_dir: Path | None = None
        self._security: SecurityContext | None = None
        #: Reserved ports by verb of the service, from `start` to `stop`.
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
        """`host:port` of the Dispatcher. Valid after `start`."""
        address = self._processes[0].address
        if address is None:
            raise RuntimeError("the local cluster has not been started")
        return address

    @property
    def resource_manager_address(self) -> str:
        """`host:port` of the ResourceManager. Valid after `start`."""
        return self._resource_manager

    @property
    def client_properties(self) -> dict[str, str]:
        """The options that a client needs to reach this cluster. Valid after `start`."""
        host, _, port = self.dispatcher_address.rpartition(":")
        return {
            core_options.EXECUTION_TARGET.key: "remote",
            jobmanager_options.ADDRESS.key: host,
            jobmanager_options.PORT.key: port,
            security_options.SECRET_FILE.key: str(self.secret_file),
        }

    @property
    def security(self) -> SecurityContext:
        """The credentials of this cluster's clients, including the secret. Valid after `start`."""
        if self._security is None:
            raise RuntimeError("the local cluster has not been started")
        return self._security

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts all services and returns when all are ready.

        Raises:
            ExternalError: a service could not start. All others have been stopped.
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
            # This creates the certificate of the services while they import their modules.
            self._security = SecurityContext.of_service(self._properties).with_role(Role.SUBMIT)
            wait_until_ready(self._processes, timeout_s)
            if self._options.restart_services:
                self._supervisor = ServiceSupervisor(
                    self._respawn, self._restarted, timeout_s, self._options.on_shut_down
                )
                self._supervisor.watch(self._replaceable())
        except BaseException:
            self.stop()
            raise

    def add_task_executors(self, count: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts `count` more TaskExecutors and returns when they are ready."""
        added = [self._spawn(self._task_executor_spec()) for _ in range(count)]
        wait_until_ready(added, timeout_s)
        if self._supervisor is not None:
            self._supervisor.watch(added)

    def dead_process(self) -> ServiceProcess | None:
        """Returns a service that has ended, or None if all run."""
        return next((process for process in self.processes if process.popen.poll() is not None), None)

    @property
    def is_broken(self) -> bool:
        """True if a service has ended and will not be restarted."""
        if self._supervisor is None:
            return self.dead_process() is not None
        return self._supervisor.has_given_up

    def give_up(self) -> None:
        """Makes a `start` or `add_task_executors` on another thread fail soon. Call `stop` afterwards.

        Thread: any.
        """
        with self._lock:
            self._is_given_up = True
        for process in self.processes:
            process.popen.kill()

    def stop(self) -> None:
        """Stops all services and returns when all have ended. A service that does not stop in time is killed."""
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
        """Path of the cluster's secret. Valid after `start`."""
        return Path(self._properties[security_options.SECRET_FILE.key])

    def _make_secret(self) -> None:
        """Creates a secret for this cluster, unless the configuration names a secret file. Raises: SecretError."""
        if not self._options.properties.get(security_options.SECRET_FILE.key):
            directory = self._options.temporary_dir
            if directory is None:
                directory = self._private_dir = Path(tempfile.mkdtemp(prefix="flinkpy-cluster-"))
            self._properties[security_options.SECRET_FILE.key] = str(directory / "secret")
        ClusterSecret.load_or_create(self.secret_file)

    def _reserve_ports(self) -> None:
        """Reserves the ports of Dispatcher and ResourceManager. Raises: AddressInUseError."""
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
        """Starts a replacement for a dead service. Dispatcher and ResourceManager keep their addresses."""
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
        """Returns the spec of a service. `reservation` is the verb whose reserved port it uses."""
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
            environment={
                **({SUPERVISED_VARIABLE: "1"} if options.restart_services and verb == DISPATCHER else {}),
                **({} if reservation is None else self._reservations[reservation].environment),
            },
        )

    def _replaceable(self) -> list[ServiceProcess]:
        """The processes that are restarted when they die."""
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


#: Verb of the service that is the Dispatcher and also runs the program.
STANDALONE_JOB = "standalone-job"


class ApplicationCluster(LocalCluster):
    """A local cluster that belongs to one program and ends with it.

    Its Dispatcher is the service that also runs the program (`flinkpy standalone-job`). All other services are
    restarted when they die; the end of this one is the end of the cluster.

    Thread: see LocalCluster.
    """

    def __init__(self, options: LocalClusterOptions, program: str, arguments: Sequence[str]) -> None:
        super().__init__(options)
        self._program = (program, *arguments)

    def wait(self) -> int:
        """Waits until the application has ended and returns its exit status."""
        status = wait_for_exit(self.processes[0].popen)
        return status if status >= 0 else 128 - status

    def _dispatcher_spec(self) -> ServiceSpec:
        arguments = ("--port", self._port(DISPATCHER), "--resourcemanager", self._resource_manager)
        # The user of the command wants to see the output of the program.
        spec = self._spec("application", STANDALONE_JOB, arguments, inherit_output=True, reservation=DISPATCHER)
        return replace(spec, trailing=("--", *self._program))

    def _replaceable(self) -> list[ServiceProcess]:
        return self._processes[1:]


#: Log records of user functions per second and process at which a terminal stays readable.
SHARED_OUTPUT_RATE_LIMIT = 50


def set_shared_output_defaults(properties: dict[str, str]) -> None:
    """Sets logging defaults for services that share the output of a program.

    They log warnings and errors of user functions at a limited rate, and errors of flinkpy. Options that are set stay.
    """
    if core_options.LOG_LEVEL.key not in properties:
        properties[core_options.LOG_LEVEL.key] = "WARNING"
        properties.setdefault(core_options.LOG_RUNTIME_LEVEL.key, "ERROR")
    properties.setdefault(core_options.LOG_RATE_LIMIT.key, str(SHARED_OUTPUT_RATE_LIMIT))


def log_directory(properties: Mapping[str, str], default: Path) -> Path:
    """Returns the directory for log files: `env.log.dir`, or `default` if that is not set."""
    configured = read_option(properties, core_options.LOG_DIR)
    return Path(configured) if configured else default
