"""Bodies of the lists of jobs.

Source: org.apache.flink.runtime.rest.messages.webmonitor.{JobIdsWithStatusOverview,MultipleJobsDetails,JobDetails}.
"""

from __future__ import annotations

import msgspec


class JobIdWithStatus(msgspec.Struct, kw_only=True):
    id: str
    status: str


class JobIdsWithStatusOverview(msgspec.Struct, kw_only=True):
    """All jobs with their states."""

    jobs: list[JobIdWithStatus]


class JobDetails(msgspec.Struct, kw_only=True):
    """A line of the overview of jobs. `tasks` counts the job's tasks by state."""

    jid: str
    name: str
    start_time: int = msgspec.field(name="start-time")
    end_time: int = msgspec.field(name="end-time")
    duration: int
    state: str
    last_modification: int = msgspec.field(name="last-modification")
    tasks: dict[str, int]
    job_type: str = msgspec.field(name="jobType")
    scheduler_type: str = msgspec.field(name="schedulerType")
    pending_operators: int = msgspec.field(name="pending-operators", default=0)


class MultipleJobsDetails(msgspec.Struct, kw_only=True):
    """An overview of all jobs."""

    jobs: list[JobDetails]
