"""JobEventRecorder: writes the events of a job, with the states of coordinators where a recovery needs them.

A coordinator is asked for its state when a subtask of its vertex has finished: always at the last one, and in between
not more often than `execution.batch.job-recovery.snapshot.min-pause`. Subtasks that have finished since the last
snapshot run again in a recovery.

Thread: main thread.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.job_event_store.job_event_store import JobEventStore
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.scheduler import effects as fx


class JobEventRecorder:
    """Args:
    now_ms: a monotonic clock.
    """

    def __init__(
        self,
        store: JobEventStore,
        graph: ExecutionGraph,
        coordinators: OperatorCoordinators,
        *,
        snapshot_min_pause_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._graph = graph
        self._coordinators = coordinators
        self._min_pause_ms = snapshot_min_pause_ms
        self._now_ms = now_ms
        self._last_snapshot_ms: dict[JobVertexID, int] = {}

    def record(self, effect: fx.RecordJobEvent) -> None:
        if effect.finished is None:
            self._store.append(effect.event)
            return
        vertex = self._graph.vertex(effect.finished).job_vertex
        # What a task without results has done lies outside: it should not be done twice.
        self._store.append(effect.event, is_urgent=not vertex.results and not vertex.has_coordinators)
        if vertex.has_coordinators and self._is_snapshot_due(effect.finished):
            states = self._coordinators.snapshot_for_recovery(vertex.id)
            if states is not None:
                self._last_snapshot_ms[vertex.id] = self._now_ms()
                self._store.append(job_events.snapshot(vertex.id, states), is_urgent=not vertex.results)

    def _is_snapshot_due(self, finished: ExecutionVertexID) -> bool:
        vertex = self._graph.job_vertices[finished.job_vertex_id]
        last_ms = self._last_snapshot_ms.get(vertex.id)
        if last_ms is None or self._now_ms() - last_ms >= self._min_pause_ms:
            return True
        return all(task.current.state is ExecutionState.FINISHED for task in vertex.task_vertices)
