"""The applications that the REST server shows and cancels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.dispatcher.session_applications import SessionApplications
from flinkpy.rest.applications import Application
from flinkpy.rest.errors import RestError

APPLICATION = "ab" * 16


class Runner:
    """The runner of the application of this cluster."""

    def __init__(self, *, runs: bool) -> None:
        self.runs = runs
        self.num_cancellations = 0

    def cancel(self) -> bool:
        self.num_cancellations += 1
        return self.runs


def of_cluster(runner: Runner) -> tuple[SessionApplications, Application]:
    application = Application(APPLICATION, "program.py", {}, 5)
    own: Any = (application, runner)
    return SessionApplications(None, ManualClock(9), own=own), application  # type: ignore[arg-type]


def test_the_application_of_the_cluster_is_shown_and_canceled_by_its_runner() -> None:
    runner = Runner(runs=True)
    applications, application = of_cluster(runner)
    assert applications.all() == [application] and applications.find(APPLICATION) is application
    applications.cancel(APPLICATION)
    assert runner.num_cancellations == 1
    application.end("CANCELED", "canceled", "", 9)
    application.end("FINISHED", "", "", 10)
    assert (application.state, application.ended_ms, application.duration_ms(100)) == ("CANCELED", 9, 4)
    applications.cancel(APPLICATION)
    assert runner.num_cancellations == 1
    asyncio.run(applications.close())


def test_a_standby_says_that_the_program_runs_elsewhere() -> None:
    applications, _ = of_cluster(Runner(runs=False))
    with pytest.raises(RestError, match="leading Dispatcher") as caught:
        applications.cancel(APPLICATION)
    assert caught.value.status == 503


def test_a_program_that_runs_again_submits_the_same_jobs() -> None:
    application = Application(APPLICATION, "program.py", {}, 5)
    for job_id in ("a", "b", "a", "b", "c"):
        application.job_submitted(job_id)
    assert application.jobs == ["a", "b", "c"]
