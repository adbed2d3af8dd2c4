"""Opening input files, plain or compressed, with errors that name them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

from flinkpy.common.errors import InputNotFoundError, UnsupportedOperationError


def _open_zstd(path: str) -> BinaryIO:
    import pyarrow as pa

    return cast(BinaryIO, pa.input_stream(path, compression="zstd"))


class _DeflateFile(io.RawIOBase):
    """A zlib stream (`.deflate`) as a file."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed in close()
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


#: Flink's StandardDeCompressors: by the end of the name.
_DECOMPRESSORS: dict[str, Callable[[str], BinaryIO]] = {
    ".gz": lambda path: cast(BinaryIO, gzip.GzipFile(path)),
    ".gzip": lambda path: cast(BinaryIO, gzip.GzipFile(path)),
    ".bz2": lambda path: cast(BinaryIO, bz2.BZ2File(path)),
    ".xz": lambda path: cast(BinaryIO, lzma.LZMAFile(path)),  # noqa: SIM115 - the caller closes it
    ".zst": _open_zstd,
    ".deflate": lambda path: cast(BinaryIO, io.BufferedReader(_DeflateFile(path))),
}

#: What a damaged compressed file raises while it is read.
DECOMPRESSION_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)


def is_compressed(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _DECOMPRESSORS


def open_input(path: str) -> BinaryIO:
    """The file's content, decompressed where its name says that it is compressed.

    Raises:
        InputNotFoundError: the file is missing or may not be read.
    """
    try:
        if is_compressed(path):
            return _DECOMPRESSORS[os.path.splitext(path)[1].lower()](path)
        return open(path, "rb")
    except OSError as error:
        raise not_found_error(path, error) from error


def not_found_error(path: str, error: OSError) -> InputNotFoundError:
    reason = error.strerror or str(error)
    return InputNotFoundError(f"input {path}: {reason}", details={"path": path})


def local_path(path: str) -> str:
    """The absolute local path of a path or `file:` URI, so that it means the same in every process.

    Raises:
        UnsupportedOperationError: the scheme is another one.
    """
    path = os.fspath(path)
    scheme, separator, rest = path.partition("://")
    if separator:
        if scheme != "file":
            raise UnsupportedOperationError(
                f"{path}: flinkpy reads and writes files that every process sees under the same path "
                f"(local disk or a network mount), not {scheme}://"
            )
        path = rest
    elif path.startswith("file:"):
        path = path.removeprefix("file:")
    return os.path.abspath(path)
