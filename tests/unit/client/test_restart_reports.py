"""RestartReporter logs why the job of a waiting program restarts."""

from __future__ import annotations

import logging

import pytest

from flinkpy._proto import job_pb2
from flinkpy.client.job_watch import RestartReporter


def details(restarts: int, *errors: tuple[int, str, str]) -> job_pb2.JobDetails:
    """Returns details of a job with errors given as (time in ms, message, traceback)."""
    shown = job_pb2.JobDetails(job_id="a1", name="words", num_restarts=restarts)
    for timestamp_ms, message, traceback in errors:
        entry = shown.exception_history.add(timestamp_ms=timestamp_ms)
        entry.error.message = message
        entry.error.traceback = traceback
    return shown


def test_the_newest_failure_is_logged_with_the_users_traceback_first(caplog: pytest.LogCaptureFixture) -> None:
    reporter = RestartReporter("a1", "words")
    reporter.on_details(details(0))
    with caplog.at_level(logging.WARNING):
        reporter.on_details(details(1, (20, "map: no such word", "Traceback: program.py"), (10, "older", "")))

    (message,) = caplog.messages
    assert message == ("job 'words' (a1) failed and restarts (restart 1):\nTraceback: program.py\nmap: no such word")


def test_each_restart_is_logged_once_and_frequent_ones_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    reporter = RestartReporter("a1", "words")
    with caplog.at_level(logging.WARNING):
        for number in [*range(1, 40), 39]:
            reporter.on_details(details(number, (number, "again", "")))

    assert [message.partition("(restart ")[2].partition(")")[0] for message in caplog.messages] == [
        "1",
        "2",
        "3",
        "4",
        "8",
        "16",
        "32",
    ]
