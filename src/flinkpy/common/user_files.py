"""Fetches, verifies and unpacks the files of a job on the disk of a process.

Source: org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager, PyFlink's dependency handling.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from flinkpy.common.errors import ExternalError, FlinkError, UserError

#: `fetch(blob_key)` yields the content in chunks.
FetchBlob = Callable[[str], AsyncIterator[bytes]]

#: Archives that Python can import from without unpacking.
_IMPORTABLE_ARCHIVES = (".egg", ".whl")


async def fetch_file(name: str, blob_key: str, path: Path, fetch_blob: FetchBlob) -> None:
    """Fetches a blob and writes it atomically to `path`.

    Raises: ExternalError if it cannot be fetched, or if its hash does not match its key.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            async for chunk in fetch_blob(blob_key):
                digest.update(chunk)
                file.write(chunk)
    except FlinkError as error:
        raise ExternalError(f"cannot fetch {name!r} of the job from the BlobServer: {error}") from error
    if digest.hexdigest() != blob_key:
        part.unlink()
        raise ExternalError(f"the BlobServer sent {name!r} damaged: SHA-256 {digest.hexdigest()}, not {blob_key}")
    part.rename(path)


def unpack(archive: Path, target: Path) -> None:
    """Unpacks a zip or tar with its permissions. Blocking.

    Raises: UserError if the archive is damaged, or contains a path outside `target`.
    """
    target.mkdir(parents=True, exist_ok=True)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for member in zipped.infolist():
                    extracted = zipped.extract(member, target)  # drops absolute paths and ".."
                    permissions = stat.S_IMODE(member.external_attr >> 16)
                    if permissions and os.path.isfile(extracted):
                        os.chmod(extracted, permissions & 0o777)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise UserError(f"cannot unpack the archive {archive.name!r}: {error}") from error


def import_entry(path: Path) -> Path:
    """Returns the entry of a Python file for the import path. Blocking. Raises: UserError if a zip is damaged.

    A zip is a directory of the program. It is unpacked, so that modules find the files next to them.
    """
    if path.suffix == ".zip":
        directory = path.with_suffix("")
        unpack(path, directory)
        return directory
    return path if path.suffix in _IMPORTABLE_ARCHIVES else path.parent
