"""CompletableFuture: the answer of a call to a cluster, when it comes. Source: pyflink.common.CompletableFuture."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

from flinkpy.common.interruptible import wait_for

__all__ = ["CompletableFuture"]


class CompletableFuture:
    """Thread: any. `result()` waits; everything else answers at once."""

    def __init__(self, j_completable_future: Future[Any], py_class: Any = None) -> None:
        self._future = j_completable_future
        self._convert = py_class

    def cancel(self) -> bool:
        """Give up waiting for the answer; whether that was still possible. The call itself may already be made."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is an answer, an error, or nobody waits any more."""
        return self._future.done()

    def result(self) -> Any:
        """The answer; waits for it, and raises the error where there is one."""
        wait_for(self._future)
        value = self._future.result()
        return value if self._convert is None else self._convert(value)

    def exception(self) -> BaseException | None:
        """The error; waits for the answer, and gives None where it is no error."""
        wait_for(self._future)
        try:
            return self._future.exception()
        except CancelledError as error:
            return error

    def __str__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "pending"
        return f"CompletableFuture[{state}]"
