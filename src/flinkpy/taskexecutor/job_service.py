"""JobService: the slots, tasks and JobMaster connections of a TaskExecutor.

The ResourceManager requests a slot, which is offered to the JobMaster. An accepted slot runs tasks. When the JobMaster
of a streaming job is lost, its tasks go on for a while, and another JobMaster may continue them (`task_adoption`).
Otherwise the tasks of the job fail and its slots, partitions, files and modules are released. If the job can be
recovered from finished blocking partitions, these wait for its next JobMaster for a while. A job without slots, tasks,
and unread or held partitions is closed in the same way, after its last report was answered.

Thread: main thread. Source: the slot, job and task parts of org.apache.flink.runtime.taskexecutor.TaskExecutor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flinkpy._proto import checkpoint_pb2, jobmaster_pb2, taskexecutor_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import (
    FlinkError,
    JobMasterLostError,
    RpcTimeoutError,
    SlotAllocationError,
    TaskSubmissionError,
)
from flinkpy.common.ids import AllocationID, JobID, JobMasterId
from flinkpy.common.states import ExecutionState
from flinkpy.graph.resource_profiles import resource_profile_from_proto, resource_profile_to_proto
from flinkpy.logs.context import in_context
from flinkpy.logs.formats import ERROR_ATTRIBUTE
from flinkpy.logs.setup import process_log
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import error_to_proto
from flinkpy.rpc.peer_connection import Peers
from flinkpy.taskexecutor.contracts import JobUserCode, TaskDeployer
from flinkpy.taskexecutor.diagnostics import JobLogs
from flinkpy.taskexecutor.job_master_connection import JobMasterConnection, as_flink_error
from flinkpy.taskexecutor.job_table import Job, JobTable
from flinkpy.taskexecutor.options import TaskExecutorOptions
from flinkpy.taskexecutor.partition_table import PartitionTable, orphan_timeout_ms
from flinkpy.taskexecutor.slot_table import FreedSlot, SlotState, TaskSlotTable
from flinkpy.taskexecutor.task import Task, state_update, task_reports
from flinkpy.taskexecutor.task_adoption import (
    adoption_timeout_ms,
    check_attempts,
    continue_tasks,
    keep_last_report,
    may_be_adopted,
    reported_tasks,
)
from flinkpy.taskexecutor.task_ledger import TaskLedger
from flinkpy.taskexecutor.task_thread import TaskThread

logger = logging.getLogger(__name__)

#: How often metrics of tasks are sent to their JobMaster, and finished jobs are looked for.
HOUSEKEEPING_INTERVAL_MS = 1_000

#: A slot that was accepted more recently may be missing in a list that the JobMaster made before.
RECONCILE_GRACE_MS = 1_000

#: How often a TaskExecutor looks whether a JobMaster that it has lost is alive after all.
PROBE_INTERVAL_MS = 1_000

JobEntry = Job[Task, JobMasterConnection, JobUserCode]


class JobService:
    def __init__(
        self,
        endpoint: RpcEndpoint,
        rpc_client: Peers,
        deployer: TaskDeployer,
        options: TaskExecutorOptions,
        *,
        on_slot_freed: Callable[[FreedSlot], None],
        on_task_stuck: Callable[[Task, int], None],
        on_task_ended: Callable[[Task | None], None] = lambda _: None,
        make_thread: Callable[..., TaskThread] = TaskThread,
    ) -> None:
        self.slots = TaskSlotTable(
            options.num_slots,
            options.slot_timeout_ms,
            total=options.total_resource,
            default_slot=options.default_slot_resource,
        )
        self.jobs: JobTable[Task, JobMasterConnection, JobUserCode] = JobTable()
        self.partitions = PartitionTable(deployer, lambda: self.now_ms)
        self._endpoint = endpoint
        self._rpc_client = rpc_client
        self._deployer = deployer
        self._options = options
        self._on_slot_freed = on_slot_freed
        self._on_task_stuck = on_task_stuck
        self._on_task_ended = on_task_ended
        self._make_thread = make_thread
        self.logs = JobLogs()
        self._address = ""
        self._data_address = ""
        #: The job of every task that has not ended, including closed jobs.
        self._job_of_task: dict[str, JobEntry] = {}

    def start(self, address: str, data_address: str) -> None:
        """Starts the periodic work. Peers reach this process at the given addresses."""
        self._address, self._data_address = address, data_address
        self._endpoint.schedule(HOUSEKEEPING_INTERVAL_MS, self._housekeeping)

    @property
    def now_ms(self) -> int:
        return self._endpoint.clock.monotonic_ms()

    @property
    def unfinished_tasks(self) -> list[Task]:
        """The tasks that have not ended, including those of closed jobs."""
        return [task for attempt, job in self._job_of_task.items() if (task := job.tasks.get(attempt)) is not None]

    # ---- slots

    def request_slot(self, request: taskexecutor_pb2.RequestSlotRequest) -> None:
        """Allocates the slot and offers it to the JobMaster. Raises: SlotAllocationError, which names the owner."""
        job_id = JobID(request.job_id)
        allocation_id = AllocationID(request.allocation_id)
        job = self._job_led_by(job_id, request.job_master_id)
        self._deployer.dedicate(request.resource_profile)
        is_new = self.slots.allocate_slot(
            request.slot_index,
            job_id,
            allocation_id,
            request.resource_profile,
            self.now_ms,
            resource_profile_from_proto(request, "resources"),
        )
        if not is_new:
            return
        logger.info("slot %d allocated for job %s (%s)", request.slot_index, job_id, allocation_id)
        self._endpoint.schedule(self._options.slot_timeout_ms, self._free_expired_slots)
        if job is None:
            self._add_job(job_id, JobMasterId(request.job_master_id), request.job_master_address)
        elif job.connection.is_registered:
            self._offer(job, [str(allocation_id)])

    def connect_job_master(self, request: taskexecutor_pb2.ConnectJobMasterRequest) -> list[str]:
        """Registers at the job's new JobMaster if results are held for it, and returns these. Idempotent."""
        job_id = JobID(request.job_id)
        job = self._job_led_by(job_id, request.job_master_id)
        held = self.partitions.tracker.held(job_id)
        if job is None and held:
            added = self._add_job(job_id, JobMasterId(request.job_master_id), request.job_master_address)
            added.orphan_timeout_ms = orphan_timeout_ms(request.configuration)
        return held

    def free_slot(self, allocation_id: str, cause: FlinkError) -> None:
        """Frees the slot and fails its tasks. Idempotent."""
        slot = self.slots.slot_of(AllocationID(allocation_id))
        if slot is None:
            return
        attempts, job_id = list(slot.tasks), slot.job_id
        freed = self.slots.free_slot(AllocationID(allocation_id), cause.message)
        if freed is not None:
            self._slot_freed(freed)
        for attempt in attempts:
            task = self._task(attempt)
            if task is not None:
                task.fail(cause)
        job = None if job_id is None else self.jobs.get(job_id)
        if job is not None:
            self._close_if_done(job)

    def _job_led_by(self, job_id: JobID, job_master_id: str) -> JobEntry | None:
        """Returns the job, or None. Closes a job of an earlier JobMaster."""
        job = self.jobs.get(job_id)
        if job is None or (str(job.job_master_id) == job_master_id and not job.is_orphaned):
            return job
        lost = JobMasterLostError(f"job {job_id} has a new JobMaster, {job_master_id}")
        self._close_job_without_master(job, lost)
        return None

    def _add_job(self, job_id: JobID, job_master_id: JobMasterId, job_master_address: str) -> JobEntry:
        connection = self._connection(job_id, job_master_id, job_master_address)
        job = Job[Task, JobMasterConnection, JobUserCode](job_id, job_master_address, job_master_id, connection)
        job.result_partition_ids.update(self.partitions.tracker.adopt(job_id))
        self.jobs.add(job)
        self.logs.begin(job_id)
        connection.register()
        return job

    def _connection(self, job_id: JobID, job_master_id: JobMasterId, job_master_address: str) -> JobMasterConnection:
        return JobMasterConnection(
            self._endpoint,
            self._rpc_client,
            self,
            self._options,
            job_id=job_id,
            job_master_address=job_master_address,
            job_master_id=job_master_id,
            task_executor_address=self._address,
            data_address=self._data_address,
        )

    def _offer(self, job: JobEntry, allocation_ids: Iterable[str]) -> None:
        offers = []
        for allocation_id in allocation_ids:
            slot = self.slots.slot_of(AllocationID(allocation_id))
            if slot is not None and slot.job_id == job.job_id and slot.state is SlotState.ALLOCATED:
                offers.append(
                    jobmaster_pb2.SlotOffer(
                        allocation_id=allocation_id,
                        slot_index=slot.index,
                        resource_profile=slot.environment_profile,
                        resources=resource_profile_to_proto(slot.resources),
                    )
                )
        if offers:
            job.connection.offer_slots(offers)

    def _free_expired_slots(self) -> None:
        for allocation_id in self.slots.expired_allocations(self.now_ms):
            self.free_slot(
                str(allocation_id),
                SlotAllocationError(
                    f"slot not used within {self._options.slot_timeout_ms} ms (taskmanager.slot.timeout)"
                ),
            )

    def _slot_freed(self, freed: FreedSlot) -> None:
        logger.info("freed slot %d of job %s", freed.index, freed.job_id)
        self._on_slot_freed(freed)

    # ---- events of a JobMaster connection

    def on_job_master_registered(self, job_id: JobID) -> None:
        job = self.jobs.get(job_id)
        if job is not None:
            slots = self.slots.slots_of_job(job_id, SlotState.ALLOCATED)
            self._offer(job, [str(slot.allocation_id) for slot in slots])

    def on_slots_answered(self, job_id: JobID, offered: list[str], accepted: set[str]) -> None:
        job = self.jobs.get(job_id)
        for allocation_id in offered:
            if allocation_id in accepted:
                is_ours = self.slots.mark_active(AllocationID(allocation_id), job_id, self.now_ms)
                if not is_ours and job is not None:
                    gone = SlotAllocationError(f"slot {allocation_id} was freed before its offer was answered")
                    job.connection.fail_slot(allocation_id, error_to_proto(gone))
            else:
                slot = self.slots.slot_of(AllocationID(allocation_id))
                if slot is not None and slot.state is SlotState.ALLOCATED:
                    self.free_slot(allocation_id, SlotAllocationError("the JobMaster did not accept the slot"))

    def on_slot_offer_failed(self, job_id: JobID, offered: list[str], error: FlinkError) -> None:
        job = self.jobs.get(job_id)
        if job is not None and isinstance(error, RpcTimeoutError):
            self._offer(job, offered)  # it may have been accepted
            return
        for allocation_id in offered:
            slot = self.slots.slot_of(AllocationID(allocation_id))
            if slot is not None and slot.state is SlotState.ALLOCATED:
                self.free_slot(allocation_id, SlotAllocationError(f"could not offer the slot: {error}"))

    def on_allocated_slots(self, job_id: JobID, allocation_ids: Iterable[str]) -> None:
        """Frees slots that the JobMaster does not know, and reports slots that are not held here."""
        job = self.jobs.get(job_id)
        if job is None:
            return
        believed = set(allocation_ids)
        settled_ms = self.now_ms - RECONCILE_GRACE_MS
        for slot in list(self.slots.slots_of_job(job_id, SlotState.ACTIVE)):
            allocation_id = str(slot.allocation_id)
            if allocation_id not in believed and (slot.active_since_ms or 0) <= settled_ms:
                self.free_slot(allocation_id, SlotAllocationError("the JobMaster does not know the slot"))
        for allocation_id in believed:
            slot_here = self.slots.slot_of(AllocationID(allocation_id))
            if slot_here is None or slot_here.job_id != job_id:
                unknown = SlotAllocationError(f"{self._options.resource_id} has no allocation {allocation_id}")
                job.connection.fail_slot(allocation_id, error_to_proto(unknown))

    def on_report_refused(self, job_id: JobID, execution_attempt_ids: list[str], error: FlinkError) -> None:
        for attempt in execution_attempt_ids:
            if (task := self._task(attempt)) is not None:
                task.fail(error)

    def on_job_master_lost(self, job_id: JobID, job_master_id: JobMasterId, cause: FlinkError) -> None:
        job = self.jobs.get(job_id)
        if job is None or job.job_master_id != job_master_id:
            return
        if may_be_adopted(job):
            self._orphan(job, cause)
        else:
            self._close_job_without_master(job, cause)

    def survives_its_job_master(self, job_id: JobID) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and may_be_adopted(job)

    def held_partitions(self, job_id: JobID) -> list[str]:
        return self.partitions.tracker.held(job_id)

    def job_heartbeat(self, job_id: JobID) -> jobmaster_pb2.TaskManagerToJobMasterHeartbeat:
        job = self.jobs.get(job_id)
        heartbeat = jobmaster_pb2.TaskManagerToJobMasterHeartbeat(
            job_id=str(job_id), resource_id=self._options.resource_id
        )
        if job is not None:
            attempts = job.connection.attempts_with_reports | set(job.tasks)
            heartbeat.deployed_execution_attempts.extend(sorted(attempts))
            heartbeat.metrics.extend(task_reports(job.tasks.values(), is_full=True))
            heartbeat.held_result_partition_ids.extend(self.held_partitions(job_id))
        return heartbeat

    # ---- jobs without a JobMaster

    def _orphan(self, job: JobEntry, cause: FlinkError) -> None:
        """Lets the tasks go on without a JobMaster for a while. Whatever they report meanwhile is not sent."""
        logger.warning("%s; the tasks go on for %d ms without a JobMaster", cause, job.adoption_timeout_ms)
        job.is_orphaned = True
        connection = job.connection
        connection.close()
        until_ms = self.now_ms + job.adoption_timeout_ms

        def look(is_alive: bool | None = None, _: BaseException | None = None) -> None:
            if not job.is_orphaned or job.connection is not connection or self.jobs.get(job.job_id) is not job:
                return
            if is_alive or self.now_ms >= until_ms:
                self._close_job_without_master(job, cause)
            elif is_alive is None:
                self._endpoint.run_async(self._is_alive(job), look, f"look for the JobMaster of job {job.job_id}")
            else:
                self._endpoint.schedule(PROBE_INTERVAL_MS, look)

        look()

    async def _is_alive(self, job: JobEntry) -> bool:
        """Returns True if the lost JobMaster answers. Then it runs the tasks elsewhere, or will."""
        is_alive = await job.connection.is_alive(PROBE_INTERVAL_MS / 1000)
        await self._drop_channel(job)
        return is_alive

    def report_tasks(self, request: taskexecutor_pb2.TaskReportRequest) -> taskexecutor_pb2.TaskReport:
        """Reports the tasks of a job to a JobMaster that may continue them. It replaces the present JobMaster."""
        report = taskexecutor_pb2.TaskReport(resource_id=self._options.resource_id, data_address=self._data_address)
        job = self.jobs.get(JobID(request.job_id))
        if job is None:
            return report
        if not job.is_orphaned and str(job.job_master_id) != request.job_master_id:
            cause = JobMasterLostError(f"job {job.job_id} has a new JobMaster, {request.job_master_id}")
            self.on_job_master_lost(job.job_id, job.job_master_id, cause)
        if self.jobs.get(job.job_id) is job and job.is_orphaned:
            job.reported_to = request.job_master_id
            report.tasks.extend(reported_tasks(job, self.slots))
        return report

    def adopt_tasks(self, request: taskexecutor_pb2.AdoptTasksRequest) -> None:
        """Lets a JobMaster continue the named tasks, and fails all others of the job. Idempotent.

        Raises: TaskSubmissionError if the job is not here any more, or if another JobMaster has asked since.
        """
        job = self.jobs.get(JobID(request.job_id))
        if job is None or job.reported_to != request.job_master_id:
            raise TaskSubmissionError(f"JobMaster {request.job_master_id} cannot continue job {request.job_id} here")
        if not job.is_orphaned:
            return  # a repeated call
        if not request.execution_attempt_ids:
            lost = JobMasterLostError(f"JobMaster {request.job_master_id} of job {job.job_id} restores a checkpoint")
            self._close_job_without_master(job, lost)
            return
        check_attempts(job, request.execution_attempt_ids)
        job.is_orphaned = False
        job.job_master_id = JobMasterId(request.job_master_id)
        job.job_master_address = request.job_master_address
        job.connection = self._connection(job.job_id, job.job_master_id, job.job_master_address)
        continue_tasks(job, request)
        job.connection.register()
        logger.info("JobMaster %s continues the tasks of job %s", request.job_master_id, job.job_id)

    # ---- tasks

    def submit_tasks(
        self, job: JobEntry, request: taskexecutor_pb2.SubmitTasksRequest
    ) -> list[taskexecutor_pb2.SubmitTasksResponse.Rejection]:
        """Creates tasks, which start when the job's user code is ready. Returns the rejected ones."""
        rejections = []
        vertices = {vertex.id: vertex for vertex in request.vertices}
        job.orphan_timeout_ms = orphan_timeout_ms(request.job.configuration)
        job.adoption_timeout_ms = adoption_timeout_ms(request.job.configuration, self._options.task_adoption_timeout_ms)
        if job.user_code is None:
            job.user_code = self._deployer.user_code(request.job)
            self._endpoint.start_task(self._prepare_user_code(job, job.user_code), f"user code of job {job.job_id}")
        for deployment in request.tasks:
            if job.execution_attempt_is_known(deployment.execution_attempt_id):
                continue  # a repeated call, or the task was canceled before it arrived
            try:
                vertex = vertices.get(deployment.vertex_id)
                if vertex is None:
                    raise TaskSubmissionError(
                        f"task {deployment.execution_attempt_id}: vertex {deployment.vertex_id} is not in the request"
                    )
                self._submit(job, request.job, vertex, deployment)
            except FlinkError as error:
                logger.warning("task %s rejected: %s", deployment.execution_attempt_id, error)
                rejections.append(
                    taskexecutor_pb2.SubmitTasksResponse.Rejection(
                        execution_attempt_id=deployment.execution_attempt_id, error=error_to_proto(error)
                    )
                )
        if job.user_code.is_ready:
            self._start_tasks(job)
        return rejections

    def _submit(
        self,
        job: JobEntry,
        information: taskexecutor_pb2.JobInformation,
        vertex: Any,
        deployment: taskexecutor_pb2.TaskDeployment,
    ) -> None:
        attempt = deployment.execution_attempt_id
        allocation_id = AllocationID(deployment.allocation_id)
        # The deployment shows that the offer was accepted, even if its answer has not arrived yet.
        self.slots.mark_active(allocation_id, job.job_id, self.now_ms)
        self.slots.add_task(allocation_id, job.job_id, attempt)
        assert job.user_code is not None
        try:
            deployed = self._deployer.deploy(
                information,
                vertex,
                deployment,
                job.user_code,
                lambda error: self._endpoint.run_in_main_thread(self._on_input_failure, attempt, error),
            )
        except Exception:
            self.slots.remove_task(attempt)
            raise
        job.result_partition_ids.update(deployed.result_partition_ids)
        self.partitions.tracker.start_making(job.job_id, attempt, deployed.blocking_partition_ids)
        job.tasks[attempt] = Task(
            deployed,
            self._endpoint,
            self,
            cancellation_interval_ms=self._options.cancellation_interval_ms,
            cancellation_timeout_ms=self._options.cancellation_timeout_ms,
            make_thread=self._make_thread,
            ledger=TaskLedger(tuple(p.result_partition_id for gate in deployment.input_gates for p in gate.partitions)),
        )
        self._job_of_task[attempt] = job

    def cancel_tasks(self, job: JobEntry, execution_attempt_ids: Iterable[str]) -> None:
        """Cancels tasks. An unknown attempt will not run if its deployment arrives later. Idempotent."""
        for attempt in execution_attempt_ids:
            task = job.tasks.get(attempt)
            if task is not None:
                task.cancel()
            else:
                job.end_attempt(attempt)

    def deliver_operator_events(self, job: JobEntry, events: Iterable[jobmaster_pb2.OperatorEvent]) -> None:
        """Delivers events to tasks. Drops repeated events and events of ended attempts."""
        for event in events:
            task = job.tasks.get(event.execution_attempt_id)
            if task is not None and task.received_events.is_new(event.sequence_number):
                task.ledger.received(event)
                task.deliver_operator_event(event.operator_id, event.payload_pickle)

    # ---- checkpoints: calls of the JobMaster

    def trigger_checkpoints(self, job: JobEntry, request: checkpoint_pb2.TriggerCheckpointsRequest) -> None:
        """Puts the trigger into the mailboxes of the tasks. Declines for attempts that cannot take it, so that the
        coordinator does not wait for them."""
        for attempt in request.execution_attempt_ids:
            task = job.tasks.get(attempt)
            try:
                if task is None:
                    reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
                    if attempt in job.ended_attempts:
                        reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
                    raise checkpoint_error(reason, f"Execution attempt {attempt} does not run here.")
                task.trigger_checkpoint(request.checkpoint_id, request.timestamp_ms, request.options)
            except FlinkError as error:
                logger.info("checkpoint %d of job %s declined: %s", request.checkpoint_id, job.job_id, error)
                job.connection.decline_checkpoint(attempt, request.checkpoint_id, error)

    def confirm_checkpoints(self, job: JobEntry, notification: checkpoint_pb2.CheckpointNotification) -> None:
        """Notifies running tasks that the checkpoint is completed."""
        for attempt in notification.execution_attempt_ids:
            task = job.tasks.get(attempt)
            if task is not None:
                task.notify_checkpoint_complete(notification.checkpoint_id)

    def abort_checkpoints(self, job: JobEntry, notification: checkpoint_pb2.CheckpointNotification) -> None:
        """Notifies running tasks that the checkpoint was aborted."""
        for attempt in notification.execution_attempt_ids:
            task = job.tasks.get(attempt)
            if task is not None:
                task.notify_checkpoint_aborted(notification.checkpoint_id, notification.latest_completed_checkpoint_id)

    # ---- checkpoints: reports of tasks

    def on_checkpoint_acknowledged(
        self,
        task: Task,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None:
        job = self._job_of_task.get(task.execution_attempt_id)
        if job is not None:
            job.connection.acknowledge_checkpoint(task.execution_attempt_id, checkpoint_id, metrics, state)

    def on_checkpoint_declined(self, task: Task, checkpoint_id: int, error: BaseException) -> None:
        job = self._job_of_task.get(task.execution_attempt_id)
        if job is not None:
            with in_context(task.log_context):
                logger.info("%s declines checkpoint %d: %s", task.task_name, checkpoint_id, error)
            job.connection.decline_checkpoint(task.execution_attempt_id, checkpoint_id, error)

    def on_end_of_data(self, task: Task) -> None:
        job = self._job_of_task.get(task.execution_attempt_id)
        if job is not None:
            job.connection.notify_end_of_data(task.execution_attempt_id)

    # ---- results that the JobMaster keeps

    async def store_result(self, task: Task, request: jobmaster_pb2.StoreResultRequest) -> None:
        await self._connection_of(task).store_result(request)

    async def fetch_result(
        self, task: Task, request: jobmaster_pb2.FetchResultRequest
    ) -> jobmaster_pb2.FetchResultResponse:
        return await self._connection_of(task).fetch_result(request)

    def _connection_of(self, task: Task) -> JobMasterConnection:
        job = self._job_of_task.get(task.execution_attempt_id)
        if job is None:
            raise JobMasterLostError(f"the job of task {task.task_name} has ended")
        return job.connection

    # ---- partitions and the states of tasks

    def update_partitions(
        self, job: JobEntry, updates: Iterable[taskexecutor_pb2.UpdatePartitionsRequest.PartitionUpdate]
    ) -> None:
        """Sets the locations of producers for tasks that were deployed before these were known."""
        for update in updates:
            task = job.tasks.get(update.execution_attempt_id)
            if task is not None:
                task.deployed.update_partition(update.input_index, update.partition)

    def release_partitions(self, job: JobEntry, result_partition_ids: Iterable[str]) -> None:
        self.partitions.release(job, result_partition_ids)
        self._close_if_done(job)

    def on_task_state(self, task: Task, state: ExecutionState, error: FlinkError | None) -> None:
        """Reports a new state of a task. In a terminal state releases the task's slot."""
        attempt = task.execution_attempt_id
        job = self._job_of_task.get(attempt)
        if job is None or state is ExecutionState.CANCELING:
            return
        with in_context(task.log_context):
            if error is None:
                logger.info("%s is %s", task.task_name, state.name)
            else:
                logger.warning(
                    "%s is %s: %s\n%s",
                    task.task_name,
                    state.name,
                    error,
                    error.remote_traceback,
                    extra={ERROR_ATTRIBUTE: error},
                )
        update = state_update(task, state, error)
        job.connection.report_state(update)
        if state.is_terminal:
            keep_last_report(job, task, self.slots, update)
            self.partitions.tracker.task_ended(job.job_id, attempt, has_finished=state is ExecutionState.FINISHED)
            del self._job_of_task[attempt]
            job.end_attempt(attempt)
            freed = self.slots.remove_task(attempt)
            if freed is not None:
                self._slot_freed(freed)
            self._close_if_done(job)
            self._on_task_ended(task)

    def on_task_event(self, task: Task, operator_id: str, payload: bytes) -> None:
        job = self._job_of_task.get(task.execution_attempt_id)
        if job is not None:
            job.connection.send_operator_event(
                jobmaster_pb2.OperatorEvent(
                    operator_id=operator_id,
                    execution_attempt_id=task.execution_attempt_id,
                    subtask_index=task.deployed.subtask_index,
                    payload_pickle=payload,
                    sequence_number=task.sent_events.next_number(),
                )
            )

    def on_task_stuck(self, task: Task, waited_ms: int) -> None:
        self._on_task_stuck(task, waited_ms)

    def _on_input_failure(self, execution_attempt_id: str, error: FlinkError) -> None:
        task = self._task(execution_attempt_id)
        if task is not None:
            task.fail(error)

    def _task(self, execution_attempt_id: str) -> Task | None:
        job = self._job_of_task.get(execution_attempt_id)
        return None if job is None else job.tasks.get(execution_attempt_id)

    # ---- user code

    async def _prepare_user_code(self, job: JobEntry, user_code: JobUserCode) -> None:
        """Prepares the user code, then starts the tasks that wait for it, or fails them if that is not possible."""
        try:
            await user_code.prepare()
        except Exception as error:  # noqa: BLE001 - the tasks get it
            if job.user_code is not user_code:
                return  # the job was closed, or prepares its user code again
            user_code.close()
            job.user_code = None  # the next deployment tries again
            for task in list(job.tasks.values()):
                if task.state is ExecutionState.DEPLOYING:
                    task.fail(as_flink_error(error))
            return
        if job.user_code is user_code:
            user_code.is_ready = True
            self._start_tasks(job)

    def _start_tasks(self, job: JobEntry) -> None:
        for task in list(job.tasks.values()):
            task.start()

    # ---- closing jobs

    def _close_job_without_master(self, job: JobEntry, cause: FlinkError) -> None:
        """Closes a job whose JobMaster is lost. Finished partitions wait for another JobMaster if the job allows it."""
        self.partitions.orphan(job)
        self.close_job(job, cause)

    def close_job(self, job: JobEntry, cause: FlinkError, *, says_goodbye: bool = False) -> None:
        """Closes a job: fails its tasks, frees its slots and releases its partitions and files.

        Args:
            says_goodbye: whether to unregister at the JobMaster.
        """
        if self.jobs.remove(job.job_id) is None:
            return
        logger.info("closing job %s: %s", job.job_id, cause)
        job.connection.close()
        self._endpoint.run_async(self._leave(job, cause, says_goodbye), None, f"leave job {job.job_id}")
        for slot in list(self.slots.slots_of_job(job.job_id)):
            self.free_slot(str(slot.allocation_id), cause)
        for task in list(job.tasks.values()):
            task.fail(cause)
        self.partitions.release_job(job, cause)
        self.logs.end(job.job_id)
        if (log := process_log()) is not None:
            log.levels.forget_job(str(job.job_id))
        self._close_if_done(job)

    async def _leave(self, job: JobEntry, cause: FlinkError, says_goodbye: bool) -> None:
        if says_goodbye:
            await job.connection.disconnect(cause.message)
        await self._drop_channel(job)
        self._on_task_ended(None)  # until now the connection has held the last reports of the job's tasks

    async def _drop_channel(self, job: JobEntry) -> None:
        """Closes the channel to the JobMaster, unless another job uses it. Nothing else would ever close it."""
        address = job.connection.address
        if not any(other.connection.address == address for other in self.jobs if not other.is_orphaned):
            await self._rpc_client.drop(address)

    def _close_if_done(self, job: JobEntry) -> None:
        if self.jobs.get(job.job_id) is job:
            if self._is_done(job):
                cause = FlinkError("no slots, tasks or results left")
                self.close_job(job, cause, says_goodbye=not job.is_orphaned)
        elif not job.tasks and job.user_code is not None:
            job.user_code.close()
            job.user_code = None

    def _is_done(self, job: JobEntry) -> bool:
        if job.tasks or self.slots.has_slots(job.job_id) or job.connection.has_reports:
            return False
        return not self.partitions.unread(job)

    def _housekeeping(self) -> None:
        self._endpoint.schedule(HOUSEKEEPING_INTERVAL_MS, self._housekeeping)
        if (log := process_log()) is not None:
            log.check_size()
        for job in self.jobs:
            job.connection.report_metrics(task_reports(job.tasks.values(), is_full=False))
            self._close_if_done(job)
        self.partitions.release_overdue()
