"""Environments of jobs: their ids, single installation, removal, and unsafe directories."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common import python_environment
from flinkpy.common.errors import PythonEnvironmentError
from flinkpy.common.python_environment import (
    check_loaded_packages,
    environment_profile,
    environments_root,
    install,
    own_requirements,
)


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """Empty requirements, for which pip does nothing."""
    path = tmp_path / "requirements.txt"
    path.write_text("# none\n")
    return path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Builds environments without pip, and records them."""
    made: list[Path] = []

    def build(home: Path, *_: object) -> None:
        (home / "lib").mkdir(parents=True)
        made.append(home)

    monkeypatch.setattr(python_environment, "_build", build)
    yield made


def artifact(kind: str, key: str = "k", **attributes: str) -> job_pb2.UserArtifact:
    return job_pb2.UserArtifact(name="n", kind=kind, blob_key=key, attributes=attributes)


def test_jobs_with_the_same_artifacts_have_the_same_profile_and_plain_jobs_have_none() -> None:
    brought = [artifact("PYTHON_REQUIREMENTS"), artifact("PYTHON_ARCHIVE", target_dir="a")]
    assert environment_profile([artifact("PYTHON_FILE"), artifact("CACHED_FILE")]) == ""
    profile = environment_profile(brought)
    assert profile == environment_profile([*reversed(brought), artifact("PYTHON_FILE", "another")])
    assert profile != environment_profile([artifact("PYTHON_REQUIREMENTS", "other"), brought[1]])
    assert profile != environment_profile([brought[0], artifact("PYTHON_ARCHIVE", target_dir="b")])
    # The path of the file on the client does not matter.
    local = artifact("PYTHON_REQUIREMENTS", local_path="/home/me/requirements.txt")
    assert environment_profile([brought[0]]) == environment_profile([local])


def test_flinkpys_own_dependencies_are_pinned() -> None:
    pinned = own_requirements()
    assert f"pyarrow=={importlib.metadata.version('pyarrow')}" in pinned
    assert f"numpy=={importlib.metadata.version('numpy')}" in pinned
    assert not any(line.startswith(("flinkpy==", "pytest==")) for line in pinned)


def test_the_same_requirements_are_installed_once(requirements: Path, tmp_path: Path, builds: list[Path]) -> None:
    first, second = (install(requirements, None, tmp_path / "root") for _ in range(2))
    assert first.path == second.path and first.path.is_dir()
    assert len(builds) == 1
    requirements.write_text("# changed\n")
    assert install(requirements, None, tmp_path / "root").path != first.path
    packages = tmp_path / "packages"
    packages.mkdir()
    assert len({install(requirements, packages, tmp_path / "root").path for _ in range(2)}) == 1
    (packages / "new.whl").write_text("")
    install(requirements, packages, tmp_path / "root")
    assert len(builds) == 3


def test_old_unused_environments_are_removed(
    requirements: Path, tmp_path: Path, builds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_environment, "MAX_UNUSED", 2)
    root = tmp_path / "root"
    used = install(requirements, None, root)
    os.utime(used.path.parent, (1, 1))
    for number in range(2, 5):
        requirements.write_text(f"# {number}\n")
        install(requirements, None, root).release()
        os.utime(builds[-1], (number, number))
    assert [home.exists() for home in builds] == [True, False, True, True]
    used.release()


def test_another_version_of_a_loaded_package_is_refused(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    info = lib / "numpy-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    (info / "RECORD").write_text("numpy/__init__.py,,\n")
    # Since Python 3.12 a distribution lists only files that are there.
    (lib / "numpy").mkdir()
    (lib / "numpy" / "__init__.py").write_text("")
    __import__("numpy")
    with pytest.raises(PythonEnvironmentError, match=r"requires numpy 0\.1, but this process has loaded numpy"):
        check_loaded_packages(lib)
    version = importlib.metadata.version("numpy")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: numpy\nVersion: {version}\n")
    check_loaded_packages(lib)


def test_the_directory_is_configured_or_belongs_to_the_user(tmp_path: Path) -> None:
    assert environments_root(str(tmp_path)) == tmp_path
    assert str(os.getuid()) in environments_root().name


def test_a_link_of_another_user_is_not_followed(
    requirements: Path, tmp_path: Path, builds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal of old environments would otherwise delete this user's own files."""
    monkeypatch.setattr(python_environment, "MAX_UNUSED", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / "home" / "thesis"
    home.mkdir(parents=True)
    environments_root().symlink_to(tmp_path / "home")
    with pytest.raises(PythonEnvironmentError, match=r"is a symbolic link.*python\.environment\.dir"):
        install(requirements, None, environments_root())
    assert home.is_dir()
    assert builds == []


def test_a_directory_that_others_can_write_to_is_refused(
    requirements: Path, tmp_path: Path, builds: list[Path]
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(0o777)
    with pytest.raises(PythonEnvironmentError, match="is not private"):
        install(requirements, None, tmp_path / "root")
    assert builds == []
