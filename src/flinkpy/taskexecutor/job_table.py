"""JobTable: the jobs of a TaskExecutor, with the tasks and partitions of each.

A job is in the table from the first slot requested for it until it has no slot, task or result partition, or until its
JobMaster is lost. `execution_attempt_is_known` recognises repeated and late SubmitTasks and CancelTasks calls.

Pure. Source: org.apache.flink.runtime.taskexecutor.JobTable. Differs: a job's slots keep it alive, not a separate
connection state.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from flinkpy._proto import jobmaster_pb2, taskexecutor_pb2
from flinkpy.common.ids import JobID, JobMasterId

T = TypeVar("T")
C = TypeVar("C")
U = TypeVar("U")

#: The maximum number of ended attempts that are kept per job, so that a late copy of their SubmitTasks does not run
#: them again. A restart loop makes some thousand attempts an hour, and a late copy is seconds old.
MAX_ENDED_ATTEMPTS = 4096


@dataclass(frozen=True, slots=True)
class LastReport:
    """The last report about an ended attempt, for another JobMaster of the job."""

    task: taskexecutor_pb2.ReportedTask
    update: jobmaster_pb2.TaskExecutionStateUpdate


@dataclass(slots=True)
class Job(Generic[T, C, U]):
    """One job. T: its tasks, C: its JobMaster connection, U: its user code."""

    job_id: JobID
    job_master_address: str
    #: The fencing token of the job's calls.
    job_master_id: JobMasterId
    connection: C
    user_code: U | None = None
    #: Running tasks by execution attempt.
    tasks: dict[str, T] = field(default_factory=dict)
    #: Result partitions that may not have been released; they can outlive their task.
    result_partition_ids: set[str] = field(default_factory=set)
    #: How long finished blocking partitions wait for another JobMaster after the loss of this one.
    orphan_timeout_ms: int = 0
    #: How long the tasks go on after the loss of the JobMaster; 0: not at all.
    adoption_timeout_ms: int = 0
    #: True while the tasks run without a JobMaster.
    is_orphaned: bool = False
    #: The id of the JobMaster that asked last for a report of the tasks.
    reported_to: str = ""
    #: The last reports of ended attempts that another JobMaster needs: of finished ones, and of those that ended while
    #: the job had no JobMaster.
    last_reports: dict[str, LastReport] = field(default_factory=dict)
    #: The ended attempts, oldest first; disjoint from `tasks`.
    ended_attempts: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def execution_attempt_is_known(self, execution_attempt_id: str) -> bool:
        """True if the attempt runs or ran here, or was canceled before it arrived."""
        return execution_attempt_id in self.tasks or execution_attempt_id in self.ended_attempts

    def end_attempt(self, execution_attempt_id: str) -> None:
        """Marks the attempt as ended."""
        self.tasks.pop(execution_attempt_id, None)
        self.ended_attempts[execution_attempt_id] = None
        while len(self.ended_attempts) > MAX_ENDED_ATTEMPTS:
            self.ended_attempts.popitem(last=False)


class JobTable(Generic[T, C, U]):
    """The jobs by id."""

    def __init__(self) -> None:
        self._jobs: dict[JobID, Job[T, C, U]] = {}
        #: True until the first job is added.
        self.is_unused = True

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job[T, C, U]]:
        return iter(list(self._jobs.values()))

    def get(self, job_id: JobID) -> Job[T, C, U] | None:
        return self._jobs.get(job_id)

    def add(self, job: Job[T, C, U]) -> None:
        assert job.job_id not in self._jobs, f"job {job.job_id} is in the table already"
        self._jobs[job.job_id] = job
        self.is_unused = False

    def remove(self, job_id: JobID) -> Job[T, C, U] | None:
        return self._jobs.pop(job_id, None)

    def task(self, execution_attempt_id: str) -> T | None:
        """Returns the running task of the attempt, of any job, or None."""
        for job in self._jobs.values():
            found = job.tasks.get(execution_attempt_id)
            if found is not None:
                return found
        return None

    def validate(self) -> None:
        """Asserts every invariant."""
        for job_id, job in self._jobs.items():
            assert job.job_id == job_id
            assert not set(job.tasks) & set(job.ended_attempts)
            assert len(job.ended_attempts) <= MAX_ENDED_ATTEMPTS
