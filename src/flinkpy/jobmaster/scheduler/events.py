"""What the scheduler is told. Everything that happens to a job reaches it as one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator.events import CheckpointEvent
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ResourceID
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution import IOMetrics
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation


@dataclass(frozen=True, slots=True)
class JobMasterInitialized:
    """The coordinators exist; the job may be scheduled."""


@dataclass(frozen=True, slots=True)
class InitializationFailed:
    """The job cannot even start; it fails for good."""

    cause: FlinkError


@dataclass(frozen=True, slots=True)
class StartScheduling:
    pass


@dataclass(frozen=True, slots=True)
class CancelJob:
    pass


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """This JobMaster has lost the leadership of the job."""

    cause: FlinkError


@dataclass(frozen=True, slots=True)
class GlobalFailure:
    """A failure of no single task, e.g. of a coordinator."""

    cause: FlinkError


@dataclass(frozen=True, slots=True)
class TaskManagerRegistered:
    location: TaskManagerLocation


@dataclass(frozen=True, slots=True)
class TaskManagerLost:
    resource_id: ResourceID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class SlotsOffered:
    """`offers`: allocation id and slot index of each slot."""

    resource_id: ResourceID
    offers: tuple[tuple[AllocationID, int], ...]


@dataclass(frozen=True, slots=True)
class SlotFailed:
    resource_id: ResourceID
    allocation_id: AllocationID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class TaskStateUpdated:
    """A TaskExecutor's word on one attempt. May come late, twice, or for an attempt that is history."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: FlinkError | None = None
    metrics: IOMetrics | None = None
    #: Empty: as reported before.
    accumulators: Mapping[str, bytes] = field(default_factory=dict)
    #: Of a finished attempt: the bytes of each subpartition of its blocking results, by result partition id.
    result_bytes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskMetricsReported:
    metrics: tuple[tuple[ExecutionAttemptID, IOMetrics], ...]
    #: Of attempts whose accumulators are reported anew.
    accumulators: tuple[tuple[ExecutionAttemptID, Mapping[str, bytes]], ...] = ()


@dataclass(frozen=True, slots=True)
class DeploymentsReported:
    """The attempts a TaskExecutor has, as of its heartbeat."""

    resource_id: ResourceID
    attempts: frozenset[ExecutionAttemptID]


@dataclass(frozen=True, slots=True)
class TasksSubmitted:
    """SubmitTasks was answered; `rejections` were not taken."""

    attempts: tuple[ExecutionAttemptID, ...]
    rejections: tuple[tuple[ExecutionAttemptID, FlinkError], ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorEventReceived:
    """The task half of an operator sent something: the task is alive."""

    attempt_id: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class OperatorEventsLost:
    """Events for these attempts could not be delivered; the operators' two halves may disagree now."""

    attempts: tuple[ExecutionAttemptID, ...]
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class CheckpointsVerified:
    """`latest` is the newest checkpoint that is whole; `error`: none is, or that cannot be found out."""

    latest: CompletedCheckpoint | None = None
    error: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class CheckDeadlines:
    """`next_deadline_ms` has passed."""


SchedulerEvent = (
    JobMasterInitialized
    | InitializationFailed
    | StartScheduling
    | CancelJob
    | SuspendJob
    | GlobalFailure
    | TaskManagerRegistered
    | TaskManagerLost
    | SlotsOffered
    | SlotFailed
    | TaskStateUpdated
    | TaskMetricsReported
    | DeploymentsReported
    | TasksSubmitted
    | OperatorEventReceived
    | OperatorEventsLost
    | CheckpointsVerified
    | CheckDeadlines
    | CheckpointEvent
)
