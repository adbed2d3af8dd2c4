"""ApplicationStatus: how an application stands, from what is known of its program and of its jobs. Pure.

```
              program returned, all jobs finished
   RUNNING ------------------------------------------> FINISHED
      |    program raised or died, a job failed (1), no job at all
      +----------------------------------------------> FAILED
      |    a job was canceled (1), and nothing failed
      +----------------------------------------------> CANCELED
```

(1) Where `execution.terminate-application-on-any-job-terminated-exceptionally` is false the end of a job ends nothing:
the application ends with its program and its last job, and is then FINISHED, unless the program itself failed.

A job that ended so is first told to the program, which waits for it as a rule: it gets a moment to end by itself, so
that its own error is the one that is reported (`is_program_overdue`).

Source: org.apache.flink.client.deployment.application.{ApplicationDispatcherBootstrap,PackagedProgramApplication}.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from flinkpy.common.application_report import ProgramEnded
from flinkpy.common.states import JobState


class ApplicationState(enum.Enum):
    """Values are what results are stored with."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True)
class ApplicationResult:
    """How an application ended.

    Attributes:
        exit_status: of the process. As in Flink an application that was canceled has done what was asked of it: 0.
        message: what a person should read; empty where it finished.
    """

    state: ApplicationState
    exit_status: int = 0
    message: str = ""
    traceback: str = ""


#: Exit status of an application that failed in another way than by `sys.exit`.
EXIT_FAILED = 1

NO_JOB = "the program has ended without submitting a job: it contains no execute() call, or never comes to one"


class ApplicationStatus:
    """Fed with events; `result` is there once the application is to end."""

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
        """Whether a job ended in a way that ends the application, and the program has not ended yet."""
        return self.result is None and self._terminates and self._first_bad is not None and not self.has_program_ended

    def job_submitted(self, job_id: str, name: str) -> bool:
        """Whether the job is a new one."""
        if job_id in self._jobs:
            return False
        self._jobs[job_id] = None
        self._names[job_id] = name
        return True

    def job_ended(self, job_id: str, state: JobState, error: str = "") -> None:
        """`state` is a globally terminal one."""
        self._jobs[job_id] = state
        if state is not JobState.FINISHED and self._first_bad is None:
            self._first_bad = (job_id, state, error)
        self._decide()

    def program_ended(self, ended: ProgramEnded) -> None:
        self._program = ended
        self._decide()

    def program_died(self, how: str) -> None:
        """Its process has ended without saying how the program did."""
        if self._program is None:
            self._died = how
            self._decide()

    def program_is_overdue(self) -> None:
        """It was given time to end by itself after one of its jobs had failed."""
        self._is_overdue = True
        self._decide()

    def is_broken(self, message: str) -> None:
        """Whoever watches over it cannot go on."""
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
