from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.working_directory import WorkingDirectory


def test_processes_that_start_together_do_not_remove_each_others_directories(tmp_path):
    """Each process removes the directories of killed processes, but not one that another process is creating."""

    def open_many(_: int) -> list[WorkingDirectory]:
        return [WorkingDirectory.open(None, str(tmp_path), "taskexecutor") for _ in range(25)]

    with ThreadPoolExecutor(8) as threads:
        opened = [directory for directories in threads.map(open_many, range(8)) for directory in directories]
    assert [directory.path for directory in opened if not directory.path.is_dir()] == []
    for directory in opened:
        directory.close()
    assert list(tmp_path.iterdir()) == []


def abandoned(root: Path) -> Path:
    """Creates a directory as a killed TaskExecutor of this user leaves it."""
    path = root / f"flinkpy-taskexecutor-{os.getuid()}-abcdefgh"
    path.mkdir(mode=0o700)
    (path / ".lock").touch(mode=0o600)
    return path


def test_the_directory_of_a_killed_process_is_removed(tmp_path):
    left = abandoned(tmp_path)
    WorkingDirectory.open(None, str(tmp_path), "taskexecutor").close()
    assert not left.exists()


def test_a_directory_that_others_can_write_to_is_left_alone(tmp_path):
    """Another user may have created it with a link as its lock."""
    planted = abandoned(tmp_path)
    planted.chmod(0o777)
    (planted / ".lock").unlink()
    (planted / ".lock").symlink_to(tmp_path / "made by following the link")
    WorkingDirectory.open(None, str(tmp_path), "taskexecutor").close()
    planted.chmod(0o700)
    WorkingDirectory.open(None, str(tmp_path), "taskexecutor").close()
    assert planted.exists()
    assert not (tmp_path / "made by following the link").exists()


@pytest.mark.parametrize("is_link", [True, False])
def test_a_configured_directory_of_others_is_refused(tmp_path, is_link):
    if is_link:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "taskexecutor").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "taskexecutor").mkdir()
        (tmp_path / "taskexecutor").chmod(0o777)
    with pytest.raises(
        ConfigurationError, match=rf"cannot use the working directory {tmp_path}/taskexecutor: .*its owner is"
    ):
        WorkingDirectory.open(str(tmp_path), None, "taskexecutor")


def test_directories_are_private_whatever_the_umask_is(tmp_path):
    old = os.umask(0)
    try:
        configured = WorkingDirectory.open(str(tmp_path), None, "taskexecutor")
        inner = configured.subdirectory("inner")
    finally:
        os.umask(old)
    assert [oct(path.stat().st_mode & 0o777) for path in (configured.path, inner)] == ["0o700", "0o700"]
    configured.close()
