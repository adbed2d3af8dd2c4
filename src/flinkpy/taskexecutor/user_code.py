"""UserCode: the files a job brought, fetched from the BlobServer, and what they mean for imports.

```
<working directory>/<job id>/files/<blob key>/<name>     PYTHON_FILE; importable: a .py by its directory, else itself
                            /archives/<target>/...       PYTHON_ARCHIVE, unpacked
                            /cache/<name>                CACHED_FILE
```

Everything is fetched once per job and process, checked against its SHA-256, and removed with the job.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager, PyFlink's dependency handling.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.errors import ExternalError, FlinkError, UserError
from flinkpy.taskexecutor.python_path import PythonPath

logger = logging.getLogger(__name__)

#: `fetch(blob_key)`: yields the content in chunks.
FetchBlob = Callable[[str], AsyncIterator[bytes]]

_ARCHIVE_SUFFIXES = (".zip", ".egg", ".whl")


class UserCode:
    """Files and import path of one job. Thread: main thread, but for `check_modules`."""

    def __init__(
        self,
        job: taskexecutor_pb2.JobInformation,
        directory: Path,
        python_path: PythonPath,
        fetch_blob: FetchBlob,
    ) -> None:
        self._job = job
        self._directory = directory
        self._python_path = python_path
        self._fetch_blob = fetch_blob
        self._acquired: tuple[str, ...] = ()
        self._is_closed = False
        #: Paths of the job's cached files by name.
        self.cached_files: dict[str, str] = {}

    async def prepare(self) -> None:
        """Fetch and unpack what the job brought and put it on the import path.

        Raises: ExternalError (a blob could not be had), UserError (an archive is broken), UnsupportedOperationError
        (see PythonPath).
        """
        entries = []
        for artifact in self._job.artifacts:
            path = self._target(artifact)
            path.parent.mkdir(parents=True, exist_ok=True)
            await _fetch(artifact, path, self._fetch_blob)
            if artifact.kind == "PYTHON_ARCHIVE":
                await asyncio.to_thread(_unpack, path, self._archive_target(artifact))
            elif artifact.kind == "CACHED_FILE":
                self.cached_files[artifact.name] = str(path)
            else:
                entries.append(str(path if path.suffix in _ARCHIVE_SUFFIXES else path.parent))
        if self._is_closed:  # the job left while we fetched
            self._remove_files()
            return
        self._acquired = self._python_path.acquire([*entries, *self._job.python_path])

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
        name = os.path.basename(artifact.name)
        if name in ("", ".", "..") or not artifact.blob_key.isalnum():
            raise UserError(f"artifact {artifact.name!r} has no usable name or key")
        if artifact.kind == "CACHED_FILE":
            return self._directory / "cache" / name
        # A directory per blob: two files of one name may be shipped, and each `.py` is found by its directory.
        return self._directory / "files" / artifact.blob_key[:16] / name

    def _archive_target(self, artifact: job_pb2.UserArtifact) -> Path:
        root = self._directory / "archives"
        target = root / (artifact.attributes.get("target_dir") or os.path.basename(artifact.name))
        if not target.resolve().is_relative_to(root.resolve()):
            raise UserError(f"archive {artifact.name!r}: its target directory leaves the job's directory")
        return target


async def _fetch(artifact: job_pb2.UserArtifact, path: Path, fetch_blob: FetchBlob) -> None:
    digest = hashlib.sha256()
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            async for chunk in fetch_blob(artifact.blob_key):
                digest.update(chunk)
                file.write(chunk)
    except FlinkError as error:
        raise ExternalError(f"cannot fetch {artifact.name!r} of the job from the BlobServer: {error}") from error
    if digest.hexdigest() != artifact.blob_key:
        part.unlink()
        raise ExternalError(
            f"the BlobServer sent {artifact.name!r} damaged: SHA-256 {digest.hexdigest()}, not {artifact.blob_key}"
        )
    part.rename(path)


def _unpack(archive: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(target)  # zipfile itself drops absolute paths and ".."
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise UserError(f"cannot unpack the archive {archive.name!r}: {error}") from error
