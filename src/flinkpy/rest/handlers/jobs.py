"""Lists of jobs."""

from __future__ import annotations

import asyncio
import logging

from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState
from flinkpy.rest.forms.job_details import ended_job_overview, job_overview
from flinkpy.rest.handlers.job_inquiries import job_with_id
from flinkpy.rest.messages.jobs import JobDetails, JobIdsWithStatusOverview, JobIdWithStatus, MultipleJobsDetails
from flinkpy.rest.operation import RestCall, operation

logger = logging.getLogger(__name__)

_ENDED = frozenset(state.value for state in JobState if state.is_globally_terminal)


@operation(
    "GET", "/jobs", "Returns an overview over all jobs and their current state.", response=JobIdsWithStatusOverview
)
async def job_ids_with_status(call: RestCall) -> JobIdsWithStatusOverview:
    found = await call.dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest())
    return JobIdsWithStatusOverview(jobs=[JobIdWithStatus(id=job.job_id, status=_state(job)) for job in found.jobs])


@operation("GET", "/jobs/overview", "Returns an overview over all jobs.", response=MultipleJobsDetails)
async def jobs_overview(call: RestCall) -> MultipleJobsDetails:
    """Asks the JobMasters of running jobs for their tasks; those that do not answer are shown without."""
    found = await call.dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest())
    running = [job for job in found.jobs if job.status not in _ENDED]
    lines = call.context.ended_jobs.lines(
        (job for job in found.jobs if job.status in _ENDED), call.context.clock.now_ms()
    )
    for line in await asyncio.gather(*(_details(call, job) for job in running)):
        lines[line.jid] = line
    return MultipleJobsDetails(jobs=[lines[job.job_id] for job in found.jobs])


async def _details(call: RestCall, job: dispatcher_pb2.JobOverview) -> JobDetails:
    now_ms = call.context.clock.now_ms()
    try:
        details = await job_with_id(call, job.job_id)
    except FlinkError as error:
        logger.debug("the overview shows job %s as the Dispatcher knows it: %s", job.job_id, error)
        return ended_job_overview(job, now_ms)
    return job_overview(details, now_ms)


def _state(job: dispatcher_pb2.JobOverview) -> str:
    return str(common_pb2.JobStatus.Name(job.status))
