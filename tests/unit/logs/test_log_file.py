"""Rotation of log files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkpy.logs.log_file import LogFile, numbered, remove_oldest, rotated_numbers


def contents(path: Path) -> list[str]:
    """Returns the lines of all files, from the oldest to the newest."""
    files = [numbered(path, number) for number in rotated_numbers(path)]
    return "".join(file.read_text() for file in [*files, path]).splitlines()


def test_full_files_get_growing_numbers_and_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "te.log"
    log = LogFile.open(path, max_bytes=100, max_files=1_000)
    lines = [f"line {number}" for number in range(200)]
    for line in lines:
        log.write(f"{line}\n")
    log.close()
    assert rotated_numbers(path) == list(range(1, len(rotated_numbers(path)) + 1))
    assert contents(path) == lines
    assert all(100 <= numbered(path, number).stat().st_size < 110 for number in rotated_numbers(path))


def test_the_oldest_files_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "te.log"
    other = tmp_path / "te.log.old"
    other.write_text("not a part of this log")
    log = LogFile.open(path, max_bytes=10, max_files=2)
    for number in range(10):
        log.write(f"line {number:04}\n")
    assert rotated_numbers(path) == [9, 10] and contents(path) == ["line 0008", "line 0009"]
    assert other.exists()
    log.close()
    none = LogFile.open(tmp_path / "rm.log", max_bytes=10, max_files=0)
    none.write("0123456789\n")
    none.close()
    assert rotated_numbers(tmp_path / "rm.log") == []


def test_a_restarted_process_continues_the_numbers_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "te.log"
    for start in (0, 10):
        log = LogFile.open(path, max_bytes=30, max_files=100)
        for number in range(start, start + 10):
            log.write(f"line {number}\n")
        log.close()
    assert contents(path) == [f"line {number}" for number in range(20)]


def test_standard_output_and_error_follow_the_rotation(tmp_path: Path) -> None:
    path = tmp_path / "te.log"
    error = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    output = os.dup(error)
    log = LogFile(path, (error, output), max_bytes=20, max_files=10)
    os.write(output, b"printed by native code\n")
    log.write("one\n")
    log.check_size()
    os.write(output, b"after\n")
    assert path.read_text() == "after\n" and contents(path)[:2] == ["printed by native code", "one"]
    assert path.stat().st_mode & 0o777 == 0o640, "the new file has the permissions of the old one"
    log.close()


def test_a_file_that_somebody_moved_is_not_moved_again(tmp_path: Path) -> None:
    path = tmp_path / "te.log"
    log = LogFile.open(path, max_bytes=20, max_files=10)
    log.write("one\n")
    path.rename(tmp_path / "moved")
    log.write("two two two two two two\n")
    log.write("three\n")
    log.close()
    assert (tmp_path / "moved").read_text() == "one\ntwo two two two two two\n"
    assert path.read_text() == "three\n" and rotated_numbers(path) == []


def test_a_log_goes_on_where_it_cannot_be_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "te.log"
    log = LogFile.open(path, max_bytes=20, max_files=10)

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError("read-only")

    with monkeypatch.context() as patch:
        patch.setattr("flinkpy.logs.log_file._open", refuse)
        for number in range(10):
            log.write(f"line {number}\n")
    assert contents(path) == [f"line {number}" for number in range(10)] and rotated_numbers(path) == []
    for number in range(10, 20):
        log.write(f"line {number}\n")
    log.close()
    assert rotated_numbers(path) != [] and contents(path) == [f"line {number}" for number in range(20)]


def test_records_for_a_full_disk_are_counted(tmp_path: Path) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    log = LogFile(None, (descriptor,))
    log.write("lost\n")
    log.write("lost too\n")
    path = tmp_path / "te.log"
    target = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.dup2(target, descriptor)
    os.close(target)
    log.write("written\n")
    log.write("again\n")
    log.close()
    assert path.read_text() == "(2 records could not be written)\nwritten\nagain\n"


def test_processes_that_share_a_directory_write_different_files(tmp_path: Path) -> None:
    logs = [LogFile.open_unused(tmp_path, "taskexecutor-host", max_bytes=0, max_files=0) for _ in range(3)]
    names = [log.path.name for log in logs if log.path is not None]
    assert names == ["taskexecutor-host.log", "taskexecutor-host-2.log", "taskexecutor-host-3.log"]
    logs[0].close()
    again = LogFile.open_unused(tmp_path, "taskexecutor-host", max_bytes=0, max_files=0)
    assert again.path == tmp_path / "taskexecutor-host.log"
    for log in (*logs[1:], again):
        log.close()


def test_logs_of_ended_job_masters_are_removed_before_those_that_are_written(tmp_path: Path) -> None:
    open_log = LogFile.open(tmp_path / "jobmaster-0.log", max_bytes=0, max_files=0)
    open_log.write("running, and quiet for long\n")
    for number in range(1, 5):
        (tmp_path / f"jobmaster-{number}.log").write_text("x")
        (tmp_path / f"jobmaster-{number}.log.1").write_text("x")
    for number in range(5):
        os.utime(tmp_path / f"jobmaster-{number}.log", (number, number))
    remove_oldest(tmp_path, "jobmaster-", 2)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [
        "jobmaster-0.log", "jobmaster-3.log", "jobmaster-3.log.1", "jobmaster-4.log", "jobmaster-4.log.1",
    ]  # fmt: skip
    open_log.close()
