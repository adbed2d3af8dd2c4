"""The part of a process's log that belongs to a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.common.ids import JobID
from flinkpy.taskexecutor import diagnostics
from flinkpy.taskexecutor.diagnostics import JobLogs

JOB, OTHER = JobID("a" * 32), JobID("b" * 32)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "taskexecutor.log"
    path.write_text("before\n")
    return path


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_the_log_of_a_job_starts_with_its_arrival_and_ends_when_it_leaves(log: Path) -> None:
    logs = JobLogs(str(log))
    logs.begin(JOB)
    append(log, "of the job\n")
    assert logs.read(JOB, -1, 1000).data == b"of the job\n"
    logs.end(JOB)
    append(log, "afterwards\n")
    assert logs.read(JOB, -1, 1000).data == b"of the job\n"
    assert not logs.read(OTHER, -1, 1000).is_known


def test_a_log_is_read_in_pieces(log: Path) -> None:
    logs = JobLogs(str(log))
    logs.begin(JOB)
    append(log, "0123456789")
    first = logs.read(JOB, -1, 4)
    assert (first.data, first.end_position - first.next_position) == (b"0123", 6)
    second = logs.read(JOB, first.next_position, 100)
    assert second.data == b"456789" and second.next_position == second.end_position
    assert logs.read(JOB, second.next_position, 100).data == b""


def test_a_job_that_returns_keeps_the_start_of_its_log(log: Path) -> None:
    logs = JobLogs(str(log))
    logs.begin(JOB)
    append(log, "first\n")
    logs.end(JOB)
    append(log, "between\n")
    logs.begin(JOB)
    append(log, "second\n")
    assert logs.read(JOB, -1, 1000).data == b"first\nbetween\nsecond\n"


def test_positions_outside_the_jobs_part_show_nothing_else(log: Path) -> None:
    logs = JobLogs(str(log))
    logs.begin(JOB)
    append(log, "of the job\n")
    for position in (0, 3, 10**9, -7):
        assert logs.read(JOB, position, 1000).data == b"of the job\n"


def test_a_log_that_was_truncated_is_read_from_its_beginning(log: Path) -> None:
    logs = JobLogs(str(log))
    logs.begin(JOB)
    append(log, "of the job\n")
    log.write_text("new\n")
    assert logs.read(JOB, 18, 1000).data == b"new\n"


def test_the_answer_says_if_a_job_has_no_log_file(tmp_path: Path) -> None:
    for path in ("/dev/null", str(tmp_path / "none")):
        logs = JobLogs(path)
        logs.begin(JOB)
        answer = logs.read(JOB, -1, 1000)
        assert answer.is_known and not answer.has_log
        logs.end(JOB)


def test_the_number_of_remembered_jobs_is_limited(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "MAX_KNOWN_JOBS", 1)
    logs = JobLogs(str(log))
    logs.begin(JOB)
    logs.begin(OTHER)
    assert logs.read(OTHER, -1, 1).is_known and not logs.read(JOB, -1, 1).is_known
