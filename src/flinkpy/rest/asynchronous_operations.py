"""AsynchronousOperations: operations that a request triggers and later requests ask about, such as savepoints.

| request                                        | answer                                                     |
|------------------------------------------------|------------------------------------------------------------|
| trigger with a new id, or without one          | the operation starts; the id                               |
| trigger with an id that is known               | the same id; nothing starts                                |
| status of an id that is running                | IN_PROGRESS                                                |
| status of an id that has ended                 | COMPLETED with the result or the error                     |
| status of an unknown id, or of a forgotten one | 404                                                        |

A result is forgotten `rest.async.store-duration` after the operation has ended, whether somebody has asked for it or
not: a client that lost its connection finds it.

Source: org.apache.flink.runtime.rest.handler.async.{CompletedOperationCache,AbstractAsynchronousOperationHandlers}.
Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from flinkpy.common.clock import Clock
from flinkpy.rest.errors import RestError, as_rest_error, not_found
from flinkpy.rest.messages.asynchronous import (
    AsynchronousOperationInfo,
    AsynchronousOperationResult,
    FailureCause,
    QueueStatus,
)

#: Operations that are running or whose results are kept. It bounds what a holder of a token can make the server keep.
MAX_OPERATIONS = 10_000


@dataclass(slots=True)
class _Operation:
    task: asyncio.Task[Any]
    #: None while it is running
    ended_ms: int | None = None


class AsynchronousOperations:
    """The operations of one server, each by its kind and subject (e.g. "savepoint", job id) and its trigger id."""

    def __init__(self, store_duration_ms: int, clock: Clock) -> None:
        self._store_duration_ms = store_duration_ms
        self._clock = clock
        self._operations: dict[tuple[str, str, str], _Operation] = {}

    def trigger(
        self,
        kind: str,
        subject: str,
        start: Callable[[str], Coroutine[Any, Any, Any]],
        trigger_id: str | None = None,
    ) -> str:
        """Starts an operation, unless one with this trigger id is known. Returns the trigger id.

        Args:
            start: called with the trigger id; returns the coroutine to run.

        Raises: RestError with status 503 if too many operations are kept.
        """
        self._forget()
        trigger_id = trigger_id or secrets.token_hex(16)
        key = (kind, subject, trigger_id)
        if key in self._operations:
            return trigger_id
        if len(self._operations) >= MAX_OPERATIONS:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "Too many operations are running.", {"Retry-After": "10"})
        task = asyncio.get_running_loop().create_task(start(trigger_id), name=f"{kind} {trigger_id}")
        operation = self._operations[key] = _Operation(task)

        def ended(_: asyncio.Task[Any]) -> None:
            operation.ended_ms = self._clock.now_ms()
            if not task.cancelled():
                task.exception()  # marks it as retrieved; a request for the outcome raises it

        task.add_done_callback(ended)
        return trigger_id

    def outcome(self, kind: str, subject: str, trigger_id: str) -> asyncio.Future[Any]:
        """Returns the operation, which has ended or runs on. Raises: RestError with status 404."""
        self._forget()
        operation = self._operations.get((kind, subject, trigger_id))
        if operation is None:
            raise not_found(
                f"There is no operation with the trigger id {trigger_id}{' of ' + subject if subject else ''}."
            )
        return operation.task

    def _forget(self) -> None:
        oldest_ms = self._clock.now_ms() - self._store_duration_ms
        self._operations = {
            key: operation
            for key, operation in self._operations.items()
            if operation.ended_ms is None or operation.ended_ms > oldest_ms
        }

    async def close(self) -> None:
        """Cancels what still runs. What a service has begun goes on there."""
        running = [operation.task for operation in self._operations.values() if not operation.task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def outcome_body(operation: asyncio.Future[Any]) -> AsynchronousOperationResult:
    """Returns the status of an operation that has no other result than its error."""
    if not operation.done():
        return AsynchronousOperationResult(status=QueueStatus(id="IN_PROGRESS"))
    return AsynchronousOperationResult(
        status=QueueStatus(id="COMPLETED"),
        operation=AsynchronousOperationInfo(failure_cause=failure_of(operation) or msgspec.UNSET),
    )


def failure_of(operation: asyncio.Future[Any]) -> FailureCause | None:
    """Returns the error of an operation that has ended, or None."""
    if operation.cancelled():
        return FailureCause(class_name="CancelledError", stack_trace="The REST server was stopped.")
    error = operation.exception()
    if error is None:
        return None
    # The text alone: a stack trace names files of this host.
    text = as_rest_error(error, "an asynchronous operation").message if isinstance(error, Exception) else str(error)
    return FailureCause(class_name=type(error).__name__, stack_trace=text)
