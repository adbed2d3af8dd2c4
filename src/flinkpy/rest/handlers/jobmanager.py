"""Operations of the JobManager: the Dispatcher's process that answers, which may be a standby."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import AsyncIterator
from http import HTTPStatus

from starlette.responses import Response

from flinkpy._proto import metrics_pb2
from flinkpy.common.process_diagnostics import LogFiles, chunks_of, thread_stacks
from flinkpy.configuration import core_options, read_option
from flinkpy.configuration.redaction import redacted
from flinkpy.logs.answers import own_log
from flinkpy.logs.setup import STANDARD_ERROR
from flinkpy.rest.errors import RestError, not_found
from flinkpy.rest.forms.metrics import metric_collection, values_of_dump
from flinkpy.rest.handlers.job_inquiries import TIMEOUT_S
from flinkpy.rest.log_parts import TAIL_PARAMETER, ByteRange, log_response
from flinkpy.rest.messages.jobmanager import (
    ConfigurationInfoEntry,
    EnvironmentInfo,
    JVMInfo,
    LogInfo,
    LogListInfo,
    ProfilingInfo,
    ProfilingInfoList,
    ProfilingRequestBody,
    ThreadDumpInfo,
    ThreadInfo,
)
from flinkpy.rest.messages.metrics import MetricCollection
from flinkpy.rest.operation import TEXTS, QueryParameter, RestCall, operation
from flinkpy.security import Role

GET_PARAMETER = QueryParameter("get", "Comma-separated list of string values to select specific metrics.", TEXTS)
#: Flink's words for a log file that is not there.
NO_SUCH_FILE = "This file does not exist in JobManager log dir."
NO_PROFILER = "flinkpy runs no JVM, so there is no JVM profiler. The flame graph of a vertex shows its Python code."


@operation("GET", "/jobmanager/config", "Returns the cluster configuration.", response=list[ConfigurationInfoEntry])
async def jobmanager_configuration(call: RestCall) -> list[ConfigurationInfoEntry]:
    return configuration_entries(call.context.configuration.to_dict())


def configuration_entries(entries: dict[str, str]) -> list[ConfigurationInfoEntry]:
    """Returns options in their order, without the values of passwords and other secrets."""
    return [ConfigurationInfoEntry(key=key, value=value) for key, value in sorted(redacted(entries).items())]


@operation("GET", "/jobmanager/environment", "Returns the jobmanager environment.", response=EnvironmentInfo)
async def jobmanager_environment(call: RestCall) -> EnvironmentInfo:
    return process_environment()


def process_environment() -> EnvironmentInfo:
    """Returns the interpreter of this process, in the place of Flink's JVM."""
    return EnvironmentInfo(
        jvm=JVMInfo(
            version=f"{platform.python_implementation()} {platform.python_version()}",
            arch=platform.machine(),
            options=sorted(f"-X {option}" for option in sys._xoptions),
        ),
        classpath=list(sys.path),
    )


def _log_files(call: RestCall) -> LogFiles:
    return LogFiles(read_option(call.context.configuration, core_options.LOG_DIR), str(own_log() or STANDARD_ERROR))


@operation("GET", "/jobmanager/logs", "Returns the list of log files on the JobManager.", response=LogListInfo)
async def jobmanager_log_list(call: RestCall) -> LogListInfo:
    files = await asyncio.to_thread(_log_files(call).list)
    return LogListInfo(logs=[LogInfo(name=one.name, size=one.size_bytes, mtime=one.modified_ms) for one in files])


# Logs may contain records of users, which the role READ does not show.
@operation(
    "GET",
    "/jobmanager/logs/:filename",
    "Returns a log file of the JobManager.",
    response=None,
    role=Role.SUBMIT,
    query=(TAIL_PARAMETER,),
)
async def jobmanager_custom_log(call: RestCall) -> Response:
    return await _log(call, str(call.path["filename"]))


@operation(
    "GET",
    "/jobmanager/log",
    "Returns the log of the JobManager.",
    response=None,
    role=Role.SUBMIT,
    query=(TAIL_PARAMETER,),
)
async def jobmanager_log(call: RestCall) -> Response:
    return await _log(call, await asyncio.to_thread(lambda: _log_files(call).log_name))


@operation(
    "GET",
    "/jobmanager/stdout",
    "Returns the output of the JobManager.",
    response=None,
    role=Role.SUBMIT,
    query=(TAIL_PARAMETER,),
)
async def jobmanager_stdout(call: RestCall) -> Response:
    return await _log(call, await asyncio.to_thread(lambda: _log_files(call).stdout_name))


async def _log(call: RestCall, name: str | None) -> Response:
    path = None if name is None else await asyncio.to_thread(_log_files(call).path_of, name)
    if path is None:
        raise not_found(NO_SUCH_FILE)
    found = path

    async def read(part: ByteRange) -> AsyncIterator[bytes]:
        pieces = chunks_of(found, part.start, part.end - part.start)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

    return await log_response(call, (await asyncio.to_thread(path.stat)).st_size, read, is_local=True)


@operation("GET", "/jobmanager/thread-dump", "Returns the thread dump of the JobManager.", response=ThreadDumpInfo)
async def jobmanager_thread_dump(call: RestCall) -> ThreadDumpInfo:
    return ThreadDumpInfo(
        thread_infos=[ThreadInfo(thread_name=name, stringified_thread_info=stack) for name, stack in thread_stacks()]
    )


@operation(
    "GET",
    "/jobmanager/metrics",
    "Provides access to job manager metrics.",
    response=MetricCollection,
    query=(GET_PARAMETER,),
)
async def jobmanager_metrics(call: RestCall) -> MetricCollection:
    dump: metrics_pb2.MetricsDump = await call.dispatcher.request_metrics(
        metrics_pb2.MetricsRequest(), timeout_s=TIMEOUT_S
    )
    return metric_collection(values_of_dump(dump), call.query["get"])


# --- the profiler of the JVM ------------------------------------------------------------------------------------------


@operation("GET", "/jobmanager/profiler", "Returns the profiling history on JobManager.", response=ProfilingInfoList)
async def jobmanager_profiling_list(call: RestCall) -> ProfilingInfoList:
    return ProfilingInfoList(profiling_list=[])


@operation(
    "POST",
    "/jobmanager/profiler",
    "Create a profiling instance on JobManager.",
    request=ProfilingRequestBody,
    response=ProfilingInfo,
)
async def jobmanager_profiling(call: RestCall) -> ProfilingInfo:
    return no_profiling(call)


def no_profiling(call: RestCall) -> ProfilingInfo:
    now_ms = call.context.clock.now_ms()
    return ProfilingInfo(
        status="FAILED",
        mode=call.body.mode,
        trigger_time=now_ms,
        finished_time=now_ms,
        duration=call.body.duration,
        message=NO_PROFILER,
        output_file="",
    )


@operation("GET", "/jobmanager/profiler/:filename", "Returns a result of the profiler.", response=None)
async def jobmanager_profiling_file(call: RestCall) -> Response:
    raise RestError(HTTPStatus.NOT_FOUND, NO_PROFILER)
