"""AdaptiveScheduler: runs a streaming job with the slots that there are, and rescales it when they change.

The job declares the slots that it desires, and keeps all that it gets (`slot_sharing_slot_allocator`). `states` decides
when it starts, restarts and rescales. Each of these begins a generation of subtasks, with the parallelism that fits the
slots. It deploys, checkpoints and cancels them as DefaultScheduler does, with these differences:

  * Each failure restarts all tasks, because the parallelism of all may change.
  * A rescale restarts only vertices with another parallelism, and those that exchange data with them. The others go on.
  * A generation begins only when no task of the former one is left.
  * The coordinators of vertices with another parallelism are created anew, and restored like the others.

Source: org.apache.flink.runtime.scheduler.adaptive.AdaptiveScheduler. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from flinkpy._proto import job_pb2
from flinkpy.common.errors import FlinkError, NoResourceAvailableError
from flinkpy.common.ids import ExecutionVertexID, JobVertexID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.failover.execution_failure_handler import FailJob, Restart
from flinkpy.jobmaster.failover.restart_strategy import RestartBackoffTimeStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive import states
from flinkpy.jobmaster.scheduler.adaptive.connected_vertices import with_connected_vertices
from flinkpy.jobmaster.scheduler.adaptive.job_resource_requirements import (
    JobResourceRequirements,
    checked_requirements,
    initial_requirements,
)
from flinkpy.jobmaster.scheduler.adaptive.slot_sharing_slot_allocator import (
    SlotSharingSlotAllocator,
    VertexParallelism,
    determine_parallelism,
    group_bounds,
    lacking,
)
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.scheduler.job_checkpoints import Restore, StateAssigner
from flinkpy.jobmaster.scheduler.pipelined_region import PipelinedRegions, PipelinedRegionSchedulingStrategy
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions

logger = logging.getLogger(__name__)

_J = JobState

#: A request of this scheduler never times out: `states.WaitingForResources` decides how long the job waits.
_NEVER_MS = 1 << 62


class AdaptiveScheduler(DefaultScheduler):
    """Schedules one streaming job. It is the context of its states.

    Invariant: a generation of subtasks begins only when all tasks of the former one are terminal. The subtasks of a
    generation are those of all vertices, or after a rescale those of the vertices that it restarts.
    """

    # The former JobMaster may have run the job with another parallelism, which the JobGraph does not tell.
    can_adopt_tasks = False

    def __init__(
        self,
        job_graph: job_pb2.JobGraph,
        *,
        graph_id: str,
        options: SchedulerOptions,
        restart_strategy: RestartBackoffTimeStrategy,
        now_ms: int,
        random: Random | None = None,
        state_assigner: StateAssigner | None = None,
    ) -> None:
        self.adaptive_options = options.adaptive_scheduler
        slots = SlotPoolOptions(request_timeout_ms=_NEVER_MS, idle_timeout_ms=options.slot_pool.idle_timeout_ms)
        super().__init__(
            job_graph,
            graph_id=graph_id,
            options=replace(options, slot_pool=slots, failover_strategy="full"),
            restart_strategy=restart_strategy,
            now_ms=now_ms,
            random=random,
            state_assigner=state_assigner,
        )
        self._slots = SlotSharingSlotAllocator(
            self.graph, prefers_minimal_task_managers=self.adaptive_options.prefers_minimal_task_managers
        )
        self._allocator = self._slots
        self._stored_requirements = job_graph.resource_requirements
        #: None until the job starts, because a restored checkpoint may change the max parallelism of vertices.
        self._requirements: JobResourceRequirements | None = None
        #: The number of generations that began because of another parallelism.
        self.num_rescales = 0
        self._deployed_ms = now_ms
        self._handlers[ev.ResourceRequirementsChanged] = self._on_requirements_changed
        #: The numbers of completed and of failed checkpoints that the state knows.
        self._num_checkpoints = (0, 0)
        self.scheduler_state: states.State = states.Created(self)

    # Readings

    @property
    def requirements(self) -> JobResourceRequirements:
        if self._requirements is None:
            stored = self._stored_requirements.vertices
            if stored:
                self._requirements = checked_requirements(self.graph, stored)
            else:
                self._requirements = initial_requirements(self.graph, is_reactive=self.adaptive_options.is_reactive)
        return self._requirements

    @property
    def num_desired_slots(self) -> int:
        return sum(bounds.upper for bounds in group_bounds(self.graph, self.requirements).values())

    @property
    def num_slots_required(self) -> int:
        """The number of slots without which the job would not run as it does, or not run at all."""
        least = sum(bounds.lower for bounds in group_bounds(self.graph, self.requirements).values())
        return max(least, self._slots.num_in_use)

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = (
            super().next_deadline_ms,
            None if self.state.is_terminal else self.scheduler_state.next_deadline_ms,
        )
        return min([at for at in deadlines if at is not None], default=None)

    def validate(self) -> None:
        super().validate()
        if isinstance(self.scheduler_state, states.Executing | states.StopWithSavepoint):
            assert self.state is _J.RUNNING
        if not self.state.is_terminal and not isinstance(self.scheduler_state, states.Created):
            wanted = self._slots.num_held + len(self._slots.waiting_requests)
            assert wanted >= self.num_desired_slots, "the job wants too few slots"
            assert wanted <= max(self.num_desired_slots, self._slots.num_in_use), "the job wants too many slots"

    # Requirements

    def checked_requirements(self, wanted: Iterable[job_pb2.VertexParallelismBounds]) -> JobResourceRequirements:
        return checked_requirements(self.graph, wanted)

    def _on_requirements_changed(self, event: ev.ResourceRequirementsChanged) -> None:
        if not self.state.is_terminal and event.requirements != self._requirements:
            self._requirements = event.requirements
            self._sync_slots()
            self.scheduler_state.on_change()

    # Events

    def _on_start_scheduling(self, event: ev.StartScheduling) -> None:
        if self.state is _J.CREATED and isinstance(self.scheduler_state, states.Created):
            self.scheduler_state.start_scheduling()

    def _on_cancel_job(self, event: ev.CancelJob) -> None:
        self.scheduler_state.cancel()

    def _restart_or_fail(self, cause: FlinkError, failed: list[ExecutionVertexID] | None) -> None:
        self._consider_root_cause(cause)
        self.scheduler_state.handle_failure(cause)

    def _fail_job(self, cause: FlinkError) -> None:
        self.go_to_failing(cause)

    def _advance(self) -> None:
        """Tells the state what has happened, until it waits for something else."""
        if not self.state.is_terminal and not isinstance(self.scheduler_state, states.Created):
            self._sync_slots()
        self._observe_checkpoints()
        while not self.state.is_terminal:
            if self._slots.take_new_slots():
                self.scheduler_state.on_change()
            state = self.scheduler_state
            state.advance()
            if not self.state.is_terminal and not isinstance(self.scheduler_state, states.Created):
                self._sync_slots()
            if state is self.scheduler_state:
                break

    def _observe_checkpoints(self) -> None:
        statistics = self.checkpoints.coordinator.statistics
        completed, failed = self._num_checkpoints
        self._num_checkpoints = statistics.num_completed, statistics.num_failed
        if statistics.num_completed > completed:
            self.scheduler_state.on_checkpoint_completed()
        for _ in range(statistics.num_failed - failed):
            self.scheduler_state.on_checkpoint_failed()

    def _sync_slots(self) -> None:
        """Requests slots up to the desired number, and gives up those above it that no task uses."""
        surplus = self._slots.num_held + len(self._slots.waiting_requests) - self.num_desired_slots
        if surplus < 0:
            self._run_pool_effects(self.slot_pool.request_slots(self._slots.request(-surplus), self._now_ms))
        elif surplus > 0:
            released = self._slots.withdraw(surplus)
            self._run_pool_effects(self.slot_pool.cancel_requests(released.cancelled_requests))
            for allocation_id in released.returned_slots:
                self._run_pool_effects(self.slot_pool.return_slot(allocation_id, self._now_ms))

    # The context of the states: questions

    @property
    def now_ms(self) -> int:
        return self._now_ms

    def _available_parallelism(self) -> VertexParallelism | None:
        return determine_parallelism(self.graph, self.requirements, self._slots.num_held)

    def has_sufficient_resources(self) -> bool:
        return self._available_parallelism() is not None

    def has_desired_resources(self) -> bool:
        return self._slots.num_held >= self.num_desired_slots

    def would_change_parallelism(self) -> bool:
        available = self._available_parallelism()
        return available is not None and bool(self._changed_by(available))

    def _changed_by(self, parallelism: VertexParallelism) -> list[JobVertexID]:
        """Returns the vertices that have another parallelism than this one."""
        present = self.graph.job_vertices
        return [vertex_id for vertex_id, wanted in parallelism.items() if present[vertex_id].parallelism != wanted]

    @property
    def may_restore(self) -> bool:
        return self.checkpoints.may_restore

    @property
    def are_all_tasks_terminal(self) -> bool:
        return self.graph.is_all_terminal

    @property
    def have_restarted_tasks_ended(self) -> bool:
        return all(vertex.current.state.is_terminal for vertex in self.graph.vertices if self._restarts.has(vertex.id))

    @property
    def is_restart_partial(self) -> bool:
        return self.state is _J.RESTARTING and any(not self._restarts.has(vertex.id) for vertex in self.graph.vertices)

    @property
    def have_all_tasks_finished(self) -> bool:
        return self.graph.is_finished

    @property
    def is_stopping_with_savepoint(self) -> bool:
        return self.checkpoints.coordinator.is_stopping

    def how_to_handle_failure(self, cause: FlinkError) -> Restart | FailJob:
        return self._failure_handler.handle_global_failure(cause, self._now_ms)

    def not_enough_resources(self) -> FlinkError:
        missing = lacking(group_bounds(self.graph, self.requirements), self._slots.num_held)
        return NoResourceAvailableError(
            f"Not enough resources available for scheduling: job {self.graph.name!r} cannot run because {missing}. "
            f"{self._advice}"
        )

    # The context of the states: actions

    def _enter_state(self, state: states.State) -> None:
        logger.info("job %s: %s -> %s", self.graph.job_id, self.scheduler_state.name, state.name)
        self.scheduler_state = state

    def trigger_checkpoint(self) -> bool:
        self._run(self.checkpoints.coordinator.trigger_for_rescale(self._now_ms))
        return bool(self.checkpoints.coordinator.pending_ids)

    def go_to_waiting_for_resources(self) -> None:
        self._sync_slots()
        self._enter_state(states.WaitingForResources(self))

    def go_to_creating_execution_graph(self, *, is_last_try: bool = False) -> None:
        self._enter_state(states.CreatingExecutionGraph(self, is_last_try=is_last_try))

    def go_to_executing(self) -> None:
        parallelism = self._available_parallelism()
        assert parallelism is not None
        stopped = self._stopped_vertices()
        if not with_connected_vertices(self.graph, self._changed_by(parallelism)) <= stopped:
            self.go_to_rescaling()  # slots have come or gone since the first tasks were stopped
            return
        self._deploy_generation({vertex_id: parallelism[vertex_id] for vertex_id in stopped})
        self._enter_state(states.Executing(self, self._deployed_ms))

    def _stopped_vertices(self) -> frozenset[JobVertexID]:
        """Returns the vertices without running tasks, which the next generation is for."""
        return frozenset(
            vertex.id
            for vertex in self.graph.job_vertices.values()
            if self.state is not _J.RESTARTING or self._restarts.has(vertex.task_vertices[0].id)
        )

    def return_to_executing(self) -> None:
        self._enter_state(states.Executing(self, self._deployed_ms))

    def go_to_stop_with_savepoint(self) -> None:
        self._enter_state(states.StopWithSavepoint(self))

    def go_to_restarting(self, delay_ms: int, *, cause: FlinkError | None) -> None:
        self._restart(self.graph.vertices, delay_ms, is_rescale=False, cause=cause)

    def go_to_rescaling(self) -> None:
        available = self._available_parallelism()
        assert available is not None
        affected = with_connected_vertices(self.graph, self._changed_by(available)) | (
            self._stopped_vertices() if self.state is _J.RESTARTING else frozenset()
        )
        subtasks = [vertex for vertex in self.graph.vertices if vertex.id.job_vertex_id in affected]
        self._restart(subtasks, 0, is_rescale=True, cause=None)

    def _restart(
        self, vertices: Iterable[ExecutionVertex], delay_ms: int, *, is_rescale: bool, cause: FlinkError | None
    ) -> None:
        restarted = list(vertices)
        due_ms = self._now_ms + delay_ms
        # First, because a task that ends at once asks whether it restarts.
        self._restarts.add(frozenset(vertex.id for vertex in restarted), due_ms)
        self._enter_state(states.Restarting(self, due_ms, is_rescale=is_rescale))
        if self.state is not _J.RESTARTING:
            self._set_job_state(_J.RESTARTING, cause)
        for vertex in restarted:
            self._cancel(vertex)

    def go_to_canceling(self) -> None:
        self._enter_state(states.Canceling(self))
        self._set_job_state(_J.CANCELLING)
        self._cancel_everything()

    def go_to_failing(self, cause: FlinkError) -> None:
        self.graph.failure_cause = cause
        self._enter_state(states.Failing(self))
        if self.state is _J.INITIALIZING:
            self._terminate(_J.FAILED)
            return
        self._set_job_state(_J.FAILING)
        self._cancel_everything()

    def go_to_finished(self) -> None:
        if self.state is _J.FAILING:
            self._terminate(_J.FAILED)
        elif self.state is _J.CANCELLING:
            self.graph.failure_cause = None
            self._terminate(_J.CANCELED)
        else:
            self._terminate(_J.FINISHED)

    def _terminate(self, state: JobState) -> None:
        self._enter_state(states.Finished(self))
        self._restarts.clear()
        super()._terminate(state)

    def _deploy_generation(self, parallelism: VertexParallelism) -> None:
        """Creates and deploys new subtasks of these vertices, which restore the latest checkpoint."""
        changed = self._changed_by(parallelism)
        is_first = _J.RUNNING not in self.graph.status_timestamps
        for vertex_id in parallelism:
            for vertex in self.graph.job_vertices[vertex_id].task_vertices:
                self._unexplained.explained(vertex.current.attempt_id)
        self._restarts.clear()
        self.graph.rescale(parallelism, self._now_ms)
        self._regions = PipelinedRegions(self.graph)
        self._strategy = PipelinedRegionSchedulingStrategy(self.graph, self._regions, self.partitions.is_available)
        job_vertices = [vertex for vertex in self.graph.job_vertices.values() if vertex.id in parallelism]
        self._slots.assign(job_vertices)
        self.checkpoints.rescaled()
        self._set_job_state(_J.RUNNING)
        restore = self.checkpoints.deploying([task.id for vertex in job_vertices for task in vertex.task_vertices])
        self._reset_coordinators(job_vertices, restore, changed, is_first=is_first)
        if changed and not is_first:
            self.num_rescales += 1
        self._deployed_ms = self._now_ms
        self._schedule(self._strategy.regions_to_start())

    def _reset_coordinators(
        self, vertices: list[ExecutionJobVertex], restore: Restore, changed: list[JobVertexID], *, is_first: bool
    ) -> None:
        """Lets the coordinators of these vertices continue from the restored checkpoint."""
        with_coordinators = [vertex for vertex in vertices if vertex.has_coordinators]
        recreated = tuple(vertex.id for vertex in with_coordinators if vertex.id in changed)
        if recreated:
            self._out.add(fx.RecreateCoordinators(recreated))
        for vertex in with_coordinators:
            is_fresh = is_first or vertex.id in recreated
            if restore.checkpoint_id is not None or not is_fresh:
                self._out.add(restore.of_coordinators(vertex))
        self._out.add(fx.StartCoordinators())
