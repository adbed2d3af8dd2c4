"""CheckpointRequestDecider: which of the checkpoints asked for begins next, and when.

Savepoints come first, then what a client asked for, then periodic checkpoints; among equals the older request. A
forced one (a savepoint) waits neither for room nor for the pause. Of the periodic ones one at most waits.

Source: org.apache.flink.runtime.checkpoint.CheckpointRequestDecider. Pure.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties

#: Requests that may wait; clients can ask faster than checkpoints are taken.
MAX_QUEUED_REQUESTS = 1_000


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """`trigger_id` is empty for the coordinator's own.

    `num_tries`: checkpoints that were begun for it and met a task that was finishing; `deadline_ms` is of the first.
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
    def __init__(self, *, max_concurrent: int, min_pause_ms: int) -> None:
        self._max_concurrent = max_concurrent
        self._min_pause_ms = min_pause_ms
        self._queue: list[CheckpointRequest] = []
        self._numbers = itertools.count()

    def next_number(self) -> int:
        return next(self._numbers)

    def submit(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queue it; returns the request that is dropped for it, where there is no room for both."""
        if request.is_periodic and any(queued.is_periodic for queued in self._queue):
            return request
        self._queue.append(request)
        self._queue.sort(key=lambda queued: queued.order)
        return self._queue.pop() if len(self._queue) > MAX_QUEUED_REQUESTS else None

    def choose(
        self, *, now_ms: int, is_triggering: bool, num_pending: int, last_completion_ms: int | None
    ) -> CheckpointRequest | None:
        """The request to execute now, taken out of the queue."""
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
        """When a request that waits for nothing but the pause may begin; None: there is none."""
        if not self._queue or not self._queue[0].is_periodic or num_pending >= self._max_concurrent:
            return None
        return max(now_ms, self._pause_end_ms(last_completion_ms))

    def take_all(self) -> list[CheckpointRequest]:
        taken, self._queue = self._queue, []
        return taken

    def _pause_end_ms(self, last_completion_ms: int | None) -> int:
        return 0 if last_completion_ms is None else last_completion_ms + self._min_pause_ms
