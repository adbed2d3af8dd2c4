"""PartitionTable: the result partitions of a TaskExecutor, and when they are released.

A pipelined partition is released when its consumer has read it. A blocking partition is *made* while its task runs, and
*held* from the end of the task until the JobMaster releases it or is lost for good. While a job has held partitions, it
stays connected to its JobMaster, even without a slot.

```
   made --task finished--> held --released, or job closed--> gone
     |                      |  ^
     +--task failed--> gone |  | a new JobMaster registers
                            v  |
                          orphaned --deadline--> gone
```

The tracker is pure. Source: org.apache.flink.runtime.io.network.partition.TaskExecutorPartitionTrackerImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkpy._proto import common_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import JobID
from flinkpy.configuration import execution_options, read_option
from flinkpy.taskexecutor.job_table import Job

if TYPE_CHECKING:
    from flinkpy.taskexecutor.contracts import TaskDeployer

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _JobPartitions:
    #: The partitions of running tasks, by execution attempt.
    made: dict[str, frozenset[str]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    #: When to release the held partitions of a job without a JobMaster.
    deadline_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.made or self.held)


class TaskExecutorPartitionTracker:
    """The blocking partitions of all jobs. Pure."""

    def __init__(self) -> None:
        self._jobs: dict[JobID, _JobPartitions] = {}

    def start_making(self, job_id: JobID, execution_attempt_id: str, result_partition_ids: Iterable[str]) -> None:
        """Adds the blocking results of a deployed task."""
        partitions = frozenset(result_partition_ids)
        if partitions:
            self._jobs.setdefault(job_id, _JobPartitions()).made[execution_attempt_id] = partitions

    def task_ended(self, job_id: JobID, execution_attempt_id: str, *, has_finished: bool) -> None:
        """Holds the results of a finished task, or drops those of a failed task. Idempotent."""
        job = self._jobs.get(job_id)
        if job is None:
            return
        partitions = job.made.pop(execution_attempt_id, frozenset())
        if has_finished:
            job.held |= partitions
        self._forget_empty(job_id, job)

    def held(self, job_id: JobID) -> list[str]:
        """Returns the held partitions in a stable order."""
        job = self._jobs.get(job_id)
        return [] if job is None else sorted(job.held)

    @property
    def jobs_with_partitions(self) -> list[JobID]:
        return sorted(job_id for job_id, job in self._jobs.items() if job.held)

    def release(self, job_id: JobID, result_partition_ids: Iterable[str]) -> list[str]:
        """Releases partitions. Returns those that were held; ignores unknown ones."""
        job = self._jobs.get(job_id)
        if job is None:
            return []
        released = sorted(job.held.intersection(result_partition_ids))
        job.held.difference_update(released)
        self._forget_empty(job_id, job)
        return released

    def release_job(self, job_id: JobID) -> list[str]:
        """Removes the job. Returns the partitions that were held."""
        job = self._jobs.pop(job_id, None)
        return [] if job is None else sorted(job.held)

    def orphan(self, job_id: JobID, deadline_ms: int) -> None:
        """Keeps the held partitions of a job without a JobMaster until the deadline."""
        job = self._jobs.get(job_id)
        if job is not None and job.held:
            job.made.clear()
            job.deadline_ms = deadline_ms
        else:
            self._jobs.pop(job_id, None)

    def is_orphaned(self, job_id: JobID) -> bool:
        job = self._jobs.get(job_id)
        return job is not None and job.deadline_ms is not None

    def adopt(self, job_id: JobID) -> list[str]:
        """Ends the deadline: the job has a new JobMaster. Returns the held partitions."""
        job = self._jobs.get(job_id)
        if job is None:
            return []
        job.deadline_ms = None
        return sorted(job.held)

    def release_overdue(self, now_ms: int) -> dict[JobID, list[str]]:
        """Removes and returns the partitions whose deadline has passed."""
        overdue = [
            job_id for job_id, job in self._jobs.items() if job.deadline_ms is not None and job.deadline_ms <= now_ms
        ]
        return {job_id: self.release_job(job_id) for job_id in overdue}

    def validate(self) -> None:
        """Asserts every invariant."""
        for job in self._jobs.values():
            assert not job.is_empty
            assert job.deadline_ms is None or (job.held and not job.made)
            made = [partition for partitions in job.made.values() for partition in partitions]
            assert len(made) == len(set(made)) and not job.held.intersection(made)

    def _forget_empty(self, job_id: JobID, job: _JobPartitions) -> None:
        if job.is_empty:
            del self._jobs[job_id]


class PartitionTable:
    """Releases the partitions of jobs. Thread: main thread."""

    def __init__(self, deployer: TaskDeployer, now_ms: Callable[[], int]) -> None:
        self.tracker = TaskExecutorPartitionTracker()
        self._deployer = deployer
        self._now_ms = now_ms

    def release(self, job: Job[Any, Any, Any], result_partition_ids: Iterable[str]) -> None:
        """Releases partitions that the JobMaster does not need any more. Ignores unknown ones."""
        known = [partition_id for partition_id in result_partition_ids if partition_id in job.result_partition_ids]
        self.tracker.release(job.job_id, known)
        job.result_partition_ids.difference_update(known)
        for partition_id in known:
            self._deployer.release_partition(partition_id, None)

    def unread(self, job: Job[Any, Any, Any]) -> set[str]:
        """Returns the job's partitions that have not been released, and forgets the others."""
        job.result_partition_ids = {
            partition_id
            for partition_id in job.result_partition_ids
            if not self._deployer.partition_is_released(partition_id)
        }
        return job.result_partition_ids

    def orphan(self, job: Job[Any, Any, Any]) -> None:
        """Keeps the finished partitions of a job without a JobMaster, if another one can continue with them."""
        held = self.tracker.held(job.job_id)
        if not held or not job.orphan_timeout_ms:
            return
        logger.info("keeping %d finished partitions of job %s for another JobMaster", len(held), job.job_id)
        self.tracker.orphan(job.job_id, self._now_ms() + job.orphan_timeout_ms)
        job.result_partition_ids.difference_update(held)

    def release_job(self, job: Job[Any, Any, Any], cause: FlinkError) -> None:
        """Releases all partitions of a closed job, except orphaned ones."""
        if not self.tracker.is_orphaned(job.job_id):
            self.tracker.release_job(job.job_id)
        for partition_id in job.result_partition_ids:
            self._deployer.release_partition(partition_id, cause)
        job.result_partition_ids.clear()

    def release_overdue(self) -> None:
        """Releases orphaned partitions whose deadline has passed."""
        for job_id, partition_ids in self.tracker.release_overdue(self._now_ms()).items():
            logger.info("releasing %d finished partitions of job %s without a JobMaster", len(partition_ids), job_id)
            for partition_id in partition_ids:
                self._deployer.release_partition(partition_id, None)


def orphan_timeout_ms(job: common_pb2.Configuration) -> int:
    """Returns how long finished partitions of the job are kept for its next JobMaster; 0: not at all."""
    configuration = Configuration.from_dict(dict(job.entries))
    if not read_option(configuration, execution_options.JOB_RECOVERY_ENABLED):
        return 0
    return int(read_option(configuration, execution_options.JOB_RECOVERY_WORKER_TIMEOUT))
