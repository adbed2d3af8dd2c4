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
import logging
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.errors import SlotAllocationError, UnsupportedOperationError
from flinkpy.common.job_modules import JobModules
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
from flinkpy.common.python_path import PythonPath
from flinkpy.common.safe_paths import safe_join, safe_join_below
from flinkpy.common.user_files import FetchBlob, fetch_file, import_entry, unpack
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


class UserCode:
    """The files, the import path and the local state copies of one job. Implements `JobUserCode`.

    Thread: main thread, except for `use_in_this_thread`.
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
        #: The modules of the job, if others of the same names belong to other jobs.
        self._modules: JobModules | None = None
        #: The directories that the job imports from.
        self._entries: list[str] = []
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
        self._entries = [*entries, *self._job.python_path]
        self.shipped_files = replace(self.shipped_files, import_path=self._python_path.path_of(self._entries))
        self._import_modules()

    def _import_modules(self) -> None:
        """Puts the modules of the job on the import path, or beside it if another job has others of the same name."""
        try:
            self._acquired = self._python_path.acquire(self._entries)
        except UnsupportedOperationError as error:
            logger.info("job %s gets modules of its own: %s", self._job.job_id, error.message)
            owner = f"{self._job.job_id}-{id(self)}"
            self._acquired, self._modules = self._python_path.acquire_isolated(owner, self._entries)

    def use_in_this_thread(self) -> None:
        """Makes the current thread import the modules of the job. Called after `prepare`. Thread: any.

        Raises: UnsupportedOperationError if another job has meanwhile loaded others, which did not exist before.
        """
        if self._modules is not None:
            self._modules.use()
        self._python_path.check_modules(self._acquired)

    def close(self) -> None:
        """Removes the files, the state copies and the job's entries on the import path. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._python_path.release(self._acquired)
        self._acquired = ()
        if self._modules is not None:
            self._modules.close()
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
