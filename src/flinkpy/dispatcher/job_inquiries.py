"""JobInquiries: what clients ask of a job that only its JobMaster knows, or the archive once it has ended.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from flinkpy._proto import checkpoint_pb2, common_pb2, job_pb2, metrics_pb2, resourcemanager_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.ended_jobs import job_not_found
from flinkpy.dispatcher.options import DispatcherOptions
from flinkpy.dispatcher.running_jobs import RunningJobs
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.server import CallContext, unfenced

logger = logging.getLogger(__name__)

#: One answer holds this much of all logs together: well below what a message may hold, and a second's worth of output.
MAX_LOGS_BYTES = 1 << 20
#: A TaskExecutor is asked for at least this much, or many of them would be read a line at a time.
MIN_LOG_BYTES = 4096
#: A TaskExecutor that does not answer must not keep the logs of the others back for long.
LOG_TIMEOUT_S = 5.0


class JobInquiries(RpcEndpoint):
    """A part of the Dispatcher. Every method raises JobNotFoundError."""

    jobs: RunningJobs
    _options: DispatcherOptions

    @unfenced
    async def request_checkpoint_statistics(
        self, request: checkpoint_pb2.CheckpointStatisticsRequest, context: CallContext
    ) -> checkpoint_pb2.CheckpointStatisticsResponse:
        """Of a job that runs."""
        self.validate_runs_in_main_thread()
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        answer: checkpoint_pb2.CheckpointStatisticsResponse = await gateway.request_checkpoint_statistics(
            request, timeout_s=self._options.rpc_timeout_s
        )
        return answer

    @unfenced
    async def request_accumulators(self, request: pb.JobIdMessage, context: CallContext) -> job_pb2.JobAccumulators:
        """As they are now, or final; none while no JobMaster leads the job."""
        self.validate_runs_in_main_thread()
        job_id = JobID(request.job_id)
        job = self.jobs.find(job_id)
        if job is None:
            return job_pb2.JobAccumulators(accumulators=(await self.archived(job_id)).result.accumulators)
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
        """Of a job that runs; its TaskExecutors are asked."""
        self.validate_runs_in_main_thread()
        gateway = await self.jobs.leader_of(JobID(request.job_id))
        answer: metrics_pb2.MetricsDump = await gateway.request_metrics(request, timeout_s=self._options.rpc_timeout_s)
        return answer

    @unfenced
    async def request_job_logs(self, request: pb.JobLogsRequest, context: CallContext) -> pb.JobLogs:
        """Returns a piece of the log of each TaskExecutor of a job, running or ended.

        All registered TaskExecutors are asked: after a restart a job has left its log on more than those it runs on.

        Raises: JobNotFoundError; RpcUnavailableError where no ResourceManager says which TaskExecutors there are.
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
                logger.info("TaskExecutor %s does not show its log: %s", info.resource_id, error)
                answer.unreachable.append(info.resource_id)
                return
            if chunk.is_known:
                answer.chunks.append(chunk)

        await asyncio.gather(*map(read, infos.task_managers))
        answer.chunks.sort(key=lambda chunk: chunk.resource_id)
        return answer

    def resource_manager(self) -> Any:
        """The gateway of the ResourceManager that leads. Raises: RpcUnavailableError where none does."""
        raise NotImplementedError

    def gateway(self, service: str, address: str) -> Any:
        raise NotImplementedError

    async def archived(self, job_id: JobID) -> pb.JobTerminated:
        """Of a job that has ended."""
        if not self.jobs.archive.contains(job_id):
            raise job_not_found(job_id)
        terminated = self.jobs.archive.cached(job_id)
        if terminated is None:
            terminated = await asyncio.to_thread(self.jobs.archive.load, job_id)
        if terminated is None:
            raise job_not_found(job_id)
        return terminated
