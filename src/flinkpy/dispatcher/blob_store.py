"""BlobStore: content-addressed files. A blob's key is the SHA-256 of its content, so it never changes. Blocking.

Source: org.apache.flink.runtime.blob.BlobServer.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from flinkpy.common.durable_file import (
    UNFINISHED_SUFFIX,
    CorruptFileError,
    remove_unfinished,
    sync_directory,
    unfinished_path,
)
from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.safe_paths import safe_join

_KEY = re.compile(r"[0-9a-f]{64}")

#: Size of the pieces a blob is read in.
CHUNK_BYTES = 256 * 1024


class BlobKeyError(UserError):
    """Not a blob key: 64 lower-case hex digits are one."""


class BlobNotFoundError(ExternalError):
    pass


class BlobTooLargeError(UserError):
    """The blob exceeds `flinkpy.blob.max-size`."""


class BlobStore:
    """`is_shared`: other processes store blobs in the same directory."""

    def __init__(self, directory: Path, max_blob_bytes: int, *, is_shared: bool = False) -> None:
        self._directory = directory
        self._max_blob_bytes = max_blob_bytes
        directory.mkdir(parents=True, exist_ok=True)
        if not is_shared:
            remove_unfinished(directory)

    def begin(self) -> BlobWriter:
        """A writer; nothing is stored until it has finished."""
        return BlobWriter(self._directory, self._max_blob_bytes)

    def put(self, content: bytes) -> str:
        """Store `content`; returns its key."""
        with self.begin() as writer:
            writer.write(content)
            return writer.finish()

    def read(self, key: str) -> Iterator[bytes]:
        """The content in pieces. Raises: BlobKeyError, BlobNotFoundError; CorruptFileError after the last piece."""
        path = self.path(key)
        digest = hashlib.sha256()
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed by the with below
        except FileNotFoundError:
            raise BlobNotFoundError(f"there is no blob {key}", details={"key": key}) from None
        with file:
            while piece := file.read(CHUNK_BYTES):
                digest.update(piece)
                yield piece
        if digest.hexdigest() != key:
            raise CorruptFileError(f"blob {key} is damaged on disk: {path}", details={"path": str(path)})

    def get(self, key: str) -> bytes:
        return b"".join(self.read(key))

    def contains(self, key: str) -> bool:
        return self.path(key).exists()

    def path(self, key: str) -> Path:
        """Where the blob is or would be. Raises: BlobKeyError; what is no key never becomes part of a path."""
        if not _KEY.fullmatch(key):
            raise BlobKeyError(f"{key[:80]!r} is not a blob key", details={"key": key[:80]})
        return safe_join(self._directory, key)

    def remove_unused(self, used: Collection[str], not_before_s: float) -> list[str]:
        """Remove blobs not in `used` whose last upload is older than that time, and unfinished uploads that are;
        returns the keys of the blobs.
        """
        removed = []
        for path in self._directory.iterdir():
            is_blob = _KEY.fullmatch(path.name) is not None
            if path.name in used or not (is_blob or path.name.endswith(UNFINISHED_SUFFIX)):
                continue
            try:
                if path.stat().st_mtime < not_before_s:
                    path.unlink()
                    if is_blob:
                        removed.append(path.name)
            except FileNotFoundError:
                continue
        return removed


class BlobWriter:
    """One upload. A context manager: leaving it without `finish` leaves nothing behind."""

    def __init__(self, directory: Path, max_blob_bytes: int) -> None:
        self._directory = directory
        self._max_blob_bytes = max_blob_bytes
        self._path = unfinished_path(directory / "upload")
        self._file: IO[bytes] = open(self._path, "xb")  # noqa: SIM115 - closed by finish or __exit__
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def write(self, piece: bytes) -> None:
        """Raises: BlobTooLargeError."""
        self._size_bytes += len(piece)
        if self._size_bytes > self._max_blob_bytes:
            raise BlobTooLargeError(
                f"a blob may have {self._max_blob_bytes} bytes at most (flinkpy.blob.max-size)",
                details={"option": "flinkpy.blob.max-size"},
            )
        self._digest.update(piece)
        self._file.write(piece)

    def finish(self) -> str:
        """Make what was written durable; returns its key. Repeating an upload refreshes the blob's age."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        key = self._digest.hexdigest()
        os.replace(self._path, self._directory / key)
        sync_directory(self._directory)
        return key

    def abort(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abort()
