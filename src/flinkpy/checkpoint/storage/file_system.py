"""FileSystem: the file operations that checkpoints need, on local disks, HDFS and object stores.

A path is an absolute path of the local file system or a URI. All errors name the path.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from flinkpy.common.errors import CheckpointStorageError, CorruptStateError


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry of a directory. `size_bytes` is set for files. `modified_ms` is in ms since the epoch, if known."""

    name: str
    is_directory: bool
    size_bytes: int = 0
    modified_ms: int | None = None


class AtomicOutput(Protocol):
    """A file that appears atomically. The writer calls either `commit` or `abort`. `abort` is idempotent."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def commit(self) -> None:
        """Makes the file appear under its name, so that it survives a power failure. After an error no file exists."""
        ...

    def abort(self) -> None: ...


class FileSystem(Protocol):
    """A file system. Blocking. Thread: any. All methods raise CheckpointStorageError unless they say otherwise."""

    #: True if paths are paths of the operating system.
    is_local: bool

    def create(self, path: str, step_names: str) -> AtomicOutput:
        """Creates a file in an existing directory.

        Args:
            step_names: the prefix of the names of its failpoints.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """Opens a regular file. Sequential reads are fast; `seek` may be slow. Never waits for a writer.

        Raises: MissingFileError, CorruptStateError for anything that is not a regular file.
        """
        ...

    def size_bytes(self, path: str) -> int:
        """Returns the size of a regular file in bytes.

        Raises: MissingFileError, CorruptStateError for anything that is not a regular file.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[FileEntry]:
        """Returns the entries in the order of their names. Returns an empty list if there is no such directory."""
        ...

    def make_directories(self, directory: str) -> None:
        """Makes a directory and its parents, durably. It may exist already."""
        ...

    def delete_file(self, path: str) -> None:
        """Deletes a file. It may be missing."""
        ...

    def delete_file_below(self, root: str, path: str) -> None:
        """Deletes a file below `root`, which may be missing. Follows no symbolic links between `root` and the file."""
        ...

    def delete_directory(self, directory: str) -> None:
        """Deletes a directory with its content. It may be missing."""
        ...

    def delete_empty_directory(self, directory: str) -> None:
        """Deletes a directory if it is empty. It may be missing."""
        ...


class MissingFileError(CheckpointStorageError):
    """The file does not exist."""


def not_regular_error(path: str) -> CorruptStateError:
    """Returns the error for a path that is a directory, a pipe, a socket or a device."""
    return CorruptStateError(f"{path} is not a regular file, so it cannot be state", details={"path": path})


def storage_error(doing: str, path: str, error: BaseException) -> CheckpointStorageError:
    """Returns the typed error for an exception of the operating system or a library about `path`."""
    if isinstance(error, FileNotFoundError):
        return MissingFileError(f"cannot {doing} {path}: it does not exist", details={"path": path})
    reason = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = "the disk is full"
    elif isinstance(error, OSError) and error.errno is not None:
        reason = error.strerror or reason
    return CheckpointStorageError(f"cannot {doing} {path}: {reason}", details={"path": path})


def join(directory: str, *names: str) -> str:
    """Returns the path of an entry of a directory."""
    return "/".join([directory.rstrip("/") or ("" if directory.startswith("/") else directory), *names])


def parent_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def is_below(path: str, directory: str) -> bool:
    """True if the path is in the directory, at any depth. False for a path with `..`, which may leave it."""
    prefix = directory.rstrip("/") + "/"
    return path.startswith(prefix) and not {"", ".", ".."} & set(path[len(prefix) :].split("/"))
