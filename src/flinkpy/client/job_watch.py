"""Shows a running job to an observer (a progress display) from its submission to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from flinkpy._proto import job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState

#: How often a watched job is asked for its numbers: often enough to look alive, seldom enough to cost nothing.
OBSERVE_INTERVAL_S = 0.5


class JobObserver(Protocol):
    """Is shown one job. Thread: one at a time."""

    def on_details(self, details: job_pb2.JobDetails) -> None: ...

    def on_end(self, status: JobState) -> None: ...


ObserverFactory = Callable[[str, str], JobObserver]
_observer_factory: ObserverFactory | None = None


@contextmanager
def observe_jobs(factory: ObserverFactory) -> Iterator[None]:
    """While this lasts, every job this process submits and waits for is shown to `factory(job_id, job_name)`."""
    global _observer_factory
    previous, _observer_factory = _observer_factory, factory
    try:
        yield
    finally:
        _observer_factory = previous


class JobWatch:
    """Shows one job to its observer on a thread of its own, until `end`."""

    def __init__(self, client: ClusterClient, job_id: str, observer: JobObserver) -> None:
        self._client = client
        self._job_id = job_id
        self._observer = observer
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flinkpy-watch {job_id}", daemon=True)
        self._thread.start()

    @classmethod
    def start(cls, client: ClusterClient, job_id: str, job_name: str) -> JobWatch | None:
        """A watch where somebody observes jobs (see `observe_jobs`), else None."""
        return None if _observer_factory is None else cls(client, job_id, _observer_factory(job_id, job_name))

    def end(self, status: JobState) -> None:
        """Show the job's end; returns when it has been shown, so that what the program prints comes after it."""
        self._ended.set()
        self._thread.join()
        self._show()
        self._observer.on_end(status)

    def _run(self) -> None:
        while not self._ended.wait(OBSERVE_INTERVAL_S):
            self._show()

    def _show(self) -> None:
        try:
            self._observer.on_details(self._client.request_job(self._job_id))
        except FlinkError:
            return  # the next look may succeed, and who waits for the result learns of a cluster that is gone
