"""LogFile: a file that takes whole records, and is rotated when it is full.

```
taskexecutor-1.log.7    the oldest that is kept
taskexecutor-1.log.8
taskexecutor-1.log      the one that is written, number 9 in this example
```

A full file gets the next number, and a new one takes its name. Numbers only grow, so a reader that remembers a number
and an offset finds its place again after any number of rotations.

The log of a service is the file of its standard error, so it also holds what native code and child processes write.
A rotation puts the new file behind the same descriptors. Every record is one call of `write`, which the kernel appends
as a whole: a process that is killed loses nothing that it has written, and no record is split between two files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import threading
from pathlib import Path

#: The next attempt after a rotation failed, e.g. because the directory is read-only, as a part of the maximum size.
_RETRY_PART = 10
#: Processes of one kind that may write logs of their own to one directory.
MAX_PROCESSES = 1_000
_NUMBERED = re.compile(r"\.(\d{1,9})")


class LogFile:
    """Writes records to descriptors of one file. Looks like a text stream to handlers. Thread: any.

    Args:
        path: the path of the file; None: it is not rotated, because it is no file of this process alone.
        descriptors: the descriptors of the file. The first one is written; a rotation renews all.
        max_bytes: the size from which the file is rotated; 0: never.
        max_files: the number of full files that are kept.
    """

    def __init__(
        self, path: Path | None, descriptors: tuple[int, ...], *, max_bytes: int = 0, max_files: int = 0
    ) -> None:
        self.path = path
        self._descriptors = descriptors
        self._max_bytes = max_bytes if path is not None else 0
        self._max_files = max_files
        self._lock = threading.Lock()
        self._size = os.fstat(descriptors[0]).st_size if self._max_bytes else 0
        self._rotate_at = self._max_bytes
        #: Records that could not be written, e.g. to a full disk, and have not been reported.
        self._lost = 0

    @classmethod
    def open(cls, path: Path, *, max_bytes: int, max_files: int, mode: int = 0o600) -> LogFile:
        """Opens a file of this process, with these permissions if it is new. Raises: OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path, (_open(path, mode)[0],), max_bytes=max_bytes, max_files=max_files)

    @classmethod
    def open_unused(cls, directory: Path, name: str, *, max_bytes: int, max_files: int, mode: int = 0o600) -> LogFile:
        """Opens `NAME.log`, or `NAME-2.log` and so on if other processes write those. Raises: OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        for number in range(1, MAX_PROCESSES + 1):
            path = directory / (f"{name}.log" if number == 1 else f"{name}-{number}.log")
            descriptor, is_locked = _open(path, mode)
            if is_locked:
                break
            os.close(descriptor)
        else:
            raise OSError(f"{MAX_PROCESSES} processes write logs with this name")
        return cls(path, (descriptor,), max_bytes=max_bytes, max_files=max_files)

    def write(self, text: str) -> None:
        """Appends whole lines. Text that cannot be written is counted, and reported by a later line."""
        with self._lock:
            if self._lost:
                text = f"({self._lost} records could not be written)\n{text}"
            data = text.encode(errors="backslashreplace")
            try:
                _write_all(self._descriptors[0], data)
            except OSError:
                self._lost += 1
                return
            self._lost = 0
            self._size += len(data)
            if self._max_bytes > 0 and self._size >= self._rotate_at:
                self._rotate_if_full()

    def flush(self) -> None:
        """Does nothing: `write` keeps nothing back."""

    def check_size(self) -> None:
        """Rotates the file if others than this object have filled it, e.g. native code."""
        if self._max_bytes:
            with self._lock:
                self._rotate_if_full()

    def close(self) -> None:
        """Closes the descriptors."""
        with self._lock:
            for descriptor in self._descriptors:
                os.close(descriptor)

    def _rotate_if_full(self) -> None:
        # The descriptors of standard output grow the file too.
        self._size = os.fstat(self._descriptors[0]).st_size
        if self._size < self._rotate_at:
            return
        try:
            self._rotate()
        except OSError:
            self._rotate_at = self._size + self._max_bytes // _RETRY_PART
        else:
            self._size, self._rotate_at = 0, self._max_bytes

    def _rotate(self) -> None:
        path = self.path
        assert path is not None
        numbers = rotated_numbers(path)
        full = None
        if _is_behind(self._descriptors[0], path):
            full = numbered(path, (numbers[-1] if numbers else 0) + 1)
            path.rename(full)
        try:
            descriptor, _ = _open(path, stat.S_IMODE(os.fstat(self._descriptors[0]).st_mode))
        except OSError:
            if full is not None:
                full.rename(path)
            raise
        for old in self._descriptors:
            os.dup2(descriptor, old, inheritable=os.get_inheritable(old))
        os.close(descriptor)
        for number in rotated_numbers(path)[: -self._max_files or None]:
            with contextlib.suppress(OSError):  # removed by someone else, or not ours to remove
                numbered(path, number).unlink()


def numbered(path: Path, number: int) -> Path:
    """Returns the path of a full file."""
    return path.with_name(f"{path.name}.{number}")


def rotated_numbers(path: Path) -> list[int]:
    """Returns the numbers of the full files of a log, from the oldest to the newest."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return []
    found = []
    for name in names:
        if name.startswith(path.name) and (match := _NUMBERED.fullmatch(name, len(path.name))):
            found.append(int(match[1]))
    return sorted(found)


def regular_file(link: str) -> Path | None:
    """Returns the file behind a descriptor, e.g. `/proc/self/fd/2`; None if that is no readable file, or removed."""
    try:
        facts = os.stat(link)
        path = Path(os.readlink(link)) if link.startswith("/proc/") else Path(link)
        is_there = stat.S_ISREG(facts.st_mode) and os.path.samestat(facts, path.stat()) and os.access(path, os.R_OK)
    except OSError:
        return None
    return path if is_there else None


def remove_oldest(directory: Path, prefix: str, max_logs: int) -> None:
    """Removes the logs with this prefix that were written longest ago, until `max_logs` are left.

    The log of a running process stays: the process holds a lock on it.
    """
    logs = []
    for path in directory.glob(f"{prefix}*.log"):
        with contextlib.suppress(OSError):
            logs.append((path.stat().st_mtime, path))
    logs.sort()
    for _, path in logs[: max(0, len(logs) - max_logs)]:
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for number in rotated_numbers(path):
                numbered(path, number).unlink()
            path.unlink()


def _open(path: Path, mode: int) -> tuple[int, bool]:
    """Opens a log for appending. Returns the descriptor, and False if another process writes the file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return descriptor, False
    except OSError:
        return descriptor, True  # a file system without locks
    return descriptor, True


def _is_behind(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
