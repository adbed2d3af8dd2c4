"""The effects of the scheduler. The JobMaster runs them and reports outcomes as events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkpy._proto import job_event_pb2, taskexecutor_pb2
from flinkpy.checkpoint.coordinator.effects import CheckpointEffect
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID, ResourceID
from flinkpy.common.resource_profile import ResourceCounter
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.scheduler.task_reconciliation import RunningTask
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation


@dataclass(frozen=True, slots=True)
class DeclareRequirements:
    """Declare at the ResourceManager which slots the job needs in total, and that it wants no new ones of `blocked`."""

    requirements: ResourceCounter
    blocked: frozenset[ResourceID] = frozenset()


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Return the slot to its TaskExecutor."""

    slot: PhysicalSlot
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class SubmitTasks:
    """Deploy `tasks` at one TaskExecutor. The answer is TasksSubmitted or TaskManagerLost."""

    location: TaskManagerLocation
    vertices: tuple[JobVertexID, ...]
    tasks: tuple[taskexecutor_pb2.TaskDeployment, ...]
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Cancel tasks at one TaskExecutor."""

    location: TaskManagerLocation
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class ReleasePartitions:
    """Release results that no consumer needs."""

    location: TaskManagerLocation
    partition_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveKeptResults:
    """Remove stored results of attempts that run again. They are not final, so they will not be committed."""

    partition_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobStatusChanged:
    """Report the status of the job to the Dispatcher."""

    state: JobState
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    """Log the new state of a task."""

    task_name: str
    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: FlinkError | None

    def __str__(self) -> str:
        text = f"{self.task_name} #{self.attempt_id.attempt_number} is {self.state.name}"
        return text if self.error is None else f"{text}: {self.error}"


@dataclass(frozen=True, slots=True)
class StartCoordinators:
    """Start all coordinators that have not been started."""


@dataclass(frozen=True, slots=True)
class VerticesInitialized:
    """Create the coordinators of these vertices, whose parallelism has been decided."""

    job_vertex_ids: tuple[JobVertexID, ...]


@dataclass(frozen=True, slots=True)
class RecreateCoordinators:
    """Replace the coordinators of these vertices, whose parallelism has changed. StartCoordinators follows."""

    job_vertex_ids: tuple[JobVertexID, ...]


@dataclass(frozen=True, slots=True)
class SubtaskReady:
    """Tell coordinators that the current attempt of the subtask can receive events."""

    vertex_id: ExecutionVertexID


@dataclass(frozen=True, slots=True)
class SubtaskReset:
    """Tell coordinators that the subtask restarts from the checkpoint (None: without state)."""

    vertex_id: ExecutionVertexID
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class ResetCoordinators:
    """Reset the coordinators of a vertex, all of whose subtasks restart from the checkpoint (None: without state).

    Attributes:
        states: the states of the coordinators, by operator id.
    """

    job_vertex_id: JobVertexID
    checkpoint_id: int | None = None
    states: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerifyCheckpoints:
    """Check all checkpoints and drop damaged ones, because a task found one. The answer is CheckpointsVerified."""


@dataclass(frozen=True, slots=True)
class RecordJobEvent:
    """Record the event for the next JobMaster of the job.

    Attributes:
        finished: the subtask that finished, if the event records that.
    """

    event: job_event_pb2.JobEvent
    finished: ExecutionVertexID | None = None


@dataclass(frozen=True, slots=True)
class RestoreCoordinators:
    """Restore the coordinators of a vertex before they are started. `states`: by operator id."""

    job_vertex_id: JobVertexID
    states: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class AdoptSubtasks:
    """Tell the coordinators of a vertex, before they are started, that the subtasks of a lost JobMaster go on."""

    job_vertex_id: JobVertexID
    tasks: tuple[RunningTask, ...]


@dataclass(frozen=True, slots=True)
class JobTerminated:
    """The last effect of a job, after JobStatusChanged. Another JobMaster may continue a SUSPENDED job."""

    state: JobState
    cause: FlinkError | None


SchedulerEffect = (
    DeclareRequirements
    | FreeSlot
    | SubmitTasks
    | CancelTasks
    | ReleasePartitions
    | RemoveKeptResults
    | JobStatusChanged
    | TaskStateChanged
    | StartCoordinators
    | VerticesInitialized
    | RecreateCoordinators
    | SubtaskReady
    | SubtaskReset
    | ResetCoordinators
    | VerifyCheckpoints
    | RecordJobEvent
    | RestoreCoordinators
    | AdoptSubtasks
    | JobTerminated
    | CheckpointEffect
)
