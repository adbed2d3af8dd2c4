"""Diagnostics of a TaskExecutor: thread dumps, log files and the logs of jobs."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict

from flinkpy._proto import common_pb2, taskexecutor_pb2
from flinkpy.common.ids import JobID
from flinkpy.common.process_diagnostics import LogFiles, thread_stacks

#: The maximum number of jobs whose part of the log is known. An entry is two numbers.
MAX_KNOWN_JOBS = 10_000


def thread_dump() -> taskexecutor_pb2.ThreadDump:
    """Returns the name and stack of every Python thread of this process."""
    return taskexecutor_pb2.ThreadDump(
        threads=[taskexecutor_pb2.ThreadDump.Thread(name=name, stack=stack) for name, stack in thread_stacks()]
    )


def log_list(files: LogFiles) -> taskexecutor_pb2.LogList:
    """Returns the log files of this process. Blocks."""
    return taskexecutor_pb2.LogList(
        files=[
            taskexecutor_pb2.LogList.LogFile(name=one.name, size_bytes=one.size_bytes, modified_ms=one.modified_ms)
            for one in files.list()
        ],
        log_name=files.log_name or "",
        stdout_name=files.stdout_name or "",
    )


class JobLogs:
    """The part of this process's log that belongs to each job: from the job's start here to its end.

    The log is the file to which standard error is redirected, so it needs no option, and no path comes from a caller.
    The part of a job also contains the output of other jobs in that time, because output does not name its job.

    Args:
        path: the log; tests use another one.
    """

    def __init__(self, path: str = "/proc/self/fd/2") -> None:
        self._path = path
        #: The start of each job's part, and its end if the job has ended here. Ordered by the last start.
        self._parts: OrderedDict[JobID, tuple[int, int | None]] = OrderedDict()

    def begin(self, job_id: JobID) -> None:
        """Starts the part of a job. A job that returns keeps the start of its part."""
        start, _ = self._parts.pop(job_id, (self._size() or 0, None))
        self._parts[job_id] = (start, None)
        while len(self._parts) > MAX_KNOWN_JOBS:
            self._parts.popitem(last=False)

    def end(self, job_id: JobID) -> None:
        """Ends the part of a job."""
        if job_id in self._parts:
            self._parts[job_id] = (self._parts[job_id][0], self._size())

    def read(self, job_id: JobID, position: int, max_bytes: int) -> common_pb2.JobLogChunk:
        """Returns at most `max_bytes` of the job's part from `position` on; -1 is its start.

        A log that has become shorter (rotated by copy and truncation) is read from the start.
        """
        size = self._size()
        if job_id not in self._parts or size is None:
            return common_pb2.JobLogChunk(is_known=job_id in self._parts, has_log=size is not None)
        start, end = self._parts[job_id]
        if size < start or (end is not None and size < end):
            start, end = 0, None
        limit = size if end is None else end
        begin = start if not start <= position <= limit else position
        with open(self._path, "rb") as file:
            data = os.pread(file.fileno(), max(0, min(max_bytes, limit - begin)), begin)
        return common_pb2.JobLogChunk(
            is_known=True, has_log=True, data=data, next_position=begin + len(data), end_position=limit
        )

    def _size(self) -> int | None:
        """Returns the size of the log; None if standard error is not a readable file."""
        try:
            facts = os.stat(self._path)
        except OSError:
            return None
        is_file = stat.S_ISREG(facts.st_mode) and os.access(self._path, os.R_OK)
        return facts.st_size if is_file else None
