"""What is told of a job that has ended, where its JobMaster cannot tell it. Pure."""

from __future__ import annotations

from typing import cast

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.common.errors import FlinkError, JobNotFoundError, JobTerminatedWithoutCancellationError
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.rpc.error_codec import error_to_proto


def job_not_found(job_id: JobID) -> JobNotFoundError:
    return JobNotFoundError(f"there is no job {job_id}", details={"job_id": str(job_id)})


def check_cancellation_of_ended(job_id: JobID, status: JobState) -> None:
    """Canceling a canceled job is fine; any other end is told. Raises: JobTerminatedWithoutCancellationError."""
    if status is not JobState.CANCELED:
        raise JobTerminatedWithoutCancellationError(
            f"job {job_id} cannot be canceled: it has ended ({status.name})",
            details={"job_id": str(job_id), "status": status.name},
        )


def terminated_without_job_master(
    details: job_pb2.JobDetails, status: JobState, error: FlinkError | None, now_ms: int, job_master_id: str = ""
) -> dispatcher_pb2.JobTerminated:
    """The result of a job whose JobMaster did not live to tell one."""
    archived = job_pb2.JobDetails()
    archived.CopyFrom(details)
    proto_status = status_to_proto(status)
    archived.status = proto_status
    archived.end_time_ms = now_ms
    archived.status_timestamps[status.name] = now_ms
    result = job_pb2.JobResult(
        job_id=details.job_id,
        name=details.name,
        status=proto_status,
        net_runtime_ms=max(0, now_ms - details.start_time_ms),
    )
    if error is not None:
        result.error.CopyFrom(error_to_proto(error))
        archived.exception_history.add(timestamp_ms=now_ms, error=result.error)
    return dispatcher_pb2.JobTerminated(
        job_id=details.job_id, job_master_id=job_master_id, result=result, details=archived
    )


def status_to_proto(status: JobState) -> common_pb2.JobStatus:
    """Values are the same by definition; the stubs know enum members only."""
    return cast("common_pb2.JobStatus", status.value)
