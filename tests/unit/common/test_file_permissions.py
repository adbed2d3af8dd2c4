"""Permissions of the files that services write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkpy.checkpoint.storage.local_file_system import LocalFileSystem
from flinkpy.common import file_permissions
from flinkpy.common.file_permissions import restore_umask, restrict_files


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulates a process just started by a shell with umask 022; restores the umask afterwards."""
    monkeypatch.setattr(file_permissions, "_mask", 0)
    monkeypatch.setenv("FLINKPY_UMASK_OF_USER", "")
    monkeypatch.delenv("FLINKPY_UMASK_OF_USER")
    old = os.umask(0o022)
    yield
    os.umask(old)


def modes(directory: Path) -> tuple[str, str]:
    """Returns the modes of a state file, of its new directory, and of a file that user code creates."""
    files = LocalFileSystem()
    files.make_directories(str(directory / "chk-1"))
    output = files.create(str(directory / "chk-1" / "state"), "state_file")
    output.commit()
    (directory / "result").write_text("")
    ours = [directory / "chk-1", directory / "chk-1" / "state"]
    return " ".join(oct(path.stat().st_mode & 0o777) for path in ours), oct(
        (directory / "result").stat().st_mode & 0o777
    )


def test_other_users_cannot_read_the_files_of_a_service(tmp_path: Path) -> None:
    restrict_files(0o077, runs_functions=False)
    assert modes(tmp_path) == ("0o700 0o600", "0o600")


def test_files_of_user_functions_get_the_permissions_of_the_user(tmp_path: Path) -> None:
    restrict_files(0o077, runs_functions=True)
    assert modes(tmp_path) == ("0o700 0o600", "0o644")


def test_services_pass_on_the_umask_of_the_user(tmp_path: Path) -> None:
    restrict_files(0o077, runs_functions=False)
    restrict_files(0o027, runs_functions=True)
    assert modes(tmp_path) == ("0o750 0o640", "0o644")
    restrict_files(0o077, runs_functions=False)
    restore_umask()
    assert oct(os.umask(0)) == "0o22"


def test_a_stricter_umask_stays(tmp_path: Path) -> None:
    os.umask(0o177)
    restrict_files(0o022, runs_functions=False)
    assert oct(os.umask(0)) == "0o177"
