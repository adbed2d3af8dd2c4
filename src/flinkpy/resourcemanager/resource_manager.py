"""ResourceManager: the endpoint around SlotManager, JobLeaderService and WorkerManager.

It passes calls, heartbeats, broken connections and ended processes to those machines and runs the effects they return.
The outcome of an effect goes back to the machine.

| message                           | unknown or former sender              | duplicate or late                        |
|-----------------------------------|---------------------------------------|------------------------------------------|
| RegisterTaskExecutor              | -                                     | a new instance replaces the former one   |
| SendSlotReport, NotifySlotAvail.  | NotRegisteredError                    | no effect                                |
| HeartbeatFromTaskExecutor         | registered = false                    | no effect                                |
| RegisterJobMaster                 | StaleFencingTokenError if replaced    | the same answer                          |
| DeclareRequiredResources          | NotRegisteredError, StaleFencingToken | ignored by its sequence number           |
| DisconnectTaskExecutor/-JobMaster | acknowledged, no effect               | acknowledged, no effect                  |

Source: org.apache.flink.runtime.resourcemanager.ResourceManager.
Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flinkpy._proto import common_pb2, jobmaster_pb2, metrics_pb2, taskexecutor_pb2
from flinkpy._proto import resourcemanager_pb2 as pb
from flinkpy.common.clock import Clock
from flinkpy.common.errors import FlinkError, JobMasterLostError, NotRegisteredError, RegistrationRefusedError
from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID, ResourceManagerId
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.graph.resource_profiles import resource_profile_from_proto, resource_profile_to_proto
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.metrics.query_service import dump_metrics
from flinkpy.resourcemanager.driver.resource_manager_driver import ResourceManagerDriver
from flinkpy.resourcemanager.job_leader_service import JobLeaderService
from flinkpy.resourcemanager.options import ResourceManagerOptions
from flinkpy.resourcemanager.slot_manager import (
    DeclareNeededWorkers,
    FreeSlot,
    JobRequirements,
    NotifyNotEnoughResources,
    NotifyTaskExecutorLost,
    ReleaseWorker,
    RenewTaskExecutor,
    RequestSlot,
    RequestSlotReport,
    ResourceRequirement,
    ScheduleRequirementsCheck,
    SlotManager,
    SlotManagerEffect,
)
from flinkpy.resourcemanager.task_executor_tracker import (
    SlotStatus,
    TaskExecutorDescription,
    TaskExecutorInfo,
)
from flinkpy.resourcemanager.worker_manager import RetryAfter, StartWorker, StopWorker, WorkerEffect, WorkerManager
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import error_to_proto
from flinkpy.rpc.peer_connection import PeerConnection, PeerOptions, Peers
from flinkpy.rpc.server import CallContext, unfenced

logger = logging.getLogger(__name__)

ACK = common_pb2.Acknowledge()

#: How often the time-outs of idle workers, lost JobMasters and unregistered workers are checked.
TIMEOUT_CHECK_INTERVAL_MS = 1_000


@dataclass(frozen=True, slots=True)
class IdSource:
    """Generates new identities; tests pass in counting generators."""

    allocation_id: Callable[[], AllocationID] = AllocationID.generate
    instance_id: Callable[[], InstanceID] = InstanceID.generate
    worker_resource_id: Callable[[], ResourceID] = lambda: ResourceID(f"worker-{ResourceID.generate().value[:12]}")


class TaskExecutorConnection(PeerConnection):
    """The connection to one registered TaskExecutor. Thread: main thread."""

    # The TaskExecutor refuses heartbeats with a stale token until it has the answer to its registration.
    lost_by = ()
    undelivered_by = (FlinkError,)

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        options: PeerOptions,
        described: TaskExecutorDescription,
        *,
        instance_id: InstanceID,
        resource_manager_id: str,
        on_slot_report: Callable[[InstanceID, pb.SlotReport], None],
        on_lost: Callable[[InstanceID, str], None],
    ) -> None:
        super().__init__(
            endpoint,
            peers,
            options,
            service="TaskExecutor",
            name=str(described.resource_id),
            address=described.address,
            fencing_token=resource_manager_id,
        )
        #: Wall time, for display.
        self.last_heard_ms = endpoint.clock.now_ms()
        self._instance_id = instance_id
        self._request = taskexecutor_pb2.ResourceManagerHeartbeat(resource_manager_id=resource_manager_id)
        self._timeout_s = options.rpc_timeout_s
        self._on_slot_report = on_slot_report
        self._when_lost = on_lost
        self.peer_registered()

    def heard(self) -> None:
        super().heard()
        self.last_heard_ms = self._endpoint.clock.now_ms()

    async def _send_heartbeat(self) -> Any:
        return await self._gateway.heartbeat_from_resource_manager(self._request, timeout_s=self._timeout_s)

    def _on_heartbeat_answer(self, answer: Any) -> None:
        if answer.instance_id == str(self._instance_id):
            self._on_slot_report(self._instance_id, answer.slot_report)

    def _on_lost(self, reason: str) -> None:
        self._when_lost(self._instance_id, reason)


class JobMasterConnection(PeerConnection):
    """The connection to the leader of one job, which sends heartbeats. Thread: main thread."""

    sends_heartbeats = False

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        options: PeerOptions,
        *,
        job_id: JobID,
        job_master_id: JobMasterId,
        address: str,
        on_lost: Callable[[JobID, JobMasterId, str], None],
    ) -> None:
        name = f"JobMaster of job {job_id}"
        super().__init__(endpoint, peers, options, service="JobMaster", name=name, address=address)
        self._job_id = job_id
        self._job_master_id = job_master_id
        self._when_lost = on_lost
        self.peer_registered()

    def _on_lost(self, reason: str) -> None:
        self._when_lost(self._job_id, self._job_master_id, reason)


class ResourceManager(RpcEndpoint):
    """Serves `ResourceManager` of resourcemanager.proto."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        options: ResourceManagerOptions,
        resource_id: ResourceID,
        resource_manager_id: ResourceManagerId,
        peers: Peers,
        driver: ResourceManagerDriver,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        metrics: MetricRegistry | None = None,
    ) -> None:
        super().__init__(loop, clock)
        self._metrics = metrics or MetricRegistry()
        ids = ids or IdSource()
        self._options = options
        self._resource_id = resource_id
        self._id = resource_manager_id
        self._peers = peers
        self._driver = driver
        self._new_instance_id = ids.instance_id
        self.slot_manager = SlotManager(options.slot_manager, ids.allocation_id)
        self.job_leaders = JobLeaderService(options.job_timeout_ms)
        self.workers = WorkerManager(options.workers, ids.worker_resource_id)
        #: one for every registration the SlotManager knows
        self._task_executors: dict[InstanceID, TaskExecutorConnection] = {}
        #: one for each job whose leader is connected
        self._job_masters: dict[JobID, JobMasterConnection] = {}
        self._is_declaring = False
        #: Workers are started once those of an earlier ResourceManager are known.
        self._has_recovered = False

    @property
    def fencing_token(self) -> str:
        return str(self._id)

    def start(self, address: str) -> None:
        """Starts to manage resources. Called once, when the server listens at `address`, where workers register."""
        self.validate_runs_in_main_thread()
        self._driver.start(address, self._worker_terminated)
        if self._driver.can_start_workers:
            self.start_task(self._recover_workers(), "recover the workers of an earlier ResourceManager")
        self.schedule(TIMEOUT_CHECK_INTERVAL_MS, self._check_timeouts)
        self._run_slot_effects(self.slot_manager.check_requirements(self._now_ms))
        if not self._driver.can_start_workers:
            # TaskExecutors that are started by others may come until then.
            self.schedule(self._options.start_up_time_ms, self._allow_refusals)

    def _allow_refusals(self) -> None:
        self._run_slot_effects(self.slot_manager.allow_refusals(self._now_ms))

    async def close(self) -> None:
        """Stops all timers and calls, and ends every worker that was started."""
        for connection in [*self._task_executors.values(), *self._job_masters.values()]:
            connection.close()
        await super().close()
        await self._driver.close()

    # --- JobMasters -------------------------------------------------------------------------------------------------

    @unfenced
    def register_job_master(
        self, request: pb.RegisterJobMasterRequest, context: CallContext
    ) -> pb.RegisterJobMasterResponse:
        """Registers a JobMaster, also repeatedly. A new JobMasterId replaces the job's former leader."""
        self.validate_runs_in_main_thread()
        job_id, job_master_id = JobID(request.job_id), JobMasterId(request.job_master_id)
        former = self.job_leaders.register(job_id, job_master_id, ResourceID(request.resource_id), request.address)
        if former is not None:
            logger.info("job %s: leader %s was replaced by %s", job_id, former.job_master_id, job_master_id)
        self._close_job_master(job_id)
        self._job_masters[job_id] = JobMasterConnection(
            self,
            self._peers,
            self._options,
            job_id=job_id,
            job_master_id=job_master_id,
            address=request.address,
            on_lost=self._job_master_lost,
        )
        self._run_slot_effects(self.slot_manager.job_master_connected(job_id, job_master_id, self._now_ms))
        return pb.RegisterJobMasterResponse(
            resource_manager_id=str(self._id),
            resource_id=str(self._resource_id),
            heartbeat_interval_ms=self._options.heartbeat_interval_ms,
        )

    def declare_required_resources(
        self, request: pb.ResourceRequirements, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        declared = _requirements_from_proto(request)
        self.job_leaders.check(declared.job_id, declared.job_master_id)
        self._run_slot_effects(self.slot_manager.declare_requirements(declared, self._now_ms))
        return ACK

    def heartbeat_from_job_master(
        self, request: pb.JobMasterHeartbeat, context: CallContext
    ) -> pb.ResourceManagerHeartbeatResponse:
        self.validate_runs_in_main_thread()
        leader = self.job_leaders.find_by_resource(JobID(request.job_id), ResourceID(request.resource_id))
        connection = None if leader is None else self._job_masters.get(leader.job_id)
        if connection is not None:
            connection.heard()
        registered = connection is not None
        return pb.ResourceManagerHeartbeatResponse(resource_manager_id=str(self._id), registered=registered)

    def disconnect_job_master(self, request: pb.DisconnectRequest, context: CallContext) -> common_pb2.Acknowledge:
        """Unregisters the JobMaster of a terminated job. Ignored from a former leader."""
        self.validate_runs_in_main_thread()
        leader = self.job_leaders.find_by_resource(JobID(request.job_id), ResourceID(request.resource_id))
        if leader is not None:
            self.job_leaders.disconnected(leader.job_id)
            self._close_job_master(leader.job_id)
            self.run_async(self._peers.drop(leader.address), None, f"drop channel to JobMaster of {leader.job_id}")
            self._run_slot_effects(self.slot_manager.job_terminated(leader.job_id, self._now_ms))
        return ACK

    # --- TaskExecutors ----------------------------------------------------------------------------------------------

    @unfenced
    def register_task_executor(
        self, request: pb.RegisterTaskExecutorRequest, context: CallContext
    ) -> pb.RegisterTaskExecutorResponse:
        """Registers a TaskExecutor under a new InstanceID. Replaces a former registration of the same ResourceID.

        Raises: RegistrationRefusedError if the cluster would exceed its maximum number of slots.
        """
        self.validate_runs_in_main_thread()
        described = _description_from_proto(request)
        if not self.slot_manager.can_register(described):
            raise RegistrationRefusedError(
                f"TaskExecutor {described.resource_id} with {described.num_slots} slot(s) would exceed "
                f"slotmanager.number-of-slots.max = {self._options.slot_manager.max_slots}",
                details={"option": "slotmanager.number-of-slots.max"},
            )
        exceeded = self.slot_manager.limit_exceeded_by(described)
        if exceeded is not None:
            raise RegistrationRefusedError(
                f"TaskExecutor {described.resource_id} with {described.total} would exceed {exceeded}",
                details={"option": exceeded.split(" ")[0]},
            )
        former = self.slot_manager.task_executors.find_by_resource(described.resource_id)
        if former is not None:
            self._close_connection(former.instance_id, keep_channel=former.description.address == described.address)
        instance_id = self._new_instance_id()
        self._task_executors[instance_id] = TaskExecutorConnection(
            self,
            self._peers,
            self._options,
            described,
            instance_id=instance_id,
            resource_manager_id=str(self._id),
            on_slot_report=self._heard_from,
            on_lost=self._task_executor_lost,
        )
        self.workers.worker_registered(described.resource_id)
        self._run_slot_effects(self.slot_manager.register_task_executor(instance_id, described, self._now_ms))
        logger.info("TaskExecutor %s registered with %d slot(s)", described.resource_id, described.num_slots)
        return pb.RegisterTaskExecutorResponse(
            resource_manager_id=str(self._id),
            instance_id=str(instance_id),
            resource_id=str(self._resource_id),
            heartbeat_interval_ms=self._options.heartbeat_interval_ms,
        )

    def send_slot_report(self, request: pb.SendSlotReportRequest, context: CallContext) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        instance_id = self._registered_instance(request.instance_id, request.resource_id)
        self._heard_from(instance_id, request.report)
        return ACK

    def notify_slot_available(
        self, request: pb.NotifySlotAvailableRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        instance_id = self._registered_instance(request.instance_id, request.resource_id)
        allocation_id = AllocationID(request.allocation_id)
        effects = self.slot_manager.notify_slot_available(instance_id, request.slot_index, allocation_id, self._now_ms)
        self._run_slot_effects(effects)
        return ACK

    def heartbeat_from_task_executor(
        self, request: pb.TaskExecutorHeartbeat, context: CallContext
    ) -> pb.ResourceManagerHeartbeatResponse:
        self.validate_runs_in_main_thread()
        instance_id = InstanceID(request.instance_id)
        registered = self.slot_manager.task_executors.find(instance_id) is not None
        if registered:
            self._heard_from(instance_id, request.slot_report)
        return pb.ResourceManagerHeartbeatResponse(resource_manager_id=str(self._id), registered=registered)

    def disconnect_task_executor(self, request: pb.DisconnectRequest, context: CallContext) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        info = self.slot_manager.task_executors.find_by_resource(ResourceID(request.resource_id))
        if info is not None:
            self._task_executor_lost(info.instance_id, request.reason or "it disconnected")
        return ACK

    # --- queries ----------------------------------------------------------------------------------------------------

    @unfenced
    def request_task_manager_info(
        self, request: pb.TaskManagerInfoRequest, context: CallContext
    ) -> pb.TaskManagerInfoResponse:
        """Returns all registered TaskExecutors, or the named one. The answer to an unknown name is empty."""
        self.validate_runs_in_main_thread()
        infos: Iterable[TaskExecutorInfo] = self.slot_manager.task_executors
        if request.resource_id:
            found = self.slot_manager.task_executors.find_by_resource(ResourceID(request.resource_id))
            infos = [] if found is None else [found]
        return pb.TaskManagerInfoResponse(
            task_managers=[
                _task_manager_info_to_proto(info, self._task_executors[info.instance_id].last_heard_ms)
                for info in infos
            ]
        )

    @unfenced
    def request_resource_overview(
        self, request: pb.ResourceOverviewRequest, context: CallContext
    ) -> pb.ResourceOverview:
        self.validate_runs_in_main_thread()
        executors = self.slot_manager.task_executors
        return pb.ResourceOverview(
            num_task_managers=len(executors),
            num_slots_total=executors.num_slots,
            num_slots_free=executors.num_free_slots,
            num_pending_task_managers=self.workers.num_pending,
            resource_manager_id=str(self._id),
        )

    @unfenced
    async def request_metrics(
        self, request: metrics_pb2.MetricsRequest, context: CallContext
    ) -> metrics_pb2.MetricsDump:
        """Returns the metrics of the cluster and of this process."""
        return await asyncio.to_thread(dump_metrics, self._metrics, request, str(self._resource_id))

    # --- events -----------------------------------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        return self.awake_ms()

    def _registered_instance(self, instance_id: str, resource_id: str) -> InstanceID:
        found = self.slot_manager.task_executors.find(InstanceID(instance_id))
        if found is None:
            raise NotRegisteredError(
                f"TaskExecutor {resource_id} is not registered under instance {instance_id}",
                details={"resource_id": resource_id, "instance_id": instance_id},
            )
        return found.instance_id

    def _heard_from(self, instance_id: InstanceID, report: pb.SlotReport) -> None:
        self._task_executors[instance_id].heard()
        statuses = _slot_report_from_proto(report)
        jobs_with_partitions = frozenset(map(JobID, report.jobs_with_partitions))
        self._run_slot_effects(
            self.slot_manager.process_slot_report(instance_id, statuses, self._now_ms, jobs_with_partitions)
        )

    def _task_executor_lost(self, instance_id: InstanceID, reason: str) -> None:
        info = self.slot_manager.task_executors.find(instance_id)
        if info is None:
            return
        logger.warning("TaskExecutor %s is lost: %s", info.resource_id, reason)
        self._close_connection(instance_id)
        # A started worker that cannot be reached is stopped, so that it does not come back beside its replacement.
        self._run_worker_effects(self.workers.release(info.resource_id, reason))
        full_reason = f"TaskExecutor {info.resource_id} is lost: {reason}"
        self._run_slot_effects(self.slot_manager.remove_task_executor(instance_id, full_reason, self._now_ms))

    def _close_connection(self, instance_id: InstanceID, *, keep_channel: bool = False) -> None:
        connection = self._task_executors.pop(instance_id, None)
        if connection is None:
            return
        connection.close()
        if not keep_channel:
            self.run_async(self._peers.drop(connection.address), None, f"drop channel to {connection.address}")

    def _job_master_lost(self, job_id: JobID, job_master_id: JobMasterId, reason: str) -> None:
        if not self.job_leaders.contact_lost(job_id, job_master_id, self._now_ms):
            return
        logger.warning("lost the JobMaster of job %s: %s", job_id, reason)
        self._close_job_master(job_id)
        self._run_slot_effects(self.slot_manager.suspend_job(job_id))

    def _close_job_master(self, job_id: JobID) -> None:
        connection = self._job_masters.pop(job_id, None)
        if connection is not None:
            connection.close()

    def _worker_terminated(self, resource_id: ResourceID, ending: str) -> None:
        """Handles the end of a worker process, which the driver notices before any connection or heartbeat does."""
        self.validate_runs_in_main_thread()
        if self.is_closed:
            return
        self._run_worker_effects(self.workers.worker_exited(resource_id, self._now_ms))
        info = self.slot_manager.task_executors.find_by_resource(resource_id)
        if info is not None:
            self._task_executor_lost(info.instance_id, f"its process ended: {ending}")

    # --- timers -----------------------------------------------------------------------------------------------------

    def _check_timeouts(self) -> None:
        now_ms = self._now_ms
        for job_id in self.job_leaders.timed_out(now_ms):
            logger.warning("dropping job %s: it had no JobMaster for %d ms", job_id, self._options.job_timeout_ms)
            self._close_job_master(job_id)
            self._run_slot_effects(self.slot_manager.job_terminated(job_id, now_ms))
        self._run_slot_effects(self.slot_manager.check_timeouts(now_ms, self.workers.owns))
        self._run_worker_effects(self.workers.check(now_ms))
        self.schedule(TIMEOUT_CHECK_INTERVAL_MS, self._check_timeouts)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _run_slot_effects(self, effects: Iterable[SlotManagerEffect]) -> None:
        for effect in effects:
            match effect:
                case RequestSlot() | FreeSlot() | RenewTaskExecutor():
                    info = self.slot_manager.task_executors.find(effect.instance_id)
                    if info is not None:
                        self._start_call(effect, info)
                case RequestSlotReport():
                    connection = self._task_executors.get(effect.instance_id)
                    if connection is not None:
                        connection.send_heartbeat()
                case NotifyTaskExecutorLost():
                    self._notify_task_executor_lost(effect)
                case NotifyNotEnoughResources():
                    self._notify_not_enough_resources(effect)
                case ScheduleRequirementsCheck():
                    self.schedule(effect.delay_ms, self._check_requirements)
                case DeclareNeededWorkers():
                    self._declare_needed_workers(effect.num_workers)
                case ReleaseWorker():
                    self._release_worker(effect)

    def _start_call(self, effect: RequestSlot | FreeSlot | RenewTaskExecutor, info: TaskExecutorInfo) -> None:
        match effect:
            case RequestSlot(slot_index=slot_index):
                self.start_task(self._request_slot(effect, info), f"request slot {slot_index} of {info.resource_id}")
            case FreeSlot():
                self._free_slot(effect, info)
            case RenewTaskExecutor():
                logger.info("restarting TaskExecutor %s: waiting jobs need other Python packages", info.resource_id)
                self.start_task(self._renew(effect, info), f"renew {info.resource_id}")

    def _executor_gateway(self, info: TaskExecutorInfo) -> Any:
        return self._peers.gateway("TaskExecutor", info.description.address, str(self._id))

    async def _request_slot(self, effect: RequestSlot, info: TaskExecutorInfo) -> None:
        request = taskexecutor_pb2.RequestSlotRequest(
            slot_index=effect.slot_index,
            job_id=str(effect.job_id),
            allocation_id=str(effect.allocation_id),
            resource_profile=effect.environment_profile,
            resources=resource_profile_to_proto(effect.resources),
            job_master_address=effect.job_master_address,
            job_master_id=str(effect.job_master_id),
            resource_manager_id=str(self._id),
        )
        slot = (effect.instance_id, effect.slot_index, effect.allocation_id)
        try:
            await self._executor_gateway(info).request_slot(request, timeout_s=self._options.rpc_timeout_s)
        except Exception as error:  # noqa: BLE001 - after any error the slot manager tries another slot
            logger.info("could not allocate slot %d of %s: %s", effect.slot_index, info.resource_id, error)
            self._run_slot_effects(self.slot_manager.slot_request_failed(*slot, self._now_ms))
        else:
            self._run_slot_effects(self.slot_manager.slot_request_acknowledged(*slot))

    async def _renew(self, effect: RenewTaskExecutor, info: TaskExecutorInfo) -> None:
        request = taskexecutor_pb2.RenewRequest(resource_manager_id=str(self._id))
        try:
            await self._executor_gateway(info).renew(request, timeout_s=self._options.rpc_timeout_s)
        except Exception as error:  # noqa: BLE001 - after any error the slot manager continues without the restart
            logger.info("TaskExecutor %s does not restart: %s", info.resource_id, error)
            self._run_slot_effects(self.slot_manager.renewal_failed(effect.instance_id))

    def _free_slot(self, effect: FreeSlot, info: TaskExecutorInfo) -> None:
        request = taskexecutor_pb2.FreeSlotRequest(
            allocation_id=str(effect.allocation_id),
            job_id=str(effect.job_id),
            cause=error_to_proto(JobMasterLostError(effect.reason)),
        )
        call = self._executor_gateway(info).free_slot(request, timeout_s=self._options.rpc_timeout_s)
        # If the call fails, the next slot report shows that the slot is still held, and it is freed again.
        self.run_async(call, None, f"free slot {effect.allocation_id} of {info.resource_id}")

    def _notify_task_executor_lost(self, effect: NotifyTaskExecutorLost) -> None:
        leader = self.job_leaders.find(effect.job_id)
        if leader is None:
            return
        request = jobmaster_pb2.DisconnectTaskManagerRequest(
            job_id=str(effect.job_id), resource_id=str(effect.resource_id), reason=effect.reason
        )
        gateway = self._peers.gateway("JobMaster", leader.address, str(leader.job_master_id))
        # This is a hint, sooner than the JobMaster's own heartbeat time-out. It is not repeated if it fails.
        call = gateway.disconnect_task_manager(request, timeout_s=self._options.rpc_timeout_s)
        self.run_async(call, None, f"tell job {effect.job_id} that {effect.resource_id} is lost")

    def _notify_not_enough_resources(self, effect: NotifyNotEnoughResources) -> None:
        leader = self.job_leaders.find(effect.job_id)
        if leader is None:
            return
        request = jobmaster_pb2.NotEnoughResourcesRequest(
            job_id=str(effect.job_id), resources=resource_profile_to_proto(effect.resources), reason=effect.reason
        )
        gateway = self._peers.gateway("JobMaster", leader.address, str(leader.job_master_id))
        # If the call fails, the next check repeats it. Without one, the slot requests of the job time out.
        call = gateway.notify_not_enough_resources(request, timeout_s=self._options.rpc_timeout_s)
        self.run_async(call, None, f"tell job {effect.job_id} that resources are missing")

    def _declare_needed_workers(self, num_workers: int) -> None:
        """Starts workers after the delay. The last of several declarations within the delay counts."""
        self.workers.declare_needed(num_workers)
        if self._driver.can_start_workers and not self._is_declaring:
            self._is_declaring = True
            self.schedule(self._options.declare_needed_delay_ms, self._start_needed_workers)

    def _start_needed_workers(self) -> None:
        self._is_declaring = False
        if self._has_recovered:
            self._run_worker_effects(self.workers.start_needed(self._now_ms))

    async def _recover_workers(self) -> None:
        recovered = await self._driver.recover_workers()
        registered = {info.resource_id for info in self.slot_manager.task_executors}
        self.workers.workers_recovered(recovered, registered, self._now_ms)
        if recovered:
            logger.info("took over %d worker(s) of an earlier ResourceManager", len(recovered))
        self._has_recovered = True
        self._start_needed_workers()

    def _check_requirements(self) -> None:
        self._run_slot_effects(self.slot_manager.check_requirements(self._now_ms))

    def _release_worker(self, effect: ReleaseWorker) -> None:
        logger.info("releasing worker %s: %s", effect.resource_id, effect.reason)
        self._close_connection(effect.instance_id)
        self._run_worker_effects(self.workers.release(effect.resource_id, effect.reason))

    def _run_worker_effects(self, effects: Iterable[WorkerEffect]) -> None:
        for effect in effects:
            match effect:
                case StartWorker():
                    self.start_task(self._start_worker(effect.resource_id), f"start worker {effect.resource_id}")
                case StopWorker():
                    logger.info("stopping worker %s: %s", effect.resource_id, effect.reason)
                    stopping = self._driver.stop_worker(effect.resource_id)
                    self.run_async(stopping, None, f"stop worker {effect.resource_id}")
                case RetryAfter():
                    logger.warning("too many workers failed to start; trying again in %d ms", effect.delay_ms)
                    self.schedule(effect.delay_ms, self._retry_workers)

    def _retry_workers(self) -> None:
        self._run_worker_effects(self.workers.check(self._now_ms, is_retry=True))

    async def _start_worker(self, resource_id: ResourceID) -> None:
        try:
            await self._driver.start_worker(resource_id)
        except Exception as error:  # noqa: BLE001 - after any error the worker manager decides when to try again
            logger.warning("could not start worker %s: %s", resource_id, error)
            self._run_worker_effects(self.workers.worker_start_failed(resource_id, self._now_ms))
        else:
            self.workers.worker_started(resource_id)


def _slot_report_from_proto(report: pb.SlotReport) -> list[SlotStatus]:
    return [
        SlotStatus(
            slot.slot_index,
            AllocationID(slot.allocation_id),
            JobID(slot.job_id),
            slot.num_tasks,
            resource_profile_from_proto(slot, "resources"),
            slot.environment_profile,
        )
        if slot.allocation_id
        else SlotStatus(slot.slot_index)
        for slot in report.slots
    ]


def _description_from_proto(request: pb.RegisterTaskExecutorRequest) -> TaskExecutorDescription:
    return TaskExecutorDescription(
        resource_id=ResourceID(request.resource_id),
        address=request.address,
        data_address=request.data_address,
        pid=request.pid,
        host=request.host,
        num_slots=request.num_slots,
        cpu_cores=request.hardware.cpu_cores,
        memory_bytes=request.hardware.memory_bytes,
        profile=request.profile if request.HasField("profile") else None,
        total=resource_profile_from_proto(request, "total_resource", ResourceProfile.ANY),
        default_slot=resource_profile_from_proto(request, "default_slot_resource", ResourceProfile.ANY),
    )


def _requirements_from_proto(request: pb.ResourceRequirements) -> JobRequirements:
    return JobRequirements(
        job_id=JobID(request.job_id),
        job_master_id=JobMasterId(request.job_master_id),
        job_master_address=request.job_master_address,
        requirements=tuple(
            ResourceRequirement(
                requirement.num_slots,
                requirement.resource_profile,
                resource_profile_from_proto(requirement, "resources"),
            )
            for requirement in request.requirements
            if requirement.num_slots > 0
        ),
        sequence_number=request.sequence_number,
        blocked=frozenset(ResourceID(resource_id) for resource_id in request.blocked_resource_ids),
        num_at_once=request.num_slots_at_once,
        adopted=frozenset(AllocationID(allocation_id) for allocation_id in request.adopted_allocation_ids),
    )


def _task_manager_info_to_proto(info: TaskExecutorInfo, last_heartbeat_ms: int) -> pb.TaskManagerInfo:
    described = info.description
    return pb.TaskManagerInfo(
        resource_id=str(info.resource_id),
        address=described.address,
        data_address=described.data_address,
        pid=described.pid,
        host=described.host,
        hardware=pb.HardwareDescription(cpu_cores=described.cpu_cores, memory_bytes=described.memory_bytes),
        slots=[
            pb.SlotStatus(
                slot_index=slot.index,
                allocation_id=str(slot.allocation_id or ""),
                job_id=str(slot.job_id or ""),
                num_tasks=slot.num_tasks,
                resources=resource_profile_to_proto(slot.resources),
                environment_profile=slot.environment_profile,
            )
            for slot in info.all_slots
        ],
        last_heartbeat_ms=last_heartbeat_ms,
        num_slots=described.num_slots,
        total_resource=resource_profile_to_proto(described.total),
        free_resource=resource_profile_to_proto(info.free_resource),
        default_slot_resource=resource_profile_to_proto(described.default_slot),
    )
