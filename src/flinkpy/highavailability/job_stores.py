"""What a Dispatcher must find again after its end: the jobs it accepted and the results of those that ended.

Source: org.apache.flink.runtime.jobmanager.ExecutionPlanStore,
org.apache.flink.runtime.highavailability.JobResultStore.
"""

from __future__ import annotations

from typing import Protocol

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.ids import JobID


class JobGraphStore(Protocol):
    """Accepted jobs. Blocking; what `put` returned from survives a crash of process and host."""

    def put(self, job_graph: job_pb2.JobGraph) -> None: ...

    def remove(self, job_id: JobID) -> None:
        """Idempotent."""
        ...

    def job_ids(self) -> list[JobID]: ...

    def recover(self, job_id: JobID) -> job_pb2.JobGraph: ...


class JobResultStore(Protocol):
    """Results of ended jobs: an entry is *dirty* until what else is kept of the job has been cleaned up. Blocking."""

    def create_dirty(self, terminated: dispatcher_pb2.JobTerminated) -> None: ...

    def mark_clean(self, job_id: JobID) -> None: ...

    def remove(self, job_id: JobID) -> None:
        """Forget the entry; idempotent."""
        ...

    def contains(self, job_id: JobID) -> bool: ...

    def load(self, job_id: JobID) -> dispatcher_pb2.JobTerminated | None: ...

    def dirty_job_ids(self) -> list[JobID]: ...

    def clean_job_ids(self) -> list[JobID]: ...
