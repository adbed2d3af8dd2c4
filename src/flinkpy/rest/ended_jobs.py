"""EndedJobs: the lines of ended jobs in the overview, which are made once.

A cluster knows many ended jobs, and each viewer asks for all of them every few seconds. Thread: one asyncio loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkpy._proto import dispatcher_pb2
from flinkpy.rest.forms.job_details import ended_job_overview
from flinkpy.rest.messages.jobs import JobDetails


class EndedJobs:
    """Keeps the lines of those jobs that were asked for last."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], JobDetails] = {}

    def lines(self, jobs: Iterable[dispatcher_pb2.JobOverview], now_ms: int) -> dict[str, JobDetails]:
        """Returns the line of each job by its id. A job whose end is not known yet gets a new one each time."""
        known = self._lines
        lines: dict[tuple[str, int], JobDetails] = {}
        for job in jobs:
            # A job that is submitted again after its end has the same id.
            key = (job.job_id, job.end_time_ms)
            line = known.get(key) if job.end_time_ms > 0 else None
            lines[key] = line or ended_job_overview(job, now_ms)
        self._lines = lines
        return {job_id: line for (job_id, _), line in lines.items()}
