"""The events of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator
from flinkpy.checkpoint.coordinator.effects import CheckpointEffect
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ResourceID
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution import IOMetrics
from flinkpy.jobmaster.scheduler.adaptive.job_resource_requirements import JobResourceRequirements
from flinkpy.jobmaster.scheduler.task_reconciliation import RunningTask
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation


@dataclass(frozen=True, slots=True)
class JobMasterInitialized:
    """The coordinators have been created, so the job can be scheduled."""


@dataclass(frozen=True, slots=True)
class InitializationFailed:
    """The job cannot be initialized. It fails without a restart."""

    cause: FlinkError


@dataclass(frozen=True, slots=True)
class StartScheduling:
    """Schedule the job."""


@dataclass(frozen=True, slots=True)
class TasksAdopted:
    """The TaskExecutors, which have registered, run these tasks for this JobMaster: one for each subtask."""

    tasks: tuple[RunningTask, ...]


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Cancel the job."""


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """This JobMaster has lost the leadership of the job."""

    cause: FlinkError


@dataclass(frozen=True, slots=True)
class GlobalFailure:
    """The whole job failed, for example because a coordinator failed."""

    cause: FlinkError


@dataclass(frozen=True, slots=True)
class TaskManagerRegistered:
    """A TaskExecutor has registered."""

    location: TaskManagerLocation


@dataclass(frozen=True, slots=True)
class TaskManagerLost:
    """A TaskExecutor is lost, with all its slots and results."""

    resource_id: ResourceID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class SlotsOffered:
    """A TaskExecutor offers slots."""

    resource_id: ResourceID
    offers: tuple[SlotOffer, ...]


@dataclass(frozen=True, slots=True)
class ResourcesUnavailable:
    """The ResourceManager cannot provide slots of these resources, for this reason."""

    resources: ResourceProfile
    reason: str


@dataclass(frozen=True, slots=True)
class SlotFailed:
    """A TaskExecutor has lost a slot of the job."""

    resource_id: ResourceID
    allocation_id: AllocationID
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class TaskStateUpdated:
    """A TaskExecutor reports the state of an attempt. May be late, repeated, or for a replaced attempt."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: FlinkError | None = None
    metrics: IOMetrics | None = None
    #: Empty if they have not changed.
    accumulators: Mapping[str, bytes] = field(default_factory=dict)
    #: For FINISHED: the sizes in bytes of all subpartitions of each blocking result, by result partition id.
    result_bytes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: For RUNNING: the measurements of the initialization by Flink's names.
    initialization: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskMetricsReported:
    """A TaskExecutor reports metrics of running attempts."""

    metrics: tuple[tuple[ExecutionAttemptID, IOMetrics], ...]
    #: Only of attempts whose accumulators have changed.
    accumulators: tuple[tuple[ExecutionAttemptID, Mapping[str, bytes]], ...] = ()


@dataclass(frozen=True, slots=True)
class DeploymentsReported:
    """The attempts that a TaskExecutor runs, from its heartbeat."""

    resource_id: ResourceID
    attempts: frozenset[ExecutionAttemptID]


@dataclass(frozen=True, slots=True)
class TasksSubmitted:
    """A SubmitTasks call was answered. The TaskExecutor did not accept `rejections`."""

    attempts: tuple[ExecutionAttemptID, ...]
    rejections: tuple[tuple[ExecutionAttemptID, FlinkError], ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorEventReceived:
    """A task sent an operator event, so it is running."""

    attempt_id: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class OperatorEventsLost:
    """Operator events for these attempts were lost, so coordinator and task may disagree."""

    attempts: tuple[ExecutionAttemptID, ...]
    cause: FlinkError


@dataclass(frozen=True, slots=True)
class CheckpointCall:
    """A call of the CheckpointCoordinator with the current time. It returns the effects to run."""

    call: Callable[[CheckpointCoordinator, int], list[CheckpointEffect]]


@dataclass(frozen=True, slots=True)
class CheckpointsVerified:
    """The answer to VerifyCheckpoints.

    Attributes:
        latest: the newest undamaged checkpoint.
        error: set if there is none, or if the checkpoints could not be read.
    """

    latest: CompletedCheckpoint | None = None
    error: FlinkError | None = None


@dataclass(frozen=True, slots=True)
class ResourceRequirementsChanged:
    """A user has set the parallelism that the vertices may have. For the adaptive scheduler alone."""

    requirements: JobResourceRequirements


@dataclass(frozen=True, slots=True)
class CheckDeadlines:
    """The time `next_deadline_ms` has been reached."""


SchedulerEvent = (
    JobMasterInitialized
    | InitializationFailed
    | StartScheduling
    | TasksAdopted
    | CancelJob
    | SuspendJob
    | GlobalFailure
    | TaskManagerRegistered
    | TaskManagerLost
    | SlotsOffered
    | ResourcesUnavailable
    | SlotFailed
    | TaskStateUpdated
    | TaskMetricsReported
    | DeploymentsReported
    | TasksSubmitted
    | OperatorEventReceived
    | OperatorEventsLost
    | CheckpointsVerified
    | ResourceRequirementsChanged
    | CheckDeadlines
    | CheckpointCall
)
