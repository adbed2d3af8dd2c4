"""The Python packages that jobs require. Each set is installed once per host and reused by later jobs.

```
<root>/<id>/lib/...            installed packages; complete or absent
      /<id>/pip.log
      /<id>.lock               shared lock for processes that use it, exclusive lock for creating or removing it
```

The id is a hash of everything that determines pip's result: the requirements, the job's package directory, the
interpreter, and the versions of flinkpy's own dependencies. pip gets those versions as constraints, because a process
that runs functions has already loaded them and cannot use others.

Source: PyFlink's ProcessPythonEnvironmentManager. Differs: PyFlink installs the packages for each worker process.
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
    # Imported on use: every process imports this module, and this import takes longer than the rest of it.
    import importlib.metadata

#: Kinds of artifacts of a job.
PYTHON_FILE = "PYTHON_FILE"
PYTHON_ARCHIVE = "PYTHON_ARCHIVE"
PYTHON_REQUIREMENTS = "PYTHON_REQUIREMENTS"
#: A zip of the package directory that belongs to the requirements.
PYTHON_REQUIREMENTS_CACHE = "PYTHON_REQUIREMENTS_CACHE"
CACHED_FILE = "CACHED_FILE"

#: Kinds that bind a process to one environment until it ends.
ENVIRONMENT_KINDS = frozenset({PYTHON_ARCHIVE, PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE})
#: Number of environments to keep, including unused ones.
MAX_UNUSED = 20
#: How much of pip's output an error shows; its end contains the reason.
MAX_OUTPUT_CHARS = 4_000
_PACKAGE = "flinkpy"
#: pip's text for a constraint that conflicts with a requirement.
_CONSTRAINT = re.compile(r"\(constraint\) ([A-Za-z0-9._-]+==[^\s,]+)")


class Artifact(Protocol):
    """The used fields of a UserArtifact (job.proto)."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def blob_key(self) -> str: ...

    @property
    def attributes(self) -> Mapping[str, str]: ...


def environment_profile(artifacts: Iterable[Artifact]) -> str:
    """Returns the profile that a process needs to run a job with these artifacts; "" for a job without an environment.

    A process has one set of packages and one working directory. So jobs with requirements or archives share a process
    only with jobs that have the same requirements and archives.
    """
    parts = sorted(
        f"{artifact.kind}\0{artifact.name}\0{artifact.blob_key}\0{artifact.attributes.get('target_dir', '')}"
        for artifact in artifacts
        if artifact.kind in ENVIRONMENT_KINDS
    )
    return f"python-environment:{hashlib.sha256(chr(1).join(parts).encode()).hexdigest()[:32]}" if parts else ""


def environments_root(configured: str | None = None) -> Path:
    """Returns the directory of environments: `python.environment.dir`, else a directory of this user."""
    return (
        Path(configured) if configured else Path(tempfile.gettempdir()) / f"flinkpy-python-environments-{os.getuid()}"
    )


class InstalledEnvironment:
    """An installed environment; it is not removed before `release`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    def release(self) -> None:
        """Allows the removal of the environment; idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def install(requirements: Path, packages: Path | None, root: Path) -> InstalledEnvironment:
    """Returns the environment for the requirements; installs it if this host does not have it. May block for minutes.

    Args:
        requirements: path of the requirements.txt.
        packages: a directory of packages. If it is given, pip installs only from there.
        root: the directory of this host's environments.

    Raises:
        PythonEnvironmentError: pip failed; the message contains the end of its output.
    """
    constraints = own_requirements()
    key = _environment_key(requirements, packages, constraints)
    try:
        directory = open_root(root)
    except PrivateDirectoryError as error:
        raise PythonEnvironmentError(f"{error} (`python.environment.dir`)", details=error.details) from error
    except OSError as error:
        raise PythonEnvironmentError(f"cannot store Python environments in {root}: {error}") from error
    with directory:
        return _installed(directory, key, requirements, packages, constraints)


def open_root(root: Path) -> PrivateDirectory:
    """Opens the directory of this host's environments and creates it if needed. It is private: it contains code.

    Raises: PrivateDirectoryError, OSError.
    """
    # A symbolic link is followed only in a configured path, because other users can guess the default name.
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
        raise PythonEnvironmentError(f"cannot store Python environments in {root.path}: {error}") from error
    try:
        home = root.path / key
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not home.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not home.exists():
                _remove_unused(root)
                _build(home, requirements, packages, constraints, root)
            # flock does not convert a lock atomically: another process may remove the environment in between.
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(home)
    except BaseException:
        os.close(lock)
        raise
    return InstalledEnvironment(home / "lib", lock)


def check_loaded_packages(path: Path) -> None:
    """Raises PythonEnvironmentError if this process has loaded another version of a package in `path`."""
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
                    f"from {file}, because flinkpy uses it",
                    details={"package": name},
                )


def own_requirements() -> list[str]:
    """Returns flinkpy's direct and indirect dependencies as `name==version`."""
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
    # A unique name, because the pip of a killed process may still write to its directory.
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
                # Source distributions are built with the installed packages, because pip cannot download build tools.
                command.append("--no-build-isolation")
        done = subprocess.run(
            command,
            cwd=requirements.parent,  # paths in the requirements are relative to their file
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
                f"cannot install the requirements of the job: {_advice(done.stdout)}"
                f"pip ended with status {done.returncode}:\n{done.stdout.strip()[-MAX_OUTPUT_CHARS:]}"
            )
        (building / "lib").mkdir(exist_ok=True)  # pip creates nothing for empty requirements
        building.rename(home)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _advice(pip_output: str) -> str:
    """Returns advice about a conflict with flinkpy's own packages (pip's constraints), or "" if there is none."""
    own = sorted(set(_CONSTRAINT.findall(pip_output)))
    if not own:
        return ""
    return (
        f"flinkpy itself uses {', '.join(own)}, and functions run in the same process, so a job cannot have other "
        "versions: require these, or start the cluster with an interpreter that has the versions of the job; "
    )


def _remove_unused(root: PrivateDirectory) -> None:
    """Removes unused environments other than the `MAX_UNUSED` most recently used ones."""
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
