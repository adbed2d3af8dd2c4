"""Opens input files, plain or compressed, local or remote, with errors that name the file.

A path is an absolute path of the local file system or a URI that fsspec supports (`s3://`, `gs://`, `hdfs://`, ...).
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, cast

from flinkpy.checkpoint.storage.file_systems import process_file_systems
from flinkpy.common.errors import ConfigurationError, InputNotFoundError, UnsupportedOperationError

#: Smallest read from a remote file.
READ_AHEAD_BYTES = 4 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class RandomAccessFile(Protocol):
    """Reads bytes by position. Thread: one at a time."""

    def read_at(self, size_bytes: int, offset: int) -> bytes:
        """Returns `size_bytes` bytes from `offset` on. It returns fewer only at the end of the file."""
        ...

    def close(self) -> None: ...


class _LocalFile:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, size_bytes: int, offset: int) -> bytes:
        data = os.pread(self._fd, size_bytes, offset)
        if len(data) == size_bytes or not data:
            return data
        # The kernel may return less than the file has: at most 2 GiB at a time, or after a signal.
        parts = [data]
        missing = size_bytes - len(data)
        while missing and data:
            data = os.pread(self._fd, missing, offset + size_bytes - missing)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _RemoteFile:
    """Reads a remote file ahead, because a small remote read takes as long as a large one."""

    def __init__(self, path: str) -> None:
        self._file = open_arrow_file(path)
        self._size_bytes = self._file.size()
        #: The data of the last read, and its offset.
        self._window = b""
        self._window_start = 0

    def read_at(self, size_bytes: int, offset: int) -> bytes:
        size_bytes = min(size_bytes, self._size_bytes - offset)
        if size_bytes <= 0:
            return b""
        start = offset - self._window_start
        if start < 0 or start + size_bytes > len(self._window):
            wanted = min(max(size_bytes, READ_AHEAD_BYTES), self._size_bytes - offset)
            self._window = self._file.read_at(wanted, offset)
            self._window_start, start = offset, 0
        return self._window[start : start + size_bytes]

    def close(self) -> None:
        self._window = b""
        self._file.close()


def is_remote(path: str) -> bool:
    """True for a URI. A URI of the local file system (`file:`) must have been converted by `input_path`."""
    return _SCHEME.match(path) is not None


def input_path(path: str) -> str:
    """Returns a name of the file or directory that is valid in all processes: an absolute local path, or the URI."""
    path = os.fspath(path)
    if is_remote(path) and not path.lower().startswith("file:"):
        return path.rstrip("/") if path.count("/") > 3 else path
    return local_path(path)


def open_random(path: str) -> RandomAccessFile:
    """Opens a file for reads by position. A compressed file is not decompressed.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
    """
    try:
        return _RemoteFile(path) if is_remote(path) else _LocalFile(path)
    except OSError as error:
        raise not_found_error(path, error) from error


def open_arrow_file(path: str) -> Any:
    """Opens a file as `pyarrow.NativeFile`. A compressed file is not decompressed.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
    """
    import pyarrow as pa

    try:
        if not is_remote(path):
            return pa.OSFile(path, "rb")
        arrow, inner = _arrow_file_system(path)
        return arrow.open_input_file(inner)
    except OSError as error:
        raise not_found_error(path, error) from error


def list_remote_files(path: str, is_visible: Callable[[str], bool]) -> list[tuple[str, int]]:
    """Returns (URI, size) of a file, or of the visible files below a directory, sorted by name.

    Raises:
        InputNotFoundError: the path is missing or cannot be read.
    """
    from pyarrow import fs

    try:
        arrow, inner = _arrow_file_system(path)
        info = arrow.get_file_info(inner)
        if info.type == fs.FileType.File:
            return [(path, info.size)]
        if info.type == fs.FileType.NotFound:
            raise InputNotFoundError(f"input {path}: it does not exist", details={"path": path})
        base = info.path.rstrip("/") + "/"
        found = []
        for entry in arrow.get_file_info(fs.FileSelector(inner, recursive=True)):
            below = entry.path.lstrip("/").removeprefix(base.lstrip("/"))
            if entry.type == fs.FileType.File and all(map(is_visible, below.split("/"))):
                found.append((f"{path.rstrip('/')}/{below}", entry.size))
        return sorted(found)
    except OSError as error:
        raise not_found_error(path, error) from error


def modified_ms(path: str) -> int:
    """Returns the time of the last change of a file, in milliseconds since 1970.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
    """
    try:
        if not is_remote(path):
            return os.stat(path).st_mtime_ns // 1_000_000
        arrow, inner = _arrow_file_system(path)
        modified_ns: int = arrow.get_file_info(inner).mtime_ns or 0
        return modified_ns // 1_000_000
    except OSError as error:
        raise not_found_error(path, error) from error


def _arrow_file_system(path: str) -> tuple[Any, str]:
    """Returns the `pyarrow.fs.FileSystem` of a path, and the path in it."""
    try:
        file_system: Any = process_file_systems().of(path)
    except ConfigurationError as error:
        raise UnsupportedOperationError(str(error), details={"path": path}) from error
    return file_system.arrow, file_system.inner(path)


def _sequential(path: str) -> BinaryIO:
    if is_remote(path):
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, open_arrow_file(path)), 1 << 20))
    return open(path, "rb")


def _open_zstd(file: BinaryIO) -> BinaryIO:
    import pyarrow as pa

    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


class _DeflateFile(io.RawIOBase):
    """Decompresses a zlib stream (`.deflate`) as a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = b""
        while not data and not self._decompressor.eof:
            compressed = self._decompressor.unconsumed_tail or self._file.read(io.DEFAULT_BUFFER_SIZE)
            if not compressed:
                break
            data = self._decompressor.decompress(compressed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


#: Decompressors by file extension, as in Flink's StandardDeCompressors.
_DECOMPRESSORS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    ".gzip": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    ".bz2": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
    ".xz": lambda file: cast(BinaryIO, lzma.LZMAFile(file)),  # noqa: SIM115 - the caller closes it
    ".zst": _open_zstd,
    ".deflate": lambda file: cast(BinaryIO, io.BufferedReader(_DeflateFile(file))),
}

#: Errors that reading a damaged compressed file raises.
DECOMPRESSION_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)


def is_compressed(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _DECOMPRESSORS


class _Decompressed(io.RawIOBase):
    """A decompressed file that also closes the compressed file."""

    def __init__(self, content: BinaryIO, file: BinaryIO) -> None:
        self._content = content
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._content.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._content.close()
            self._file.close()
        super().close()


def open_input(path: str) -> BinaryIO:
    """Opens a file for sequential reading. It is decompressed if its extension says that it is compressed.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
    """
    try:
        file = _sequential(path)
        if not is_compressed(path):
            return file
        content = _DECOMPRESSORS[os.path.splitext(path)[1].lower()](file)
        return cast(BinaryIO, _Decompressed(content, file))
    except OSError as error:
        raise not_found_error(path, error) from error


def not_found_error(path: str, error: OSError) -> InputNotFoundError:
    reason = error.strerror or str(error)
    return InputNotFoundError(f"input {path}: {reason}", details={"path": path})


def local_path(path: str) -> str:
    """Returns the absolute local path of a path or a `file:` URI, for use in all processes.

    Raises:
        UnsupportedOperationError: the URI has another scheme.
    """
    path = os.fspath(path)
    scheme, separator, rest = path.partition("://")
    if separator:
        if scheme != "file":
            raise UnsupportedOperationError(
                f"{path}: {scheme}:// is not supported here; use a path that all processes see (a local disk or a "
                "network mount)"
            )
        path = rest
    elif path.startswith("file:"):
        path = path.removeprefix("file:")
    return os.path.abspath(path)
