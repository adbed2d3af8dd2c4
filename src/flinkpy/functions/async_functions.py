"""AsyncFunction and AsyncBatchFunction, which call external services, and their retry strategies.

Source: pyflink.datastream.functions, pyflink.datastream.async_retry_strategies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.functions.function import Function

if TYPE_CHECKING:
    from flinkpy.common.time import Time

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which results and which exceptions of an AsyncFunction cause another attempt."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Returns a function that is True for results that cause another attempt; None if no result does."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Returns a function that is True for exceptions that cause another attempt; None if no exception does."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides how often and after what delay an AsyncFunction is called again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Returns True if there may be another attempt after this number of attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns the delay before the next attempt in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Returns the predicate of results and exceptions that cause another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Returns the strategy that never retries."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy:
        """Returns a strategy with a fixed delay.

        Args:
            max_attempts: the number of retries.
            backoff_time_millis: the delay in milliseconds.
            result_predicate: True for results that cause another attempt.
            exception_predicate: True for exceptions that cause another attempt.
        """
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy:
        """Returns a strategy whose delay grows with every attempt.

        Args:
            max_attempts: the number of retries.
            initial_delay: the first delay in milliseconds.
            max_retry_delay: the longest delay in milliseconds.
            multiplier: the factor by which the delay grows.
            result_predicate: True for results that cause another attempt.
            exception_predicate: True for exceptions that cause another attempt.
        """
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunction(Function, Generic[IN, OUT]):
    """A function that awaits an external service, for `AsyncDataStream`."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Returns the results of one record, a list of any length."""

    def timeout(self, value: IN) -> list[OUT]:
        """Returns the results of a record whose `async_invoke` took too long. By default it raises a TimeoutError."""
        raise TimeoutError("Async function call has timed out for input: " + str(value))


class AsyncBatchFunction(Function, Generic[IN, OUT]):
    """A function that awaits an external service with many records per call. Beyond PyFlink."""

    @abstractmethod
    async def async_invoke_batch(self, values: list[IN]) -> list[list[OUT]]:
        """Returns a list of results for each record, in the order of the records."""

    def timeout(self, value: IN) -> list[OUT]:
        """Returns the results of a record whose call took too long. By default it raises a TimeoutError."""
        raise TimeoutError("Async function call has timed out for input: " + str(value))


class AsyncFunctionDescriptor:
    """An AsyncFunction and its settings."""

    class OutputMode(Enum):
        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction,
        timeout: Time,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy,
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        self.async_function: Any = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode


ResultPredicate = Callable[[list[OUT]], bool] | None
ExceptionPredicate = Callable[[Exception], bool] | None


class RetryPredicate(AsyncRetryPredicate, Generic[OUT]):
    """A predicate that is made of two functions."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy, Generic[OUT]):
    """Never retries."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


#: The strategy that `AsyncRetryStrategy.no_restart` returns.
NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()


class FixedDelayRetryStrategy(AsyncRetryStrategy, Generic[OUT]):
    """Retries after a fixed delay."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate[OUT](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy, Generic[OUT]):
    """Multiplies the delay by `multiplier` after every attempt, up to `max_retry_delay`."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate[OUT](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            return self._initial_delay
        try:
            delay = self._initial_delay * float(self._multiplier) ** (current_attempts - 1)
        except OverflowError:
            return self._max_retry_delay
        return int(min(delay, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ValueError(f"{name} should be greater than zero.")
