"""OperatorCoordinators: all coordinators of a job, by operator and by vertex. Thread: main thread."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flinkpy._proto import job_pb2, jobmaster_pb2
from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import JobSubmissionError, UserError
from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.connector_api.coordinator import OperatorCoordinatorProvider
from flinkpy.jobmaster.coordination.operator_coordinator_holder import (
    CoordinatorHost,
    OperatorCoordinatorHolder,
    load_provider,
)
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph

logger = logging.getLogger(__name__)


def load_providers(job_graph: job_pb2.JobGraph) -> dict[str, OperatorCoordinatorProvider]:
    """Unpickle the providers of all operators that have one, by operator id. Blocking. Thread: any.

    Raises: FunctionError with the user's traceback.
    """
    return {
        operator.operator_id: load_provider(operator)
        for vertex in job_graph.vertices
        for operator in vertex.chain
        if operator.coordinator_pickle
    }


class OperatorCoordinators:
    """Empty until `create`."""

    def __init__(self) -> None:
        self._holders: dict[str, OperatorCoordinatorHolder] = {}
        self._by_vertex: dict[JobVertexID, list[OperatorCoordinatorHolder]] = {}
        self._started: set[str] = set()

    def create(
        self, graph: ExecutionGraph, providers: Mapping[str, OperatorCoordinatorProvider], host: CoordinatorHost
    ) -> None:
        """Make the coordinators of the vertices that know their parallelism and have none; they do nothing before
        `start`.

        Raises: FunctionError (a provider raised), JobSubmissionError (two operators with one id).
        """
        for vertex in graph.job_vertices.values():
            if vertex.is_undecided or vertex.id in self._by_vertex:
                continue
            for operator in vertex.job_vertex.chain:
                provider = providers.get(operator.operator_id)
                if provider is None:
                    continue
                if operator.operator_id in self._holders:
                    raise JobSubmissionError(f"operator {operator.name!r} ({operator.operator_id}) is defined twice")
                holder = OperatorCoordinatorHolder(operator, vertex.id, vertex.parallelism, provider, host)
                self._holders[operator.operator_id] = holder
                self._by_vertex.setdefault(vertex.id, []).append(holder)

    def start(self) -> None:
        """All that have not been started."""
        for holder in self._holders.values():
            if holder.operator_id not in self._started:
                self._started.add(holder.operator_id)
                holder.start()

    def subtask_ready(self, vertex_id: ExecutionVertexID) -> None:
        for holder in self._by_vertex.get(vertex_id.job_vertex_id, ()):
            holder.subtask_ready(vertex_id.subtask_index)

    def subtask_reset(self, vertex_id: ExecutionVertexID, checkpoint_id: int | None) -> None:
        for holder in self._by_vertex.get(vertex_id.job_vertex_id, ()):
            holder.subtask_reset(vertex_id.subtask_index, checkpoint_id)

    def reset(self, job_vertex_id: JobVertexID, checkpoint_id: int | None, states: Mapping[str, bytes]) -> None:
        """`states`: by operator id; one that is missing had none."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            holder.reset(checkpoint_id, states.get(holder.operator_id))

    def snapshot_for_recovery(self, job_vertex_id: JobVertexID) -> dict[str, bytes] | None:
        """Of all coordinators of the vertex; None where one has none."""
        states = {}
        for holder in self._by_vertex.get(job_vertex_id, ()):
            state = holder.snapshot_for_recovery()
            if state is None:
                return None
            states[holder.operator_id] = state
        return states

    def restore_for_recovery(self, job_vertex_id: JobVertexID, states: Mapping[str, bytes]) -> None:
        """Before `start`."""
        for holder in self._by_vertex.get(job_vertex_id, ()):
            if holder.operator_id in states:
                holder.restore_for_recovery(states[holder.operator_id])

    def checkpoint(self, checkpoint_id: int) -> dict[str, bytes | None]:
        """The state of each as of now. Raises: FunctionError, or what else a coordinator raised, typed."""
        return {operator_id: holder.checkpoint(checkpoint_id) for operator_id, holder in self._holders.items()}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for holder in self._holders.values():
            holder.notify_checkpoint_aborted(checkpoint_id)

    def receive(self, event: jobmaster_pb2.OperatorEvent, execution: Execution | None) -> None:
        """An event of a task half; dropped where its execution (None) is history, or it came before."""
        holder = self._holders.get(event.operator_id)
        if execution is None or not execution.is_reachable or holder is None:
            return
        if execution.received_events.is_new(event.sequence_number):
            holder.handle_event(event.subtask_index, execution.attempt_id.attempt_number, event.payload_pickle)

    def handle_request(self, operator_id: str, payload: bytes) -> bytes:
        """Raises: UserError where no such operator answers requests."""
        holder = self._holders.get(operator_id)
        if holder is None:
            raise UserError(f"no operator {operator_id} of this job answers requests")
        return holder.handle_request(payload)

    def close(self) -> None:
        """Idempotent."""
        for holder in self._holders.values():
            try:
                holder.close()
            except USER_ERRORS:
                logger.exception("closing the coordinator of operator %s failed", holder.operator_id)
