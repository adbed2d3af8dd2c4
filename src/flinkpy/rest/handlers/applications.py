"""Operations of the applications that were started through this server."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus

from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.rest.applications import FAILED, RUNNING, STATES, Application
from flinkpy.rest.handlers.jobmanager import configuration_entries
from flinkpy.rest.handlers.jobs import jobs_overview
from flinkpy.rest.messages.applications import (
    ApplicationDetails,
    ApplicationDetailsInfo,
    ApplicationExceptionHistory,
    ApplicationExceptionInfo,
    ApplicationExceptionsInfoWithHistory,
    MultipleApplicationsDetails,
)
from flinkpy.rest.messages.jobmanager import ConfigurationInfoEntry
from flinkpy.rest.operation import RestCall, operation


@operation(
    "GET",
    "/applications/overview",
    "Returns an overview over all applications.",
    response=MultipleApplicationsDetails,
)
async def applications_overview(call: RestCall) -> MultipleApplicationsDetails:
    jobs = await call.dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest())
    states = {job.job_id: str(common_pb2.JobStatus.Name(job.status)) for job in jobs.jobs}
    now_ms = call.context.clock.now_ms()
    return MultipleApplicationsDetails(
        applications=[
            ApplicationDetails(
                id=one.id,
                name=one.name,
                start_time=one.started_ms,
                end_time=_end_ms(one),
                duration=one.duration_ms(now_ms),
                status=one.state,
                jobs=dict(Counter(states[job_id] for job_id in one.jobs if job_id in states)),
            )
            for one in call.context.applications.all()
        ]
    )


def _end_ms(application: Application) -> int:
    return -1 if application.ended_ms is None else application.ended_ms


def _application(call: RestCall) -> Application:
    return call.context.applications.find(str(call.path["applicationid"]))


@operation("GET", "/applications/:applicationid", "Returns details of an application.", response=ApplicationDetailsInfo)
async def application_details(call: RestCall) -> ApplicationDetailsInfo:
    one = _application(call)
    overview = await jobs_overview.handler(call)
    timestamps = dict.fromkeys(STATES, 0)
    timestamps[RUNNING] = one.started_ms
    if one.ended_ms is not None:
        timestamps[one.state] = one.ended_ms
    return ApplicationDetailsInfo(
        id=one.id,
        name=one.name,
        status=one.state,
        start_time=one.started_ms,
        end_time=_end_ms(one),
        duration=one.duration_ms(call.context.clock.now_ms()),
        timestamps=timestamps,
        jobs=[job for job in overview.jobs if job.jid in one.jobs],
    )


@operation("POST", "/applications/:applicationid/cancel", "Terminates an application.", status=HTTPStatus.ACCEPTED)
async def cancel_application(call: RestCall) -> None:
    call.context.applications.cancel(str(call.path["applicationid"]))


@operation(
    "GET",
    "/applications/:applicationid/exceptions",
    "Returns exception history for an application.",
    response=ApplicationExceptionsInfoWithHistory,
)
async def application_exceptions(call: RestCall) -> ApplicationExceptionsInfoWithHistory:
    one = _application(call)
    entries = []
    if one.state == FAILED:
        entries.append(
            ApplicationExceptionInfo(
                exception_name=one.message.partition(":")[0],
                stacktrace=one.traceback or one.message,
                timestamp=_end_ms(one),
                job_id=None,
            )
        )
    return ApplicationExceptionsInfoWithHistory(exception_history=ApplicationExceptionHistory(entries=entries))


@operation(
    "GET",
    "/applications/:applicationid/jobmanager/config",
    "Returns the jobmanager's configuration of a specific application.",
    response=list[ConfigurationInfoEntry],
)
async def application_configuration(call: RestCall) -> list[ConfigurationInfoEntry]:
    return configuration_entries(_application(call).configuration)
