"""ExecutionFailureHandler: what to do about a failure: restart these tasks after that delay, or fail the job.

Source: org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from flinkpy.common.ids import ExecutionVertexID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
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
