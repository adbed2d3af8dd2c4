"""CheckpointRequestDecider: decides which requested checkpoint begins next; and RequestRetries.

Savepoints come first, then other requests of clients, then periodic checkpoints, and older requests before newer ones.
A forced checkpoint (a savepoint) ignores the pause and the maximum of concurrent checkpoints. At most one periodic
request waits.

Source: org.apache.flink.runtime.checkpoint.CheckpointRequestDecider. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.common.ids import ExecutionAttemptID

#: The maximum number of waiting requests. Clients can send them faster than checkpoints are taken.
MAX_QUEUED_REQUESTS = 1_000


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """A request for a checkpoint.

    Attributes:
        number: orders requests of the same time.
        trigger_id: identifies the request of a client; empty for requests of the coordinator.
        num_tries: the number of checkpoints that were begun for it and failed because a task was finishing.
        deadline_ms: the deadline of the first of these checkpoints, which applies to all tries.
    """

    properties: CheckpointProperties
    requested_ms: int
    number: int
    is_periodic: bool = False
    trigger_id: str = ""
    target_directory: str = ""
    num_tries: int = 0
    deadline_ms: int | None = None

    @property
    def order(self) -> tuple[bool, bool, int, int]:
        return (not self.properties.is_forced, self.is_periodic, self.requested_ms, self.number)


class CheckpointRequestDecider:
    """The queue of requested checkpoints."""

    def __init__(self, *, max_concurrent: int, min_pause_ms: int) -> None:
        self._max_concurrent = max_concurrent
        self._min_pause_ms = min_pause_ms
        self._queue: list[CheckpointRequest] = []
        self._numbers = itertools.count()

    def next_number(self) -> int:
        return next(self._numbers)

    def submit(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queues a request. Returns the request that is dropped if the queue has no room for both."""
        if request.is_periodic and any(queued.is_periodic for queued in self._queue):
            return request
        self._queue.append(request)
        self._queue.sort(key=lambda queued: queued.order)
        return self._queue.pop() if len(self._queue) > MAX_QUEUED_REQUESTS else None

    def choose(
        self, *, now_ms: int, is_triggering: bool, num_pending: int, last_completion_ms: int | None
    ) -> CheckpointRequest | None:
        """Removes the request to execute now from the queue and returns it; None if none may begin."""
        if is_triggering or not self._queue:
            return None
        first = self._queue[0]
        if not first.properties.is_forced:
            if num_pending >= self._max_concurrent:
                return None
            if first.is_periodic and now_ms < self._pause_end_ms(last_completion_ms):
                return None
        return self._queue.pop(0)

    def next_due_ms(self, *, num_pending: int, last_completion_ms: int | None, now_ms: int) -> int | None:
        """Returns the time at which a request that only waits for the pause may begin; None if there is none."""
        if not self._queue or not self._queue[0].is_periodic or num_pending >= self._max_concurrent:
            return None
        return max(now_ms, self._pause_end_ms(last_completion_ms))

    def take_all(self) -> list[CheckpointRequest]:
        taken, self._queue = self._queue, []
        return taken

    def _pause_end_ms(self, last_completion_ms: int | None) -> int:
        return 0 if last_completion_ms is None else last_completion_ms + self._min_pause_ms


#: The maximum number of checkpoints that are begun for one request.
MAX_TRIES = 10
#: The delay before the second try, unless the task ends sooner. It doubles with each further try.
FIRST_DELAY_MS = 50
MAX_DELAY_MS = 1_000
#: How long a request waits for a job that is starting or restarting. The client waits for the answer meanwhile.
MAX_START_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that waits until `attempt` has finished (None: until the job runs), and at most until `due_ms`."""

    request: CheckpointRequest
    attempt: ExecutionAttemptID | None
    due_ms: int


class RequestRetries:
    """Client requests that failed because the job was starting or restarting, or because a task was finishing.

    The next checkpoint can succeed, because it counts the task as running or as finished. So the request waits until
    the state of the task is known, or for a delay, and is planned again with another checkpoint id. Periodic
    checkpoints are not tried again, because the next one comes anyway. Flink leaves retries to its clients.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    @property
    def trigger_ids(self) -> list[str]:
        return [waiting.request.trigger_id for waiting in self._waiting]

    @property
    def next_due_ms(self) -> int | None:
        return min((waiting.due_ms for waiting in self._waiting), default=None)

    def wait_for_start(self, request: CheckpointRequest, timeout_ms: int, now_ms: int) -> bool:
        """Keeps a request until the job runs. Returns False for requests without client, or after the maximum wait."""
        due_ms = request.requested_ms + min(timeout_ms, MAX_START_WAIT_MS)
        if not request.trigger_id or due_ms <= now_ms:
            return False
        self._waiting.append(_Waiting(request, None, due_ms))
        return True

    def try_again(self, request: CheckpointRequest, attempt: ExecutionAttemptID, deadline_ms: int, now_ms: int) -> bool:
        """Keeps a request whose checkpoint failed because `attempt` was finishing. Returns False if it may not retry.

        Args:
            deadline_ms: the deadline of the request, for all its tries.
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
        """Removes and returns the requests whose event has happened or whose time has passed."""
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
