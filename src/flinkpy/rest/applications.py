"""Application: a program that was started through the REST server; Applications: what handlers do with them.

The Dispatcher's process implements Applications, because the REST server does not know how programs are run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

RUNNING = "RUNNING"
FAILED = "FAILED"
#: The states of an application, in Flink's words.
STATES = (RUNNING, "FINISHED", FAILED, "CANCELED")


@dataclass(slots=True)
class Application:
    """An application.

    Attributes:
        configuration: that of the cluster, changed by the request that started it.
        begun: set when the first job was submitted, or the application has ended without one.
        jobs: the ids of its jobs, in the order in which it submitted them.
        ended_ms: None while it runs.
        message: why it has ended; empty if it finished.
        traceback: the traceback of its program, if that raised an exception.
    """

    id: str
    name: str
    configuration: dict[str, str]
    started_ms: int
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    jobs: list[str] = field(default_factory=list)
    state: str = RUNNING
    ended_ms: int | None = None
    message: str = ""
    traceback: str = ""

    def job_submitted(self, job_id: str) -> None:
        """Adds a job. A program that runs again, because another Dispatcher leads, submits the same jobs again."""
        if job_id not in self.jobs:
            self.jobs.append(job_id)
        self.begun.set()

    def end(self, state: str, message: str, traceback: str, now_ms: int) -> None:
        """Records the end of the application. Later calls have no effect."""
        if self.ended_ms is None:
            self.state, self.message, self.traceback, self.ended_ms = state, message, traceback, now_ms
            self.begun.set()

    def duration_ms(self, now_ms: int) -> int:
        return (now_ms if self.ended_ms is None else self.ended_ms) - self.started_ms


class Applications(Protocol):
    """The applications of one server."""

    def all(self) -> list[Application]:
        """Returns all applications, in the order in which they were started."""
        ...

    def find(self, application_id: str) -> Application:
        """Raises: RestError with status 404."""
        ...

    def start(
        self, application_id: str, program: str, name: str, arguments: tuple[str, ...], configuration: dict[str, str]
    ) -> Application:
        """Starts a program.

        Args:
            program: what `flinkpy run` takes as PROGRAM.
            name: the name of the uploaded file.
            configuration: that of the cluster, changed by the request.

        Raises: RestError with status 400 if the id is known, 503 if too many programs run.
        """
        ...

    def cancel(self, application_id: str) -> None:
        """Cancels an application: its jobs, or its program if it has none yet. An ended one stays as it is.

        Raises: RestError with status 404.
        """
        ...

    async def close(self) -> None:
        """Ends the programs. Their jobs are left to the Dispatcher."""
        ...
