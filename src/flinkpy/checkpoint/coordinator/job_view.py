"""What the CheckpointCoordinator sees of its job.

The structure never changes in the life of a JobMaster; which attempt a subtask is at, and its state, is asked anew each
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState


@dataclass(frozen=True, slots=True)
class CheckpointedOperator:
    operator_id: str
    uid: str
    name: str
    #: It has a half in the JobMaster, whose state is part of the checkpoint.
    has_coordinator: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointedVertex:
    """A JobVertex. `producers[i]` are the subtasks that subtask i reads from; empty for a source."""

    id: JobVertexID
    name: str
    operators: tuple[CheckpointedOperator, ...]
    parallelism: int
    max_parallelism: int
    producers: tuple[tuple[ExecutionVertexID, ...], ...]
    has_blocking_output: bool = False

    @property
    def tasks(self) -> list[ExecutionVertexID]:
        return [ExecutionVertexID(self.id, index) for index in range(self.parallelism)]

    @property
    def is_source(self) -> bool:
        return not any(self.producers)


class JobView(Protocol):
    @property
    def job_id(self) -> str: ...

    @property
    def job_name(self) -> str: ...

    @property
    def vertices(self) -> Sequence[CheckpointedVertex]:
        """In topological order."""
        ...

    def task(self, vertex_id: ExecutionVertexID) -> tuple[ExecutionAttemptID, ExecutionState]:
        """The current attempt of the subtask, and its state."""
        ...
