"""UserCode: the files, packages and archives of a job, fetched from the BlobServer.

```
<working directory>/<job id>/files/<blob key>/<name>     PYTHON_FILE; importable: a .py by its directory, a zip unpacked
                            /cache/<blob key>/<name>     CACHED_FILE; a directory is sent as a zip
```

Files are fetched once per job and process, verified by their SHA-256 and removed with the job. `ProcessEnvironment`
handles requirements and archives.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager, PyFlink's dependency handling.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import logging
import os
import pickle
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.errors import SlotAllocationError, UnsupportedOperationError
from flinkpy.common.python_environment import (
    CACHED_FILE,
    ENVIRONMENT_KINDS,
    PYTHON_ARCHIVE,
    PYTHON_REQUIREMENTS,
    PYTHON_REQUIREMENTS_CACHE,
    InstalledEnvironment,
    check_loaded_packages,
    environment_profile,
    install,
)
from flinkpy.common.python_path import PythonPath, RefusedModules, modules_in
from flinkpy.common.safe_paths import safe_join, safe_join_below
from flinkpy.common.user_files import FetchBlob, fetch_file, import_entry, unpack
from flinkpy.graph.spark_region import SPARK_TASK
from flinkpy.streaming.tasks.environment import ShippedFiles
from flinkpy.taskexecutor.local_state_store import LocalStateStore

logger = logging.getLogger(__name__)


class ProcessEnvironment:
    """The Python packages and archives of this process. Thread: main thread.

    A process has one set of packages and one working directory, and cannot unload imported packages. So a TaskExecutor
    serves one environment: that of the first job it runs. That is either the cluster's own, for plain jobs, or that of
    jobs with exactly the same requirements and archives. For other jobs it must restart (docs/decisions/0013). The
    ResourceManager takes care of that; this class checks it.

    Args:
        directory: the directory of fetched files; created when needed.
        root: the directory of the environments of this host.
    """

    def __init__(self, directory: Path, root: Path) -> None:
        self._directory = directory
        self._root = root
        #: The resource profile that the process serves; None if it serves none yet.
        self.profile: str | None = None
        self._is_prepared = False
        self._lock = asyncio.Lock()
        self._installed: InstalledEnvironment | None = None

    def dedicate(self, profile: str) -> None:
        """Makes the process serve this profile. Raises: SlotAllocationError if it serves another one."""
        if self.profile is None:
            self.profile = profile
        elif self.profile != profile:
            raise SlotAllocationError(
                "this TaskExecutor has run jobs with other requirements or archives; it must be restarted for these"
            )

    async def prepare(self, artifacts: Iterable[job_pb2.UserArtifact], fetch_blob: FetchBlob) -> None:
        """Installs the packages and unpacks the archives into the working directory, once per process.

        Raises:
            PythonEnvironmentError: pip failed.
            UserError: an archive is broken.
            ExternalError: a blob cannot be fetched.
            SlotAllocationError: as `dedicate` does.
        """
        wanted = list(artifacts)
        profile = environment_profile(wanted)
        self.dedicate(profile)
        async with self._lock:
            if self._is_prepared or not profile:
                return
            shutil.rmtree(self._directory, ignore_errors=True)  # left by a failed attempt
            await self._unpack_archives([one for one in wanted if one.kind == PYTHON_ARCHIVE], fetch_blob)
            await self._install_requirements(wanted, fetch_blob)
            self._is_prepared = True

    def shipped_files(self, entries: Iterable[str]) -> ShippedFiles:
        """Returns the files that functions of a job see: its module directories and this environment."""
        installed = () if self._installed is None else (str(self._installed.path),)
        archives = self._directory / "archives"
        return ShippedFiles((*entries, *installed), str(archives) if archives.is_dir() else None)

    def close(self) -> None:
        """Releases the installed packages at the end of the process."""
        if self._installed is not None:
            self._installed.release()

    async def _unpack_archives(self, archives: list[job_pb2.UserArtifact], fetch_blob: FetchBlob) -> None:
        root = self._directory / "archives"
        for archive in archives:
            target = safe_join_below(root, archive.attributes.get("target_dir") or archive.name)
            path = safe_join(self._directory, "fetched", archive.blob_key, os.path.basename(archive.name))
            await fetch_file(archive.name, archive.blob_key, path, fetch_blob)
            await asyncio.to_thread(unpack, path, target)
            path.unlink()
        if archives:
            os.chdir(root)

    async def _install_requirements(self, artifacts: list[job_pb2.UserArtifact], fetch_blob: FetchBlob) -> None:
        paths: dict[str, Path] = {}
        for artifact in artifacts:
            if artifact.kind in (PYTHON_REQUIREMENTS, PYTHON_REQUIREMENTS_CACHE):
                path = paths[artifact.kind] = safe_join(
                    self._directory, "requirements", os.path.basename(artifact.name)
                )
                await fetch_file(artifact.name, artifact.blob_key, path, fetch_blob)
        if PYTHON_REQUIREMENTS not in paths:
            return
        packages = None
        if PYTHON_REQUIREMENTS_CACHE in paths:
            packages = self._directory / "requirements" / "packages"
            await asyncio.to_thread(unpack, paths[PYTHON_REQUIREMENTS_CACHE], packages)
        installed = await asyncio.to_thread(install, paths[PYTHON_REQUIREMENTS], packages, self._root)
        try:
            check_loaded_packages(installed.path)
        except BaseException:
            installed.release()
            raise
        self._installed = installed
        sys.path.insert(0, str(installed.path))
        importlib.invalidate_caches()


class _RefusingUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, refused: RefusedModules) -> None:
        super().__init__(file)
        self._refused = refused

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in self._refused.names:
            raise self._refused.error()
        return super().find_class(module, name)


def load_without(refused: RefusedModules, data: bytes) -> Any:
    """Unpickles. Raises: UnsupportedOperationError if an object is defined in one of the refused modules."""
    return _RefusingUnpickler(io.BytesIO(data), refused).load()


class UserCode:
    """The files, the import path and the local state copies of one job. Implements `JobUserCode`.

    Thread: main thread, except for `check_modules`.
    """

    is_ready = False

    def __init__(
        self,
        job: taskexecutor_pb2.JobInformation,
        directory: Path,
        python_path: PythonPath,
        environment: ProcessEnvironment,
        fetch_blob: FetchBlob,
        local_state: LocalStateStore,
    ) -> None:
        self._job = job
        self._directory = directory
        self._python_path = python_path
        self._environment = environment
        self._fetch_blob = fetch_blob
        self._acquired: tuple[str, ...] = ()
        #: The directories that the job imports from, and those of them that it has shipped.
        self._entries: list[str] = []
        self._shipped_entries: list[str] = []
        self._is_closed = False
        #: The paths of the job's cached files, by name.
        self.cached_files: dict[str, str] = {}
        self.shipped_files = ShippedFiles()
        #: Copies of the job's state on the disks of this host.
        self.local_state = local_state

    async def prepare(self) -> None:
        """Fetches and unpacks the files of the job and puts them on the import path.

        Raises:
            ExternalError: a blob cannot be fetched.
            UserError: an archive is broken.
            FlinkError: as `ProcessEnvironment.prepare` does.
        """
        await self._environment.prepare(self._job.artifacts, self._fetch_blob)
        entries = []
        for artifact in self._job.artifacts:
            if artifact.kind in ENVIRONMENT_KINDS:
                continue
            path = self._target(artifact)
            await fetch_file(artifact.name, artifact.blob_key, path, self._fetch_blob)
            if artifact.kind == CACHED_FILE:
                self.cached_files[artifact.name] = str(await asyncio.to_thread(_cached, path, artifact))
            else:
                entries.append(str(await asyncio.to_thread(import_entry, path)))
        if self._is_closed:  # the job was closed meanwhile
            self._remove_files()
            return
        self.shipped_files = self._environment.shipped_files(entries)
        self._shipped_entries, self._entries = entries, [*entries, *self._job.python_path]
        self.shipped_files = replace(self.shipped_files, import_path=self._python_path.path_of(self._entries))
        self._import_modules()

    def _import_modules(self) -> None:
        """Puts the modules of the job on the import path, unless another job uses others of the same name."""
        refused = None
        try:
            self._acquired = self._python_path.acquire(self._entries, shipped=self._shipped_entries)
        except UnsupportedOperationError as error:
            refused = RefusedModules(set().union(*map(modules_in, self._entries)), error.message)
        self.shipped_files = replace(self.shipped_files, refused_modules=refused)

    def refused_modules(self, vertex: job_pb2.JobVertex, *, has_remote_inputs: bool) -> RefusedModules | None:
        """Returns the modules that a task of this vertex cannot import; None if it can import all.

        Called after `prepare`, from any thread. A region in Spark needs none, because it has a process of its own. A
        native task needs none if its functions name none, and neither do the records of its producers. Those on other
        TaskExecutors may.

        Raises:
            UnsupportedOperationError: the task may need one of them.
        """
        refused = self.shipped_files.refused_modules
        if refused is None:
            return None
        pickles = [] if vertex.task_kind == SPARK_TASK else [operator.factory_pickle for operator in vertex.chain]
        for result in vertex.results:
            pickles += [result.partitioner_pickle, result.type_pickle]
        if has_remote_inputs or any(map(refused.are_named_in, pickles)):
            raise refused.error()
        return refused

    def check_modules(self) -> None:
        """Checks that no other job's module hides one of this job. Raises: UnsupportedOperationError. Thread: any."""
        self._python_path.check_modules(self._acquired)

    def close(self) -> None:
        """Removes the files, the state copies and the job's entries on the import path. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._python_path.release(self._acquired)
        self._acquired = ()
        self._remove_files()
        self.local_state.close()

    def _remove_files(self) -> None:
        if self._directory.exists():
            shutil.rmtree(self._directory, ignore_errors=True)

    def _target(self, artifact: job_pb2.UserArtifact) -> Path:
        # Each blob has a directory, because two files may have the same name, and a `.py` is found by its directory.
        part = "cache" if artifact.kind == CACHED_FILE else "files"
        return safe_join(self._directory, part, artifact.blob_key[:16], os.path.basename(artifact.name))


def _cached(path: Path, artifact: job_pb2.UserArtifact) -> Path:
    """Prepares a cached file or directory and returns its path."""
    if artifact.attributes.get("directory") == "true":
        archive = path.rename(path.with_name(f"{path.name}.zip"))
        unpack(archive, path)
        archive.unlink()
    elif artifact.attributes.get("executable") == "true":
        path.chmod(0o700)
    return path
