"""Registration back-off and shutdown. Source: org.apache.flink.configuration.ClusterOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, enum_option, int_option

INITIAL_REGISTRATION_TIMEOUT = duration_option(
    "cluster.registration.initial-timeout", "100 ms", "Time the first registration attempt may take.", minimum_ms=1
)
MAX_REGISTRATION_TIMEOUT = duration_option(
    "cluster.registration.max-timeout", "30 s", "Longest time one registration attempt may take.", minimum_ms=1
)
ERROR_REGISTRATION_DELAY = duration_option(
    "cluster.registration.error-delay", "10 s", "Pause after a registration attempt that raised an error."
)
REFUSED_REGISTRATION_DELAY = duration_option(
    "cluster.registration.refused-registration-delay", "30 s", "Pause after a registration attempt that was refused."
)
CLUSTER_SERVICES_SHUTDOWN_TIMEOUT = duration_option(
    "cluster.services.shutdown-timeout", "30 s", "Time that a service's orderly shutdown may take."
)
IO_POOL_SIZE = int_option(
    "cluster.io-pool.size",
    None,
    "Threads of a TaskExecutor that write snapshots and remove files; four per core, at most 64, where unset.",
    minimum=1,
)
CLEANUP_STRATEGY = enum_option(
    "cleanup-strategy.type",
    ("none", "disable", "off", "fixed-delay", "fixeddelay", "exponential-delay", "exponentialdelay"),
    "exponential-delay",
    "How the removal of what is kept of an ended job is repeated when it fails: not at all, after equal pauses, or "
    "after pauses that double.",
)
CLEANUP_FIXED_DELAY_ATTEMPTS = int_option(
    "cleanup-strategy.fixed-delay.attempts", 2_147_483_647, "How often the removal is repeated.", minimum=1
)
CLEANUP_FIXED_DELAY = duration_option("cleanup-strategy.fixed-delay.delay", "1 min", "Pause before each repetition.")
CLEANUP_INITIAL_BACKOFF = duration_option(
    "cleanup-strategy.exponential-delay.initial-backoff", "1 s", "Pause before the first repetition.", minimum_ms=1
)
CLEANUP_MAX_BACKOFF = duration_option(
    "cleanup-strategy.exponential-delay.max-backoff", "1 h", "The longest pause.", minimum_ms=1
)
CLEANUP_EXPONENTIAL_DELAY_ATTEMPTS = int_option(
    "cleanup-strategy.exponential-delay.attempts", 2_147_483_647, "How often the removal is repeated.", minimum=1
)
