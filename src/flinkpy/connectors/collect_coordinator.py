"""CollectCoordinator: the collect sink's half in the JobMaster, between its writers and the client.

It keeps the batches that the client does not hold yet, numbered in the order in which they arrived. A request for
number n says that the client holds everything below n: that much is acknowledged to the writers, which may then send
more. The job ends in three steps, so that a lost answer can be asked for again: the client is told `finished`, it
closes, the writers are released. A client that is told and never closes is given `RELEASE_AFTER_MS`.
"""

from __future__ import annotations

import pickle
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError
from flinkpy.connectors.collect_protocol import (
    CollectAck,
    CollectBatch,
    CollectCancel,
    CollectEnd,
    CollectRequest,
    CollectResponse,
)

if TYPE_CHECKING:
    from flinkpy.connector_api.coordinator import CoordinatorContext

#: How long a job waits for a client that was told that its result is complete: long enough to repeat a lost request.
RELEASE_AFTER_MS = 5_000


@dataclass(slots=True)
class _Writer:
    """What the coordinator knows of one subtask's writer."""

    attempt: int = -1
    #: Events of attempts up to this one are late: the subtask has been reset since.
    reset_up_to: int = -1
    #: The next batch of this attempt, by the writer's own count; a lower number is a duplicate.
    next_sequence: int = 0
    has_ended: bool = False
    #: Whether the client was given a batch of this attempt.
    was_read: bool = False


@dataclass(slots=True)
class _Buffered:
    number: int
    subtask_index: int
    writer_sequence: int
    payload: bytes = field(repr=False)


class CollectCoordinator:
    """Thread: JobMaster main thread. Invariant: holds no more than the writers' bounds on unread batches together."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._writers: dict[int, _Writer] = {}
        self._buffer: deque[_Buffered] = deque()
        self._next_number = 0
        self._failure = ""
        self._is_cancelled = False
        self._is_released = False
        self._is_release_planned = False

    def start(self) -> None:
        return

    def close(self) -> None:
        self._buffer.clear()

    # -- writers ------------------------------------------------------------------------------------------------------

    def handle_event(self, subtask_index: int, attempt_number: int, event: Any) -> None:
        writer = self._writers.setdefault(subtask_index, _Writer())
        if attempt_number < writer.attempt or attempt_number <= writer.reset_up_to:
            return
        if attempt_number > writer.attempt:
            if writer.attempt > writer.reset_up_to:
                self._forget(subtask_index)
                writer = self._writers[subtask_index]
            writer.attempt = attempt_number
        if self._is_cancelled:
            self._context.send_event(subtask_index, CollectCancel())
            return
        match event:
            case CollectBatch(sequence, payload):
                self._on_batch(subtask_index, writer, sequence, payload)
            case CollectEnd(num_batches):
                self._expect(subtask_index, writer, num_batches)
                writer.has_ended = True
            case _:
                self._context.fail_job(InternalError(f"a collect sink sent an unknown event: {event!r}"))

    def _on_batch(self, subtask_index: int, writer: _Writer, sequence: int, payload: bytes) -> None:
        if sequence < writer.next_sequence:
            return
        self._expect(subtask_index, writer, sequence)
        writer.next_sequence = sequence + 1
        self._buffer.append(_Buffered(self._next_number, subtask_index, sequence, payload))
        self._next_number += 1

    def _expect(self, subtask_index: int, writer: _Writer, sequence: int) -> None:
        if sequence != writer.next_sequence:
            self._context.fail_job(
                InternalError(
                    f"collect sink subtask {subtask_index}: batch {writer.next_sequence} was lost, {sequence} came"
                )
            )

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        self._forget(subtask_index)

    def subtask_ready(self, subtask_index: int) -> None:
        if self._is_cancelled:
            self._context.send_event(subtask_index, CollectCancel())

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: bytes | None) -> None:
        for subtask_index in list(self._writers):
            self._forget(subtask_index)

    def _forget(self, subtask_index: int) -> None:
        """The subtask starts over: drop what the client has not been given."""
        writer = self._writers.get(subtask_index)
        if writer is None:
            return
        if writer.was_read and not self._is_cancelled and not self._is_released:
            self._failure = (
                "the job was restarted from its beginning after a part of its result had been read; "
                "the result cannot be continued, run the job again"
            )
        self._buffer = deque(batch for batch in self._buffer if batch.subtask_index != subtask_index)
        self._writers[subtask_index] = _Writer(attempt=writer.attempt, reset_up_to=writer.attempt)

    # -- client -------------------------------------------------------------------------------------------------------

    def handle_request(self, payload: bytes) -> bytes:
        request: CollectRequest = pickle.loads(payload)
        return pickle.dumps(self._answer(request), protocol=pickle.HIGHEST_PROTOCOL)

    def _answer(self, request: CollectRequest) -> CollectResponse:
        if self._failure and not request.close:
            return CollectResponse((), request.from_sequence, failure=self._failure)
        self._acknowledge(request.from_sequence)
        if request.close:
            self._close_result()
            return CollectResponse((), request.from_sequence, finished=True)
        batches: list[bytes] = []
        size_bytes = 0
        next_sequence = request.from_sequence
        for batch in self._buffer:
            size_bytes += len(batch.payload)
            if batches and size_bytes > request.max_bytes:
                return CollectResponse(tuple(batches), next_sequence)
            self._writers[batch.subtask_index].was_read = True
            batches.append(batch.payload)
            next_sequence = batch.number + 1
        finished = self._has_ended
        if finished:
            self._plan_release()
        return CollectResponse(tuple(batches), next_sequence, finished)

    @property
    def _has_ended(self) -> bool:
        return (
            self._is_cancelled
            or self._is_released
            or sum(writer.has_ended for writer in self._writers.values()) == self._context.parallelism
        )

    def _acknowledge(self, from_number: int) -> None:
        """Drop what the client holds, and let the writers go on."""
        held: dict[int, int] = {}
        while self._buffer and self._buffer[0].number < from_number:
            batch = self._buffer.popleft()
            held[batch.subtask_index] = batch.writer_sequence + 1
        for subtask_index, sequence in held.items():
            attempt = self._writers[subtask_index].attempt
            self._context.send_event(subtask_index, CollectAck(attempt, sequence))

    def _close_result(self) -> None:
        if self._has_ended and not self._buffer:
            self._release()
            return
        self._is_cancelled = True
        self._buffer.clear()
        for subtask_index in range(self._context.parallelism):
            self._context.send_event(subtask_index, CollectCancel())

    def _plan_release(self) -> None:
        if not self._is_release_planned and not self._is_released:
            self._is_release_planned = True
            self._context.schedule(RELEASE_AFTER_MS, self._release_if_ended)

    def _release_if_ended(self) -> None:
        self._is_release_planned = False
        # Not so where a subtask was reset meanwhile. What is in the buffer has been given to the client once.
        if self._has_ended and not self._is_released:
            self._buffer.clear()
            self._release()

    def _release(self) -> None:
        self._is_released = True
        for subtask_index, writer in self._writers.items():
            ack = CollectAck(writer.attempt, writer.next_sequence, is_final=True)
            self._context.send_event(subtask_index, ack)
