"""Leases: tell the directories of attempts that run from those that a dead process has left behind.

Each attempt has a directory below the configured staging directory. Usually it is removed with the attempt. If the
process of the attempt, its host or Spark's driver dies, it stays.

```
<staging directory>/<attempt>/_flinkpy_lease     written every minute while the attempt exists
                   /.flinkpy-cleaned             written by those who look for dead attempts
```

The next attempt with the same staging directory removes the directories of attempts whose lease was written too long
ago. Times are those of the file system, so the clocks of hosts do not matter. A directory without a lease is never
touched: it may belong to somebody else.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from flinkpy.logs.context import in_no_context

_LOG = logging.getLogger(__name__)

LEASE = "_flinkpy_lease"
_CLEANED = ".flinkpy-cleaned"
#: How often a lease is written. The smallest age of a dead attempt is many times this, so that an attempt on a busy or
#: suspended host is not taken for dead.
INTERVAL_S = 60.0
MIN_AGE_MS = 10 * int(INTERVAL_S * 1000)
#: How often a staging directory is looked through, as a part of the age.
_LOOKS_PER_AGE = 10


class StagingFiles(Protocol):
    """The file system of a staging directory. Paths are relative to that directory. All calls block."""

    def directories(self) -> Iterable[str]:
        """Returns the names of the directories in the staging directory."""
        ...

    def modified_ms(self, path: str) -> int | None:
        """Returns when a file was written, by the clock of the file system; None if there is none."""
        ...

    def touch(self, path: str) -> None:
        """Writes an empty file in a directory that exists."""
        ...

    def remove_directory(self, name: str) -> None: ...


class MountedStaging:
    """A staging directory in a file system of this host. Implements StagingFiles."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def directories(self) -> list[str]:
        return [entry.name for entry in os.scandir(self._directory) if entry.is_dir(follow_symlinks=False)]

    def modified_ms(self, path: str) -> int | None:
        try:
            return (self._directory / path).stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    def touch(self, path: str) -> None:
        # Writing, not `utime` with the clock of this host: a server sets the time of what it writes.
        with open(self._directory / path, "wb") as file:
            file.write(b"\n")

    def remove_directory(self, name: str) -> None:
        shutil.rmtree(self._directory / name)


def remove_dead_attempts(files: StagingFiles, max_age_ms: int, own: str) -> list[str]:
    """Removes the directories of attempts whose lease is older than `max_age_ms`. Returns their names.

    Does nothing if somebody else has looked a short time ago. A failure is logged, because nobody needs the files.

    Args:
        own: the attempt of the caller, whose lease has just been written: its time is the current time.
    """
    removed: list[str] = []
    try:
        now_ms = files.modified_ms(f"{own}/{LEASE}")
        looked_ms = files.modified_ms(_CLEANED)
        if now_ms is None or (looked_ms is not None and now_ms - looked_ms < max_age_ms / _LOOKS_PER_AGE):
            return removed
        files.touch(_CLEANED)
        for name in files.directories():
            written_ms = None if name == own else files.modified_ms(f"{name}/{LEASE}")
            if written_ms is not None and now_ms - written_ms > max_age_ms:
                files.remove_directory(name)
                removed.append(name)
    except Exception as error:  # noqa: BLE001 - the caller goes on without it
        _LOG.warning("files of dead attempts could not be removed: %s", error)
    if removed:
        _LOG.warning("removed what %d dead attempts had left behind: %s", len(removed), ", ".join(sorted(removed)))
    return removed


class LeaseKeeper:
    """Writes the leases of this process, on a thread that runs while there are any. Thread: any.

    Args:
        interval_s: the time between two writes of a lease.
    """

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._condition = threading.Condition()
        self._leases: dict[str, Callable[[], None]] = {}
        self._thread: threading.Thread | None = None

    def keep(self, name: str, write: Callable[[], None]) -> None:
        """Writes a lease now, and then regularly.

        Args:
            name: a name for `release` and for logs.
        """
        write()
        with self._condition:
            self._leases[name] = write
            if self._thread is None:
                self._thread = threading.Thread(target=in_no_context(self._run), name="staging-leases", daemon=True)
                self._thread.start()

    def release(self, name: str) -> None:
        """Ends a lease. Its file is not written after this returns. Idempotent."""
        with self._condition:
            self._leases.pop(name, None)
            self._condition.notify_all()

    def _run(self) -> None:
        with self._condition:
            while self._leases:
                if self._condition.wait_for(lambda: not self._leases, self._interval_s):
                    break
                for name, write in self._leases.items():
                    try:
                        write()
                    except Exception as error:  # noqa: BLE001 - the next write may succeed
                        _LOG.warning("the lease of %s could not be written: %s", name, error)
            self._thread = None


#: The leases of this process.
LEASES = LeaseKeeper()
