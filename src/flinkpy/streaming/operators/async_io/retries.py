"""Retries: decides which asynchronous calls are retried, and when.

Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator, RetryableResultHandlerDelegator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

#: Takes a value and returns the results of the user's function.
Invoke = Callable[[Any], Awaitable[Any]]

#: Stands for the results of a call that raised an error and must be retried.
FAILED = object()


class Retries:
    """Applies the user's retry strategy to calls of `invoke`. Thread: loop thread.

    The caller makes the first attempt itself, so a call that needs no retry has no extra cost.

    Attributes:
        invoke: makes one attempt.
        is_bad: returns True if results (not None) require a retry; None if no results do.
        can_retry: returns True if another attempt is allowed after this number of attempts.
    """

    def __init__(self, invoke: Invoke, strategy: Any) -> None:
        self.invoke = invoke
        self._strategy = strategy
        self.can_retry: Callable[[int], bool] = strategy.can_retry
        predicate = strategy.get_retry_predicate()
        self.is_bad: Callable[[Any], bool] | None = predicate.result_predicate()
        self._is_retried = predicate.exception_predicate()

    def is_due_after(self, results: Any, attempt: int) -> bool:
        is_bad = self.is_bad
        return is_bad is not None and results is not None and is_bad(results) and self.can_retry(attempt)

    def is_due_after_error(self, error: Exception, attempt: int) -> bool:
        is_retried = self._is_retried
        return is_retried is not None and is_retried(error) and self.can_retry(attempt)

    async def invoke_again(self, value: Any) -> Any:
        """Retries after a first attempt that failed. During a delay the record only occupies its capacity."""
        attempt = 1
        while True:
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempt) / 1000)
            attempt += 1
            try:
                results = await self.invoke(value)
            except Exception as error:
                if not self.is_due_after_error(error, attempt):
                    raise
            else:
                if not self.is_due_after(results, attempt):
                    return results
