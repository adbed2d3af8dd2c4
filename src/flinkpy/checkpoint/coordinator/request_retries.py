"""RequestRetries: what clients asked for that met a job which was starting or restarting, or a task that was finishing.

Such a checkpoint cannot be completed, and the next one can: it has the task as running, or as finished. So the request
waits until that is known, or for a moment, and is planned anew, under another id. Periodic checkpoints are not: the
next one comes anyway. Flink leaves this to its clients.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from flinkpy.checkpoint.coordinator.checkpoint_request_decider import CheckpointRequest
from flinkpy.common.ids import ExecutionAttemptID

#: Checkpoints that are begun for one request.
MAX_TRIES = 10
#: Before the second one, where the task does not end sooner; twice as long before each that follows.
FIRST_DELAY_MS = 50
MAX_DELAY_MS = 1_000
#: How long after the request a job that is starting or restarting is waited for. Clients wait for the answer.
MAX_START_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """For `attempt` to finish, None: for the job to run. Not longer than until `due_ms`."""

    request: CheckpointRequest
    attempt: ExecutionAttemptID | None
    due_ms: int


class RequestRetries:
    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    @property
    def trigger_ids(self) -> list[str]:
        return [waiting.request.trigger_id for waiting in self._waiting]

    @property
    def next_due_ms(self) -> int | None:
        return min((waiting.due_ms for waiting in self._waiting), default=None)

    def wait_for_start(self, request: CheckpointRequest, timeout_ms: int, now_ms: int) -> bool:
        """False where it is a periodic one, or has waited long enough."""
        due_ms = request.requested_ms + min(timeout_ms, MAX_START_WAIT_MS)
        if not request.trigger_id or due_ms <= now_ms:
            return False
        self._waiting.append(_Waiting(request, None, due_ms))
        return True

    def try_again(self, request: CheckpointRequest, attempt: ExecutionAttemptID, deadline_ms: int, now_ms: int) -> bool:
        """After a checkpoint that `attempt` had no part in. False where there is to be no other one.

        Args:
            deadline_ms: of the request, over all its tries.
        """
        num_tries = request.num_tries + 1
        due_ms = now_ms + min(FIRST_DELAY_MS << request.num_tries, MAX_DELAY_MS)
        if not request.trigger_id or num_tries >= MAX_TRIES or due_ms >= deadline_ms:
            return False
        again = replace(request, num_tries=num_tries, deadline_ms=deadline_ms)
        self._waiting.append(_Waiting(again, attempt, due_ms))
        return True

    def take_ready(
        self, now_ms: int, *, is_running: bool, has_finished: Callable[[ExecutionAttemptID], bool]
    ) -> list[CheckpointRequest]:
        """Those that may begin now, for what they wait for has happened, or has not in time."""
        if not self._waiting:
            return []
        ready = [
            waiting
            for waiting in self._waiting
            if waiting.due_ms <= now_ms or (is_running if waiting.attempt is None else has_finished(waiting.attempt))
        ]
        self._waiting = [waiting for waiting in self._waiting if waiting not in ready]
        return [waiting.request for waiting in ready]

    def take_all(self) -> list[CheckpointRequest]:
        taken, self._waiting = self._waiting, []
        return [waiting.request for waiting in taken]
