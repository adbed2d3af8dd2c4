"""Lists of jobs."""

from __future__ import annotations

from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.rest.messages.jobs import JobDetails, JobIdsWithStatusOverview, JobIdWithStatus, MultipleJobsDetails
from flinkpy.rest.operation import RestCall, operation


@operation(
    "GET", "/jobs", "Returns an overview over all jobs and their current state.", response=JobIdsWithStatusOverview
)
async def job_ids_with_status(call: RestCall) -> JobIdsWithStatusOverview:
    found = await call.dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest())
    return JobIdsWithStatusOverview(jobs=[JobIdWithStatus(id=job.job_id, status=_state(job)) for job in found.jobs])


@operation("GET", "/jobs/overview", "Returns an overview over all jobs.", response=MultipleJobsDetails)
async def jobs_overview(call: RestCall) -> MultipleJobsDetails:
    found = await call.dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest())
    now_ms = call.context.clock.now_ms()
    return MultipleJobsDetails(jobs=[_details(job, now_ms) for job in found.jobs])


def _details(job: dispatcher_pb2.JobOverview, now_ms: int) -> JobDetails:
    end_ms = job.end_time_ms or -1
    return JobDetails(
        jid=job.job_id,
        name=job.name,
        start_time=job.start_time_ms,
        end_time=end_ms,
        duration=(now_ms if end_ms < 0 else end_ms) - job.start_time_ms,
        state=_state(job),
        last_modification=job.start_time_ms if end_ms < 0 else end_ms,
        tasks={},
    )


def _state(job: dispatcher_pb2.JobOverview) -> str:
    return str(common_pb2.JobStatus.Name(job.status))
