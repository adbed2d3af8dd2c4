"""Spill files: hold the records of an operator that do not fit in memory.

The files are in a directory of the task, inside the working directory of its process (`io.tmp.dirs`). The directory is
removed with the operator, at the latest with the task. The files of a killed process are removed by the next process
that starts on the host. The files are compressed with LZ4.

Source: org.apache.flink.runtime.io.disk.iomanager.IOManager.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from flinkpy.common.errors import SpillError
from flinkpy.state import pickling

_CODEC = "lz4"
#: The length of a block in the file, and its length after decompression.
_HEADER = struct.Struct("<QQ")
#: Smaller blocks are not compressed.
_LEAST_BYTES_TO_PACK = 1 << 10


class SpillDirectory:
    """Creates spill files, and their directory on first use. Thread: task thread.

    Attributes:
        path: the path of the directory; before it is created, the path of its parent.
        bytes_written: the bytes written to all files so far.
        num_files: the number of files created so far.
    """

    def __init__(self, path: Path, owner: str) -> None:
        """`path` is the parent of the directory. `owner` names the operator in errors."""
        self.path = path
        self._is_made = False
        self._written: set[BinaryIO] = set()
        self.owner = owner
        self.bytes_written = 0
        self.num_files = 0

    def column_file(self, schema: pa.Schema) -> ColumnSpillFile:
        return ColumnSpillFile(self, self._next_path(), schema)

    def row_file(self) -> RowSpillFile:
        return RowSpillFile(self, self._next_path())

    def _next_path(self) -> Path:
        if not self._is_made:
            with self.errors():
                self.path.mkdir(parents=True, exist_ok=True)
                self.path = Path(tempfile.mkdtemp(prefix="spill-", dir=self.path))
            self._is_made = True
        self.num_files += 1
        return self.path / f"{self.num_files:06d}.spill"

    def open_to_write(self, path: Path) -> BinaryIO:
        with self.errors():
            file = path.open("wb")
        self._written.add(file)
        return file

    def finish_writing(self, file: BinaryIO) -> None:
        self._written.discard(file)
        with self.errors():
            try:
                file.flush()
                self.bytes_written += file.tell()
            finally:
                file.close()

    def close(self) -> None:
        """Removes the directory, even if files have not been finished."""
        for file in self._written:
            # Flushing the buffer may fail because the disk is full. The data is no longer needed.
            with suppress(OSError):
                file.close()
        self._written.clear()
        if self._is_made:
            shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns OSErrors into SpillErrors: the disk is full, or a file cannot be read or written."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise SpillError(
                f"operator {self.owner} cannot spill its records to {self.path}: {reason}. Free disk space there, or "
                "set io.tmp.dirs to a directory with more space",
                details={"operator": self.owner, "directory": str(self.path)},
            ) from error


class ColumnSpillFile:
    """A file of RecordBatches of one schema. After it has been written, it can be read any number of times.

    Attributes:
        num_rows: the number of rows written.
        num_bytes: the size in memory of the batches written.
    """

    def __init__(self, directory: SpillDirectory, path: Path, schema: pa.Schema) -> None:
        self._directory = directory
        self._path = path
        self.schema = schema
        self.num_rows = 0
        self.num_bytes = 0
        self._file: BinaryIO | None = None
        self._writer: pa.RecordBatchWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        with self._directory.errors():
            if self._writer is None:
                self._file = self._directory.open_to_write(self._path)
                options = pa.ipc.IpcWriteOptions(compression=_CODEC)
                self._writer = pa.ipc.new_stream(self._file, self.schema, options=options)
            self._writer.write_batch(batch)
        self.num_rows += batch.num_rows
        self.num_bytes += batch.nbytes

    def finish(self) -> None:
        """Completes the file. `read` calls it."""
        writer, self._writer = self._writer, None
        file, self._file = self._file, None
        if writer is not None and file is not None:
            with self._directory.errors():
                writer.close()
            self._directory.finish_writing(file)

    def read(self) -> Iterator[pa.RecordBatch]:
        self.finish()
        if not self.num_rows:
            return
        with self._directory.errors(), pa.OSFile(str(self._path)) as file, pa.ipc.open_stream(file) as stream:
            yield from stream

    def delete(self) -> None:
        self.finish()
        self._path.unlink(missing_ok=True)


class RowSpillFile:
    """A file of pickled blocks. After it has been written, it can be read any number of times."""

    def __init__(self, directory: SpillDirectory, path: Path) -> None:
        self._directory = directory
        self._path = path
        self._file: BinaryIO | None = None
        self.num_blocks = 0

    def write(self, block: Any) -> None:
        """Writes a block: any object that can be pickled, of a few megabytes at most, because it is read as a whole."""
        data = pickling.dumps(block)
        length = len(data)
        packed = pa.compress(data, codec=_CODEC + "_raw", asbytes=True) if length > _LEAST_BYTES_TO_PACK else data
        if len(packed) >= length:
            packed = data
        if self._file is None:
            self._file = self._directory.open_to_write(self._path)
        with self._directory.errors():
            self._file.write(_HEADER.pack(len(packed), length))
            self._file.write(packed)
        self.num_blocks += 1

    def finish(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._directory.finish_writing(file)

    def read(self) -> Iterator[Any]:
        self.finish()
        if not self.num_blocks:
            return
        with self._directory.errors():
            file = self._path.open("rb")
        with file:
            for _ in range(self.num_blocks):
                with self._directory.errors():
                    packed_length, length = _HEADER.unpack(file.read(_HEADER.size))
                    data = file.read(packed_length)
                if packed_length != length:
                    data = pa.decompress(data, length, codec=_CODEC + "_raw", asbytes=True)
                yield pickling.loads(data)

    def delete(self) -> None:
        self.finish()
        self._path.unlink(missing_ok=True)
