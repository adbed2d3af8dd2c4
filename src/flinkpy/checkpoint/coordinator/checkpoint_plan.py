"""CheckpointPlan: the tasks that a checkpoint triggers, waits for and notifies; and the JobView it is computed from.

A checkpoint triggers the tasks that receive barriers from no other task: sources, and tasks whose producers have all
finished. It records finished tasks as finished.

Source: org.apache.flink.runtime.checkpoint.{CheckpointPlan,DefaultCheckpointPlanCalculator}. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState


@dataclass(frozen=True, slots=True)
class CheckpointedOperator:
    operator_id: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class CheckpointedVertex:
    """A JobVertex. Subtask i reads from the subtasks `producers[i]`, which is empty for a source."""

    id: JobVertexID
    name: str
    operators: tuple[CheckpointedOperator, ...]
    parallelism: int
    max_parallelism: int
    producers: tuple[tuple[ExecutionVertexID, ...], ...]
    has_blocking_output: bool = False

    @property
    def tasks(self) -> list[ExecutionVertexID]:
        return [ExecutionVertexID(self.id, index) for index in range(self.parallelism)]

    @property
    def is_source(self) -> bool:
        return not any(self.producers)


class JobView(Protocol):
    """The CheckpointCoordinator's view of its job.

    The vertices never change during the life of a JobMaster. The attempts of the subtasks and their states do.
    """

    @property
    def job_id(self) -> str: ...

    @property
    def job_name(self) -> str: ...

    @property
    def vertices(self) -> Sequence[CheckpointedVertex]:
        """In topological order."""
        ...

    def task(self, vertex_id: ExecutionVertexID) -> tuple[ExecutionAttemptID, ExecutionState]:
        """Returns the current attempt of the subtask and its state."""
        ...


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The tasks of one checkpoint.

    Invariant: each subtask of the job is either waited for or finished. All triggered tasks are waited for.
    """

    tasks_to_trigger: tuple[ExecutionAttemptID, ...]
    tasks_to_wait_for: tuple[ExecutionAttemptID, ...]
    finished_tasks: frozenset[ExecutionVertexID]

    @property
    def tasks_to_commit_to(self) -> tuple[ExecutionAttemptID, ...]:
        return self.tasks_to_wait_for

    def without(self, ended: Collection[ExecutionVertexID], job: JobView) -> CheckpointPlan:
        """Returns the plan with these tasks as finished. It triggers tasks that only received barriers from them."""
        running = {attempt.vertex: attempt for attempt in self.tasks_to_wait_for if attempt.vertex not in ended}
        return _plan_of(job, running, self.finished_tasks.union(ended))


def calculate_plan(job: JobView, *, after_tasks_finish: bool) -> CheckpointPlan:
    """Returns the plan of a checkpoint that begins now.

    Raises: CheckpointError with the reason NOT_ALL_REQUIRED_TASKS_RUNNING or BLOCKING_OUTPUT_EXIST.
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
        raise checkpoint_error(Reason.NOT_ALL_REQUIRED_TASKS_RUNNING, "All tasks have finished.")
    return _plan_of(job, running, frozenset(finished))


def may_have_plan_later(job: JobView, *, after_tasks_finish: bool) -> bool:
    """True if a job that is starting or restarting may have a plan once it runs.

    The tasks of such a job may be in any state: they wait for slots or for the delay of a restart, or are being
    canceled before they run again.
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
    # Over an ALL_TO_ALL edge all subtasks share one tuple of producers, so one check is enough.
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
