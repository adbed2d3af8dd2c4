"""What the scheduler wants done. The JobMaster does it, and tells the outcome as an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkpy._proto import job_event_pb2, taskexecutor_pb2
from flinkpy.checkpoint.coordinator.effects import CheckpointEffect
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ExecutionVertexID, JobVertexID, ResourceID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation


@dataclass(frozen=True, slots=True)
class DeclareRequirements:
    """Tell the ResourceManager that the job wants `num_slots` in all, and none more of `blocked` TaskExecutors."""

    num_slots: int
    blocked: frozenset[ResourceID] = frozenset()


@dataclass(frozen=True, slots=True)
class AnswerOffer:
    """These of the slots just offered are taken."""

    accepted: tuple[AllocationID, ...]


@dataclass(frozen=True, slots=True)
class FreeSlot:
    slot: PhysicalSlot
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class SubmitTasks:
    """Deploy `tasks` at one TaskExecutor; answered by TasksSubmitted or TaskManagerLost."""

    location: TaskManagerLocation
    vertices: tuple[JobVertexID, ...]
    tasks: tuple[taskexecutor_pb2.TaskDeployment, ...]
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class CancelTasks:
    location: TaskManagerLocation
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class ReleasePartitions:
    """Results kept for consumers that will not come."""

    location: TaskManagerLocation
    partition_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobStatusChanged:
    state: JobState
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    """For the log."""

    task_name: str
    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: FlinkError | None

    def __str__(self) -> str:
        text = f"{self.task_name} #{self.attempt_id.attempt_number} is {self.state.name}"
        return text if self.error is None else f"{text}: {self.error}"


@dataclass(frozen=True, slots=True)
class StartCoordinators:
    pass


@dataclass(frozen=True, slots=True)
class VerticesInitialized:
    """These vertices have got their parallelism, and subtasks: their coordinators can be made."""

    job_vertex_ids: tuple[JobVertexID, ...]


@dataclass(frozen=True, slots=True)
class SubtaskReady:
    """The attempt can be sent operator events."""

    vertex_id: ExecutionVertexID


@dataclass(frozen=True, slots=True)
class SubtaskReset:
    """The subtask will be attempted anew from that checkpoint (None: from the beginning)."""

    vertex_id: ExecutionVertexID
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class ResetCoordinators:
    """Every subtask of the vertex starts from that checkpoint (None: from the beginning). `states`: by operator id."""

    job_vertex_id: JobVertexID
    checkpoint_id: int | None = None
    states: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerifyCheckpoints:
    """A task found the checkpoint it was restored from damaged: drop what is. Answered by CheckpointsVerified."""


@dataclass(frozen=True, slots=True)
class RecordJobEvent:
    """Write it down for the job's next JobMaster. `finished`: the subtask whose end it is, where it is one."""

    event: job_event_pb2.JobEvent
    finished: ExecutionVertexID | None = None


@dataclass(frozen=True, slots=True)
class RestoreCoordinators:
    """Before they are started: they begin with these states, by operator id."""

    job_vertex_id: JobVertexID
    states: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class JobTerminated:
    """The last effect of a job, after JobStatusChanged. SUSPENDED: another JobMaster may take it up."""

    state: JobState
    cause: FlinkError | None


SchedulerEffect = (
    DeclareRequirements
    | AnswerOffer
    | FreeSlot
    | SubmitTasks
    | CancelTasks
    | ReleasePartitions
    | JobStatusChanged
    | TaskStateChanged
    | StartCoordinators
    | VerticesInitialized
    | SubtaskReady
    | SubtaskReset
    | ResetCoordinators
    | VerifyCheckpoints
    | RecordJobEvent
    | RestoreCoordinators
    | JobTerminated
    | CheckpointEffect
)
