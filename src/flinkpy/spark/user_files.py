"""UserFiles: sends the files of a job to Spark's executors.

Executors on this host read them from the directories of the TaskExecutor. To other hosts Spark sends them under names
made from their content, so that jobs that share a session do not collide. flinkpy itself is sent too, so that the
executors have the same version.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import struct
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flinkpy
from flinkpy.graph.pickling import user_python_path
from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.worker_files import SPARK_FILE, WorkerFiles
from flinkpy.streaming.tasks.environment import ShippedFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "flinkpy"
#: The time of all entries in archives, so that equal files give equal archives.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAGIC_BYTES = 4
#: The flags of a compiled module that is not checked against its source (PEP 552).
_UNCHECKED = struct.pack("<IQ", 1, 0)


class UserFiles:
    """The files of one task."""

    def __init__(self, shipped: ShippedFiles, settings: SparkSettings) -> None:
        self._shipped = shipped
        self._is_local = settings.is_local

    def send(self, spark: Any, session: SparkSession, job: JobFacts) -> JobFacts:
        """Sends all files to the executors. Returns the job with the paths that they have there. Blocks.

        Args:
            spark: a RunningSpark, which knows the files that were sent before.
        """
        here = tuple(path for path in user_python_path() if path not in self._shipped.python_path)
        if self._is_local:
            files = WorkerFiles(job.job_id, (*self._shipped.python_path, *here))
            return replace(job, files=files)
        sender = _Sender(spark, session)
        sender.send_package()
        python_path = tuple(map(sender.directory, self._shipped.python_path))
        working_directory = self._shipped.working_directory
        files = WorkerFiles(
            job.job_id,
            # An executor ignores directories that it does not have.
            (*python_path, *here),
            None if working_directory is None else sender.directory(working_directory),
        )
        cached = {name: sender.file_or_directory(path) for name, path in job.cached_files.items()}
        return replace(job, files=files, cached_files=cached)


class _Sender:
    def __init__(self, spark: Any, session: Any) -> None:
        self._sent: set[str] = spark.sent
        self._session = session
        self._directory: Path = spark.files

    def send_package(self) -> None:
        """Makes flinkpy importable in every worker. It is sent once, because it does not change in this process."""
        if PACKAGE in self._sent:
            return
        home = Path(flinkpy.__file__).parent
        path = self._zip(PACKAGE, [(file, str(file.relative_to(home.parent))) for file in files_of(home)], True)
        self._session.addArtifacts(str(path), pyfile=True)
        self._sent.add(PACKAGE)

    def file_or_directory(self, path: str) -> str:
        return self.directory(path) if os.path.isdir(path) else self._file(path)

    def directory(self, path: str) -> str:
        home = Path(path)
        archive = self._zip("files", [(file, str(file.relative_to(home))) for file in files_of(home)])
        if archive.name not in self._sent:
            self._session.addArtifacts(f"{archive}#{archive.stem}", archive=True)
            self._sent.add(archive.name)
        return f"{SPARK_FILE}{archive.stem}"

    def _file(self, path: str) -> str:
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        name = f"{digest.hexdigest()[:16]}-{os.path.basename(path)}"
        if name not in self._sent:
            copy = self._directory / name
            shutil.copy(path, copy)
            self._session.addArtifacts(str(copy), file=True)
            self._sent.add(name)
        return f"{SPARK_FILE}{name}"

    def _zip(self, name: str, files: Iterable[tuple[Path, str]], is_package: bool = False) -> Path:
        """Returns a zip of files.

        Args:
            is_package: adds the compiled modules. Python does not keep compiled modules of an archive, so each worker
                would compile them again.
        """
        digest = hashlib.sha256()
        made = self._directory / f"{name}-{uuid.uuid4().hex}.making"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path, arcname in files:
                data = path.read_bytes()
                digest.update(f"{arcname}\0{len(data)}\0".encode())
                digest.update(data)
                entry = zip_entry(arcname)
                entry.external_attr = (path.stat().st_mode & 0o777) << 16
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED if is_package else None)
                if is_package and (compiled := compiled_module(path)) is not None:
                    archive.writestr(zip_entry(f"{arcname}c"), compiled, zipfile.ZIP_DEFLATED)
        return made.rename(self._directory / f"{name}-{digest.hexdigest()[:16]}.zip")


def zip_entry(name: str) -> zipfile.ZipInfo:
    """Returns an entry of an archive, which is compressed, and the same for equal files."""
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def files_of(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def compiled_module(path: Path) -> bytes | None:
    """Returns the compiled form of a module for an archive, valid whatever the time of the source in the archive is.

    Returns None if this source has not been compiled.
    """
    if path.suffix != ".py":
        return None
    try:
        data = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        source = path.stat()
    except OSError:
        return None
    made_of = struct.pack("<3I", 0, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    if data[: _MAGIC_BYTES + len(made_of)] != importlib.util.MAGIC_NUMBER + made_of:
        return None
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + data[_MAGIC_BYTES + len(made_of) :]
