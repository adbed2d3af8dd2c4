"""WorkingDirectory: where one service process keeps its files.

A configured directory belongs to the user and is kept; a temporary one is removed at the end, and where a process was
killed before it could, by the next one that starts on the host: every directory is locked while its process lives.
Blocking.
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
    """Locked from `open` to `close`."""

    def __init__(self, path: Path, lock: int, *, is_temporary: bool) -> None:
        self.path = path
        self._lock = lock
        self._is_temporary = is_temporary

    @classmethod
    def open(cls, configured: str | None, temporary_root: str | None, service: str) -> WorkingDirectory:
        """The configured directory's part for `service`, or a new temporary one.

        Raises: ConfigurationError where the directory cannot be used or another process uses it.
        """
        if configured is not None:
            path = Path(configured) / service
            try:
                Path(configured).mkdir(parents=True, exist_ok=True)
                with PrivateDirectory.make(Path(configured), service) as directory:
                    lock = _try_lock(directory)
            except (OSError, PrivateDirectoryError) as error:
                raise ConfigurationError(f"the working directory {path} cannot be used: {error}") from error
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
                continue  # removed before it was locked, as below
            except OSError as error:
                raise ConfigurationError(f"no temporary directory can be made in {root}: {error}") from error
            if lock is not None and _is_in_place(path, lock):
                return cls(path, lock, is_temporary=True)
            # Another process that starts found it before it was locked, and took it for abandoned.
            if lock is not None:
                os.close(lock)

    def subdirectory(self, name: str, *, empty: bool = False) -> Path:
        """A directory inside; with `empty`, without what a former life left in it."""
        path = self.path / name
        if empty:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(exist_ok=True, mode=0o700)
        return path

    def close(self) -> None:
        """Give the directory up, removing a temporary one."""
        if self._is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(root: Path, prefix: str) -> None:
    """Remove directories of processes that were killed. Those of living ones are locked; others' are not touched."""
    for path in root.glob(f"{prefix}-*"):
        if not _SUFFIX.fullmatch(path.name.removeprefix(prefix)):
            continue
        try:
            with PrivateDirectory.open(root, path.name) as directory:
                # Without a lock file its process may be just about to make one.
                if _LOCK_NAME not in directory.names():
                    continue
                lock = _try_lock(directory)
                if lock is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(lock)
        except (OSError, PrivateDirectoryError):
            continue  # gone meanwhile, or another user's


def _is_in_place(directory: Path, lock: int) -> bool:
    """Whether the locked file is still the one of that name: a file that was removed can be locked too."""
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
