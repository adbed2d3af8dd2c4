"""When and how often a failed job is restarted. Source: org.apache.flink.configuration.RestartStrategyOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, enum_option, float_option, int_option

RESTART_STRATEGY = enum_option(
    "restart-strategy.type",
    ("none", "disable", "off", "fixed-delay", "failure-rate", "exponential-delay"),
    None,
    "Restart strategy after a failure. Default: `exponential-delay` for a job with checkpoints, `none` for a job "
    "without.",
)
FIXED_DELAY_ATTEMPTS = int_option(
    "restart-strategy.fixed-delay.attempts", 1, "Number of restarts before the job fails.", minimum=0
)
FIXED_DELAY_DELAY = duration_option(
    "restart-strategy.fixed-delay.delay", "1 s", "Delay between a failure and the restart."
)
FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = int_option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    1,
    "Maximum number of failures per interval. One more failure in the interval fails the job.",
    minimum=1,
)
FAILURE_RATE_INTERVAL = duration_option(
    "restart-strategy.failure-rate.failure-rate-interval", "1 min", "Interval over which failures are counted."
)
FAILURE_RATE_DELAY = duration_option(
    "restart-strategy.failure-rate.delay", "1 s", "Delay between a failure and the restart."
)
EXPONENTIAL_DELAY_INITIAL_BACKOFF = duration_option(
    "restart-strategy.exponential-delay.initial-backoff", "1 s", "Delay before the first restart.", minimum_ms=1
)
EXPONENTIAL_DELAY_MAX_BACKOFF = duration_option(
    "restart-strategy.exponential-delay.max-backoff", "1 min", "Maximum delay before a restart.", minimum_ms=1
)
EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = float_option(
    "restart-strategy.exponential-delay.backoff-multiplier",
    1.5,
    "Factor by which the delay grows with each failure.",
    minimum=1.0,
)
EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = duration_option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    "1 h",
    "Time without a failure after which the delay is reset to the initial delay.",
)
EXPONENTIAL_DELAY_JITTER_FACTOR = float_option(
    "restart-strategy.exponential-delay.jitter-factor",
    0.1,
    "Random variation of the delay in either direction, as a fraction of the delay.",
    minimum=0.0,
    maximum=1.0,
)
EXPONENTIAL_DELAY_ATTEMPTS = int_option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    2_147_483_647,
    "Number of restarts since the last reset of the delay before the job fails.",
    minimum=0,
)
