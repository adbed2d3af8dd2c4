"""Restart strategies: decide if a job restarts after a failure, and after which delay.

The scheduler calls `notify_failure` for each failure, and then `can_restart` and `backoff_ms`.

Source: org.apache.flink.runtime.executiongraph.failover.RestartBackoffTimeStrategy and its four implementations.
Differs: the caller passes the time and the source of randomness.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Protocol


class RestartBackoffTimeStrategy(Protocol):
    def notify_failure(self, now_ms: int) -> bool:
        """Handles a failure. Returns False if it counts as part of the previous one."""
        ...

    def can_restart(self, now_ms: int) -> bool: ...

    def backoff_ms(self, now_ms: int) -> int:
        """Returns the delay of the restart, from now."""
        ...


class NoRestartStrategy:
    """Never restarts the job."""

    def notify_failure(self, now_ms: int) -> bool:
        return True

    def can_restart(self, now_ms: int) -> bool:
        return False

    def backoff_ms(self, now_ms: int) -> int:
        return 0

    def __str__(self) -> str:
        return "none"


class FixedDelayRestartStrategy:
    """Allows a fixed number of restarts in total, each with the same delay."""

    def __init__(self, attempts: int = 1, delay_ms: int = 1_000) -> None:
        self._attempts = attempts
        self._delay_ms = delay_ms
        self._failures = 0

    def notify_failure(self, now_ms: int) -> bool:
        self._failures += 1
        return True

    def can_restart(self, now_ms: int) -> bool:
        return self._failures <= self._attempts

    def backoff_ms(self, now_ms: int) -> int:
        return self._delay_ms

    def __str__(self) -> str:
        return f"fixed-delay(attempts={self._attempts}, delay={self._delay_ms} ms)"


class FailureRateRestartStrategy:
    """Restarts the job until there are more than the maximum number of failures within the interval."""

    def __init__(self, max_failures_per_interval: int = 1, interval_ms: int = 60_000, delay_ms: int = 1_000) -> None:
        self._max_failures = max_failures_per_interval
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms
        #: The times of the last failures, one more than are allowed. If full, the oldest one decides.
        self._failures_ms: deque[int] = deque(maxlen=max_failures_per_interval + 1)

    def notify_failure(self, now_ms: int) -> bool:
        self._failures_ms.append(now_ms)
        return True

    def can_restart(self, now_ms: int) -> bool:
        if len(self._failures_ms) <= self._max_failures:
            return True
        return now_ms - self._failures_ms[0] > self._interval_ms

    def backoff_ms(self, now_ms: int) -> int:
        return self._delay_ms

    def __str__(self) -> str:
        return (
            f"failure-rate(max-failures-per-interval={self._max_failures}, "
            f"failure-rate-interval={self._interval_ms} ms, delay={self._delay_ms} ms)"
        )


@dataclass(frozen=True, slots=True)
class ExponentialDelayOptions:
    """The options `restart-strategy.exponential-delay.*`."""

    initial_backoff_ms: int = 1_000
    max_backoff_ms: int = 60_000
    backoff_multiplier: float = 1.5
    reset_backoff_threshold_ms: int = 3_600_000
    jitter_factor: float = 0.1
    attempts_before_reset_backoff: int = 2_147_483_647


class ExponentialDelayRestartStrategy:
    """Restarts with a delay that grows with each failure, up to a maximum.

    The delay is reset after a long time without failures. A failure that occurs while a restart is pending counts as
    part of the failure that caused the restart, because one lost TaskExecutor fails many tasks.
    """

    def __init__(self, options: ExponentialDelayOptions, random: Random) -> None:
        self._options = options
        self._random = random
        self._attempt = 0
        #: None before the first failure.
        self._next_restart_ms: int | None = None

    def notify_failure(self, now_ms: int) -> bool:
        if self._next_restart_ms is not None and now_ms <= self._next_restart_ms:
            return False
        if (
            self._next_restart_ms is not None
            and now_ms - self._next_restart_ms >= self._options.reset_backoff_threshold_ms
        ):
            self._attempt = 0
        self._next_restart_ms = now_ms + self._delay_ms()
        self._attempt += 1
        return True

    def can_restart(self, now_ms: int) -> bool:
        return self._attempt <= self._options.attempts_before_reset_backoff

    def backoff_ms(self, now_ms: int) -> int:
        assert self._next_restart_ms is not None, "backoff_ms was called before notify_failure"
        return max(0, self._next_restart_ms - now_ms)

    def _delay_ms(self) -> int:
        options = self._options
        # The loop stops at the maximum: the power would overflow a float for a job that restarts without end.
        grown = float(options.initial_backoff_ms)
        for _ in range(self._attempt):
            grown *= options.backoff_multiplier
            if grown >= options.max_backoff_ms * 2:
                break
        delay_ms = int(grown)
        offset_ms = int(delay_ms * options.jitter_factor)
        delay_ms += self._random.randint(-offset_ms, offset_ms)
        return max(options.initial_backoff_ms, min(delay_ms, options.max_backoff_ms))

    def __str__(self) -> str:
        return (
            f"exponential-delay(initial-backoff={self._options.initial_backoff_ms} ms, "
            f"max-backoff={self._options.max_backoff_ms} ms, "
            f"backoff-multiplier={self._options.backoff_multiplier})"
        )
