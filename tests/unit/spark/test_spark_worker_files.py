"""A Python worker of Spark imports the modules of the job whose task it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkpy.spark import worker_files
from flinkpy.spark.worker_files import WorkerFiles


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_files, "_WORKER", worker_files._Worker())
    before, home = list(sys.path), os.getcwd()
    yield
    sys.path[:] = before
    os.chdir(home)
    sys.modules.pop("module_of_the_job", None)


def directory_of(path: Path, word: str) -> str:
    path.mkdir()
    (path / "module_of_the_job.py").write_text(f"WORD = {word!r}\n")
    return str(path)


def word() -> str:
    import module_of_the_job  # type: ignore[import-not-found]

    return str(module_of_the_job.WORD)


def test_the_next_job_imports_its_own_modules(tmp_path: Path) -> None:
    first, second = directory_of(tmp_path / "1", "first"), directory_of(tmp_path / "2", "second")
    WorkerFiles("a", (first,)).use()
    assert word() == "first"
    WorkerFiles("b", (second,)).use()
    assert word() == "second"
    WorkerFiles("a", (first,)).use()
    assert word() == "first"


def test_a_later_run_of_the_same_program_sees_changed_modules(tmp_path: Path) -> None:
    path = directory_of(tmp_path / "1", "before")
    WorkerFiles("a", (path,)).use()
    assert word() == "before"
    (tmp_path / "1" / "module_of_the_job.py").write_text("WORD = 'now, and longer'\n")
    WorkerFiles("b", (path,)).use()
    assert word() == "now, and longer"


def test_tasks_of_one_job_import_once(tmp_path: Path) -> None:
    files = WorkerFiles("a", (directory_of(tmp_path / "1", "first"),))
    files.use()
    assert word() == "first"
    module = sys.modules["module_of_the_job"]
    WorkerFiles("a", files.python_path).use()
    assert sys.modules["module_of_the_job"] is module


def test_archives_are_in_the_working_directory_until_the_next_job(tmp_path: Path) -> None:
    home = os.getcwd()
    WorkerFiles("a", working_directory=str(tmp_path)).use()
    assert os.getcwd() == str(tmp_path)
    WorkerFiles("b").use()
    assert os.getcwd() == home


def test_directories_that_do_not_exist_are_ignored() -> None:
    before = list(sys.path)
    WorkerFiles("a", ("/nowhere/at/all",)).use()
    assert sys.path == before
