"""Functions that wait for something outside, and how they retry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkpy.datastream.base_functions import Function

if TYPE_CHECKING:
    from flinkpy.common.time import Time

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which results and which exceptions are worth another attempt."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None: ...

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None: ...


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How often and after what delay to try again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool: ...

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int: ...

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]: ...

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        from flinkpy.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy:
        from flinkpy.datastream.async_retry_strategies import FixedDelayRetryStrategy

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
        from flinkpy.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunction(Function, Generic[IN, OUT]):
    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results of one record."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results of a record whose `async_invoke` took too long."""
        raise TimeoutError("Async function call has timed out for input: " + str(value))


class AsyncBatchFunction(Function, Generic[IN, OUT]):
    """Asks for the results of many records in one call. Beyond PyFlink."""

    @abstractmethod
    async def async_invoke_batch(self, values: list[IN]) -> list[list[OUT]]:
        """The results of each record, in the order of the records."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results of a record whose call took too long."""
        raise TimeoutError("Async function call has timed out for input: " + str(value))


class AsyncFunctionDescriptor:
    """An AsyncFunction with the way to run it."""

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
