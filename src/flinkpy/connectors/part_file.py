"""PartFile: a file that readers do not see before it is committed.

It is written under a hidden name, `.PREFIX-<uid>-<n>SUFFIX.inprogress.<job>-<subtask>-<attempt>`, forced to the disk,
and given its name, `PREFIX-<uid>-<n>SUFFIX`, when a completed checkpoint has it. The uid is drawn at random by each
writer, so no two attempts, restores or jobs ever mean the same file, and nothing is ever written to a file of another
attempt: an attempt that was given up and does not know it yet spoils nothing.
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

#: One write to the file system is at least so large.
_BUFFER_BYTES = 1 << 20
#: What `link` answers on file systems that have no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
#: What `copy_file_range` answers where the kernel or the file system does not have it.
_NO_RANGE_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class HiddenFile(NamedTuple):
    """What a hidden name says."""

    name: str
    uid: str
    number: int
    subtask_index: int
    attempt_number: int


class PartNaming:
    """The names of one writer's files. Thread: any."""

    def __init__(
        self, prefix: str, suffix: str, uid: str, job_id: str, subtask_index: int, attempt_number: int
    ) -> None:
        self._prefix = prefix
        self._suffix = suffix
        self._uid = uid
        self._owner = f"{job_id}-{subtask_index}-{attempt_number}"
        self._pattern = re.compile(
            rf"\.{re.escape(prefix)}-([0-9a-f]+)-(\d+){re.escape(suffix)}\.inprogress\.{re.escape(job_id)}-(\d+)-(\d+)"
        )

    def final_name(self, number: int) -> str:
        return f"{self._prefix}-{self._uid}-{number}{self._suffix}"

    def hidden_name(self, number: int) -> str:
        return f".{self.final_name(number)}.inprogress.{self._owner}"

    def hidden_file_of_job(self, name: str) -> HiddenFile | None:
        """What the name says, if it is one of any subtask and attempt of this job."""
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        uid, *numbers = match.groups()
        return HiddenFile(name, uid, *map(int, numbers))


class PartFile:
    """A hidden file being written. Thread: task thread.

    Args:
        directory: exists.
        continue_from: (path, length): the file begins with so much of that one.

    Raises:
        StateRestoreError: that one does not have so much.
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
        """Force what was written to the disk; returns its length in bytes."""
        self.file.flush()
        failpoint("file_sink.before_sync")
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> int:
        """Nothing more is written. Returns the length in bytes; all of it is on the disk."""
        size_bytes = self.sync()
        self.file.close()
        return size_bytes

    def abandon(self) -> None:
        """Let go of it; what it had at the checkpoint stays on the disk."""
        _close_quietly(self.file)

    def abort(self) -> None:
        """Leave nothing behind; may be called in any state."""
        try:
            _close_quietly(self.file)
        finally:
            unlink_if_there(self._path)


def make_directory(base_path: str, bucket: str) -> str:
    """The directory of the bucket, which survives a power failure."""
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
    """Give a closed file its name; False: it has had it already. The caller syncs the directory.

    Raises:
        CommitError: the file is gone, or something else has that name.
    """
    hidden, final = os.path.join(directory, hidden_name), os.path.join(directory, final_name)
    failpoint("file_sink.before_link")
    try:
        _link(hidden, final)
    except FileNotFoundError:
        if os.path.lexists(final):
            return False
        raise CommitError(
            f"{hidden} is gone, and {final} was never made: the records of the part file are lost",
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
    """A file that is there is never overwritten."""
    try:
        os.link(hidden, final)
    except FileExistsError:
        # The process died between link and unlink.
        if not os.path.samefile(hidden, final):
            raise CommitError(f"{final} is there already and is not {hidden}", details={"path": final}) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without links there is a gap between the two; nobody else has the name, for it has the writer's uid.
        if os.path.lexists(final):
            raise CommitError(f"{final} is there already and is not {hidden}", details={"path": final}) from error
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
    """What has not been written is not wanted, and writing it may fail (a full disk)."""
    try:
        file.close()
    except OSError:
        # The descriptor is closed all the same.
        return
