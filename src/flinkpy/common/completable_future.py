"""CompletableFuture: the future answer of a call to the cluster. Source: pyflink.common.CompletableFuture."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

from flinkpy.common.interruptible import wait_for

__all__ = ["CompletableFuture"]


class CompletableFuture:
    """The future answer of a call. `result()` and `exception()` wait; the other methods return at once. Thread: any."""

    def __init__(self, j_completable_future: Future[Any], py_class: Any = None) -> None:
        self._future = j_completable_future
        self._convert = py_class

    def cancel(self) -> bool:
        """Stops waiting for the answer. The cluster may still execute the call.

        Returns:
            True if the future was canceled, False if it already had an answer.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """True if the future has an answer or an error, or was canceled."""
        return self._future.done()

    def result(self) -> Any:
        """Waits for the answer and returns it, or raises its error."""
        wait_for(self._future)
        value = self._future.result()
        return value if self._convert is None else self._convert(value)

    def exception(self) -> BaseException | None:
        """Waits for the answer and returns its error, or None if there is none."""
        wait_for(self._future)
        try:
            return self._future.exception()
        except CancelledError as error:
            return error

    def __str__(self) -> str:
        if self.cancelled():
            state = "cancelled"
        else:
            state = "done" if self.done() else "pending"
        return f"CompletableFuture[{state}]"
