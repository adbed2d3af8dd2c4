"""PartFile: a file that is invisible to readers until it is complete.

It is written under a hidden name, `.PREFIX-<subtask>-<n>SUFFIX.inprogress.<job>-<attempt>`, forced to the disk, and
only then given its name. A name that is taken (by an earlier run into the same directory) is never overwritten: the
next free number is used.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import BinaryIO

from flinkpy.common.durable_file import sync_directory

#: One write to the file system is at least so large.
_BUFFER_BYTES = 1 << 20
#: What `link` answers on file systems that have no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class PartNaming:
    """The names of one subtask's files. Thread: any."""

    def __init__(self, prefix: str, suffix: str, subtask_index: int, job_id: str, attempt_number: int) -> None:
        self._stem = f"{prefix}-{subtask_index}"
        self._suffix = suffix
        self._job_id = job_id
        self._attempt_number = attempt_number

    def final_name(self, number: int) -> str:
        return f"{self._stem}-{number}{self._suffix}"

    def in_progress_name(self, number: int) -> str:
        return f".{self.final_name(number)}.inprogress.{self._job_id}-{self._attempt_number}"

    def remove_leftovers(self, base_path: str) -> None:
        """Delete what earlier attempts of this subtask could not (their process was killed)."""
        pattern = re.compile(
            rf"\.{re.escape(self._stem)}-\d+{re.escape(self._suffix)}\.inprogress\.{re.escape(self._job_id)}-(\d+)"
        )
        for directory, _, names in os.walk(base_path):
            for name in names:
                match = pattern.fullmatch(name)
                if match and int(match[1]) < self._attempt_number:
                    _unlink_if_there(os.path.join(directory, name))


class PartFile:
    """Thread: task thread.

    Args:
        directory: made if it is not there.
        number: the first one to try for the final name.
    """

    def __init__(self, directory: str, naming: PartNaming, number: int) -> None:
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._naming = naming
        self._number = number
        self._hidden_path = os.path.join(directory, naming.in_progress_name(number))
        self.file: BinaryIO = open(self._hidden_path, "wb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - owned

    @property
    def size_bytes(self) -> int:
        return self.file.tell()

    def commit(self) -> int:
        """Make the file visible and lasting; returns the number it got."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        while not self._publish(os.path.join(self._directory, self._naming.final_name(self._number))):
            self._number += 1
        sync_directory(Path(self._directory))
        return self._number

    def abort(self) -> None:
        """Leave nothing behind; may be called in any state."""
        try:
            self.file.close()
        finally:
            _unlink_if_there(self._hidden_path)

    def _publish(self, path: str) -> bool:
        """Give the file this name, if it is free."""
        try:
            os.link(self._hidden_path, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without links there is a gap between the two; only a second job into the same directory could use it.
            if os.path.lexists(path):
                return False
            os.rename(self._hidden_path, path)
            return True
        os.unlink(self._hidden_path)
        return True


def _unlink_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
