"""Operations on log records and log levels. They are flinkpy's own.

All are bounded: an answer has at most `MAX_RECORDS` records, and each process looks at a few MiB of its log per call.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import zlib

import msgspec

from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.logs.answers import MAX_DURATION_MS, change_log_levels, log_records, own_log
from flinkpy.logs.levels import MAX_LOGGER_CHARS
from flinkpy.logs.merging import MergedLogs
from flinkpy.logs.reader import MAX_RECORDS
from flinkpy.logs.setup import process_log
from flinkpy.rest.errors import bad_request
from flinkpy.rest.handlers.taskmanagers import TASK_MANAGER_TIMEOUT_S, task_manager_of
from flinkpy.rest.messages.logs import (
    LogLevelInfo,
    LogLevelsInfo,
    LogLevelsRequestBody,
    LogRecordInfo,
    LogRecordsInfo,
    ProcessLogLevels,
)
from flinkpy.rest.operation import Parameter, QueryParameter, RestCall, integer, one_of, operation
from flinkpy.security import Role

#: How long a job's records may take: the Dispatcher waits for slow TaskExecutors itself.
JOB_TIMEOUT_S = 15.0
#: The most levels in one request.
MAX_CHANGES = 100
#: Longest position before compression: some hundred bytes for each process of a job.
MAX_POSITION_CHARS = 1 << 17
#: The name of the process that answers for `/jobmanager`.
JOB_MANAGER = "dispatcher"

_LEVEL = QueryParameter(
    "level", "The lowest level of records.", one_of("debug", "info", "warn", "warning", "error", "critical")
)
_TASK = QueryParameter(
    "task", "A part of the name of the task, e.g. `Map` or `Map (1/2)`; letter case does not matter."
)
_SEARCH = QueryParameter("search", "A part of the message or the logger; letter case does not matter.")
_SINCE = QueryParameter("since", "The earliest time, in milliseconds since 1970.", integer(0, 1 << 53), 0)
_TAIL = QueryParameter("tail", "The maximum number of records, the last ones that match.", integer(1, MAX_RECORDS))
_POSITION = QueryParameter("position", "The position in an earlier answer, to continue from there.")
_JOB = QueryParameter("job", "The id of the job that records name.", Parameter({"type": "string"}, str))
_OF_JOB = (_LEVEL, _TASK, _SEARCH, _SINCE, _TAIL, _POSITION)
_OF_PROCESS = (*_OF_JOB, _JOB)


# Logs may contain records of users, which the role READ does not show.
@operation(
    "GET",
    "/jobs/:jobid/log-records",
    "Returns log records of a running or ended job, from all its processes, in the order of their times.",
    response=LogRecordsInfo,
    query=_OF_JOB,
    role=Role.SUBMIT,
    is_internal=True,
)
async def job_log_records(call: RestCall) -> LogRecordsInfo:
    request = _request(call, call.job_id)
    answer = await call.dispatcher.request_job_log_records(request, timeout_s=JOB_TIMEOUT_S)
    return _merged(request, answer)


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/log-records",
    "Returns log records of a TaskManager.",
    response=LogRecordsInfo,
    query=_OF_PROCESS,
    role=Role.SUBMIT,
    is_internal=True,
)
async def task_manager_log_records(call: RestCall) -> LogRecordsInfo:
    request = _request(call, call.query["job"] or "")
    gateway = call.context.cluster.task_executor((await task_manager_of(call)).address)
    log = await gateway.request_log_records(request, timeout_s=TASK_MANAGER_TIMEOUT_S)
    return _merged(request, dispatcher_pb2.JobLogRecords(logs=[log]))


@operation(
    "GET",
    "/jobmanager/log-records",
    "Returns log records of the JobManager.",
    response=LogRecordsInfo,
    query=_OF_PROCESS,
    role=Role.SUBMIT,
    is_internal=True,
)
async def job_manager_log_records(call: RestCall) -> LogRecordsInfo:
    request = _request(call, call.query["job"] or "")
    log = await asyncio.to_thread(log_records, request, own_log(), JOB_MANAGER)
    return _merged(request, dispatcher_pb2.JobLogRecords(logs=[log]))


def _request(call: RestCall, job_id: str) -> common_pb2.LogRecordsRequest:
    query = call.query
    return common_pb2.LogRecordsRequest(
        query=common_pb2.LogQuery(
            job_id=job_id.lower(),
            min_level=(query["level"] or "").upper(),
            task=query["task"] or "",
            text=query["search"] or "",
            since_ms=query["since"],
        ),
        tail=query["tail"] or 0,
        positions=_positions(query["position"]),
    )


def _positions(text: str | None) -> dict[str, str]:
    """Returns the positions by log of an opaque parameter. Raises: RestError with status 400."""
    if not text:
        return {}
    try:
        if len(text) > MAX_POSITION_CHARS:
            raise ValueError("it is too long")
        packed = zlib.decompressobj()
        content = packed.decompress(base64.urlsafe_b64decode(text.encode()), MAX_POSITION_CHARS)
        found = msgspec.json.decode(content, type=dict[str, str])
    except (ValueError, binascii.Error, zlib.error, msgspec.DecodeError, RecursionError):
        raise bad_request("the parameter position is none of an earlier answer") from None
    for name, place in found.items():
        if not (name.isprintable() and place.isascii()):
            raise bad_request("the parameter position is none of an earlier answer")
    return found


def _merged(request: common_pb2.LogRecordsRequest, answer: dispatcher_pb2.JobLogRecords) -> LogRecordsInfo:
    merged = MergedLogs()
    records = merged.take(answer)
    if request.tail:
        records = records[-request.tail :]
    positions = dict(merged.positions)
    for name in merged.logs_with_held_records:
        # The caller keeps nothing, so these records are read again.
        positions.pop(name)
        if name in request.positions:
            positions[name] = request.positions[name]
    return LogRecordsInfo(
        records=[
            LogRecordInfo(
                timestamp=record.timestamp_ms,
                level=record.level,
                logger=record.logger,
                message=record.message,
                thread=record.thread,
                job_id=record.job_id,
                job_name=record.job_name,
                task=record.task,
                process=log.source,
                host=log.host,
                fields=json.loads(record.fields_json) if record.fields_json else None,
            )
            for log, record in records
        ],
        position=base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(positions))).decode(),
        is_complete=not merged.is_behind,
        is_cut=any(log.is_cut for log in answer.logs),
        without_log=sorted(log.source for log in answer.logs if not log.has_log),
        unreachable=sorted(answer.unreachable),
    )


# --- levels -----------------------------------------------------------------------------------------------------------


@operation(
    "GET",
    "/jobs/:jobid/log-levels",
    "Returns the log levels of the processes of a job.",
    response=LogLevelsInfo,
    is_internal=True,
)
async def job_log_levels(call: RestCall) -> LogLevelsInfo:
    return await _of_dispatcher(call, common_pb2.LogLevelsRequest(job_id=call.job_id))


@operation(
    "PATCH",
    "/jobs/:jobid/log-levels",
    "Changes log levels for the records of a job, in all its processes.",
    request=LogLevelsRequestBody,
    response=LogLevelsInfo,
    is_internal=True,
)
async def change_job_log_levels(call: RestCall) -> LogLevelsInfo:
    return await _of_dispatcher(call, _changes(call, job_id=call.job_id))


async def _of_dispatcher(call: RestCall, request: common_pb2.LogLevelsRequest) -> LogLevelsInfo:
    answer = await call.dispatcher.change_log_levels(request, timeout_s=JOB_TIMEOUT_S)
    return _levels(answer.processes, answer.unreachable)


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/log-levels",
    "Returns the log levels of a TaskManager.",
    response=LogLevelsInfo,
    is_internal=True,
)
async def task_manager_log_levels(call: RestCall) -> LogLevelsInfo:
    return await _of_task_manager(call, common_pb2.LogLevelsRequest())


@operation(
    "PATCH",
    "/taskmanagers/:taskmanagerid/log-levels",
    "Changes log levels of a TaskManager.",
    request=LogLevelsRequestBody,
    response=LogLevelsInfo,
    is_internal=True,
)
async def change_task_manager_log_levels(call: RestCall) -> LogLevelsInfo:
    return await _of_task_manager(call, _changes(call))


async def _of_task_manager(call: RestCall, request: common_pb2.LogLevelsRequest) -> LogLevelsInfo:
    gateway = call.context.cluster.task_executor((await task_manager_of(call)).address)
    return _levels([await gateway.change_log_levels(request, timeout_s=TASK_MANAGER_TIMEOUT_S)], [])


@operation(
    "GET",
    "/jobmanager/log-levels",
    "Returns the log levels of the JobManager.",
    response=LogLevelsInfo,
    is_internal=True,
)
async def job_manager_log_levels(call: RestCall) -> LogLevelsInfo:
    return _of_this_process(common_pb2.LogLevelsRequest())


@operation(
    "PATCH",
    "/jobmanager/log-levels",
    "Changes log levels of the JobManager.",
    request=LogLevelsRequestBody,
    response=LogLevelsInfo,
    is_internal=True,
)
async def change_job_manager_log_levels(call: RestCall) -> LogLevelsInfo:
    return _of_this_process(_changes(call))


def _of_this_process(request: common_pb2.LogLevelsRequest) -> LogLevelsInfo:
    log = process_log()
    levels = None if log is None else log.levels
    answer = change_log_levels(levels, request, JOB_MANAGER, asyncio.get_running_loop().call_later)
    return _levels([answer], [])


def _changes(call: RestCall, job_id: str = "") -> common_pb2.LogLevelsRequest:
    body: LogLevelsRequestBody = call.body
    if len(body.levels) > MAX_CHANGES:
        raise bad_request(f"a request changes at most {MAX_CHANGES} log levels")
    if not 0 <= body.duration <= MAX_DURATION_MS:
        raise bad_request(f"the duration must be from 0 to {MAX_DURATION_MS} ms")
    request = common_pb2.LogLevelsRequest(job_id=job_id)
    for one in body.levels:
        if len(one.logger) > MAX_LOGGER_CHARS or not one.logger.isprintable():
            raise bad_request(f"the name of a logger has at most {MAX_LOGGER_CHARS} printable characters")
        if one.level == "":
            raise bad_request("a level must not be empty; null takes a change back")
        request.changes.add(logger=one.logger, level=one.level or "", remaining_ms=body.duration)
    return request


def _levels(processes: list[common_pb2.LogLevels], unreachable: list[str]) -> LogLevelsInfo:
    return LogLevelsInfo(
        processes=[
            ProcessLogLevels(
                process=process.source,
                levels=[
                    LogLevelInfo(
                        logger=one.logger,
                        level=one.level,
                        job_id=one.job_id,
                        is_changed=one.is_changed,
                        remaining=one.remaining_ms,
                    )
                    for one in process.levels
                ],
            )
            for process in processes
        ],
        unreachable=sorted(unreachable),
    )
