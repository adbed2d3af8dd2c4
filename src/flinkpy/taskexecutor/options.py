"""TaskExecutorOptions: the configuration of a TaskExecutor, read and validated once at its start."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

from flinkpy.common.addresses import LOOPBACK
from flinkpy.common.errors import ConfigurationError
from flinkpy.common.ids import ResourceID, StringId
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.configuration import (
    core_options,
    jobmanager_options,
    read_option,
    resource_manager_options,
    taskmanager_options,
)
from flinkpy.configuration.task_executor_process_spec import total_resource
from flinkpy.highavailability.services import is_highly_available
from flinkpy.rpc.peer_connection import PeerOptions, read_peer_options


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecutorOptions(PeerOptions):
    """The options of a TaskExecutor."""

    resource_id: str
    num_slots: int = 1
    #: The resources of this process, which slots share.
    total_resource: ResourceProfile = ResourceProfile.ANY
    bind_address: str = LOOPBACK
    advertised_host: str = LOOPBACK
    rpc_port: int = 0
    data_port: int = 0
    resource_manager_address: str = ""
    slot_timeout_ms: int = 10_000
    #: How long the process may be without a ResourceManager before it ends; 0: for ever.
    registration_timeout_ms: int = 300_000
    cancellation_interval_ms: int = 30_000
    #: How long a canceled task may take to stop before the process ends; 0: for ever.
    cancellation_timeout_ms: int = 180_000
    #: The directory of the temporary working directory; None: that of the system.
    tmp_dir: str | None = None
    #: A working directory that survives restarts of this TaskExecutor, which must have a configured name.
    working_dir: str | None = None
    log_dir: str | None = None
    #: How long a task thread may keep the interpreter while another thread waits for it. Measured on two busy cores:
    #: CPython's 5 ms gave a worse p99 latency in most runs, 1 and 0.5 ms did not differ.
    switch_interval_ms: float = 0.5
    niceness: int = 0
    #: How long tasks of streaming jobs go on without a JobMaster, unless the job has a value of its own; 0: not at all.
    task_adoption_timeout_ms: int = 30_000

    @property
    def default_slot_resource(self) -> ResourceProfile:
        """The resources of a slot that is requested without numbers."""
        return self.total_resource.divide(self.num_slots)


def task_executor_options(configuration: Any) -> TaskExecutorOptions:
    """Reads the options of a TaskExecutor. Raises: ConfigurationError, which names the option."""
    bind_host = read_option(configuration, taskmanager_options.BIND_HOST) or LOOPBACK
    advertised = read_option(configuration, taskmanager_options.HOST) or (
        socket.gethostname() if bind_host in ("0.0.0.0", "::", "[::]") else bind_host
    )
    resource_id = read_option(configuration, taskmanager_options.RESOURCE_ID)
    working_dir = read_option(configuration, taskmanager_options.WORKING_DIR)
    return TaskExecutorOptions(
        resource_id=resource_id or make_resource_id(advertised),
        num_slots=read_option(configuration, taskmanager_options.NUM_TASK_SLOTS),
        total_resource=total_resource(configuration),
        bind_address=bind_host,
        advertised_host=advertised,
        rpc_port=read_option(configuration, taskmanager_options.RPC_PORT),
        data_port=read_option(configuration, taskmanager_options.DATA_PORT),
        resource_manager_address=resource_manager_address(configuration),
        slot_timeout_ms=read_option(configuration, taskmanager_options.SLOT_TIMEOUT),
        registration_timeout_ms=read_option(configuration, taskmanager_options.REGISTRATION_TIMEOUT),
        **read_peer_options(configuration),
        cancellation_interval_ms=read_option(configuration, taskmanager_options.TASK_CANCELLATION_INTERVAL),
        cancellation_timeout_ms=read_option(configuration, taskmanager_options.TASK_CANCELLATION_TIMEOUT),
        tmp_dir=tmp_directory(configuration),
        working_dir=os.path.join(working_dir, resource_id) if working_dir and resource_id else None,
        log_dir=read_option(configuration, core_options.LOG_DIR),
        switch_interval_ms=read_option(configuration, taskmanager_options.SWITCH_INTERVAL_MS),
        niceness=read_option(configuration, taskmanager_options.NICENESS),
        task_adoption_timeout_ms=read_option(configuration, jobmanager_options.TASK_ADOPTION_TIMEOUT),
    )


def resource_manager_address(configuration: Any) -> str:
    """Returns `host:port` of the ResourceManager; empty if it is elected. Raises: ConfigurationError."""
    if is_highly_available(configuration):
        return ""
    host = read_option(configuration, resource_manager_options.ADDRESS)
    port = read_option(configuration, resource_manager_options.IPC_PORT)
    if not host or not port:
        raise ConfigurationError(
            "a TaskExecutor needs the ResourceManager's address: set `resourcemanager.rpc.address` and "
            "`resourcemanager.rpc.port`",
            details={"option": "resourcemanager.rpc.address"},
        )
    return f"{host}:{port}"


def tmp_directory(configuration: Any) -> str | None:
    """Returns the first of `io.tmp.dirs`; None: that of the system."""
    directories = tmp_directories(configuration)
    return directories[0] if directories else None


def tmp_directories(configuration: Any) -> list[str]:
    """Returns all of `io.tmp.dirs`; none if it is not set."""
    configured = read_option(configuration, core_options.TMP_DIRS) or ""
    return [part.strip() for part in configured.replace(os.pathsep, ",").split(",") if part.strip()]


def make_resource_id(host: str) -> str:
    """Returns a readable name that no other process has."""
    return str(ResourceID(f"taskexecutor-{host}-{os.getpid()}-{StringId.generate().value[:6]}"))
