"""KeptResults: the committables of a batch job, in files of the JobMaster.

The writers of a sink store their committables here before they finish, and its committer fetches them. So they outlive
the TaskExecutors of the writers. They are in the recovery directory of the job, so they also outlive the JobMaster.
Only *kept* results are stored: those that nobody but a committer reads (`IntermediateResult.is_kept`).

A result is stored in pieces, in order, and becomes visible with the last one. The name of its file is the id of the
result partition, which contains the attempt that wrote it. A file ends with the CRC-32 of the content:

```
  <result partition id>.part      --last piece: checked, synced, renamed-->      <result partition id>.result
```

Thread: any. All calls block.
"""

from __future__ import annotations

import os
import struct
import urllib.parse
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flinkpy.common.durable_file import sync_directory
from flinkpy.common.errors import CommittablesLostError, ExternalError
from flinkpy.common.failpoints import failpoint

#: The name of the directory below the recovery directory of the job.
DIRECTORY_NAME = "committables"
#: The size of a piece: far below the maximum size of a message, and large enough that few calls are needed.
PIECE_BYTES = 4 << 20

_CRC = struct.Struct("<I")
_PART = ".part"
_RESULT = ".result"


@dataclass(frozen=True, slots=True)
class ResultPiece:
    """A piece of a stored result. `crc32` is the checksum of the whole result."""

    data: bytes
    is_last: bool
    crc32: int


class KeptResults:
    """The stored results of one job."""

    def __init__(self, recovery_directory: Path) -> None:
        self._directory = recovery_directory / DIRECTORY_NAME

    def ids(self) -> frozenset[str]:
        """Returns the ids of all stored result partitions. Raises: OSError."""
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return frozenset()
        return frozenset(urllib.parse.unquote(name.removesuffix(_RESULT)) for name in names if name.endswith(_RESULT))

    def write(self, partition_id: str, offset: int, data: bytes) -> None:
        """Writes a piece. A repeated call has no effect. Raises: OSError."""
        target, part = self._paths(partition_id)
        if target.exists():
            return
        if offset == 0:
            self._directory.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT if offset == 0 else 0)
        file = os.open(part, flags, 0o600)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(file, view, offset)
                offset += written
                view = view[written:]
        finally:
            os.close(file)

    def complete(self, partition_id: str, num_bytes: int, crc32: int) -> None:
        """Makes the result visible. It is on disk when this returns. A repeated call has no effect.

        Raises:
            ExternalError: the stored pieces are not the result.
            OSError: the result cannot be written.
        """
        target, part = self._paths(partition_id)
        if target.exists():
            return
        with open(part, "r+b") as file:
            content = file.read(num_bytes)
            if len(content) != num_bytes or zlib.crc32(content) != crc32:
                raise ExternalError(
                    f"{part} does not have the content that was sent", details={"result_partition_id": partition_id}
                )
            file.truncate(num_bytes)
            file.seek(num_bytes)
            file.write(_CRC.pack(crc32))
            file.flush()
            os.fsync(file.fileno())
        failpoint("kept_result.before_rename")
        os.replace(part, target)
        sync_directory(self._directory)
        sync_directory(self._directory.parent)

    def read(self, partition_id: str, offset: int) -> ResultPiece:
        """Returns the piece that begins at `offset`. Raises: CommittablesLostError if the file cannot be read."""
        target, _ = self._paths(partition_id)
        try:
            with open(target, "rb") as file:
                num_bytes = os.fstat(file.fileno()).st_size - _CRC.size
                data = os.pread(file.fileno(), max(0, min(PIECE_BYTES, num_bytes - offset)), offset)
                (crc32,) = _CRC.unpack(os.pread(file.fileno(), _CRC.size, num_bytes))
        except (OSError, struct.error) as error:
            raise lost(partition_id, f"{target} cannot be read: {error}") from error
        return ResultPiece(data, offset + len(data) >= num_bytes, crc32)

    def remove(self, partition_ids: Iterable[str]) -> None:
        """Removes results that nobody needs. Raises: OSError."""
        for partition_id in partition_ids:
            for path in self._paths(partition_id):
                path.unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Removes everything at the end of the job. Raises: OSError."""
        if not self._directory.exists():
            return
        for path in self._directory.iterdir():
            path.unlink(missing_ok=True)
        self._directory.rmdir()

    def _paths(self, partition_id: str) -> tuple[Path, Path]:
        name = urllib.parse.quote(partition_id, safe="#@")
        return self._directory / (name + _RESULT), self._directory / (name + _PART)


def lost(partition_id: str, reason: str) -> CommittablesLostError:
    """Returns the error of a committer that cannot get its committables.

    It fails the job: the writers must not run again, because a part of their output may be committed.
    """
    return CommittablesLostError(
        f"the committables of result partition {partition_id} are lost, and a part of them may be committed: {reason}",
        details={"result_partition_id": partition_id},
    )
