"""StateAssigner: hands the state of checkpoints out to the subtasks of this job. Pure."""

from __future__ import annotations

import logging

from flinkpy._proto import job_pb2
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.job_description import describe_job_graph
from flinkpy.checkpoint.restore_checks import check_restore
from flinkpy.checkpoint.state_assignment import StateAssignment, assign_state
from flinkpy.common.ids import JobVertexID
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph

logger = logging.getLogger(__name__)


class StateAssigner:
    """Args:
    allow_non_restored_state: leave out state of operators that the job does not have.
    checkpoint_without_in_flight_data: of this checkpoint the records in flight are left out; -1: of none.
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
        """Before the job starts: it can start from that; its vertices take the max parallelism of their state.

        Raises: StateRestoreError naming path and operator.
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

    def assign(self, checkpoint: CompletedCheckpoint) -> StateAssignment:
        """Raises: StateRestoreError where the checkpoint, which was not taken by this JobMaster, does not fit."""
        return assign_state(
            checkpoint.metadata,
            self._vertices,
            ignore_in_flight_data=checkpoint.checkpoint_id == self._checkpoint_without_in_flight_data,
        )
