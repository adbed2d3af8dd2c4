"""SpeculativeScheduler: runs further attempts of slow tasks of a batch job on other TaskExecutors.

  * Only tasks that can run twice at the same time, and that share neither their slot nor their region, are eligible.
  * The first attempt to finish wins. All others are canceled, and their results are released. Consumers read only
    results of the winner, because they are deployed after their inputs are finished.
  * An attempt that fails while another one runs is not a failure of the task.
  * The TaskExecutor of a slow task is blocked for a while: it gets no speculative attempts.

Source: org.apache.flink.runtime.scheduler.adaptivebatch.DefaultSpeculativeExecutionHandler. Differs: sources are never
attempted twice. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.errors import FlinkError, RpcTimeoutError, TaskManagerLostError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ExecutionVertexID, ResourceID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.jobmaster.scheduler.slot_allocator import Released, SlotSharingExecutionSlotAllocator
from flinkpy.jobmaster.scheduler.slow_task_detector import slow_tasks
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotRequest
from flinkpy.jobmaster.slotpool.physical_slot import PhysicalSlot

logger = logging.getLogger(__name__)

_E = ExecutionState
_ON_THE_WAY = {_E.DEPLOYING: 1, _E.INITIALIZING: 2, _E.RUNNING: 3}


@dataclass(eq=False, slots=True)
class _AttemptSlot:
    request_id: int
    execution: Execution
    slot: PhysicalSlot | None = None


class SpeculativeSlotAllocator(SlotSharingExecutionSlotAllocator):
    """Assigns slots to speculative attempts, in addition to the slots of the subtasks.

    The scheduler takes the outcomes from `fulfilled_attempts` and `lost_attempts`, and empties these lists.

    Invariant: an attempt has an entry exactly as long as it needs its slot.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        super().__init__(graph)
        #: The slots of speculative attempts.
        self._attempts: dict[ExecutionAttemptID, _AttemptSlot] = {}
        self.fulfilled_attempts: list[Execution] = []
        self.lost_attempts: list[Execution] = []

    def allocate_attempt(self, execution: Execution, excluded: frozenset[ResourceID]) -> SlotRequest:
        request_id = self._next_request_id
        self._next_request_id += 1
        self._attempts[execution.attempt_id] = _AttemptSlot(request_id, execution)
        resources = self._graph.vertex(execution.attempt_id.vertex).job_vertex.slot_resources
        return SlotRequest(request_id, excluded_resources=excluded, resources=resources)

    def slot_of_attempt(self, execution: Execution) -> PhysicalSlot | None:
        return self._attempts[execution.attempt_id].slot

    def release_attempt(self, execution: Execution) -> Released:
        """Releases the slot of a speculative attempt. Idempotent."""
        entry = self._attempts.pop(execution.attempt_id, None)
        if entry is None:
            return Released()
        if entry.slot is None:
            return Released(cancelled_requests=frozenset({entry.request_id}))
        return Released(returned_slots=(entry.slot.allocation_id,))

    def swap(self, vertex_id: ExecutionVertexID, winner: Execution, loser: Execution) -> None:
        """Exchanges the slots: the subtask gets the slot of `winner`, and `loser` gets that of the subtask."""
        entry = self._attempts.pop(winner.attempt_id)
        shared = self._shared[self._group_of[vertex_id]]
        shared.slot, entry.slot = entry.slot, shared.slot
        entry.execution = loser
        self._attempts[loser.attempt_id] = entry

    def is_alone(self, vertex_id: ExecutionVertexID) -> bool:
        """True if the subtask shares its slot with no other subtask."""
        return len(self._group_of[vertex_id].members) == 1

    def fulfilled(self, request_id: int, slot: PhysicalSlot) -> list[ExecutionVertexID]:
        entry = self._entry_of_request(request_id)
        if entry is None:
            return super().fulfilled(request_id, slot)
        entry.slot = slot
        self.fulfilled_attempts.append(entry.execution)
        return []

    def users_of_requests(self, request_ids: Iterable[int]) -> list[ExecutionVertexID]:
        ids = list(request_ids)
        for entry in list(self._attempts.values()):
            if entry.slot is None and entry.request_id in ids:
                self._lose(entry)
        return super().users_of_requests(ids)

    def users_of_slot(self, allocation_id: AllocationID) -> list[ExecutionVertexID]:
        for entry in list(self._attempts.values()):
            if entry.slot is not None and entry.slot.allocation_id == allocation_id:
                self._lose(entry)
        return super().users_of_slot(allocation_id)

    @property
    def allocations(self) -> frozenset[AllocationID]:
        own = (entry.slot.allocation_id for entry in self._attempts.values() if entry.slot is not None)
        return super().allocations | frozenset(own)

    @property
    def waiting_requests(self) -> frozenset[int]:
        own = (entry.request_id for entry in self._attempts.values() if entry.slot is None)
        return super().waiting_requests | frozenset(own)

    def _lose(self, entry: _AttemptSlot) -> None:
        del self._attempts[entry.execution.attempt_id]
        self.lost_attempts.append(entry.execution)

    def _entry_of_request(self, request_id: int) -> _AttemptSlot | None:
        waiting = (entry for entry in self._attempts.values() if entry.slot is None)
        return next((entry for entry in waiting if entry.request_id == request_id), None)


class Blocklist:
    """TaskExecutors with slow tasks, which get no speculative attempts for a certain time.

    Source: org.apache.flink.runtime.blocklist.DefaultBlocklistTracker. Differs: it blocks TaskExecutors, not hosts.
    """

    def __init__(self) -> None:
        self._until_ms: dict[ResourceID, int] = {}

    def block(self, resource_id: ResourceID, until_ms: int) -> None:
        """Blocks the TaskExecutor until the given time, or until a later time that was set before."""
        self._until_ms[resource_id] = max(until_ms, self._until_ms.get(resource_id, 0))

    def blocked(self, now_ms: int) -> frozenset[ResourceID]:
        self._until_ms = {resource: until for resource, until in self._until_ms.items() if until > now_ms}
        return frozenset(self._until_ms)


class SpeculativeScheduler(DefaultScheduler):
    """A DefaultScheduler with speculative execution.

    Raises at construction: JobSubmissionError if the JobGraph cannot be executed.
    """

    _allocator: SpeculativeSlotAllocator

    def __init__(self, job_graph: Any, **arguments: Any) -> None:
        super().__init__(job_graph, **arguments)
        self._speculation = self._options.speculative
        self._allocator = SpeculativeSlotAllocator(self.graph)
        self._blocklist = Blocklist()
        self._next_check_ms = self._now_ms + self._speculation.detector.check_interval_ms
        #: The number of tasks that were slow at the last check. Any thread may read it.
        self.num_slow_tasks = 0
        #: The number of speculative attempts that finished before the first one. Any thread may read it.
        self.num_effective_attempts = 0

    @property
    def next_deadline_ms(self) -> int | None:
        deadline_ms = super().next_deadline_ms
        if self.state is not JobState.RUNNING:
            return deadline_ms
        return self._next_check_ms if deadline_ms is None else min(deadline_ms, self._next_check_ms)

    def validate(self) -> None:
        super().validate()
        for vertex in self.graph.vertices:
            for execution in vertex.speculative:
                assert not execution.state.is_terminal, f"{execution} has ended"
                assert execution.attempt_id != vertex.current.attempt_id

    # Detection

    def _on_check_deadlines(self, event: ev.CheckDeadlines) -> None:
        super()._on_check_deadlines(event)
        if self._now_ms >= self._next_check_ms:
            self._next_check_ms = self._now_ms + self._speculation.detector.check_interval_ms
            if self.state is JobState.RUNNING:
                self._attempt_slow_tasks()

    def _attempt_slow_tasks(self) -> None:
        candidates = [vertex for vertex in self.graph.job_vertices.values() if _may_run_twice(vertex)]
        slow = slow_tasks(candidates, self._speculation.detector, self._now_ms)
        self.num_slow_tasks = len(slow)
        until_ms = self._now_ms + self._speculation.block_slow_node_duration_ms
        for vertex in slow:
            assert vertex.current.slot is not None
            self._blocklist.block(vertex.current.slot.location.resource_id, until_ms)
        for vertex in slow:
            alone = self._allocator.is_alone(vertex.id) and len(self._regions.region_of(vertex.id).vertex_ids) == 1
            if alone and 1 + len(vertex.speculative) < self._speculation.max_concurrent_executions:
                self._attempt_again(vertex)

    def _attempt_again(self, vertex: ExecutionVertex) -> None:
        logger.info("task %s is slow; starting a speculative attempt", vertex.task_name)
        execution = vertex.add_speculative_execution(self._now_ms)
        self._move(vertex, execution, _E.SCHEDULED)
        excluded = self._blocklist.blocked(self._now_ms)
        self._out.blocked = excluded
        request = self._allocator.allocate_attempt(execution, excluded)
        self._run_pool_effects(self.slot_pool.request_slots([request], self._now_ms))

    # Slots

    def _advance(self) -> None:
        self._out.blocked = self._blocklist.blocked(self._now_ms)
        ready = self._allocator.fulfilled_attempts
        self._allocator.fulfilled_attempts = []
        lost = self._allocator.lost_attempts
        self._allocator.lost_attempts = []
        for execution in ready:
            vertex = self.graph.vertex(execution.attempt_id.vertex)
            if execution in vertex.speculative and execution.state is _E.SCHEDULED:
                self._deploy_attempt(vertex, execution)
        for execution in lost:
            vertex = self.graph.vertex(execution.attempt_id.vertex)
            if execution in vertex.speculative:
                execution.failure = TaskManagerLostError(f"the slot of attempt {execution.attempt_id} is lost")
                self._end_attempt(vertex, execution, _E.FAILED)
        super()._advance()

    def _deploy_attempt(self, vertex: ExecutionVertex, execution: Execution) -> None:
        execution.slot = self._allocator.slot_of_attempt(execution)
        self._move(vertex, execution, _E.DEPLOYING)
        self._unanswered.add(execution.attempt_id)
        self._out.submit_attempt(vertex, execution)

    # Reports about attempts

    def _on_tasks_submitted(self, event: ev.TasksSubmitted) -> None:
        rejected = dict(event.rejections)
        usual = []
        for attempt_id in event.attempts:
            vertex, execution = self._find_attempt(attempt_id)
            if vertex is None or execution is None:
                usual.append(attempt_id)
                continue
            self._unanswered.discard(attempt_id)
            error = rejected.get(attempt_id)
            if error is None:
                if execution.state is _E.CANCELING:
                    self._out.cancel(execution)
                continue
            if isinstance(error, RpcTimeoutError):  # the task may have been deployed
                self._out.cancel(execution)
            execution.failure = error
            self._end_attempt(vertex, execution, _E.FAILED)
        rejections = tuple((attempt, error) for attempt, error in event.rejections if attempt in usual)
        super()._on_tasks_submitted(replace(event, attempts=tuple(usual), rejections=rejections))

    def _on_task_state_updated(self, event: ev.TaskStateUpdated) -> None:
        vertex, execution = self._find_attempt(event.attempt_id)
        if vertex is None or execution is None:
            super()._on_task_state_updated(event)
            return
        execution.metrics = event.metrics or execution.metrics
        execution.accumulators = event.accumulators or execution.accumulators
        execution.result_bytes = event.result_bytes or execution.result_bytes
        match event.state:
            case _E.INITIALIZING | _E.RUNNING:
                if execution.state is _E.CANCELING:
                    self._out.cancel(execution)
                elif _ON_THE_WAY[event.state] > _ON_THE_WAY.get(execution.state, len(_ON_THE_WAY)):
                    self._move(vertex, execution, event.state)
            case _E.FINISHED if execution.state is not _E.CANCELING and vertex.current.is_deployed:
                self._win(vertex, execution)
            case _:
                if event.state is _E.FINISHED:  # another attempt has won, so nobody reads its results
                    self._out.release_partitions(vertex, execution)
                execution.failure = event.error
                state = event.state if execution.state is _E.CANCELING else _E.FAILED
                self._end_attempt(vertex, execution, state)

    def _win(self, vertex: ExecutionVertex, winner: Execution) -> None:
        """Makes `winner` the current execution of the subtask, and cancels the former one."""
        loser = vertex.current
        self._allocator.swap(vertex.id, winner, loser)
        vertex.promote(winner)
        self.num_effective_attempts += 1
        self._on_task_finished(vertex)

    def _on_task_finished(self, vertex: ExecutionVertex) -> None:
        super()._on_task_finished(vertex)
        for execution in list(vertex.speculative):
            self._cancel_attempt(vertex, execution)

    def _fail(self, vertex: ExecutionVertex, cause: FlinkError) -> None:
        execution = vertex.current
        others = [other for other in vertex.speculative if other.is_deployed and other.state is not _E.CANCELING]
        if not others or execution.state.is_terminal or execution.state is _E.CANCELING:
            super()._fail(vertex, cause)
            return
        self.exception_history.record(cause, vertex, self._now_ms)
        self._allocator.swap(vertex.id, others[0], execution)
        vertex.promote(others[0])
        execution.failure = cause
        self._end_attempt(vertex, execution, _E.FAILED)

    def _cancel(self, vertex: ExecutionVertex) -> None:
        super()._cancel(vertex)
        for execution in list(vertex.speculative):
            self._cancel_attempt(vertex, execution)

    # Transitions of an attempt

    def _cancel_attempt(self, vertex: ExecutionVertex, execution: Execution) -> None:
        if execution.state is _E.CANCELING:
            return
        if not execution.is_deployed:
            self._end_attempt(vertex, execution, _E.CANCELED)
            return
        self._move(vertex, execution, _E.CANCELING)
        assert execution.slot is not None
        if self.slot_pool.location(execution.slot.location.resource_id) is None:  # its TaskExecutor is gone
            self._end_attempt(vertex, execution, _E.CANCELED)
        elif execution.attempt_id not in self._unanswered:
            self._out.cancel(execution)

    def _end_attempt(self, vertex: ExecutionVertex, execution: Execution, state: ExecutionState) -> None:
        self._move(vertex, execution, state)
        self._unanswered.discard(execution.attempt_id)
        vertex.end_speculative_execution(execution)
        released = self._allocator.release_attempt(execution)
        if released.cancelled_requests:
            self._run_pool_effects(self.slot_pool.cancel_requests(released.cancelled_requests))
        for allocation_id in released.returned_slots:
            self._run_pool_effects(self.slot_pool.return_slot(allocation_id, self._now_ms))

    def _move(self, vertex: ExecutionVertex, execution: Execution, state: ExecutionState) -> None:
        execution.transition(state, self._now_ms)
        self._out.add(fx.TaskStateChanged(vertex.task_name, execution.attempt_id, state, execution.failure))

    def _find_attempt(self, attempt_id: ExecutionAttemptID) -> tuple[ExecutionVertex | None, Execution | None]:
        """Returns the vertex and the speculative execution with this id; None for each that does not exist."""
        vertex = self.graph.find_vertex(attempt_id)
        if vertex is None:
            return None, None
        found = (execution for execution in vertex.speculative if execution.attempt_id == attempt_id)
        return vertex, next(found, None)


def _may_run_twice(vertex: ExecutionJobVertex) -> bool:
    blocking = all(result.is_blocking for result in (*vertex.inputs, *vertex.results))
    return vertex.job_vertex.supports_concurrent_attempts and blocking and not vertex.has_coordinators
