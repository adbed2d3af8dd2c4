"""Restart strategies as objects. The options `restart-strategy.*` set the strategy of a job.

Source: pyflink.common.restart_strategy.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration:
    """Base class of restart strategies; two are equal if their descriptions are equal."""

    def __init__(self, j_restart_strategy_configuration: Any = None) -> None:
        self._description = str(j_restart_strategy_configuration or type(self).__name__)

    def get_description(self) -> str:
        return self._description

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._description == other._description  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._description)


class RestartStrategies:
    """Factory of restart strategies."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        def __init__(self, j_restart_strategy: Any = None) -> None:
            super().__init__(j_restart_strategy or "Restart deactivated.")

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        def __init__(
            self,
            restart_attempts: int | None = None,
            delay_between_attempts_interval: Any = None,
            j_restart_strategy: Any = None,
        ) -> None:
            self._restart_attempts = restart_attempts or 0
            self._delay = _milliseconds(delay_between_attempts_interval)
            super().__init__(
                j_restart_strategy
                or f"Restart with fixed delay ({_in_ms(self._delay)} ms). #{self._restart_attempts} restart attempts."
            )

        def get_restart_attempts(self) -> int:
            return self._restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            return self._delay

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        def __init__(
            self,
            max_failure_rate: int | None = None,
            failure_interval: Any = None,
            delay_between_attempts_interval: Any = None,
            j_restart_strategy: Any = None,
        ) -> None:
            self._max_failure_rate = max_failure_rate or 0
            self._failure_interval = _milliseconds(failure_interval)
            self._delay = _milliseconds(delay_between_attempts_interval)
            super().__init__(
                j_restart_strategy
                or f"Failure rate restart with maximum of {self._max_failure_rate} failures within interval "
                f"{_in_ms(self._failure_interval)} ms and fixed delay {_in_ms(self._delay)} ms."
            )

        def get_max_failure_rate(self) -> int:
            return self._max_failure_rate

        def get_failure_interval(self) -> timedelta:
            return self._failure_interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            return self._delay

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        def __init__(self, j_restart_strategy: Any = None) -> None:
            super().__init__(j_restart_strategy or "Cluster level default restart strategy")

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Restarts a fixed number of times.

        Args:
            restart_attempts: number of restarts before the job fails.
            delay_between_attempts: delay before each restart in milliseconds.
        """
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int, delay_interval: int
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Restarts until there are too many failures in an interval.

        Args:
            failure_rate: maximum number of failures per interval.
            failure_interval: length of the interval in milliseconds.
            delay_interval: delay before each restart in milliseconds.
        """
        return RestartStrategies.FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)


def _milliseconds(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    return timedelta(milliseconds=value or 0)


def _in_ms(delay: timedelta) -> int:
    return delay // timedelta(milliseconds=1)
