"""Diagnostics of a process: the stacks of its threads and its log files."""

from __future__ import annotations

import os
import stat
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flinkpy.common.errors import UserError

CHUNK_BYTES = 1 << 20

#: The files to which the shell or the supervisor redirected the output of this process.
_STANDARD_OUTPUT = "/proc/self/fd/1"
_STANDARD_ERROR = "/proc/self/fd/2"


def thread_stacks() -> list[tuple[str, str]]:
    """Returns the name and the stack of every Python thread of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        (names.get(ident, f"thread {ident}"), "".join(traceback.format_stack(frame)))
        for ident, frame in sys._current_frames().items()
    ]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file. Its name contains no directory."""

    name: str
    size_bytes: int
    modified_ms: int


class LogFiles:
    """The files of the log directory, and the files that this process logs to.

    Only these can be read, so no name leads elsewhere. Blocking.

    Args:
        directory: the log directory (`env.log.dir`), or None.
        standard_error, standard_output: the outputs of this process; tests use others.
    """

    def __init__(
        self,
        directory: str | None,
        standard_error: str = _STANDARD_ERROR,
        standard_output: str = _STANDARD_OUTPUT,
    ) -> None:
        self._directory = None if directory is None else Path(directory)
        self._standard_error = standard_error
        self._standard_output = standard_output

    @property
    def log_name(self) -> str | None:
        """The name of the file that this process logs to; None if it logs to a terminal or a pipe."""
        path = _regular_file(self._standard_error)
        return None if path is None else path.name

    @property
    def stdout_name(self) -> str | None:
        """The name of the file of its standard output; None if that is no file."""
        path = _regular_file(self._standard_output)
        return None if path is None else path.name

    def list(self) -> list[LogFile]:
        """Returns all files, by name."""
        files = []
        for path in self._paths().values():
            try:
                facts = path.stat()
            except OSError:
                continue  # removed meanwhile
            files.append(LogFile(path.name, facts.st_size, int(facts.st_mtime * 1000)))
        return sorted(files, key=lambda file: file.name)

    def path_of(self, name: str) -> Path | None:
        """Returns the path of a file in the list, or None if it is not there."""
        return self._paths().get(name)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Returns the content of a file in the list, in pieces: at most `length` bytes from `offset` on.

        Raises: UserError if the list does not contain it.
        """
        path = self.path_of(name)
        if path is None:
            raise UserError(f"there is no log file {name!r}", details={"name": name})
        return chunks_of(path, offset, length)

    def _paths(self) -> dict[str, Path]:
        found = {}
        if self._directory is not None and self._directory.is_dir():
            found = {path.name: path for path in self._directory.iterdir() if path.is_file() and not path.is_symlink()}
        for output in (self._standard_output, self._standard_error):
            path = _regular_file(output)
            if path is not None:
                found[path.name] = path
        return found


def chunks_of(path: Path, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
    """Yields a part of a file, which may grow meanwhile. Without a length it yields all to the end."""
    left = length
    with path.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(CHUNK_BYTES if left is None else min(left, CHUNK_BYTES)):
            yield chunk
            left = None if left is None else left - len(chunk)


def _regular_file(link: str) -> Path | None:
    """Returns the file behind a descriptor; None if that is no readable file, or has been removed."""
    try:
        facts = os.stat(link)
        path = Path(os.readlink(link)) if link.startswith("/proc/") else Path(link)
        is_there = stat.S_ISREG(facts.st_mode) and os.path.samestat(facts, path.stat()) and os.access(path, os.R_OK)
    except OSError:
        return None
    return path if is_there else None
