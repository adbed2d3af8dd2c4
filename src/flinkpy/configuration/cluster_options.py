"""Registration back-off and shutdown. Source: org.apache.flink.configuration.ClusterOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, enum_option, int_option

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
