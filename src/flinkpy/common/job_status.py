"""JobStatus, as PyFlink's users know it; the runtime's own is `flinkpy.common.states.JobState`."""

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
    #: Java's state before CREATED, which PyFlink does not know; a second name of CREATED.
    INITIALIZING = 0  # noqa: PIE796

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over everywhere: no other JobMaster will take it up."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
