"""SchedulerBase: the parts of the scheduler, the life of the job, its slots, and the transitions of its tasks.

What is decided upon news and failures is `default_scheduler`.

Source: org.apache.flink.runtime.scheduler.SchedulerBase. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from random import Random

from flinkpy._proto import job_event_pb2, job_pb2
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator.effects import CheckpointEffect
from flinkpy.checkpoint.coordinator.effects import FailJob as FailJobForCheckpoint
from flinkpy.common.errors import FlinkError, NoResourceAvailableError, SlotAllocationError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.python_environment import environment_profile
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.executiongraph.execution_job_vertex import ExecutionJobVertex
from flinkpy.jobmaster.executiongraph.execution_vertex import ExecutionVertex
from flinkpy.jobmaster.failover.exception_history import ExceptionHistory
from flinkpy.jobmaster.failover.execution_failure_handler import ExecutionFailureHandler
from flinkpy.jobmaster.failover.failover_strategy import failover_strategy
from flinkpy.jobmaster.failover.restart_strategy import RestartBackoffTimeStrategy
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.job_event_store.batch_job_recovery import recover
from flinkpy.jobmaster.job_event_store.job_events import RecordedJob
from flinkpy.jobmaster.partition_tracker import JobMasterPartitionTracker
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive_batch.adaptive_parallelism import AdaptiveParallelism, with_bounds
from flinkpy.jobmaster.scheduler.deployment_reconciler import DeploymentReconciler
from flinkpy.jobmaster.scheduler.effect_buffer import EffectBuffer
from flinkpy.jobmaster.scheduler.job_checkpoints import JobCheckpoints
from flinkpy.jobmaster.scheduler.pending_restarts import PendingRestarts
from flinkpy.jobmaster.scheduler.pipelined_region import PipelinedRegion, PipelinedRegions
from flinkpy.jobmaster.scheduler.pipelined_region_scheduling_strategy import PipelinedRegionSchedulingStrategy
from flinkpy.jobmaster.scheduler.scheduler_options import SchedulerOptions
from flinkpy.jobmaster.scheduler.slot_allocator import SlotSharingExecutionSlotAllocator
from flinkpy.jobmaster.scheduler.state_assigner import StateAssigner
from flinkpy.jobmaster.scheduler.unexplained_cancels import UnexplainedCancels
from flinkpy.jobmaster.slotpool import slot_pool_messages as sp
from flinkpy.jobmaster.slotpool.declarative_slot_pool import DeclarativeSlotPool

_E = ExecutionState
_J = JobState


class SchedulerBase:
    """Raises at construction: JobSubmissionError where the JobGraph cannot be executed."""

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
        self._advice = "Add TaskExecutors or slots, or lower the parallelism."
        if environment_profile(job_graph.artifacts):
            self._advice += " It brings packages or archives, so a TaskExecutor that runs other jobs gives it no slot."
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
        #: Attempts whose SubmitTasks has not been answered.
        self._unanswered: set[ExecutionAttemptID] = set()
        self._unexplained = UnexplainedCancels()
        self._recovered_coordinators: Mapping[JobVertexID, Mapping[str, bytes]] = {}
        self.checkpoints = JobCheckpoints(
            self.graph, options.checkpoints, state_assigner or StateAssigner(job_graph), random or Random(0)
        )
        #: Failures of the job as a whole that its checkpoints are, to be handled after the event that brought them.
        self._checkpoint_failures: deque[FlinkError] = deque()
        self._now_ms = now_ms
        self._out = EffectBuffer()

    # Readings

    @property
    def state(self) -> JobState:
        return self.graph.state

    @property
    def num_restarts(self) -> int:
        return self._failure_handler.num_restarts

    @property
    def next_deadline_ms(self) -> int | None:
        """When CheckDeadlines is wanted; None: nothing is waited for but events."""
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
        """The current execution, where operator events can be sent to it."""
        execution = self.graph.vertex(vertex_id).current
        return execution if execution.is_reachable else None

    def validate(self) -> None:
        """Assert every invariant of this machine and its parts."""
        self.graph.validate()
        self.slot_pool.validate()
        self._allocator.validate()
        self.partitions.validate()
        self.checkpoints.coordinator.validate()
        assert self.state.is_terminal or (self.state is _J.RESTARTING) == bool(self._restarts)
        if not self.state.is_terminal:
            assert self._allocator.allocations == self.slot_pool.reserved_allocations, "a slot is kept for nobody"
            assert self._allocator.waiting_requests == self.slot_pool.waiting_requests
        for vertex in self.graph.vertices:
            if vertex.current.is_deployed:
                assert self._allocator.slot_of(vertex.id) == vertex.current.slot, f"{vertex} runs in a slot it has not"

    # The job

    def start_from(
        self, checkpoint: CompletedCheckpoint | None, next_checkpoint_id: int, *, must_be_full: bool = False
    ) -> None:
        """Before JobMasterInitialized. Raises: StateRestoreError where the checkpoint does not fit the job."""
        self.checkpoints.start_from(checkpoint, next_checkpoint_id, must_be_full=must_be_full)

    def start_with_sources(self, num_splits: Mapping[JobVertexID, int]) -> None:
        """Before JobMasterInitialized: so many splits these sources have, whose parallelism is to be decided by that.

        Coordinators can be made afterwards of every vertex that knows its parallelism.
        """
        self.adaptive.sources_inferred(num_splits)
        self._decide_parallelism()

    def recover(self, recorded: RecordedJob, held: frozenset[str]) -> None:
        """Before JobMasterInitialized: go on with what earlier JobMasters have finished.

        `held`: the ids of the result partitions that TaskExecutors still have.
        """
        recovered = recover(self.graph, self._regions, self.partitions, recorded, held, self._now_ms)
        self._recovered_coordinators = recovered.coordinator_states
        if recovered.dropped:
            self._record(job_events.reset(recovered.dropped))

    def _decide_parallelism(self) -> list[ExecutionJobVertex]:
        """Give subtasks to every vertex that can know now how many; returns these vertices."""
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
        if self._options.records_events:
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
                self._out.cancel(vertex.current)  # nobody will be here to hear the answer of a submission
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
        self.partitions.clear()  # every TaskExecutor is told that the job is over
        reason = SlotAllocationError(f"job {self.graph.name!r} is {state.name}")
        self._tell_pool(sp.CloseSlotPool(reason))
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
            self._tell_pool(sp.RequestSlots(tuple(requests)))

    def _deploy_if_complete(self, region: PipelinedRegion) -> None:
        vertices = [self.graph.vertex(vertex_id) for vertex_id in region.vertex_ids]
        if any(vertex.current.state is not _E.SCHEDULED or vertex.current.slot is None for vertex in vertices):
            return
        for vertex in vertices:
            self._enter(vertex, _E.DEPLOYING)
            self._unanswered.add(vertex.current.attempt_id)
        self._out.submit(vertices)

    def _tell_pool(self, event: sp.SlotPoolEvent) -> None:
        fulfilled: dict[int, PipelinedRegion] = {}
        for effect in self.slot_pool.handle(event, self._now_ms):
            match effect:
                case sp.SlotRequestFulfilled(request_id, slot):
                    for vertex_id in self._allocator.fulfilled(request_id, slot):
                        self.graph.vertex(vertex_id).assign_slot(slot)
                        region = self._regions.region_of(vertex_id)
                        fulfilled[region.index] = region
                case sp.SlotRequestsTimedOut():
                    self._on_slots_timed_out(effect)
                case sp.SlotsAccepted(allocation_ids):
                    self._out.add(fx.AnswerOffer(allocation_ids))
                case sp.RequirementsChanged():
                    # Not the number in the effect: handling the effects before it may have changed it again.
                    self._out.declare(self.slot_pool.num_required)
                case sp.FreeSlotAtTaskManager(slot, cause):
                    self._out.add(fx.FreeSlot(slot, cause))
                case sp.SlotLost(slot, cause):
                    for vertex_id in self._allocator.users_of_slot(slot.allocation_id):
                        self._fail(self.graph.vertex(vertex_id), cause)
        for region in fulfilled.values():
            self._deploy_if_complete(region)

    def _on_slots_timed_out(self, effect: sp.SlotRequestsTimedOut) -> None:
        timeout_ms = self._options.slot_pool.request_timeout_ms
        cause = NoResourceAvailableError(
            f"job {self.graph.name!r} needs {effect.num_required} slots, and {effect.num_available} were available "
            f"within slot.request.timeout ({timeout_ms} ms). {self._advice}",
            details={"required": str(effect.num_required), "available": str(effect.num_available)},
        )
        for vertex_id in self._allocator.users_of_requests(effect.request_ids):
            self._fail(self.graph.vertex(vertex_id), cause)

    # Results

    def _has_finished_for_good(self, vertex: ExecutionVertex) -> bool:
        """As things are: it has, together with its region, and no restart waits for it."""
        return self._regions.has_finished(vertex) and not self._restarts.has(vertex.id)

    def _release_what_was_read_by(self, vertex: ExecutionVertex) -> None:
        """`vertex` has finished: nobody may need its inputs any more."""
        if self._options.records_events and not vertex.job_vertex.results:
            return  # should its end not be on the disk when this JobMaster dies, it does the same with the same again
        if self._options.releases_partitions_during_execution and self._regions.has_finished(vertex):
            inputs = {
                (partition.result.id, partition.index): partition
                for vertex_id in self._regions.region_of(vertex.id).vertex_ids
                for gate in self.graph.vertex(vertex_id).consumed
                for partition in gate.partitions
            }
            for tracked in self.partitions.take_consumed(inputs.values()):
                self._out.release(tracked.location, tracked.partition_id)

    # Transitions of a task

    def _enter(self, vertex: ExecutionVertex, state: ExecutionState) -> None:
        vertex.current.transition(state, self._now_ms)
        self._out.add(fx.TaskStateChanged(vertex.task_name, vertex.current.attempt_id, state, vertex.current.failure))
        self._run(self.checkpoints.task_state_changed(vertex.current.attempt_id, state))

    def _leave(self, vertex: ExecutionVertex, state: ExecutionState) -> None:
        """Enter a terminal state and let go of the slot."""
        self._enter(vertex, state)
        self._reconciler.forget(vertex.current.attempt_id)
        self._unanswered.discard(vertex.current.attempt_id)
        released = self._allocator.release(vertex.id)
        if released.cancelled_requests:
            self._tell_pool(sp.CancelSlotRequests(released.cancelled_requests))
        for allocation_id in released.returned_slots:
            self._tell_pool(sp.ReturnSlot(allocation_id))

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

    def _fail(self, vertex: ExecutionVertex, cause: FlinkError) -> None:
        raise NotImplementedError
