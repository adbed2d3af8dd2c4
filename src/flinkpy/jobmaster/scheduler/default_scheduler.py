"""DefaultScheduler: the state machine that makes all decisions for a job.

`handle(event, now_ms)` gets each event and returns the effects, in order. Each call leaves a consistent state. The
machine has no clock: `next_deadline_ms` is the time at which it needs a `CheckDeadlines` event.

Rules:
  * A region is deployed when all its subtasks have slots. All tasks for one TaskExecutor go into one SubmitTasks call.
  * After a failure the tasks that the failover strategy names are restarted. The restart waits for the delay of the
    restart strategy, and until all these tasks are terminal. A later failure takes over tasks of pending restarts. If
    the restart strategy allows no restart, the job fails.
  * A task is canceled only after its submission has been answered, because a cancel call must not overtake it.
  * Restarted tasks restore the latest completed checkpoint (`job_checkpoints`). They wait while one is being written.
  * Messages may be late, repeated, or from an earlier attempt. An update without news is ignored. A task that runs but
    should not is canceled, if necessary again.

Source: org.apache.flink.runtime.scheduler.{DefaultScheduler,SchedulerBase}. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from flinkpy._proto import job_event_pb2, job_pb2
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.coordinator.effects import CheckpointEffect
from flinkpy.checkpoint.coordinator.effects import FailJob as FailJobForCheckpoint
from flinkpy.common.errors import (
    CheckpointStorageError,
    CorruptStateError,
    FlinkError,
    NoResourceAvailableError,
    PartitionConnectionError,
    PartitionNotFoundError,
    RpcTimeoutError,
    SlotAllocationError,
    TaskSubmissionError,
    UnsupportedOperationError,
)
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID, ResultPartitionID
from flinkpy.common.python_environment import environment_profile
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.executiongraph.intermediate_result import IntermediateResult, IntermediateResultPartition
from flinkpy.jobmaster.failover.execution_failure_handler import (
    ExceptionHistory,
    ExecutionFailureHandler,
    FailJob,
    PendingRestarts,
    is_closer_to_root,
)
from flinkpy.jobmaster.failover.failover_strategy import failover_strategy
from flinkpy.jobmaster.failover.restart_strategy import RestartBackoffTimeStrategy
from flinkpy.jobmaster.failover.settled_vertices import settled_vertices
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.job_event_store.job_events import RecordedJob
from flinkpy.jobmaster.job_event_store.restored_tasks import restore_finished_tasks
from flinkpy.jobmaster.partition_tracker import JobMasterPartitionTracker
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive.job_resource_requirements import JobResourceRequirements
from flinkpy.jobmaster.scheduler.adaptive.states import AdaptiveSchedulerOptions
from flinkpy.jobmaster.scheduler.adaptive_parallelism import (
    AdaptiveParallelism,
    AdaptiveParallelismOptions,
    with_bounds,
)
from flinkpy.jobmaster.scheduler.deployment_reconciler import ABSENCE_GRACE_MS, DeploymentReconciler, UnexplainedCancels
from flinkpy.jobmaster.scheduler.effect_buffer import EffectBuffer
from flinkpy.jobmaster.scheduler.job_checkpoints import JobCheckpoints, StateAssigner
from flinkpy.jobmaster.scheduler.pipelined_region import (
    PipelinedRegion,
    PipelinedRegions,
    PipelinedRegionSchedulingStrategy,
)
from flinkpy.jobmaster.scheduler.slot_allocator import SlotSharingExecutionSlotAllocator
from flinkpy.jobmaster.scheduler.slow_task_detector import SpeculativeExecutionOptions
from flinkpy.jobmaster.scheduler.task_reconciliation import LocatedReport, Reconciliation, RunningTask, reconcile
from flinkpy.jobmaster.slotpool import declarative_slot_pool as sp
from flinkpy.jobmaster.slotpool.declarative_slot_pool import DeclarativeSlotPool, SlotPoolOptions
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer

_E = ExecutionState
_J = JobState

#: The order of the states of a starting task. An update to the same or an earlier state is ignored.
_PROGRESS = {_E.DEPLOYING: 1, _E.INITIALIZING: 2, _E.RUNNING: 3}

#: The states in which a task knows the locations of its inputs.
_READING_OR_DONE = frozenset({*_PROGRESS, _E.FINISHED})

#: The key in the details of a data connection error under which it names the partition.
PARTITION_DETAIL = "result_partition_id"


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """The options of the scheduler. Defaults are Flink's."""

    slot_pool: SlotPoolOptions = field(default_factory=SlotPoolOptions)
    failover_strategy: str = "region"
    releases_partitions_during_execution: bool = True
    attempts_history_size: int = 16
    exception_history_size: int = 16
    absence_grace_ms: int = ABSENCE_GRACE_MS
    #: True to record finished tasks, so that the next JobMaster does not run them again. A job with committers records
    #: them in any case.
    records_events: bool = False
    speculative: SpeculativeExecutionOptions = field(default_factory=SpeculativeExecutionOptions)
    adaptive: AdaptiveParallelismOptions = field(default_factory=AdaptiveParallelismOptions)
    adaptive_scheduler: AdaptiveSchedulerOptions = field(default_factory=AdaptiveSchedulerOptions)
    checkpoints: CheckpointCoordinatorOptions = field(default_factory=CheckpointCoordinatorOptions)


class DefaultScheduler:
    """Schedules one job.

    Raises at construction: JobSubmissionError if the JobGraph cannot be executed.
    """

    #: False if the scheduler cannot continue the tasks of a lost JobMaster.
    can_adopt_tasks: ClassVar[bool] = True

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
        self.graph = ExecutionGraph(
            with_bounds(job_graph, options.adaptive),
            graph_id=graph_id,
            now_ms=now_ms,
            max_prior_attempts=options.attempts_history_size,
        )
        self.slot_pool = DeclarativeSlotPool(options.slot_pool)
        self.exception_history = ExceptionHistory(options.exception_history_size)
        self._options = options
        #: True if finished tasks are recorded. A job with committers must not repeat a commit in the next JobMaster.
        self.records_events = options.records_events or has_committers(job_graph)
        self._advice = "Add TaskExecutors or slots, or lower the parallelism."
        if environment_profile(job_graph.artifacts):
            self._advice += (
                " The job has its own packages or archives, so it gets no slots of TaskExecutors that run other jobs."
            )
        self.adaptive = AdaptiveParallelism(self.graph, options.adaptive)
        self._regions = PipelinedRegions(self.graph)
        self.partitions = JobMasterPartitionTracker(self._has_finished_for_good)
        self._strategy = PipelinedRegionSchedulingStrategy(self.graph, self._regions, self.partitions.is_available)
        self._allocator = SlotSharingExecutionSlotAllocator(self.graph)
        self._restarts = PendingRestarts()
        self._failure_handler = ExecutionFailureHandler(
            self.graph,
            failover_strategy(
                options.failover_strategy,
                self.graph,
                self._regions,
                self.partitions.is_missing,
                self._restarts.has,
            ),
            restart_strategy,
        )
        self._reconciler = DeploymentReconciler(options.absence_grace_ms)
        #: Attempts whose SubmitTasks call has not been answered.
        self._unanswered: set[ExecutionAttemptID] = set()
        self._unexplained = UnexplainedCancels()
        self._recovered_coordinators: Mapping[JobVertexID, Mapping[str, bytes]] = {}
        self.checkpoints = JobCheckpoints(
            self.graph, options.checkpoints, state_assigner or StateAssigner(job_graph), random or Random(0)
        )
        #: Failures of the whole job that the CheckpointCoordinator decided. Handled after the current event.
        self._checkpoint_failures: deque[FlinkError] = deque()
        self._now_ms = now_ms
        self._out = EffectBuffer()
        #: The tasks that fail with one lost TaskExecutor, while they are collected.
        self._failed_together: list[ExecutionVertexID] | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.JobMasterInitialized: self._on_job_master_initialized,
            ev.InitializationFailed: self._on_initialization_failed,
            ev.StartScheduling: self._on_start_scheduling,
            ev.TasksAdopted: self._on_tasks_adopted,
            ev.CancelJob: self._on_cancel_job,
            ev.SuspendJob: self._on_suspend_job,
            ev.GlobalFailure: self._on_global_failure,
            ev.TaskManagerRegistered: self._on_task_manager_registered,
            ev.TaskManagerLost: self._on_task_manager_lost,
            ev.SlotsOffered: self._on_slots_offered,
            ev.SlotFailed: self._on_slot_failed,
            ev.ResourcesUnavailable: self._on_resources_unavailable,
            ev.TaskStateUpdated: self._on_task_state_updated,
            ev.TaskMetricsReported: self._on_task_metrics_reported,
            ev.DeploymentsReported: self._on_deployments_reported,
            ev.TasksSubmitted: self._on_tasks_submitted,
            ev.OperatorEventReceived: self._on_operator_event_received,
            ev.OperatorEventsLost: self._on_operator_events_lost,
            ev.CheckpointsVerified: self._on_checkpoints_verified,
            ev.CheckpointCall: self._on_checkpoint_call,
            ev.CheckDeadlines: self._on_check_deadlines,
        }

    def handle(self, event: ev.SchedulerEvent, now_ms: int) -> list[fx.SchedulerEffect]:
        """Handles `event`. Returns the effects to run, in order.

        Raises: NotRegisteredError if a TaskExecutor offers slots without being registered.
        """
        self._now_ms = max(self._now_ms, now_ms)
        self.checkpoints.at(self._now_ms)
        self._handlers[type(event)](event)
        while self._checkpoint_failures:
            self._handle_failure(self._checkpoint_failures.popleft(), None)
        self._advance()
        return self._out.drain()

    def _advance(self) -> None:
        """Makes the transitions that the event has made possible."""
        state = self.state
        if state is _J.FAILING and self.graph.is_all_terminal:
            self._terminate(_J.FAILED)
        elif state is _J.CANCELLING and self.graph.is_all_terminal:
            self.graph.failure_cause = None
            self._terminate(_J.CANCELED)
        elif state is _J.RUNNING and self.graph.is_finished:
            self._terminate(_J.FINISHED)
        elif state is _J.RESTARTING and self.checkpoints.may_restore:
            ready = self._restarts.take_ready(self._now_ms, self._is_terminal)
            if ready and not self._restarts:
                self._set_job_state(_J.RUNNING)
            for vertex_ids in ready:
                self._restart_tasks(vertex_ids)

    # Readings

    @property
    def state(self) -> JobState:
        return self.graph.state

    @property
    def num_restarts(self) -> int:
        return self._failure_handler.num_restarts

    @property
    def num_slots_required(self) -> int:
        """The number of slots that the job needs in total."""
        return self.slot_pool.num_required

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next CheckDeadlines event. None if the scheduler waits only for other events."""
        if self.state.is_terminal:
            return None
        deadlines = (
            self.slot_pool.next_deadline_ms,
            self._restarts.next_due_ms(self._now_ms),
            self._unexplained.next_due_ms,
            self.checkpoints.coordinator.next_deadline_ms,
        )
        return min([at for at in deadlines if at is not None], default=None)

    def reachable_execution(self, vertex_id: ExecutionVertexID) -> Execution | None:
        """Returns the current execution of the vertex if it can receive operator events, otherwise None."""
        execution = self.graph.vertex(vertex_id).current
        return execution if execution.is_reachable else None

    @property
    def requirements(self) -> JobResourceRequirements:
        """The parallelism that vertices may have. Empty: it is fixed."""
        return {}

    def checked_requirements(self, wanted: Iterable[job_pb2.VertexParallelismBounds]) -> JobResourceRequirements:
        """Returns the requirements that a user wants.

        Raises: InvalidResourceRequirementsError; UnsupportedOperationError if this scheduler has a fixed parallelism.
        """
        raise UnsupportedOperationError(
            f"Job {self.graph.job_id} cannot be rescaled while it runs: that needs `jobmanager.scheduler: Adaptive` "
            "and a job without stages. Stop it with a savepoint (POST /jobs/:jobid/stop) and start it from the "
            "savepoint with another parallelism."
        )

    def validate(self) -> None:
        """Asserts all invariants of this machine and its parts."""
        self.graph.validate()
        self.slot_pool.validate()
        self._allocator.validate()
        self.partitions.validate()
        self.checkpoints.coordinator.validate()
        assert self.state.is_terminal or (self.state is _J.RESTARTING) == bool(self._restarts)
        if not self.state.is_terminal:
            assert self._allocator.allocations == self.slot_pool.reserved_allocations, (
                "a slot is reserved without a user"
            )
            assert self._allocator.waiting_requests == self.slot_pool.waiting_requests
        for vertex in self.graph.vertices:
            if vertex.current.is_deployed:
                assert self._allocator.slot_of(vertex.id) == vertex.current.slot, (
                    f"{vertex} runs in a slot that is not assigned to it"
                )

    # The job

    def start_from(
        self, checkpoint: CompletedCheckpoint | None, next_checkpoint_id: int, *, must_be_full: bool = False
    ) -> None:
        """Sets the checkpoint that the job restores. None: the job starts without state.

        Call it before JobMasterInitialized.

        Raises: StateRestoreError if the checkpoint does not fit the job.
        """
        self.checkpoints.start_from(checkpoint, next_checkpoint_id, must_be_full=must_be_full)

    def start_with_sources(self, num_splits: Mapping[JobVertexID, int]) -> None:
        """Sets the number of splits of sources with an undecided parallelism, and decides what can be decided.

        Call it before JobMasterInitialized, and create the coordinators of all decided vertices afterwards.
        """
        self.adaptive.sources_inferred(num_splits)
        self._decide_parallelism()

    def recover(self, recorded: RecordedJob, held: frozenset[str]) -> None:
        """Restores the finished tasks of earlier JobMasters. Call it before JobMasterInitialized.

        Args:
            held: the ids of the result partitions that TaskExecutors still have.
        """
        recovered = restore_finished_tasks(
            self.graph,
            self._regions,
            self.partitions,
            recorded,
            held,
            self._now_ms,
            keeps_finished=self._options.records_events,
        )
        self._recovered_coordinators = recovered.coordinator_states
        for result in recovered.final:
            self._record(job_events.final(result.id, result.final_ids))
        if recovered.dropped:
            self._record(job_events.reset(recovered.dropped))

    def _decide_parallelism(self) -> list[ExecutionJobVertex]:
        """Initializes all vertices whose parallelism can be decided now. Returns them."""
        initialized = self.adaptive.decide(self._now_ms)
        if not initialized:
            return []
        vertices = [one.vertex for one in initialized]
        self._regions.add([task for vertex in vertices for task in vertex.task_vertices])
        self._allocator.add(vertices)
        self.checkpoints.structure_changed()
        for one in initialized:
            if one.vertex.parallelism_reason:
                vertex = one.vertex
                self._record(
                    job_events.decided(
                        job_events.Decision(vertex.id, vertex.parallelism, vertex.parallelism_reason, one.slices)
                    )
                )
        return vertices

    def _record(self, event: job_event_pb2.JobEvent, finished: ExecutionVertexID | None = None) -> None:
        if self.records_events:
            self._out.add(fx.RecordJobEvent(event, finished))

    def _on_job_master_initialized(self, event: ev.JobMasterInitialized) -> None:
        if self.state is _J.INITIALIZING:
            self._set_job_state(_J.CREATED)

    def _on_initialization_failed(self, event: ev.InitializationFailed) -> None:
        if self.state is _J.INITIALIZING:
            self.exception_history.record(event.cause, None, self._now_ms)
            self.graph.failure_cause = event.cause
            self._terminate(_J.FAILED)

    def _on_start_scheduling(self, event: ev.StartScheduling) -> None:
        if self.state is _J.CREATED:
            self._set_job_state(_J.RUNNING)
            initialized = self._decide_parallelism()
            restore = self.checkpoints.deploying([vertex.id for vertex in self.graph.vertices])
            if restore.checkpoint_id is not None:
                for job_vertex in self.graph.job_vertices.values():
                    if job_vertex.has_coordinators:
                        self._out.add(restore.of_coordinators(job_vertex))
            for job_vertex_id, states in self._recovered_coordinators.items():
                self._out.add(fx.RestoreCoordinators(job_vertex_id, states))
            self._out.add(fx.StartCoordinators())
            if initialized:
                self._out.add(fx.VerticesInitialized(tuple(vertex.id for vertex in initialized)))
            for job_vertex_id in self._recovered_coordinators:
                for vertex in self.graph.job_vertices[job_vertex_id].task_vertices:
                    if vertex.current.state is not _E.FINISHED:
                        self._out.add(fx.SubtaskReset(vertex.id))
            self._schedule(self._strategy.regions_to_start())

    def reconcile(self, reports: Iterable[LocatedReport]) -> Reconciliation:
        """Decides whether the reported tasks of an earlier JobMaster can be continued. Call it before they start."""
        return reconcile(self.graph, self._allocator.group_of, reports, self.checkpoints.restore().checkpoint_id or 0)

    def _on_tasks_adopted(self, event: ev.TasksAdopted) -> None:
        """Continues the tasks of an earlier JobMaster. Coordinators restore the latest checkpoint, tasks do not."""
        if self.state is not _J.CREATED:
            return
        self._set_job_state(_J.RUNNING)
        for task in event.tasks:
            vertex = self.graph.vertex(task.attempt_id.vertex)
            vertex.adopt(task.attempt_id, task.slot, self._now_ms)
            self._enter(vertex, _E.SCHEDULED)
        self._take_slots([task for task in event.tasks if not task.is_finished])
        restore = self.checkpoints.restore()
        coordinated = [vertex for vertex in self.graph.job_vertices.values() if vertex.has_coordinators]
        if restore.checkpoint_id is not None:
            for job_vertex in coordinated:
                self._out.add(restore.of_coordinators(job_vertex))
        for job_vertex in coordinated:
            own = tuple(task for task in event.tasks if task.job_vertex_id == job_vertex.id)
            self._out.add(fx.AdoptSubtasks(job_vertex.id, own))
        self._out.add(fx.StartCoordinators())
        for task in event.tasks:
            self._continue(task)

    def _take_slots(self, tasks: list[RunningTask]) -> None:
        """Requests the slots of the tasks and offers them to the pool. Each request prefers the slot that it gets."""
        effects = self.slot_pool.request_slots(
            self._allocator.allocate([task.attempt_id.vertex for task in tasks]), self._now_ms
        )
        for slot, vertex_id in {task.slot: task.attempt_id.vertex for task in tasks}.items():
            # All tasks of a slot belong to one slot sharing group, so any of them tells the resources of the slot.
            resources = self.graph.vertex(vertex_id).job_vertex.slot_resources
            offer = SlotOffer(slot.allocation_id, slot.slot_index, resources)
            effects += self.slot_pool.offer_slots(slot.location.resource_id, [offer], self._now_ms)
        for effect in effects:
            if isinstance(effect, sp.SlotRequestFulfilled):
                self._allocator.fulfilled(effect.request_id, effect.slot)
        self._out.declare(self.slot_pool.requirements)

    def _continue(self, task: RunningTask) -> None:
        vertex = self.graph.vertex(task.attempt_id.vertex)
        vertex.assign_slot(task.slot)
        self._enter(vertex, _E.DEPLOYING)
        self._enter(vertex, _E.FINISHED if task.is_finished else _E.RUNNING)
        if not task.is_finished and vertex.job_vertex.has_coordinators:
            self._out.add(fx.SubtaskReady(vertex.id))

    def _on_cancel_job(self, event: ev.CancelJob) -> None:
        if self.state is _J.CANCELLING or self.state.is_terminal:
            return
        self._set_job_state(_J.CANCELLING)
        self._cancel_everything()

    def _on_suspend_job(self, event: ev.SuspendJob) -> None:
        if self.state.is_terminal:
            return
        self.graph.failure_cause = event.cause
        self._cancel_everything()
        for vertex in self.graph.vertices:
            if vertex.current.state is _E.CANCELING:
                self._out.cancel(vertex.current)  # this JobMaster will not see the answer of a pending submission
                self._leave(vertex, _E.CANCELED)
        self._terminate(_J.SUSPENDED)

    def _cancel_everything(self) -> None:
        self._restarts.clear()
        for vertex in self.graph.vertices:
            self._cancel(vertex)

    def _set_job_state(self, state: JobState, cause: FlinkError | None = None, *, is_region: bool = False) -> None:
        self.graph.transition(state, self._now_ms)
        self._out.add(fx.JobStatusChanged(state, self._now_ms))
        self._run(self.checkpoints.job_state_changed(state, cause or self.graph.failure_cause, is_region=is_region))

    def _run(self, effects: list[CheckpointEffect]) -> None:
        for effect in effects:
            if isinstance(effect, FailJobForCheckpoint):
                self._checkpoint_failures.append(effect.cause)
            else:
                self._out.add(effect)

    def _terminate(self, state: JobState) -> None:
        self._set_job_state(state)
        self._unexplained.clear()
        self.partitions.clear()  # the TaskExecutors release them when the job disconnects
        reason = SlotAllocationError(f"job {self.graph.name!r} is {state.name}")
        self._run_pool_effects(self.slot_pool.close(reason))
        self._out.terminated(fx.JobTerminated(state, self.graph.failure_cause))

    # Slots and deployment

    def _schedule(self, regions: Iterable[PipelinedRegion]) -> None:
        requests: list[sp.SlotRequest] = []
        scheduled = list(regions)
        for region in scheduled:
            for vertex_id in region.vertex_ids:
                self._enter(self.graph.vertex(vertex_id), _E.SCHEDULED)
            requests += self._allocator.allocate(region.vertex_ids)
        for region in scheduled:
            for vertex_id in region.vertex_ids:
                slot = self._allocator.slot_of(vertex_id)
                if slot is not None:
                    self.graph.vertex(vertex_id).assign_slot(slot)
            self._deploy_if_complete(region)
        if requests:
            self._run_pool_effects(self.slot_pool.request_slots(requests, self._now_ms))

    def _deploy_if_complete(self, region: PipelinedRegion) -> None:
        vertices = [self.graph.vertex(vertex_id) for vertex_id in region.vertex_ids]
        if any(vertex.current.state is not _E.SCHEDULED or vertex.current.slot is None for vertex in vertices):
            return
        for vertex in vertices:
            self._enter(vertex, _E.DEPLOYING)
            self._unanswered.add(vertex.current.attempt_id)
        self._out.submit(vertices)

    def _on_task_manager_registered(self, event: ev.TaskManagerRegistered) -> None:
        self.slot_pool.register_task_manager(event.location)

    def _on_slots_offered(self, event: ev.SlotsOffered) -> None:
        self._run_pool_effects(self.slot_pool.offer_slots(event.resource_id, event.offers, self._now_ms))

    def _on_slot_failed(self, event: ev.SlotFailed) -> None:
        self._run_pool_effects(self.slot_pool.fail_slot(event.resource_id, event.allocation_id, event.cause))

    def _on_resources_unavailable(self, event: ev.ResourcesUnavailable) -> None:
        request_ids = self.slot_pool.requests_for(event.resources)
        cause = NoResourceAvailableError(
            f"Could not acquire the minimum required resources: job {self.graph.name!r} needs {len(request_ids)} "
            f"more slot(s) with {event.resources}, but {event.reason}",
            details={"resources": str(event.resources)},
        )
        self._run_pool_effects(self.slot_pool.cancel_requests(request_ids))
        for vertex_id in self._allocator.users_of_requests(request_ids):
            self._fail(self.graph.vertex(vertex_id), cause)

    def _run_pool_effects(self, effects: list[sp.SlotPoolEffect]) -> None:
        fulfilled: dict[int, PipelinedRegion] = {}
        for effect in effects:
            match effect:
                case sp.SlotRequestFulfilled(request_id, slot):
                    for vertex_id in self._allocator.fulfilled(request_id, slot):
                        self.graph.vertex(vertex_id).assign_slot(slot)
                        region = self._regions.region_of(vertex_id)
                        fulfilled[region.index] = region
                case sp.SlotRequestsTimedOut():
                    self._on_slots_timed_out(effect)
                case sp.RequirementsChanged():
                    # Not those of the effect: earlier effects of the list may have changed them again.
                    self._out.declare(self.slot_pool.requirements)
                case sp.FreeSlotAtTaskManager(slot, cause):
                    self._out.add(fx.FreeSlot(slot, cause))
                case sp.SlotLost(slot, cause):
                    for vertex_id in self._allocator.lose(slot.allocation_id):
                        self._fail(self.graph.vertex(vertex_id), cause)
        for region in fulfilled.values():
            self._deploy_if_complete(region)

    def _on_slots_timed_out(self, effect: sp.SlotRequestsTimedOut) -> None:
        timeout_ms = self._options.slot_pool.request_timeout_ms
        cause = NoResourceAvailableError(
            f"job {self.graph.name!r} needs {effect.num_required} slots, but only {effect.num_available} were "
            f"available within slot.request.timeout ({timeout_ms} ms). {self._advice}",
            details={"required": str(effect.num_required), "available": str(effect.num_available)},
        )
        for vertex_id in self._allocator.users_of_requests(effect.request_ids):
            self._fail(self.graph.vertex(vertex_id), cause)

    # Results

    def _has_finished_for_good(self, vertex: ExecutionVertex) -> bool:
        """True if the region of the subtask has finished and no pending restart includes the subtask."""
        return self._regions.has_finished(vertex) and not self._restarts.has(vertex.id)

    def _release_what_was_read_by(self, vertex: ExecutionVertex) -> None:
        """Releases the inputs of the finished `vertex` that no consumer needs any more."""
        if self._options.records_events and not vertex.job_vertex.results:
            return  # if this JobMaster dies before the end of the task is on disk, the task reads its inputs again
        if self._options.releases_partitions_during_execution and self._regions.has_finished(vertex):
            inputs = {
                (partition.result.id, partition.index): partition
                for vertex_id in self._regions.region_of(vertex.id).vertex_ids
                for gate in self.graph.vertex(vertex_id).consumed
                for partition in gate.partitions
            }
            for tracked in self.partitions.take_consumed(inputs.values()):
                if tracked.location is not None:
                    self._out.release(tracked.location, tracked.partition_id)

    # Transitions of a task

    def _enter(self, vertex: ExecutionVertex, state: ExecutionState) -> None:
        vertex.current.transition(state, self._now_ms)
        self._out.add(fx.TaskStateChanged(vertex.task_name, vertex.current.attempt_id, state, vertex.current.failure))
        self._run(self.checkpoints.task_state_changed(vertex.current.attempt_id, state))

    def _leave(self, vertex: ExecutionVertex, state: ExecutionState) -> None:
        """Enters a terminal state and releases the slot."""
        self._enter(vertex, state)
        self._reconciler.forget(vertex.current.attempt_id)
        self._unanswered.discard(vertex.current.attempt_id)
        released = self._allocator.release(vertex.id)
        if released.cancelled_requests:
            self._run_pool_effects(self.slot_pool.cancel_requests(released.cancelled_requests))
        for allocation_id in released.returned_slots:
            self._run_pool_effects(self.slot_pool.return_slot(allocation_id, self._now_ms))

    def _cancel(self, vertex: ExecutionVertex) -> None:
        execution = vertex.current
        if execution.state.is_terminal or execution.state is _E.CANCELING:
            return
        if not execution.is_deployed:
            self._leave(vertex, _E.CANCELED)
            return
        self._enter(vertex, _E.CANCELING)
        assert execution.slot is not None
        if self.slot_pool.location(execution.slot.location.resource_id) is None:  # its TaskExecutor is gone
            self._leave(vertex, _E.CANCELED)
        elif execution.attempt_id not in self._unanswered:
            self._out.cancel(execution)

    # Reports about tasks

    def _on_tasks_submitted(self, event: ev.TasksSubmitted) -> None:
        self._unanswered.difference_update(event.attempts)
        rejected = dict(event.rejections)
        for attempt_id in event.attempts:
            execution = self.graph.find_execution(attempt_id)
            if execution is None:
                continue
            error = rejected.get(attempt_id)
            if error is None:
                if execution.state is _E.CANCELING:
                    self._out.cancel(execution)
            else:
                if isinstance(error, RpcTimeoutError):  # the task may have been deployed
                    self._out.cancel(execution)
                self._fail(self.graph.vertex(attempt_id.vertex), error)

    def _on_task_state_updated(self, event: ev.TaskStateUpdated) -> None:
        vertex = self.graph.find_vertex(event.attempt_id)
        if vertex is None:
            return
        if vertex.current.attempt_id != event.attempt_id:
            prior = vertex.prior_execution(event.attempt_id)
            if prior is not None and not event.state.is_terminal:
                self._out.cancel(prior)
            return
        if event.metrics is not None:
            vertex.current.metrics = event.metrics
        vertex.current.accumulators = event.accumulators or vertex.current.accumulators
        vertex.current.result_bytes = event.result_bytes or vertex.current.result_bytes
        match event.state:
            case _E.INITIALIZING | _E.RUNNING:
                self._on_task_progress(vertex, event.state)
            case _E.FINISHED:
                self._on_task_finished(vertex)
            case _E.FAILED:
                self._fail(vertex, event.error or TaskSubmissionError(f"{vertex.task_name} failed without an error"))
            case _E.CANCELED:
                self._on_task_canceled(vertex, event.error)

    def _on_task_progress(self, vertex: ExecutionVertex, state: ExecutionState) -> None:
        execution = vertex.current
        if execution.state in (_E.CANCELING, _E.CANCELED, _E.FAILED):
            if execution.attempt_id not in self._unanswered:
                self._out.cancel(execution)
            return
        if _PROGRESS[state] > _PROGRESS.get(execution.state, len(_PROGRESS)):
            was_reachable = execution.is_reachable
            self._enter(vertex, state)
            if not was_reachable and vertex.job_vertex.has_coordinators:
                self._out.add(fx.SubtaskReady(vertex.id))

    def _on_task_finished(self, vertex: ExecutionVertex) -> None:
        if not vertex.current.is_deployed:
            return
        self._leave(vertex, _E.FINISHED)
        final: list[IntermediateResult] = []
        if not self._restarts.has(vertex.id):  # else it finished before its cancellation, and runs again
            final = self.partitions.produced(vertex)
        self._record_finished(vertex)
        for result in final:
            self._record(job_events.final(result.id, result.final_ids))
        initialized: list[ExecutionJobVertex] = []
        if self.state is _J.RUNNING or self.state is _J.RESTARTING:
            initialized = self._decide_parallelism()
            if initialized:
                self._out.add(fx.VerticesInitialized(tuple(job_vertex.id for job_vertex in initialized)))
        self._release_what_was_read_by(vertex)
        if self.state is _J.RUNNING or self.state is _J.RESTARTING:
            regions = {region.index: region for region in self._strategy.regions_after_finish(vertex.id)}
            # The inputs of new subtasks may have been complete before this subtask finished.
            new = [task.id for job_vertex in initialized for task in job_vertex.task_vertices]
            regions.update({region.index: region for region in self._strategy.regions_to_restart(new)})
            self._schedule(regions[index] for index in sorted(regions))

    def _on_task_canceled(self, vertex: ExecutionVertex, error: FlinkError | None) -> None:
        execution = vertex.current
        if execution.state is _E.CANCELING:
            self._leave(vertex, _E.CANCELED)
        elif execution.is_deployed:
            # The task canceled itself because a producer or consumer failed. That failure decides what happens.
            if error is not None:
                self._fail(vertex, error)
                return
            self._enter(vertex, _E.CANCELING)
            self._leave(vertex, _E.CANCELED)
            self._unexplained.add(execution.attempt_id, self._now_ms)

    def _on_task_metrics_reported(self, event: ev.TaskMetricsReported) -> None:
        for attempt_id, metrics in event.metrics:
            execution = self.graph.find_execution(attempt_id)
            if execution is not None and not execution.state.is_terminal:
                execution.metrics = metrics
        for attempt_id, accumulators in event.accumulators:
            execution = self.graph.find_execution(attempt_id)
            if execution is not None and not execution.state.is_terminal:
                execution.accumulators = accumulators

    def _on_deployments_reported(self, event: ev.DeploymentsReported) -> None:
        found = self._reconciler.compare(self.graph, event.resource_id, event.attempts, self._unanswered, self._now_ms)
        for vertex in found.missing:
            self._fail(
                vertex,
                TaskSubmissionError(f"TaskExecutor {event.resource_id} does not run {vertex.task_name} any more"),
            )
        location = self.slot_pool.location(event.resource_id)
        if location is not None:
            for attempt_id in found.unwanted:
                self._out.cancel_at(location, attempt_id)

    def _on_operator_event_received(self, event: ev.OperatorEventReceived) -> None:
        execution = self.graph.find_execution(event.attempt_id)
        if execution is not None and execution.state is _E.DEPLOYING:
            self._on_task_progress(self.graph.vertex(event.attempt_id.vertex), _E.INITIALIZING)

    def _on_operator_events_lost(self, event: ev.OperatorEventsLost) -> None:
        for attempt_id in event.attempts:
            execution = self.graph.find_execution(attempt_id)
            if execution is not None and execution.is_reachable:
                self._out.cancel(execution)
                self._fail(self.graph.vertex(attempt_id.vertex), event.cause)

    def _on_check_deadlines(self, event: ev.CheckDeadlines) -> None:
        are_slots_coming = any(vertex.current.is_deployed for vertex in self.graph.vertices)
        self._run_pool_effects(self.slot_pool.check_timeouts(self._now_ms, are_slots_coming=are_slots_coming))
        self._run(self.checkpoints.coordinator.check_timers(self._now_ms))
        for attempt_id in self._unexplained.take_due(self._now_ms):
            vertex = self.graph.vertex(attempt_id.vertex)
            if vertex.current.attempt_id == attempt_id and not self._restarts.has(vertex.id):
                cause = TaskSubmissionError(f"{vertex.task_name} was canceled by its TaskExecutor without a reason")
                self._handle_failure(cause, vertex)

    def _fail(self, vertex: ExecutionVertex, cause: FlinkError) -> None:
        """Handles the end of a task because of `cause`. No effect if the task was terminal before."""
        execution = vertex.current
        if execution.state.is_terminal:
            return
        if execution.state is _E.CANCELING:
            self._leave(vertex, _E.CANCELED)
            if self.state is _J.FAILING or self._restarts.has(vertex.id):
                self.exception_history.record(cause, vertex, self._now_ms, is_concurrent=True)
            self._consider_root_cause(cause)
            return
        execution.failure = cause
        if self.checkpoints.needs_verification(execution, cause):
            self._out.add(fx.VerifyCheckpoints())
        self._leave(vertex, _E.FAILED)
        lost = _lost_partition(cause)
        if lost is not None:
            self.partitions.lose(lost)
        self._handle_failure(cause, vertex)

    # Failover

    def _on_global_failure(self, event: ev.GlobalFailure) -> None:
        if not self.state.is_terminal:
            self._handle_failure(event.cause, None)

    def _on_checkpoint_call(self, event: ev.CheckpointCall) -> None:
        self._run(event.call(self.checkpoints.coordinator, self._now_ms))

    def _on_checkpoints_verified(self, event: ev.CheckpointsVerified) -> None:
        has_changed = self.checkpoints.verified(event.latest)
        if isinstance(event.error, CorruptStateError) and self.state is _J.RESTARTING:
            self._restarts.clear()
            self._fail_job(event.error)
        elif has_changed and not self.state.is_terminal:
            cause = CheckpointStorageError("a checkpoint is damaged; the job restarts from the checkpoint before it")
            self._handle_failure(cause, None)

    def _on_task_manager_lost(self, event: ev.TaskManagerLost) -> None:
        """Handles the loss of all slots and results of a TaskExecutor as one failure."""
        lost = self.partitions.lose_task_manager(event.resource_id)
        self._failed_together = []
        self._run_pool_effects(self.slot_pool.release_task_manager(event.resource_id, event.cause))
        failed = self._failed_together
        self._failed_together = None
        # A running consumer may have read all it needs. If not, it will report the lost partition.
        producers = [partition.producer.id for partition in lost if self._is_waited_for(partition)]
        if failed or (producers and not self.state.is_terminal):
            if not failed:
                self.exception_history.record(event.cause, None, self._now_ms)
            self._restart_or_fail(event.cause, [*failed, *producers])

    def _is_waited_for(self, partition: IntermediateResultPartition) -> bool:
        """True if a consumer of the partition is not deployed yet."""
        return not all(consumer.is_initialized for consumer in partition.result.consumers) or any(
            self._restarts.has(consumer.id) or consumer.current.state not in _READING_OR_DONE
            for consumer in partition.consumers
        )

    def _handle_failure(self, cause: FlinkError, vertex: ExecutionVertex | None) -> None:
        is_concurrent = self.state is _J.FAILING or (
            vertex is not None and (bool(self._failed_together) or self._restarts.has(vertex.id))
        )
        self.exception_history.record(cause, vertex, self._now_ms, is_concurrent=is_concurrent)
        if self._failed_together is not None and vertex is not None:
            self._failed_together.append(vertex.id)
            return
        self._restart_or_fail(cause, None if vertex is None else [vertex.id])

    def _restart_or_fail(self, cause: FlinkError, failed: list[ExecutionVertexID] | None) -> None:
        """Restarts the given tasks, which failed or must run again, or fails the job. None: the whole job failed."""
        if self.state is _J.FAILING:
            self._consider_root_cause(cause)
        if self.state not in (_J.CREATED, _J.RUNNING, _J.RESTARTING):
            return
        if failed is None:
            decision = self._failure_handler.handle_global_failure(cause, self._now_ms)
        else:
            decision = self._failure_handler.handle_task_failures(failed, cause, self._now_ms)
        if isinstance(decision, FailJob) or self.state is _J.CREATED:
            self._fail_job(cause)
            return
        settled = settled_vertices(self.graph)
        restarted = frozenset(one for one in decision.vertices if one.job_vertex_id not in settled)
        if not restarted:
            return
        if self.state is _J.RUNNING:
            self._set_job_state(_J.RESTARTING, cause, is_region=failed is not None)
        self._restarts.add(restarted, self._now_ms + decision.delay_ms)
        for other in self.graph.vertices:
            if other.id in restarted:
                self.partitions.discard(other)
                self._cancel(other)

    def _fail_job(self, cause: FlinkError) -> None:
        self.graph.failure_cause = cause
        self._set_job_state(_J.FAILING)
        self._cancel_everything()

    def _record_finished(self, vertex: ExecutionVertex) -> None:
        if self.records_events:
            self._record(job_events.finished(vertex.current), vertex.id)

    def _restart_tasks(self, vertex_ids: frozenset[ExecutionVertexID]) -> None:
        finished = [vertex.current for vertex in map(self.graph.vertex, sorted(vertex_ids)) if self._is_done(vertex)]
        if finished:
            self._record(job_events.reset(execution.attempt_id for execution in finished))
        for vertex in self.graph.vertices:
            if vertex.id in vertex_ids:
                self._unexplained.explained(vertex.current.attempt_id)
                self._out.release_partitions(vertex)
                vertex.reset_for_new_execution(self._now_ms)
        restore = self.checkpoints.deploying(vertex_ids)
        for job_vertex in self.graph.job_vertices.values():
            if job_vertex.has_coordinators:
                affected = [vertex.id for vertex in job_vertex.task_vertices if vertex.id in vertex_ids]
                if len(affected) == job_vertex.parallelism:
                    self._out.add(restore.of_coordinators(job_vertex))
                else:
                    for vertex_id in affected:
                        self._out.add(fx.SubtaskReset(vertex_id, restore.checkpoint_id))
        self._schedule(self._strategy.regions_to_restart(vertex_ids))

    def _consider_root_cause(self, cause: FlinkError) -> None:
        """Replaces the failure of a failing job by `cause` if that is closer to the root cause.

        The root cause may be reported after the failure that made the job fail.
        """
        present = self.graph.failure_cause
        if self.state is _J.FAILING and present is not None and is_closer_to_root(cause, present):
            self.graph.failure_cause = cause
            self.exception_history.make_root(cause)

    @staticmethod
    def _is_done(vertex: ExecutionVertex) -> bool:
        return vertex.current.state is _E.FINISHED

    def _is_terminal(self, vertex_id: ExecutionVertexID) -> bool:
        return self.graph.vertex(vertex_id).current.state.is_terminal


def has_committers(job_graph: job_pb2.JobGraph) -> bool:
    """True if the job has tasks that commit the output of other tasks, as sinks in batch mode have."""
    return any(vertex.is_committer for vertex in job_graph.vertices)


def _lost_partition(cause: FlinkError) -> ResultPartitionID | None:
    """Returns the partition that a task could not read, if `cause` names one."""
    if not isinstance(cause, (PartitionConnectionError, PartitionNotFoundError)):
        return None
    text = cause.details.get(PARTITION_DETAIL)
    return ResultPartitionID.parse(text) if text else None
