"""ExecutionVertex: one parallel instance of a JobVertex.

Source: org.apache.flink.runtime.executiongraph.ExecutionVertex.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResultPartition
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot

if TYPE_CHECKING:
    from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex


@dataclass(frozen=True, slots=True)
class ConsumedPartitions:
    """The neighbouring subpartitions that a subtask reads of each of these partitions over one JobEdge.

    A subtask may have several of them for one edge.

    Attributes:
        subpartition_index: the first of the subpartitions.
    """

    edge_index: int
    input_index: int
    subpartition_index: int
    partitions: tuple[IntermediateResultPartition, ...]
    num_subpartitions: int = 1


class ExecutionVertex:
    """Holds the current attempt, speculative ones, and a bounded number of earlier ones."""

    def __init__(
        self, job_vertex: ExecutionJobVertex, subtask_index: int, graph_id: str, max_prior_attempts: int, now_ms: int
    ) -> None:
        self.job_vertex = job_vertex
        self.id = ExecutionVertexID(job_vertex.id, subtask_index)
        self._graph_id = graph_id
        self.current = Execution(ExecutionAttemptID(graph_id, self.id, 0), now_ms)
        #: Attempts that run beside the current one. None is terminal.
        self.speculative: list[Execution] = []
        self._num_attempts = 1
        self.prior: deque[Execution] = deque(maxlen=max_prior_attempts)
        #: The partitions that the subtask produces, by result index.
        self.produced: list[IntermediateResultPartition] = []
        self.consumed: list[ConsumedPartitions] = []
        #: The slot of the last attempt that had one. The next attempt prefers it.
        self.last_slot: PhysicalSlot | None = None

    @property
    def subtask_index(self) -> int:
        return self.id.subtask_index

    @property
    def task_name(self) -> str:
        """The name that users see, for example `Map (1/2)`."""
        return f"{self.job_vertex.name} ({self.subtask_index + 1}/{self.job_vertex.parallelism})"

    def assign_slot(self, slot: PhysicalSlot) -> None:
        self.current.slot = slot
        self.last_slot = slot

    def reset_for_new_execution(self, now_ms: int) -> None:
        """Starts the next attempt. The current one must be terminal."""
        assert self.current.state.is_terminal, f"{self.current} is not terminal"
        self.prior.append(self.current)
        self.current = self._new_execution(now_ms)

    def add_speculative_execution(self, now_ms: int) -> Execution:
        """Adds an attempt beside the current one and returns it."""
        execution = self._new_execution(now_ms)
        self.speculative.append(execution)
        return execution

    def promote(self, execution: Execution) -> None:
        """Makes the speculative attempt the current one, and the current one speculative."""
        self.speculative.remove(execution)
        self.speculative.append(self.current)
        self.current = execution
        self.last_slot = execution.slot

    def end_speculative_execution(self, execution: Execution) -> None:
        self.speculative.remove(execution)
        self.prior.append(execution)

    def _new_execution(self, now_ms: int) -> Execution:
        attempt = ExecutionAttemptID(self._graph_id, self.id, self._num_attempts)
        self._num_attempts += 1
        return Execution(attempt, now_ms)

    def restore(self, finished: Execution) -> None:
        """Replaces the current attempt by one that finished under an earlier JobMaster. Nothing may be deployed yet."""
        assert self.current.state is ExecutionState.CREATED and finished.state is ExecutionState.FINISHED
        self.current = finished
        self._num_attempts = finished.attempt_id.attempt_number + 1
        self.last_slot = finished.slot

    def continue_from(self, former: ExecutionVertex, now_ms: int) -> None:
        """Continues the attempts of the subtask that had this index before a rescale. That one must not be running."""
        self.last_slot = former.last_slot
        self.prior.extend(former.prior)
        self._num_attempts = former._num_attempts
        if former.current.state is ExecutionState.CREATED:
            self.current = former.current
            return
        assert former.current.state.is_terminal, f"{former.current} is not terminal"
        self.prior.append(former.current)
        self.current = self._new_execution(now_ms)

    def adopt(self, attempt_id: ExecutionAttemptID, slot: PhysicalSlot, now_ms: int) -> None:
        """Makes an attempt of an earlier JobMaster the current one. Nothing may be deployed yet."""
        assert self.current.state is ExecutionState.CREATED
        self.current = Execution(attempt_id, now_ms)
        self._num_attempts = attempt_id.attempt_number + 1
        self.last_slot = slot

    def prior_execution(self, attempt_id: ExecutionAttemptID) -> Execution | None:
        return next((prior for prior in self.prior if prior.attempt_id == attempt_id), None)

    def __repr__(self) -> str:
        return f"ExecutionVertex({self.task_name}, {self.current.state.name})"
