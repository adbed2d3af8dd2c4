"""Bodies of the operations of applications.

Source: org.apache.flink.runtime.messages.webmonitor.{MultipleApplicationsDetails,ApplicationDetailsInfo},
org.apache.flink.runtime.rest.messages.ApplicationExceptionsInfoWithHistory.
"""

from __future__ import annotations

import msgspec

from flinkpy.rest.messages.jobs import JobDetails


class ApplicationDetails(msgspec.Struct, kw_only=True):
    """A line of the list of applications. `jobs` counts its jobs by state."""

    id: str
    name: str
    start_time: int = msgspec.field(name="start-time")
    end_time: int = msgspec.field(name="end-time")
    duration: int
    status: str
    jobs: dict[str, int]


class MultipleApplicationsDetails(msgspec.Struct, kw_only=True):
    """All applications that were started through this server."""

    applications: list[ApplicationDetails]


class ApplicationDetailsInfo(msgspec.Struct, kw_only=True):
    """An application with its jobs."""

    id: str
    name: str
    status: str
    start_time: int = msgspec.field(name="start-time")
    end_time: int = msgspec.field(name="end-time")
    duration: int
    timestamps: dict[str, int]
    jobs: list[JobDetails]


class ApplicationExceptionInfo(msgspec.Struct, kw_only=True, rename="camel"):
    exception_name: str
    stacktrace: str
    timestamp: int
    job_id: str | None


class ApplicationExceptionHistory(msgspec.Struct, kw_only=True):
    entries: list[ApplicationExceptionInfo]


class ApplicationExceptionsInfoWithHistory(msgspec.Struct, kw_only=True, rename="camel"):
    """Why an application failed: the error of its program, with the user's traceback."""

    exception_history: ApplicationExceptionHistory
