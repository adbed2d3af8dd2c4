"""Stores of the jobs that a Dispatcher has accepted, and of the results of ended jobs. They outlive a Dispatcher.

Source: org.apache.flink.runtime.jobmanager.ExecutionPlanStore,
org.apache.flink.runtime.highavailability.JobResultStore.
"""

from __future__ import annotations

from typing import Protocol

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.ids import JobID


class JobGraphStore(Protocol):
    """Stores accepted jobs. Durable when `put` returns. Blocking."""

    def put(self, job_graph: job_pb2.JobGraph) -> None: ...

    def remove(self, job_id: JobID) -> None:
        """Removes a job. Idempotent."""
        ...

    def job_ids(self) -> list[JobID]: ...

    def recover(self, job_id: JobID) -> job_pb2.JobGraph: ...


class JobResultStore(Protocol):
    """Stores the results of ended jobs. An entry is dirty until all other data of the job is removed. Blocking."""

    def create_dirty(self, terminated: dispatcher_pb2.JobTerminated) -> None: ...

    def mark_clean(self, job_id: JobID) -> None: ...

    def remove(self, job_id: JobID) -> None:
        """Removes the entry. Idempotent."""
        ...

    def contains(self, job_id: JobID) -> bool: ...

    def load(self, job_id: JobID) -> dispatcher_pb2.JobTerminated | None: ...

    def dirty_job_ids(self) -> list[JobID]: ...

    def clean_job_ids(self) -> list[JobID]: ...
