"""The events of the CheckpointCoordinator."""

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
    """The job is RUNNING, and so are all its tasks that have not finished."""


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """The job or one of its regions has stopped. Checkpoints in progress are aborted with `reason`."""

    reason: CheckpointFailureReason
    cause: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class TaskFinished:
    attempt: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class EndOfDataReached:
    """These tasks have processed all their data and wait for a checkpoint that contains the results."""

    attempts: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class BacklogChanged:
    """The source with this operator id has begun or stopped to read a backlog."""

    operator_id: str
    has_backlog: bool


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A client requests a checkpoint. It is answered under `trigger_id`. A repeated `trigger_id` is ignored."""

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
    """All coordinators returned their state, and their earlier events have arrived. `states` is by operator id."""

    checkpoint_id: int
    states: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class CoordinatorSnapshotFailed:
    checkpoint_id: int
    error: FlinkError


@dataclass(frozen=True, slots=True)
class TriggersAnswered:
    """All TaskExecutors were told to trigger, or could not be reached."""

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
    """The metadata and the pointer to it are durable. `retained_ids` are the retained complete checkpoints."""

    checkpoint_id: int
    external_path: str
    retained_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalizationFailed:
    """The metadata or the pointer could not be written. No pointer to the checkpoint exists."""

    checkpoint_id: int
    error: FlinkError


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job is in a terminal state. `is_finished` is True if all its tasks have finished."""

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
