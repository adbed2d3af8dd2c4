"""CollectCoordinator: the collect sink's part in the JobMaster, between its writers and the client.

It keeps the batches that the client does not have yet. Its checkpoints only contain whether the client has closed the
result: restored writers send lost batches again, and each request contains the client's position. The job ends in three
steps, so that the client can ask again for a lost answer: the coordinator answers `finished`, the client closes, and
the writers are released. If the client never closes, they are released after `RELEASE_AFTER_MS`.
"""

from __future__ import annotations

import pickle
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError, UserError
from flinkpy.connectors.collect_protocol import (
    CollectAck,
    CollectBatch,
    CollectCancel,
    CollectConfirmed,
    CollectEnd,
    CollectRequest,
    CollectResponse,
    CollectStart,
    SubtaskResult,
)

if TYPE_CHECKING:
    from flinkpy.connector_api.coordinator import CoordinatorContext

#: How long a job waits for a client that has the complete result to close it. Allows the client to repeat a request.
RELEASE_AFTER_MS = 5_000
#: How long a job that was stopped with a savepoint waits for a client that does not ask.
ABANDONED_AFTER_MS = 30_000
#: The state of a coordinator whose client needs no more batches.
_CANCELLED = b"cancelled"


@dataclass(slots=True)
class _Writer:
    """The state of one subtask's writer."""

    attempt: int = -1
    #: Events of attempts up to this one are ignored, because the subtask has been reset since.
    reset_up_to: int = -1
    #: None until the attempt has started.
    start: CollectStart | None = None
    #: The batches from `first_held` on. A batch with a lower number is a duplicate.
    held: deque[bytes] = field(default_factory=deque)
    first_held: int = 0
    confirmed_sequence: int = 0
    #: None while more batches may come.
    end_sequence: int | None = None

    @property
    def next_sequence(self) -> int:
        return self.first_held + len(self.held)


class CollectCoordinator:
    """Keeps batches for the client. The writers' limits on unread batches bound its memory.

    Thread: JobMaster main thread.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._writers: dict[int, _Writer] = {}
        self._is_cancelled = False
        self._is_released = False
        self._is_release_planned = False
        self._is_watched = False
        self._is_abandoned = False
        #: Rotates the order of subtasks in answers, so that no subtask always comes last.
        self._num_requests = 0

    def start(self) -> None:
        return

    def close(self) -> None:
        self._writers.clear()

    # -- writers ------------------------------------------------------------------------------------------------------

    def handle_event(self, subtask_index: int, attempt_number: int, event: Any) -> None:
        writer = self._writers.setdefault(subtask_index, _Writer())
        if attempt_number < writer.attempt or attempt_number <= writer.reset_up_to:
            return
        if self._is_cancelled:
            self._context.send_event(subtask_index, CollectCancel())
            return
        if isinstance(event, CollectStart):
            if writer.attempt < attempt_number:
                self._writers[subtask_index] = _Writer(
                    attempt_number,
                    writer.reset_up_to,
                    event,
                    first_held=event.first_sequence,
                    confirmed_sequence=event.restored_sequence,
                )
            return
        if writer.start is None or attempt_number != writer.attempt:
            self._fail(subtask_index, f"attempt {attempt_number} sent {event!r} before CollectStart")
            return
        match event:
            case CollectBatch(sequence, payload):
                if self._expect(subtask_index, writer, sequence):
                    writer.held.append(payload)
            case CollectConfirmed(sequence):
                writer.confirmed_sequence = max(writer.confirmed_sequence, sequence)
            case CollectEnd(sequence, is_suspended):
                if self._expect(subtask_index, writer, sequence):
                    writer.end_sequence = sequence
                    if is_suspended:
                        self._release_when_abandoned()
            case _:
                self._fail(subtask_index, f"sent an unknown event: {event!r}")

    def _expect(self, subtask_index: int, writer: _Writer, sequence: int) -> bool:
        """True if `sequence` is the next number, False if it is a duplicate. A gap fails the job."""
        if sequence > writer.next_sequence:
            self._fail(subtask_index, f"batch {sequence} arrived, but batch {writer.next_sequence} was lost")
        return sequence == writer.next_sequence

    def _fail(self, subtask_index: int, problem: str) -> None:
        self._context.fail_job(InternalError(f"collect sink subtask {subtask_index}: {problem}"))

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        """Drops the batches of the subtask. The next attempt sends again what the client may need."""
        writer = self._writers.get(subtask_index)
        if writer is not None:
            reset_up_to = max(writer.reset_up_to, writer.attempt)
            self._writers[subtask_index] = _Writer(attempt=writer.attempt, reset_up_to=reset_up_to)

    def subtask_ready(self, subtask_index: int) -> None:
        if self._is_cancelled:
            self._context.send_event(subtask_index, CollectCancel())

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        return _CANCELLED if self._is_cancelled else None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: bytes | None) -> None:
        self._is_cancelled = self._is_cancelled or state == _CANCELLED
        for subtask_index in list(self._writers):
            self.subtask_reset(subtask_index, checkpoint_id)

    # -- client -------------------------------------------------------------------------------------------------------

    def handle_request(self, payload: bytes) -> bytes:
        request: CollectRequest = pickle.loads(payload)
        return pickle.dumps(self._answer(request), protocol=pickle.HIGHEST_PROTOCOL)

    def _answer(self, request: CollectRequest) -> CollectResponse:
        self._acknowledge(request)
        if request.close:
            self._close_result(request)
            return CollectResponse({}, finished=True)
        if self._is_abandoned and not self._is_complete(request):
            raise UserError(
                f"the job was stopped with a savepoint, and its remaining results were given up: nobody asked for them "
                f"for {ABANDONED_AFTER_MS // 1000} s"
            )
        if self._is_cancelled or self._is_released:
            return CollectResponse({}, finished=True)
        results = self._results(request)
        finished = all(
            self._has_all(
                index, self._position(request, index) + len(results[index].batches) if index in results else 0
            )
            for index in range(self._context.parallelism)
        )
        if finished:
            self._plan_release()
        return CollectResponse(results, finished)

    def _results(self, request: CollectRequest) -> dict[int, SubtaskResult]:
        results = {}
        left_bytes = request.max_bytes
        is_first = True
        self._num_requests += 1
        begun = sorted(index for index, writer in self._writers.items() if writer.start is not None)
        turn = self._num_requests % len(begun) if begun else 0
        for subtask_index in begun[turn:] + begun[:turn]:
            writer = self._writers[subtask_index]
            assert writer.start is not None
            batches = []
            # A client that has no position for the subtask is at its beginning.
            is_at_start = subtask_index not in request.positions and not writer.first_held
            if is_at_start or self._knows(request, subtask_index, writer):
                for sequence, payload in enumerate(writer.held, writer.first_held):
                    left_bytes -= len(payload)
                    if left_bytes < 0 and not is_first:
                        break
                    is_first = False
                    batches.append((sequence, payload))
            results[subtask_index] = SubtaskResult(writer.start, writer.confirmed_sequence, tuple(batches))
        return results

    def _knows(self, request: CollectRequest, subtask_index: int, writer: _Writer) -> bool:
        """True if the client's position refers to the current attempt."""
        version, _ = request.positions.get(subtask_index, ("", 0))
        return writer.start is not None and writer.start.version == version

    def _acknowledge(self, request: CollectRequest) -> None:
        """Drops the batches that the client has, and tells the writers."""
        for subtask_index, writer in self._writers.items():
            if not self._knows(request, subtask_index, writer):
                continue
            _, position = request.positions[subtask_index]
            count = min(position - writer.first_held, len(writer.held))
            if count > 0:
                for _ in range(count):
                    writer.held.popleft()
                writer.first_held += count
                self._context.send_event(subtask_index, CollectAck(writer.attempt, writer.first_held))

    def _position(self, request: CollectRequest, subtask_index: int) -> int:
        """Returns the number below which the client has all batches; 0 if it does not know the current attempt."""
        writer = self._writers[subtask_index]
        return request.positions[subtask_index][1] if self._knows(request, subtask_index, writer) else 0

    def _has_all(self, subtask_index: int, position: int) -> bool:
        writer = self._writers.get(subtask_index)
        if writer is None or writer.end_sequence is None:
            return False
        return writer.confirmed_sequence >= writer.end_sequence and position >= writer.end_sequence

    def _is_complete(self, request: CollectRequest) -> bool:
        """True if the client has all batches of all subtasks."""
        indexes = range(self._context.parallelism)
        return all(index in self._writers and self._has_all(index, self._position(request, index)) for index in indexes)

    def _close_result(self, request: CollectRequest) -> None:
        if self._is_released:
            return
        if self._is_complete(request):
            self._release()
            return
        self._is_cancelled = True
        for writer in self._writers.values():
            writer.held.clear()
        for subtask_index in range(self._context.parallelism):
            self._context.send_event(subtask_index, CollectCancel())

    def _plan_release(self) -> None:
        if not self._is_release_planned and not self._is_released:
            self._is_release_planned = True
            self._context.schedule(RELEASE_AFTER_MS, self._release_if_ended)

    def _release_when_abandoned(self) -> None:
        """Releases the writers once no client has asked for a while."""
        if self._is_watched:
            return
        self._is_watched = True
        known = self._num_requests

        def check() -> None:
            self._is_watched = False
            if self._num_requests != known:
                self._release_when_abandoned()
            elif not self._is_released:
                self._is_abandoned = True
                self._release_if_ended()

        self._context.schedule(ABANDONED_AFTER_MS, check)

    def _release_if_ended(self) -> None:
        self._is_release_planned = False
        # A subtask that was reset meanwhile has not ended.
        ended = [writer for writer in self._writers.values() if writer.end_sequence is not None]
        if len(ended) == self._context.parallelism and not self._is_released:
            self._release()

    def _release(self) -> None:
        self._is_released = True
        for subtask_index, writer in self._writers.items():
            ack = CollectAck(writer.attempt, writer.next_sequence, is_final=True)
            self._context.send_event(subtask_index, ack)
