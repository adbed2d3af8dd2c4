"""UserArtifacts: the files that a program ships with its job."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import zipfile
from dataclasses import dataclass

from flinkpy._proto import job_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, InputNotFoundError, UnsupportedOperationError, UserError
from flinkpy.common.python_environment import (
    CACHED_FILE,
    PYTHON_ARCHIVE,
    PYTHON_FILE,
    PYTHON_REQUIREMENTS,
    PYTHON_REQUIREMENTS_CACHE,
)
from flinkpy.configuration import pipeline_options, read_option
from flinkpy.configuration.pipeline_options import CACHED_FILES

#: The attribute with the path of an artifact that the client uploads. The upload removes it from the JobGraph.
LOCAL_PATH = "local_path"

_ARCHIVE_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".jar")
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Artifact:
    path: str
    name: str
    kind: str
    attributes: tuple[tuple[str, str], ...] = ()


class UserArtifacts:
    """Collects the paths of files. `collect` reads their content."""

    def __init__(self) -> None:
        self._artifacts: list[_Artifact] = []

    def add_python_file(self, path: str) -> None:
        self._add(_Artifact(_existing(path), os.path.basename(os.path.normpath(path)), PYTHON_FILE))

    def remove_python_file(self, path: str) -> bool:
        """Takes back a file of `add_python_file`. Returns False if there is none with this path."""
        kept = [each for each in self._artifacts if each.kind != PYTHON_FILE or each.path != os.path.abspath(path)]
        is_removed = len(kept) < len(self._artifacts)
        self._artifacts = kept
        return is_removed

    def add_python_archive(self, path: str, target_dir: str | None) -> None:
        if not path.endswith(_ARCHIVE_ENDINGS):
            raise UserError(f"add_python_archive: {path!r} must end with one of {', '.join(_ARCHIVE_ENDINGS)}")
        attributes = (("target_dir", target_dir),) if target_dir else ()
        self._add(_Artifact(_existing(path), os.path.basename(path), PYTHON_ARCHIVE, attributes))

    def add_cached_file(self, path: str, name: str, executable: bool) -> None:
        path = _existing(path.removeprefix("file://"))
        attributes = [("executable", "true")] if executable else []
        if os.path.isdir(path):
            attributes.append(("directory", "true"))
        artifact = _Artifact(path, name, CACHED_FILE, tuple(attributes))
        if any(one.kind == CACHED_FILE and one.name == name and one != artifact for one in self._artifacts):
            raise UserError(f"register_cached_file: another file is registered as {name!r}")
        self._add(artifact)

    def set_requirements(self, path: str, packages: str | None) -> None:
        """Sets the requirements, and replaces those that were set before."""
        kinds = (PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE)
        self._artifacts = [one for one in self._artifacts if one.kind not in kinds]
        self._add(_Artifact(_existing(path), "requirements.txt", PYTHON_REQUIREMENTS))
        if packages is not None:
            directory = _existing(packages)
            if not os.path.isdir(directory):
                raise UserError(f"set_python_requirements: {packages!r} is not a directory of packages")
            self._add(_Artifact(directory, "packages", PYTHON_REQUIREMENTS_CACHE))

    def _add(self, artifact: _Artifact) -> None:
        if artifact not in self._artifacts:
            self._artifacts.append(artifact)

    def collect(self, configuration: Configuration) -> list[job_pb2.UserArtifact]:
        """Returns the artifacts with the SHA-256 of their present content.

        This includes the files of `pipeline.cached-files`, `python.files` and `python.archives`, and of
        `python.requirements` if the program has set no requirements.

        Raises: UnsupportedOperationError if `python.executable` is another interpreter; ConfigurationError.
        """
        check_python_executable(read_option(configuration, pipeline_options.PYTHON_EXECUTABLE))
        for name, path, is_executable in _cached_files(read_option(configuration, CACHED_FILES) or ""):
            if not any(one.kind == CACHED_FILE and one.name == name for one in self._artifacts):
                self.add_cached_file(path, name, is_executable)
        for path in _entries(read_option(configuration, pipeline_options.PYTHON_FILES) or ""):
            self.add_python_file(path)
        for entry in _entries(read_option(configuration, pipeline_options.PYTHON_ARCHIVES) or ""):
            path, _, target_dir = entry.partition("#")
            self.add_python_archive(path, target_dir or None)
        requirements = read_option(configuration, pipeline_options.PYTHON_REQUIREMENTS)
        if requirements and not any(one.kind == PYTHON_REQUIREMENTS for one in self._artifacts):
            path, _, packages = requirements.partition("#")
            self.set_requirements(path.strip(), packages.strip() or None)
        return [_described(artifact) for artifact in self._artifacts]


def check_python_executable(executable: str | None) -> None:
    """Raises: UnsupportedOperationError if it is not the interpreter that runs this program."""
    if executable is None or executable in ("python", "python3"):
        return
    if os.path.realpath(executable) != os.path.realpath(sys.executable):
        raise UnsupportedOperationError(
            f"set_python_executable({executable!r}): functions run inside the TaskExecutor processes; start the "
            "cluster with that interpreter instead"
        )


def read_artifact(artifact: job_pb2.UserArtifact) -> bytes:
    """Returns the content of an artifact that `UserArtifacts.collect` described."""
    path = artifact.attributes[LOCAL_PATH]
    if os.path.isdir(path):
        return _zipped(path, artifact.kind)
    with open(path, "rb") as file:
        return file.read()


def _described(artifact: _Artifact) -> job_pb2.UserArtifact:
    name = artifact.name
    if os.path.isdir(artifact.path):
        # Functions ask for a cached directory by its own name.
        name += "" if artifact.kind == CACHED_FILE else ".zip"
        digest = hashlib.sha256(_zipped(artifact.path, artifact.kind)).hexdigest()
    else:
        digest = _digest_of_file(artifact.path)
    attributes = {**dict(artifact.attributes), LOCAL_PATH: artifact.path}
    return job_pb2.UserArtifact(name=name, blob_key=digest, kind=artifact.kind, attributes=attributes)


def _digest_of_file(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _zipped(directory: str, kind: str) -> bytes:
    """Returns a zip of the content of a directory. For a Python package it contains the directory itself.

    The same files give the same bytes: it contains no times, and names are in order.
    """
    is_package = kind == PYTHON_FILE and os.path.isfile(os.path.join(directory, "__init__.py"))
    root = os.path.dirname(directory) if is_package else directory
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files_in(directory):
            member = zipfile.ZipInfo(os.path.relpath(path, root))
            member.external_attr = stat.S_IMODE(os.stat(path).st_mode) << 16
            with open(path, "rb") as file:
                archive.writestr(member, file.read(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _files_in(directory: str) -> list[str]:
    found: list[str] = []
    for parent, names, files in os.walk(directory):
        names[:] = [name for name in names if name != "__pycache__"]
        found.extend(os.path.join(parent, name) for name in files)
    return sorted(found)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _cached_files(text: str) -> list[tuple[str, str, bool]]:
    """Returns (name, path, is executable) of each entry. Raises: ConfigurationError, which names the entry."""
    files = []
    for entry in filter(None, map(str.strip, text.split(";"))):
        fields = dict(field.strip().partition(":")[::2] for field in entry.split(","))
        name, path = (fields.pop(key, "").strip().strip("`'\"") for key in ("name", "path"))
        is_executable = fields.pop("executable", "false").strip().lower()
        if not name or not path or fields or is_executable not in ("true", "false"):
            raise ConfigurationError(
                f"{CACHED_FILES.key}: {entry!r} must be name:NAME,path:PATH, with or without executable:true"
            )
        files.append((name, path, is_executable == "true"))
    return files


def _existing(path: str) -> str:
    absolute = os.path.abspath(os.path.expanduser(path))
    if not os.path.exists(absolute):
        raise InputNotFoundError(f"{path}: no such file or directory", details={"file": path})
    return absolute
