"""WorkingDirectory: the directory of a service process.

A configured directory belongs to the user and is kept. A temporary directory is removed when its process ends. If the
process is killed, the next process on the host removes it: each directory is locked while its process lives. All calls
block.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from pathlib import Path

from flinkpy.common.errors import ConfigurationError, PrivateDirectoryError
from flinkpy.common.private_directory import PrivateDirectory

_LOCK_NAME = ".lock"
_SUFFIX = re.compile(r"-[a-z0-9_]{8}")


class WorkingDirectory:
    """A working directory, which is locked from `open` to `close`."""

    def __init__(self, path: Path, lock: int, *, is_temporary: bool) -> None:
        self.path = path
        self._lock = lock
        self._is_temporary = is_temporary

    @classmethod
    def open(cls, configured: str | None, temporary_root: str | None, service: str) -> WorkingDirectory:
        """Opens the subdirectory for `service` in the configured directory, or a new temporary directory.

        Raises: ConfigurationError if the directory is unusable or another process uses it.
        """
        if configured is not None:
            path = Path(configured) / service
            try:
                Path(configured).mkdir(parents=True, exist_ok=True)
                with PrivateDirectory.make(Path(configured), service) as directory:
                    lock = _try_lock(directory)
            except (OSError, PrivateDirectoryError) as error:
                raise ConfigurationError(f"cannot use the working directory {path}: {error}") from error
            if lock is None:
                raise ConfigurationError(f"the working directory {path} is in use by another process")
            return cls(path, lock, is_temporary=False)
        root = Path(temporary_root or tempfile.gettempdir())
        prefix = f"flinkpy-{service}-{os.getuid()}"
        remove_abandoned(root, prefix)
        while True:
            try:
                path = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=root))
                with PrivateDirectory.open(root, path.name) as directory:
                    lock = _try_lock(directory)
            except FileNotFoundError:
                continue  # another process removed it before it was locked
            except OSError as error:
                raise ConfigurationError(f"cannot create a temporary directory in {root}: {error}") from error
            if lock is not None and _is_in_place(path, lock):
                return cls(path, lock, is_temporary=True)
            # Another starting process saw the directory before it was locked, and removed it as abandoned.
            if lock is not None:
                os.close(lock)

    def subdirectory(self, name: str, *, empty: bool = False) -> Path:
        """Returns a subdirectory; with `empty`, removes the files that an earlier process has left in it."""
        path = self.path / name
        if empty:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(exist_ok=True, mode=0o700)
        return path

    def close(self) -> None:
        """Releases the directory and removes it if it is temporary."""
        if self._is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(root: Path, prefix: str) -> None:
    """Removes the directories of killed processes: those without a lock. Skips the directories of other users."""
    for path in root.glob(f"{prefix}-*"):
        if not _SUFFIX.fullmatch(path.name.removeprefix(prefix)):
            continue
        try:
            with PrivateDirectory.open(root, path.name) as directory:
                # The process of a directory without a lock file may be about to create it.
                if _LOCK_NAME not in directory.names():
                    continue
                lock = _try_lock(directory)
                if lock is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(lock)
        except (OSError, PrivateDirectoryError):
            continue  # removed meanwhile, or owned by another user


def _is_in_place(directory: Path, lock: int) -> bool:
    """True if the locked file still exists in the directory; a removed file can be locked too."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(directory / _LOCK_NAME))
    except FileNotFoundError:
        return False


def _try_lock(directory: PrivateDirectory) -> int | None:
    descriptor = directory.open_file(_LOCK_NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
