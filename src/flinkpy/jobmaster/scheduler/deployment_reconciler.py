"""DeploymentReconciler: compares the tasks that a TaskExecutor reports with those that the JobMaster expects.

A task that has just finished is missing in the report while its state update is still on its way. So a task counts as
missing only if two reports in a row, with a certain time between them, do not contain it.

Source: org.apache.flink.runtime.jobmaster.DefaultExecutionDeploymentReconciler.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from flinkpy.common.ids import ExecutionAttemptID, ResourceID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex

#: A state update is retried until the RPC timeout. It arrives within this time or never.
ABSENCE_GRACE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Differences:
    """The result of a comparison."""

    #: Subtasks that are expected at the TaskExecutor and missing.
    missing: list[ExecutionVertex]
    #: Attempts that run at the TaskExecutor and should not.
    unwanted: list[ExecutionAttemptID]


class DeploymentReconciler:
    """Remembers since when each attempt has been missing. Pure."""

    def __init__(self, grace_ms: int = ABSENCE_GRACE_MS) -> None:
        self._grace_ms = grace_ms
        self._absent_since_ms: dict[ExecutionAttemptID, int] = {}

    def compare(
        self,
        graph: ExecutionGraph,
        resource_id: ResourceID,
        reported: frozenset[ExecutionAttemptID],
        unanswered: Set[ExecutionAttemptID],
        now_ms: int,
    ) -> Differences:
        """Compares the report of one TaskExecutor with the graph.

        Args:
            unanswered: attempts whose submission has not been answered, so they may run or not.
        """
        expected = [
            vertex
            for vertex in graph.vertices
            if _is_deployed_at(vertex.current, resource_id) and vertex.current.attempt_id not in unanswered
        ]
        missing = [vertex for vertex in expected if self._is_missing(vertex.current.attempt_id, reported, now_ms)]
        unwanted = []
        for attempt_id in sorted(reported.difference(vertex.current.attempt_id for vertex in expected)):
            found = graph.find_execution(attempt_id)
            is_unwanted = found is None or found.state in (ExecutionState.CANCELED, ExecutionState.FAILED)
            if is_unwanted and attempt_id not in unanswered:
                unwanted.append(attempt_id)
        return Differences(missing, unwanted)

    def forget(self, attempt: ExecutionAttemptID) -> None:
        self._absent_since_ms.pop(attempt, None)

    def _is_missing(self, attempt: ExecutionAttemptID, reported: frozenset[ExecutionAttemptID], now_ms: int) -> bool:
        if attempt in reported:
            self.forget(attempt)
            return False
        return now_ms - self._absent_since_ms.setdefault(attempt, now_ms) >= self._grace_ms


def _is_deployed_at(execution: Execution, resource_id: ResourceID) -> bool:
    return execution.is_deployed and execution.slot is not None and execution.slot.location.resource_id == resource_id


#: The time within which the failure that caused a cancellation must be reported.
UNEXPLAINED_CANCEL_GRACE_MS = 10_000


class UnexplainedCancels:
    """Tracks tasks that canceled themselves, which they do when another task fails.

    If the failure of that other task is not reported in time, the report was lost, and the job would wait forever.
    Pure.
    """

    def __init__(self) -> None:
        self._until_ms: dict[ExecutionAttemptID, int] = {}

    def add(self, attempt_id: ExecutionAttemptID, now_ms: int) -> None:
        self._until_ms[attempt_id] = now_ms + UNEXPLAINED_CANCEL_GRACE_MS

    def explained(self, attempt_id: ExecutionAttemptID) -> None:
        self._until_ms.pop(attempt_id, None)

    def take_due(self, now_ms: int) -> list[ExecutionAttemptID]:
        """Removes and returns the attempts for which no failure was reported in time."""
        due = [attempt_id for attempt_id, until_ms in self._until_ms.items() if until_ms <= now_ms]
        for attempt_id in due:
            del self._until_ms[attempt_id]
        return due

    @property
    def next_due_ms(self) -> int | None:
        return min(self._until_ms.values(), default=None)

    def clear(self) -> None:
        self._until_ms.clear()
