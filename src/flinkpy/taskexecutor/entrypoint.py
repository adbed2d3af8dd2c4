"""Entry point of the TaskExecutor process."""

from __future__ import annotations

import asyncio
import dataclasses
import faulthandler
import gc
import io
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from flinkpy.checkpoint.storage.file_systems import initialize_file_systems
from flinkpy.common.c_allocator import keep_freed_memory, return_free_memory
from flinkpy.common.cgroup import memory_limit
from flinkpy.common.configuration import Configuration
from flinkpy.common.cpu_scheduling import bind_to_cpus, raise_niceness
from flinkpy.common.errors import ConfigurationError, ErrorDomain, FlinkError
from flinkpy.common.garbage_collector import tune_garbage_collector
from flinkpy.common.memory_use import MemoryMeter
from flinkpy.common.process import die_with_parent_if_asked
from flinkpy.common.service_host import ServiceHost
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.configuration import memory_options, read_option, taskmanager_options
from flinkpy.configuration.task_executor_process_spec import process_spec, with_derived_sizes
from flinkpy.highavailability.services import create_high_availability_services
from flinkpy.metrics.scope_formats import GroupKind
from flinkpy.metrics.service_metrics import ServiceMetrics
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.options import BlockingShuffleOptions, NetworkOptions
from flinkpy.network.transport.authenticator import (
    DataPlaneAuthenticator,
    HmacAuthenticator,
    TrustedNetworkAuthenticator,
)
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext, check_bind
from flinkpy.taskexecutor.external_resources import discover_external_resources
from flinkpy.taskexecutor.memory_watchdog import MemoryWatchdog, memory_guard
from flinkpy.taskexecutor.options import TaskExecutorOptions, task_executor_options, tmp_directories
from flinkpy.taskexecutor.preload import preload
from flinkpy.taskexecutor.shuffle_directories import ShuffleDirectories
from flinkpy.taskexecutor.task_deployer import NetworkTaskDeployer
from flinkpy.taskexecutor.task_executor import TaskExecutor
from flinkpy.taskexecutor.task_executor_metrics import register_memory_watchdog, register_task_executor_metrics

logger = logging.getLogger(__name__)

#: The exit code after a fatal error, as of Flink's TaskManagerRunner.
FATAL_EXIT_CODE = 1

#: How long to wait for I/O at the end; what is still being written belongs to checkpoints that will not complete.
STOP_IO_TIMEOUT_S = 2.0

#: Stands for a restart of the process; it is not an exit code.
RENEWED = -1
READY_FILE = "--ready-file"


async def run_taskexecutor(
    configuration: Configuration, *, ready_file: str | None = None, host: ServiceHost | None = None
) -> int:
    """Runs a TaskExecutor until SIGTERM or SIGINT (returns 0) or a fatal error (returns 1 or ends the process).

    Raises: ConfigurationError, AddressInUseError.
    """
    host = host or ServiceHost(ready_file)
    if not host.is_shared:
        die_with_parent_if_asked()
    _bind_to_cpus(configuration, host)
    options = task_executor_options(configuration)
    spec = process_spec(configuration)
    meter = MemoryMeter(None if spec is None else spec.total_process, memory_limit())
    guard = memory_guard(configuration)
    watches_memory = meter.has_limit and read_option(configuration, memory_options.WATCHDOG_ENABLED)
    configuration = with_derived_sizes(configuration)
    external_resources = await asyncio.to_thread(discover_external_resources, configuration)
    initialize_file_systems(configuration)
    if not host.is_shared:
        _prepare_process(options)
    loop = asyncio.get_running_loop()
    directory = os.getcwd()
    ended: asyncio.Future[tuple[int, str]] = loop.create_future()
    host.on_stop(lambda reason: _end(ended, 0, reason))

    security = SecurityContext.of_service(configuration)
    services = await asyncio.to_thread(
        create_high_availability_services,
        configuration,
        security,
        loop,
        process="taskexecutor",
        resource_manager_address=options.resource_manager_address,
    )
    working_directory = WorkingDirectory.open(options.working_dir, options.tmp_dir, "taskexecutor")
    shuffle_directories = ShuffleDirectories.open(tmp_directories(configuration), working_directory)
    network = _network(configuration, options, security, shuffle_directories.paths)
    rpc_client = RpcClient(security=security)
    server = RpcServer(
        bind_address=options.bind_address,
        port=options.rpc_port,
        advertised_host=options.advertised_host,
        security=security,
        on_end=host.on_server_end(),
    )

    def on_fatal(error: BaseException) -> None:
        if host.is_shared:
            logger.critical("TaskExecutor %s has failed and ends", options.resource_id, exc_info=error)
            loop.call_soon_threadsafe(_end, ended, FATAL_EXIT_CODE, f"failed: {error}")
        else:
            _fatal(error, working_directory)

    try:
        data_address = network.start()
        variables = {"<host>": options.advertised_host, "<tm_id>": options.resource_id}
        metrics = ServiceMetrics(configuration, GroupKind.TASK_MANAGER, variables, memory_limit_bytes=meter.limit_bytes)
        register_task_executor_metrics(metrics.group, configuration, network.buffer_pool, meter)
        metrics.start()
        deployer = NetworkTaskDeployer(
            network,
            rpc_client,
            working_directory,
            configuration,
            metrics=metrics.registry,
            options=options,
            external_resources=external_resources,
        )
        task_executor = TaskExecutor(
            loop,
            rpc_client,
            deployer,
            options,
            on_fatal=on_fatal,
            metrics=metrics.registry,
            collect_garbage=None if host.is_shared else _free_memory,
            on_renewal=lambda: _end(ended, RENEWED, "restarts"),
            resource_managers=services.resource_manager_retrieval(),
        )
        task_executor.on_fatal_error = on_fatal
        server.add_endpoint("TaskExecutor", task_executor)
        await server.start()
        task_executor.start(server.address, data_address)
        watchdog = InterpreterWatchdog(task_executor, options.cancellation_timeout_ms)
        memory_watchdog = MemoryWatchdog(
            task_executor, meter, guard, lambda: task_executor.service.unfinished_tasks, _free_memory
        )
        register_memory_watchdog(metrics.group, memory_watchdog)
        if not host.is_shared:
            watchdog.start()
            if watches_memory:
                memory_watchdog.start()
        host.announce_ready("taskexecutor", server.address, data_address)
        if not host.is_shared:
            task_executor.run_async(_preload(task_executor), None, "import what first tasks need")
        exit_code, reason = await ended
        logger.info("TaskExecutor %s ends: %s", options.resource_id, reason)
        await task_executor.stop(f"TaskExecutor {options.resource_id} {reason}")
        watchdog.stop()
        memory_watchdog.stop()
        leftover = [task.task_name for task in task_executor.service.unfinished_tasks]
        await asyncio.to_thread(metrics.close)
        if not deployer.close(STOP_IO_TIMEOUT_S):
            leftover.append("I/O threads")
    finally:
        await server.stop()
        await rpc_client.close()
        await asyncio.to_thread(services.close)
        network.close()
        shuffle_directories.close()
        working_directory.close()
    if host.is_shared:
        for name in leftover:
            logger.warning("%s of TaskExecutor %s did not stop", name, options.resource_id)
        return exit_code
    if exit_code == RENEWED:
        _begin_anew(directory)
    if leftover:
        # Their threads cannot be stopped, and the interpreter cannot shut down while they run.
        logger.warning("ending the process although these did not stop: %s", ", ".join(leftover))
        _exit_now(exit_code)
    return exit_code


def _bind_to_cpus(configuration: Configuration, host: ServiceHost) -> None:
    """Binds the process to its CPUs, unless it belongs to a program. Raises: ConfigurationError."""
    cpus = read_option(configuration, memory_options.CPU_AFFINITY)
    if cpus is not None and not host.is_shared:
        bind_to_cpus(cpus)


def _prepare_process(options: TaskExecutorOptions) -> None:
    """Sets what tasks find in a process of a TaskExecutor."""
    sys.setswitchinterval(options.switch_interval_ms / 1000)
    raise_niceness(options.niceness)
    keep_freed_memory()
    # As in PyFlink, this variable tells functions which interpreter runs them.
    os.environ["python"] = sys.executable  # noqa: SIM112  the name is PyFlink's
    # Output of user code appears at once, also if standard output is a file or a pipe.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


async def _preload(task_executor: TaskExecutor) -> None:
    await asyncio.to_thread(preload)
    # This runs on the main thread, so that no job can arrive between the check and the answer.
    tune_garbage_collector(freezes=task_executor.service.jobs.is_unused)


def _free_memory() -> None:
    gc.collect()
    return_free_memory()


def _network(
    configuration: Configuration,
    options: TaskExecutorOptions,
    security: SecurityContext,
    shuffle_directories: Sequence[Path],
) -> NetworkEnvironment:
    check_bind(options.bind_address, security)
    limits = network_options(configuration)
    if security.tls is not None and security.tls.handshake_timeout_ms is not None:
        limits = dataclasses.replace(limits, handshake_timeout_ms=security.tls.handshake_timeout_ms)
    return NetworkEnvironment(
        limits,
        resource_id=options.resource_id,
        bind_address=options.bind_address,
        port=options.data_port,
        advertised_host=options.advertised_host,
        authenticator=data_plane_authenticator(security),
        tls=security.tls,
        blocking=blocking_shuffle_options(configuration),
        directories=shuffle_directories,
    )


def data_plane_authenticator(security: SecurityContext) -> DataPlaneAuthenticator:
    """Returns the authenticator of peers: by the cluster's secret, or, if security is disabled, one that accepts all.

    Raises: ConfigurationError if there is no secret and security is not disabled.
    """
    if security.secret is not None:
        return HmacAuthenticator(security.secret.derive_key("data-plane"))
    if not security.is_insecure:
        raise ConfigurationError("a TaskExecutor needs the cluster secret (security.secret-file) for its data plane")
    logger.warning(
        "INSECURE: without a cluster secret the data plane accepts every peer and unpickles what it sends: anybody who "
        "can connect to this process can run code in it"
    )
    return TrustedNetworkAuthenticator()


def network_options(configuration: Configuration) -> NetworkOptions:
    """Returns the configured limits of the data plane."""
    minimum = read_option(configuration, taskmanager_options.NETWORK_MEMORY_MIN)
    maximum = read_option(configuration, taskmanager_options.NETWORK_MEMORY_MAX)
    return NetworkOptions(
        # If a total is configured, both are the derived size. Otherwise the memory has no fixed size, so it is the
        # minimum.
        memory_bytes=min(minimum, maximum),
        segment_size_bytes=read_option(configuration, taskmanager_options.MEMORY_SEGMENT_SIZE),
        exclusive_buffers_per_channel=read_option(configuration, taskmanager_options.NETWORK_BUFFERS_PER_CHANNEL),
        request_backoff_initial_ms=read_option(configuration, taskmanager_options.NETWORK_REQUEST_BACKOFF_INITIAL_MS),
        request_backoff_max_ms=read_option(configuration, taskmanager_options.NETWORK_REQUEST_BACKOFF_MAX_MS),
        partition_request_timeout_ms=read_option(configuration, taskmanager_options.PARTITION_REQUEST_TIMEOUT),
        connect_timeout_ms=read_option(configuration, taskmanager_options.CONNECT_TIMEOUT_S) * 1000,
    )


def blocking_shuffle_options(configuration: Configuration) -> BlockingShuffleOptions:
    """Returns the configured limits of blocking partitions."""
    codec = read_option(configuration, taskmanager_options.SHUFFLE_COMPRESSION_CODEC)
    return BlockingShuffleOptions(
        min_buffers=read_option(configuration, taskmanager_options.NETWORK_SORT_SHUFFLE_MIN_BUFFERS),
        read_memory_bytes=read_option(configuration, taskmanager_options.NETWORK_BATCH_SHUFFLE_READ_MEMORY),
        compression=None if codec == "NONE" else codec.lower(),
    )


def _end(ended: asyncio.Future[tuple[int, str]], exit_code: int, reason: str) -> None:
    if not ended.done():
        ended.set_result((exit_code, reason))


def _begin_anew(directory: str) -> None:
    """Restarts this process with the same command line. No process waits for it to be ready."""
    arguments = [sys.executable, *sys.orig_argv[1:]]
    if READY_FILE in arguments:
        position = arguments.index(READY_FILE)
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.set_inheritable(nobody, True)
        arguments[position + 1] = f"fd:{nobody}"
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os.chdir(directory)  # the current one may be the directory of a job's archives
    os.execv(sys.executable, arguments)


def _fatal(error: BaseException, working_directory: WorkingDirectory) -> None:
    """Logs a fatal error and ends the process at once. The peers notice the broken connections."""
    is_outside = isinstance(error, FlinkError) and error.domain is ErrorDomain.EXTERNAL
    logger.critical("FATAL: ending this TaskExecutor: %s", error, exc_info=None if is_outside else error)
    working_directory.close()
    _exit_now(FATAL_EXIT_CODE)


def _exit_now(exit_code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(exit_code)


#: How many times the timer is reset within its timeout, so that it does not expire on a loaded machine.
TICKS_PER_TIMEOUT = 6


class InterpreterWatchdog:
    """Ends the process if one call blocks the interpreter for too long. Thread: main thread. One per process.

    A call into C that keeps the interpreter lock (e.g. a regular expression that backtracks for ever) stops every
    thread of the process, including the main loop. No cancellation arrives and no heartbeat is answered, and no Python
    code could end the process. The interpreter's fault handler can, because its timer is a thread in C. The loop resets
    the timer every few seconds. If the loop is stuck, the fault handler writes the stacks of all threads to standard
    error and ends the process.
    """

    def __init__(self, endpoint: RpcEndpoint, timeout_ms: int) -> None:
        self._endpoint = endpoint
        self._timeout_ms = timeout_ms
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Starts to watch. Does nothing if the timeout is 0."""
        if self._timeout_ms > 0:
            faulthandler.dump_traceback_later(self._timeout_ms / 1000, exit=True, file=sys.stderr)
            self._timer = self._endpoint.schedule(self._timeout_ms / TICKS_PER_TIMEOUT, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            faulthandler.cancel_dump_traceback_later()
