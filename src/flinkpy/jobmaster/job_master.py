"""JobMaster: the endpoint of one job.

It owns the DefaultScheduler, which makes all decisions, and executes them: each call, timer and coordinator action is
an effect that runs here, and its outcome goes back to the scheduler as an event. Events are handled one at a time. An
event that occurs while effects run, for example a coordinator that fails at once, waits until they are done.

`servicer` describes how late, repeated and stale calls are handled.

Source: org.apache.flink.runtime.jobmaster.JobMaster. Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec

from flinkpy._proto import job_pb2, jobmaster_pb2, metrics_pb2, taskexecutor_pb2
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CoordinatorMethod
from flinkpy.common.clock import Clock
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import (
    FlinkError,
    JobMasterLostError,
    JobNotFoundError,
    NotRegisteredError,
    RpcUnavailableError,
)
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, JobVertexID, ResourceID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.configuration import jobmanager_options, read_option, trace_options
from flinkpy.connector_api.coordinator import OperatorCoordinatorProvider
from flinkpy.graph.required_slots import runs_in_stages
from flinkpy.highavailability.standalone import StandaloneLeaderRetrieval
from flinkpy.jobmaster import conversions
from flinkpy.jobmaster.accumulators import FinalAccumulators, final_accumulators
from flinkpy.jobmaster.checkpoint_io import CheckpointIo, StartingPoint
from flinkpy.jobmaster.checkpoint_runner import LEADERSHIP_ERRORS, CheckpointRunner
from flinkpy.jobmaster.coordinator_services import CoordinatorServices
from flinkpy.jobmaster.diagnosis.collection import job_diagnosis, job_snapshot
from flinkpy.jobmaster.dispatcher_connection import DispatcherConnection
from flinkpy.jobmaster.failure_labels import FailureLabels, load_enrichers
from flinkpy.jobmaster.job_details import EVERYTHING, DetailParts, job_details, job_result
from flinkpy.jobmaster.job_event_store.batch_job_recovery_handler import BatchJobRecoveryHandler
from flinkpy.jobmaster.job_event_store.job_events import RecordedJob
from flinkpy.jobmaster.job_loading import load_job
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.job_metrics import JobMetrics
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.options import job_master_options, restart_strategy, state_assigner
from flinkpy.jobmaster.resource_manager_connection import ResourceManagerConnection, slot_wishes
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.scheduler_factory import scheduler_class
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation
from flinkpy.jobmaster.task_adoption import TaskAdoption, has_tasks_to_adopt
from flinkpy.jobmaster.task_manager_connection import TaskManagerConnection
from flinkpy.logs.formats import ERROR_ATTRIBUTE
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.traces.trace_context import SpanContext

if TYPE_CHECKING:
    from flinkpy.jobmaster.job_traces import JobTraces

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class JobMaster(RpcEndpoint):
    """Runs one job from `start` to `terminated`.

    Raises at construction: JobSubmissionError if the graph cannot be executed; ConfigurationError.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        job_graph: job_pb2.JobGraph,
        job_master_id: str,
        resource_manager_address: str,
        cluster_configuration: dict[str, str],
        submitted_ms: int,
        environment: JobMasterEnvironment,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(loop, clock)
        self._job_graph = job_graph
        self._job_master_id = job_master_id
        self._environment = environment
        # Timestamps and deadlines use the same clock: wall time at the start plus the monotonic clock. A step of the
        # wall clock does not move deadlines.
        self._wall_offset_ms = self.clock.now_ms() - self.clock.monotonic_ms()
        configuration = Configuration.from_dict({**cluster_configuration, **job_graph.configuration.entries})
        recovery_directory = environment.recovery_directory or environment.working_directory / "recovery"
        self._options = job_master_options(configuration)
        self.scheduler = scheduler_class(self._options.scheduler, job_graph)(
            job_graph,
            graph_id=environment.graph_id,
            options=self._options.scheduler,
            restart_strategy=restart_strategy(configuration, environment.random),
            now_ms=min(submitted_ms, self._now_ms) if submitted_ms else self._now_ms,
            random=environment.random,
            state_assigner=state_assigner(configuration, job_graph),
        )
        self.metrics = JobMetrics(
            job_graph.job_id,
            {"<host>": environment.host, "<job_id>": job_graph.job_id, "<job_name>": job_graph.name},
            environment.metrics,
            configuration,
        )
        self.metrics.register(self.scheduler, lambda: self._now_ms)
        self._traces: JobTraces | None = None
        if environment.tracer is not None:
            from flinkpy.jobmaster.job_traces import JobTraces

            self._traces = JobTraces(
                environment.tracer,
                self.scheduler,
                SpanContext.parse(job_graph.traceparent),
                detail_level=read_option(configuration, trace_options.CHECKPOINT_SPAN_DETAIL_LEVEL),
                variables={"job_id": job_graph.job_id, "job_name": job_graph.name},
                is_recovery=environment.is_recovery,
                now_ms=self._now_ms,
            )
        enricher_names: tuple[str, ...] = read_option(configuration, jobmanager_options.FAILURE_ENRICHERS)
        self._failure_labels = FailureLabels(
            self.scheduler.exception_history,
            load_enrichers(enricher_names),
            job_graph.job_id,
            job_graph.name,
            self.run_blocking,
            self.schedule,
            self._on_labeled_failures,
        )
        self._coordinators = OperatorCoordinators()
        self._coordinator_services = CoordinatorServices(self, self)
        self._checkpoint_io = CheckpointIo(
            configuration, job_graph.job_id, recovery_directory, environment.checkpoint_recovery
        )
        self.checkpoints = CheckpointRunner(
            self,
            self,
            self._checkpoint_io,
            self._coordinators,
            self._coordinator_services.valve,
            job_id=job_graph.job_id,
        )
        self._task_managers: dict[ResourceID, TaskManagerConnection] = {}
        ids = {"job_id": job_graph.job_id, "job_master_id": job_master_id}
        self._dispatcher = DispatcherConnection(
            self,
            environment.dispatcher,
            **ids,
            rpc_timeout_ms=self._options.rpc_timeout_ms,
            others_may_lead=environment.outlives_dispatcher,
        )
        self._resource_manager = ResourceManagerConnection(
            self,
            environment.peers,
            self._options,
            **ids,
            resource_id=environment.resource_id,
            job_master_address=environment.address,
            **slot_wishes(job_graph),
        )
        self._resource_managers = environment.resource_manager or StandaloneLeaderRetrieval(resource_manager_address)
        self._recovery = BatchJobRecoveryHandler(
            self, self.scheduler, self._coordinators, self._options.recovery, job_graph, recovery_directory
        )
        self._adoption = TaskAdoption(
            self,
            environment.peers,
            self.scheduler,
            self._coordinators,
            self._resource_manager,
            self._options.adoption,
            **ids,
            address=environment.address,
        )
        #: True while TaskExecutors agree to run tasks for this JobMaster that the scheduler does not know yet.
        self._is_adopting = False
        self._job_information = conversions.job_information(job_graph, environment.dispatcher_address)
        self._providers: Mapping[str, OperatorCoordinatorProvider] = {}
        self._events: deque[ev.SchedulerEvent] = deque()
        self._is_handling = False
        self._deadline = DeadlineTimer(self, lambda: self.handle(ev.CheckDeadlines()))
        #: Called when this JobMaster must no longer act for its job.
        self.on_leadership_lost: Callable[[FlinkError], None] = self.on_fatal_error
        #: Set when the job has ended, the Dispatcher has its result, and all slots have been returned.
        self.terminated = asyncio.Event()
        #: The steps of the end that are not done: the Dispatcher's acknowledgement and the return of all resources.
        self._open_ends = 2

    @property
    def job_id(self) -> str:
        return self._job_graph.job_id

    @property
    def heartbeat_interval_ms(self) -> int:
        return self._options.heartbeat_interval_ms

    @property
    def state(self) -> JobState:
        return self.scheduler.state

    # ---- life cycle

    def start(self) -> None:
        """Reports to the Dispatcher, registers at the ResourceManager, loads the job, then schedules it."""
        self.validate_runs_in_main_thread()
        logger.info("starting job %s (%s)", self._job_graph.name, self.job_id)
        self._dispatcher.started(self._environment.address)
        self._resource_manager.follow(self._resource_managers)
        source_bounds = self.scheduler.adaptive.source_bounds()
        loading = load_job(
            self._job_graph, self._environment, self._checkpoint_io, self.clock, self._recovery, source_bounds
        )
        self.run_async(loading, self._job_loaded, "load the job")

    def _job_loaded(self, loaded: Any, error: BaseException | None) -> None:
        if self.state is not JobState.INITIALIZING:
            return  # canceled in the meantime
        if isinstance(error, LEADERSHIP_ERRORS) and self.leadership_lost(error):
            return  # not a failure of the job
        if isinstance(error, OSError) and self._environment.is_recovery:
            # A disk error of this host is not a failure of the job: another JobMaster restores its checkpoints.
            self.on_fatal_error(error)
            return
        try:
            if error is not None:
                raise error
            start = loaded.start
            logger.info("job %s starts from %s", self.job_id, start.checkpoint or "the beginning")
            self.scheduler.start_from(start.checkpoint, start.next_checkpoint_id, must_be_full=start.must_be_full)
            recorded = self._recovery.begin(loaded.events)
            self.scheduler.start_with_sources(loaded.num_splits)
            self._providers = loaded.providers
            self._coordinators.create(self.scheduler.graph, self._providers, self._coordinator_services)
        except USER_ERRORS as failure:  # from user code, or from fetching it
            self._checkpoint_io.keep_everything()
            self.handle(ev.InitializationFailed(conversions.as_flink_error(failure)))
            return
        if recorded.finished or recorded.final:
            self.start_task(self._recover(recorded), "ask TaskExecutors for results of the job")
        elif self._may_adopt:
            self.start_task(self._adopt(start), "continue the tasks of the former JobMaster")
        else:
            self._start_scheduling()

    @property
    def _may_adopt(self) -> bool:
        is_possible = self._options.adoption.is_enabled and self.scheduler.can_adopt_tasks
        return is_possible and self._environment.is_recovery and has_tasks_to_adopt(self._job_graph)

    async def _adopt(self, start: StartingPoint) -> None:
        """Continues the tasks of the former JobMaster if possible, otherwise restores the latest checkpoint."""
        self._is_adopting = True
        tasks = await self._adoption.run(start)
        self._is_adopting = False
        if self.state is not JobState.INITIALIZING:
            return
        if not tasks:
            self._start_scheduling()
            return
        logger.info("job %s goes on: its %d tasks are still running", self.job_id, len(tasks))
        self.checkpoints.expect_leftovers()
        self._resource_manager.adopted_allocations = frozenset(
            task.slot.allocation_id for task in tasks if not task.is_finished
        )
        for location in dict.fromkeys(task.slot.location for task in tasks):
            self.register_task_manager(location)
        self.handle(ev.JobMasterInitialized())
        self.handle(ev.TasksAdopted(tasks))

    async def _recover(self, recorded: RecordedJob) -> None:
        """Continues with the finished tasks of earlier JobMasters whose result partitions still exist."""
        held = await self._recovery.ask_task_managers(
            recorded,
            self._environment.peers,
            job_master_address=self._environment.address,
            job_master_id=self._job_master_id,
        )
        if self.state is JobState.INITIALIZING:
            self.scheduler.recover(recorded, held)
            self._start_scheduling()

    def _start_scheduling(self) -> None:
        self.handle(ev.JobMasterInitialized())
        self.handle(ev.StartScheduling())

    def _create_coordinators(self) -> None:
        """Creates and starts the coordinators of vertices whose parallelism has just been decided."""
        try:
            self._coordinators.create(self.scheduler.graph, self._providers, self._coordinator_services)
        except FlinkError as failure:  # from user code
            self.handle(ev.GlobalFailure(failure))
            return
        self._coordinators.start()

    def _recreate_coordinators(self, job_vertex_ids: tuple[JobVertexID, ...]) -> None:
        """Replaces the coordinators of vertices with another parallelism. Another effect starts them."""
        self._coordinators.discard(job_vertex_ids)
        try:
            self._coordinators.create(self.scheduler.graph, self._providers, self._coordinator_services)
        except FlinkError as failure:  # from user code
            self.handle(ev.GlobalFailure(failure))

    def dispatcher_moved(self, gateway: Any, address: str) -> None:
        """Switches to another leading Dispatcher: reports go there, and tasks fetch the job's files there."""
        self.validate_runs_in_main_thread()
        self._dispatcher.move_to(gateway)
        self._job_information.blob_server_address = address

    def leadership_lost(self, error: FlinkError) -> bool:
        """Gives up the job because its leadership is lost. Returns False, without effect, if the job has ended."""
        if self.state.is_terminal:
            return False
        self._checkpoint_io.keep_everything()
        self.on_leadership_lost(error)
        return True

    def suspend(self, reason: str) -> None:
        """Stops the tasks and returns the slots, because this process can no longer lead the job."""
        self.validate_runs_in_main_thread()
        self._checkpoint_io.keep_everything()
        self._open_ends -= 1  # no Dispatcher will acknowledge the end
        self.handle(ev.SuspendJob(JobMasterLostError(f"the JobMaster of job {self.job_id} stopped: {reason}")))

    async def close(self) -> None:
        for connection in self._task_managers.values():
            connection.close()
        self._resource_manager.close()
        self._coordinators.close()
        self._recovery.close()
        await super().close()

    # ---- TaskExecutors

    def register_task_manager(self, location: TaskManagerLocation) -> None:
        self.validate_runs_in_main_thread()
        if self._is_adopting:
            raise RpcUnavailableError(f"the JobMaster of job {self.job_id} is still taking over its tasks")
        present = self._task_managers.get(location.resource_id)
        if present is not None and present.location == location:
            return
        if present is not None:
            present.lose("it registered again from another address")
        logger.info("TaskExecutor %s at %s registered", location.resource_id, location.address)
        self._task_managers[location.resource_id] = TaskManagerConnection(
            self,
            self._environment.peers,
            self,
            self._options,
            location,
            job_id=self.job_id,
            job_master_id=self._job_master_id,
        )
        self.handle(ev.TaskManagerRegistered(location))

    def offer_slots(self, resource_id: ResourceID, offers: tuple[SlotOffer, ...]) -> tuple[AllocationID, ...]:
        """Returns the accepted offers. Raises: NotRegisteredError."""
        self.validate_runs_in_main_thread()
        self._connection_of(resource_id)
        self.handle(ev.SlotsOffered(resource_id, offers))
        held = self.scheduler.slot_pool.allocations_of(resource_id)
        return tuple(offer.allocation_id for offer in offers if offer.allocation_id in held)

    def fail_slot(self, resource_id: ResourceID, allocation_id: AllocationID, cause: FlinkError) -> None:
        self.validate_runs_in_main_thread()
        self.handle(ev.SlotFailed(resource_id, allocation_id, cause))

    def update_task_execution_states(self, updates: list[ev.TaskStateUpdated]) -> None:
        self.validate_runs_in_main_thread()
        for update in updates:
            if self._traces is not None and update.initialization:
                self._traces.task_initialized(update.initialization)
            self.handle(update)

    def report_task_metrics(self, metrics: ev.TaskMetricsReported) -> None:
        self.validate_runs_in_main_thread()
        self.handle(metrics)

    def receive_operator_events(self, events: list[jobmaster_pb2.OperatorEvent]) -> None:
        """Passes events of tasks to their coordinators, in order. Drops repetitions and events of former attempts."""
        self.validate_runs_in_main_thread()
        for event in events:
            attempt_id = ExecutionAttemptID.parse(event.execution_attempt_id)
            self.handle(ev.OperatorEventReceived(attempt_id))
            self._coordinators.receive(event, self.scheduler.graph.find_execution(attempt_id))

    async def store_result(self, request: jobmaster_pb2.StoreResultRequest) -> None:
        """Stores a piece of the committables of a task. Returns when it is written; the last piece, when it is on disk.

        Raises: JobNotFoundError after the end of the job; ExternalError, OSError: see `KeptResults`.
        """
        self.validate_runs_in_main_thread()
        if self.state.is_terminal:
            raise JobNotFoundError(f"job {self.job_id} has ended")
        kept, partition_id = self._recovery.kept_results, request.result_partition_id

        def store() -> None:
            kept.write(partition_id, request.offset, request.data)
            if request.is_last:
                kept.complete(partition_id, request.offset + len(request.data), request.crc32)

        await self.blocking(store, "store committables")

    async def fetch_result(self, partition_id: str, offset: int) -> jobmaster_pb2.FetchResultResponse:
        """Returns a piece of stored committables. Raises: see `BatchJobRecoveryHandler.fetch_result`."""
        self.validate_runs_in_main_thread()
        piece = await self._recovery.fetch_result(partition_id, offset)
        return jobmaster_pb2.FetchResultResponse(data=piece.data, is_last=piece.is_last, crc32=piece.crc32)

    def partition_state(self, producer: ExecutionAttemptID) -> ExecutionState:
        """Returns the state of the attempt that produces a partition; CANCELED if it has been replaced."""
        execution = self.scheduler.graph.find_execution(producer)
        return ExecutionState.CANCELED if execution is None else execution.state

    def heartbeat_from_task_manager(
        self, heartbeat: jobmaster_pb2.TaskManagerToJobMasterHeartbeat
    ) -> jobmaster_pb2.JobMasterHeartbeatResponse:
        self.validate_runs_in_main_thread()
        resource_id = ResourceID(heartbeat.resource_id)
        if resource_id not in self._task_managers:
            return jobmaster_pb2.JobMasterHeartbeatResponse(registered=False)
        self.on_heartbeat(heartbeat)
        return jobmaster_pb2.JobMasterHeartbeatResponse(
            registered=True, allocation_ids=self.allocations_of(resource_id)
        )

    def disconnect_task_manager(self, resource_id: ResourceID, reason: str) -> None:
        """Handles a TaskExecutor that leaves, or that the ResourceManager has lost."""
        self.validate_runs_in_main_thread()
        connection = self._task_managers.get(resource_id)
        if connection is not None:
            connection.lose(reason)

    # ---- clients

    def cancel(self) -> None:
        self.validate_runs_in_main_thread()
        self.handle(ev.CancelJob())

    def update_resource_requirements(self, requirements: job_pb2.JobResourceRequirements) -> None:
        """Sets the parallelism that the vertices may have.

        Raises: InvalidResourceRequirementsError; UnsupportedOperationError if the scheduler cannot change it.
        """
        self.validate_runs_in_main_thread()
        if self.state is JobState.INITIALIZING:
            raise RpcUnavailableError(f"the JobMaster of job {self.job_id} is still loading the job")
        self.handle(ev.ResourceRequirementsChanged(self.scheduler.checked_requirements(requirements.vertices)))

    def details(self, parts: DetailParts = EVERYTHING) -> job_pb2.JobDetails:
        pool = self.scheduler.slot_pool
        num_slots_required = self.scheduler.num_slots_required
        if pool.num_slots > 0 and runs_in_stages(self._job_graph):
            # A job that runs in stages makes progress with any number of slots.
            num_slots_required = min(num_slots_required, pool.num_slots)
        return job_details(
            self.scheduler,
            self._job_graph.configuration,
            is_batch=self._options.is_batch,
            parts=parts,
            num_slots_required=num_slots_required,
            num_slots_held=pool.num_slots,
            splits={} if self.state.is_terminal else self._coordinators.split_progress(),
        )

    async def diagnosis(self, metrics: list[metrics_pb2.MetricGroupDump]) -> job_pb2.JobDiagnosis:
        """Returns why the job has no output, given the metrics of its tasks."""
        self.validate_runs_in_main_thread()
        details = self.details()
        statistics = self.scheduler.checkpoints.coordinator.statistics.response()
        now_ms, interval_ms = self._now_ms, self._options.scheduler.checkpoints.interval_ms

        def diagnose() -> job_pb2.JobDiagnosis:
            return job_diagnosis(details, job_snapshot(details, statistics, metrics, now_ms, interval_ms))

        # For 600 subtasks this takes 50 ms, in which the loop has other work.
        return await asyncio.to_thread(diagnose)

    def handle_coordination_request(self, operator_id: str, payload: bytes) -> bytes:
        self.validate_runs_in_main_thread()
        if self.state is JobState.INITIALIZING:
            raise RpcUnavailableError(f"the JobMaster of job {self.job_id} is still loading its coordinators")
        return self._coordinators.handle_request(operator_id, payload)

    # ---- TaskManagerListener

    def on_tasks_submitted(
        self, attempts: tuple[ExecutionAttemptID, ...], rejections: tuple[tuple[ExecutionAttemptID, FlinkError], ...]
    ) -> None:
        self.handle(ev.TasksSubmitted(attempts, rejections))

    def on_operator_events_lost(self, attempts: tuple[ExecutionAttemptID, ...], cause: FlinkError) -> None:
        self.handle(ev.OperatorEventsLost(attempts, cause))

    def on_heartbeat(self, heartbeat: jobmaster_pb2.TaskManagerToJobMasterHeartbeat) -> None:
        resource_id = ResourceID(heartbeat.resource_id)
        connection = self._task_managers.get(resource_id)
        if connection is None:
            return
        connection.heard()
        if heartbeat.metrics:
            self.handle(conversions.metrics_report(heartbeat.metrics))
        attempts = conversions.attempt_ids(heartbeat.deployed_execution_attempts)
        self.handle(ev.DeploymentsReported(resource_id, attempts))

    def allocations_of(self, resource_id: ResourceID) -> list[str]:
        return [str(allocation_id) for allocation_id in self.scheduler.slot_pool.allocations_of(resource_id)]

    def on_task_manager_lost(self, connection: TaskManagerConnection, cause: FlinkError, reason: str) -> None:
        resource_id = connection.location.resource_id
        if self.allocations_of(resource_id):
            logger.warning("%s", cause)
        else:  # the regular end: the job holds no slots there
            logger.info("TaskExecutor %s at %s has left: %s", resource_id, connection.location.address, reason)
        self._task_managers.pop(resource_id, None)
        self.run_async(
            self._environment.peers.drop(connection.location.address), None, f"drop the channel to {resource_id}"
        )
        self.handle(ev.TaskManagerLost(resource_id, cause))

    # ---- CheckpointHost

    def connection_of_attempt(self, attempt: ExecutionAttemptID) -> TaskManagerConnection | None:
        execution = self.scheduler.graph.find_execution(attempt)
        if execution is None or execution.slot is None:
            return None
        return self._task_managers.get(execution.slot.location.resource_id)

    @property
    def task_manager_connections(self) -> list[TaskManagerConnection]:
        return list(self._task_managers.values())

    @property
    def pending_checkpoints(self) -> list[int]:
        return self.scheduler.checkpoints.coordinator.pending_ids

    def coordinate(self, method: CoordinatorMethod[P], *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls a method of the CheckpointCoordinator and runs the effects."""
        self.handle(ev.CheckpointCall(lambda coordinator, now_ms: method(coordinator, now_ms, *args, **kwargs)))

    # ---- timers

    @property
    def _now_ms(self) -> int:
        return self.clock.monotonic_ms() + self._wall_offset_ms

    # ---- events in, effects out

    def handle(self, event: ev.SchedulerEvent) -> None:
        """Passes the event to the scheduler and runs the effects.

        Events that occur meanwhile are handled afterwards.
        """
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events:
                for effect in self.scheduler.handle(self._events.popleft(), self._now_ms):
                    self._run(effect)
            self._failure_labels.observe()
            if self._traces is not None:
                self._traces.observe(self._now_ms)
        except Exception as error:
            # The event was handled only in part, so the state of this JobMaster is not reliable any more.
            self.on_fatal_error(error)
            raise
        finally:
            self._is_handling = False
        self._deadline.arm(self.scheduler.next_deadline_ms, self._now_ms)

    def _run(self, effect: fx.SchedulerEffect) -> None:
        match effect:
            case fx.JobTerminated(state, cause):
                self._on_terminated(state, cause)
            case fx.VerifyCheckpoints():
                self.checkpoints.drop_damaged(lambda latest, error: self.handle(ev.CheckpointsVerified(latest, error)))
            case fx.VerticesInitialized():
                self._create_coordinators()
            case fx.RecreateCoordinators(job_vertex_ids):
                self._recreate_coordinators(job_vertex_ids)
            case fx.TaskStateChanged():
                logger.log(logging.WARNING if effect.error is not None else logging.INFO, "%s", effect)
                if self._traces is not None:
                    self._traces.task_state_changed()
            case fx.DeclareRequirements(requirements, blocked):
                self._resource_manager.declare(requirements, blocked)
            case fx.SubmitTasks():
                if self._traces is not None:
                    self._traces.tasks_deployed(self._now_ms)
                self._submit_tasks(effect)
            case fx.CancelTasks(location, attempts):
                connection = self._task_managers.get(location.resource_id)
                if connection is not None:
                    connection.cancel_tasks(attempts)
            case fx.FreeSlot(slot, cause):
                connection = self._task_managers.get(slot.location.resource_id)
                if connection is not None:
                    connection.free_slot(slot, cause)
            case fx.ReleasePartitions(location, partition_ids):
                connection = self._task_managers.get(location.resource_id)
                if connection is not None:
                    connection.release_partitions(partition_ids)
            case fx.RemoveKeptResults(partition_ids):
                self._recovery.remove_kept_results(partition_ids)
            case fx.AdoptSubtasks(job_vertex_id, tasks):
                self._coordinators.adopt(job_vertex_id, tasks)
            case fx.StartCoordinators():
                self._coordinators.start()
            case fx.RecordJobEvent():
                self._recovery.record(effect)
            case fx.RestoreCoordinators(job_vertex_id, states):
                self._coordinators.restore_for_recovery(job_vertex_id, states)
            case fx.SubtaskReady(vertex_id):
                self._coordinators.subtask_ready(vertex_id)
            case fx.SubtaskReset(vertex_id, checkpoint_id):
                self._coordinators.subtask_reset(vertex_id, checkpoint_id)
            case fx.ResetCoordinators(job_vertex_id, checkpoint_id, states):
                self._coordinators.reset(job_vertex_id, checkpoint_id, states)
            case fx.JobStatusChanged(state, timestamp_ms):
                graph = self.scheduler.graph
                logger.info("job %s (%s) is %s", graph.name, graph.job_id, state.name)
                self._dispatcher.status(state, timestamp_ms)
            case _:
                self.checkpoints.run(effect)

    def _submit_tasks(self, effect: fx.SubmitTasks) -> None:
        connection = self._task_managers.get(effect.location.resource_id)
        if connection is None:
            # The TaskExecutor was lost after the decision. The event of the loss is queued and has the same result.
            cause = NotRegisteredError(
                f"TaskExecutor {effect.location.resource_id} is not registered at this JobMaster"
            )
            self.handle(
                ev.TasksSubmitted(effect.attempts, tuple((attempt_id, cause) for attempt_id in effect.attempts))
            )
            return
        job_vertices = self.scheduler.graph.job_vertices
        if self._traces is not None:
            self._job_information.traceparent = self._traces.parent.traceparent
        request = taskexecutor_pb2.SubmitTasksRequest(
            job=self._job_information,
            vertices=[job_vertices[vertex_id].job_vertex for vertex_id in effect.vertices],
            tasks=effect.tasks,
        )
        connection.submit_tasks(request, effect.attempts)

    def _on_terminated(self, state: JobState, cause: FlinkError | None) -> None:
        if cause is not None:
            # A warning, not an error: the job failed, not this process. The client gets the error, too.
            logger.warning(
                "job %s ended as %s: %s\n%s",
                self.job_id,
                state.name,
                cause,
                cause.remote_traceback,
                extra={ERROR_ATTRIBUTE: cause},
            )
        self._coordinators.close()
        if state.is_globally_terminal:
            reports = {
                (str(vertex.id.job_vertex_id), vertex.subtask_index): vertex.current.accumulators
                for vertex in self.scheduler.graph.vertices
                if vertex.current.accumulators
            }

            def report(final: FinalAccumulators | None, error: BaseException | None) -> None:
                self._failure_labels.when_labeled(partial(self._report_end, final, error))

            if reports:
                self.run_blocking(lambda: final_accumulators(reports), report, "merge the accumulators")
            else:
                report(None, None)
        returning = self._return_resources(f"job {self._job_graph.name!r} is {state.name}")
        self.run_async(returning, lambda _, __: self._one_end_done(), "return all resources")

    def _on_labeled_failures(self) -> None:
        if self._traces is not None:
            self._traces.observe(self._now_ms)

    def _report_end(self, accumulators: FinalAccumulators | None, error: BaseException | None) -> None:
        if error is not None:
            logger.error("the accumulators of job %s could not be merged; they are lost", self.job_id, exc_info=error)
        final = accumulators or FinalAccumulators()
        result = job_result(self.scheduler, final.job)
        cause = self.scheduler.graph.failure_cause
        remedy = self._checkpoint_io.remedy(self.state, cause)
        details = self.details()
        final.add_to(details)
        if remedy:
            logger.error("%s", remedy)
            result.error.message += f" {remedy}"
            # The newest entry is the failure that ended the job. `flinkpy info` shows it.
            details.exception_history[0].error.message += f" {remedy}"
        # Checkpoints are deleted only after the Dispatcher has the result: before, another JobMaster may need them.
        give_up = partial(self.checkpoints.shut_down, self.state, cause, self._one_end_done)
        statistics = self.scheduler.checkpoints.coordinator.statistics.response()
        self._dispatcher.terminated(result, details, statistics, partial(self._recovery.give_up, give_up))

    async def _return_resources(self, reason: str) -> None:
        connections = list(self._task_managers.values())
        # TaskExecutors keep finished results when they lose a JobMaster. The next JobMaster may continue with them.
        is_kept = self.state is JobState.SUSPENDED and self._recovery.is_enabled
        await asyncio.gather(
            *(connection.disconnect(reason) for connection in connections if not is_kept),
            self._resource_manager.disconnect(reason),
        )
        for connection in connections:  # from now on, a broken connection is not a loss
            connection.close()
            if self._task_managers.get(connection.location.resource_id) is connection:
                del self._task_managers[connection.location.resource_id]

    def _one_end_done(self) -> None:
        self._open_ends -= 1
        if self._open_ends <= 0:
            self.terminated.set()

    def _connection_of(self, resource_id: ResourceID) -> TaskManagerConnection:
        connection = self._task_managers.get(resource_id)
        if connection is None:
            raise NotRegisteredError(f"TaskExecutor {resource_id} is not registered at the JobMaster of {self.job_id}")
        return connection


class DeadlineTimer:
    """A timer for the next deadline of a state machine that has no clock. Thread: main thread."""

    def __init__(self, endpoint: RpcEndpoint, on_passed: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._on_passed = on_passed
        self._timer: TimerHandle | None = None
        self._deadline_ms: int | None = None

    def arm(self, deadline_ms: int | None, now_ms: int) -> None:
        """Sets the timer to this deadline. None: there is no deadline."""
        if deadline_ms == self._deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadline_ms = deadline_ms
        if deadline_ms is not None:
            self._timer = self._endpoint.schedule(max(0, deadline_ms - now_ms), self._passed)

    def _passed(self) -> None:
        self._timer = None
        self._deadline_ms = None
        self._on_passed()
