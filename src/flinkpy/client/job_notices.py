"""JobNotices: tells a person who watches a job once why it restarts, and that it waits for slots.

Pure: a JobNotices is given the job's details again and again, with the time, and returns new lines.
"""

from __future__ import annotations

import re

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState
from flinkpy.rpc.error_codec import error_from_proto

#: A job normally has its slots within a second, also where TaskExecutors have to be started first.
SLOT_PATIENCE_S = 5.0

#: A root cause is one line; the whole text is in `flinkpy info`.
MAX_CAUSE_CHARS = 240

_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$', re.M)


def root_cause(error: common_pb2.ErrorInfo) -> str:
    """One line: where in the user's code an error was raised, then what it says.

    The frame is the last one of the user's traceback, where there is one, and the call that of the function that
    flinkpy called: `job.py:7 in parse(line='x'): ValueError: ...`.
    """
    failure: BaseException | None = error_from_proto(error)
    while failure is not None and not getattr(failure, "remote_traceback", ""):
        failure = failure.__cause__
    if not isinstance(failure, FlinkError):
        return _one_line(error.message or error.type)
    traceback = failure.remote_traceback
    frames = list(_FRAME.finditer(traceback))
    lines = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    text = next((line for line in reversed(lines) if not line.startswith("Traceback ")), error.message)
    if not frames:
        return _one_line(text)
    frame = frames[-1]
    file = frame["file"].rpartition("/")[2]
    where = frame["function"]
    call = failure.details.get("call", "")
    if call:
        where = call if call.partition("(")[0].rpartition(".")[2] == where else f"{where}, of {call}"
    return _one_line(f"{file}:{frame['line']} in {where}: {text}")


def _one_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= MAX_CAUSE_CHARS else f"{line[: MAX_CAUSE_CHARS - 3]}..."


def describe_shortage(details: job_pb2.JobDetails, overview: dispatcher_pb2.ClusterOverview | None) -> str | None:
    """Why a job does not get on for want of slots; None where it has what it needs.

    Args:
        overview: of the job's cluster; None where that is not known.
    """
    if not lacks_slots(details):
        return None
    text = f"waits for slots: it needs {details.num_slots_required} and has {details.num_slots_held}"
    if overview is None or overview.num_slots_total < 0:
        return text
    return (
        f"{text}; the cluster has {_count(overview.num_slots_total, 'slot')} on "
        f"{_count(overview.num_task_managers, 'TaskExecutor')}, {overview.num_slots_available} free. "
        "Start more TaskExecutors, give them more slots (taskmanager.numberOfTaskSlots), or lower the parallelism (-p)"
    )


def lacks_slots(details: job_pb2.JobDetails) -> bool:
    """True while a job that has not ended holds fewer slots than it needs."""
    is_over = details.status and JobState(details.status).is_terminal
    return not is_over and details.num_slots_held < details.num_slots_required


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class JobNotices:
    """Remembers what has been told of one job."""

    def __init__(self) -> None:
        self._restarts_told = 0
        self._failures_seen: set[tuple[int, str]] = set()
        self._lacking_since_s: float | None = None
        self._is_shortage_told = False

    def restarts(self, details: job_pb2.JobDetails) -> list[str]:
        """A line for each restart since the last call, oldest first."""
        failures = sorted(details.exception_history, key=lambda failure: failure.timestamp_ms)
        new = [failure for failure in failures if self._key(failure) not in self._failures_seen]
        count = details.num_restarts - self._restarts_told
        if count <= 0:
            return []
        # The failure that ends a job is in the history too and restarts nothing.
        new = new[:count]
        self._failures_seen.update(map(self._key, new))
        self._restarts_told = details.num_restarts
        first = details.num_restarts - len(new) + 1
        return [f"restart {number}: {_failure(failure)}" for number, failure in enumerate(new, first)]

    def is_shortage_due(self, details: job_pb2.JobDetails, now_s: float) -> bool:
        """True once for each time that the job has lacked slots for a while."""
        if not lacks_slots(details):
            self._lacking_since_s, self._is_shortage_told = None, False
            return False
        if self._lacking_since_s is None:
            self._lacking_since_s = now_s
        if self._is_shortage_told or now_s - self._lacking_since_s < SLOT_PATIENCE_S:
            return False
        self._is_shortage_told = True
        return True

    @staticmethod
    def _key(failure: job_pb2.ExceptionHistoryEntry) -> tuple[int, str]:
        return failure.timestamp_ms, failure.task_name


def _failure(failure: job_pb2.ExceptionHistoryEntry) -> str:
    cause = root_cause(failure.error)
    return f"{cause} ({failure.task_name})" if failure.task_name else cause
