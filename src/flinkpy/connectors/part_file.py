"""PartFile: a file that is hidden from readers until it is committed.

It is written under a hidden name, `.PREFIX-<uid>-<n>SUFFIX.inprogress.<job>-<subtask>-<attempt>`, and forced to disk.
It gets its final name, `PREFIX-<uid>-<n>SUFFIX`, when a checkpoint that contains it is complete. Each writer has a
random uid, so attempts and jobs never use the same name, and never write to each other's files. A cancelled attempt
that is still running can therefore do no damage.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import BinaryIO, NamedTuple

from flinkpy.common.durable_file import sync_directory
from flinkpy.common.errors import CommitError, StateRestoreError
from flinkpy.common.failpoints import failpoint

#: The size of the write buffer.
_BUFFER_BYTES = 1 << 20
#: Errors of `link` on file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
#: Errors of `copy_file_range` if the kernel or the file system does not support it.
_NO_RANGE_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class HiddenFile(NamedTuple):
    """The parts of a hidden name."""

    name: str
    uid: str
    number: int
    subtask_index: int
    attempt_number: int


class PartNaming:
    """The names of one writer's files. Thread: any.

    Args:
        is_job_id_complete: False if `job_id` is the beginning of the ids of several jobs, whose files are to be found.
    """

    def __init__(
        self,
        prefix: str,
        suffix: str,
        uid: str,
        job_id: str,
        subtask_index: int,
        attempt_number: int,
        is_job_id_complete: bool = True,
    ) -> None:
        self._prefix = prefix
        self._suffix = suffix
        self._uid = uid
        self._owner = f"{job_id}-{subtask_index}-{attempt_number}"
        job = re.escape(job_id) + ("" if is_job_id_complete else "(?:-[0-9]+)*")
        self._pattern = re.compile(
            rf"\.{re.escape(prefix)}-([0-9a-f]+)-(\d+){re.escape(suffix)}\.inprogress\.{job}-(\d+)-(\d+)"
        )

    def final_name(self, number: int) -> str:
        return f"{self._prefix}-{self._uid}-{number}{self._suffix}"

    def hidden_name(self, number: int) -> str:
        return f".{self.final_name(number)}.inprogress.{self._owner}"

    def hidden_file_of_job(self, name: str) -> HiddenFile | None:
        """Parses a hidden name of any subtask and attempt of this job; returns None for other names."""
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        uid, *numbers = match.groups()
        return HiddenFile(name, uid, *map(int, numbers))


class PartFile:
    """A hidden file that is being written. Thread: task thread.

    Args:
        directory: an existing directory.
        continue_from: (path, length in bytes) of a file whose beginning is copied into this one.

    Raises:
        StateRestoreError: the file to copy from is shorter than that.
    """

    def __init__(
        self, directory: str, hidden_name: str, final_name: str, continue_from: tuple[str, int] | None = None
    ) -> None:
        self.hidden_name = hidden_name
        self.final_name = final_name
        self._directory = directory
        self._path = os.path.join(directory, hidden_name)
        self.file: BinaryIO = open(self._path, "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - owned
        if continue_from is not None:
            try:
                _copy_beginning(*continue_from, self.file)
            except BaseException:
                self.abort()
                raise

    @property
    def size_bytes(self) -> int:
        return self.file.tell()

    def sync(self) -> int:
        """Forces written data to disk. Returns the length in bytes."""
        self.file.flush()
        failpoint("file_sink.before_sync")
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> int:
        """Closes the file after forcing it to disk. Returns the length in bytes."""
        size_bytes = self.sync()
        self.file.close()
        return size_bytes

    def abandon(self) -> None:
        """Closes the file but keeps it, because a checkpoint contains it."""
        _close_quietly(self.file)

    def abort(self) -> None:
        """Deletes the file. May be called in any state."""
        try:
            _close_quietly(self.file)
        finally:
            unlink_if_there(self._path)


def make_directory(base_path: str, bucket: str) -> str:
    """Creates the directory of a bucket durably, and returns it."""
    directory = Path(base_path, bucket)
    missing = []
    parent = directory
    while not parent.is_dir():
        missing.append(parent)
        parent = parent.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
    return str(directory)


def publish(directory: str, hidden_name: str, final_name: str) -> bool:
    """Gives a closed file its final name. Returns False if it already has it. The caller syncs the directory.

    Raises:
        CommitError: the file does not exist, or another file has that name.
    """
    hidden, final = os.path.join(directory, hidden_name), os.path.join(directory, final_name)
    failpoint("file_sink.before_link")
    try:
        _link(hidden, final)
    except FileNotFoundError:
        if os.path.lexists(final):
            return False
        raise CommitError(
            f"{hidden} is missing, and {final} does not exist: the records of the part file are lost",
            details={"path": hidden},
        ) from None
    failpoint("file_sink.before_unlink")
    unlink_if_there(hidden)
    return True


def unlink_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _link(hidden: str, final: str) -> None:
    """Links or renames `hidden` to `final`. Never overwrites an existing file."""
    try:
        os.link(hidden, final)
    except FileExistsError:
        # The process died between link and unlink.
        if not os.path.samefile(hidden, final):
            raise CommitError(f"{final} exists already and is not {hidden}", details={"path": final}) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Check and rename are not atomic, but no other writer uses the name, which contains the writer's uid.
        if os.path.lexists(final):
            raise CommitError(f"{final} exists already and is not {hidden}", details={"path": final}) from error
        os.rename(hidden, final)


def _copy_beginning(path: str, length: int, target: BinaryIO) -> None:
    with open(path, "rb", buffering=0) as source:
        size_bytes = os.fstat(source.fileno()).st_size
        if size_bytes < length:
            raise StateRestoreError(
                f"part file {path} had {length} bytes at the checkpoint, now {size_bytes}", details={"path": path}
            )
        left = length
        while left:
            try:
                copied = os.copy_file_range(source.fileno(), target.fileno(), left)
            except OSError as error:
                if error.errno not in _NO_RANGE_COPY:
                    raise
                data = source.read(min(left, _BUFFER_BYTES))
                os.write(target.fileno(), data)
                copied = len(data)
            left -= copied
    target.seek(0, os.SEEK_END)


def _close_quietly(file: BinaryIO) -> None:
    """Closes a file whose buffered data is not needed. Writing that data may fail, for example on a full disk."""
    try:
        file.close()
    except OSError:
        # The descriptor is closed nevertheless.
        return
