"""UserCode: the files a job brought, fetched from the BlobServer, and what they mean for imports.

```
<working directory>/<job id>/files/<blob key>/<name>     PYTHON_FILE; importable: a .py by its directory, a zip unpacked
                            /cache/<blob key>/<name>     CACHED_FILE; a directory travels as a zip
```

Everything is fetched once per job and process, checked against its SHA-256, and removed with the job. Requirements and
archives are the `ProcessEnvironment`'s business.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager, PyFlink's dependency handling.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from pathlib import Path

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.python_environment import CACHED_FILE, ENVIRONMENT_KINDS
from flinkpy.common.safe_paths import safe_join
from flinkpy.common.user_files import FetchBlob, fetch_file, import_entry, unpack
from flinkpy.streaming.tasks.environment import ShippedFiles
from flinkpy.taskexecutor.process_environment import ProcessEnvironment
from flinkpy.taskexecutor.python_path import PythonPath

logger = logging.getLogger(__name__)


class UserCode:
    """Files and import path of one job. Thread: main thread, but for `check_modules`."""

    def __init__(
        self,
        job: taskexecutor_pb2.JobInformation,
        directory: Path,
        python_path: PythonPath,
        environment: ProcessEnvironment,
        fetch_blob: FetchBlob,
    ) -> None:
        self._job = job
        self._directory = directory
        self._python_path = python_path
        self._environment = environment
        self._fetch_blob = fetch_blob
        self._acquired: tuple[str, ...] = ()
        self._is_closed = False
        #: Paths of the job's cached files by name.
        self.cached_files: dict[str, str] = {}
        self.shipped_files = ShippedFiles()

    async def prepare(self) -> None:
        """Fetch and unpack what the job brought and put it on the import path.

        Raises: ExternalError (a blob could not be had), UserError (an archive is broken), UnsupportedOperationError
        (see PythonPath), and what `ProcessEnvironment.prepare` does.
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
        if self._is_closed:  # the job left while we fetched
            self._remove_files()
            return
        self.shipped_files = self._environment.shipped_files(entries)
        self._acquired = self._python_path.acquire([*entries, *self._job.python_path], shipped=entries)

    def check_modules(self) -> None:
        """Raises: UnsupportedOperationError where another job's module hides one of this job. Thread: any."""
        self._python_path.check_modules(self._acquired)

    def close(self) -> None:
        """Remove the files and take the job's entries off the import path. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._python_path.release(self._acquired)
        self._acquired = ()
        self._remove_files()

    def _remove_files(self) -> None:
        if self._directory.exists():
            shutil.rmtree(self._directory, ignore_errors=True)

    def _target(self, artifact: job_pb2.UserArtifact) -> Path:
        # A directory per blob: two files of one name may be shipped, and each `.py` is found by its directory.
        part = "cache" if artifact.kind == CACHED_FILE else "files"
        return safe_join(self._directory, part, artifact.blob_key[:16], os.path.basename(artifact.name))


def _cached(path: Path, artifact: job_pb2.UserArtifact) -> Path:
    """The file or directory that functions are given."""
    if artifact.attributes.get("directory") == "true":
        archive = path.rename(path.with_name(f"{path.name}.zip"))
        unpack(archive, path)
        archive.unlink()
    elif artifact.attributes.get("executable") == "true":
        path.chmod(0o700)
    return path
