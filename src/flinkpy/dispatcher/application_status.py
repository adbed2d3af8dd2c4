"""ApplicationStatus: derives the state of an application from its program and its jobs. Pure.

```
              program returned, all jobs finished
   RUNNING ------------------------------------------> FINISHED
      |    program raised or died, a job failed (1), no job at all
      +----------------------------------------------> FAILED
      |    it was canceled, or one of its jobs (1), and nothing failed before
      +----------------------------------------------> CANCELED
```

(1) If `execution.terminate-application-on-any-job-terminated-exceptionally` is false, a failed or canceled job does not
end the application. It ends with its program and its last job, and is then FINISHED unless the program itself failed.

When a job fails, the program usually waits for it and fails with its own error. Therefore the program gets a moment to
end on its own before the application ends (`program_is_overdue`).

Source: org.apache.flink.client.deployment.application.{ApplicationDispatcherBootstrap,PackagedProgramApplication}.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from flinkpy.common.application_report import ProgramEnded
from flinkpy.common.states import JobState


class ApplicationState(enum.Enum):
    """The state of an application. The values are used in stored results."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True)
class ApplicationResult:
    """The end of an application.

    Attributes:
        exit_status: of the Dispatcher process; 0 for a canceled application, as in Flink.
        message: the reason for users; empty if the application finished.
    """

    state: ApplicationState
    exit_status: int = 0
    message: str = ""
    traceback: str = ""


#: The exit status of a failed application whose program did not call `sys.exit`.
EXIT_FAILED = 1

CANCELED_BY_USER = "the application was canceled"
NO_JOB = "the program has ended without submitting a job: it did not call execute()"


class ApplicationStatus:
    """Collects the events of an application. `result` is set once the application has to end."""

    def __init__(self, *, terminates_on_any_exception: bool = True) -> None:
        self._terminates = terminates_on_any_exception
        self._jobs: dict[str, JobState | None] = {}
        self._names: dict[str, str] = {}
        self._program: ProgramEnded | None = None
        self._died: str | None = None
        self._first_bad: tuple[str, JobState, str] | None = None
        self._is_overdue = False
        self.result: ApplicationResult | None = None

    @property
    def jobs(self) -> list[str]:
        return list(self._jobs)

    @property
    def unfinished_jobs(self) -> list[str]:
        return [job_id for job_id, state in self._jobs.items() if state is None]

    @property
    def has_program_ended(self) -> bool:
        return self._program is not None or self._died is not None

    @property
    def is_waiting_for_program(self) -> bool:
        """True if a job ended in a way that ends the application, and the program has not ended yet."""
        return self.result is None and self._terminates and self._first_bad is not None and not self.has_program_ended

    def job_submitted(self, job_id: str, name: str) -> bool:
        """Adds a job. Returns False if it is known."""
        if job_id in self._jobs:
            return False
        self._jobs[job_id] = None
        self._names[job_id] = name
        return True

    def job_ended(self, job_id: str, state: JobState, error: str = "") -> None:
        """Records the end of a job. `state` is globally terminal."""
        self._jobs[job_id] = state
        if state is not JobState.FINISHED and self._first_bad is None:
            self._first_bad = (job_id, state, error)
        self._decide()

    def program_ended(self, ended: ProgramEnded) -> None:
        self._program = ended
        self._decide()

    def program_died(self, how: str) -> None:
        """Records that the process has ended without a report of the program's end."""
        if self._program is None:
            self._died = how
            self._decide()

    def program_is_overdue(self) -> None:
        """Records that the program did not end in time after one of its jobs had failed."""
        self._is_overdue = True
        self._decide()

    def cancel(self) -> None:
        """Ends the application as CANCELED, whatever its program and its jobs do, if it has no result yet."""
        if self.result is None:
            self.result = ApplicationResult(ApplicationState.CANCELED, 0, CANCELED_BY_USER)

    def is_broken(self, message: str) -> None:
        """Records that the application cannot be watched any more."""
        if self.result is None:
            self.result = ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, message)

    def _decide(self) -> None:
        if self.result is not None:
            return
        if self._died is not None:
            message = f"the process of the program has died ({self._died})"
            self.result = ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, message)
        elif self._program is not None and not self._program.has_returned:
            self.result = self._of_program(self._program)
        elif self._program is not None and not self._jobs:
            self.result = ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, NO_JOB)
        elif self._terminates and self._first_bad is not None and (self._program is not None or self._is_overdue):
            self.result = self._of_job(*self._first_bad)
        elif self._program is not None and not self.unfinished_jobs:
            self.result = ApplicationResult(ApplicationState.FINISHED)

    def _of_program(self, program: ProgramEnded) -> ApplicationResult:
        if program.is_canceled:
            return ApplicationResult(ApplicationState.CANCELED, 0, program.error, program.traceback)
        if not program.error:
            message = f"the program has ended with exit status {program.status}"
            return ApplicationResult(ApplicationState.FAILED, program.status, message)
        return ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, program.error, program.traceback)

    def _of_job(self, job_id: str, state: JobState, error: str) -> ApplicationResult:
        name = self._names.get(job_id, "")
        if state is JobState.CANCELED:
            return ApplicationResult(ApplicationState.CANCELED, 0, f"job '{name}' ({job_id}) was canceled")
        return ApplicationResult(ApplicationState.FAILED, EXIT_FAILED, f"job '{name}' ({job_id}) failed: {error}")
