"""Shows a running job to an observer (a progress display) from its submission to its end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from flinkpy._proto import job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.job_notices import JobNotices, describe_shortage
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState

_logger = logging.getLogger(__name__)

#: How often a watched job is asked for its numbers: often enough to look alive, seldom enough to cost nothing.
OBSERVE_INTERVAL_S = 0.5


class JobObserver(Protocol):
    """Is shown one job. Thread: one at a time."""

    def on_details(self, details: job_pb2.JobDetails) -> None: ...

    def on_notice(self, text: str) -> None:
        """Something that holds the job up."""

    def on_end(self, status: JobState) -> None: ...


ObserverFactory = Callable[[str, str], JobObserver]
_observer_factory: ObserverFactory | None = None
_on_detached: Callable[[str, str], None] | None = None


@contextmanager
def observe_jobs(factory: ObserverFactory, on_detached: Callable[[str, str], None] | None = None) -> Iterator[None]:
    """While this lasts, every job this process submits and waits for is shown to `factory(job_id, job_name)`, and
    `on_detached` is told of those it does not wait for.
    """
    global _observer_factory, _on_detached
    previous = _observer_factory, _on_detached
    _observer_factory, _on_detached = factory, on_detached
    try:
        yield
    finally:
        _observer_factory, _on_detached = previous


def tell_detached(job_id: str, job_name: str) -> None:
    """The job has been submitted, and nobody here waits for it."""
    if _on_detached is not None:
        _on_detached(job_id, job_name)


class RestartReporter:
    """Logs, as warnings, why a job restarts: where nobody shows it otherwise, a job that fails again and again would
    look like one that works. After the third time only the 4th, 8th, 16th, ... is told.
    """

    def __init__(self, job_id: str, job_name: str) -> None:
        self._name = f"job '{job_name}' ({job_id})"
        self._told = 0

    def on_details(self, details: job_pb2.JobDetails) -> None:
        number = details.num_restarts
        if number <= self._told or not details.exception_history:
            return
        is_told = number < 4 or self._told.bit_length() < number.bit_length()
        self._told = number
        if is_told:
            error = max(details.exception_history, key=lambda entry: entry.timestamp_ms).error
            reason = f"{error.traceback.rstrip()}\n{error.message}" if error.traceback else error.message
            _logger.warning("%s failed and is restarted (time %d):\n%s", self._name, number, reason.strip())

    def on_notice(self, text: str) -> None:
        _logger.warning("%s %s", self._name, text)

    def on_end(self, status: JobState) -> None:
        return


class JobWatch:
    """Shows one job to its observer on a thread of its own, until `end`."""

    def __init__(self, client: ClusterClient, job_id: str, observer: JobObserver) -> None:
        self._client = client
        self._job_id = job_id
        self._observer = observer
        self._notices = JobNotices()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flinkpy-watch {job_id}", daemon=True)
        self._thread.start()

    @classmethod
    def start(cls, client: ClusterClient, job_id: str, job_name: str, *, reports_restarts: bool) -> JobWatch | None:
        """Of whoever observes jobs (see `observe_jobs`); else one that logs restarts, or None."""
        factory = _observer_factory or (RestartReporter if reports_restarts else None)
        return None if factory is None else cls(client, job_id, factory(job_id, job_name))

    def stop(self) -> None:
        """Nobody looks any more."""
        self._ended.set()
        self._thread.join()

    def end(self, status: JobState) -> None:
        """Show the job's end; returns when it has been shown, so that what the program prints comes after it."""
        self.stop()
        self._show()
        self._observer.on_end(status)

    def _run(self) -> None:
        while not self._ended.wait(OBSERVE_INTERVAL_S):
            self._show()

    def _show(self) -> None:
        try:
            details = self._client.request_job(self._job_id)
            self._observer.on_details(details)
            if self._notices.is_shortage_due(details, time.monotonic()):
                text = describe_shortage(details, self._client.request_cluster_overview())
                assert text is not None
                self._observer.on_notice(text)
        except FlinkError:
            return  # the next look may succeed, and who waits for the result learns of a cluster that is gone
