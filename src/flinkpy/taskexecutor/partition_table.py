"""PartitionTable: the result partitions of this TaskExecutor, by job: which are kept, and when they are dropped.

A pipelined partition is its consumer's: it is gone when it was read. A blocking one is *made* while its task runs, and
*held* from the moment the task has finished until its JobMaster releases it or is gone for good. Held partitions keep
the job here, and the connection to its JobMaster, without any slot.

```
   made --task finished--> held --released, or job closed--> gone
     |                      |  ^
     +--task failed--> gone |  | a new JobMaster of the job comes
                            v  |
                          orphaned --nobody came in time--> gone
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
from flinkpy.configuration import batch_options, read_option
from flinkpy.taskexecutor.job_table import Job

if TYPE_CHECKING:
    from flinkpy.taskexecutor.contracts import TaskDeployer

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _JobPartitions:
    #: By execution attempt.
    made: dict[str, frozenset[str]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    #: Set where the JobMaster is lost: when to give them up.
    deadline_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.made or self.held)


class TaskExecutorPartitionTracker:
    def __init__(self) -> None:
        self._jobs: dict[JobID, _JobPartitions] = {}

    def start_making(self, job_id: JobID, execution_attempt_id: str, result_partition_ids: Iterable[str]) -> None:
        """A task with these blocking results was deployed."""
        partitions = frozenset(result_partition_ids)
        if partitions:
            self._jobs.setdefault(job_id, _JobPartitions()).made[execution_attempt_id] = partitions

    def task_ended(self, job_id: JobID, execution_attempt_id: str, *, has_finished: bool) -> None:
        """Its results are held from now on; or are gone, with a task that failed. Idempotent."""
        job = self._jobs.get(job_id)
        if job is None:
            return
        partitions = job.made.pop(execution_attempt_id, frozenset())
        if has_finished:
            job.held |= partitions
        self._forget_empty(job_id, job)

    def held(self, job_id: JobID) -> list[str]:
        """What can be read here, in a stable order."""
        job = self._jobs.get(job_id)
        return [] if job is None else sorted(job.held)

    @property
    def jobs_with_partitions(self) -> list[JobID]:
        return sorted(job_id for job_id, job in self._jobs.items() if job.held)

    def release(self, job_id: JobID, result_partition_ids: Iterable[str]) -> list[str]:
        """Give these up; returns those that were held. Unknown ones are ignored."""
        job = self._jobs.get(job_id)
        if job is None:
            return []
        released = sorted(job.held.intersection(result_partition_ids))
        job.held.difference_update(released)
        self._forget_empty(job_id, job)
        return released

    def release_job(self, job_id: JobID) -> list[str]:
        """The job has left: returns all that was held."""
        job = self._jobs.pop(job_id, None)
        return [] if job is None else sorted(job.held)

    def orphan(self, job_id: JobID, deadline_ms: int) -> None:
        """The JobMaster is lost, and another one may come for the job until then."""
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
        """A JobMaster of the job has come; returns what is held for it."""
        job = self._jobs.get(job_id)
        if job is None:
            return []
        job.deadline_ms = None
        return sorted(job.held)

    def release_overdue(self, now_ms: int) -> dict[JobID, list[str]]:
        """What nobody came for in time; it is not held any more."""
        overdue = [
            job_id for job_id, job in self._jobs.items() if job.deadline_ms is not None and job.deadline_ms <= now_ms
        ]
        return {job_id: self.release_job(job_id) for job_id in overdue}

    def validate(self) -> None:
        """Assert every invariant."""
        for job in self._jobs.values():
            assert not job.is_empty
            assert job.deadline_ms is None or (job.held and not job.made)
            made = [partition for partitions in job.made.values() for partition in partitions]
            assert len(made) == len(set(made)) and not job.held.intersection(made)

    def _forget_empty(self, job_id: JobID, job: _JobPartitions) -> None:
        if job.is_empty:
            del self._jobs[job_id]


class PartitionTable:
    """What of the partitions of jobs is still here, and the dropping of it. Thread: main thread."""

    def __init__(self, deployer: TaskDeployer, now_ms: Callable[[], int]) -> None:
        self.tracker = TaskExecutorPartitionTracker()
        self._deployer = deployer
        self._now_ms = now_ms

    def release(self, job: Job[Any, Any, Any], result_partition_ids: Iterable[str]) -> None:
        """The JobMaster does not need these any more. Unknown ones are ignored."""
        known = [partition_id for partition_id in result_partition_ids if partition_id in job.result_partition_ids]
        self.tracker.release(job.job_id, known)
        job.result_partition_ids.difference_update(known)
        for partition_id in known:
            self._deployer.release_partition(partition_id, None)

    def unread(self, job: Job[Any, Any, Any]) -> set[str]:
        """Those of the job that are still here; it is told of no others."""
        job.result_partition_ids = {
            partition_id
            for partition_id in job.result_partition_ids
            if not self._deployer.partition_is_released(partition_id)
        }
        return job.result_partition_ids

    def orphan(self, job: Job[Any, Any, Any]) -> None:
        """Its JobMaster is lost: where another one can go on with its finished partitions, they wait for that."""
        held = self.tracker.held(job.job_id)
        if not held or not job.orphan_timeout_ms:
            return
        logger.info("job %s: %d finished partitions wait for another JobMaster", job.job_id, len(held))
        self.tracker.orphan(job.job_id, self._now_ms() + job.orphan_timeout_ms)
        job.result_partition_ids.difference_update(held)

    def release_job(self, job: Job[Any, Any, Any], cause: FlinkError) -> None:
        """The job leaves: drop all of it but orphans."""
        if not self.tracker.is_orphaned(job.job_id):
            self.tracker.release_job(job.job_id)
        for partition_id in job.result_partition_ids:
            self._deployer.release_partition(partition_id, cause)
        job.result_partition_ids.clear()

    def release_overdue(self) -> None:
        """Drop the orphans that nobody has come for."""
        for job_id, partition_ids in self.tracker.release_overdue(self._now_ms()).items():
            logger.info("job %s: nobody came for %d finished partitions", job_id, len(partition_ids))
            for partition_id in partition_ids:
                self._deployer.release_partition(partition_id, None)


def orphan_timeout_ms(job: common_pb2.Configuration) -> int:
    """How long finished partitions of the job wait for its next JobMaster; 0: not at all."""
    configuration = Configuration.from_dict(dict(job.entries))
    if not read_option(configuration, batch_options.JOB_RECOVERY_ENABLED):
        return 0
    return int(read_option(configuration, batch_options.JOB_RECOVERY_WORKER_TIMEOUT))
