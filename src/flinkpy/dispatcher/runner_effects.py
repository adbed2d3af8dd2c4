"""What a JobManagerRunner wants done. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.ids import JobMasterId
from flinkpy.common.states import JobState


@dataclass(frozen=True, slots=True)
class RequestJobMaster:
    """Get a process for the job; answer with `process_assigned` or `failed_to_start`."""


@dataclass(frozen=True, slots=True)
class AbandonJobMaster:
    """The present JobMaster does not lead the job any more, whether it is dead or only seems so."""

    reason: str
    address: str | None


@dataclass(frozen=True, slots=True)
class RecoverAfter:
    """Call `recover` with this number after that time."""

    delay_ms: int
    recovery: int


@dataclass(frozen=True, slots=True)
class AwaitJobMaster:
    """A JobMaster may lead the job, and is to say so: call `adoption_failed` with this number where it does not.

    Attributes:
        job_master_id: its own, where it is known.
    """

    adoption: int
    timeout_ms: int
    job_master_id: JobMasterId | None


@dataclass(frozen=True, slots=True)
class JobMasterReady:
    """The JobMaster leads and is reached at this address."""

    address: str


@dataclass(frozen=True, slots=True)
class WithdrawRequest:
    """No process is needed any more."""


@dataclass(frozen=True, slots=True)
class CancelAtJobMaster:
    address: str
    job_master_id: JobMasterId


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Make the result durable; answer with `result_stored`."""

    terminated: dispatcher_pb2.JobTerminated


@dataclass(frozen=True, slots=True)
class PublishStatus:
    """Tell who watches."""

    status: JobState


@dataclass(frozen=True, slots=True)
class ReleaseJobMaster:
    """The process has done its work."""


RunnerEffect = (
    RequestJobMaster
    | AbandonJobMaster
    | RecoverAfter
    | AwaitJobMaster
    | JobMasterReady
    | WithdrawRequest
    | CancelAtJobMaster
    | StoreResult
    | PublishStatus
    | ReleaseJobMaster
)
Effects = list[RunnerEffect]
