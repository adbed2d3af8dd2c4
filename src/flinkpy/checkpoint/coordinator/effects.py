"""What the CheckpointCoordinator wants done; outcomes come back as events."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class MakeLocation:
    """Blocking. First make durable that `checkpoint_id` is taken, for a JobMaster after this one.

    Answered by LocationMade or LocationFailed.
    """

    checkpoint_id: int
    properties: CheckpointProperties
    target_directory: str


@dataclass(frozen=True, slots=True)
class SnapshotCoordinators:
    """Hold back events from now on, and take every coordinator's state.

    Answered by CoordinatorsSnapshotted, when all events sent before have arrived, or CoordinatorSnapshotFailed.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TriggerTasks:
    """Answered by TriggersAnswered; a task that cannot be told declines the checkpoint."""

    checkpoint_id: int
    timestamp_ms: int
    options: pb.CheckpointOptions
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class ReleaseEvents:
    """Events held back for this checkpoint may go."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinalizeCheckpoint:
    """Blocking. Write the metadata, then (where it counts for recovery) the pointer to it.

    Answered by CheckpointFinalized or FinalizationFailed.
    """

    checkpoint_id: int
    properties: CheckpointProperties
    location: CheckpointStorageLocation
    metadata: pb.CheckpointMetadata


@dataclass(frozen=True, slots=True)
class ConfirmCheckpoint:
    """Tell tasks and coordinators that it is completed."""

    checkpoint_id: int
    timestamp_ms: int
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Tell tasks and coordinators that it will not be completed. `attempts` is empty where none was triggered."""

    checkpoint_id: int
    timestamp_ms: int
    latest_completed_id: int
    attempts: tuple[ExecutionAttemptID, ...]
    #: For the log.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DiscardState:
    """Delete what tasks wrote for a checkpoint that is not completed."""

    states: tuple[pb.TaskStateSnapshot, ...]


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Delete what belongs to a checkpoint that is not completed; `location` None: its place was not made."""

    checkpoint_id: int
    location: CheckpointStorageLocation | None


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Exactly one of `result` and `error`."""

    trigger_id: str
    result: pb.CheckpointResult | None = None
    error: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class FailJob:
    """A failure of the job as a whole."""

    cause: FlinkError


CheckpointEffect = (
    MakeLocation
    | SnapshotCoordinators
    | TriggerTasks
    | ReleaseEvents
    | FinalizeCheckpoint
    | ConfirmCheckpoint
    | AbortCheckpoint
    | DiscardState
    | DiscardCheckpoint
    | AnswerRequest
    | FailJob
)
