"""Log levels that change while a process runs."""

from __future__ import annotations

import io
import logging

import pytest

from flinkpy.common.errors import UserError
from flinkpy.logs.context import LogContext, in_context
from flinkpy.logs.formats import TextFormatter
from flinkpy.logs.handler import RateLimitedHandler
from flinkpy.logs.levels import MAX_CHANGES, LogLevels

JOB, OTHER = LogContext("a" * 32), LogContext("b" * 32)


class Process:
    """The loggers of one process, apart from those of the tests."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.stream = io.StringIO()
        handler = RateLimitedHandler(self.stream, 0)
        handler.setFormatter(TextFormatter())
        root = logging.RootLogger(logging.INFO)
        root.manager = self.manager = logging.Manager(root)
        root.addHandler(handler)
        self.handler = handler
        self.levels = LogLevels(root, handler, lambda: self.now_ms)

    def logged(self, name: str, context: LogContext | None = None) -> list[str]:
        """Logs at all levels and returns those that were written."""
        self.stream.seek(0)
        self.stream.truncate()
        with in_context(context):
            for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
                self.manager.getLogger(name).log(level, logging.getLevelName(level))
        return [line.rpartition(" - ")[2] for line in self.stream.getvalue().splitlines()]


ALL = ["DEBUG", "INFO", "WARNING", "ERROR"]


def test_a_level_applies_to_a_logger_and_those_below_it_until_it_is_taken_back() -> None:
    process = Process()
    process.levels.change("my", "DEBUG")
    assert process.logged("my.module") == ALL and process.logged("others") == ALL[1:]
    process.levels.change("my.module", "error")
    assert process.logged("my.module") == ["ERROR"] and process.logged("my.next") == ALL
    process.levels.change("my.module", None)
    process.levels.change("my", None)
    assert process.logged("my.module") == ALL[1:] and process.levels.changes() == []
    process.levels.change("root", "OFF")
    assert process.logged("my.module") == []


def test_a_level_of_a_job_applies_to_its_records_only() -> None:
    process = Process()
    process.levels.change("my", "DEBUG", job_id=JOB.job_id)
    assert process.logged("my.module", JOB) == ALL
    assert process.logged("my.module", OTHER) == ALL[1:] and process.logged("my.module") == ALL[1:]
    process.levels.change("my", "ERROR", job_id=OTHER.job_id)
    assert process.logged("my.module", OTHER) == ["ERROR"] and process.logged("my.module", JOB) == ALL
    process.levels.change("my", "WARN")
    assert process.logged("my.module") == ALL[2:] and process.logged("my.module", JOB) == ALL
    process.levels.change("", "DEBUG", job_id=JOB.job_id)
    assert process.logged("x.y", JOB) == ALL and process.logged("x.y", OTHER) == ALL[1:]
    for name in ("my", ""):
        for job in (JOB, OTHER):
            process.levels.change(name, None, job_id=job.job_id)
    assert process.handler.wanted is None, "records cost nothing more"


def test_a_configured_level_comes_back() -> None:
    process = Process()
    process.manager.getLogger("grpc").setLevel(logging.ERROR)
    process.levels.change("grpc", "DEBUG")
    assert process.logged("grpc.x") == ALL
    assert ("grpc", "ERROR") in process.levels.configured()
    process.levels.change("grpc", None)
    assert process.logged("grpc.x") == ["ERROR"]


def test_a_configured_level_below_a_change_for_a_job_decides() -> None:
    process = Process()
    process.manager.getLogger("my.quiet").setLevel(logging.ERROR)
    process.levels.change("my", "DEBUG", job_id=JOB.job_id)
    assert process.logged("my.quiet", JOB) == ["ERROR"]


def test_a_level_ends_after_its_time() -> None:
    process = Process()
    process.levels.change("my", "DEBUG", until_ms=1_000)
    process.levels.change("your", "DEBUG")
    process.now_ms = 999
    process.levels.expire()
    assert process.logged("my.x") == ALL
    process.now_ms = 1_000
    process.levels.expire()
    assert process.logged("my.x") == ALL[1:] and process.logged("your.x") == ALL


def test_the_levels_of_an_ended_job_are_forgotten() -> None:
    process = Process()
    process.levels.change("my", "DEBUG", job_id=JOB.job_id)
    process.levels.change("my", "ERROR", job_id=OTHER.job_id)
    process.levels.forget_job(JOB.job_id)
    assert [change.job_id for change in process.levels.changes()] == [OTHER.job_id]


def test_bad_levels_are_refused() -> None:
    process = Process()
    with pytest.raises(UserError, match="unknown log level 'LOUD': expected one of TRACE, DEBUG"):
        process.levels.change("my", "LOUD")
    with pytest.raises(UserError, match="at most 500 characters"):
        process.levels.change("x" * 501, "INFO")
    for number in range(MAX_CHANGES):
        process.levels.change("my", "INFO", job_id=str(number))
    with pytest.raises(UserError, match="1000 log levels are set already"):
        process.levels.change("my", "INFO", job_id="one more")
