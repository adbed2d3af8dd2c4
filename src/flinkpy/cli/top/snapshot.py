"""ClusterSnapshot: the view of a cluster at one time that `flinkpy top` shows. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.cli.job_progress import JobProgress, VertexProgress
from flinkpy.cli.json_output import known


@dataclass(frozen=True, slots=True)
class TaskExecutorUse:
    """The CPU and memory that a TaskExecutor uses. None: it did not tell."""

    id: str
    address: str
    num_slots: int
    num_slots_free: int
    #: CPU time per time: 1.0 is one core. None also in the first snapshot.
    cores: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one time.

    Attributes:
        jobs: jobs that have not ended first, then the newest.
        task_executors: None if the cluster has no REST server, which knows them.
    """

    address: str
    now_ms: int
    num_slots: int
    num_slots_free: int
    num_task_executors: int
    jobs: tuple[JobProgress, ...] = ()
    task_executors: tuple[TaskExecutorUse, ...] | None = ()

    def job(self, job_id: str) -> JobProgress | None:
        return next((job for job in self.jobs if job.job_id == job_id), None)


def records_in_per_s(job: JobProgress) -> float | None:
    """Returns the records that the sources of the job emit per second, as far as they are known."""
    rates = [_source_rate(one) for one in job.vertices if not one.totals.inputs]
    found = [rate for rate in rates if rate is not None]
    return sum(found) if found else None


def _source_rate(vertex: VertexProgress) -> float | None:
    # A source that is chained with a sink sends no records; its input is what it has read.
    sent, read = vertex.records_out_per_s, vertex.records_in_per_s
    if sent is None or read is None:
        return None
    return max(sent, read)


def busiest(job: JobProgress) -> float | None:
    return max((one.busy for one in job.vertices if one.busy is not None), default=None)


def most_back_pressured(job: JobProgress) -> float | None:
    return max((one.back_pressured for one in job.vertices if one.back_pressured is not None), default=None)


#: The orders of jobs, by the names that the view shows. A larger key comes first.
JOB_ORDERS: dict[str, Callable[[JobProgress], Any]] = {
    "state": lambda job: (not job.status.is_terminal, -job.elapsed_ms),
    "rows/s": lambda job: records_in_per_s(job) or 0.0,
    "busy": lambda job: busiest(job) or 0.0,
    "back-pressure": lambda job: most_back_pressured(job) or 0.0,
    "restarts": lambda job: job.num_restarts,
}


def ordered(jobs: tuple[JobProgress, ...], order: str) -> list[JobProgress]:
    """Returns the jobs in one of JOB_ORDERS. Equal ones keep the order of their ids."""
    return sorted(sorted(jobs, key=lambda job: job.job_id), key=JOB_ORDERS[order], reverse=True)


def snapshot_document(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Returns the snapshot for `--json`."""
    executors = snapshot.task_executors
    return {
        "address": snapshot.address,
        "now_time_ms": known(snapshot.now_ms),
        "num_slots": snapshot.num_slots,
        "num_slots_free": snapshot.num_slots_free,
        "num_task_executors": snapshot.num_task_executors,
        "jobs": [_job(job) for job in snapshot.jobs],
        "task_executors": None
        if executors is None
        else [
            {
                "task_executor": one.id,
                "address": one.address,
                "num_slots": one.num_slots,
                "num_slots_free": one.num_slots_free,
                "cores": one.cores,
                "memory_bytes": one.memory_bytes,
            }
            for one in executors
        ],
    }


def _job(job: JobProgress) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": job.status.name,
        "elapsed_ms": job.elapsed_ms,
        "num_restarts": job.num_restarts,
        "fraction_done": job.fraction,
        "remaining_ms": job.remaining_ms,
        "num_checkpoints_completed": job.checkpoints.num_completed,
        "num_checkpoints_failed": job.checkpoints.num_failed,
        "last_checkpoint_duration_ms": job.checkpoints.last_duration_ms,
        "last_checkpoint_bytes": job.checkpoints.last_size_bytes,
        "vertices": [
            {
                "vertex_id": one.totals.id,
                "name": one.totals.name,
                "parallelism": known(one.totals.parallelism),
                "subtasks_per_state": dict(one.totals.tasks_per_state),
                "num_records_in": one.totals.records_in,
                "num_records_out": one.totals.records_out,
                "records_in_per_s": one.records_in_per_s,
                "records_out_per_s": one.records_out_per_s,
                "busy_ratio": one.busy,
                "back_pressured_ratio": one.back_pressured,
            }
            for one in job.vertices
        ],
    }
