"""JobStatus of PyFlink's API; the runtime uses `flinkpy.common.states.JobState`."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """State of a job. Source: pyflink.common.JobStatus."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9
    #: Java's state before CREATED, an alias of CREATED because PyFlink does not have it.
    INITIALIZING = 0  # noqa: PIE796

    def is_globally_terminal_state(self) -> bool:
        """True if the job has ended for good, so no other JobMaster will continue it."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """True if the job has ended for good or is suspended."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
