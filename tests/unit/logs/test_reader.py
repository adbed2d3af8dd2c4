"""Records are read by job, task, level, text and time, from any position, over rotations."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from flinkpy.common.errors import UserError
from flinkpy.logs import reader as module
from flinkpy.logs.context import LogContext
from flinkpy.logs.formats import CONTEXT_ATTRIBUTE, JsonFormatter, TextFormatter
from flinkpy.logs.log_file import LogFile, numbered, rotated_numbers
from flinkpy.logs.reader import FoundRecords, LogQuery, LogReader, Position

JOBS = [LogContext(letter * 32, "words", "v", "Map", 1, 4, 0, "t") for letter in "ab"]
START_S = 1_700_000_000
Write = Callable[[str], None]


def record(number: int, message: str = "") -> logging.LogRecord:
    """Returns the record of second `number`: of one job and then of the other, each third one a warning."""
    level = logging.WARNING if number % 3 == 0 else logging.INFO
    made = logging.LogRecord("my.module", level, __file__, 1, message or f"line {number}\nsecond", (), None)
    made.created, made.threadName = START_S + number, "t"
    setattr(made, CONTEXT_ATTRIBUTE, JOBS[number % 2])
    return made


@pytest.fixture(params=[TextFormatter, JsonFormatter], ids=["text", "json"])
def formatter(request: pytest.FixtureRequest) -> logging.Formatter:
    made: logging.Formatter = request.param()
    return made


@pytest.fixture
def path(tmp_path: Path, formatter: logging.Formatter) -> Path:
    """A log of 200 records in many files."""
    path = tmp_path / "te.log"
    log = LogFile.open(path, max_bytes=2_000, max_files=1_000)
    for number in range(200):
        log.write(formatter.format(record(number)) + "\n")
    log.close()
    assert len(rotated_numbers(path)) > 5
    return path


def numbers(found: FoundRecords) -> list[int]:
    return [int(one.message.split("\n")[0].split()[1]) for one in found.records]


def all_of(path: Path, query: LogQuery, max_bytes: int = 1 << 20) -> list[int]:
    position: Position | None = None
    found: list[int] = []
    for _ in range(10_000):
        part = LogReader(path).read(query, position, max_bytes)
        found += numbers(part)
        position = part.position
        if part.is_at_end:
            return found
    raise AssertionError("the end is never reached")


@pytest.mark.parametrize("max_bytes", [1, 100, 1 << 20])
def test_records_of_a_job_are_read_over_all_files(path: Path, max_bytes: int) -> None:
    assert all_of(path, LogQuery(), max_bytes) == list(range(200))
    assert all_of(path, LogQuery(job_id=JOBS[1].job_id), max_bytes) == list(range(1, 200, 2))


def test_records_are_found_by_level_task_text_and_time(path: Path) -> None:
    assert all_of(path, LogQuery(min_level="warning")) == list(range(0, 200, 3))
    assert all_of(path, LogQuery(task="map (2/4)")) == list(range(200))
    assert all_of(path, LogQuery(task="Map (3/4)")) == []
    assert all_of(path, LogQuery(text="LINE 19")) == [19, *range(190, 200)]
    assert all_of(path, LogQuery(text="my.mod", min_level="ERROR")) == []
    since = (START_S + 150) * 1000
    assert all_of(path, LogQuery(since_ms=since, job_id=JOBS[0].job_id)) == list(range(150, 200, 2))


def test_a_time_is_found_without_reading_what_is_older(
    tmp_path: Path, formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1_000)
    path = tmp_path / "te.log"
    path.write_text("".join(formatter.format(record(number)) + "\n" for number in range(2_000)))
    position = LogReader(path)._seek((START_S + 1_500) * 1000)
    part = LogReader(path).read(LogQuery(), position)
    assert 1_490 <= numbers(part)[0] <= 1_498


def test_the_last_records_that_match(path: Path) -> None:
    assert numbers(LogReader(path).tail(LogQuery(), 5)) == [195, 196, 197, 198, 199]
    assert numbers(LogReader(path).tail(LogQuery(job_id=JOBS[0].job_id, min_level="WARN"), 3)) == [186, 192, 198]
    found = LogReader(path).tail(LogQuery(), 1_000)
    assert numbers(found) == list(range(200)) and not found.is_cut
    assert numbers(LogReader(path).tail(LogQuery(since_ms=(START_S + 198) * 1000), 10)) == [198, 199]


def test_a_tail_is_followed_by_the_records_after_it(path: Path, formatter: logging.Formatter) -> None:
    found = LogReader(path).tail(LogQuery(), 1)
    with path.open("a") as file:
        file.write(formatter.format(record(200)) + "\n" + formatter.format(record(201))[:20])
    following = LogReader(path).read(LogQuery(), found.position)
    assert numbers(following) == [200], "the unfinished line waits"
    with path.open("a") as file:
        file.write(formatter.format(record(201))[20:] + "\n")
    assert numbers(LogReader(path).read(LogQuery(), following.position)) == [201]


def test_a_position_survives_rotations(path: Path, formatter: logging.Formatter) -> None:
    found = LogReader(path).read(LogQuery(), None)
    log = LogFile.open(path, max_bytes=500, max_files=1_000)
    for number in range(200, 300):
        log.write(formatter.format(record(number)) + "\n")
        if number % 7 == 0:
            found = LogReader(path).read(LogQuery(), Position.parse(str(found.position)))
            assert numbers(found)[-1] == number
    log.close()


def test_removed_and_shortened_files_are_told(path: Path) -> None:
    old = LogReader(path).read(LogQuery(), None, 1).position
    for number in rotated_numbers(path)[:3]:
        numbered(path, number).unlink()
    part = LogReader(path).read(LogQuery(), old)
    assert part.is_cut and numbers(part)[-1] == 199 and numbers(part)[0] > 10
    path.write_text("")
    assert LogReader(path).read(LogQuery(), part.position).is_cut
    for number in rotated_numbers(path):
        numbered(path, number).unlink()
    assert LogReader(path).read(LogQuery(), part.position).position == Position(1, 0)


def test_other_text_is_no_record_of_a_job(tmp_path: Path, formatter: logging.Formatter) -> None:
    path = tmp_path / "te.log"
    lines = [
        formatter.format(record(0)),
        "Fatal Python error: Segmentation fault",
        "  | x",
        formatter.format(record(1)),
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    found = LogReader(path).read(LogQuery(), None).records
    assert [one.level for one in found] == ["WARNING", "", "INFO", ""]
    assert found[1].message.startswith("Fatal Python error") and found[3].message == "\ufffd\ufffd"
    assert found[1].timestamp_ms == found[0].timestamp_ms and found[1].job_id == ""
    assert numbers(LogReader(path).read(LogQuery(job_id=JOBS[0].job_id), None)) == [0]


def test_a_call_looks_at_a_bounded_part(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCANNED_BYTES", 1_000)
    part = LogReader(path).read(LogQuery(text="no such text"), None)
    assert not part.is_at_end and part.position < Position(2, 0)
    assert LogReader(path).tail(LogQuery(text="no such text"), 1).is_cut
    monkeypatch.setattr(module, "MAX_RECORDS", 3)
    assert numbers(LogReader(path).read(LogQuery(), None)) == [0, 1, 2]


def test_a_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    found = LogReader(tmp_path / "none.log").read(LogQuery(), None)
    assert found.records == [] and found.is_at_end
    assert LogReader(tmp_path / "none.log").tail(LogQuery(), 5).records == []


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "-1:0", "a:b", "1:2:3", "9" * 50 + ":1", "\u0661:1"])
def test_a_position_of_nobody_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is no position in a log"):
        Position.parse(text)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UserError, match="unknown log level 'loud'"):
        LogQuery(min_level="loud").check()
