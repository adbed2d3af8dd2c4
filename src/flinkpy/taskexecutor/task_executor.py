"""TaskExecutor: the endpoint of a worker process.

It checks the fencing tokens of calls: the ResourceManager must send the token with which this TaskExecutor is
registered, a JobMaster the token of its job. `JobService` implements the calls.

Source: org.apache.flink.runtime.taskexecutor.TaskExecutor. Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import AsyncIterator, Callable
from typing import Any

from flinkpy._proto import (
    checkpoint_pb2,
    common_pb2,
    jobmaster_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    taskexecutor_pb2,
    thread_samples_pb2,
)
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.clock import Clock
from flinkpy.common.errors import (
    ExternalError,
    FlinkError,
    JobMasterLostError,
    NotRegisteredError,
    SlotAllocationError,
    StaleFencingTokenError,
    TaskSubmissionError,
    UserError,
)
from flinkpy.common.ids import AllocationID, JobID
from flinkpy.common.process_diagnostics import CHUNK_BYTES, LogFiles
from flinkpy.graph.resource_profiles import resource_profile_to_proto
from flinkpy.highavailability.leader_election import LeaderRetrieval
from flinkpy.highavailability.standalone import StandaloneLeaderRetrieval
from flinkpy.logs.answers import change_log_levels, log_records, own_log
from flinkpy.logs.setup import STANDARD_ERROR, process_log
from flinkpy.metrics.metric_registry import MetricRegistry, ScopeKind
from flinkpy.metrics.query_service import MetricQueryService, dump_metrics
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.rpc.error_codec import error_from_proto
from flinkpy.rpc.peer_connection import Peers
from flinkpy.rpc.server import CallContext
from flinkpy.taskexecutor.contracts import TaskDeployer
from flinkpy.taskexecutor.diagnostics import log_list, thread_dump
from flinkpy.taskexecutor.garbage_collection import EndedTaskCollector
from flinkpy.taskexecutor.job_service import JobEntry, JobService
from flinkpy.taskexecutor.options import TaskExecutorOptions
from flinkpy.taskexecutor.resource_manager_connection import ResourceManagerConnection
from flinkpy.taskexecutor.slot_table import FreedSlot
from flinkpy.taskexecutor.task import Task
from flinkpy.taskexecutor.task_thread import TaskThread
from flinkpy.taskexecutor.thread_sampler import SamplingOptions, ThreadSampler, fold

logger = logging.getLogger(__name__)

#: How long a shutdown waits for the canceled tasks. Their threads end with the process anyway.
STOP_TASKS_TIMEOUT_S = 2.0

ACKNOWLEDGE = common_pb2.Acknowledge()


class TaskExecutor(RpcEndpoint):
    """Serves `TaskExecutor` of taskexecutor.proto.

    Args:
        on_fatal: called if the process has to end: a task does not stop, or there is no ResourceManager.
        on_renewal: called if the process has to restart.
        collect_garbage: frees the objects of ended tasks; None: leaves that to the thresholds of Python's collector.
        resource_managers: retrieves the leading ResourceManager; None: the one of the options.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rpc_client: Peers,
        deployer: TaskDeployer,
        options: TaskExecutorOptions,
        *,
        on_fatal: Callable[[FlinkError], None],
        clock: Clock | None = None,
        make_thread: Callable[..., TaskThread] = TaskThread,
        metrics: MetricRegistry | None = None,
        on_renewal: Callable[[], None] = lambda: None,
        collect_garbage: Callable[[], object] | None = None,
        resource_managers: LeaderRetrieval | None = None,
    ) -> None:
        super().__init__(loop, clock)
        self._resource_managers = resource_managers or StandaloneLeaderRetrieval(options.resource_manager_address)
        self._metrics = metrics or MetricRegistry()
        self._metric_query_service = MetricQueryService(self._metrics, options.resource_id)
        self._thread_sampler = ThreadSampler()
        self._deployer = deployer
        self._on_renewal = on_renewal
        self.options = options
        self._rpc_client = rpc_client
        self._on_fatal = on_fatal
        self._logs = LogFiles(options.log_dir, str(own_log() or STANDARD_ERROR))
        self._resource_manager: ResourceManagerConnection | None = None
        self._registration_timer: TimerHandle | None = None
        self.service = JobService(
            self,
            rpc_client,
            deployer,
            options,
            on_slot_freed=self._on_slot_freed,
            on_task_stuck=self._on_task_stuck,
            on_task_ended=(
                (lambda _: None) if collect_garbage is None else EndedTaskCollector(self, collect_garbage).on_task_ended
            ),
            make_thread=make_thread,
        )

    def start(self, address: str, data_address: str) -> None:
        """Registers at the ResourceManager. Peers reach this process at the given addresses."""
        self.validate_runs_in_main_thread()
        self.service.start(address, data_address)
        self.on_resource_manager_missing()
        self._resource_manager = ResourceManagerConnection(
            self, self._rpc_client, self, self.options, task_executor_address=address, data_address=data_address
        )
        self._resource_manager.follow(self._resource_managers)

    async def stop(self, reason: str) -> None:
        """Shuts down: disconnects from the peers, cancels the tasks and waits shortly for them. Idempotent."""
        if self.is_closed:
            return
        goodbyes = [job.connection.disconnect(reason) for job in self.service.jobs if job.connection.is_registered]
        if self._resource_manager is not None and self._resource_manager.is_registered:
            goodbyes.append(self._resource_manager.disconnect(reason))
        if self._resource_manager is not None:
            self._resource_manager.close()
        await asyncio.gather(*goodbyes)
        for job in self.service.jobs:
            self.service.close_job(job, ExternalError(reason))
        deadline = self._loop.time() + STOP_TASKS_TIMEOUT_S
        while self.service.unfinished_tasks and self._loop.time() < deadline:
            await asyncio.sleep(0.01)  # their ends are reported on this loop
        await self.close()

    # ---- slots (ResourceManager; FreeSlot also JobMaster)

    def request_slot(
        self, request: taskexecutor_pb2.RequestSlotRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        self._check_resource_manager(context, request.resource_manager_id)
        self.service.request_slot(request)
        return ACKNOWLEDGE

    def free_slot(self, request: taskexecutor_pb2.FreeSlotRequest, context: CallContext) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        slot = self.service.slots.slot_of(AllocationID(request.allocation_id))
        if slot is None or slot.job_id is None:
            return ACKNOWLEDGE
        job = self.service.jobs.get(slot.job_id)
        known = [None if job is None else str(job.job_master_id), self._resource_manager_id]
        if context.fencing_token is None or context.fencing_token not in known:
            raise _stale(context, f"the JobMaster of job {slot.job_id} or the ResourceManager")
        cause = (
            error_from_proto(request.cause)
            if request.HasField("cause") and request.cause.type
            else SlotAllocationError("the slot was freed by its job")
        )
        self.service.free_slot(request.allocation_id, cause)
        return ACKNOWLEDGE

    def renew(self, request: taskexecutor_pb2.RenewRequest, context: CallContext) -> common_pb2.Acknowledge:
        """Restarts this process. Raises: SlotAllocationError if it is in use."""
        self.validate_runs_in_main_thread()
        self._check_resource_manager(context, request.resource_manager_id)
        is_held = any(slot.allocation_id is not None for slot in self.service.slots.slots)
        service = self.service
        if is_held or list(service.jobs) or service.unfinished_tasks or service.partitions.tracker.jobs_with_partitions:
            raise SlotAllocationError(f"{self.options.resource_id} is in use")
        self._on_renewal()
        return ACKNOWLEDGE

    # ---- tasks (JobMaster)

    def submit_tasks(
        self, request: taskexecutor_pb2.SubmitTasksRequest, context: CallContext
    ) -> taskexecutor_pb2.SubmitTasksResponse:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job.job_id, context)
        if job is None:
            raise TaskSubmissionError(f"this TaskExecutor holds no slot for job {request.job.job_id}")
        return taskexecutor_pb2.SubmitTasksResponse(rejections=self.service.submit_tasks(job, request))

    def connect_job_master(
        self, request: taskexecutor_pb2.ConnectJobMasterRequest, context: CallContext
    ) -> taskexecutor_pb2.ConnectJobMasterResponse:
        self.validate_runs_in_main_thread()
        held = self.service.connect_job_master(request)
        return taskexecutor_pb2.ConnectJobMasterResponse(held_result_partition_ids=held)

    def report_tasks(
        self, request: taskexecutor_pb2.TaskReportRequest, context: CallContext
    ) -> taskexecutor_pb2.TaskReport:
        self.validate_runs_in_main_thread()
        self._check_sender(context, request.job_master_id)
        return self.service.report_tasks(request)

    def adopt_tasks(self, request: taskexecutor_pb2.AdoptTasksRequest, context: CallContext) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        self._check_sender(context, request.job_master_id)
        self.service.adopt_tasks(request)
        return ACKNOWLEDGE

    def cancel_tasks(
        self, request: taskexecutor_pb2.CancelTasksRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.cancel_tasks(job, request.execution_attempt_ids)
        return ACKNOWLEDGE

    def update_partitions(
        self, request: taskexecutor_pb2.UpdatePartitionsRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.update_partitions(job, request.updates)
        return ACKNOWLEDGE

    def release_partitions(
        self, request: taskexecutor_pb2.ReleasePartitionsRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.release_partitions(job, request.result_partition_ids)
        return ACKNOWLEDGE

    def send_operator_events_to_tasks(
        self, request: taskexecutor_pb2.OperatorEventsToTasks, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.deliver_operator_events(job, request.events)
        return ACKNOWLEDGE

    def disconnect_job_master(
        self, request: resourcemanager_pb2.DisconnectRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.close_job(
                job, JobMasterLostError(f"the JobMaster of job {job.job_id} disconnected: {request.reason}")
            )
        return ACKNOWLEDGE

    # ---- checkpoints (JobMaster)

    def trigger_checkpoints(
        self, request: checkpoint_pb2.TriggerCheckpointsRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is None:
            raise checkpoint_error(
                CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
                f"{self.options.resource_id} has no slot for job {request.job_id}",
            )
        self.service.trigger_checkpoints(job, request)
        return ACKNOWLEDGE

    def confirm_checkpoints(
        self, request: checkpoint_pb2.CheckpointNotification, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.confirm_checkpoints(job, request)
        return ACKNOWLEDGE

    def abort_checkpoints(
        self, request: checkpoint_pb2.CheckpointNotification, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is not None:
            self.service.abort_checkpoints(job, request)
        return ACKNOWLEDGE

    # ---- heartbeats

    def heartbeat_from_resource_manager(
        self, request: taskexecutor_pb2.ResourceManagerHeartbeat, context: CallContext
    ) -> resourcemanager_pb2.TaskExecutorHeartbeat:
        self.validate_runs_in_main_thread()
        connection = self._check_resource_manager(context, request.resource_manager_id)
        connection.heard()
        return resourcemanager_pb2.TaskExecutorHeartbeat(
            resource_id=self.options.resource_id, instance_id=connection.instance_id, slot_report=self.slot_report()
        )

    def heartbeat_from_job_master(
        self, request: taskexecutor_pb2.AllocatedSlotReport, context: CallContext
    ) -> jobmaster_pb2.TaskManagerToJobMasterHeartbeat:
        self.validate_runs_in_main_thread()
        job = self._job_of_call(request.job_id, context)
        if job is None:
            raise NotRegisteredError(f"this TaskExecutor has no slot for job {request.job_id}")
        job.connection.heard()
        answer = self.service.job_heartbeat(job.job_id)
        self.service.on_allocated_slots(job.job_id, request.allocation_ids)
        return answer

    # ---- diagnostics

    def request_thread_dump(
        self, request: taskexecutor_pb2.ThreadDumpRequest, context: CallContext
    ) -> taskexecutor_pb2.ThreadDump:
        return thread_dump()

    def request_log_list(
        self, request: taskexecutor_pb2.LogListRequest, context: CallContext
    ) -> taskexecutor_pb2.LogList:
        return log_list(self._logs)

    async def request_file(
        self, request: taskexecutor_pb2.FileRequest, context: CallContext
    ) -> AsyncIterator[taskexecutor_pb2.FileChunk]:
        for chunk in self._logs.read(request.name, max(0, request.offset), request.length or None):
            yield taskexecutor_pb2.FileChunk(data=chunk)

    async def request_job_log(self, request: common_pb2.JobLogRequest, context: CallContext) -> common_pb2.JobLogChunk:
        """Returns what this process has logged since it began to work for the job, from a position on."""
        self.validate_runs_in_main_thread()
        if not 0 < request.max_bytes <= CHUNK_BYTES:
            raise UserError(f"max_bytes is {request.max_bytes}, but must be from 1 to {CHUNK_BYTES}")
        chunk = self.service.logs.read(JobID(request.job_id), request.position, request.max_bytes)
        chunk.resource_id = self.options.resource_id
        chunk.host = platform.node()
        return chunk

    async def request_log_records(
        self, request: common_pb2.LogRecordsRequest, context: CallContext
    ) -> common_pb2.LogRecords:
        return await asyncio.to_thread(log_records, request, own_log(), self.options.resource_id)

    def change_log_levels(self, request: common_pb2.LogLevelsRequest, context: CallContext) -> common_pb2.LogLevels:
        self.validate_runs_in_main_thread()
        log = process_log()
        return change_log_levels(
            None if log is None else log.levels, request, self.options.resource_id, self._loop.call_later
        )

    async def request_metrics(
        self, request: metrics_pb2.MetricsRequest, context: CallContext
    ) -> metrics_pb2.MetricsDump:
        return await self._metric_query_service.dump(request)

    async def request_thread_samples(
        self, request: thread_samples_pb2.ThreadSamplesRequest, context: CallContext
    ) -> thread_samples_pb2.ThreadSamples:
        """Samples the threads of tasks, and returns their stacks when all samples are taken."""
        self.validate_runs_in_main_thread()
        options = SamplingOptions.of(request)
        job = self.service.jobs.get(JobID(request.job_id))
        subtask = request.subtask_index if request.HasField("subtask_index") else None
        groups = {
            attempt: task.deployed.vertex_id
            for attempt, task in ({} if job is None else job.tasks).items()
            if request.vertex_id in ("", task.deployed.vertex_id) and subtask in (None, task.deployed.subtask_index)
        }
        samples = await asyncio.wrap_future(self._thread_sampler.begin(groups, options))
        return await asyncio.to_thread(fold, samples, self.options.resource_id)

    async def request_process_metrics(
        self, request: taskexecutor_pb2.ProcessMetricsRequest, context: CallContext
    ) -> metrics_pb2.MetricsDump:
        """Returns the metrics of this process. Unlike those of jobs, they run no code of users."""
        request_of_process = metrics_pb2.MetricsRequest(kinds=[ScopeKind.PROCESS.value])
        return await asyncio.to_thread(dump_metrics, self._metrics, request_of_process, self.options.resource_id)

    # ---- ResourceManager

    def slot_report(self) -> resourcemanager_pb2.SlotReport:
        return resourcemanager_pb2.SlotReport(
            slots=[
                resourcemanager_pb2.SlotStatus(
                    slot_index=slot.index,
                    allocation_id=str(slot.allocation_id or ""),
                    job_id=str(slot.job_id or ""),
                    num_tasks=len(slot.tasks),
                    resources=resource_profile_to_proto(slot.resources),
                    environment_profile=slot.environment_profile,
                )
                for slot in self.service.slots.slots
            ],
            jobs_with_partitions=map(str, self.service.partitions.tracker.jobs_with_partitions),
        )

    @property
    def profile(self) -> str | None:
        return self._deployer.profile

    def on_resource_manager_registered(self) -> None:
        if self._registration_timer is not None:
            self._registration_timer.cancel()
            self._registration_timer = None

    def on_resource_manager_missing(self) -> None:
        if self.options.registration_timeout_ms > 0 and self._registration_timer is None:
            self._registration_timer = self.schedule(self.options.registration_timeout_ms, self._registration_overdue)

    def _registration_overdue(self) -> None:
        self._on_fatal(
            ExternalError(
                f"could not register at {self._sought} within "
                f"{self.options.registration_timeout_ms} ms (taskmanager.registration.timeout)"
            )
        )

    @property
    def _sought(self) -> str:
        if self._resource_manager is None or self._resource_manager.leader is None:
            return "a ResourceManager (none leads)"
        return f"the ResourceManager {self._resource_manager.address}"

    def _on_slot_freed(self, freed: FreedSlot) -> None:
        if self._resource_manager is not None:
            self._resource_manager.notify_slot_available(freed)

    def _on_task_stuck(self, task: Task, waited_ms: int) -> None:
        self._on_fatal(
            ExternalError(
                f"task {task.task_name} did not stop within {waited_ms} ms (task.cancellation.timeout); it is at\n"
                f"{task.stack}"
            )
        )

    @property
    def _resource_manager_id(self) -> str | None:
        return None if self._resource_manager is None else self._resource_manager.resource_manager_id

    # ---- fencing

    def _check_resource_manager(self, context: CallContext, named_id: str) -> ResourceManagerConnection:
        connection = self._resource_manager
        if connection is None or connection.resource_manager_id is None:
            raise StaleFencingTokenError("this TaskExecutor is not registered at a ResourceManager")
        expected = connection.resource_manager_id
        if context.fencing_token != expected or named_id not in ("", expected):
            raise _stale(context, f"the ResourceManager {expected}")
        return connection

    def _check_sender(self, context: CallContext, job_master_id: str) -> None:
        if context.fencing_token != job_master_id:
            raise _stale(context, f"the JobMaster {job_master_id}")

    def _job_of_call(self, job_id: str, context: CallContext) -> JobEntry | None:
        """Returns the job, or None if it is unknown. Raises: StaleFencingTokenError if another JobMaster calls."""
        job = self.service.jobs.get(JobID(job_id))
        if job is not None and (job.is_orphaned or context.fencing_token != str(job.job_master_id)):
            raise _stale(context, f"the JobMaster {job.job_master_id} of job {job_id}")
        return job


def _stale(context: CallContext, expected: Any) -> StaleFencingTokenError:
    return StaleFencingTokenError(
        f"only {expected} may make this call; it carries the token {context.fencing_token}",
        details={"got": str(context.fencing_token)},
    )
