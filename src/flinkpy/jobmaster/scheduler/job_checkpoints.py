"""JobCheckpoints: connects the scheduler of a job with its CheckpointCoordinator.

It gives the coordinator a view of the ExecutionGraph, reports the state changes of tasks to it, and provides the state
that deployed tasks restore.

Source: org.apache.flink.runtime.scheduler.ExecutionGraphHandler and the checkpoint parts of SchedulerBase. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator import effects as cfx
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator
from flinkpy.checkpoint.coordinator.checkpoint_plan import CheckpointedOperator, CheckpointedVertex
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.job_description import describe_job_graph
from flinkpy.checkpoint.restore_checks import check_restore
from flinkpy.checkpoint.state_assignment import StateAssignment, assign_state
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason
from flinkpy.common.errors import CorruptStateError, FlinkError, is_caused_by
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.scheduler import effects as fx

logger = logging.getLogger(__name__)


class StateAssigner:
    """Distributes the state of a checkpoint to the subtasks of the job.

    Args:
        allow_non_restored_state: ignore the state of operators that the job does not have.
        checkpoint_without_in_flight_data: the id of a checkpoint whose in-flight records are not restored; -1: none.
    """

    def __init__(
        self,
        job_graph: job_pb2.JobGraph,
        *,
        allow_non_restored_state: bool = False,
        checkpoint_without_in_flight_data: int = -1,
    ) -> None:
        self._allow_non_restored_state = allow_non_restored_state
        self._checkpoint_without_in_flight_data = checkpoint_without_in_flight_data
        self._vertices = describe_job_graph(job_graph)

    def check(self, checkpoint: CompletedCheckpoint, graph: ExecutionGraph) -> None:
        """Checks that the job can restore the checkpoint. Sets the max parallelism of vertices to that of their state.

        Call it before the job starts.

        Raises: StateRestoreError naming the path and the operator.
        """
        checks = check_restore(
            checkpoint.metadata,
            self._vertices,
            checkpoint.external_path,
            allow_non_restored_state=self._allow_non_restored_state,
        )
        for warning in checks.warnings:
            logger.warning("%s", warning)
        self._vertices = checks.vertices
        for vertex in checks.vertices:
            graph.set_max_parallelism(JobVertexID(vertex.vertex_id), vertex.max_parallelism)

    def rescale(self, graph: ExecutionGraph) -> None:
        """Takes over the parallelism of all vertices of the graph."""
        self._vertices = [
            replace(vertex, parallelism=graph.job_vertices[JobVertexID(vertex.vertex_id)].parallelism)
            for vertex in self._vertices
        ]

    def assign(self, checkpoint: CompletedCheckpoint) -> StateAssignment:
        """Raises: StateRestoreError if the checkpoint was taken by an earlier JobMaster and does not fit."""
        return assign_state(
            checkpoint.metadata,
            self._vertices,
            ignore_in_flight_data=checkpoint.checkpoint_id == self._checkpoint_without_in_flight_data,
        )


class ExecutionGraphView:
    """The view of the ExecutionGraph that the CheckpointCoordinator has."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self.job_id = graph.job_id
        self.job_name = graph.name
        self._vertices: tuple[CheckpointedVertex, ...] | None = None

    @property
    def vertices(self) -> tuple[CheckpointedVertex, ...]:
        if self._vertices is None:
            vertices = self._graph.job_vertices.values()
            self._vertices = tuple(_checkpointed(vertex) for vertex in vertices if vertex.is_initialized)
        return self._vertices

    def task(self, vertex_id: ExecutionVertexID) -> tuple[ExecutionAttemptID, ExecutionState]:
        execution = self._graph.vertex(vertex_id).current
        return execution.attempt_id, execution.state

    def structure_changed(self) -> None:
        """Drops cached vertices after a change of a max parallelism or of the set of subtasks."""
        self._vertices = None


def _checkpointed(vertex: ExecutionJobVertex) -> CheckpointedVertex:
    # Subtasks that read the same partitions share one tuple. Over ALL_TO_ALL edges, all of them do.
    shared: dict[tuple[ExecutionVertexID, ...], tuple[ExecutionVertexID, ...]] = {}
    producers = []
    for task in vertex.task_vertices:
        of_task = tuple(partition.producer.id for consumed in task.consumed for partition in consumed.partitions)
        producers.append(shared.setdefault(of_task, of_task))
    return CheckpointedVertex(
        id=vertex.id,
        name=vertex.name,
        operators=tuple(
            CheckpointedOperator(operator.operator_id, operator.uid, operator.name)
            for operator in vertex.job_vertex.chain
        ),
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        producers=tuple(producers),
        has_blocking_output=any(result.is_blocking for result in vertex.results),
    )


@dataclass(frozen=True, slots=True)
class Restore:
    """The state that restarted tasks and their coordinators restore. `checkpoint_id` None: they start without state."""

    checkpoint_id: int | None
    state: StateAssignment

    def of_task(self, vertex_id: ExecutionVertexID) -> checkpoint_pb2.TaskRestore | None:
        if self.checkpoint_id is None:
            return None
        state = self.state.task_states[str(vertex_id.job_vertex_id), vertex_id.subtask_index]
        return checkpoint_pb2.TaskRestore(checkpoint_id=self.checkpoint_id, state=state)

    @property
    def coordinator_states(self) -> dict[str, bytes]:
        """The states of all coordinators, by operator id."""
        # The state of a coordinator is always inline.
        return {operator_id: handle.data for operator_id, handle in self.state.coordinator_states.items()}

    def of_coordinators(self, vertex: ExecutionJobVertex) -> fx.ResetCoordinators:
        present = self.coordinator_states
        ids = [operator.operator_id for operator in vertex.job_vertex.chain]
        states = {operator_id: present[operator_id] for operator_id in ids if operator_id in present}
        return fx.ResetCoordinators(vertex.id, self.checkpoint_id, states)


FROM_THE_BEGINNING = Restore(None, StateAssignment({}, {}))


class JobCheckpoints:
    """The checkpoints of one job. Pure."""

    def __init__(
        self,
        graph: ExecutionGraph,
        options: CheckpointCoordinatorOptions,
        assigner: StateAssigner,
        random: Random,
    ) -> None:
        self._graph = graph
        self._assigner = assigner
        self._view = ExecutionGraphView(graph)
        self.coordinator = CheckpointCoordinator(self._view, options, random)
        self._restore = FROM_THE_BEGINNING
        #: True while checkpoints are being checked for damage.
        self._is_verifying = False
        self._all_running = False
        self._now_ms = 0

    # Restore

    def start_from(
        self, checkpoint: CompletedCheckpoint | None, next_checkpoint_id: int, *, must_be_full: bool
    ) -> None:
        """Sets the checkpoint to restore. Call it before the first task is deployed. Raises: StateRestoreError."""
        if checkpoint is not None:
            self._assigner.check(checkpoint, self._graph)
            self._view.structure_changed()
        self.coordinator.start_from(checkpoint, next_checkpoint_id, must_be_full=must_be_full)
        self.restore()

    def structure_changed(self) -> None:
        """Handles new subtasks in the graph."""
        self._view.structure_changed()

    def rescaled(self) -> None:
        """Handles another parallelism of vertices: the next restored state is divided anew."""
        self._assigner.rescale(self._graph)
        self._view.structure_changed()
        self._restore = FROM_THE_BEGINNING

    def restore(self) -> Restore:
        """Returns the state for tasks that are about to be deployed. Call it only if `may_restore` is true."""
        assert self.may_restore, "the checkpoint to restore is not known yet"
        latest = self.coordinator.latest
        if latest is not None and latest.checkpoint_id != self._restore.checkpoint_id:
            self._restore = Restore(latest.checkpoint_id, self._assigner.assign(latest))
        return self._restore

    @property
    def may_restore(self) -> bool:
        """True if the checkpoint to restore is known: none is being finalized or checked for damage."""
        return not self.coordinator.is_finalizing and not self._is_verifying

    def needs_verification(self, execution: Execution, cause: FlinkError) -> bool:
        """True if the attempt failed because its restored state is damaged. True only once until `verified`."""
        if self._is_verifying or execution.restore is None or not is_caused_by(cause, CorruptStateError):
            return False
        self._is_verifying = True
        return True

    def verified(self, latest: CompletedCheckpoint | None) -> bool:
        """Handles the end of a verification.

        Returns True if the latest checkpoint has changed: all tasks must restore it.
        """
        self._is_verifying = False
        present = self.coordinator.latest
        if latest is None or present is None or latest.checkpoint_id == present.checkpoint_id:
            return False
        self.coordinator.replace_latest(latest)
        return True

    # Events

    def job_state_changed(
        self, state: JobState, cause: FlinkError | None, *, is_region: bool
    ) -> list[cfx.CheckpointEffect]:
        if state.is_terminal:
            self._all_running = False
            return self.coordinator.job_ended(self._now_ms, state is JobState.FINISHED, cause)
        if state is JobState.RUNNING or not self._all_running:
            return []
        self._all_running = False
        if is_region:
            reason = CheckpointFailureReason.JOB_FAILOVER_REGION
        else:
            reason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND
        return self.coordinator.tasks_stopped(self._now_ms, reason, cause)

    def task_state_changed(self, attempt_id: ExecutionAttemptID, state: ExecutionState) -> list[cfx.CheckpointEffect]:
        effects: list[cfx.CheckpointEffect] = []
        if state is ExecutionState.FINISHED:
            effects += self.coordinator.task_finished(self._now_ms, attempt_id)
        if state in (ExecutionState.RUNNING, ExecutionState.FINISHED) and not self._all_running:
            effects += self._start_if_all_run()
        return effects

    def _start_if_all_run(self) -> list[cfx.CheckpointEffect]:
        running = (ExecutionState.RUNNING, ExecutionState.FINISHED)
        if self._graph.state is not JobState.RUNNING:
            return []
        if any(vertex.current.state not in running for vertex in self._graph.vertices):
            return []
        self._all_running = True
        return self.coordinator.all_tasks_running(self._now_ms)

    def at(self, now_ms: int) -> None:
        """Sets the time of the events that follow."""
        self._now_ms = now_ms

    def deploying(self, vertex_ids: Iterable[ExecutionVertexID]) -> Restore:
        """Assigns restored state to tasks that are about to be deployed, and returns it."""
        restore = self.restore()
        self.coordinator.tasks_restored(self._now_ms)
        for vertex_id in vertex_ids:
            self._graph.vertex(vertex_id).current.restore = restore.of_task(vertex_id)
        return restore
