"""CheckpointPlan: which tasks start a checkpoint, which must acknowledge it, which are told of its completion.

The tasks to trigger are those that have nobody to get a barrier from: sources, and tasks all of whose producers have
finished. Finished tasks are part of the checkpoint as finished.

Source: org.apache.flink.runtime.checkpoint.{CheckpointPlan,DefaultCheckpointPlanCalculator}. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from flinkpy.checkpoint.coordinator.job_view import CheckpointedVertex, JobView
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID
from flinkpy.common.states import ExecutionState


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """Invariant: every subtask of the job is either waited for or finished; who is triggered is waited for."""

    tasks_to_trigger: tuple[ExecutionAttemptID, ...]
    tasks_to_wait_for: tuple[ExecutionAttemptID, ...]
    finished_tasks: frozenset[ExecutionVertexID]

    @property
    def tasks_to_commit_to(self) -> tuple[ExecutionAttemptID, ...]:
        return self.tasks_to_wait_for

    def without(self, ended: Collection[ExecutionVertexID], job: JobView) -> CheckpointPlan:
        """The same checkpoint with these as finished; whoever got barriers from nobody but them is triggered."""
        running = {attempt.vertex: attempt for attempt in self.tasks_to_wait_for if attempt.vertex not in ended}
        return _plan_of(job, running, self.finished_tasks.union(ended))


def calculate_plan(job: JobView, *, after_tasks_finish: bool) -> CheckpointPlan:
    """The plan of a checkpoint that would begin now.

    Raises: CheckpointError: NOT_ALL_REQUIRED_TASKS_RUNNING, BLOCKING_OUTPUT_EXIST.
    """
    running: dict[ExecutionVertexID, ExecutionAttemptID] = {}
    finished: set[ExecutionVertexID] = set()
    for vertex in job.vertices:
        if vertex.has_blocking_output:
            raise checkpoint_error(Reason.BLOCKING_OUTPUT_EXIST, f"Vertex {vertex.name!r} has a blocking result.")
        for task in vertex.tasks:
            attempt, state = job.task(task)
            if state is ExecutionState.FINISHED and after_tasks_finish:
                finished.add(task)
            elif state is ExecutionState.RUNNING:
                running[task] = attempt
            else:
                raise checkpoint_error(
                    Reason.NOT_ALL_REQUIRED_TASKS_RUNNING,
                    f"{vertex.name} ({task.subtask_index + 1}/{vertex.parallelism}) is {state.name}.",
                )
    if not running:
        raise checkpoint_error(Reason.NOT_ALL_REQUIRED_TASKS_RUNNING, "Every task has finished.")
    return _plan_of(job, running, frozenset(finished))


def may_have_plan_later(job: JobView, *, after_tasks_finish: bool) -> bool:
    """Returns whether a plan may be possible once the job, which is starting or restarting, runs.

    Tasks of such a job may be in any state: they wait for slots or for the delay of a restart, or are being canceled
    before they run again.
    """
    if any(vertex.has_blocking_output for vertex in job.vertices):
        return False
    states = {job.task(task)[1] for vertex in job.vertices for task in vertex.tasks}
    if ExecutionState.FINISHED in states:
        return after_tasks_finish and states != {ExecutionState.FINISHED}
    return True


def _plan_of(
    job: JobView, running: dict[ExecutionVertexID, ExecutionAttemptID], finished: frozenset[ExecutionVertexID]
) -> CheckpointPlan:
    to_trigger = tuple(running[task] for vertex in job.vertices for task in _starting_tasks(vertex, running))
    return CheckpointPlan(to_trigger, tuple(running.values()), finished)


def _starting_tasks(
    vertex: CheckpointedVertex, running: dict[ExecutionVertexID, ExecutionAttemptID]
) -> list[ExecutionVertexID]:
    # Over an ALL_TO_ALL edge all subtasks share one tuple of producers: ask once.
    known: dict[int, bool] = {}

    def has_running_producer(producers: tuple[ExecutionVertexID, ...]) -> bool:
        key = id(producers)
        if key not in known:
            known[key] = any(producer in running for producer in producers)
        return known[key]

    return [
        task
        for task in vertex.tasks
        if task in running and not has_running_producer(vertex.producers[task.subtask_index])
    ]
