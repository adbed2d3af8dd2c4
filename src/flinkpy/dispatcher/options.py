"""DispatcherOptions: the configuration of a Dispatcher, read and validated once at its start."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from flinkpy.common.addresses import LOOPBACK
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import (
    cluster_options,
    core_options,
    jobmanager_options,
    read_option,
    resource_manager_options,
    rest_options,
)
from flinkpy.configuration.options import AnyConfiguration, is_set
from flinkpy.dispatcher.job_clean_up import CleanUpPolicy, clean_up_policy
from flinkpy.highavailability.services import is_highly_available
from flinkpy.rpc.peer_connection import PeerOptions, read_peer_options
from flinkpy.security.security_context import is_insecure

ANY_ADDRESSES = ("0.0.0.0", "::", "[::]")

#: The maximum number of results on disk, whatever `jobstore.max-capacity` says: each is a file.
MAX_KEPT_RESULTS = 10_000
#: A hundred years: ended jobs are kept without a limit of time.
UNLIMITED_MS = 100 * 365 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherOptions(PeerOptions):
    #: empty with high availability, where the leader is looked up
    resource_manager_address: str
    bind_address: str = LOOPBACK
    advertised_host: str = LOOPBACK
    port: int = 0
    shutdown_timeout_ms: int = 30_000
    num_standbys: int = 1
    job_master_recovery_attempts: int = 10
    job_master_recovery_reset_ms: int = 30_000
    job_master_recovery_initial_backoff_ms: int = 100
    job_master_recovery_max_backoff_ms: int = 10_000
    adoption_timeout_ms: int = 10_000
    clean_up_policy: CleanUpPolicy = field(default_factory=CleanUpPolicy)
    max_kept_results: int = MAX_KEPT_RESULTS
    result_expiration_ms: int = 3_600_000
    result_cache_bytes: int = 50 << 20
    max_blob_bytes: int = 2 << 30
    blob_cleanup_interval_s: int = 3_600
    blob_directory: str | None = None
    working_directory: str | None = None
    temporary_root: str | None = None
    is_insecure: bool = False
    may_sample_threads: bool = True


def dispatcher_options(configuration: AnyConfiguration) -> DispatcherOptions:
    """Reads the options of a Dispatcher. Raises: ConfigurationError, which names the option."""
    bind_address = read_option(configuration, jobmanager_options.BIND_HOST) or LOOPBACK
    bind_port = read_option(configuration, jobmanager_options.RPC_BIND_PORT)
    return DispatcherOptions(
        resource_manager_address=_resource_manager_address(configuration),
        bind_address=bind_address,
        advertised_host=_advertised_host(configuration, bind_address),
        port=read_option(configuration, jobmanager_options.PORT) if bind_port is None else bind_port,
        **read_peer_options(configuration),
        shutdown_timeout_ms=read_option(configuration, cluster_options.CLUSTER_SERVICES_SHUTDOWN_TIMEOUT),
        num_standbys=read_option(configuration, jobmanager_options.STANDBY_JOB_MASTERS),
        job_master_recovery_attempts=read_option(configuration, jobmanager_options.JOB_MASTER_RECOVERY_ATTEMPTS),
        job_master_recovery_reset_ms=read_option(configuration, jobmanager_options.JOB_MASTER_RECOVERY_RESET),
        job_master_recovery_initial_backoff_ms=read_option(
            configuration, jobmanager_options.JOB_MASTER_RECOVERY_INITIAL_BACKOFF
        ),
        job_master_recovery_max_backoff_ms=read_option(
            configuration, jobmanager_options.JOB_MASTER_RECOVERY_MAX_BACKOFF
        ),
        adoption_timeout_ms=read_option(configuration, jobmanager_options.JOB_MASTER_ADOPTION_TIMEOUT),
        clean_up_policy=clean_up_policy(configuration),
        max_kept_results=min(read_option(configuration, jobmanager_options.JOB_STORE_MAX_CAPACITY), MAX_KEPT_RESULTS),
        result_expiration_ms=_result_expiration_ms(configuration),
        result_cache_bytes=read_option(configuration, jobmanager_options.JOB_STORE_CACHE_SIZE),
        max_blob_bytes=read_option(configuration, cluster_options.MAX_BLOB_SIZE),
        blob_cleanup_interval_s=read_option(configuration, cluster_options.BLOB_CLEANUP_INTERVAL_S),
        blob_directory=read_option(configuration, cluster_options.BLOB_STORAGE_DIRECTORY),
        is_insecure=is_insecure(configuration),
        may_sample_threads=read_option(configuration, rest_options.FLAMEGRAPH_ENABLED),
        working_directory=read_option(configuration, jobmanager_options.WORKING_DIR),
        temporary_root=_first_directory(read_option(configuration, core_options.TMP_DIRS)),
    )


def _result_expiration_ms(configuration: AnyConfiguration) -> int:
    """Returns how long ended jobs are shown. Users who archive jobs want to keep them, unless they set a time."""
    expiration = jobmanager_options.JOB_STORE_EXPIRATION_TIME
    if read_option(configuration, jobmanager_options.ARCHIVE_DIRECTORY) and not is_set(configuration, expiration):
        return UNLIMITED_MS
    return read_option(configuration, expiration) * 1000


def _resource_manager_address(configuration: AnyConfiguration) -> str:
    if is_highly_available(configuration):
        return ""
    host = read_option(configuration, resource_manager_options.ADDRESS) or LOOPBACK
    port = read_option(configuration, resource_manager_options.IPC_PORT)
    if port == 0:
        raise ConfigurationError(
            "the ResourceManager's address is unknown: set resourcemanager.rpc.address and resourcemanager.rpc.port "
            "(or --resourcemanager HOST:PORT)",
            details={"option": resource_manager_options.IPC_PORT.key},
        )
    return f"{host}:{port}"


def _advertised_host(configuration: AnyConfiguration, bind_address: str) -> str:
    if bind_address not in ANY_ADDRESSES:
        return bind_address
    return read_option(configuration, jobmanager_options.ADDRESS) or socket.gethostname()


def _first_directory(directories: str | None) -> str | None:
    if directories is None:
        return None
    return directories.replace(":", ",").replace("|", ",").split(",")[0].strip() or None
