"""StateFileReader: reads the files of handles, and verifies that they are exactly what was written.

A file is read once for its checksum before the caller gets its first byte, with a buffer of fixed size.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import stat
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
#: The chunk size for remote files, where each chunk is a request.
_REMOTE_CHUNK_BYTES = 8 << 20
#: The number of verified files that are remembered, so that subtasks that share a file verify it once. When the limit
#: is reached, all of them are forgotten.
_MAX_VERIFIED = 4096


class StateFileReader:
    """Implements `flinkpy.state.checkpoint_streams.StateFiles`. Thread: any.

    Args:
        configuration: the configuration of the job; the configuration of the cluster supplies the other values.
        scratch_directory: for temporary copies of remote files; None: the temporary directory of the system.
        use_local: tries the copy on this host first (`handle.local_path`).
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

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        if never_changes and checks_itself and _has_linked_unread(handle, target):
            return
        try:
            with self.open(handle) as source:
                if never_changes and _has_linked(handle, source, target):
                    return
                self._copy(source, target)
        except OSError as error:
            target.unlink(missing_ok=True)
            raise storage_error("write", str(target), error) from error

    @staticmethod
    def _copy(source: BinaryIO, target: Path) -> None:
        with open(target, "wb", buffering=0) as file:
            while chunk := source.read(_CHUNK_BYTES):
                _write_all(file, chunk)

    def _local_copy(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO | None:
        if not self._use_local or not handle.local_path:
            return None
        try:
            return self._open_verified(handle.local_path, handle)
        except MissingFileError:
            return None
        except CorruptStateError as error:
            if "missing" not in error.details:
                logger.warning("%s; reading the file of the checkpoint instead", error)
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
        """Returns a temporary copy without a name, which disappears when it is closed."""
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
                    raise storage_error(f"store a copy in {tempfile.gettempdir()} of", path, error) from error
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


def _has_linked(handle: checkpoint_pb2.StreamStateHandle, verified: BinaryIO, target: Path) -> bool:
    """Makes `target` a hard link to the verified file, if that has a name on the same file system."""
    if handle.WhichOneof("location") != "path" or handle.compression:
        return False
    for name in filter(None, (handle.local_path, handle.path)):
        try:
            os.link(name, target)
        except OSError:
            continue
        if os.path.samestat(os.fstat(verified.fileno()), target.stat()):
            return True
        target.unlink()  # another file has this name
    return False


def _has_linked_unread(handle: checkpoint_pb2.StreamStateHandle, target: Path) -> bool:
    """Makes `target` a hard link to the file of the handle, if that is on the same file system and has its length."""
    if handle.WhichOneof("location") != "path" or handle.compression:
        return False
    try:
        os.link(handle.path, target, follow_symlinks=False)
        status = target.lstat()
    except OSError:
        return False
    if stat.S_ISREG(status.st_mode) and status.st_size == handle.size_bytes:
        return True
    target.unlink()
    return False


def _verified_data(handle: checkpoint_pb2.StreamStateHandle) -> bytes:
    check_digest("state inlined in the metadata", hashlib.sha256(handle.data).digest(), handle)
    return handle.data


def _path_of(handle: checkpoint_pb2.StreamStateHandle) -> str:
    if handle.WhichOneof("location") != "path":
        raise CorruptStateError(f"a state handle has no path: {handle.WhichOneof('location')}")
    return handle.path


def missing_error(path: str) -> CorruptStateError:
    return CorruptStateError(f"the state file {path} is missing", details={"path": path, "missing": "true"})


def check_size(path: str, size_bytes: int, handle: checkpoint_pb2.StreamStateHandle) -> None:
    """Checks the size of a file. Raises: CorruptStateError."""
    expected = handle.stored_size_bytes if handle.compression else handle.size_bytes
    if size_bytes != expected:
        raise CorruptStateError(
            f"{path} is damaged: it has {size_bytes:,} bytes, but {expected:,} were written", details={"path": path}
        )


def _digest_of(file: BinaryIO) -> bytes:
    """Returns the digest of the content from the current position on. Reads it in pieces."""
    return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]


def check_digest(path: str, digest: bytes, handle: checkpoint_pb2.StreamStateHandle) -> None:
    """Compares a digest with that of the handle. Raises: CorruptStateError."""
    if digest != handle.sha256:
        raise CorruptStateError(f"{path} is damaged: its checksum does not match its handle", details={"path": path})


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
