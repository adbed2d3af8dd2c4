"""JobMasterServicer: the gRPC service of a JobMaster process. Decodes requests, calls the JobMaster, encodes answers.

The service starts before the process has a job, so that a standby process has an address. Until `attach`, each call
fails with StaleFencingTokenError, like a call with the id of another JobMaster.

| message                        | unknown or former sender       | duplicate or late                             |
|--------------------------------|--------------------------------|-----------------------------------------------|
| RegisterTaskManager            | -                              | the same answer                               |
| OfferSlots                     | NotRegisteredError             | accepted slots are accepted again             |
| FailSlot                       | acknowledged, no effect        | acknowledged, no effect                       |
| UpdateTaskExecutionStates      | no effect                      | no effect; an attempt that should not run is  |
|                                |                                | canceled                                      |
| SendOperatorEventsToCoordinator| dropped                        | events of a former attempt are dropped        |
| StoreResult                    | stored, and never read         | no effect                                     |
| FetchResult                    | -                              | the same answer                               |
| HeartbeatFromTaskManager       | registered = false             | no effect                                     |
| DisconnectTaskManager          | acknowledged, no effect        | acknowledged, no effect                       |
| Cancel                         | -                              | acknowledged, no effect                       |
| UpdateResourceRequirements     | -                              | acknowledged, no effect                       |
| AcknowledgeCheckpoint, ...     | dropped; unknown state is      | dropped; state of an aborted checkpoint is    |
| DeclineCheckpoint              | deleted                        | deleted                                       |
| TriggerSavepoint, ...          | -                              | the same `trigger_id`: the same answer        |
| any, with another JobMasterId  | StaleFencingTokenError         |                                               |

Thread: main thread.
"""

from __future__ import annotations

import asyncio

from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2, metrics_pb2, thread_samples_pb2
from flinkpy._proto import jobmaster_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, savepoint, stop_with_savepoint
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import StatisticsParts
from flinkpy.common.errors import JobNotFoundError, SlotAllocationError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, JobVertexID, ResourceID, ResultPartitionID
from flinkpy.common.process_diagnostics import thread_stacks
from flinkpy.graph.resource_profiles import resource_profile_from_proto
from flinkpy.jobmaster import conversions
from flinkpy.jobmaster.accumulators import as_texts, merge_accumulators, reports_of
from flinkpy.jobmaster.diagnosis.collection import METRIC_NAME_ENDS, METRIC_NAMES
from flinkpy.jobmaster.job_details import DetailParts
from flinkpy.jobmaster.job_master import JobMaster
from flinkpy.jobmaster.scheduler.events import ResourcesUnavailable
from flinkpy.jobmaster.slotpool.physical_slot import TaskManagerLocation
from flinkpy.logs.answers import change_log_levels, log_records, own_log
from flinkpy.logs.setup import process_log
from flinkpy.metrics.metric_registry import ScopeKind
from flinkpy.metrics.query_service import dump_metrics
from flinkpy.rpc.error_codec import error_from_proto
from flinkpy.rpc.server import CallContext

ACKNOWLEDGE = common_pb2.Acknowledge()


class JobMasterServicer:
    """Serves the JobMaster of this process. Each method handles the RPC of the same name."""

    def __init__(self, resource_id: str) -> None:
        self._resource_id = resource_id
        self._job_master: JobMaster | None = None
        #: The accumulators that are being merged, with what was asked for.
        self._merging: tuple[tuple[str, bool], asyncio.Future[job_pb2.JobAccumulators]] | None = None
        #: The JobMasterId that each call must carry; None: all calls are rejected.
        self.fencing_token: str | None = None

    def attach(self, job_master: JobMaster, job_master_id: str) -> None:
        self._job_master = job_master
        self.fencing_token = job_master_id

    def register_task_manager(
        self, request: pb.RegisterTaskManagerRequest, context: CallContext
    ) -> pb.RegisterTaskManagerResponse:
        job_master = self._job(request.job_id)
        location = TaskManagerLocation(ResourceID(request.resource_id), request.address, request.data_address)
        job_master.register_task_manager(location)
        return pb.RegisterTaskManagerResponse(
            resource_id=self._resource_id, heartbeat_interval_ms=job_master.heartbeat_interval_ms
        )

    async def request_log_records(
        self, request: common_pb2.LogRecordsRequest, context: CallContext
    ) -> common_pb2.LogRecords:
        return await asyncio.to_thread(log_records, request, own_log(), self._resource_id)

    def change_log_levels(self, request: common_pb2.LogLevelsRequest, context: CallContext) -> common_pb2.LogLevels:
        log = process_log()
        levels = None if log is None else log.levels
        return change_log_levels(levels, request, self._resource_id, asyncio.get_running_loop().call_later)

    def offer_slots(self, request: pb.OfferSlotsRequest, context: CallContext) -> pb.OfferSlotsResponse:
        job_master = self._job(request.job_id)
        accepted = job_master.offer_slots(ResourceID(request.resource_id), conversions.offers(request.offers))
        taken = {str(allocation_id) for allocation_id in accepted}
        return pb.OfferSlotsResponse(accepted=[offer for offer in request.offers if offer.allocation_id in taken])

    def notify_not_enough_resources(
        self, request: pb.NotEnoughResourcesRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        resources = resource_profile_from_proto(request, "resources")
        self._job(request.job_id).handle(ResourcesUnavailable(resources, request.reason))
        return ACKNOWLEDGE

    def fail_slot(self, request: pb.FailSlotRequest, context: CallContext) -> common_pb2.Acknowledge:
        if request.HasField("cause"):
            cause = error_from_proto(request.cause)
        else:
            cause = SlotAllocationError("the TaskExecutor reported the slot as failed")
        self._job(request.job_id).fail_slot(ResourceID(request.resource_id), AllocationID(request.allocation_id), cause)
        return ACKNOWLEDGE

    def update_task_execution_states(
        self, request: pb.UpdateTaskExecutionStatesRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        updates = [conversions.state_update(update) for update in request.updates]
        self._job(request.job_id).update_task_execution_states(updates)
        return ACKNOWLEDGE

    def send_operator_events_to_coordinator(
        self, request: pb.OperatorEventsToCoordinator, context: CallContext
    ) -> common_pb2.Acknowledge:
        self._job(request.job_id).receive_operator_events(list(request.events))
        return ACKNOWLEDGE

    async def store_result(self, request: pb.StoreResultRequest, context: CallContext) -> common_pb2.Acknowledge:
        await self._job(request.job_id).store_result(request)
        return ACKNOWLEDGE

    async def fetch_result(self, request: pb.FetchResultRequest, context: CallContext) -> pb.FetchResultResponse:
        return await self._job(request.job_id).fetch_result(request.result_partition_id, request.offset)

    def request_partition_state(
        self, request: pb.RequestPartitionStateRequest, context: CallContext
    ) -> pb.RequestPartitionStateResponse:
        producer = ResultPartitionID.parse(request.result_partition_id).producer
        state = self._job(request.job_id).partition_state(producer)
        return pb.RequestPartitionStateResponse(producer_state=conversions.execution_state(state))

    def heartbeat_from_task_manager(
        self, request: pb.TaskManagerToJobMasterHeartbeat, context: CallContext
    ) -> pb.JobMasterHeartbeatResponse:
        return self._job(request.job_id).heartbeat_from_task_manager(request)

    def report_task_metrics(self, request: pb.TaskMetricsReport, context: CallContext) -> common_pb2.Acknowledge:
        self._job(request.job_id).report_task_metrics(conversions.metrics_report(request.tasks))
        return ACKNOWLEDGE

    def disconnect_task_manager(
        self, request: pb.DisconnectTaskManagerRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        reason = request.reason or "it disconnected"
        self._job(request.job_id).disconnect_task_manager(ResourceID(request.resource_id), reason)
        return ACKNOWLEDGE

    def request_job_details(self, request: job_pb2.JobDetailsRequest, context: CallContext) -> job_pb2.JobDetails:
        return self._job(request.job_id).details(DetailParts.of(request))

    def cancel(self, request: dispatcher_pb2.JobIdMessage, context: CallContext) -> common_pb2.Acknowledge:
        self._job(request.job_id).cancel()
        return ACKNOWLEDGE

    def update_resource_requirements(
        self, request: job_pb2.ResourceRequirementsUpdate, context: CallContext
    ) -> common_pb2.Acknowledge:
        self._job(request.job_id).update_resource_requirements(request.requirements)
        return ACKNOWLEDGE

    def deliver_coordination_request(
        self, request: dispatcher_pb2.CoordinationRequest, context: CallContext
    ) -> dispatcher_pb2.CoordinationResponse:
        answer = self._job(request.job_id).handle_coordination_request(request.operator_id, request.payload)
        return dispatcher_pb2.CoordinationResponse(payload=answer)

    def acknowledge_checkpoint(
        self, request: checkpoint_pb2.AcknowledgeCheckpointRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        attempt = ExecutionAttemptID.parse(request.execution_attempt_id)
        self._job(request.job_id).checkpoints.acknowledge(
            attempt, request.checkpoint_id, request.state, request.metrics
        )
        return ACKNOWLEDGE

    def decline_checkpoint(
        self, request: checkpoint_pb2.DeclineCheckpointRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        attempt = ExecutionAttemptID.parse(request.execution_attempt_id)
        error = error_from_proto(request.reason)
        self._job(request.job_id).coordinate(CheckpointCoordinator.decline, attempt, request.checkpoint_id, error)
        return ACKNOWLEDGE

    def notify_end_of_data(
        self, request: checkpoint_pb2.EndOfDataNotification, context: CallContext
    ) -> common_pb2.Acknowledge:
        attempts = tuple(ExecutionAttemptID.parse(text) for text in request.execution_attempt_ids)
        self._job(request.job_id).coordinate(CheckpointCoordinator.end_of_data_reached, attempts)
        return ACKNOWLEDGE

    async def trigger_checkpoint(
        self, request: checkpoint_pb2.TriggerCheckpointRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointResult:
        properties = FULL if request.full else PERIODIC
        return await asyncio.shield(self._job(request.job_id).checkpoints.request(request.trigger_id, properties))

    async def trigger_savepoint(
        self, request: checkpoint_pb2.TriggerSavepointRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointResult:
        job_master = self._job(request.job_id)
        done = job_master.checkpoints.request(request.trigger_id, savepoint(request.format), request.target_directory)
        result = await asyncio.shield(done)
        if request.cancel_job:
            job_master.cancel()
        return result

    async def stop_with_savepoint(
        self, request: checkpoint_pb2.StopWithSavepointRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointResult:
        properties = stop_with_savepoint(request.format, drain=request.drain)
        checkpoints = self._job(request.job_id).checkpoints
        return await asyncio.shield(checkpoints.request(request.trigger_id, properties, request.target_directory))

    def request_checkpoint_statistics(
        self, request: checkpoint_pb2.CheckpointStatisticsRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointStatisticsResponse:
        statistics = self._job(request.job_id).scheduler.checkpoints.coordinator.statistics
        return statistics.response(StatisticsParts.of(request))

    async def request_accumulators(
        self, request: job_pb2.AccumulatorsRequest, context: CallContext
    ) -> job_pb2.JobAccumulators:
        graph = self._job(request.job_id).scheduler.graph
        key = (request.vertex_id, request.by_subtask)
        if not request.vertex_id:
            vertices = list(graph.vertices)
        elif (vertex := graph.job_vertices.get(JobVertexID(request.vertex_id))) is not None:
            vertices = vertex.task_vertices
        else:
            return job_pb2.JobAccumulators()
        reports = {vertex.subtask_index: vertex.current.accumulators for vertex in vertices} if key[1] else {}
        merged = reports_of(vertices)

        def merge() -> job_pb2.JobAccumulators:
            answer = job_pb2.JobAccumulators(accumulators=merge_accumulators(merged))
            for index, report in reports.items():
                answer.subtasks.add(subtask_index=index, accumulators=as_texts(merge_accumulators([report])))
            return answer

        # One merge at a time: a `merge` method that hangs must not occupy more and more threads. Callers that want the
        # same share it.
        while self._merging is not None and not self._merging[1].done() and self._merging[0] != key:
            await asyncio.wait({self._merging[1]})
        if self._merging is None or self._merging[1].done():
            self._merging = (key, asyncio.ensure_future(asyncio.to_thread(merge)))
        return await asyncio.shield(self._merging[1])

    async def request_metrics(
        self, request: metrics_pb2.MetricsRequest, context: CallContext
    ) -> metrics_pb2.MetricsDump:
        """Returns the metrics of the job's tasks, of the job, its coordinators and this process, as `kinds` says."""
        job_master = self._job(request.job_id)
        kinds = set(request.kinds) or {ScopeKind.TASK.value}
        connections = job_master.task_manager_connections if ScopeKind.TASK.value in kinds else []
        dumps = await asyncio.gather(*(connection.request_metrics(request) for connection in connections))
        if kinds != {ScopeKind.TASK.value}:
            registry = job_master.metrics.registry
            dumps.append(await asyncio.to_thread(dump_metrics, registry, request, self._resource_id))
            if ScopeKind.PROCESS.value in kinds:
                # Metrics of the process have no job, although it has one.
                of_process = metrics_pb2.MetricsRequest(kinds=[ScopeKind.PROCESS.value], names=request.names)
                dumps.append(await asyncio.to_thread(dump_metrics, registry, of_process, self._resource_id))
        return metrics_pb2.MetricsDump(groups=[group for dump in dumps for group in dump.groups])

    async def request_diagnosis(self, request: job_pb2.DiagnosisRequest, context: CallContext) -> job_pb2.JobDiagnosis:
        job_master = self._job(request.job_id)
        wanted = metrics_pb2.MetricsRequest(job_id=request.job_id, names=METRIC_NAMES, name_ends=METRIC_NAME_ENDS)
        connections = job_master.task_manager_connections
        dumps = await asyncio.gather(*(connection.request_metrics(wanted) for connection in connections))
        groups = [group for dump in dumps for group in dump.groups]
        return await job_master.diagnosis(groups)

    def request_job_master_threads(
        self, request: job_pb2.JobMasterThreadsRequest, context: CallContext
    ) -> job_pb2.JobMasterThreads:
        self._job(request.job_id)
        return job_pb2.JobMasterThreads(
            threads=[job_pb2.JobMasterThreads.Thread(name=name, stack=stack) for name, stack in thread_stacks()]
        )

    async def request_thread_samples(
        self, request: thread_samples_pb2.ThreadSamplesRequest, context: CallContext
    ) -> thread_samples_pb2.JobThreadSamples:
        connections = self._job(request.job_id).task_manager_connections
        answers = await asyncio.gather(*(connection.request_thread_samples(request) for connection in connections))
        return thread_samples_pb2.JobThreadSamples(
            task_executors=[answer for answer in answers if answer is not None],
            unreachable=[
                str(connection.location.resource_id)
                for connection, answer in zip(connections, answers, strict=True)
                if answer is None
            ],
        )

    def _job(self, job_id: str) -> JobMaster:
        """Returns the JobMaster. Raises: JobNotFoundError if it runs another job."""
        job_master = self._job_master
        if job_master is None or job_master.job_id != job_id:
            raise JobNotFoundError(f"this JobMaster does not run job {job_id}")
        return job_master
