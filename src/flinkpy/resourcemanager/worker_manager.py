"""WorkerManager: decides which workers to start and stop, and limits the rate of failing starts.

```
   (needed) -- start --> STARTING -- process runs --> STARTED -- registers --> REGISTERED -- exits, released --> gone
                            |                            |
                            +-- failed to start --> gone +-- exits, or does not register in time --> gone
             (every end of a worker before it has REGISTERED counts as a start failure)
```

If more starts fail in a minute than `start-worker.max-failure-rate` allows, no worker is started for
`start-worker.retry-interval`.

Pure. Source: org.apache.flink.runtime.resourcemanager.active.ActiveResourceManager and ThresholdMeter.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from flinkpy.common.ids import ResourceID

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`resourcemanager.start-worker.*`, `resourcemanager.taskmanager-registration.timeout`."""

    max_failure_rate_per_minute: float = 10.0
    retry_interval_ms: int = 3_000
    registration_timeout_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a worker with this ResourceID, then call `worker_started` or `worker_start_failed`."""

    resource_id: ResourceID


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Stop a worker process."""

    resource_id: ResourceID
    reason: str


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Call `check` with `is_retry` after `delay_ms`."""

    delay_ms: int


WorkerEffect = StartWorker | StopWorker | RetryAfter


class WorkerState(enum.Enum):
    STARTING = 1
    STARTED = 2
    REGISTERED = 3


@dataclass(slots=True)
class _Worker:
    state: WorkerState
    requested_ms: int


class StartFailureRate:
    """Counts the failures of the last minute. After too many of them, starts pause for the retry interval."""

    def __init__(self, max_per_minute: float, retry_interval_ms: int) -> None:
        self._max_per_minute = max_per_minute
        self._retry_interval_ms = retry_interval_ms
        #: Bounded by the rate: the list is emptied when the rate is exceeded and the pause begins.
        self._failures_ms: deque[int] = deque()
        self._paused_until_ms = 0
        #: The number of all failures.
        self.num_failures = 0

    def record(self, now_ms: int) -> None:
        self.num_failures += 1
        self._failures_ms.append(now_ms)
        while self._failures_ms and now_ms - self._failures_ms[0] >= MINUTE_MS:
            self._failures_ms.popleft()
        if len(self._failures_ms) > self._max_per_minute:
            self._paused_until_ms = now_ms + self._retry_interval_ms
            self._failures_ms.clear()

    def pause_ms(self, now_ms: int) -> int:
        return max(0, self._paused_until_ms - now_ms)


class WorkerManager:
    def __init__(self, options: WorkerOptions, new_resource_id: Callable[[], ResourceID]) -> None:
        self._options = options
        self._new_resource_id = new_resource_id
        self._workers: dict[ResourceID, _Worker] = {}
        self._failures = StartFailureRate(options.max_failure_rate_per_minute, options.retry_interval_ms)
        self._num_declared = 0
        self._num_needed = 0
        self._is_retry_scheduled = False

    @property
    def num_pending(self) -> int:
        """The number of requested workers that have not registered yet."""
        return sum(1 for worker in list(self._workers.values()) if worker.state is not WorkerState.REGISTERED)

    @property
    def num_start_failures(self) -> int:
        """The number of workers that ended, or were given up, before they registered."""
        return self._failures.num_failures

    def owns(self, resource_id: ResourceID) -> bool:
        return resource_id in self._workers

    def declare_needed(self, num_workers: int) -> None:
        """Says how many workers are needed beside the registered ones. Pending workers count as part of them.

        Nothing starts before `start_needed`. A worker that registers until then is one of the declared ones.
        """
        self._num_declared = num_workers

    def start_needed(self, now_ms: int) -> list[WorkerEffect]:
        """Starts what is missing of the workers declared last."""
        self._num_needed = self._num_declared
        return self._start_missing(now_ms)

    def workers_recovered(
        self, resource_ids: Iterable[ResourceID], registered: Container[ResourceID], now_ms: int
    ) -> None:
        """Takes over workers of an earlier ResourceManager. They have the time of new ones to register.

        Args:
            resource_ids: the workers.
            registered: the TaskExecutors that registered while the workers were looked for. What was declared since
                counts them as registered.
            now_ms: the time.
        """
        for resource_id in resource_ids:
            state = WorkerState.REGISTERED if resource_id in registered else WorkerState.STARTED
            self._workers.setdefault(resource_id, _Worker(state, now_ms))

    def worker_started(self, resource_id: ResourceID) -> None:
        worker = self._workers.get(resource_id)
        if worker is not None and worker.state is WorkerState.STARTING:
            worker.state = WorkerState.STARTED

    def worker_start_failed(self, resource_id: ResourceID, now_ms: int) -> list[WorkerEffect]:
        if self._workers.pop(resource_id, None) is None:
            return []
        self._failures.record(now_ms)
        return self._start_missing(now_ms)

    def worker_registered(self, resource_id: ResourceID) -> None:
        """Handles the registration of a TaskExecutor. Ignores one that was not started by this WorkerManager."""
        worker = self._workers.get(resource_id)
        if worker is None or worker.state is WorkerState.REGISTERED:
            return
        worker.state = WorkerState.REGISTERED
        self._num_needed = max(0, self._num_needed - 1)
        self._num_declared = max(0, self._num_declared - 1)

    def worker_exited(self, resource_id: ResourceID, now_ms: int) -> list[WorkerEffect]:
        """Handles the end of a worker process. An end before its registration is a start failure."""
        worker = self._workers.pop(resource_id, None)
        if worker is None:
            return []
        if worker.state is not WorkerState.REGISTERED:
            self._failures.record(now_ms)
        return self._start_missing(now_ms)

    def release(self, resource_id: ResourceID, reason: str) -> list[WorkerEffect]:
        """Stops a worker that is not needed any more."""
        if self._workers.pop(resource_id, None) is None:
            return []
        return [StopWorker(resource_id, reason)]

    def check(self, now_ms: int, *, is_retry: bool = False) -> list[WorkerEffect]:
        """Stops workers that did not register in time, and starts the missing ones."""
        if is_retry:
            self._is_retry_scheduled = False
        effects: list[WorkerEffect] = []
        for resource_id, worker in list(self._workers.items()):
            waited_ms = now_ms - worker.requested_ms
            late = waited_ms >= self._options.registration_timeout_ms
            if late and worker.state is not WorkerState.REGISTERED:
                del self._workers[resource_id]
                self._failures.record(now_ms)
                effects.append(StopWorker(resource_id, f"it did not register within {waited_ms} ms"))
        return effects + self._start_missing(now_ms)

    def _start_missing(self, now_ms: int) -> list[WorkerEffect]:
        num_missing = self._num_needed - self.num_pending
        if num_missing <= 0:
            return []
        pause_ms = self._failures.pause_ms(now_ms)
        if pause_ms > 0:
            if self._is_retry_scheduled:
                return []
            self._is_retry_scheduled = True
            return [RetryAfter(pause_ms)]
        effects: list[WorkerEffect] = []
        for _ in range(num_missing):
            resource_id = self._new_resource_id()
            self._workers[resource_id] = _Worker(WorkerState.STARTING, now_ms)
            effects.append(StartWorker(resource_id))
        return effects
