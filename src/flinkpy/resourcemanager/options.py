"""ResourceManagerOptions: the configuration of a ResourceManager, read and validated once at its start."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from flinkpy.common.addresses import LOOPBACK
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.configuration import jobmanager_options, read_option, taskmanager_options
from flinkpy.configuration import resource_manager_options as options
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.configuration.task_executor_process_spec import process_spec, total_resource
from flinkpy.resourcemanager.resource_limits import ResourceLimits
from flinkpy.resourcemanager.slot_manager import SlotManagerOptions
from flinkpy.resourcemanager.worker_manager import WorkerOptions
from flinkpy.rpc.peer_connection import PeerOptions, read_peer_options

ANY_ADDRESSES = ("0.0.0.0", "::", "[::]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerOptions(PeerOptions):
    bind_address: str = LOOPBACK
    advertised_host: str = LOOPBACK
    port: int = 0
    job_timeout_ms: int = 300_000
    declare_needed_delay_ms: int = 50
    #: How long TaskExecutors that others start may take to come, before requirements are refused.
    start_up_time_ms: int = 300_000
    driver: str = "standalone"
    slot_manager: SlotManagerOptions = field(default_factory=SlotManagerOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)


def resource_manager_options(configuration: AnyConfiguration) -> ResourceManagerOptions:
    """Reads the options of a ResourceManager. Raises: ConfigurationError, which names the option."""
    bind_address = read_option(configuration, options.BIND_HOST) or LOOPBACK
    job_timeout_ms = read_option(configuration, options.JOB_TIMEOUT)
    driver = read_option(configuration, options.DRIVER)
    # Pods run on other hosts than this process, so only configured sizes tell what they have.
    is_size_known = driver != "kubernetes" or process_spec(configuration) is not None
    worker_total = total_resource(configuration) if is_size_known else ResourceProfile.ANY
    num_slots = read_option(configuration, taskmanager_options.NUM_TASK_SLOTS)
    start_up_time_ms = read_option(configuration, options.STANDALONE_START_UP_TIME)
    if start_up_time_ms is None:
        start_up_time_ms = read_option(configuration, jobmanager_options.SLOT_REQUEST_TIMEOUT)
    return ResourceManagerOptions(
        bind_address=bind_address,
        advertised_host=_advertised_host(configuration, bind_address),
        port=read_option(configuration, options.IPC_PORT),
        **read_peer_options(configuration),
        job_timeout_ms=job_timeout_ms,
        declare_needed_delay_ms=read_option(configuration, options.DECLARE_NEEDED_RESOURCE_DELAY),
        driver=driver,
        start_up_time_ms=start_up_time_ms,
        slot_manager=SlotManagerOptions(
            slots_per_worker=num_slots,
            min_slots=read_option(configuration, options.MIN_SLOT_NUM),
            max_slots=read_option(configuration, options.MAX_SLOT_NUM),
            redundant_workers=read_option(configuration, options.REDUNDANT_TASK_MANAGER_NUM),
            requirements_check_delay_ms=read_option(configuration, options.REQUIREMENTS_CHECK_DELAY),
            task_manager_timeout_ms=read_option(configuration, options.TASK_MANAGER_TIMEOUT),
            unknown_job_timeout_ms=job_timeout_ms,
            spread_out=read_option(configuration, taskmanager_options.LOAD_BALANCE_MODE) in ("SLOTS", "TASKS"),
            worker_total=worker_total,
            worker_slot=worker_total.divide(num_slots),
            has_driver=driver != "standalone",
            limits=ResourceLimits(
                min_cpu_cores=read_option(configuration, options.MIN_TOTAL_CPU) or 0.0,
                min_memory_bytes=read_option(configuration, options.MIN_TOTAL_MEMORY) or 0,
                max_cpu_cores=read_option(configuration, options.MAX_TOTAL_CPU),
                max_memory_bytes=read_option(configuration, options.MAX_TOTAL_MEMORY),
            ),
        ),
        workers=WorkerOptions(
            max_failure_rate_per_minute=read_option(configuration, options.START_WORKER_MAX_FAILURE_RATE),
            retry_interval_ms=read_option(configuration, options.START_WORKER_RETRY_INTERVAL),
            registration_timeout_ms=read_option(configuration, options.TASK_MANAGER_REGISTRATION_TIMEOUT),
        ),
    )


def _advertised_host(configuration: AnyConfiguration, bind_address: str) -> str:
    """Returns the host at which others reach this process: `resourcemanager.rpc.address`, or the bound one."""
    configured = read_option(configuration, options.ADDRESS)
    if configured is not None and bind_address in ANY_ADDRESSES:
        return configured
    return socket.gethostname() if bind_address in ANY_ADDRESSES else bind_address
