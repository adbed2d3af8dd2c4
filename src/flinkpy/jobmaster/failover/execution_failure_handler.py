"""ExecutionFailureHandler: what to do about a failure: restart these tasks after that delay, or fail the job.

Source: org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

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
from flinkpy.common.ids import ExecutionVertexID, ResourceID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.failover.failover_strategy import FailoverStrategy
from flinkpy.jobmaster.failover.restart_strategy import RestartBackoffTimeStrategy


@dataclass(frozen=True, slots=True)
class Restart:
    vertices: frozenset[ExecutionVertexID]
    delay_ms: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """`reason` says why there is no restart."""

    reason: str


class ExecutionFailureHandler:
    def __init__(
        self,
        graph: ExecutionGraph,
        failover_strategy: FailoverStrategy,
        restart_strategy: RestartBackoffTimeStrategy,
    ) -> None:
        self._graph = graph
        self._failover_strategy = failover_strategy
        self._restart_strategy = restart_strategy
        #: Restarts so far; failures that were merged into one count once.
        self.num_restarts = 0

    def handle_task_failures(
        self, failed: Iterable[ExecutionVertexID], cause: FlinkError, now_ms: int
    ) -> Restart | FailJob:
        """These tasks are no more, or have to run again, all for one reason."""
        return self._decide(self._failover_strategy.tasks_needing_restart(failed), cause, now_ms)

    def handle_global_failure(self, cause: FlinkError, now_ms: int) -> Restart | FailJob:
        return self._decide(frozenset(vertex.id for vertex in self._graph.vertices), cause, now_ms)

    def _decide(self, vertices: frozenset[ExecutionVertexID], cause: FlinkError, now_ms: int) -> Restart | FailJob:
        if is_unrecoverable(cause):
            return FailJob("the failure would happen again")
        is_new = self._restart_strategy.notify_failure(now_ms)
        if not self._restart_strategy.can_restart(now_ms):
            return FailJob(f"the restart strategy {self._restart_strategy} allows no (further) restart")
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
    """`candidate` explains more than `present`: a broken connection is what a failure elsewhere looks like."""
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
    """Invariant: a task is in one restart at most, and no restart is empty."""

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
        """Remove and return the restarts that are due and all of whose tasks are terminal."""
        ready = [
            restart
            for restart in self._restarts
            if restart.due_ms <= now_ms and all(is_terminal(vertex_id) for vertex_id in restart.vertex_ids)
        ]
        self._restarts = [restart for restart in self._restarts if restart not in ready]
        return [restart.vertex_ids for restart in ready]

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the next restart falls due after now; one that is due already waits for its tasks only."""
        return min((restart.due_ms for restart in self._restarts if restart.due_ms > now_ms), default=None)

    def has(self, vertex_id: ExecutionVertexID) -> bool:
        return any(vertex_id in restart.vertex_ids for restart in self._restarts)

    def clear(self) -> None:
        self._restarts.clear()

    def __bool__(self) -> bool:
        return bool(self._restarts)


@dataclass(frozen=True, slots=True)
class ExceptionHistoryEntry:
    """`task_name` is empty for a failure of the job as a whole."""

    timestamp_ms: int
    error: FlinkError
    task_name: str = ""
    resource_id: ResourceID | None = None


class ExceptionHistory:
    """Newest first; `web.exception-history-size` entries."""

    def __init__(self, size: int = 16) -> None:
        self._entries: deque[ExceptionHistoryEntry] = deque(maxlen=size)

    def record(self, cause: FlinkError, vertex: ExecutionVertex | None, now_ms: int) -> None:
        """The current attempt of `vertex` failed, or (None) the job as a whole."""
        slot = None if vertex is None else vertex.current.slot
        name = "" if vertex is None else vertex.task_name
        where = None if slot is None else slot.location.resource_id
        self._entries.appendleft(ExceptionHistoryEntry(now_ms, cause, name, where))

    @property
    def entries(self) -> list[ExceptionHistoryEntry]:
        return list(self._entries)
