"""The packages that a job requires, installed once per host and kept for the next job that requires the same.

```
<root>/<id>/lib/...            what pip installed; complete, or not there at all
      /<id>/pip.log
      /<id>.lock               held shared by processes that use it, exclusively by the one that makes or removes it
```

The id is a hash of everything that decides what pip installs: the requirements, the packages that came along, the
interpreter, and the versions of flinkpy's own dependencies. Those are constraints for pip: a process that runs
functions has them loaded, so no other version of them could be used.

Source: PyFlink's ProcessPythonEnvironmentManager. Differs: it installs anew for each Python worker process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flinkpy.common.errors import PrivateDirectoryError, PythonEnvironmentError
from flinkpy.common.private_directory import PrivateDirectory

if TYPE_CHECKING:
    # Imported where it is needed: it takes longer than the rest of this module, which every process imports.
    import importlib.metadata

#: Kinds of a job's artifacts.
PYTHON_FILE = "PYTHON_FILE"
PYTHON_ARCHIVE = "PYTHON_ARCHIVE"
PYTHON_REQUIREMENTS = "PYTHON_REQUIREMENTS"
#: The directory of packages that belongs to the requirements, as a zip.
PYTHON_REQUIREMENTS_CACHE = "PYTHON_REQUIREMENTS_CACHE"
CACHED_FILE = "CACHED_FILE"

#: Kinds that make a process one of this environment, for as long as it lives.
ENVIRONMENT_KINDS = frozenset({PYTHON_ARCHIVE, PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE})
#: Environments that are kept although nobody uses them now.
MAX_UNUSED = 20
#: What is shown of pip's output where it fails: its end says why.
MAX_OUTPUT_CHARS = 4_000
_PACKAGE = "flinkpy"
#: How pip names a constraint that contradicts a requirement.
_CONSTRAINT = re.compile(r"\(constraint\) ([A-Za-z0-9._-]+==[^\s,]+)")


class Artifact(Protocol):
    """What is needed of a UserArtifact of job.proto."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def blob_key(self) -> str: ...

    @property
    def attributes(self) -> Mapping[str, str]: ...


def environment_profile(artifacts: Iterable[Artifact]) -> str:
    """What a process must be dedicated to in order to run functions of a job with these artifacts; "" for a plain job.

    A process has one set of packages and one working directory. So functions whose job brings requirements or archives
    share it only with functions of jobs that bring the very same.
    """
    parts = sorted(
        f"{artifact.kind}\0{artifact.name}\0{artifact.blob_key}\0{artifact.attributes.get('target_dir', '')}"
        for artifact in artifacts
        if artifact.kind in ENVIRONMENT_KINDS
    )
    return f"python-environment:{hashlib.sha256(chr(1).join(parts).encode()).hexdigest()[:32]}" if parts else ""


def environments_root(configured: str | None = None) -> Path:
    """Where this host keeps environments: `python.environment.dir`, else this user's own place."""
    return (
        Path(configured) if configured else Path(tempfile.gettempdir()) / f"flinkpy-python-environments-{os.getuid()}"
    )


class InstalledEnvironment:
    """An environment that is there until `release`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    def release(self) -> None:
        """Idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def install(requirements: Path, packages: Path | None, root: Path) -> InstalledEnvironment:
    """The environment of these requirements, made where this host does not have it yet. Blocking; may take minutes.

    Args:
        packages: a directory of packages; pip then takes nothing from anywhere else.

    Raises: PythonEnvironmentError with the end of pip's output.
    """
    constraints = own_requirements()
    key = _environment_key(requirements, packages, constraints)
    try:
        directory = open_root(root)
    except PrivateDirectoryError as error:
        raise PythonEnvironmentError(f"{error} (`python.environment.dir`)", details=error.details) from error
    except OSError as error:
        raise PythonEnvironmentError(f"Python environments cannot be kept in {root}: {error}") from error
    with directory:
        return _installed(directory, key, requirements, packages, constraints)


def open_root(root: Path) -> PrivateDirectory:
    """Opens the directory of this host's environments, made where it is missing. Code is loaded from there.

    Raises: PrivateDirectoryError, OSError.
    """
    # A link to it is followed only where it was configured: the default's name can be guessed by other users.
    place = root if root == environments_root() else root.resolve()
    if place is not root:
        place.parent.mkdir(parents=True, exist_ok=True)
    return PrivateDirectory.make(place.parent, place.name)


def _installed(
    root: PrivateDirectory, key: str, requirements: Path, packages: Path | None, constraints: Iterable[str]
) -> InstalledEnvironment:
    try:
        lock = root.open_file(f"{key}.lock", os.O_RDWR | os.O_CREAT)
    except (OSError, PrivateDirectoryError) as error:
        raise PythonEnvironmentError(f"Python environments cannot be kept in {root.path}: {error}") from error
    try:
        home = root.path / key
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not home.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not home.exists():
                _remove_unused(root)
                _build(home, requirements, packages, constraints, root)
            # Not in one step with letting go of the other lock: somebody may remove it in between.
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(home)
    except BaseException:
        os.close(lock)
        raise
    return InstalledEnvironment(home / "lib", lock)


def check_loaded_packages(path: Path) -> None:
    """Raises: PythonEnvironmentError where this process has another version loaded of a package in `path`."""
    import importlib.metadata

    for distribution in importlib.metadata.distributions(path=[str(path)]):
        name = distribution.metadata["Name"]
        for module_name in _top_level_modules(distribution):
            file = getattr(sys.modules.get(module_name), "__file__", None)
            if file is None or Path(file).is_relative_to(path):
                continue
            present = _version_of(name)
            if present is not None and present != distribution.version:
                raise PythonEnvironmentError(
                    f"the job requires {name} {distribution.version}, but this process has loaded {name} {present} "
                    f"from {file}; flinkpy uses it itself",
                    details={"package": name},
                )


def own_requirements() -> list[str]:
    """flinkpy's dependencies, and theirs, as `name==version`."""
    import importlib.metadata

    seen: dict[str, str] = {}
    waiting = [_PACKAGE]
    while waiting:
        name = _normalised(waiting.pop())
        if name in seen:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        seen[name] = distribution.version
        for requirement in distribution.requires or ():
            wanted, _, marker = requirement.partition(";")
            match = re.match(r"[A-Za-z0-9._-]+", wanted)
            if match is not None and "extra" not in marker:
                waiting.append(match.group())
    seen.pop(_PACKAGE, None)
    return [f"{name}=={version}" for name, version in sorted(seen.items())]


def _environment_key(requirements: Path, packages: Path | None, constraints: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in (sys.implementation.cache_tag or "", platform.platform(), sysconfig.get_platform(), *constraints):
        digest.update(f"{text}\0".encode())
    digest.update(requirements.read_bytes())
    for file in sorted(packages.rglob("*")) if packages is not None else ():
        if file.is_file():
            digest.update(f"\0{file.relative_to(packages or file)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _build(
    home: Path, requirements: Path, packages: Path | None, constraints: Iterable[str], root: PrivateDirectory
) -> None:
    from importlib.util import find_spec

    for name in root.names():
        if name.startswith(f"{home.name}.") and name.endswith(".building"):
            root.remove(name)
    # A name of its own: the pip of a process that was killed may still be writing.
    building = Path(tempfile.mkdtemp(prefix=f"{home.name}.", suffix=".building", dir=home.parent))
    try:
        pinned = building / "constraints.txt"
        pinned.write_text("\n".join(constraints))
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        command += ["--no-warn-script-location", "--target", str(building / "lib")]
        command += ["--requirement", str(requirements), "--constraint", str(pinned)]
        if packages is not None:
            command += ["--no-index", "--find-links", str(packages)]
            if find_spec("setuptools") is not None:
                # A source distribution among them is built with what is here: pip could not fetch anything for it.
                command.append("--no-build-isolation")
        done = subprocess.run(
            command,
            cwd=requirements.parent,  # paths in the requirements are relative to them
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        (building / "pip.log").write_text(done.stdout)
        if done.returncode != 0:
            raise PythonEnvironmentError(
                f"the requirements of the job cannot be installed: {_advice(done.stdout)}"
                f"pip ended with status {done.returncode}:\n{done.stdout.strip()[-MAX_OUTPUT_CHARS:]}"
            )
        (building / "lib").mkdir(exist_ok=True)  # no requirements at all
        building.rename(home)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _advice(pip_output: str) -> str:
    """Returns what to do about a conflict with flinkpy's own packages, which pip calls constraints; "" without one."""
    own = sorted(set(_CONSTRAINT.findall(pip_output)))
    if not own:
        return ""
    return (
        f"flinkpy itself uses {', '.join(own)}, and functions run in the same process, so a job cannot have other "
        "versions: require these, or start the cluster with an interpreter that has the versions of the job; "
    )


def _remove_unused(root: PrivateDirectory) -> None:
    """Removes all but the `MAX_UNUSED` youngest that no process uses."""
    homes = sorted(
        (name for name in root.names() if "." not in name and root.is_directory(name)),
        key=lambda name: (root.path / name).stat().st_mtime,
        reverse=True,
    )
    for home in homes[MAX_UNUSED - 1 :]:
        lock = root.open_file(f"{home}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            root.remove(home)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def _top_level_modules(distribution: importlib.metadata.Distribution) -> set[str]:
    modules = set()
    for file in distribution.files or ():
        top = file.parts[0]
        if len(file.parts) == 1:
            top = top.removesuffix(".py") if top.endswith(".py") else ""
        if top.isidentifier():
            modules.add(top)
    return modules


def _version_of(name: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
