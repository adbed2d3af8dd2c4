"""FileSystem: the few operations that checkpoints need, the same for a local disk, HDFS and object stores.

A path is an absolute path of the local file system or a URI. Every error names the path it is about.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from flinkpy.common.errors import CheckpointStorageError, CorruptStateError


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a directory holds. `size_bytes` is of files; `modified_ms` (since the epoch) is None where unknown."""

    name: str
    is_directory: bool
    size_bytes: int = 0
    modified_ms: int | None = None


class AtomicOutput(Protocol):
    """A file that exists only when it is whole. Exactly one of the two ends is called; `abort` is idempotent."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def commit(self) -> None:
        """The file is there under its name and survives a power failure, or this raises and nothing is there."""
        ...

    def abort(self) -> None: ...


class FileSystem(Protocol):
    """Blocking. Thread: any. Every method raises CheckpointStorageError where nothing else is said."""

    #: Whether a path is one of the operating system's, so that a file can be opened by its name.
    is_local: bool

    def create(self, path: str, step_names: str) -> AtomicOutput:
        """A new file; the directory exists.

        Args:
            step_names: first part of the names of the failpoints that are passed.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """To be read in order; `seek` may be slow. Opens regular files only, and never waits for a writer.

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
        """By name; empty where there is no such directory."""
        ...

    def make_directories(self, directory: str) -> None:
        """With its parents; one that is there is fine. Survives a power failure."""
        ...

    def delete_file(self, path: str) -> None:
        """One that is not there is fine."""
        ...

    def delete_file_below(self, root: str, path: str) -> None:
        """`delete_file`, without following a symbolic link between `root` and the file. The path is below `root`."""
        ...

    def delete_directory(self, directory: str) -> None:
        """With everything in it; one that is not there is fine."""
        ...

    def delete_empty_directory(self, directory: str) -> None:
        """Returns without doing anything where something is in it, or there is no such directory."""
        ...


class MissingFileError(CheckpointStorageError):
    """There is no such file."""


def not_regular_error(path: str) -> CorruptStateError:
    """Returns the error for a path that is a directory, a pipe, a socket or a device."""
    return CorruptStateError(f"{path} is not a regular file, so it is no state", details={"path": path})


def storage_error(doing: str, path: str, error: BaseException) -> CheckpointStorageError:
    """What is raised for an operating system's or a library's error about `path`."""
    if isinstance(error, FileNotFoundError):
        return MissingFileError(f"cannot {doing} {path}: it does not exist", details={"path": path})
    reason = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno is not None:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else (error.strerror or reason)
    return CheckpointStorageError(f"cannot {doing} {path}: {reason}", details={"path": path})


def join(directory: str, *names: str) -> str:
    """The path of something in a directory."""
    return "/".join([directory.rstrip("/") or ("" if directory.startswith("/") else directory), *names])


def parent_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def is_below(path: str, directory: str) -> bool:
    """True if the directory holds it, at any depth. False for a path with `..`, which may lead out again."""
    prefix = directory.rstrip("/") + "/"
    return path.startswith(prefix) and not {"", ".", ".."} & set(path[len(prefix) :].split("/"))
