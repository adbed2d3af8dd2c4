"""When and how often a failed job is restarted. Source: org.apache.flink.configuration.RestartStrategyOptions."""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, enum_option, float_option, int_option

RESTART_STRATEGY = enum_option(
    "restart-strategy.type",
    ("none", "disable", "off", "fixed-delay", "failure-rate", "exponential-delay"),
    None,
    "The restart strategy. Unset: `none` for a job without checkpoints, `exponential-delay` for one with.",
)
FIXED_DELAY_ATTEMPTS = int_option(
    "restart-strategy.fixed-delay.attempts", 1, "Restarts before the job is declared failed.", minimum=0
)
FIXED_DELAY_DELAY = duration_option(
    "restart-strategy.fixed-delay.delay", "1 s", "Time between a failure and the restart."
)
FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = int_option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    1,
    "Failures within one interval that do not yet fail the job.",
    minimum=1,
)
FAILURE_RATE_INTERVAL = duration_option(
    "restart-strategy.failure-rate.failure-rate-interval", "1 min", "The interval over which failures are counted."
)
FAILURE_RATE_DELAY = duration_option(
    "restart-strategy.failure-rate.delay", "1 s", "Time between a failure and the restart."
)
EXPONENTIAL_DELAY_INITIAL_BACKOFF = duration_option(
    "restart-strategy.exponential-delay.initial-backoff", "1 s", "Delay before the first restart.", minimum_ms=1
)
EXPONENTIAL_DELAY_MAX_BACKOFF = duration_option(
    "restart-strategy.exponential-delay.max-backoff", "1 min", "Longest delay before a restart.", minimum_ms=1
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
    "Time without failure after which the delay starts at the initial one again.",
)
EXPONENTIAL_DELAY_JITTER_FACTOR = float_option(
    "restart-strategy.exponential-delay.jitter-factor",
    0.1,
    "Random part added to or taken from the delay, as a fraction of it.",
    minimum=0.0,
    maximum=1.0,
)
EXPONENTIAL_DELAY_ATTEMPTS = int_option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    2_147_483_647,
    "Restarts, since the delay was last reset, before the job is declared failed.",
    minimum=0,
)
