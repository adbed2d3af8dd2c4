"""JobArchive: the ended jobs. Overviews are in memory, results and details on disk, with a few cached.

Thread: the Dispatcher's loop, except `load`, which blocks and runs on an I/O thread.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import cast

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.common.errors import FlinkError, JobNotFoundError, JobTerminatedWithoutCancellationError
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.highavailability.job_stores import JobResultStore
from flinkpy.rpc.error_codec import error_to_proto

#: Ids of forgotten jobs that are remembered, so that none of them is accepted again.
MAX_FORGOTTEN = 100_000


class JobArchive:
    """Keeps up to `max_entries` jobs for `expiration_ms`, and up to `cache_bytes` of their details in memory."""

    def __init__(self, store: JobResultStore, *, max_entries: int, expiration_ms: int, cache_bytes: int) -> None:
        self._store = store
        self._max_entries = max_entries
        self._expiration_ms = expiration_ms
        self._cache_bytes = cache_bytes
        #: in the order they were archived
        self._overviews: OrderedDict[JobID, dispatcher_pb2.JobOverview] = OrderedDict()
        self._cache: OrderedDict[JobID, dispatcher_pb2.JobTerminated] = OrderedDict()
        self._cached_bytes = 0
        #: results that could not be stored; these are the only copies
        self._pinned: dict[JobID, dispatcher_pb2.JobTerminated] = {}
        self._forgotten: OrderedDict[JobID, None] = OrderedDict()

    def add(self, terminated: dispatcher_pb2.JobTerminated, *, is_stored: bool = True) -> list[JobID]:
        """Adds an ended job. Forgets and returns the oldest above `max_entries`; the caller removes their results."""
        job_id = JobID(terminated.job_id)
        self._overviews[job_id] = overview_of(terminated)
        if is_stored:
            self._cache[job_id] = terminated
            self._cached_bytes += terminated.ByteSize()
        else:
            self._pinned[job_id] = terminated
        while self._cached_bytes > self._cache_bytes and len(self._cache) > 1:
            self._uncache(next(iter(self._cache)))
        surplus = len(self._overviews) - self._max_entries
        return self._forget(list(self._overviews)[: max(0, surplus)])

    def expire(self, now_ms: int) -> list[JobID]:
        """Forgets and returns the jobs that ended `expiration_ms` ago; the caller removes their results."""
        return self._forget(
            [
                job_id
                for job_id, overview in self._overviews.items()
                if now_ms - overview.end_time_ms >= self._expiration_ms
            ]
        )

    def was_forgotten(self, job_id: JobID) -> bool:
        """True if the job was archived and has been forgotten since."""
        return job_id in self._forgotten

    def contains(self, job_id: JobID) -> bool:
        return job_id in self._overviews

    def overview(self, job_id: JobID) -> dispatcher_pb2.JobOverview | None:
        return self._overviews.get(job_id)

    def overviews(self) -> list[dispatcher_pb2.JobOverview]:
        return list(self._overviews.values())

    def cached(self, job_id: JobID) -> dispatcher_pb2.JobTerminated | None:
        return self._cache.get(job_id) or self._pinned.get(job_id)

    def _forget(self, job_ids: list[JobID]) -> list[JobID]:
        for job_id in job_ids:
            del self._overviews[job_id]
            self._pinned.pop(job_id, None)
            self._uncache(job_id)
            self._forgotten[job_id] = None
        while len(self._forgotten) > MAX_FORGOTTEN:
            self._forgotten.popitem(last=False)
        return job_ids

    def _uncache(self, job_id: JobID) -> None:
        terminated = self._cache.pop(job_id, None)
        if terminated is not None:
            self._cached_bytes -= terminated.ByteSize()

    def load(self, job_id: JobID) -> dispatcher_pb2.JobTerminated | None:
        """Reads the result of a job; None if there is none. Blocks. Raises: CorruptFileError."""
        return self._store.load(job_id)

    def count_by_status(self) -> Counter[JobState]:
        return Counter(JobState(overview.status) for overview in self._overviews.values())


def overview_of(terminated: dispatcher_pb2.JobTerminated) -> dispatcher_pb2.JobOverview:
    return dispatcher_pb2.JobOverview(
        job_id=terminated.job_id,
        name=terminated.result.name or terminated.details.name,
        status=terminated.result.status,
        start_time_ms=terminated.details.start_time_ms,
        end_time_ms=terminated.details.end_time_ms,
        tasks_per_state=tasks_per_state(terminated.details),
        is_batch=terminated.details.is_batch,
    )


def tasks_per_state(details: job_pb2.JobDetails) -> Counter[str]:
    """Returns the number of subtasks in each state, over all vertices."""
    total: Counter[str] = Counter()
    for vertex in details.vertices:
        total.update(vertex.tasks_per_state)
    return total


def archived_accumulators(
    terminated: dispatcher_pb2.JobTerminated, request: job_pb2.AccumulatorsRequest
) -> job_pb2.JobAccumulators:
    """Returns the accumulators of an ended job: of the whole job, or of one vertex as text."""
    if not request.vertex_id:
        return job_pb2.JobAccumulators(accumulators=terminated.result.accumulators)
    answer = job_pb2.JobAccumulators()
    for vertex in terminated.details.vertices:
        if vertex.id == request.vertex_id:
            answer.accumulators.extend(vertex.accumulators)
            if request.by_subtask:
                for subtask in vertex.subtasks:
                    answer.subtasks.add(subtask_index=subtask.subtask_index, accumulators=subtask.accumulators)
    return answer


def job_not_found(job_id: JobID) -> JobNotFoundError:
    return JobNotFoundError(f"there is no job {job_id}", details={"job_id": str(job_id)})


def check_cancellation_of_ended(job_id: JobID, status: JobState) -> None:
    """Checks that an ended job was canceled. Raises: JobTerminatedWithoutCancellationError."""
    if status is not JobState.CANCELED:
        raise JobTerminatedWithoutCancellationError(
            f"job {job_id} cannot be canceled: it has ended ({status.name})",
            details={"job_id": str(job_id), "status": status.name},
        )


def terminated_without_job_master(
    details: job_pb2.JobDetails, status: JobState, error: FlinkError | None, now_ms: int, job_master_id: str = ""
) -> dispatcher_pb2.JobTerminated:
    """Returns the result of a job whose JobMaster did not report one."""
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
    """Returns the enum member of the proto files, which has the same value."""
    return cast("common_pb2.JobStatus", status.value)
