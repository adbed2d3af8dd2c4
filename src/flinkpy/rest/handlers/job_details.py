"""Handlers of a job's structure, its configuration, and its end."""

from __future__ import annotations

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.states import JobState
from flinkpy.configuration import core_options, jobmanager_options, pipeline_options, read_option
from flinkpy.configuration.redaction import redacted
from flinkpy.rest.forms.job_details import job_details_info, job_state_of
from flinkpy.rest.forms.job_exceptions import DEFAULT_MAX_EXCEPTIONS, job_exceptions_info, stack_trace
from flinkpy.rest.forms.job_plan import plan_of
from flinkpy.rest.handlers.job_inquiries import TIMEOUT_S, accumulators_of, job_of, marked_if_old
from flinkpy.rest.handlers.jobmanager import configuration_entries, process_environment
from flinkpy.rest.messages.asynchronous import FailureCause, QueueStatus
from flinkpy.rest.messages.job_details import (
    ExecutionConfigInfo,
    JobAccumulatorsInfo,
    JobConfigInfo,
    JobDetailsInfo,
    JobExceptionsInfoWithHistory,
    JobExecutionResult,
    JobPlanInfo,
    JobResult,
    JobStatusInfo,
    LogUrlResponse,
    UserAccumulator,
)
from flinkpy.rest.messages.jobmanager import ConfigurationInfoEntry, EnvironmentInfo, ThreadDumpInfo, ThreadInfo
from flinkpy.rest.operation import BOOLEAN, POSITIVE_INTEGER, TEXTS, QueryParameter, RestCall, operation

#: Flink's ApplicationStatus by the state that a job ended in.
_APPLICATION_STATUS = {JobState.FINISHED: "SUCCEEDED", JobState.CANCELED: "CANCELED", JobState.FAILED: "FAILED"}


@operation("GET", "/jobs/:jobid", "Returns details of a job.", response=JobDetailsInfo)
async def job_details(call: RestCall) -> JobDetailsInfo:
    return marked_if_old(call, job_details_info(await job_of(call), call.context.clock.now_ms()))


@operation("GET", "/jobs/:jobid/plan", "Returns the dataflow plan of a job.", response=JobPlanInfo)
async def job_plan(call: RestCall) -> JobPlanInfo:
    return JobPlanInfo(plan=plan_of(await job_of(call)))


@operation("GET", "/jobs/:jobid/config", "Returns the configuration of a job.", response=JobConfigInfo)
async def job_config(call: RestCall) -> JobConfigInfo:
    details = await job_of(call)
    configuration = job_configuration(call, details)
    parallelism = read_option(configuration, core_options.PARALLELISM)
    parameters = read_option(configuration, pipeline_options.GLOBAL_JOB_PARAMETERS)
    return JobConfigInfo(
        jid=details.job_id,
        name=details.name,
        execution_config=ExecutionConfigInfo(
            restart_strategy=_restart_strategy(configuration),
            job_parallelism=parallelism,
            object_reuse_mode=configuration.get_boolean("pipeline.object-reuse", False),
            user_config=_as_texts(parameters),
        ),
    )


def job_configuration(call: RestCall, details: job_pb2.JobDetails) -> Configuration:
    """Returns the configuration that acts for the job: that of the cluster, overridden by its own."""
    return Configuration.from_dict({**call.context.configuration.to_dict(), **details.configuration.entries})


def _as_texts(parameters: dict[str, str] | None) -> dict[str, str]:
    return redacted({key: str(value) for key, value in (parameters or {}).items()})


def _restart_strategy(configuration: Configuration) -> str:
    chosen = read_option(configuration, jobmanager_options.RESTART_STRATEGY)
    return f"Cluster level default restart strategy{'' if chosen is None else f' ({chosen})'}"


@operation("GET", "/jobs/:jobid/status", "Returns the current status of a job execution.", response=JobStatusInfo)
async def job_status(call: RestCall) -> JobStatusInfo:
    found = await call.dispatcher.request_job_status(dispatcher_pb2.JobIdMessage(job_id=call.job_id))
    return JobStatusInfo(status=job_state_of(found.status))


@operation(
    "GET",
    "/jobs/:jobid/exceptions",
    "Returns the most recent exceptions that have been handled by Flink for this job.",
    response=JobExceptionsInfoWithHistory,
    query=(
        QueryParameter(
            "maxExceptions", "The number of exceptions to return.", POSITIVE_INTEGER, DEFAULT_MAX_EXCEPTIONS
        ),
        QueryParameter("failureLabelFilter", "Labels `key:value` that exceptions must have.", TEXTS, ()),
    ),
)
async def job_exceptions(call: RestCall) -> JobExceptionsInfoWithHistory:
    found = job_exceptions_info(await job_of(call), call.query["maxExceptions"], call.query["failureLabelFilter"])
    return marked_if_old(call, found)


@operation(
    "GET",
    "/jobs/:jobid/accumulators",
    "Returns the accumulators for all tasks of a job, aggregated across the respective subtasks.",
    response=JobAccumulatorsInfo,
    query=(
        QueryParameter("includeSerializedValue", "Without effect: the values are not Java objects.", BOOLEAN, False),
    ),
)
async def job_accumulators(call: RestCall) -> JobAccumulatorsInfo:
    found = await accumulators_of(call)
    return JobAccumulatorsInfo(
        job_accumulators=[],
        user_task_accumulators=[
            UserAccumulator(name=one.name, type=one.type, value=one.value) for one in found.accumulators
        ],
        serialized_user_task_accumulators={},
    )


@operation(
    "GET",
    "/jobs/:jobid/execution-result",
    "Returns the result of a job execution. Gives access to the execution time of the job and to its failure.",
    response=JobExecutionResult,
)
async def job_execution_result(call: RestCall) -> JobExecutionResult:
    answer = await call.dispatcher.request_job_result(dispatcher_pb2.RequestJobResultRequest(job_id=call.job_id))
    if not answer.finished:
        return JobExecutionResult(status=QueueStatus(id="IN_PROGRESS"))
    details = await job_of(call)
    return JobExecutionResult(
        status=QueueStatus(id="COMPLETED"), job_execution_result=_job_result(answer.result, details)
    )


def _job_result(result: job_pb2.JobResult, details: job_pb2.JobDetails) -> JobResult:
    told = JobResult(
        id=result.job_id,
        name=result.name,
        application_status=_APPLICATION_STATUS.get(JobState(result.status), "UNKNOWN"),
        net_runtime=result.net_runtime_ms,
        start_time=details.start_time_ms,
        end_time=details.end_time_ms if details.end_time_ms > 0 else -1,
        accumulator_results={},
    )
    if result.HasField("error"):
        told.failure_cause = FailureCause(class_name=result.error.type, stack_trace=stack_trace(result.error))
    return told


# -- the JobManager and the TaskManagers of a job ------------------------------------------------------------------


@operation(
    "GET",
    "/jobs/:jobid/jobmanager/config",
    "Returns the jobmanager's configuration of a specific job.",
    response=list[ConfigurationInfoEntry],
)
async def job_manager_config(call: RestCall) -> list[ConfigurationInfoEntry]:
    return configuration_entries(job_configuration(call, await job_of(call)).to_dict())


@operation(
    "GET",
    "/jobs/:jobid/jobmanager/environment",
    "Returns the jobmanager's environment of a specific job.",
    response=EnvironmentInfo,
)
async def job_manager_environment(call: RestCall) -> EnvironmentInfo:
    await job_of(call)
    return process_environment()


@operation(
    "GET",
    "/jobs/:jobid/jobmanager/thread-dump",
    "Returns the thread dump of the process that runs a job.",
    response=ThreadDumpInfo,
    is_internal=True,
)
async def job_manager_thread_dump(call: RestCall) -> ThreadDumpInfo:
    request = job_pb2.JobMasterThreadsRequest(job_id=call.job_id)
    dump: job_pb2.JobMasterThreads = await call.dispatcher.request_job_master_threads(request, timeout_s=TIMEOUT_S)
    return ThreadDumpInfo(
        thread_infos=[ThreadInfo(thread_name=one.name, stringified_thread_info=one.stack) for one in dump.threads]
    )


@operation(
    "GET",
    "/jobs/:jobid/jobmanager/log-url",
    "Returns the log url of jobmanager of a specific job.",
    response=LogUrlResponse,
)
async def job_manager_log_url(call: RestCall) -> LogUrlResponse:
    await job_of(call)
    return LogUrlResponse(url="/jobmanager/log")


@operation(
    "GET",
    "/jobs/:jobid/taskmanagers/:taskmanagerid/log-url",
    "Returns the log url of a taskmanager of a specific job.",
    response=LogUrlResponse,
)
async def task_manager_log_url(call: RestCall) -> LogUrlResponse:
    await job_of(call)
    return LogUrlResponse(url=f"/taskmanagers/{call.path['taskmanagerid']}/log")
