"""BlobStore: content-addressed files, and BlobServer, the endpoint that serves them.

The key of a blob is the SHA-256 of its content, so a blob never changes. Neither class knows jobs or unpickles
anything.

Source: org.apache.flink.runtime.blob.BlobServer.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TypeVar

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.durable_file import (
    UNFINISHED_SUFFIX,
    CorruptFileError,
    remove_unfinished,
    sync_directory,
    unfinished_path,
)
from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.safe_paths import safe_join
from flinkpy.rpc.server import CallContext

_KEY = re.compile(r"[0-9a-f]{64}")

#: The size of the pieces in which a blob is read.
CHUNK_BYTES = 256 * 1024


class BlobKeyError(UserError):
    """The text is not a blob key, which has 64 lower-case hex digits."""


class BlobNotFoundError(ExternalError):
    """The store has no blob with this key."""


class BlobTooLargeError(UserError):
    """The blob exceeds `flinkpy.blob.max-size`."""


class BlobStore:
    """The blobs in a directory. `is_shared`: other processes store blobs there, too. All methods block."""

    def __init__(self, directory: Path, max_blob_bytes: int, *, is_shared: bool = False) -> None:
        self._directory = directory
        self._max_blob_bytes = max_blob_bytes
        directory.mkdir(parents=True, exist_ok=True)
        if not is_shared:
            remove_unfinished(directory)

    def begin(self) -> BlobWriter:
        """Returns a writer for a new blob, which is stored by `finish`."""
        return BlobWriter(self._directory, self._max_blob_bytes)

    def put(self, content: bytes) -> str:
        """Stores `content` and returns its key."""
        with self.begin() as writer:
            writer.write(content)
            return writer.finish()

    def read(self, key: str) -> Iterator[bytes]:
        """Yields the content in pieces. Raises: BlobKeyError, BlobNotFoundError, CorruptFileError (after the last)."""
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
        """Returns the path of a blob, which need not exist. Raises: BlobKeyError."""
        if not _KEY.fullmatch(key):
            raise BlobKeyError(f"{key[:80]!r} is not a blob key", details={"key": key[:80]})
        return safe_join(self._directory, key)

    def remove_unused(self, used: Collection[str], not_before_s: float) -> list[str]:
        """Removes unused blobs and unfinished uploads older than `not_before_s`. Returns the keys of the blobs."""
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
    """One upload. As a context manager it removes an upload that was not finished."""

    def __init__(self, directory: Path, max_blob_bytes: int) -> None:
        self._directory = directory
        self._max_blob_bytes = max_blob_bytes
        self._path = unfinished_path(directory / "upload")
        self._file: IO[bytes] = open(self._path, "xb")  # noqa: SIM115 - closed by finish or __exit__
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def write(self, piece: bytes) -> None:
        """Appends a piece. Raises: BlobTooLargeError."""
        self._size_bytes += len(piece)
        if self._size_bytes > self._max_blob_bytes:
            raise BlobTooLargeError(
                f"the blob is larger than {self._max_blob_bytes} bytes (flinkpy.blob.max-size)",
                details={"option": "flinkpy.blob.max-size"},
            )
        self._digest.update(piece)
        self._file.write(piece)

    def finish(self) -> str:
        """Stores the blob durably and returns its key. Repeating an upload refreshes the age of the blob."""
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


T = TypeVar("T")

#: Uploads and downloads wait for the disk, not for each other.
MAX_IO_THREADS = 4


class BlobServer:
    """Serves `BlobServer` of dispatcher.proto."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._executor = ThreadPoolExecutor(MAX_IO_THREADS, thread_name_prefix="blob-io")

    async def put_blob(self, requests: AsyncIterator[pb.BlobChunk], context: CallContext) -> pb.BlobKey:
        """Stores the concatenated chunks; an upload that breaks off leaves nothing."""
        writer = self._store.begin()
        try:
            async for chunk in requests:
                await self._run(partial(writer.write, chunk.data))
            return pb.BlobKey(sha256=await self._run(writer.finish))
        finally:
            writer.abort()

    async def get_blob(self, request: pb.BlobKey, context: CallContext) -> AsyncIterator[pb.BlobChunk]:
        pieces = self._store.read(request.sha256)
        try:
            while (piece := await self._run(lambda: next(pieces, None))) is not None:
                yield pb.BlobChunk(data=piece)
        finally:
            await self._run(pieces.close)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._executor.shutdown(wait=True)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
