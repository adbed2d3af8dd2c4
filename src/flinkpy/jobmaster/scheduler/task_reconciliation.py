"""Decides whether a JobMaster can continue the tasks of a lost one.

The reports of TaskExecutors are enough: the former JobMaster has written nothing down when it deployed. The tasks can
be continued if

  * every subtask of the job has exactly one attempt that is RUNNING, or has FINISHED;
  * every running attempt reads the partitions of those attempts, so all belong to one execution of the job;
  * subtasks that share a slot are in one slot, and no others;
  * no task has an obstacle (`TaskLedger`), and each still knows the events since the restored checkpoint.

In all other cases the job restores its latest checkpoint, which is always correct.

Pure. Source: none; Flink has JobStatus.RECONCILING for this and does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.ids import (
    AllocationID,
    ExecutionAttemptID,
    ExecutionVertexID,
    JobVertexID,
    ResourceID,
    ResultPartitionID,
)
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot, TaskManagerLocation


@dataclass(frozen=True, slots=True)
class RunningTask:
    """An attempt that a TaskExecutor has reported.

    Attributes:
        slot: where it runs; of a finished attempt: where it ran.
        events: the events of coordinators that the restored checkpoint does not include: operator id and payload.
    """

    attempt_id: ExecutionAttemptID
    slot: PhysicalSlot
    is_finished: bool
    events: tuple[tuple[str, bytes], ...] = ()

    @property
    def job_vertex_id(self) -> JobVertexID:
        return self.attempt_id.vertex.job_vertex_id


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The decision.

    Attributes:
        tasks: the tasks to continue, one for each subtask; empty: they cannot be continued.
        reason: why they cannot be continued.
        may_change: True if tasks are missing, which another TaskExecutor may still report.
    """

    tasks: tuple[RunningTask, ...] = ()
    reason: str = ""
    may_change: bool = False


@dataclass(frozen=True, slots=True)
class LocatedReport:
    """The report of the TaskExecutor at an RPC address."""

    address: str
    report: taskexecutor_pb2.TaskReport

    @property
    def location(self) -> TaskManagerLocation:
        return TaskManagerLocation(ResourceID(self.report.resource_id), self.address, self.report.data_address)


class _NotContinuable(Exception):
    """The tasks cannot be continued, for the reason that is the message."""


def reconcile(
    graph: ExecutionGraph,
    sharing_group_of: Callable[[ExecutionVertexID], Hashable],
    reports: Iterable[LocatedReport],
    restored_checkpoint_id: int,
) -> Reconciliation:
    """Decides about the reported tasks.

    Args:
        graph: the new graph of the job.
        sharing_group_of: returns the group of the subtasks that share one slot with a subtask.
        restored_checkpoint_id: the checkpoint from which coordinators start; 0: from the beginning.
    """
    try:
        found = _by_vertex(graph, reports, restored_checkpoint_id)
    except _NotContinuable as error:
        return Reconciliation(reason=str(error))
    missing = [vertex.task_name for vertex in graph.vertices if vertex.id not in found]
    if missing:
        return Reconciliation(reason=f"{len(missing)} tasks do not run, as {missing[0]}", may_change=True)
    try:
        tasks = tuple(_chosen(found[vertex.id]) for vertex in graph.vertices)
        _check_inputs(tasks, found)
        _check_slots(tasks, sharing_group_of)
    except _NotContinuable as error:
        return Reconciliation(reason=str(error))
    return Reconciliation(tasks)


@dataclass(frozen=True, slots=True)
class _Reported:
    task: RunningTask
    consumed: tuple[str, ...]


def _by_vertex(
    graph: ExecutionGraph, reports: Iterable[LocatedReport], checkpoint_id: int
) -> dict[ExecutionVertexID, list[_Reported]]:
    known = {vertex.id for vertex in graph.vertices}
    found: dict[ExecutionVertexID, list[_Reported]] = {}
    for located in reports:
        for reported in located.report.tasks:
            one = _checked(located.location, reported, checkpoint_id)
            vertex_id = one.task.attempt_id.vertex
            if vertex_id not in known:
                raise _NotContinuable(f"the job has no subtask {vertex_id}")
            found.setdefault(vertex_id, []).append(one)
    return found


def _checked(location: TaskManagerLocation, reported: taskexecutor_pb2.ReportedTask, checkpoint_id: int) -> _Reported:
    attempt_id = ExecutionAttemptID.parse(reported.execution_attempt_id)
    state = ExecutionState(reported.state)
    if state not in (ExecutionState.RUNNING, ExecutionState.FINISHED):
        raise _NotContinuable(f"task {attempt_id} is {state.name}")
    if reported.obstacle:
        raise _NotContinuable(f"task {attempt_id}: {reported.obstacle}")
    if reported.events_since > checkpoint_id:
        raise _NotContinuable(f"task {attempt_id} knows of checkpoint {reported.events_since}, which is not the latest")
    events = tuple(
        (event.operator_id, event.payload_pickle)
        for event in reported.events
        if event.after_checkpoint_id >= checkpoint_id
    )
    slot = PhysicalSlot(AllocationID(reported.allocation_id), reported.slot_index, location)
    task = RunningTask(attempt_id, slot, state is ExecutionState.FINISHED, events)
    return _Reported(task, tuple(reported.consumed_partition_ids))


def _chosen(candidates: Sequence[_Reported]) -> RunningTask:
    """Returns the current attempt of a subtask. A finished one may have been replaced."""
    running = [one.task for one in candidates if not one.task.is_finished]
    if len(running) > 1:
        raise _NotContinuable(f"{running[0].attempt_id} and {running[1].attempt_id} run at the same time")
    if running:
        return running[0]
    tasks = [one.task for one in candidates]
    if len({task.attempt_id.execution_graph_id for task in tasks}) > 1:
        raise _NotContinuable(f"which attempt of {tasks[0].attempt_id.vertex} finished last is not known")
    return max(tasks, key=lambda task: task.attempt_id.attempt_number)


def _check_inputs(tasks: Sequence[RunningTask], found: dict[ExecutionVertexID, list[_Reported]]) -> None:
    attempts = {task.attempt_id for task in tasks}
    for task in tasks:
        if task.is_finished:
            continue
        (reported,) = [one for one in found[task.attempt_id.vertex] if one.task is task]
        for partition in reported.consumed:
            producer = ResultPartitionID.parse(partition).producer
            if producer not in attempts:
                raise _NotContinuable(f"task {task.attempt_id} reads from {producer}, which has been replaced")


def _check_slots(tasks: Sequence[RunningTask], group_of: Callable[[ExecutionVertexID], Hashable]) -> None:
    slots: dict[Hashable, PhysicalSlot] = {}
    for task in tasks:
        if not task.is_finished and slots.setdefault(group_of(task.attempt_id.vertex), task.slot) != task.slot:
            raise _NotContinuable(f"task {task.attempt_id} runs in another slot than the tasks it shares one with")
    if len(set(slots.values())) < len(slots):
        raise _NotContinuable("tasks run in one slot that should not share it")
