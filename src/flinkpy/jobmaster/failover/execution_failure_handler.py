"""ExecutionFailureHandler: decides after a failure which tasks restart and when, or that the job fails.

PendingRestarts holds the restarts that have been decided. ExceptionHistory holds the last failures.

Source: org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler,
org.apache.flink.runtime.scheduler.{DefaultScheduler,ExecutionVertexVersioner},
org.apache.flink.runtime.scheduler.exceptionhistory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flinkpy.common.errors import (
    CommittablesLostError,
    ErrorDomain,
    ErrorRetry,
    FlinkError,
    PartitionConnectionError,
    PartitionNotFoundError,
    TaskManagerLostError,
    chain_of_causes,
)
from flinkpy.common.ids import ExecutionVertexID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.failover.failover_strategy import FailoverStrategy
from flinkpy.jobmaster.failover.restart_strategy import RestartBackoffTimeStrategy
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation

#: The maximum number of concurrent failures in an entry of the history. A lost TaskExecutor fails all its tasks.
MAX_CONCURRENT_FAILURES = 32


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart the tasks after the delay."""

    vertices: frozenset[ExecutionVertexID]
    delay_ms: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """Fail the job. `reason`: why it is not restarted."""

    reason: str


class ExecutionFailureHandler:
    """Decides what happens after a failure."""

    def __init__(
        self,
        graph: ExecutionGraph,
        failover_strategy: FailoverStrategy,
        restart_strategy: RestartBackoffTimeStrategy,
    ) -> None:
        self._graph = graph
        self._failover_strategy = failover_strategy
        self._restart_strategy = restart_strategy
        #: The number of restarts so far. Failures that were merged count once.
        self.num_restarts = 0

    def handle_task_failures(
        self, failed: Iterable[ExecutionVertexID], cause: FlinkError, now_ms: int
    ) -> Restart | FailJob:
        """Decides about tasks that failed, or have to run again, because of the same cause."""
        return self._decide(self._failover_strategy.tasks_needing_restart(failed), cause, now_ms)

    def handle_global_failure(self, cause: FlinkError, now_ms: int) -> Restart | FailJob:
        return self._decide(frozenset(vertex.id for vertex in self._graph.vertices), cause, now_ms)

    def _decide(self, vertices: frozenset[ExecutionVertexID], cause: FlinkError, now_ms: int) -> Restart | FailJob:
        if is_unrecoverable(cause):
            return FailJob("the failure would happen again")
        is_new = self._restart_strategy.notify_failure(now_ms)
        if not self._restart_strategy.can_restart(now_ms):
            return FailJob(f"the restart strategy {self._restart_strategy} allows no further restart")
        if is_new:
            self.num_restarts += 1
        return Restart(vertices, self._restart_strategy.backoff_ms(now_ms))


def is_unrecoverable(cause: FlinkError) -> bool:
    """True if no restart cures the failure, judged by all errors in its chain of causes."""
    return any(_comes_again(link) for link in chain_of_causes(cause))


def _comes_again(error: BaseException) -> bool:
    """True if the user's program, configuration or data is at fault, or a sink has lost records of a checkpoint.

    `ErrorRetry.NEVER` alone does not say so. It tells the caller of one call, and is the default of internal errors: a
    task that meets such an error, or a lost leadership, may well succeed when it runs again.
    """
    if isinstance(error, CommittablesLostError):
        return True
    return isinstance(error, FlinkError) and error.domain is ErrorDomain.USER and error.retry is ErrorRetry.NEVER


def is_closer_to_root(candidate: FlinkError, present: FlinkError) -> bool:
    """True if `candidate` is closer to the root cause than `present`.

    For example, a broken connection is usually the consequence of a failure elsewhere.
    """
    return _rank(candidate) < _rank(present)


def _rank(error: FlinkError) -> int:
    if error.domain is ErrorDomain.USER:
        return 0
    if isinstance(error, (PartitionConnectionError, PartitionNotFoundError)):
        return 3
    if isinstance(error, TaskManagerLostError):
        return 1
    return 2


@dataclass(slots=True)
class _PendingRestart:
    vertex_ids: frozenset[ExecutionVertexID]
    due_ms: int


class PendingRestarts:
    """The tasks that failed, or were canceled because of a failure, with the times of their restarts.

    A newer restart of a task replaces the older one for that task.

    Invariant: a task is in at most one restart, and no restart is empty.
    """

    def __init__(self) -> None:
        self._restarts: list[_PendingRestart] = []

    def add(self, vertex_ids: frozenset[ExecutionVertexID], due_ms: int) -> None:
        for restart in self._restarts:
            restart.vertex_ids -= vertex_ids
        self._restarts = [restart for restart in self._restarts if restart.vertex_ids]
        self._restarts.append(_PendingRestart(vertex_ids, due_ms))

    def take_ready(
        self, now_ms: int, is_terminal: Callable[[ExecutionVertexID], bool]
    ) -> list[frozenset[ExecutionVertexID]]:
        """Removes and returns the restarts that are due and whose tasks are all terminal."""
        ready = [
            restart
            for restart in self._restarts
            if restart.due_ms <= now_ms and all(is_terminal(vertex_id) for vertex_id in restart.vertex_ids)
        ]
        self._restarts = [restart for restart in self._restarts if restart not in ready]
        return [restart.vertex_ids for restart in ready]

    def next_due_ms(self, now_ms: int) -> int | None:
        """Returns the time of the next restart after now. A restart that is due waits only for its tasks."""
        return min((restart.due_ms for restart in self._restarts if restart.due_ms > now_ms), default=None)

    def has(self, vertex_id: ExecutionVertexID) -> bool:
        return any(vertex_id in restart.vertex_ids for restart in self._restarts)

    def clear(self) -> None:
        self._restarts.clear()

    def __bool__(self) -> bool:
        return bool(self._restarts)


@dataclass(slots=True)
class ExceptionHistoryEntry:
    """One failure. `task_name` is empty if the whole job failed.

    Attributes:
        location: the TaskExecutor where the task ran, if it had a slot.
        concurrent: failures of tasks that this failure restarts anyway, or that occurred while it failed the job.
        labels: see `flinkpy.jobmaster.failure_labels`; None: it waits for them.
    """

    timestamp_ms: int
    error: FlinkError
    task_name: str = ""
    location: TaskManagerLocation | None = None
    concurrent: list[ExceptionHistoryEntry] = field(default_factory=list)
    labels: dict[str, str] | None = None


class ExceptionHistory:
    """The last failures of a job, newest first. The size is `web.exception-history-size`.

    Source: org.apache.flink.runtime.scheduler.exceptionhistory.RootExceptionHistoryEntry.

    Attributes:
        is_truncated: True if earlier failures have been dropped.
        waits_for_labels: new failures wait for labels.
    """

    def __init__(self, size: int = 16) -> None:
        self._entries: deque[ExceptionHistoryEntry] = deque(maxlen=size)
        self.is_truncated = False
        self.waits_for_labels = False

    def record(
        self, cause: FlinkError, vertex: ExecutionVertex | None, now_ms: int, *, is_concurrent: bool = False
    ) -> None:
        """Records a failure of the current attempt of `vertex`. None: a failure of the whole job.

        Args:
            is_concurrent: adds the failure to the newest entry, because nothing more follows from it.
        """
        slot = None if vertex is None else vertex.current.slot
        name = "" if vertex is None else vertex.task_name
        entry = ExceptionHistoryEntry(now_ms, cause, name, None if slot is None else slot.location)
        if not self.waits_for_labels:
            entry.labels = {}
        if is_concurrent and self._entries:
            concurrent = self._entries[0].concurrent
            if len(concurrent) < MAX_CONCURRENT_FAILURES:
                concurrent.append(entry)
            return
        self.is_truncated |= len(self._entries) == self._entries.maxlen
        self._entries.appendleft(entry)

    def make_root(self, cause: FlinkError) -> None:
        """Makes a concurrent failure of the newest entry its root, because it is closer to the root cause."""
        if not self._entries:
            return
        root = self._entries[0]
        chosen = next((entry for entry in root.concurrent if entry.error is cause), None)
        if chosen is not None:
            chosen.concurrent = [root, *(entry for entry in root.concurrent if entry is not chosen)]
            root.concurrent = []
            self._entries[0] = chosen

    @property
    def entries(self) -> list[ExceptionHistoryEntry]:
        return list(self._entries)

    def unlabeled(self) -> list[ExceptionHistoryEntry]:
        """Returns the failures that wait for labels, the oldest first."""
        known = [one for entry in reversed(self._entries) for one in (entry, *entry.concurrent)]
        return [entry for entry in known if entry.labels is None]
