"""Retries: which asynchronous calls are tried again, and when.

Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator, RetryableResultHandlerDelegator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

#: value -> results; whatever the user's function gives.
Invoke = Callable[[Any], Awaitable[Any]]

#: In place of the results of a call that raised something after which it is tried again.
FAILED = object()


class Retries:
    """What the user's strategy says of the calls of `invoke`. Thread: the loop's.

    The first attempt is the caller's own, so that a call that needs no other costs no more than without retries.

    Attributes:
        invoke: one attempt.
        is_bad: whether results, which are not None, ask for another attempt; None: none do.
        can_retry: whether there may be another one after so many.
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
        """After a first attempt that was not good enough. A delay keeps the record's place and nothing else."""
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
