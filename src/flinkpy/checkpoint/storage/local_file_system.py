"""LocalFileSystem: the disks and mounted file systems of this host."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

from flinkpy.checkpoint.storage.file_system import FileEntry, MissingFileError, not_regular_error, storage_error
from flinkpy.common.durable_file import sync_directory, unfinished_path
from flinkpy.common.errors import PrivateDirectoryError
from flinkpy.common.failpoints import failpoint
from flinkpy.common.file_permissions import directory_mode, file_mode
from flinkpy.common.private_directory import delete_file_below


class LocalOutput:
    """A file that is being written. It is written under another name, synced and renamed; then its directory is synced.

    A failed fsync is not tried again. The kernel may have dropped the pages, so a second fsync could succeed without
    them.
    """

    def __init__(self, path: str, step_names: str) -> None:
        self._path = path
        self._steps = step_names
        self._unfinished = str(unfinished_path(Path(path)))
        self._file = -1
        try:
            failpoint(f"{step_names}.before_create")
            self._file = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_mode())
        except FileNotFoundError:
            raise MissingFileError(
                f"cannot write {path}: its directory does not exist. Either its checkpoint has been aborted, or this "
                "process does not see the directory that the JobMaster has made",
                details={"path": path},
            ) from None
        except OSError as error:
            raise storage_error("write", path, error) from error

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            failpoint(f"{self._steps}.before_write")
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.abort()
            raise storage_error("write", self._path, error) from error

    def commit(self) -> None:
        try:
            failpoint(f"{self._steps}.before_sync")
            os.fsync(self._file)
            self._close()
            failpoint(f"{self._steps}.before_rename")
            os.replace(self._unfinished, self._path)
        except OSError as error:
            self.abort()
            raise storage_error("write", self._path, error) from error
        try:
            failpoint(f"{self._steps}.before_directory_sync")
            sync_directory(Path(self._path).parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            raise storage_error("write", self._path, error) from error

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._close()
        with contextlib.suppress(OSError):
            os.unlink(self._unfinished)

    def _close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def open_regular(path: str) -> BinaryIO:
    """Opens a regular file for reading. Refuses pipes, devices and directories, and never waits for them.

    Raises: MissingFileError, CorruptStateError, CheckpointStorageError.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # The path is a socket, or a device without a driver.
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR):
            raise not_regular_error(path) from error
        raise storage_error("read", path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_regular_error(path)
    return open(descriptor, "rb")


class LocalFileSystem:
    """A FileSystem that uses the operating system."""

    is_local = True

    def create(self, path: str, step_names: str) -> LocalOutput:
        return LocalOutput(path, step_names)

    def open(self, path: str) -> BinaryIO:
        return open_regular(path)

    def size_bytes(self, path: str) -> int:
        try:
            status = os.stat(path)
        except OSError as error:
            raise storage_error("read", path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise not_regular_error(path)
        return status.st_size

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error("read", path, error) from error
        return True

    def list(self, directory: str) -> list[FileEntry]:
        entries = []
        try:
            with os.scandir(directory) as found:
                for entry in found:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # deleted meanwhile
                        continue
                    is_directory = entry.is_dir(follow_symlinks=False)
                    size = 0 if is_directory else status.st_size
                    entries.append(FileEntry(entry.name, is_directory, size, status.st_mtime_ns // 1_000_000))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error("list", directory, error) from error
        return sorted(entries, key=lambda entry: entry.name)

    def make_directories(self, directory: str) -> None:
        missing = []
        current = Path(directory)
        while not current.is_dir() and current != current.parent:
            missing.append(current)
            current = current.parent
        try:
            for path in reversed(missing):
                path.mkdir(mode=directory_mode(), exist_ok=True)
                sync_directory(path.parent)
        except OSError as error:
            raise storage_error("make directory", directory, error) from error

    def delete_file(self, path: str) -> None:
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error("delete", path, error) from error

    def delete_file_below(self, root: str, path: str) -> None:
        try:
            delete_file_below(Path(root), *path.removeprefix(root.rstrip("/") + "/").split("/"))
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, PrivateDirectoryError) as error:
            raise storage_error("delete", path, error) from error

    def delete_directory(self, directory: str) -> None:
        # A late writer may add a file meanwhile. Then another pass deletes it too.
        for is_last in (False, False, True):
            try:
                shutil.rmtree(directory)
                return
            except FileNotFoundError:
                if not os.path.lexists(directory):
                    return
            except OSError as error:
                if is_last or error.errno != errno.ENOTEMPTY:
                    raise storage_error("delete", directory, error) from error

    def delete_empty_directory(self, directory: str) -> None:
        try:
            os.rmdir(directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                raise storage_error("delete", directory, error) from error
