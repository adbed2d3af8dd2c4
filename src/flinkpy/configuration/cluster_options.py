"""Options of the cluster's services: registration, heartbeats, remote calls, blobs, cleanup and shutdown.

Source: org.apache.flink.configuration.{ClusterOptions,HeartbeatManagerOptions,RpcOptions,BlobServerOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    duration_option,
    enum_option,
    int_option,
    memory_option,
    string_option,
)

INITIAL_REGISTRATION_TIMEOUT = duration_option(
    "cluster.registration.initial-timeout", "100 ms", "Timeout of the first registration attempt.", minimum_ms=1
)
MAX_REGISTRATION_TIMEOUT = duration_option(
    "cluster.registration.max-timeout", "30 s", "Maximum timeout of a registration attempt.", minimum_ms=1
)
ERROR_REGISTRATION_DELAY = duration_option(
    "cluster.registration.error-delay", "10 s", "Pause after a registration attempt that raised an error."
)
REFUSED_REGISTRATION_DELAY = duration_option(
    "cluster.registration.refused-registration-delay", "30 s", "Pause after a registration attempt that was refused."
)
CLUSTER_SERVICES_SHUTDOWN_TIMEOUT = duration_option(
    "cluster.services.shutdown-timeout", "30 s", "Maximum duration of the orderly shutdown of a service."
)
IO_POOL_SIZE = int_option(
    "cluster.io-pool.size",
    None,
    "Number of TaskExecutor threads that write snapshots and delete files. Default: four per core, at most 64.",
    minimum=1,
)
CLEANUP_STRATEGY = enum_option(
    "cleanup-strategy.type",
    ("none", "disable", "off", "fixed-delay", "fixeddelay", "exponential-delay", "exponentialdelay"),
    "exponential-delay",
    "How the cleanup of an ended job is retried after a failure: never, after a fixed delay, or after a delay that "
    "doubles each time.",
)
CLEANUP_FIXED_DELAY_ATTEMPTS = int_option(
    "cleanup-strategy.fixed-delay.attempts", 2_147_483_647, "Maximum number of retries.", minimum=1
)
CLEANUP_FIXED_DELAY = duration_option("cleanup-strategy.fixed-delay.delay", "1 min", "Delay between two attempts.")
CLEANUP_INITIAL_BACKOFF = duration_option(
    "cleanup-strategy.exponential-delay.initial-backoff", "1 s", "Delay before the first retry.", minimum_ms=1
)
CLEANUP_MAX_BACKOFF = duration_option(
    "cleanup-strategy.exponential-delay.max-backoff", "1 h", "Maximum delay between two attempts.", minimum_ms=1
)
CLEANUP_EXPONENTIAL_DELAY_ATTEMPTS = int_option(
    "cleanup-strategy.exponential-delay.attempts", 2_147_483_647, "Maximum number of retries.", minimum=1
)

HEARTBEAT_INTERVAL = duration_option("heartbeat.interval", "10 s", "Interval between two heartbeats.", minimum_ms=1)
HEARTBEAT_TIMEOUT = duration_option(
    "heartbeat.timeout", "50 s", "Time without a heartbeat after which a process considers its peer dead.", minimum_ms=1
)
HEARTBEAT_RPC_FAILURE_THRESHOLD = int_option(
    "heartbeat.rpc-failure-threshold",
    2,
    "Number of consecutive heartbeats that may fail to be delivered before the peer is considered dead. -1 means no "
    "limit.",
    minimum=-1,
)

#: Flink's key; flinkpy does not use Pekko.
ASK_TIMEOUT = duration_option("pekko.ask.timeout", "10 s", "Timeout of a remote call.", minimum_ms=1)

BLOB_STORAGE_DIRECTORY = string_option(
    "blob.storage.directory", None, "Directory for stored blobs. Default: a directory inside the working directory."
)
BLOB_CLEANUP_INTERVAL_S = int_option(
    "blob.service.cleanup.interval", 3600, "Seconds that a blob is kept after the last job that uses it.", minimum=0
)
MAX_BLOB_SIZE = memory_option(
    "flinkpy.blob.max-size", "2 gb", "Maximum size of a blob that a client may upload.", minimum_bytes=1
)
