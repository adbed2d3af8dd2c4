"""The user's modules in the JobMaster: coordinators are unpickled here, so their code must be importable here.

One JobMaster process runs one job: what is put on the import path stays until the process ends.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from flinkpy._proto import job_pb2
from flinkpy.common.errors import ExternalError, UserError

#: Yields the content of a blob key in chunks.
FetchBlob = Callable[[str], AsyncIterator[bytes]]

_IMPORTABLE_ARCHIVES = (".zip", ".egg", ".whl")


def add_to_import_path(directories: Iterable[str]) -> None:
    """Before everything else, as Python does with a script's own directory. Those not on this host are left out."""
    for directory in reversed([entry for entry in directories if os.path.exists(entry)]):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    importlib.invalidate_caches()


async def fetch_artifacts(
    artifacts: Iterable[job_pb2.UserArtifact], directory: Path, fetch_blob: FetchBlob
) -> list[str]:
    """Fetch the job's Python files and archives; returns what belongs on the import path. Cached files are for tasks.

    Raises: ExternalError (a blob is missing or damaged), UserError (an archive is broken).
    """
    entries: list[str] = []
    for artifact in artifacts:
        if artifact.kind == "CACHED_FILE":
            continue
        path = directory / artifact.blob_key[:16] / os.path.basename(artifact.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        await _fetch(artifact, path, fetch_blob)
        if artifact.kind == "PYTHON_ARCHIVE":
            target = path.parent / "unpacked"
            _unpack(path, target)
            entries.append(str(target))
        else:
            entries.append(str(path if path.suffix in _IMPORTABLE_ARCHIVES else path.parent))
    return entries


async def _fetch(artifact: job_pb2.UserArtifact, path: Path, fetch_blob: FetchBlob) -> None:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        async for chunk in fetch_blob(artifact.blob_key):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != artifact.blob_key:
        path.unlink()
        raise ExternalError(f"the BlobServer sent {artifact.name!r} damaged")


def _unpack(archive: Path, target: Path) -> None:
    target.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(target)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise UserError(f"cannot unpack the archive {archive.name!r}: {error}") from error
