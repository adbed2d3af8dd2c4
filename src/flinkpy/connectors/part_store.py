"""PartStore: stores the part files of a FileSink on a local file system or at a URI.

A part file is written under a hidden name and gets its final name when a checkpoint that contains it is complete. At a
URI an unfinished upload leaves nothing, so a file cannot be continued after a failure.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from flinkpy.checkpoint.storage.file_systems import process_file_systems
from flinkpy.common.durable_file import sync_directory, write_durably
from flinkpy.common.errors import CommitError, ConfigurationError, UnsupportedOperationError
from flinkpy.common.failpoints import failpoint
from flinkpy.connectors.part_file import HiddenFile, PartFile, PartNaming, make_directory, publish, unlink_if_there
from flinkpy.formats.input_files import is_remote

#: The write buffer of an upload, whose parts are collected in memory.
_BUFFER_BYTES = 1 << 20


class OpenPart(Protocol):
    """A hidden file that is being written. Thread: one at a time."""

    hidden_name: str
    final_name: str
    file: BinaryIO

    @property
    def size_bytes(self) -> int: ...

    def sync(self) -> int:
        """Forces written data to disk. Returns the length in bytes. Only for stores that can continue files."""
        ...

    def close(self) -> int:
        """Closes the file and makes it durable. Returns the length in bytes."""
        ...

    def abandon(self) -> None:
        """Closes the file but keeps it, because a checkpoint contains it."""
        ...

    def abort(self) -> None:
        """Deletes the file. May be called in any state."""
        ...


class PartStore(Protocol):
    """Creates and publishes part files. Names are relative to the bucket, buckets to the sink's path. Thread: any."""

    def create(
        self, bucket: str, hidden_name: str, final_name: str, continue_from: tuple[str, int] | None = None
    ) -> OpenPart:
        """Creates a hidden file.

        Args:
            continue_from: (hidden name in the same bucket, length) of a file whose beginning is copied into this one.
        """
        ...

    def publish(self, bucket: str, hidden_name: str, final_name: str) -> bool:
        """Gives a closed file its final name. Returns False if it already has it. Durable after `sync`.

        Raises:
            CommitError: the file does not exist, or another file has that name.
        """
        ...

    def delete(self, bucket: str, name: str) -> None:
        """Deletes a file if it exists."""
        ...

    def exists(self, bucket: str, name: str) -> bool: ...

    def sync(self, bucket: str) -> None:
        """Makes the names of created and published files in the bucket durable."""
        ...

    def hidden_files(self, naming: PartNaming) -> Iterator[tuple[str, HiddenFile]]:
        """Yields (bucket, file) for the hidden files of all subtasks and attempts of the job."""
        ...

    def name_of(self, bucket: str, name: str) -> str:
        """Returns the full name of a file, for errors."""
        ...

    # -- commits of batch jobs -----------------------------------------------------------------------------------

    def write(self, bucket: str, name: str, content: bytes) -> None:
        """Writes a small file durably and at once."""
        ...

    def read(self, bucket: str, name: str) -> bytes | None:
        """Returns the content of a file; None if it does not exist."""
        ...

    def replace(self, bucket: str, name: str, new_name: str) -> None:
        """Gives a file another name, even if another file has it. Does nothing if it does not exist."""
        ...

    def visible_files(self, bucket: str, is_recursive: bool) -> Iterator[tuple[str, str]]:
        """Yields (bucket, name) for the files of a bucket that readers see, possibly also of the buckets below it."""
        ...

    def hidden_names(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, int]]:
        """Yields (name, time of the last change in milliseconds) for files in the sink's path whose names match."""
        ...

    def has_directory(self, bucket: str) -> bool: ...


def is_visible(name: str) -> bool:
    """True if readers of a directory read files, or directories, of this name."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def part_store(base_path: str) -> PartStore:
    return RemotePartStore(base_path) if is_remote(base_path) else LocalPartStore(base_path)


class LocalPartStore:
    """Stores part files on a file system of the operating system."""

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def create(
        self, bucket: str, hidden_name: str, final_name: str, continue_from: tuple[str, int] | None = None
    ) -> PartFile:
        directory = make_directory(self._base_path, bucket)
        source = None if continue_from is None else (os.path.join(directory, continue_from[0]), continue_from[1])
        return PartFile(directory, hidden_name, final_name, source)

    def publish(self, bucket: str, hidden_name: str, final_name: str) -> bool:
        return publish(os.path.join(self._base_path, bucket), hidden_name, final_name)

    def delete(self, bucket: str, name: str) -> None:
        unlink_if_there(self.name_of(bucket, name))

    def exists(self, bucket: str, name: str) -> bool:
        return os.path.exists(self.name_of(bucket, name))

    def sync(self, bucket: str) -> None:
        sync_directory(Path(self._base_path, bucket))

    def hidden_files(self, naming: PartNaming) -> Iterator[tuple[str, HiddenFile]]:
        for directory, _, names in os.walk(self._base_path):
            bucket = os.path.relpath(directory, self._base_path)
            for name in names:
                found = naming.hidden_file_of_job(name)
                if found is not None:
                    yield ("" if bucket == "." else bucket), found

    def name_of(self, bucket: str, name: str) -> str:
        return os.path.join(self._base_path, bucket, name)

    def write(self, bucket: str, name: str, content: bytes) -> None:
        write_durably(Path(make_directory(self._base_path, bucket), name), content)

    def read(self, bucket: str, name: str) -> bytes | None:
        try:
            return Path(self.name_of(bucket, name)).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, bucket: str, name: str, new_name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.name_of(bucket, name), self.name_of(bucket, new_name))

    def visible_files(self, bucket: str, is_recursive: bool) -> Iterator[tuple[str, str]]:
        for directory, below, names in os.walk(os.path.join(self._base_path, bucket)):
            below[:] = [name for name in below if is_recursive and is_visible(name)]
            found = os.path.relpath(directory, self._base_path)
            for name in filter(is_visible, names):
                yield ("" if found == "." else found), name

    def hidden_names(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, int]]:
        with os.scandir(self._base_path) as entries:
            for entry in entries:
                if pattern.fullmatch(entry.name):
                    yield entry.name, entry.stat().st_mtime_ns // 1_000_000

    def has_directory(self, bucket: str) -> bool:
        return os.path.isdir(os.path.join(self._base_path, bucket))


class _Upload:
    """A file over an output stream of pyarrow. Format writers cannot close the stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._size_bytes = 0

    closed = False

    def write(self, data: Any) -> int:
        self._stream.write(data)
        size = memoryview(data).nbytes
        self._size_bytes += size
        return size

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        return

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        return


class RemotePart:
    """A hidden object at a URI. It exists from `close` on."""

    def __init__(self, arrow: Any, path: str, hidden_name: str, final_name: str) -> None:
        self.hidden_name = hidden_name
        self.final_name = final_name
        self._arrow = arrow
        self._path = path
        self._stream = arrow.open_output_stream(path, compression=None, buffer_size=_BUFFER_BYTES)
        self._upload = _Upload(self._stream)
        self.file = cast(BinaryIO, self._upload)

    @property
    def size_bytes(self) -> int:
        return self._upload.tell()

    def sync(self) -> int:
        raise UnsupportedOperationError(f"{self._path}: an upload is not durable before it is complete")

    def close(self) -> int:
        failpoint("file_sink.before_sync")
        self._stream.close()
        return self.size_bytes

    def abandon(self) -> None:
        self.abort()

    def abort(self) -> None:
        # pyarrow cannot abort an upload, so it is completed and deleted.
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._arrow.delete_file(self._path)


class RemotePartStore:
    """Stores part files at a URI.

    On an object store a file is published by a copy within the store, and the hidden object is deleted.

    Source: org.apache.flink.fs.s3.common.writer. Differs: an upload is completed at the checkpoint, and copied when the
    checkpoint is complete. Flink completes the upload then.
    """

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path
        try:
            file_system: Any = process_file_systems().of(base_path)
        except ConfigurationError as error:
            raise UnsupportedOperationError(str(error), details={"path": base_path}) from error
        self._file_system = file_system
        self._arrow = file_system.arrow

    def create(
        self, bucket: str, hidden_name: str, final_name: str, continue_from: tuple[str, int] | None = None
    ) -> RemotePart:
        if continue_from is not None:
            raise UnsupportedOperationError(
                f"{self.name_of(bucket, continue_from[0])} is at a URI and cannot be continued"
            )
        self._file_system.make_directories(self.name_of(bucket, "").rstrip("/"))
        return RemotePart(self._arrow, self._inner(bucket, hidden_name), hidden_name, final_name)

    def publish(self, bucket: str, hidden_name: str, final_name: str) -> bool:
        from pyarrow import fs

        hidden, final = self._inner(bucket, hidden_name), self._inner(bucket, final_name)
        failpoint("file_sink.before_link")
        hidden_info, final_info = self._arrow.get_file_info([hidden, final])
        if hidden_info.type == fs.FileType.NotFound:
            if final_info.type != fs.FileType.NotFound:
                return False
            path = self.name_of(bucket, hidden_name)
            raise CommitError(
                f"{path} is missing, and {self.name_of(bucket, final_name)} does not exist: the records of the part "
                "file are lost",
                details={"path": path},
            )
        if self._file_system.is_object_store:
            # After a failure before the deletion, the copy is made again with the same content.
            self._arrow.copy_file(hidden, final)
            failpoint("file_sink.before_unlink")
            self._arrow.delete_file(hidden)
        else:
            self._arrow.move(hidden, final)
        return True

    def delete(self, bucket: str, name: str) -> None:
        if self.exists(bucket, name):
            with contextlib.suppress(FileNotFoundError):
                self._arrow.delete_file(self._inner(bucket, name))

    def exists(self, bucket: str, name: str) -> bool:
        from pyarrow import fs

        return bool(self._arrow.get_file_info(self._inner(bucket, name)).type == fs.FileType.File)

    def sync(self, bucket: str) -> None:
        return  # objects are durable as soon as they exist

    def hidden_files(self, naming: PartNaming) -> Iterator[tuple[str, HiddenFile]]:
        from pyarrow import fs

        base = self._file_system.inner(self._base_path).strip("/")
        selector = fs.FileSelector(self._file_system.inner(self._base_path), recursive=True, allow_not_found=True)
        for info in self._arrow.get_file_info(selector):
            found = naming.hidden_file_of_job(info.base_name) if info.type == fs.FileType.File else None
            if found is not None:
                below = info.path.strip("/").removeprefix(base).strip("/")
                yield below.rpartition("/")[0], found

    def name_of(self, bucket: str, name: str) -> str:
        return "/".join(part for part in (self._base_path.rstrip("/"), bucket, name) if part)

    def _inner(self, bucket: str, name: str) -> str:
        return str(self._file_system.inner(self.name_of(bucket, name)))

    def write(self, bucket: str, name: str, content: bytes) -> None:
        self._file_system.make_directories(self.name_of(bucket, "").rstrip("/"))
        # Left by a commit that was interrupted. A rename on HDFS replaces no file.
        self.delete(bucket, name)
        output = self._file_system.create(self.name_of(bucket, name), "state_file")
        output.write(content)
        output.commit()

    def read(self, bucket: str, name: str) -> bytes | None:
        if not self.exists(bucket, name):
            return None
        with self._arrow.open_input_stream(self._inner(bucket, name)) as file:
            return bytes(file.read())

    def replace(self, bucket: str, name: str, new_name: str) -> None:
        if not self.exists(bucket, name):
            return
        source, target = self._inner(bucket, name), self._inner(bucket, new_name)
        if self._file_system.is_object_store:
            self._arrow.copy_file(source, target)
            self._arrow.delete_file(source)
        else:
            # A rename on HDFS replaces no file.
            self.delete(bucket, new_name)
            self._arrow.move(source, target)

    def visible_files(self, bucket: str, is_recursive: bool) -> Iterator[tuple[str, str]]:
        from pyarrow import fs

        base = self._file_system.inner(self._base_path).strip("/")
        directory = self._inner(bucket, "").rstrip("/")
        selector = fs.FileSelector(directory, recursive=is_recursive, allow_not_found=True)
        for info in self._arrow.get_file_info(selector):
            below = info.path.strip("/").removeprefix(base).strip("/")
            inside = below.removeprefix(bucket).strip("/")
            if info.type == fs.FileType.File and all(map(is_visible, inside.split("/"))):
                yield below.rpartition("/")[0], info.base_name

    def hidden_names(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, int]]:
        from pyarrow import fs

        for info in self._arrow.get_file_info(fs.FileSelector(self._inner("", "").rstrip("/"), allow_not_found=True)):
            if info.type == fs.FileType.File and info.mtime_ns is not None and pattern.fullmatch(info.base_name):
                yield info.base_name, info.mtime_ns // 1_000_000

    def has_directory(self, bucket: str) -> bool:
        from pyarrow import fs

        return bool(self._arrow.get_file_info(self._inner(bucket, "").rstrip("/")).type == fs.FileType.Directory)
