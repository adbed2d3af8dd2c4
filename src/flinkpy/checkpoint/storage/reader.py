"""StateFileReader: reads what handles point at, and nothing that is not exactly what was written.

A file is read through once for its checksum before its first byte is handed out, in one piece of memory of fixed size.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.storage.compression import open_compressed
from flinkpy.checkpoint.storage.file_system import MissingFileError, storage_error
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.checkpoint.storage.local_file_system import open_regular
from flinkpy.common.errors import CorruptStateError
from flinkpy.configuration.options import AnyConfiguration

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
#: Of a remote file: each piece is a request of its own.
_REMOTE_CHUNK_BYTES = 8 << 20
#: Files known to be whole, so that subtasks that share one do not each read it through; forgotten all at once.
_MAX_VERIFIED = 4096


class StateFileReader:
    """Implements `flinkpy.state.checkpoint_streams.StateFiles`. Thread: any.

    Args:
        configuration: of the job, with the cluster's beneath.
        scratch_directory: for copies of remote files while they are read; None: the system's.
        use_local: whether a copy on this host is tried first (`handle.local_path`).
    """

    def __init__(
        self,
        configuration: AnyConfiguration,
        file_systems: FileSystems | None = None,
        *,
        scratch_directory: Path | None = None,
        use_local: bool = True,
    ) -> None:
        self._file_systems = file_systems or FileSystems(configuration)
        self._scratch_directory = scratch_directory
        self._use_local = use_local
        self._verified: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        if handle.WhichOneof("location") == "data":
            return io.BytesIO(_verified_data(handle))
        local = self._local_copy(handle)
        if local is not None:
            return local
        path = _path_of(handle)
        if self._file_systems.of(path).is_local:
            return self._open_verified(path, handle)
        return self._downloaded(path, handle)

    def fetch(self, handle: checkpoint_pb2.StreamStateHandle, target: Path) -> None:
        try:
            with self.open(handle) as source, open(target, "wb", buffering=0) as file:
                while chunk := source.read(_CHUNK_BYTES):
                    _write_all(file, chunk)
        except OSError as error:
            target.unlink(missing_ok=True)
            raise storage_error("write", str(target), error) from error

    def _local_copy(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO | None:
        if not self._use_local or not handle.local_path:
            return None
        try:
            return self._open_verified(handle.local_path, handle)
        except MissingFileError:
            return None
        except CorruptStateError as error:
            if "missing" not in error.details:
                logger.warning("%s; the file of the checkpoint is read instead", error)
            return None

    def _open_verified(self, path: str, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        try:
            file = open_regular(path)
        except MissingFileError as error:
            raise missing_error(path) from error
        try:
            status = os.fstat(file.fileno())
            check_size(path, status.st_size, handle)
            identity = (path, status.st_ino, status.st_mtime_ns, status.st_size, handle.sha256)
            if handle.compression:
                file = open_compressed(file, handle.compression, handle.size_bytes, path)
            if identity not in self._verified:
                check_digest(path, _digest_of(file), handle)
                file.seek(0)
                with self._lock:
                    if len(self._verified) >= _MAX_VERIFIED:
                        self._verified.clear()
                    self._verified.add(identity)
        except OSError as error:
            file.close()
            raise storage_error("read", path, error) from error
        except BaseException:
            file.close()
            raise
        return file

    def _downloaded(self, path: str, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        """A copy without a name, which is gone when it is closed."""
        digest = hashlib.sha256()
        scratch = cast(BinaryIO, tempfile.TemporaryFile(dir=self._scratch_directory))  # noqa: SIM115
        size = 0
        try:
            for chunk in self._chunks(path):
                digest.update(chunk)
                size += len(chunk)
                try:
                    scratch.write(chunk)
                except OSError as error:
                    raise storage_error(f"keep a copy in {tempfile.gettempdir()} of", path, error) from error
            check_size(path, size, handle)
            scratch.seek(0)
            if handle.compression:
                scratch = open_compressed(scratch, handle.compression, handle.size_bytes, path)
                check_digest(path, _digest_of(scratch), handle)
                scratch.seek(0)
            else:
                check_digest(path, digest.digest(), handle)
        except BaseException:
            scratch.close()
            raise
        return scratch

    def _chunks(self, path: str) -> Iterator[bytes]:
        try:
            with self._file_systems.of(path).open(path) as file:
                while chunk := file.read(_REMOTE_CHUNK_BYTES):
                    yield chunk
        except MissingFileError as error:
            raise missing_error(path) from error
        except OSError as error:
            raise storage_error("read", path, error) from error


def _verified_data(handle: checkpoint_pb2.StreamStateHandle) -> bytes:
    check_digest("state inlined in the metadata", hashlib.sha256(handle.data).digest(), handle)
    return handle.data


def _path_of(handle: checkpoint_pb2.StreamStateHandle) -> str:
    if handle.WhichOneof("location") != "path":
        raise CorruptStateError(f"a state handle without a place: {handle.WhichOneof('location')}")
    return handle.path


def missing_error(path: str) -> CorruptStateError:
    return CorruptStateError(f"the state file {path} is missing", details={"path": path, "missing": "true"})


def check_size(path: str, size_bytes: int, handle: checkpoint_pb2.StreamStateHandle) -> None:
    """Of the file. Raises: CorruptStateError."""
    expected = handle.stored_size_bytes if handle.compression else handle.size_bytes
    if size_bytes != expected:
        raise CorruptStateError(
            f"{path} is damaged: it has {size_bytes:,} bytes where {expected:,} were written", details={"path": path}
        )


def _digest_of(file: BinaryIO) -> bytes:
    """Of the whole content, read in pieces from where it stands."""
    return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]


def check_digest(path: str, digest: bytes, handle: checkpoint_pb2.StreamStateHandle) -> None:
    """Raises: CorruptStateError."""
    if digest != handle.sha256:
        raise CorruptStateError(
            f"{path} is damaged: its checksum is not that of what was written", details={"path": path}
        )


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
