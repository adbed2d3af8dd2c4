"""JobInquiries: what clients ask of a job that only its JobMaster knows, or the archive once it has ended.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio

from flinkpy._proto import checkpoint_pb2, job_pb2, metrics_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.ended_jobs import job_not_found
from flinkpy.dispatcher.options import DispatcherOptions
from flinkpy.dispatcher.running_jobs import RunningJobs
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.server import CallContext, unfenced


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
