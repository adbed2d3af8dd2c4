"""The tasks of a TaskExecutor while their job has no JobMaster, and the JobMaster that continues them.

```
   connected --JobMaster lost--> orphaned --ReportTasks--> orphaned --AdoptTasks--> connected to the new JobMaster
                                    |                         |
                                    +-- time-out, AdoptTasks without tasks, a slot request of a new JobMaster --> closed
```

Reports to the lost JobMaster are dropped: the new one learns the states of the tasks from the report and from the last
updates of those that have ended. It aborts all checkpoints that were in progress. Events to coordinators are dropped,
too, because tasks repeat them (`TaskLedger`).

docs/decisions/0088 describes the protocol. Differs: in Flink the tasks of a job fail when its JobMaster is lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from flinkpy._proto import common_pb2, jobmaster_pb2, taskexecutor_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import TaskSubmissionError
from flinkpy.common.ids import AllocationID
from flinkpy.common.states import ExecutionState
from flinkpy.configuration import execution_options, jobmanager_options, read_option
from flinkpy.taskexecutor.job_table import Job, LastReport
from flinkpy.taskexecutor.slot_table import TaskSlotTable
from flinkpy.taskexecutor.task import Task, state_update

#: The maximum number of kept reports of ended tasks. A job with more restores a checkpoint.
MAX_LAST_REPORTS = 4_096

AnyJob = Job[Task, Any, Any]


def adoption_timeout_ms(job: common_pb2.Configuration, of_process_ms: int) -> int:
    """Returns how long the tasks of the job go on without a JobMaster; 0: not at all, as for batch jobs."""
    configuration = Configuration.from_dict(dict(job.entries))
    if read_option(configuration, execution_options.RUNTIME_MODE) == "BATCH":
        return 0
    option = jobmanager_options.TASK_ADOPTION_TIMEOUT
    return int(read_option(configuration, option)) if option.key in job.entries else of_process_ms


def may_be_adopted(job: AnyJob) -> bool:
    """True if the tasks of the job go on when its JobMaster is lost."""
    return job.adoption_timeout_ms > 0 and not job.is_orphaned and any(_may_go_on(task) for task in job.tasks.values())


def _may_go_on(task: Task) -> bool:
    return task.state is ExecutionState.RUNNING and not task.ledger.obstacle


def keep_last_report(
    job: AnyJob, task: Task, slots: TaskSlotTable, update: jobmaster_pb2.TaskExecutionStateUpdate
) -> None:
    """Keeps the last report about an ended task if another JobMaster needs it."""
    if not job.adoption_timeout_ms or not (job.is_orphaned or task.state is ExecutionState.FINISHED):
        return
    job.last_reports[task.execution_attempt_id] = LastReport(_reported(task, slots), update)
    if len(job.last_reports) > MAX_LAST_REPORTS:
        del job.last_reports[next(iter(job.last_reports))]


def reported_tasks(job: AnyJob, slots: TaskSlotTable) -> list[taskexecutor_pb2.ReportedTask]:
    """Returns the tasks of the job, with those that have ended."""
    return [*(report.task for report in job.last_reports.values()), *(_reported(t, slots) for t in job.tasks.values())]


def _reported(task: Task, slots: TaskSlotTable) -> taskexecutor_pb2.ReportedTask:
    slot = slots.slot_of(AllocationID(task.deployed.allocation_id))
    report = taskexecutor_pb2.ReportedTask(
        execution_attempt_id=task.execution_attempt_id,
        allocation_id=task.deployed.allocation_id,
        slot_index=-1 if slot is None else slot.index,
        state=common_pb2.ExecutionState.Name(task.state.value),
    )
    task.ledger.add_to(report)
    return report


def check_attempts(job: AnyJob, execution_attempt_ids: Collection[str]) -> None:
    """Raises: TaskSubmissionError if one of the attempts is not known here."""
    for attempt in execution_attempt_ids:
        if attempt not in job.tasks and attempt not in job.last_reports:
            raise TaskSubmissionError(f"task {attempt} of job {job.job_id} is not here any more")


def continue_tasks(job: AnyJob, request: taskexecutor_pb2.AdoptTasksRequest) -> None:
    """Prepares the tasks for their new JobMaster, and queues what it must hear. The connection of the job is new."""
    named = set(request.execution_attempt_ids)
    for attempt, report in job.last_reports.items():
        if attempt in named:
            job.connection.report_state(report.update)
    for task in list(job.tasks.values()):
        if task.execution_attempt_id not in named:
            task.cancel()
            continue
        task.begin_events_again()
        if request.completed_checkpoint_id:
            task.notify_checkpoint_complete(request.completed_checkpoint_id)
        for checkpoint_id in request.aborted_checkpoint_ids:
            task.notify_checkpoint_aborted(checkpoint_id, request.completed_checkpoint_id)
        job.connection.report_state(state_update(task, task.state, None))
        if task.ledger.has_reached_end_of_data:
            job.connection.notify_end_of_data(task.execution_attempt_id)
