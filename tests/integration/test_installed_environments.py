"""Virtual environments that pip creates without a network."""

from __future__ import annotations

import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from flinkpy.common.errors import PythonEnvironmentError
from flinkpy.common.python_environment import install


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """Empty requirements: pip installs nothing and needs no network."""
    path = tmp_path / "requirements.txt"
    path.write_text("# none\n")
    return path


def test_pip_installs_the_requirements(requirements: Path, tmp_path: Path) -> None:
    installed = install(requirements, None, tmp_path / "root")
    assert installed.path.is_dir()
    assert (installed.path.parent / "pip.log").exists()
    installed.release()
    installed.release()


def test_a_source_distribution_is_built_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="pip builds with what the interpreter has")
    source = tmp_path / "flinkpy_test_source-1.0"
    source.mkdir()
    (source / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='flinkpy-test-source', version='1.0', py_modules=['flinkpy_test_source'])\n"
    )
    (source / "flinkpy_test_source.py").write_text("VALUE = 1\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: flinkpy-test-source\nVersion: 1.0\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    with tarfile.open(packages / "flinkpy_test_source-1.0.tar.gz", "w:gz") as tar:
        tar.add(source, source.name)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("flinkpy-test-source==1.0\n")
    installed = install(requirements, packages, tmp_path / "root")
    assert (installed.path / "flinkpy_test_source.py").exists()
    installed.release()


def test_a_failure_of_pip_is_shown_with_its_output_and_leaves_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "packages"
    empty.mkdir()
    wrong = tmp_path / "requirements.txt"
    wrong.write_text("flinkpy-no-such-package==1\n")
    with pytest.raises(PythonEnvironmentError, match=r"(?s)pip ended with status 1:.*flinkpy-no-such-package"):
        install(wrong, empty, tmp_path / "root")
    assert [path for path in (tmp_path / "root").iterdir() if path.is_dir()] == []


def test_another_version_of_a_dependency_of_flinkpy_is_refused_with_advice(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    wrong = tmp_path / "requirements.txt"
    wrong.write_text("cloudpickle==0.0.1\n")
    own = f"cloudpickle=={version('cloudpickle')}"
    with pytest.raises(PythonEnvironmentError, match=rf"(?s)flinkpy itself uses {own}, .*pip ended with status 1:"):
        install(wrong, packages, tmp_path / "root")
