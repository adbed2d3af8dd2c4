"""What the CheckpointCoordinator is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_properties import CheckpointProperties
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class AllTasksRunning:
    """The job is RUNNING and so is every task that has not finished."""


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """The job, or a region of it, runs no more: what is in progress ends with `reason`."""

    reason: CheckpointFailureReason
    cause: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class TaskFinished:
    attempt: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class EndOfDataReached:
    """These have processed everything, and wait for a checkpoint that contains that."""

    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class BacklogChanged:
    """Whether the source with this operator id reads a backlog."""

    operator_id: str
    has_backlog: bool


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """By a client, which is answered under `trigger_id`. A `trigger_id` that is known is not taken twice."""

    trigger_id: str
    properties: CheckpointProperties
    target_directory: str = ""


@dataclass(frozen=True, slots=True)
class LocationMade:
    checkpoint_id: int
    location: CheckpointStorageLocation


@dataclass(frozen=True, slots=True)
class LocationFailed:
    checkpoint_id: int
    error: FlinkError


@dataclass(frozen=True, slots=True)
class CoordinatorsSnapshotted:
    """By operator id, what each coordinator gave; what they had sent before has arrived."""

    checkpoint_id: int
    states: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class CoordinatorSnapshotFailed:
    checkpoint_id: int
    error: FlinkError


@dataclass(frozen=True, slots=True)
class TriggersAnswered:
    """Every TaskExecutor has been told to trigger, or could not be."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointAcknowledged:
    attempt: ExecutionAttemptID
    checkpoint_id: int
    state: pb.TaskStateSnapshot
    metrics: pb.CheckpointMetrics


@dataclass(frozen=True, slots=True)
class CheckpointDeclined:
    attempt: ExecutionAttemptID
    checkpoint_id: int
    error: FlinkError


@dataclass(frozen=True, slots=True)
class CheckpointFinalized:
    """The metadata and the pointer to it are durable. `retained_ids`: the completed checkpoints that are still kept."""

    checkpoint_id: int
    external_path: str
    retained_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalizationFailed:
    """Nothing points at the checkpoint."""

    checkpoint_id: int
    error: FlinkError


@dataclass(frozen=True, slots=True)
class JobEnded:
    """In a terminal state; `is_finished`: every task has finished."""

    is_finished: bool
    cause: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class CheckpointTimersDue:
    """`next_deadline_ms` has passed."""


CheckpointEvent = (
    AllTasksRunning
    | TasksStopped
    | TaskFinished
    | EndOfDataReached
    | BacklogChanged
    | CheckpointRequested
    | LocationMade
    | LocationFailed
    | CoordinatorsSnapshotted
    | CoordinatorSnapshotFailed
    | TriggersAnswered
    | CheckpointAcknowledged
    | CheckpointDeclined
    | CheckpointFinalized
    | FinalizationFailed
    | JobEnded
    | CheckpointTimersDue
)
