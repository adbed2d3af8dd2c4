"""ProcessEnvironment: what the requirements and archives of jobs have made of this process.

A process has one set of packages and one working directory, and what it has imported stays. So a TaskExecutor belongs
to one environment from the first job on that it runs: to that of plain jobs, which is the cluster's own, or to that of
jobs that bring the very same requirements and archives. For any other job it has to begin anew as a fresh process
(docs/decisions/0013). The ResourceManager sees to that; here it is only made sure.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from flinkpy._proto import job_pb2
from flinkpy.common.errors import SlotAllocationError
from flinkpy.common.python_environment import (
    PYTHON_ARCHIVE,
    PYTHON_REQUIREMENTS,
    PYTHON_REQUIREMENTS_CACHE,
    InstalledEnvironment,
    check_loaded_packages,
    environment_profile,
    install,
)
from flinkpy.common.safe_paths import safe_join, safe_join_below
from flinkpy.common.user_files import FetchBlob, fetch_file, unpack
from flinkpy.streaming.tasks.environment import ShippedFiles


class ProcessEnvironment:
    """Thread: main thread.

    Args:
        directory: for the files; made when they come.
        root: of the environments of this host.
    """

    def __init__(self, directory: Path, root: Path) -> None:
        self._directory = directory
        self._root = root
        #: What the process is dedicated to; None: to nothing yet.
        self.profile: str | None = None
        self._is_prepared = False
        self._lock = asyncio.Lock()
        self._installed: InstalledEnvironment | None = None

    def dedicate(self, profile: str) -> None:
        """Raises: SlotAllocationError where it is dedicated to another one."""
        if self.profile is None:
            self.profile = profile
        elif self.profile != profile:
            raise SlotAllocationError(
                "this TaskExecutor has run jobs with other requirements or archives, and must be started anew for these"
            )

    async def prepare(self, artifacts: Iterable[job_pb2.UserArtifact], fetch_blob: FetchBlob) -> None:
        """Make the packages importable, and the archives' content the working directory; once per process.

        Raises: PythonEnvironmentError (pip failed), UserError (an archive is broken), ExternalError (a blob could not
        be had), SlotAllocationError (as `dedicate`).
        """
        wanted = list(artifacts)
        profile = environment_profile(wanted)
        self.dedicate(profile)
        async with self._lock:
            if self._is_prepared or not profile:
                return
            shutil.rmtree(self._directory, ignore_errors=True)  # what a failed attempt left
            await self._unpack_archives([one for one in wanted if one.kind == PYTHON_ARCHIVE], fetch_blob)
            await self._install_requirements(wanted, fetch_blob)
            self._is_prepared = True

    def shipped_files(self, entries: Iterable[str]) -> ShippedFiles:
        """What functions of a job with these directories of modules see, this environment included."""
        installed = () if self._installed is None else (str(self._installed.path),)
        archives = self._directory / "archives"
        return ShippedFiles((*entries, *installed), str(archives) if archives.is_dir() else None)

    def close(self) -> None:
        """The process ends."""
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
