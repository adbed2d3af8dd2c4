"""Execution and job states with their transition tables.

```
  CREATED -> SCHEDULED -> DEPLOYING -> INITIALIZING -> RUNNING -> FINISHED
     |           |            |              |            |
     |           +------------+--------------+------------+--> CANCELING -> CANCELED
     |           |            |              |            |         |
     +-----------+------------+--------------+------------+---------+--> FAILED     (CREATED, SCHEDULED -> CANCELED too)
```

Source: org.apache.flink.runtime.execution.ExecutionState, org.apache.flink.api.common.JobStatus.
"""

from __future__ import annotations

import enum
from typing import NoReturn

from flinkpy.common.errors import VersionMismatchError


def _of_newer_release(what: str, value: object) -> VersionMismatchError:
    """Returns the error for an unknown number in a message, which only a newer release can have sent."""
    return VersionMismatchError(f"unknown {what} {value!r}: the sender has a newer release")


class ExecutionState(enum.Enum):
    """The state of one execution attempt. The values are those of the proto enum."""

    CREATED = 1
    SCHEDULED = 2
    DEPLOYING = 3
    INITIALIZING = 4
    RUNNING = 5
    FINISHED = 6
    CANCELING = 7
    CANCELED = 8
    FAILED = 9

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise _of_newer_release("execution state", value)

    @property
    def is_terminal(self) -> bool:
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)


_E = ExecutionState
EXECUTION_TRANSITIONS: frozenset[tuple[ExecutionState, ExecutionState]] = frozenset(
    {
        (_E.CREATED, _E.SCHEDULED),
        (_E.CREATED, _E.CANCELED),
        (_E.CREATED, _E.FAILED),
        (_E.SCHEDULED, _E.DEPLOYING),
        (_E.SCHEDULED, _E.CANCELED),
        (_E.SCHEDULED, _E.FAILED),
        (_E.DEPLOYING, _E.INITIALIZING),
        (_E.DEPLOYING, _E.RUNNING),
        (_E.DEPLOYING, _E.FINISHED),
        (_E.DEPLOYING, _E.CANCELING),
        (_E.DEPLOYING, _E.FAILED),
        (_E.INITIALIZING, _E.RUNNING),
        (_E.INITIALIZING, _E.FINISHED),
        (_E.INITIALIZING, _E.CANCELING),
        (_E.INITIALIZING, _E.FAILED),
        (_E.RUNNING, _E.FINISHED),
        (_E.RUNNING, _E.CANCELING),
        (_E.RUNNING, _E.FAILED),
        (_E.CANCELING, _E.CANCELED),
        (_E.CANCELING, _E.FINISHED),
        (_E.CANCELING, _E.FAILED),
    }
)


class JobState(enum.Enum):
    """The state of a job. The values are those of the proto enum `JobStatus`; the public `JobStatus` is PyFlink's."""

    INITIALIZING = 1
    CREATED = 2
    RUNNING = 3
    FAILING = 4
    FAILED = 5
    CANCELLING = 6
    CANCELED = 7
    FINISHED = 8
    RESTARTING = 9
    SUSPENDED = 10
    RECONCILING = 11

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise _of_newer_release("job status", value)

    @property
    def is_globally_terminal(self) -> bool:
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)

    @property
    def is_terminal(self) -> bool:
        return self.is_globally_terminal or self is JobState.SUSPENDED


_J = JobState
JOB_TRANSITIONS: frozenset[tuple[JobState, JobState]] = frozenset(
    {
        (_J.INITIALIZING, _J.CREATED),
        (_J.INITIALIZING, _J.CANCELLING),
        (_J.INITIALIZING, _J.CANCELED),
        (_J.INITIALIZING, _J.FAILED),
        (_J.INITIALIZING, _J.SUSPENDED),
        (_J.CREATED, _J.RUNNING),
        (_J.CREATED, _J.FAILING),
        (_J.CREATED, _J.CANCELLING),
        (_J.CREATED, _J.SUSPENDED),
        (_J.RUNNING, _J.FINISHED),
        (_J.RUNNING, _J.FAILING),
        (_J.RUNNING, _J.CANCELLING),
        (_J.RUNNING, _J.RESTARTING),
        (_J.RUNNING, _J.SUSPENDED),
        (_J.RESTARTING, _J.RUNNING),
        (_J.RESTARTING, _J.CREATED),
        (_J.RESTARTING, _J.FAILING),
        (_J.RESTARTING, _J.CANCELLING),
        (_J.RESTARTING, _J.SUSPENDED),
        (_J.FAILING, _J.FAILED),
        (_J.FAILING, _J.CANCELLING),
        (_J.FAILING, _J.SUSPENDED),
        (_J.CANCELLING, _J.CANCELED),
        (_J.CANCELLING, _J.FAILED),
        (_J.CANCELLING, _J.SUSPENDED),
    }
)
