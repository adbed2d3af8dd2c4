"""The effects of the CheckpointCoordinator, which its caller runs. Their results go to methods of the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class MakeLocation:
    """Store `checkpoint_id` as used, durably and for the next JobMaster; then make the directories. Blocking.

    Answered with `location_made` or `location_failed`.
    """

    checkpoint_id: int
    properties: CheckpointProperties
    target_directory: str


@dataclass(frozen=True, slots=True)
class SnapshotCoordinators:
    """Hold back the events of operator coordinators from now on, and take the state of each coordinator.

    Answered with `coordinators_snapshotted` once all earlier events have arrived, or `coordinator_snapshot_failed`.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TriggerTasks:
    """Trigger the checkpoint at these tasks. Answered with `triggers_answered`.

    The effect runner declines the checkpoint for a task that it cannot reach.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: pb.CheckpointOptions
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class ReleaseEvents:
    """Send the events that were held back for this checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinalizeCheckpoint:
    """Write the metadata, and then the pointer to it if the checkpoint counts for recovery. Blocking.

    Answered with `finalized` or `finalization_failed`.
    """

    checkpoint_id: int
    properties: CheckpointProperties
    location: CheckpointStorageLocation
    metadata: pb.CheckpointMetadata


@dataclass(frozen=True, slots=True)
class ConfirmCheckpoint:
    """Tell tasks and coordinators that the checkpoint is complete."""

    checkpoint_id: int
    timestamp_ms: int
    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Tell tasks and coordinators that the checkpoint is aborted. `attempts` is empty if no task was triggered."""

    checkpoint_id: int
    timestamp_ms: int
    latest_completed_id: int
    attempts: tuple[ExecutionAttemptID, ...]
    #: The reason for the log.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DiscardState:
    """Delete the state that tasks wrote for a failed checkpoint."""

    states: tuple[pb.TaskStateSnapshot, ...]


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Delete the files of a failed checkpoint. `location` is None if its directory was not made."""

    checkpoint_id: int
    location: CheckpointStorageLocation | None


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Answer a client's request. Either `result` or `error` is set."""

    trigger_id: str
    result: pb.CheckpointResult | None = None
    error: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class FailJob:
    """Fail the whole job."""

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
