"""Dispatcher: the endpoint that clients call and to which JobMaster processes report.

It owns one JobManagerRunner for each unfinished job, the pool of JobMaster processes, the stores and the archive of
ended jobs. It passes calls to the machines and runs the effects they return. The outcome of an effect goes back to the
machine.

| message                                    | unknown job        | job has ended          | duplicate or late         |
|--------------------------------------------|--------------------|------------------------|---------------------------|
| SubmitJob                                  | accepted           | DuplicateJobSubmission | DuplicateJobSubmission    |
| RequestJob, -Status, -Result, Watch...,    | JobNotFoundError   | from the archive       | the same answer           |
| RequestAccumulators,                       |                    |                        |                           |
| RequestCheckpointStatistics,               |                    |                        |                           |
| RequestDiagnosis                           |                    |                        |                           |
| RequestMetrics, RequestJobMasterThreads    | JobNotFoundError   | JobNotFoundError       | the same answer           |
| RequestThreadSamples                       | JobNotFoundError   | JobNotFoundError       | sampled again             |
| CancelJob                                  | JobNotFoundError   | ack or error (see 1)   | passed on again           |
| UpdateResourceRequirements                 | JobNotFoundError   | JobNotFoundError       | stored again              |
| ReportJobClientHeartbeat                   | JobNotFoundError   | JobNotFoundError       | acknowledged, no effect   |
| TriggerCheckpoint, -Savepoint, Stop...     | JobNotFoundError   | JobNotFoundError (2)   | the same answer           |
| NotifyJobMasterStarted, -Status            | StaleFencingToken  | acknowledged           | acknowledged, no effect   |
| NotifyJobTerminated                        | StaleFencingToken  | acknowledged           | acknowledged, no effect   |
| any of these three, other JobMasterId      | StaleFencingToken  | StaleFencingToken      | StaleFencingToken         |

(1) Acknowledged if the job was canceled, JobTerminatedWithoutCancellationError if it ended in another way.
(2) A call that repeats the trigger id of an answered call gets the same answer.

Source: org.apache.flink.runtime.dispatcher.Dispatcher.
Thread: one asyncio loop; files are read and written on I/O threads.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import re
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from google.protobuf.message import DecodeError

from flinkpy import __version__
from flinkpy._proto import (
    checkpoint_pb2,
    common_pb2,
    job_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    taskexecutor_pb2,
    thread_samples_pb2,
)
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import StatisticsParts
from flinkpy.common.clock import Clock
from flinkpy.common.errors import (
    DuplicateJobSubmissionError,
    ExternalError,
    FlinkError,
    JobSubmissionError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
    UnsupportedOperationError,
    UserError,
    VersionMismatchError,
)
from flinkpy.common.ids import DispatcherId, JobID, JobMasterId
from flinkpy.common.states import JobState
from flinkpy.configuration import core_options, read_option
from flinkpy.configuration.redaction import redacted
from flinkpy.dispatcher.dispatcher_services import DispatcherServices
from flinkpy.dispatcher.job_archive import (
    archived_accumulators,
    check_cancellation_of_ended,
    job_not_found,
    status_to_proto,
)
from flinkpy.dispatcher.job_operations import JobOperations
from flinkpy.dispatcher.log_inquiries import LogInquiries
from flinkpy.dispatcher.options import DispatcherOptions
from flinkpy.dispatcher.parallelism_overrides import apply_parallelism_overrides
from flinkpy.dispatcher.running_jobs import JobStatusWatchers, RunningJob, RunningJobs
from flinkpy.dispatcher.stored_job_graphs import not_stored
from flinkpy.dispatcher.submission_trace import trace_submission
from flinkpy.graph.validation import validate_job_graph
from flinkpy.logs.answers import log_records, own_log
from flinkpy.metrics.metric_registry import ScopeKind
from flinkpy.metrics.query_service import dump_metrics
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.server import CallContext, unfenced
from flinkpy.rpc.services import MAX_MESSAGE_BYTES
from flinkpy.rpc.versions import are_compatible_releases

logger = logging.getLogger(__name__)

ACK = common_pb2.Acknowledge()
CLUSTER_PYTHON = ".".join(platform.python_version_tuple()[:2])

#: A JobGraph is sent to its JobMaster in one message, together with the cluster's configuration.
MAX_GRAPH_BYTES = MAX_MESSAGE_BYTES - 1024 * 1024

#: The maximum time for which a request for a job result waits.
MAX_RESULT_WAIT_MS = 10 * 60_000

#: How long the cluster overview waits for the ResourceManager.
OVERVIEW_TIMEOUT_S = 3.0

#: How long a coordinator may take to answer, e.g. until it has results.
COORDINATION_TIMEOUT_S = 60.0

#: The maximum size of all logs in one answer. It is far below the maximum message size.
MAX_LOGS_BYTES = 1 << 20
#: The minimum size to request of one TaskExecutor. Otherwise each of many would return one line at a time.
MIN_LOG_BYTES = 4096
#: How long the logs wait for a TaskExecutor that does not answer.
LOG_TIMEOUT_S = 5.0
#: The name of this process in answers about logs.
LOG_SOURCE = "dispatcher"


class Dispatcher(RpcEndpoint):
    """Serves `Dispatcher` of dispatcher.proto."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        options: DispatcherOptions,
        dispatcher_id: DispatcherId,
        services: DispatcherServices,
        configuration: dict[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(loop, clock)
        self._options = options
        self._id = dispatcher_id
        self._services = services
        self._configuration = dict(configuration or {})
        self.jobs = RunningJobs(
            self,
            options=options,
            services=services,
            dispatcher_id=str(dispatcher_id),
            configuration=self._configuration,
        )
        #: Jobs that are being stored, each with the answers of callers that repeated the submission meanwhile.
        self._submitting: dict[JobID, list[asyncio.Future[pb.SubmitJobResponse]]] = {}
        self._is_shutting_down = False
        self._operations = JobOperations(self.jobs, self.run_async)
        self._logs = LogInquiries(self, read_option(configuration or {}, core_options.LOG_DIR), LOG_SOURCE)

    @property
    def fencing_token(self) -> str:
        return str(self._id)

    def start(
        self,
        address: str,
        ended: Iterable[pb.JobTerminated] = (),
        unfinished: Iterable[job_pb2.JobGraph] = (),
        dirty: Iterable[pb.JobTerminated] = (),
    ) -> None:
        """Starts the Dispatcher. Called once, when the server listens at `address`, to which JobMasters report.

        Args:
            ended: the results that a former Dispatcher stored.
            unfinished: jobs of a former Dispatcher that have no result. They are run again.
            dirty: the results in `ended` whose jobs have not been cleaned up.
        """
        self.validate_runs_in_main_thread()
        self.jobs.start(address, ended, unfinished, dirty)
        self.schedule(self._options.blob_cleanup_interval_s * 1000 or 1000, self._clean_up_blobs)

    async def stop_jobs(self, reason: str) -> None:
        """Ends all JobMaster processes and suspends running jobs. Called while the server still serves."""
        self._is_shutting_down = True
        await self.jobs.stop(reason)

    def leave(self) -> None:
        """Stops because another Dispatcher leads. That one takes over the JobMasters, which keep running."""
        self._is_shutting_down = True
        self.jobs.leave()

    # --- submission -------------------------------------------------------------------------------------------------

    @unfenced
    def submit_job(self, request: pb.SubmitJobRequest, context: CallContext) -> Awaitable[pb.SubmitJobResponse]:
        """Answers when the job is stored, so that an acknowledged job is never lost.

        Raises: VersionMismatchError, JobSubmissionError, DuplicateJobSubmissionError.
        """
        self.validate_runs_in_main_thread()
        answer: asyncio.Future[pb.SubmitJobResponse] = self._loop.create_future()
        key = request.job_graph_blob_key
        if key:
            self.start_task(self._accept_blob(key, context.client_version, answer), f"load JobGraph {key[:16]}")
        else:
            self._accept(request.job_graph, context.client_version, answer)
        return answer

    async def _accept_blob(
        self, key: str, caller_version: str | None, answer: asyncio.Future[pb.SubmitJobResponse]
    ) -> None:
        try:
            graph = await self.blocking(lambda: self._load_graph(key), f"load JobGraph {key[:16]}")
            self._accept(graph, caller_version, answer)
        except Exception as error:  # noqa: BLE001 - the client gets it
            _settle_error(answer, error)

    def _load_graph(self, key: str) -> job_pb2.JobGraph:
        try:
            return job_pb2.JobGraph.FromString(self._services.blobs.get(key))
        except DecodeError as error:
            raise JobSubmissionError(
                f"blob {key} is not a JobGraph: {error}", details={"job_graph_blob_key": key}
            ) from error

    def _accept(
        self, graph: job_pb2.JobGraph, caller_version: str | None, answer: asyncio.Future[pb.SubmitJobResponse]
    ) -> None:
        if self._is_shutting_down:
            raise JobSubmissionError("the cluster is shutting down and accepts no more jobs")
        check_submission(
            graph, caller_version=caller_version, cluster_version=__version__, cluster_python=CLUSTER_PYTHON
        )
        apply_parallelism_overrides(graph, self._configuration)
        if graph.ByteSize() > MAX_GRAPH_BYTES:
            raise JobSubmissionError(
                f"the JobGraph of '{graph.name}' has {graph.ByteSize()} bytes; the maximum is {MAX_GRAPH_BYTES}. "
                "Ship large objects as files instead of capturing them in functions"
            )
        job_id = JobID(graph.job_id)
        if job_id in self._submitting:
            # A client that repeats its submission takes DuplicateJobSubmissionError, which it gets, for success.
            self._submitting[job_id].append(answer)
            return
        if (duplicate := self._duplicate(job_id)) is not None:
            raise duplicate
        self._submitting[job_id] = []
        trace_submission(graph, answer)
        self.start_task(self._store_and_run(job_id, graph, answer), f"store job {job_id}")

    async def _store_and_run(
        self, job_id: JobID, graph: job_pb2.JobGraph, answer: asyncio.Future[pb.SubmitJobResponse]
    ) -> None:
        def store() -> None:
            self._services.recovery_directories.create(job_id)
            self._services.job_graphs.put(graph)

        try:
            await self.blocking(store, f"store job {job_id}")
        except Exception as error:  # noqa: BLE001 - the clients get it
            for waiting in (answer, *self._submitting.pop(job_id)):
                _settle_error(waiting, not_stored(f"job {job_id}", error))
            return
        repeated = self._submitting.pop(job_id)
        self.jobs.run(graph)
        for waiting in repeated:
            _settle_error(waiting, self._duplicate(job_id))
        if not answer.done():
            answer.set_result(pb.SubmitJobResponse(job_id=str(job_id)))

    def _duplicate(self, job_id: JobID) -> DuplicateJobSubmissionError | None:
        known = self.jobs.find(job_id)
        overview = self.jobs.archive.overview(job_id)
        if known is not None:
            phase = f"is {known.runner.status.name}"
        elif overview is not None:
            phase = f"has ended ({JobState(overview.status).name})"
        elif self.jobs.archive.was_forgotten(job_id) or self._services.job_results.contains(job_id):
            phase = "has ended"
        else:
            return None
        return DuplicateJobSubmissionError(
            f"a job with the id {job_id} {phase}; each job needs an id of its own", details={"job_id": str(job_id)}
        )

    # --- clients ----------------------------------------------------------------------------------------------------

    @unfenced
    def list_jobs(self, request: pb.ListJobsRequest, context: CallContext) -> pb.ListJobsResponse:
        """Returns all running and archived jobs, in the order in which they started."""
        self.validate_runs_in_main_thread()
        return pb.ListJobsResponse(jobs=self.jobs.overviews())

    @unfenced
    async def request_job(self, request: job_pb2.JobDetailsRequest, context: CallContext) -> job_pb2.JobDetails:
        """Returns the details of a job: from its JobMaster, its graph (before it runs) or the archive (after its end).

        Passwords and other secrets in its configuration are redacted.
        """
        self.validate_runs_in_main_thread()
        details = job_pb2.JobDetails()
        details.CopyFrom(await self._details(JobID(request.job_id), request))
        if request.without_subtasks:
            for vertex in details.vertices:  # the archive has them
                if vertex.id not in request.vertex_ids:
                    del vertex.subtasks[:]
        for key, value in redacted(details.configuration.entries).items():
            details.configuration.entries[key] = value
        return details

    async def _details(self, job_id: JobID, request: job_pb2.JobDetailsRequest) -> job_pb2.JobDetails:
        job = self.jobs.find(job_id)
        if job is None:
            return (await self.archived(job_id)).details
        gateway = self.jobs.job_master_gateway(job)
        if gateway is None:
            return job.runner.details()
        try:
            details: job_pb2.JobDetails = await gateway.request_job_details(
                request, timeout_s=self._options.rpc_timeout_s
            )
        except (RpcUnavailableError, RpcTimeoutError):
            return job.runner.details()  # its JobMaster is ending or busy
        return details

    @unfenced
    def request_job_status(self, request: pb.JobIdMessage, context: CallContext) -> pb.JobStatusResponse:
        self.validate_runs_in_main_thread()
        status = self.jobs.status_of(JobID(request.job_id))
        return pb.JobStatusResponse(job_id=request.job_id, status=status_to_proto(status))

    @unfenced
    async def watch_job_status(
        self, request: pb.JobIdMessage, context: CallContext
    ) -> AsyncIterator[pb.JobStatusResponse]:
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        status = self.jobs.status_of(job_id)
        job = self.jobs.find(job_id)
        watchers = JobStatusWatchers() if job is None else job.watchers
        async for seen in watchers.watch(status):
            yield pb.JobStatusResponse(job_id=request.job_id, status=status_to_proto(seen))

    @unfenced
    async def request_job_result(
        self, request: pb.RequestJobResultRequest, context: CallContext
    ) -> pb.RequestJobResultResponse:
        """Answers when the job has ended, or after the time-out with `finished` false."""
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        job = self.jobs.find(job_id)
        if job is None:
            archived = await self.archived(job_id)
            return pb.RequestJobResultResponse(finished=True, result=archived.result)
        timeout_s = min(max(request.timeout_ms, 0), MAX_RESULT_WAIT_MS) / 1000
        done, _ = await asyncio.wait({job.ended}, timeout=timeout_s)
        if not done:
            return pb.RequestJobResultResponse(finished=False)
        return pb.RequestJobResultResponse(finished=True, result=job.ended.result().result)

    @unfenced
    async def cancel_job(self, request: pb.JobIdMessage, context: CallContext) -> common_pb2.Acknowledge:
        """Cancels a job. Answers when the cancellation is stored, so that it cannot be lost. May be repeated.

        Raises: JobNotFoundError, JobTerminatedWithoutCancellationError, NotLeaderError, ExternalError.
        """
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        job = self.jobs.find(job_id)
        if job is None:
            check_cancellation_of_ended(job_id, self.jobs.status_of(job_id))
            return ACK
        logger.info("canceling job %s", job_id)
        self.jobs.cancel(job)
        await self.jobs.stored_graphs.keep_cancellation(job.runner, job.ended)
        return ACK

    @unfenced
    async def update_resource_requirements(
        self, request: job_pb2.ResourceRequirementsUpdate, context: CallContext
    ) -> common_pb2.Acknowledge:
        """Sets the parallelism that the vertices of a job may have. Answers when it is stored. May be repeated.

        Raises: JobNotFoundError, also if the job has ended; InvalidResourceRequirementsError;
            UnsupportedOperationError if the job has another scheduler; NotLeaderError, ExternalError.
        """
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        while True:
            gateway = await self.jobs.leader_of(job_id)
            job = self.jobs.find(job_id)
            if job is None:
                raise job_not_found(job_id)
            asked = job.runner.job_master_id
            await gateway.update_resource_requirements(request, timeout_s=self._options.rpc_timeout_s)
            logger.info("the resource requirements of job %s have changed", job_id)
            await self.jobs.stored_graphs.keep_requirements(job.runner, request.requirements)
            # Another JobMaster may have started with the former requirements meanwhile.
            if job.runner.job_master_id == asked:
                return ACK

    @unfenced
    def report_job_client_heartbeat(
        self, request: pb.JobClientHeartbeat, context: CallContext
    ) -> common_pb2.Acknowledge:
        """Records a heartbeat of the job's client. Raises: JobNotFoundError, also if the job has ended."""
        self.validate_runs_in_main_thread()
        self.jobs.client_heard(JobID(request.job_id), request.timeout_ms)
        return ACK

    @unfenced
    async def send_coordination_request(
        self, request: pb.CoordinationRequest, context: CallContext
    ) -> pb.CoordinationResponse:
        """Passes a request to the job's JobMaster. Waits for a JobMaster that is starting."""
        self.validate_runs_in_main_thread()
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        response: pb.CoordinationResponse = await gateway.deliver_coordination_request(
            request, timeout_s=COORDINATION_TIMEOUT_S
        )
        return response

    @unfenced
    async def request_cluster_overview(
        self, request: pb.ClusterOverviewRequest, context: CallContext
    ) -> pb.ClusterOverview:
        """Returns the overview. Slots and TaskExecutors are -1 if the ResourceManager does not answer."""
        self.validate_runs_in_main_thread()
        address = self._resource_manager_address
        resources = resourcemanager_pb2.ResourceOverview(num_task_managers=-1, num_slots_total=-1, num_slots_free=-1)
        try:
            resources = await self.resource_manager().request_resource_overview(
                resourcemanager_pb2.ResourceOverviewRequest(), timeout_s=OVERVIEW_TIMEOUT_S
            )
        except (RpcUnavailableError, RpcTimeoutError) as error:
            logger.warning("the ResourceManager does not answer: %s", error)
        ended = self.jobs.archive.count_by_status()
        return pb.ClusterOverview(
            num_task_managers=resources.num_task_managers,
            num_slots_total=resources.num_slots_total,
            num_slots_available=resources.num_slots_free,
            num_jobs_running=len(self.jobs),
            num_jobs_finished=ended[JobState.FINISHED],
            num_jobs_cancelled=ended[JobState.CANCELED],
            num_jobs_failed=ended[JobState.FAILED],
            version=__version__,
            dispatcher_id=str(self._id),
            resource_manager_address=address,
            is_insecure=self._options.is_insecure,
            rest_url=self._services.rest_url,
        )

    @property
    def _resource_manager_address(self) -> str:
        """The address of the leading ResourceManager; empty if none leads."""
        find = self._services.resource_manager_address
        return self._options.resource_manager_address if find is None else find() or ""

    def resource_manager(self) -> Any:
        address = self._resource_manager_address
        if not address:
            raise RpcUnavailableError("no ResourceManager leads at the moment")
        return self.gateway("ResourceManager", address)

    def gateway(self, service: str, address: str) -> Any:
        return self._services.gateways.gateway(service, address)

    @unfenced
    async def shut_down_cluster(
        self, request: pb.ShutDownClusterRequest, context: CallContext
    ) -> common_pb2.Acknowledge:
        """Cancels the jobs, ends the JobMasters and answers. The process ends afterwards."""
        self.validate_runs_in_main_thread()
        self._is_shutting_down = True
        for job in self.jobs:
            if not job.runner.is_over:
                self.jobs.cancel(job)
        pending = [job.ended for job in self.jobs]
        if pending:
            _, unfinished = await asyncio.wait(pending, timeout=self._options.shutdown_timeout_ms / 1000)
            if unfinished:
                logger.warning("%d job(s) did not end in time; ending their JobMasters", len(unfinished))
        await self.stop_jobs("the cluster is being shut down")
        self._services.on_shutdown_requested("ShutDownCluster was called")
        return ACK

    @unfenced
    async def request_checkpoint_statistics(
        self, request: checkpoint_pb2.CheckpointStatisticsRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointStatisticsResponse:
        """Returns the checkpoint statistics of a job, also after its end. Raises: JobNotFoundError."""
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        if self.jobs.find(job_id) is None:
            statistics = checkpoint_pb2.CheckpointStatisticsResponse()
            statistics.CopyFrom((await self.archived(job_id)).checkpoint_statistics)
            StatisticsParts.of(request).apply_to(statistics)
            return statistics
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        answer: checkpoint_pb2.CheckpointStatisticsResponse = await gateway.request_checkpoint_statistics(
            request, timeout_s=self._options.rpc_timeout_s
        )
        return answer

    @unfenced
    async def request_accumulators(
        self, request: job_pb2.AccumulatorsRequest, context: CallContext
    ) -> job_pb2.JobAccumulators:
        """Returns the accumulators of a job; none while no JobMaster leads it. Raises: JobNotFoundError."""
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        job = self.jobs.find(job_id)
        if job is None:
            return archived_accumulators(await self.archived(job_id), request)
        gateway = self.jobs.job_master_gateway(job)
        if gateway is None:
            return job_pb2.JobAccumulators()
        answer: job_pb2.JobAccumulators = await gateway.request_accumulators(
            request, timeout_s=self._options.rpc_timeout_s
        )
        return answer

    @unfenced
    async def request_metrics(
        self, request: metrics_pb2.MetricsRequest, context: CallContext
    ) -> metrics_pb2.MetricsDump:
        """Returns the metrics of a running job; without a job id those of the cluster or of a TaskExecutor's process.

        Raises: JobNotFoundError; UserError if the TaskExecutor is unknown; RpcUnavailableError, RpcTimeoutError.
        """
        self.validate_runs_in_main_thread()
        if not request.job_id:
            tell = self._task_executor_metrics if request.resource_id else self._cluster_metrics
            return await tell(request)
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        answer: metrics_pb2.MetricsDump = await gateway.request_metrics(request, timeout_s=self._options.rpc_timeout_s)
        return answer

    async def _cluster_metrics(self, request: metrics_pb2.MetricsRequest) -> metrics_pb2.MetricsDump:
        """Returns the metrics of this process and of the ResourceManager; without the latter if it does not answer."""
        asked = metrics_pb2.MetricsRequest(names=request.names, kinds=[ScopeKind.PROCESS.value])
        dump = await asyncio.to_thread(dump_metrics, self._services.metrics, asked, str(self._id))
        try:
            of_resource_manager = await self.resource_manager().request_metrics(asked, timeout_s=OVERVIEW_TIMEOUT_S)
            dump.groups.extend(of_resource_manager.groups)
        except ExternalError as error:
            logger.warning("the ResourceManager does not tell its metrics: %s", error)
        return dump

    async def _task_executor_metrics(self, request: metrics_pb2.MetricsRequest) -> metrics_pb2.MetricsDump:
        infos = await self.resource_manager().request_task_manager_info(
            resourcemanager_pb2.TaskManagerInfoRequest(resource_id=request.resource_id), timeout_s=OVERVIEW_TIMEOUT_S
        )
        if not infos.task_managers:
            raise UserError(
                f"there is no TaskExecutor {request.resource_id}", details={"resource_id": request.resource_id}
            )
        gateway = self.gateway("TaskExecutor", infos.task_managers[0].address)
        answer: metrics_pb2.MetricsDump = await gateway.request_process_metrics(
            taskexecutor_pb2.ProcessMetricsRequest(), timeout_s=self._options.rpc_timeout_s
        )
        return answer

    @unfenced
    async def request_diagnosis(self, request: job_pb2.DiagnosisRequest, context: CallContext) -> job_pb2.JobDiagnosis:
        """Returns why a job has no output; without findings if it has ended. Raises: JobNotFoundError."""
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        if self.jobs.find(job_id) is None:
            details = (await self.archived(job_id)).details
            return job_pb2.JobDiagnosis(job_id=request.job_id, timestamp_ms=self.clock.now_ms(), status=details.status)
        gateway = await self.jobs.leader_of(job_id)
        answer: job_pb2.JobDiagnosis = await gateway.request_diagnosis(request, timeout_s=self._options.rpc_timeout_s)
        return answer

    @unfenced
    async def request_job_master_threads(
        self, request: job_pb2.JobMasterThreadsRequest, context: CallContext
    ) -> job_pb2.JobMasterThreads:
        """Returns the threads of the process that runs a job. Raises: JobNotFoundError, also if the job has ended."""
        self.validate_runs_in_main_thread()
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        answer: job_pb2.JobMasterThreads = await gateway.request_job_master_threads(
            request, timeout_s=self._options.rpc_timeout_s
        )
        return answer

    @unfenced
    async def request_thread_samples(
        self, request: thread_samples_pb2.ThreadSamplesRequest, context: CallContext
    ) -> thread_samples_pb2.JobThreadSamples:
        """Returns the stacks of the threads of a running job, when its TaskExecutors have sampled them.

        Raises: JobNotFoundError if the job is unknown or ends meanwhile, UnsupportedOperationError if flame graphs are
            switched off.
        """
        self.validate_runs_in_main_thread()
        if not self._options.may_sample_threads:
            raise UnsupportedOperationError("flame graphs are switched off (`rest.flamegraph.enabled`)")
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        sampling_s = request.num_samples * request.delay_ms / 1000
        try:
            answer: thread_samples_pb2.JobThreadSamples = await gateway.request_thread_samples(
                request, timeout_s=self._options.rpc_timeout_s + 2 * sampling_s
            )
        except RpcUnavailableError:
            await self.jobs.leader_of(JobID(request.job_id))  # raises JobNotFoundError if the job has ended meanwhile
            raise
        return answer

    @unfenced
    async def request_job_logs(self, request: pb.JobLogsRequest, context: CallContext) -> pb.JobLogs:
        """Returns a piece of the log of each TaskExecutor of a running or ended job.

        Asks all registered TaskExecutors, because a restarted job has logs on TaskExecutors that it ran on before.

        Raises: JobNotFoundError, RpcUnavailableError if no ResourceManager leads.
        """
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        is_over = self.jobs.find(job_id) is None
        if is_over:
            self.jobs.status_of(job_id)
        infos = await self.resource_manager().request_task_manager_info(
            resourcemanager_pb2.TaskManagerInfoRequest(), timeout_s=self._options.rpc_timeout_s
        )
        max_bytes = max(MIN_LOG_BYTES, MAX_LOGS_BYTES // max(1, len(infos.task_managers)))
        answer = pb.JobLogs(is_over=is_over)

        async def read(info: resourcemanager_pb2.TaskManagerInfo) -> None:
            asked = common_pb2.JobLogRequest(
                job_id=request.job_id, position=request.positions.get(info.resource_id, -1), max_bytes=max_bytes
            )
            try:
                chunk = await self.gateway("TaskExecutor", info.address).request_job_log(asked, timeout_s=LOG_TIMEOUT_S)
            except FlinkError as error:
                logger.info("TaskExecutor %s did not return its log: %s", info.resource_id, error)
                answer.unreachable.append(info.resource_id)
                return
            if chunk.is_known:
                answer.chunks.append(chunk)

        await asyncio.gather(*map(read, infos.task_managers))
        answer.chunks.sort(key=lambda chunk: chunk.resource_id)
        return answer

    @unfenced
    async def request_job_log_records(
        self, request: common_pb2.LogRecordsRequest, context: CallContext
    ) -> pb.JobLogRecords:
        """Returns records of a running or ended job, from the logs of all processes that worked for it.

        Raises: JobNotFoundError, RpcUnavailableError if no ResourceManager leads.
        """
        self.validate_runs_in_main_thread()
        job_id = JobID(request.query.job_id)
        job = self.jobs.find(job_id)
        if job is not None:
            return await self._logs.records(request, job.runner.submitted_ms, is_over=False)
        overview = self.jobs.archive.overview(job_id)
        if overview is None:
            raise job_not_found(job_id)
        return await self._logs.records(request, overview.start_time_ms, is_over=True)

    @unfenced
    async def request_log_records(
        self, request: common_pb2.LogRecordsRequest, context: CallContext
    ) -> common_pb2.LogRecords:
        """Returns records of this process's log."""
        return await asyncio.to_thread(log_records, request, own_log(), LOG_SOURCE)

    @unfenced
    async def change_log_levels(self, request: common_pb2.LogLevelsRequest, context: CallContext) -> pb.JobLogLevels:
        """Changes levels of loggers in the processes of a job, or in one process. Raises: JobNotFoundError."""
        self.validate_runs_in_main_thread()
        if request.job_id and self.jobs.find(JobID(request.job_id)) is None:
            self.jobs.status_of(JobID(request.job_id))
        return await self._logs.levels(request)

    async def task_executors(self) -> Iterable[resourcemanager_pb2.TaskManagerInfo]:
        """Returns all registered TaskExecutors. Raises: RpcUnavailableError if no ResourceManager leads."""
        answer: resourcemanager_pb2.TaskManagerInfoResponse = await self.resource_manager().request_task_manager_info(
            resourcemanager_pb2.TaskManagerInfoRequest(), timeout_s=self._options.rpc_timeout_s
        )
        return answer.task_managers

    def task_executor(self, address: str) -> Any:
        return self.gateway("TaskExecutor", address)

    def job_master(self, job_id: JobID) -> Any | None:
        """Returns the gateway of a job's JobMaster; None if it has none now."""
        job = self.jobs.find(job_id)
        return None if job is None else self.jobs.job_master_gateway(job)

    async def archived(self, job_id: JobID) -> pb.JobTerminated:
        """Returns the result and details of an ended job. Raises: JobNotFoundError."""
        if not self.jobs.archive.contains(job_id):
            raise job_not_found(job_id)
        terminated = self.jobs.archive.cached(job_id)
        if terminated is None:
            terminated = await asyncio.to_thread(self.jobs.archive.load, job_id)
        if terminated is None:
            raise job_not_found(job_id)
        return terminated

    # --- checkpoints and savepoints ---------------------------------------------------------------------------------

    @unfenced
    async def trigger_checkpoint(
        self, request: checkpoint_pb2.TriggerCheckpointRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointResult:
        """Answers when the checkpoint is complete. Raises: JobNotFoundError, CheckpointError, RpcUnavailableError."""
        return await self._operations.run("trigger_checkpoint", request)

    @unfenced
    async def trigger_savepoint(
        self, request: checkpoint_pb2.TriggerSavepointRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointResult:
        """Answers when the savepoint is complete. Raises the same errors as `trigger_checkpoint`."""
        return await self._operations.run("trigger_savepoint", request)

    @unfenced
    async def stop_with_savepoint(
        self, request: checkpoint_pb2.StopWithSavepointRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointResult:
        """Answers when the savepoint is complete. Raises the same errors as `trigger_checkpoint`."""
        return await self._operations.run("stop_with_savepoint", request)

    @unfenced
    def dispose_savepoint(
        self, request: checkpoint_pb2.DisposeSavepointRequest, context: CallContext
    ) -> Awaitable[common_pb2.Acknowledge]:
        """Deletes a savepoint. Raises: SavepointError if the path is not a savepoint, CheckpointStorageError."""
        self.validate_runs_in_main_thread()
        answer: asyncio.Future[common_pb2.Acknowledge] = self._loop.create_future()

        def disposed(_: None, error: BaseException | None) -> None:
            if error is not None:
                _settle_error(answer, error)
            elif not answer.done():
                answer.set_result(ACK)

        self.run_blocking(lambda: self._services.dispose_savepoint(request.path), disposed, "dispose savepoint")
        return answer

    # --- JobMasters -------------------------------------------------------------------------------------------------

    @unfenced
    async def open_job_master_session(
        self, request: pb.JobMasterHello, context: CallContext
    ) -> AsyncIterator[pb.JobMasterCommand]:
        """Opens the session of a JobMaster process, which ends with the stream.

        The process may run another release, because it may have led its job before this Dispatcher was started.
        """
        self.validate_runs_in_main_thread()
        session = self.jobs.job_masters.open(request)
        try:
            while (command := await session.commands.get()) is not None:
                yield command
        finally:
            self.jobs.job_masters.closed(session)

    def notify_job_master_started(self, request: pb.JobMasterStarted, context: CallContext) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._led_job(request.job_id, request.job_master_id)
        if job is not None:
            self.jobs.job_master_started(job, request)
        return ACK

    def notify_job_status(self, request: pb.JobStatusUpdate, context: CallContext) -> common_pb2.Acknowledge:
        self.validate_runs_in_main_thread()
        job = self._led_job(request.job_id, request.job_master_id)
        if job is not None and request.status:
            effects = job.runner.status_notified(
                JobMasterId(request.job_master_id), JobState(request.status), request.timestamp_ms
            )
            self.jobs.run_effects(job, effects)
        return ACK

    def notify_job_terminated(
        self, request: pb.JobTerminated, context: CallContext
    ) -> common_pb2.Acknowledge | Awaitable[common_pb2.Acknowledge]:
        """Acknowledges when the result is stored."""
        self.validate_runs_in_main_thread()
        job = self._led_job(request.job_id, request.job_master_id)
        if job is None:
            return ACK
        answer: asyncio.Future[Any] = self._loop.create_future()
        job.stored.append(answer)
        self.jobs.run_effects(job, job.runner.job_terminated(request))
        return _acknowledged(answer)

    def _led_job(self, job_id: str, job_master_id: str) -> RunningJob | None:
        """Returns the job if that JobMaster leads it; None if it led the job to its end."""
        job = self.jobs.find(JobID(job_id))
        if job is not None:
            job.runner.check_job_master(JobMasterId(job_master_id))
            return job
        archived = self.jobs.archive.cached(JobID(job_id))
        if archived is not None and archived.job_master_id == job_master_id:
            return None
        raise StaleFencingTokenError(
            f"JobMaster {job_master_id} does not lead job {job_id}", details={"job_id": job_id, "got": job_master_id}
        )

    # --- blobs ------------------------------------------------------------------------------------------------------

    def _clean_up_blobs(self) -> None:
        used = {artifact.blob_key for job in self.jobs for artifact in job.runner.job_graph.artifacts}
        interval_s = self._options.blob_cleanup_interval_s
        oldest_s = self.clock.now_ms() / 1000 - interval_s
        self.run_blocking(lambda: self._services.blobs.remove_unused(used, oldest_s), None, "clean up blobs")
        self.schedule(max(interval_s, 1) * 1000, self._clean_up_blobs)


async def _acknowledged(stored: asyncio.Future[Any]) -> common_pb2.Acknowledge:
    await stored
    return ACK


def _settle_error(answer: asyncio.Future[Any], error: BaseException | None) -> None:
    """Sets the error of an answer, unless its caller has gone."""
    if not answer.done():
        answer.set_exception(error or RuntimeError("no result and no error"))


_JOB_ID = re.compile(r"[0-9a-f]{32}")


def check_submission(
    job_graph: job_pb2.JobGraph, *, caller_version: str | None, cluster_version: str, cluster_python: str
) -> None:
    """Checks that this cluster can run the job. Unpickles nothing.

    Args:
        caller_version: the release of the client, or None if unknown.
        cluster_python: "major.minor".

    Raises:
        VersionMismatchError: the graph was pickled by an incompatible release or by another minor version of Python.
        JobSubmissionError: the graph is invalid; the message names the culprit.
    """
    for what, version in (("client", caller_version), ("JobGraph", job_graph.client_version)):
        if version is not None and not are_compatible_releases(version, cluster_version):
            raise VersionMismatchError(
                f"the {what} was made with flinkpy {version or '(unknown)'}, this cluster runs {cluster_version}: "
                "pickled functions work only in releases with the same first two numbers. Install the same release on "
                "both sides",
                details={"client": version, "cluster": cluster_version},
            )
    minor = ".".join(job_graph.python_version.split(".")[:2])
    if minor != cluster_python:
        raise VersionMismatchError(
            f"the job was made with Python {job_graph.python_version or '(unknown)'}, this cluster runs "
            f"{cluster_python}: functions pickled by one minor version do not work in another",
            details={"client": job_graph.python_version, "cluster": cluster_python},
        )
    # The id becomes a file name, so it must be checked.
    if not _JOB_ID.fullmatch(job_graph.job_id):
        raise JobSubmissionError(
            f"{job_graph.job_id[:80]!r} is not a job id (32 lower-case hex digits)",
            details={"job_id": job_graph.job_id[:80]},
        )
    validate_job_graph(job_graph)
