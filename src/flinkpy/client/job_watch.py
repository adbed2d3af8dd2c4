"""JobWatch: shows a running job to an observer, e.g. a progress display, from its submission to its end.

JobNotices turns the details of the job into messages about restarts and missing slots. It is pure.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import FlinkError, chain_of_causes
from flinkpy.common.states import JobState
from flinkpy.rpc.error_codec import error_from_proto

_logger = logging.getLogger(__name__)

#: Interval of requests for a watched job: short enough to look alive, long enough to cost nothing.
OBSERVE_INTERVAL_S = 0.5


#: Time before missing slots are reported. A job normally gets its slots within a second.
SLOT_PATIENCE_S = 5.0

#: Longest root cause. `flinkpy info` shows the whole text.
MAX_CAUSE_CHARS = 240

_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$', re.M)


def root_cause(error: common_pb2.ErrorInfo) -> str:
    """Returns one line with the place in the user's code and the message of an error.

    The place is the last frame of the user's traceback, with the call of the user function that failed:
    `job.py:7 in parse(line='x'): ValueError: ...`.
    """
    errors = (link for link in chain_of_causes(error_from_proto(error)) if isinstance(link, FlinkError))
    failure = next((link for link in errors if link.remote_traceback), None)
    if failure is None:
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
    """Returns a message about missing slots, or None if the job has its slots.

    Args:
        details: the job.
        overview: the job's cluster; None if unknown.
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
    """True if the job has not ended and holds fewer slots than it needs."""
    is_over = details.status and JobState(details.status).is_terminal
    return not is_over and details.num_slots_held < details.num_slots_required


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class JobNotices:
    """Messages about one job that have not been shown."""

    def __init__(self) -> None:
        self._restarts_shown = 0
        self._failures_seen: set[tuple[int, str]] = set()
        self._lacking_since_s: float | None = None
        self._is_shortage_shown = False

    def restarts(self, details: job_pb2.JobDetails) -> list[str]:
        """Returns a line for each restart since the last call, oldest first."""
        failures = sorted(details.exception_history, key=lambda failure: failure.timestamp_ms)
        new = [failure for failure in failures if self._key(failure) not in self._failures_seen]
        count = details.num_restarts - self._restarts_shown
        if count <= 0:
            return []
        # The history also has the failure that ended the job, which caused no restart.
        new = new[:count]
        self._failures_seen.update(map(self._key, new))
        self._restarts_shown = details.num_restarts
        first = details.num_restarts - len(new) + 1
        return [f"restart {number}: {_failure(failure)}" for number, failure in enumerate(new, first)]

    def is_shortage_due(self, details: job_pb2.JobDetails, now_s: float) -> bool:
        """True once for each period in which the job has lacked slots for `SLOT_PATIENCE_S`."""
        if not lacks_slots(details):
            self._lacking_since_s, self._is_shortage_shown = None, False
            return False
        if self._lacking_since_s is None:
            self._lacking_since_s = now_s
        if self._is_shortage_shown or now_s - self._lacking_since_s < SLOT_PATIENCE_S:
            return False
        self._is_shortage_shown = True
        return True

    @staticmethod
    def _key(failure: job_pb2.ExceptionHistoryEntry) -> tuple[int, str]:
        return failure.timestamp_ms, failure.task_name


def _failure(failure: job_pb2.ExceptionHistoryEntry) -> str:
    cause = root_cause(failure.error)
    return f"{cause} ({failure.task_name})" if failure.task_name else cause


class JobObserver(Protocol):
    """Shows the progress of one job. Thread: one at a time."""

    @property
    def shows_checkpoints(self) -> bool:
        """True if `on_details` wants the checkpoint statistics, which costs another request."""
        ...

    def on_details(
        self, details: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse | None = None
    ) -> None: ...

    def on_notice(self, text: str) -> None:
        """Shows a message, e.g. that the job waits for slots."""

    def on_end(self, status: JobState) -> None: ...


ObserverFactory = Callable[[str, str], JobObserver]
_observer_factory: ObserverFactory | None = None
_on_detached: Callable[[str, str], None] | None = None


@contextmanager
def observe_jobs(factory: ObserverFactory, on_detached: Callable[[str, str], None] | None = None) -> Iterator[None]:
    """Observes the jobs that this process submits while the context lasts.

    Args:
        factory: called with job id and job name. Returns the observer of a job that the process waits for.
        on_detached: called with job id and job name of a job that the process does not wait for.
    """
    global _observer_factory, _on_detached
    previous = _observer_factory, _on_detached
    _observer_factory, _on_detached = factory, on_detached
    try:
        yield
    finally:
        _observer_factory, _on_detached = previous


def tell_detached(job_id: str, job_name: str) -> None:
    """Reports a submitted job that this process does not wait for."""
    if _on_detached is not None:
        _on_detached(job_id, job_name)


class RestartReporter:
    """Logs why a job restarts, as warnings. Without it, a job that fails repeatedly would look healthy.

    After the third restart, it logs only the 4th, 8th, 16th and so on.
    """

    shows_checkpoints = False

    def __init__(self, job_id: str, job_name: str) -> None:
        self._name = f"job '{job_name}' ({job_id})"
        self._reported = 0

    def on_details(
        self, details: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse | None = None
    ) -> None:
        number = details.num_restarts
        if number <= self._reported or not details.exception_history:
            return
        is_reported = number < 4 or self._reported.bit_length() < number.bit_length()
        self._reported = number
        if is_reported:
            error = max(details.exception_history, key=lambda entry: entry.timestamp_ms).error
            reason = f"{error.traceback.rstrip()}\n{error.message}" if error.traceback else error.message
            _logger.warning("%s failed and restarts (restart %d):\n%s", self._name, number, reason.strip())

    def on_notice(self, text: str) -> None:
        _logger.warning("%s %s", self._name, text)

    def on_end(self, status: JobState) -> None:
        return


class JobWatch:
    """Shows one job to its observer, on its own thread, until `end`."""

    def __init__(self, client: ClusterClient, job_id: str, observer: JobObserver) -> None:
        self._client = client
        self._job_id = job_id
        self._observer = observer
        self._notices = JobNotices()
        self._ended = threading.Event()
        #: Guards the observer, which the thread of the watch and callers of `tell` use.
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"flinkpy-watch {job_id}", daemon=True)
        self._thread.start()

    @classmethod
    def start(cls, client: ClusterClient, job_id: str, job_name: str, *, reports_restarts: bool) -> JobWatch | None:
        """Starts a watch for the observer of `observe_jobs`, else one that logs restarts if `reports_restarts`."""
        factory = _observer_factory or (RestartReporter if reports_restarts else None)
        return None if factory is None else cls(client, job_id, factory(job_id, job_name))

    def stop(self) -> None:
        """Stops the watch. Returns when its thread has ended."""
        self._ended.set()
        self._thread.join()

    def end(self, status: JobState) -> None:
        """Shows the end of the job. Returns when it has been shown, before the program prints more."""
        self.stop()
        self._show()
        with self._lock:
            self._observer.on_end(status)

    def tell(self, text: str) -> None:
        """Shows a message about the job. Thread: any."""
        with self._lock:
            self._observer.on_notice(text)

    def _run(self) -> None:
        while not self._ended.wait(OBSERVE_INTERVAL_S):
            self._show()

    def _show(self) -> None:
        try:
            details = self._client.request_job(self._job_id, without_subtasks=True)
            statistics = None
            if self._observer.shows_checkpoints and not details.is_batch:
                statistics = self._client.request_checkpoint_statistics(self._job_id)
            with self._lock:
                self._observer.on_details(details, statistics)
            if self._notices.is_shortage_due(details, time.monotonic()):
                text = describe_shortage(details, self._client.request_cluster_overview())
                assert text is not None
                self.tell(text)
        except FlinkError:
            return  # the next request may succeed; the wait for the result reports a lost cluster
