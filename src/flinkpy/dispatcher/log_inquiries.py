"""LogInquiries: records and log levels of a job, from its JobMaster and all TaskExecutors.

The log of a job is what these have written about it: the file of its JobMaster, and the records of TaskExecutors and of
this process that name the job. Logs of TaskExecutors of this host that have ended are read from the log directory.

Thread: main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from flinkpy._proto import common_pb2, resourcemanager_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import FlinkError, UserError
from flinkpy.common.ids import JobID
from flinkpy.logs.answers import change_log_levels, log_key, log_records, own_log, query_of
from flinkpy.logs.reader import MAX_ANSWER_BYTES
from flinkpy.logs.setup import JOB_MASTER_PREFIX, process_log

logger = logging.getLogger(__name__)

#: How long an answer waits for a process that does not answer.
TIMEOUT_S = 5.0
#: The minimum size to request of one process. Otherwise each of many would return a record at a time.
MIN_BYTES = 16 << 10
#: A job's records are looked for from this long before its start on. Clocks of hosts may differ by less.
CLOCK_DIFFERENCE_MS = 60_000
#: The names of logs of TaskExecutors in the log directory.
TASK_EXECUTOR_LOGS = "taskexecutor*.log"
#: The maximum number of logs of ended TaskExecutors that one answer reads.
MAX_ENDED = 256


class Processes(Protocol):
    """The processes that may have records of a job."""

    async def task_executors(self) -> Iterable[resourcemanager_pb2.TaskManagerInfo]: ...

    def task_executor(self, address: str) -> Any: ...

    def job_master(self, job_id: JobID) -> Any | None: ...


class LogInquiries:
    """Answers about the logs of jobs.

    Args:
        directory: the log directory of this host (`env.log.dir`), or None.
        source: the name of this process.
    """

    def __init__(self, processes: Processes, directory: str | None, source: str) -> None:
        self._processes = processes
        self._directory = None if directory is None else Path(directory)
        self._source = source

    async def records(
        self, request: common_pb2.LogRecordsRequest, started_ms: int, *, is_over: bool
    ) -> pb.JobLogRecords:
        """Returns records of a job. Raises: UserError, RpcUnavailableError if no ResourceManager leads."""
        query_of(request.query)
        job_id = JobID(request.query.job_id)
        asked = common_pb2.LogRecordsRequest()
        asked.CopyFrom(request)
        asked.query.since_ms = max(request.query.since_ms, started_ms - CLOCK_DIFFERENCE_MS)
        infos = list(await self._processes.task_executors())
        asked.max_bytes = max(MIN_BYTES, MAX_ANSWER_BYTES // (len(infos) + 2))
        answer = pb.JobLogRecords(is_over=is_over)

        async def ask(gateway: Any, source: str) -> None:
            try:
                answer.logs.append(await gateway.request_log_records(asked, timeout_s=TIMEOUT_S))
            except UserError:
                raise
            except FlinkError as error:
                logger.info("%s did not return its log: %s", source, error)
                answer.unreachable.append(source)

        await asyncio.gather(*(ask(self._processes.task_executor(info.address), info.resource_id) for info in infos))
        of_job = None if self._directory is None else self._directory / f"{JOB_MASTER_PREFIX}{job_id}.log"
        if of_job is not None and await asyncio.to_thread(of_job.exists):
            answer.logs.append(await asyncio.to_thread(log_records, asked, of_job, of_job.stem))
        elif (job_master := self._processes.job_master(job_id)) is not None:
            await ask(job_master, "the JobMaster")
        answer.logs.append(await asyncio.to_thread(log_records, asked, own_log(), self._source))
        known = {log.log for log in answer.logs}
        for path in await asyncio.to_thread(self._ended_logs, known):
            answer.logs.append(await asyncio.to_thread(log_records, asked, path, path.stem))
        _keep_first_of_each(answer)
        return answer

    def _ended_logs(self, known: set[str]) -> list[Path]:
        if self._directory is None:
            return []
        found = sorted(self._directory.glob(TASK_EXECUTOR_LOGS))
        return [path for path in found if log_key(path) not in known][:MAX_ENDED]

    async def levels(self, request: common_pb2.LogLevelsRequest) -> pb.JobLogLevels:
        """Changes levels, and returns those of all processes that are meant. Raises: UserError."""
        answer = pb.JobLogLevels()
        if not request.job_id and not request.resource_id:
            log = process_log()
            levels = None if log is None else log.levels
            loop = asyncio.get_running_loop()
            answer.processes.append(change_log_levels(levels, request, self._source, loop.call_later))
            return answer
        asked = common_pb2.LogLevelsRequest(changes=request.changes)
        for change in asked.changes:
            change.job_id = request.job_id
        infos = [
            info
            for info in await self._processes.task_executors()
            if not request.resource_id or info.resource_id == request.resource_id
        ]
        if request.resource_id and not infos:
            raise UserError(f"there is no TaskExecutor {request.resource_id}")

        async def ask(gateway: Any, source: str) -> None:
            try:
                answer.processes.append(await gateway.change_log_levels(asked, timeout_s=TIMEOUT_S))
            except UserError:
                raise
            except FlinkError as error:
                logger.info("%s did not change its log levels: %s", source, error)
                answer.unreachable.append(source)

        calls = [ask(self._processes.task_executor(info.address), info.resource_id) for info in infos]
        if request.job_id and (job_master := self._processes.job_master(JobID(request.job_id))) is not None:
            calls.append(ask(job_master, "the JobMaster"))
        await asyncio.gather(*calls)
        answer.processes.sort(key=lambda one: one.source)
        return answer


def _keep_first_of_each(answer: pb.JobLogRecords) -> None:
    """Drops repetitions of one log, e.g. of a JobMaster that writes to the file of its Dispatcher."""
    seen: set[str] = set()
    logs = []
    for log in answer.logs:
        if not log.has_log or log.log not in seen:
            seen.add(log.log)
            logs.append(log)
    logs.sort(key=lambda log: (log.source, log.log))
    del answer.logs[:]
    answer.logs.extend(logs)
